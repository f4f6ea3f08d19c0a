"""Windows over tensors by slices: convolutions and means of integers, and pools whose windows differ in size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall

MOST_TAPS = 128
"""Windows of more elements are not written as slices."""


def known_sizes(sizes: Sequence[Any]) -> list[int]:
    """The sizes as numbers; raises where one is open."""
    if not all(isinstance(size, int) for size in sizes):
        raise UnsupportedError("windows over an open size")
    return list(sizes)


def taps(
    c: AtenCall,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    begins: Sequence[int],
    dilation: Sequence[int],
    outputs: Sequence[int],
) -> list[tuple[tuple[int, ...], Value]]:
    """For each place in a window what all windows have there, in the last axes; zero outside of the tensor."""
    if int(np.prod(kernel)) > MOST_TAPS:
        raise UnsupportedError(f"windows of more than {MOST_TAPS} elements, by slices")
    rank, lead = len(kernel), x.rank - len(kernel)
    sizes = known_sizes(x.shape[lead:])
    needed = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(outputs, stride, dilation, kernel, strict=True)]
    ends = [want - size - begin for want, size, begin in zip(needed, sizes, begins, strict=True)]
    pads = [*[0] * lead, *begins, *[0] * lead, *ends]
    padded = c.b.Pad(x, c.vector(pads), c.number(0, x.dtype)) if any(pads) else x
    axes = list(range(lead, lead + rank))
    found: list[tuple[tuple[int, ...], Value]] = []
    for place in product(*map(range, kernel)):
        starts = [p * d for p, d in zip(place, dilation, strict=True)]
        stops = [start + (n - 1) * s + 1 for start, n, s in zip(starts, outputs, stride, strict=True)]
        found.append((place, c.b.Slice(padded, starts, stops, axes, list(stride))))
    return found


def window_sums(
    c: AtenCall, x: Value, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], outputs: Sequence[int]
) -> Value:
    """The sum of each window."""
    values = [value for _, value in taps(c, x, kernel, stride, padding, [1] * len(kernel), outputs)]
    total = values[0]
    for value in values[1:]:
        total = c.b.Add(total, value)
    return total


def window_counts(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    outputs: Sequence[int],
    counts_padding: bool,
) -> Any:
    """By how many elements PyTorch divides the sum of each window."""
    total = np.ones((1,) * len(sizes), np.int64)
    for axis, (size, k, s, p, n) in enumerate(zip(sizes, kernel, stride, padding, outputs, strict=True)):
        starts = np.arange(n) * s - p
        ends = np.minimum(starts + k, size + p)
        inside = np.minimum(ends, size) - np.maximum(starts, 0)
        shape = [1] * len(sizes)
        shape[axis] = n
        total = total * (ends - starts if counts_padding else inside).reshape(shape)
    return total


def convolve(
    c: AtenCall, x: Value, w: Value, stride: Any, padding: Any, dilation: Any, groups: int, outputs: Sequence[int]
) -> Value:
    """A convolution of any numbers: for each place in the window a product of matrices."""
    b, (batch, channels), (features, depth, *kernel) = c.b, x.shape[:2], known_sizes(w.shape)
    total: Value | None = None
    for place, part in taps(c, x, kernel, stride, padding, dilation, outputs):
        columns = c.reshape(part, [batch, groups, depth, int(np.prod(outputs))])
        index = b.constant(np.array([place], np.int64))
        matrix = b.GatherND(b.Transpose(w, perm=(*range(2, w.rank), 0, 1)), index)
        found = b.MatMul(c.reshape(matrix, [groups, features // groups, depth]), columns)
        total = found if total is None else b.Add(total, found)
    assert total is not None, channels
    return c.reshape(total, [batch, features, *outputs])


def spread(c: AtenCall, x: Value, stride: Sequence[int]) -> Value:
    """The tensor with zeros between its elements."""
    for axis, step in enumerate(stride, 2):
        if step == 1:
            continue
        sizes = known_sizes(x.shape[2:])
        size = sizes[axis - 2]
        pads = [0] * (x.rank + 1) + [step - 1 if place == axis + 1 else 0 for place in range(x.rank + 1)]
        wide = c.b.Pad(c.b.Unsqueeze(x, [axis + 1]), c.vector(pads), c.number(0, x.dtype))
        flat = c.reshape(wide, [*x.shape[:axis], size * step, *x.shape[axis + 1 :]])
        x = c.b.Slice(flat, [0], [(size - 1) * step + 1], [axis])
    return x


def adaptive_bounds(size: int, count: int) -> list[tuple[int, int]]:
    """The first and the last index but one of each window of a pool to a given number of windows."""
    return [(place * size // count, -(-(place + 1) * size // count)) for place in range(count)]


def adaptive_means(c: AtenCall, x: Value, sizes: Sequence[int]) -> Value:
    """The means of windows that differ in size, one axis after the other."""
    b = c.b
    for axis, count in enumerate(sizes, x.rank - len(sizes)):
        bounds = adaptive_bounds(known_sizes([x.shape[axis]])[0], count)
        longest = max(last - first for first, last in bounds)
        places = np.array([[min(first + k, last - 1) for k in range(longest)] for first, last in bounds], np.int64)
        is_inside = np.array([[first + k < last for k in range(longest)] for first, last in bounds])
        lengths = is_inside.sum(1)
        behind = [1] * (x.rank - axis - 1)
        mask = b.constant(is_inside.reshape(count, longest, *behind))
        found = b.Where(mask, b.Gather(x, b.constant(places), axis=axis), c.number(0, x.dtype))
        total = b.ReduceSum(found, [axis + 1], keepdims=0)
        x = b.Div(total, b.constant(lengths.reshape(count, *behind), x.dtype))
    return x


def adaptive_places(spatial: Sequence[int], sizes: Sequence[int]) -> Any:
    """For each window the places of its elements in the flattened plane; shorter windows repeat their first."""
    bounds = [adaptive_bounds(size, count) for size, count in zip(spatial, sizes, strict=True)]
    numbers = np.arange(int(np.prod(spatial)), dtype=np.int64).reshape(spatial)
    rows = [
        numbers[tuple(slice(*bounds[axis][place]) for axis, place in enumerate(window))].reshape(-1)
        for window in product(*map(range, sizes))
    ]
    longest = max(len(row) for row in rows)
    return np.stack([np.concatenate([row, np.full(longest - len(row), row[0])]) for row in rows])


def gathered_plane(c: AtenCall, x: Value, places: Any, rank: int) -> Value:
    """The elements at places of flattened planes, in two new axes: windows, and what is in them."""
    lead = x.shape[: x.rank - rank]
    flat = c.reshape(x, [*lead, int(np.prod(known_sizes(x.shape[x.rank - rank :])))])
    return c.b.Gather(flat, c.b.constant(places), axis=len(lead))


def places_at(c: AtenCall, places: Any, best: Value) -> Value:
    """The place in the plane of the best element of each window; `best` has windows last but one, and one number."""
    table = c.b.constant(places)
    lead = best.shape[:-2]
    spread_table = c.expand(table, [*lead, *places.shape])
    return c.b.Squeeze(c.b.GatherElements(spread_table, c.cast(best, INT64), axis=best.rank - 1), [best.rank - 1])
