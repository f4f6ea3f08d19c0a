"""Tensors moved, gathered, scattered and counted."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def reshape(x: Tensor, shape: Tensor, allow_zero: bool = False) -> Tensor:
    """x in another shape, in which 0 stands for the size that x has there."""
    sizes = [x.shape[i] if size == 0 and not allow_zero else size for i, size in enumerate(shape.tolist())]
    return x.reshape(sizes)


def to_integer(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x in an integer type; floats out of range become the nearest integer, and NaN becomes 0."""
    carrier = dtype if torch.iinfo(dtype).bits >= 32 else torch.int32
    limits = torch.iinfo(carrier)
    whole = x.to(torch.float64).nan_to_num(nan=0.0)
    is_large = whole >= limits.max
    inside = torch.where(is_large, 0.0, whole.clamp(min=limits.min)).to(carrier)
    return torch.where(is_large, limits.max, inside).to(dtype)


def unsqueeze(x: Tensor, axes: Any) -> Tensor:
    """x with axes of size 1 put in, at positions of the result."""
    for axis in sorted(axis % (x.ndim + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def expand(x: Tensor, shape: Any) -> Tensor:
    """x broadcast with a shape."""
    return torch.broadcast_to(x, torch.broadcast_shapes(x.shape, tuple(shape)))


def cut(x: Tensor, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Tensor:
    """The elements from starts to ends along some axes, cut off where they lie outside."""
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = i if axes is None else axes[i]
        size, step = x.shape[axis], 1 if steps is None else steps[i]
        first, last = (place + size if place < 0 else place for place in (start, end))
        if step > 0:
            places = range(min(max(first, 0), size), min(max(last, 0), size), step)
        else:
            places = range(min(max(first, 0), size - 1), min(max(last, -1), size - 1), step)
        x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64, device=x.device))
    return x


def pad(x: Tensor, pads: Any, value: Any = 0, axes: Any = None, mode: str = "constant") -> Tensor:
    """x with a margin along some axes: all begins, then all ends; a negative margin cuts, before others are made."""
    chosen = list(range(x.ndim)) if axes is None else [axis % x.ndim for axis in axes]
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(chosen):
        widths[axis] = (int(pads[i]), int(pads[i + len(chosen)]))
    if mode == "constant":
        flat = [width for pair in reversed(widths) for width in pair]
        if x.dtype == torch.bool:
            return functional.pad(x.to(torch.uint8), flat, value=int(bool(value))).to(torch.bool)
        return functional.pad(x, flat, value=value.item() if isinstance(value, Tensor) else value)
    for axis, (first, last) in enumerate(widths):
        x = x.narrow(axis, max(-first, 0), x.shape[axis] + min(first, 0) + min(last, 0))
        before, behind, size = max(first, 0), max(last, 0), x.shape[axis]
        places = torch.arange(-before, size + behind, device=x.device)
        if mode == "edge":
            places = places.clamp(0, size - 1)
        elif mode == "wrap":
            places = places % size
        elif size > 1:
            places = (places % (2 * size - 2)).abs()
            places = torch.where(places >= size, 2 * size - 2 - places, places)
        x = x.index_select(axis, places)
    return x


def gather_elements(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The elements that indices name along one axis."""
    places = indices.to(torch.int64)
    return torch.gather(x, axis, torch.where(places < 0, places + x.shape[axis], places))


def gather_nd(x: Tensor, indices: Tensor, batch: int = 0) -> Tensor:
    """The slices that the last axis of indices names."""
    leading: list[Tensor] = []
    for axis in range(batch):
        shape = [1] * (indices.ndim - 1)
        shape[axis] = x.shape[axis]
        leading.append(torch.arange(x.shape[axis], device=x.device).reshape(shape))
    return x[(*leading, *indices.to(torch.int64).unbind(-1))]


def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str = "none") -> Tensor:
    """x with the elements that indices name along one axis replaced or combined."""
    places = indices.to(torch.int64)
    places = torch.where(places < 0, places + x.shape[axis], places)
    if reduction == "none":
        return torch.scatter(x, axis, places, updates)
    kind = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
    return torch.scatter_reduce(x, axis, places, updates, kind)


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """x with the slices that the last axis of indices names replaced or combined."""
    count = indices.shape[-1]
    sizes = torch.tensor(x.shape[:count], device=x.device)
    steps = torch.tensor([math.prod(x.shape[i + 1 : count]) for i in range(count)], device=x.device)
    places = torch.where(indices < 0, indices + sizes, indices)
    rows = (places * steps).sum(dim=-1).reshape(-1, 1)
    flat = x.reshape(math.prod(x.shape[:count]), math.prod(x.shape[count:]))
    values = updates.reshape(rows.shape[0], flat.shape[1])
    return scatter_elements(flat, rows.expand_as(values), values, 0, reduction).reshape(x.shape)


def top_k(x: Tensor, count: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The largest or smallest elements along an axis in order, the first of equal ones first, and their places."""
    order = torch.sort(x, dim=axis, descending=largest, stable=True).indices.narrow(axis, 0, count)
    return torch.gather(x, axis, order), order


def arg_extreme(x: Tensor, largest: bool, axis: int, keepdim: bool, last: bool) -> Tensor:
    """The place of the maximum or minimum along an axis, the first or the last of equal ones."""
    data = x.flip(axis) if last else x
    found = data.argmax(axis, keepdim) if largest else data.argmin(axis, keepdim)
    return x.shape[axis] - 1 - found if last else found


def one_hot(indices: Tensor, depth: int, values: Tensor, axis: int) -> Tensor:
    """A new axis that holds values[1] at each index and values[0] elsewhere; negative ones count from the end."""
    axis %= indices.ndim + 1
    places = indices.to(torch.int64).unsqueeze(axis)
    wanted = torch.arange(depth, device=indices.device).reshape((-1,) + (1,) * (indices.ndim - axis))
    return torch.where((places == wanted) | (places + depth == wanted), values[1], values[0])


def running(x: Tensor, function: str, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """The running sums or products along an axis."""
    x = x.flip(axis) if reverse else x
    total = x.cumsum(axis, dtype=x.dtype) if function == "cumsum" else x.cumprod(axis, dtype=x.dtype)
    if exclusive and x.shape[axis]:
        first = torch.full_like(x.narrow(axis, 0, 1), 0 if function == "cumsum" else 1)
        total = torch.cat([first, total.narrow(axis, 0, x.shape[axis] - 1)], dim=axis)
    return total.flip(axis) if reverse else total


def reverse_sequence(x: Tensor, lengths: Tensor, time_axis: int, batch_axis: int) -> Tensor:
    """The first elements of each row in reverse, as many as its length tells."""
    rows = x.movedim((batch_axis, time_axis), (0, 1)).clone()
    for row, length in enumerate(lengths.tolist()):
        rows[row, :length] = rows[row, :length].flip(0).clone()
    return rows.movedim((0, 1), (batch_axis, time_axis))


def tensor_scatter(past: Tensor, update: Tensor, starts: Tensor | None, axis: int, is_circular: bool) -> Tensor:
    """A cache with new entries written at each row's own place."""
    rows, new = past.movedim(axis, 1).clone(), update.movedim(axis, 1)
    for row in range(past.shape[0]):
        places = (0 if starts is None else int(starts[row])) + torch.arange(new.shape[1], device=past.device)
        rows[row, places % rows.shape[1] if is_circular else places] = new[row]
    return rows.movedim(1, axis)


def count_range(start: Tensor, limit: Tensor, delta: Tensor, compute: torch.dtype) -> Tensor:
    """The numbers from start in steps of delta up to, but without, limit."""
    first, last, step = (item.to(compute).item() for item in (start, limit, delta))
    count = max(math.ceil((last - first) / step), 0) if compute.is_floating_point else max(-((first - last) // step), 0)
    numbers = torch.arange(int(count), device=start.device).to(compute)
    return (start.to(compute).reshape(()) + numbers * delta.to(compute).reshape(())).to(start.dtype)


def reduce(x: Tensor, function: str, axes: Tensor, keepdim: bool, is_noop: bool) -> Tensor:
    """A reduction along axes that only the run tells; without any, along all or none."""
    chosen = axes.tolist()
    if not chosen and is_noop:
        return x
    dims = sorted((axis % x.ndim for axis in (chosen or range(x.ndim))), reverse=True)
    for axis in dims:
        if x.shape[axis] == 0 and function in ("amax", "amin"):
            shape = [1 if i == axis else size for i, size in enumerate(x.shape)]
            lowest = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
            highest = math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).max
            x = torch.full(shape, lowest if function == "amax" else highest, dtype=x.dtype, device=x.device)
        elif function in ("sum", "prod"):
            x = getattr(x, function)(axis, keepdim=True, dtype=x.dtype)
        else:
            x = getattr(x, function)(axis, keepdim=True)
    return x if keepdim else x.reshape([size for i, size in enumerate(x.shape) if i not in dims])


def center_crop_pad(x: Tensor, shape: Any, axes: Any) -> Tensor:
    """The middle of x, cut or padded with zeros."""
    for axis, size in zip(axes, shape, strict=True):
        rest = abs(size - x.shape[axis]) // 2
        if size <= x.shape[axis]:
            x = x.narrow(axis, rest, size)
        else:
            x = pad(x, (rest, size - x.shape[axis] - rest), axes=(axis,))
    return x


def stack_rows(rows: list[Tensor], shape: tuple[int, ...], dtype: torch.dtype, axis: int = 0) -> Tensor:
    """Tensors as one with an axis more; without any, an empty tensor of their shape."""
    if rows:
        return torch.stack(rows, dim=axis)
    sizes = [max(size, 0) for size in shape]
    sizes.insert(axis % (len(sizes) + 1), 0)
    return torch.zeros(sizes, dtype=dtype)


def split_to_list(x: Tensor, sizes: Any, axis: int, keep: bool) -> list[Tensor]:
    """Parts of x along an axis: of the given sizes, of one size, or single slices."""
    if not x.shape[axis] and not isinstance(sizes, list):
        return []
    parts = list(torch.split(x, 1 if sizes is None else sizes, dim=axis))
    return parts if keep else [part.squeeze(axis) for part in parts]


def inserted(items: list[Any], item: Any, position: int | None = None) -> list[Any]:
    """A list with an item more, at the end or at a position."""
    place = len(items) if position is None else position
    return [*items[:place], item, *items[place:]]


def erased(items: list[Any], position: int = -1) -> list[Any]:
    """A list without one item."""
    place = position % len(items)
    return [*items[:place], *items[place + 1 :]]


def power(x: Tensor, y: Tensor) -> Tensor:
    """x to the power of y in the type of x."""
    if not x.dtype.is_floating_point and not y.dtype.is_floating_point:
        return torch.pow(x, y.clamp(min=0).to(x.dtype)) * (y >= 0)
    return torch.pow(x.to(torch.float64), y.to(torch.float64)).to(x.dtype)


def shift_bits(x: Tensor, count: Tensor, to_left: bool) -> Tensor:
    """Bits shifted; those that leave the type are lost."""
    bits = 8 * x.element_size()
    near = count.clamp(max=bits - 1)
    shifted = x << near if to_left else x >> near
    return shifted if x.dtype.is_signed and not to_left else torch.where(count >= bits, 0, shifted).to(x.dtype)


def suppress(boxes: Tensor, scores: Tensor, most: int, overlap: float, least: float | None, centred: bool) -> Tensor:
    """The best boxes of each class, without those that overlap a better one too much: [batch, class, box]."""
    chosen = [
        (batch, kind, box)
        for batch in range(scores.shape[0])
        for kind in range(scores.shape[1])
        for box in best_boxes(boxes[batch], scores[batch, kind], most, overlap, least, centred)
    ]
    return torch.tensor(chosen, dtype=torch.int64, device=boxes.device).reshape(-1, 3)


def best_boxes(
    boxes: Tensor, scores: Tensor, most: int, overlap: float, least: float | None, centred: bool
) -> list[int]:
    """The boxes of one class that stay, best first."""
    first, second = boxes[:, :2], boxes[:, 2:]
    low, high = (first - second / 2, first + second / 2) if centred else (first.minimum(second), first.maximum(second))
    area = (high - low).prod(dim=1)
    kept: list[int] = []
    for box in torch.sort(scores, descending=True, stable=True).indices.tolist():
        if len(kept) >= most:
            break
        if least is not None and not bool(scores[box] > least):
            continue
        shared = (high[box].minimum(high[kept]) - low[box].maximum(low[kept])).clamp(min=0).prod(dim=1)
        union = area[box] + area[kept] - shared
        if not bool((torch.where(union > 0, shared / union, 0) > overlap).any()):
            kept.append(box)
    return kept
