"""Resampling of images and Fourier transforms."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


def resize_axis(
    old: int, new: int, scaling: float, wanted: float, coordinates: str, roi: Any, exact: bool, dtype: Any
) -> Any:
    """Where the elements of a resized axis lie in the original one, computed in a float type."""
    x = np.arange(new, dtype=dtype)
    scale, start, end = (dtype(np.float32(number)) for number in (scaling, *roi))
    size, resized, length = dtype(old), dtype(new), dtype(wanted)

    def back(places: Any) -> Any:
        return places * size / resized if exact else places / scale

    centred = back(x + 0.5) - 0.5
    if coordinates == "asymmetric":
        places = back(x)
    elif coordinates == "align_corners":
        places = x * (size - 1) / (length - 1) if new > 1 else x * 0
    elif coordinates == "tf_crop_and_resize":
        places = x * 0 + 0.5 * (start + end) * (size - 1)
        if new > 1:
            places = start * (size - 1) + x * (end - start) * (size - 1) / (resized - 1)
        return places.astype(np.float32).astype(np.float64)
    elif coordinates == "pytorch_half_pixel":
        places = centred if new > 1 else x * 0
    elif coordinates == "half_pixel_symmetric":
        places = centred if exact else size / 2 * (1 - resized / (scale * size)) + centred
    else:
        places = centred
    return places.astype(np.float64) if exact else places.astype(np.float32).astype(np.float64)


def resize_weights(places: Any, size: int, scale: float, mode: str, antialias: bool, cubic: float, inside: bool) -> Any:
    """For each place the elements near it and their weights."""
    stretch = max(1.0, 1 / scale) if antialias else 1.0
    reach = (2 if mode == "cubic" else 1) * stretch
    near = np.floor(places)[:, None] + np.arange(-np.ceil(reach), np.ceil(reach) + 2)
    t = np.abs(near - places[:, None]) / stretch
    weights = np.clip(1 - t, 0, None)
    if mode == "cubic":
        inner = ((cubic + 2) * t - (cubic + 3)) * t * t + 1
        outer = ((cubic * t - 5 * cubic) * t + 8 * cubic) * t - 4 * cubic
        weights = np.where(t <= 1, inner, np.where(t < 2, outer, 0))
    if inside:
        weights = np.where((near < 0) | (near >= size), 0, weights)
    total = weights.sum(axis=1, keepdims=True)
    return np.clip(near, 0, size - 1).astype(np.int64), weights / np.where(total == 0, 1, total)


def resize_sizes(given: Any, scales: Any, sizes: Any, policy: str) -> tuple[list[int], list[float], list[float]]:
    """The resized sizes, the scales, and the sizes before they are rounded."""
    if scales is not None:
        lengths = [float(np.float32(size) * np.float32(scale)) for size, scale in zip(given, scales, strict=True)]
        return [int(np.floor(length)) for length in lengths], [float(scale) for scale in scales], lengths
    ratios = [wanted / size for size, wanted in zip(given, sizes, strict=True)]
    if policy != "stretch":
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        ratios = [ratio] * len(given)
        sizes = [int(np.floor(ratio * size + 0.5)) for size in given]
    return list(sizes), ratios, [float(size) for size in sizes]


def resize(
    xp: Any,
    x: Any,
    axes: Any,
    scales: Any = None,
    sizes: Any = None,
    roi: Any = None,
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor",
    cubic: float = -0.75,
    antialias: bool = False,
    inside: bool = False,
    policy: str = "stretch",
    fill: float = 0.0,
) -> Any:
    """x resampled to other sizes along some axes, one axis after the other."""
    round_place = {
        "round_prefer_floor": lambda place: np.ceil(place - 0.5),
        "round_prefer_ceil": lambda place: np.floor(place + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }[rounding]
    given = [x.shape[axis] for axis in axes]
    resized, factors, lengths = resize_sizes(given, scales, sizes, policy)
    is_exact = scales is None and policy == "stretch" and mode == "nearest"
    kind = np.float64 if mode == "nearest" else np.float32
    result: Any = x if mode == "nearest" else x.astype(xp.float64)
    outside = []
    for i, axis in enumerate(axes):
        region = (0.0, 1.0) if roi is None else (float(roi[i]), float(roi[i + len(axes)]))
        places = resize_axis(given[i], resized[i], factors[i], lengths[i], coordinates, region, is_exact, kind)
        outside.append((places < 0) | (places > given[i] - 1))
        if mode == "nearest":
            index = np.clip(round_place(places), 0, given[i] - 1).astype(np.int64)
            result = xp.take(result, xp.asarray(index), axis=axis)
        elif given[i] != resized[i] or not np.array_equal(places, np.arange(given[i])):
            near, weights = resize_weights(places, given[i], factors[i], mode, antialias, cubic, inside)
            column = (-1,) + (1,) * (x.ndim - 1 - axis % x.ndim)
            total: Any = 0
            for index, weight in zip(near.T, weights.T, strict=True):
                share = xp.asarray(weight).reshape(column)
                total = total + xp.where(share == 0, 0, xp.take(result, xp.asarray(index), axis=axis) * share)
            result = total
    if coordinates == "tf_crop_and_resize":
        result = result.copy()
        for axis, mask in zip(axes, outside, strict=True):
            result[(slice(None),) * (axis % x.ndim) + (xp.asarray(mask),)] = fill
    if mode != "nearest" and x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        result = xp.clip(xp.rint(result) if antialias else xp.trunc(result), limits.min, limits.max)
    return result.astype(x.dtype)


def reflect(place: Any, low: float, high: float) -> Any:
    """Places folded back into a range as often as needed."""
    span = high - low
    if span <= 0:
        return np.full_like(place, low)
    rest = np.mod(place - low, 2 * span)
    return low + np.where(rest > span, 2 * span - rest, rest)


def fold_places(place: Any, size: int, padding: str, aligned: bool) -> Any:
    """Places moved into an image as a padding mode says."""
    if padding == "border":
        return np.clip(place, 0, size - 1)
    if padding == "reflection":
        return reflect(place, 0.0, size - 1.0) if aligned else reflect(place, -0.5, size - 0.5)
    return place


def read_pixels(image: Any, indices: Any, padding: str, aligned: bool) -> Any:
    """An image at whole places, by the padding mode where they are outside."""
    is_inside = np.ones(indices[0].shape, dtype=bool)
    places = []
    for index, size in zip(indices, image.shape[1:], strict=True):
        folded = fold_places(index, size, padding, aligned)
        is_inside &= (folded > -1) & (folded < size)
        places.append(np.clip(np.nan_to_num(folded), 0, size - 1).astype(np.int64))
    read = image[(slice(None), *places)]
    return np.where(is_inside, read, 0) if padding == "zeros" else read


def grid_sample(x: Any, grid: Any, mode: str, padding: str, aligned: bool) -> Any:
    """x interpolated at the places of a grid, whose coordinates run from -1 to 1, innermost axis first."""
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]), dtype=np.float64)
    for n in range(x.shape[0]):
        neighbours = []
        for axis, size in enumerate(x.shape[2:]):
            position = grid[n, ..., -1 - axis].astype(np.float32 if grid.dtype != np.float64 else np.float64)
            place = (position + 1) / 2 * (size - 1) if aligned else ((position + 1) * size - 1) / 2
            place = place if mode == "cubic" else fold_places(place, size, padding, aligned)
            base = np.floor(place)
            t = place - base
            if mode == "nearest":
                neighbours.append([(np.rint(place), np.ones_like(t))])
            elif mode == "linear":
                neighbours.append([(base, 1 - t), (base + 1, t)])
            else:
                neighbours.append([(base + step, cubic_weight(np.abs(t - step))) for step in (-1, 0, 1, 2)])
        for corner in itertools.product(*neighbours):
            weight = np.prod(np.broadcast_arrays(*(share for _, share in corner)), axis=0)
            pixels = read_pixels(x[n], [index for index, _ in corner], padding, aligned)
            result[n] += np.where(weight == 0, 0, weight * pixels)
    return result.astype(x.dtype)


def cubic_weight(t: Any, a: float = -0.75) -> Any:
    """The weight of a pixel at some distance."""
    inner = ((a + 2) * t - (a + 3)) * t * t + 1
    outer = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, inner, np.where(t >= 2, 0, outer))


def roi_line(place: Any, size: int) -> list[tuple[Any, Any]]:
    """The two neighbours of each place and their weights; none beyond one pixel outside."""
    is_near = (place >= -1) & (place <= size)
    within = np.clip(place, 0, size - 1)
    low = np.floor(within).astype(np.int64)
    return [(low, (1 - (within - low)) * is_near), (np.minimum(low + 1, size - 1), (within - low) * is_near)]


def roi_align(
    x: Any, rois: Any, batch: Any, height: int, width: int, ratio: int, scale: float, mode: str, is_half_pixel: bool
) -> Any:
    """Means or maxima of interpolated points in each bin of each region [x1, y1, x2, y2]."""
    result = np.zeros((len(rois), x.shape[1], height, width), dtype=x.dtype)
    for r, corners in enumerate(rois * np.asarray(scale, rois.dtype) - (0.5 if is_half_pixel else 0)):
        lines = []
        for first, last, bins in ((corners[1], corners[3], height), (corners[0], corners[2], width)):
            size = float(last) - float(first)
            size = size if is_half_pixel else max(size, 1.0)
            count = ratio if ratio > 0 else max(int(np.ceil(size / bins)), 0)
            step = size / bins
            lines.append(
                float(first) + np.arange(bins)[:, None] * step + (np.arange(count) + 0.5) * step / max(count, 1)
            )
        image = x[int(batch[r])]
        parts = []
        ends = (roi_line(lines[0].ravel(), image.shape[1]), roi_line(lines[1].ravel(), image.shape[2]))
        for (row, row_share), (column, column_share) in itertools.product(*ends):
            parts.append(image[:, row[:, None], column[None, :]] * (row_share[:, None] * column_share[None, :]))
        sampled = np.stack(parts).reshape(4, x.shape[1], *lines[0].shape, *lines[1].shape)
        if sampled.size:
            result[r] = sampled.sum(axis=0).mean(axis=(2, 4)) if mode == "avg" else sampled.max(axis=(0, 3, 5))
    return result


def to_complex(x: Any) -> Any:
    """Real and imaginary parts in the last axis as complex numbers."""
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    kind = np.complex128 if x.dtype == np.float64 else np.complex64
    return np.ascontiguousarray(wide).view(kind)[..., 0] if x.shape[-1] == 2 else wide[..., 0].astype(kind)


def dft(xp: Any, x: Any, length: int | None, axis: int, inverse: bool, onesided: bool) -> Any:
    """The Fourier transform along an axis; the last axis holds real and imaginary parts."""
    axis %= x.ndim
    signal = to_complex(x)
    if onesided and inverse:
        size = (2 * (x.shape[axis] - 1)) if length is None else length
        return xp.fft.irfft(signal, size, axis)[..., None].astype(x.dtype)
    size = x.shape[axis] if length is None else length
    if onesided:
        found = xp.fft.rfft(signal.real, size, axis)
    else:
        found = xp.fft.ifft(signal, size, axis) if inverse else xp.fft.fft(signal, size, axis)
    return xp.stack([found.real, found.imag], axis=-1).astype(x.dtype)


def stft(xp: Any, x: Any, step: int, window: Any, length: int | None, onesided: bool) -> Any:
    """The Fourier transforms of overlapping frames of a signal."""
    signal = to_complex(x.astype(xp.float64)) if x.ndim == 3 else x.astype(xp.float64)
    if length is None:
        length = x.shape[1] if window is None else window.shape[0]
    frames = xp.lib.stride_tricks.sliding_window_view(signal, length, axis=1)[:, ::step]
    frames = frames if window is None else frames * window.astype(xp.float64)
    found = xp.fft.rfft(frames.real) if onesided else xp.fft.fft(frames)
    return xp.stack([found.real, found.imag], axis=-1).astype(x.dtype)


def mel_triangles(bins: int, length: int, rate: int, low: float, high: float) -> Any:
    """Triangular filters over a spectrum, one a column, as wide as pitch is heard."""
    first, last = (2595 * np.log10(1 + hertz / 700) for hertz in (low, high))
    mels = first + np.arange(bins + 2) * (last - first) / (bins + 2)
    edges = np.floor((length + 1) * 700 * (10 ** (mels / 2595) - 1) / rate).astype(np.int64)
    place = np.arange(length // 2 + 1)[:, None]
    left, peak, right = edges[:-2], edges[1:-1], edges[2:]
    rising = np.where((place >= left) & (place <= peak), (place - left) / np.maximum(peak - left, 1), 0)
    falling = np.where((place > peak) & (place < right), (right - place) / np.maximum(right - peak, 1), 0)
    return np.where(place == peak, 1.0, rising + falling)
