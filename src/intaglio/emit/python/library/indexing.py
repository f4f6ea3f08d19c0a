"""Gathering, scattering, ordering and cutting."""

from __future__ import annotations

from typing import Any

import numpy as np


def element_places(xp: Any, indices: Any, axis: int, size: int) -> tuple[Any, ...]:
    """The place of each element that indices along one axis name."""
    grid = list(xp.indices(indices.shape, sparse=True))
    grid[axis] = xp.where(indices < 0, indices + size, indices)
    return tuple(grid)


def gather_elements(xp: Any, x: Any, indices: Any, axis: int) -> Any:
    """The elements that indices name along one axis."""
    return x[element_places(xp, indices, axis % x.ndim, x.shape[axis])]


def gather_nd(xp: Any, x: Any, indices: Any, batch: int = 0) -> Any:
    """The slices that the last axis of indices names."""
    grid = xp.indices(indices.shape[:batch], sparse=True)
    leading = tuple(part.reshape(part.shape + (1,) * (indices.ndim - 1 - batch)) for part in grid)
    return x[leading + tuple(indices[..., i] for i in range(indices.shape[-1]))]


def scatter(xp: Any, x: Any, places: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    """x with elements replaced, or combined with updates one after the other."""
    result = x.copy()
    if reduction == "none":
        result[places] = updates
        return result
    function = {"add": xp.add, "mul": xp.multiply, "max": xp.maximum, "min": xp.minimum}[reduction]
    if result.dtype.kind == "V" or result.dtype.type.__module__ == "ml_dtypes":
        wide = result.astype(xp.float32)
        function.at(wide, places, updates.astype(xp.float32))
        return wide.astype(x.dtype)
    function.at(result, places, updates)
    return result


def scatter_elements(xp: Any, x: Any, indices: Any, updates: Any, axis: int, reduction: str = "none") -> Any:
    """x with the elements that indices name along one axis replaced or combined."""
    return scatter(xp, x, element_places(xp, indices, axis % x.ndim, x.shape[axis]), updates, reduction)


def scatter_nd(xp: Any, x: Any, indices: Any, updates: Any, reduction: str = "none") -> Any:
    """x with the slices that the last axis of indices names replaced or combined."""
    places = tuple(indices[..., i] for i in range(indices.shape[-1]))
    return scatter(xp, x, places, updates, reduction)


def tensor_scatter(xp: Any, past: Any, update: Any, starts: Any, axis: int, is_circular: bool) -> Any:
    """A cache with new entries written at each row's own place."""
    result = past.copy()
    rows = xp.moveaxis(result, axis, 1)
    new = xp.moveaxis(update, axis, 1)
    for row in range(past.shape[0]):
        places = (0 if starts is None else int(starts[row])) + xp.arange(new.shape[1])
        rows[row, places % rows.shape[1] if is_circular else places] = new[row]
    return result


def cut(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """The elements from starts to ends along some axes, cut off where they lie outside."""
    places = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = i if axes is None else axes[i]
        size, step = x.shape[axis], 1 if steps is None else steps[i]
        first, last = (place + size if place < 0 else place for place in (start, end))
        if step > 0:
            places[axis] = slice(min(max(first, 0), size), min(max(last, 0), size), step)
        else:
            first, last = min(max(first, 0), size - 1), min(max(last, -1), size - 1)
            places[axis] = slice(first, None if last < 0 else last, step) if size else slice(0, 0)
    return x[tuple(places)]


def pad(xp: Any, x: Any, pads: Any, value: Any = 0, axes: Any = None, mode: str = "constant") -> Any:
    """x with a margin along some axes: all begins, then all ends; a negative margin cuts."""
    chosen = list(range(x.ndim)) if axes is None else [int(axis) % x.ndim for axis in axes]
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(chosen):
        widths[axis] = (int(pads[i]), int(pads[i + len(chosen)]))
    x = x[tuple(slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in zip(x.shape, widths, strict=True))]
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "constant":
        fill = xp.asarray(value).reshape(())[()] if x.dtype.kind != "O" else (value or "")
        return xp.pad(x, widths, constant_values=fill)
    return xp.pad(x, widths, mode=mode)


def center_crop_pad(xp: Any, x: Any, shape: Any, axes: Any) -> Any:
    """The middle of x, cut or padded with zeros."""
    target, source = [slice(None)] * x.ndim, [slice(None)] * x.ndim
    sizes = list(x.shape)
    for axis, size in zip(axes, shape, strict=True):
        rest = abs(size - x.shape[axis]) // 2
        if size > x.shape[axis]:
            target[axis] = slice(rest, rest + x.shape[axis])
        else:
            source[axis] = slice(rest, rest + size)
        sizes[axis] = size
    result = xp.zeros(sizes, dtype=x.dtype)
    result[tuple(target)] = x[tuple(source)]
    return result


def split(xp: Any, x: Any, sizes: Any, axis: int) -> list[Any]:
    """Parts of x of the given sizes along an axis."""
    return xp.split(x, np.cumsum(sizes)[:-1].tolist(), axis=axis)


def split_to_list(xp: Any, x: Any, sizes: Any, axis: int, keep: bool) -> list[Any]:
    """Parts of x along an axis: of the given sizes, of one size, or single slices."""
    total = x.shape[axis]
    if sizes is None or np.ndim(sizes) == 0:
        step = 1 if sizes is None else int(sizes)
        sizes = [min(step, total - start) for start in range(0, total, step)]
    parts = xp.split(x, np.cumsum(sizes)[:-1].tolist(), axis=axis) if len(sizes) else []
    return parts if keep else [part.squeeze(axis) for part in parts]


def top_k(xp: Any, x: Any, count: int, axis: int, largest: bool) -> tuple[Any, Any]:
    """The largest or smallest elements along an axis in order, and their places."""
    if largest:
        order = x.shape[axis] - 1 - xp.flip(xp.argsort(xp.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = xp.argsort(x, axis=axis, kind="stable")
    order = xp.take(order, xp.arange(count), axis=axis).astype(xp.int64)
    return xp.take_along_axis(x, order, axis), order


def arg_extreme(xp: Any, x: Any, function: str, axis: int, keepdims: bool, last: bool) -> Any:
    """The place of the maximum or minimum along an axis, the first or the last of equal ones."""
    find = getattr(xp, function)
    places = x.shape[axis] - 1 - find(xp.flip(x, axis), axis=axis) if last else find(x, axis=axis)
    return (xp.expand_dims(places, axis) if keepdims else xp.asarray(places)).astype(xp.int64)


def unique(x: Any, axis: int | None, is_sorted: bool) -> tuple[Any, ...]:
    """The different elements or slices, where each comes first, which one each element is, and how often they come."""
    data, along = (x.reshape(-1), 0) if axis is None else (x, axis % x.ndim)
    ranks = np.unique(data, return_inverse=True)[1].reshape(data.shape)
    rows = np.moveaxis(ranks, along, 0).reshape(data.shape[along], data.size // max(data.shape[along], 1))
    first, inverse, counts = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)[1:]
    inverse = inverse.reshape(-1)
    if not is_sorted:
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    found = np.take(data, first, axis=along)
    return found, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def one_hot(xp: Any, indices: Any, depth: int, values: Any, axis: int) -> Any:
    """A new axis that holds values[1] at each index and values[0] elsewhere; negative ones count from the end."""
    axis %= indices.ndim + 1
    places = xp.expand_dims(indices.astype(xp.int64), axis)
    wanted = xp.arange(depth).reshape((-1,) + (1,) * (indices.ndim - axis))
    return xp.where((places == wanted) | (places + depth == wanted), values[1], values[0]).astype(values.dtype)


def running(xp: Any, x: Any, function: str, axis: int, exclusive: bool, reverse: bool) -> Any:
    """The running sums or products along an axis."""
    x = xp.flip(x, axis) if reverse else x
    result = getattr(xp, function)(x, axis=axis, dtype=x.dtype)
    if exclusive and x.shape[axis]:
        first = xp.full_like(xp.take(x, xp.asarray([0]), axis=axis), 0 if function == "cumsum" else 1)
        result = xp.concatenate([first, xp.take(result, xp.arange(x.shape[axis] - 1), axis=axis)], axis=axis)
    return xp.flip(result, axis) if reverse else result


def triangle(xp: Any, x: Any, k: int, upper: bool) -> Any:
    """The upper or lower triangle of the last two axes, zero elsewhere."""
    offset = xp.arange(x.shape[-1]) - xp.arange(x.shape[-2])[:, None]
    return xp.where(offset >= k if upper else offset <= k, x, xp.zeros((), dtype=x.dtype))


def reverse_sequence(xp: Any, x: Any, lengths: Any, time_axis: int, batch_axis: int) -> Any:
    """The first elements of each row in reverse, as many as its length tells."""
    rows = xp.moveaxis(x, (batch_axis, time_axis), (0, 1)).copy()
    for row, length in enumerate(lengths.tolist()):
        rows[row, :length] = rows[row, :length][::-1].copy()
    return xp.moveaxis(rows, (0, 1), (batch_axis, time_axis))


def count_range(xp: Any, start: Any, limit: Any, delta: Any, compute: Any) -> Any:
    """The numbers from start in steps of delta up to, but without, limit."""
    first, last, step = (np.asarray(item).astype(compute).reshape(()) for item in (start, limit, delta))
    if first.dtype.kind == "f":
        count = max(int(np.ceil((float(last) - float(first)) / float(step))), 0)
    else:
        count = max(-((int(first) - int(last)) // int(step)), 0)
    return (xp.asarray(first) + xp.arange(count).astype(compute) * xp.asarray(step)).astype(start.dtype)


def suppress(boxes: Any, scores: Any, most: int, overlap: float, least: float | None, centred: bool) -> Any:
    """The best boxes of each class, without those that overlap a better one too much: [batch, class, box]."""
    chosen = [
        (batch, kind, box)
        for batch, kind in np.ndindex(scores.shape[:2])
        for box in best_boxes(boxes[batch], scores[batch, kind], most, overlap, least, centred)
    ]
    return np.array(chosen, dtype=np.int64).reshape(-1, 3)


def best_boxes(boxes: Any, scores: Any, most: int, overlap: float, least: float | None, centred: bool) -> list[int]:
    """The boxes of one class that stay, best first."""
    if centred:
        low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    else:
        low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    area = (high - low).prod(axis=1)
    kept: list[int] = []
    for box in np.argsort(-scores, kind="stable").tolist():
        if len(kept) >= most:
            break
        if least is not None and not scores[box] > least:
            continue
        shared = np.clip(np.minimum(high[box], high[kept]) - np.maximum(low[box], low[kept]), 0, None).prod(axis=1)
        union = area[box] + area[kept] - shared
        if not np.any(np.where(union > 0, shared / np.where(union > 0, union, 1), 0) > overlap):
            kept.append(box)
    return kept
