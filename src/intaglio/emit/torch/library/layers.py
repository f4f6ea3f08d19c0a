"""Convolutions, pools and resampling as ONNX defines them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def padded(x: Tensor, pads: Any, value: float = 0) -> Tensor:
    """x with a margin around its last axes: all begins, then all ends."""
    count = len(pads) // 2
    flat = [width for i in reversed(range(count)) for width in (pads[i], pads[i + count])]
    return functional.pad(x, flat, value=value) if any(pads) else x


def pool_windows(x: Tensor, kernel: Any, strides: Any, pads: Any, dilations: Any, outputs: Any, value: float) -> Tensor:
    """The windows of a pool with its margin, as one axis at the end."""
    count = len(kernel)
    ends = [
        max(0, (outputs[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - x.shape[2 + i] - pads[i])
        for i in range(count)
    ]
    x = padded(x, (*pads[:count], *ends), value)
    for i in range(count):
        x = x.unfold(2 + i, (kernel[i] - 1) * dilations[i] + 1, strides[i])[..., :: dilations[i]]
        x = x.narrow(2 + i, 0, outputs[i])
    return x.reshape(*x.shape[: 2 + count], math.prod(kernel))


def pool_sizes(shape: Any, kernel: Any, strides: Any, pads: Any, dilations: Any, ceil_mode: bool) -> tuple[int, ...]:
    """How many windows a pool has along each axis; the last one must begin inside of the data or its first margin."""
    count = len(kernel)
    sizes: list[int] = []
    for i in range(count):
        room = shape[2 + i] + pads[i] + pads[i + count] - (kernel[i] - 1) * dilations[i] - 1
        size = (-(-room // strides[i]) if ceil_mode else room // strides[i]) + 1
        if ceil_mode and (size - 1) * strides[i] >= shape[2 + i] + pads[i]:
            size -= 1
        sizes.append(size)
    return tuple(sizes)


def max_pool(x: Tensor, kernel: Any, strides: Any, pads: Any, dilations: Any, ceil_mode: bool = False) -> Tensor:
    """The maximum of each window."""
    lowest = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    outputs = pool_sizes(x.shape, kernel, strides, pads, dilations, ceil_mode)
    return pool_windows(x, kernel, strides, pads, dilations, outputs, lowest).amax(dim=-1)


def average_pool(
    x: Tensor, kernel: Any, strides: Any, pads: Any, dilations: Any, ceil_mode: bool = False, count_margin: bool = False
) -> Tensor:
    """The mean of each window; the margin counts only where that is asked for."""
    outputs = pool_sizes(x.shape, kernel, strides, pads, dilations, ceil_mode)
    total = pool_windows(x, kernel, strides, pads, dilations, outputs, 0).sum(dim=-1)
    ones = torch.ones((1, 1, *x.shape[2:]), dtype=x.dtype, device=x.device)
    if count_margin:
        ones, pads = padded(ones, pads, 1), (0,) * len(pads)
    return total / pool_windows(ones, kernel, strides, pads, dilations, outputs, 0).sum(dim=-1)


def conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None, strides: Any, begins: Any, outputs: Any, dilations: Any, groups: int
) -> Tensor:
    """The transposed convolution, of which a part is kept."""
    run = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[x.ndim - 3]
    result = run(x, weight, None, stride=strides, dilation=dilations, groups=groups)
    for i, (begin, size) in enumerate(zip(begins, outputs, strict=True)):
        behind = max(begin + size - result.shape[2 + i], 0)
        flat = [0, 0] * (x.ndim - 3 - i) + [0, behind]
        result = functional.pad(result, flat).narrow(2 + i, begin, size)
    return result if bias is None else result + bias.reshape(-1, *(1,) * (x.ndim - 2))


def local_response_norm(x: Tensor, size: int, scale: float, beta: float, bias: float) -> Tensor:
    """x divided by a power of the sum of squares of channels near by."""
    count = x.shape[1]
    squares = functional.pad(x * x, [0, 0] * (x.ndim - 2) + [(size - 1) // 2, size // 2])
    near = squares[:, :count]
    for shift in range(1, size):
        near = near + squares[:, shift : shift + count]
    return x / (near * scale + bias) ** beta


def resize_places(
    old: int, new: int, scaling: float, wanted: float, coordinates: str, roi: Any, exact: bool, dtype: torch.dtype
) -> Tensor:
    """Where the elements of a resized axis lie in the original one, computed in a float type."""
    x = torch.arange(new, dtype=dtype)
    rounded = torch.tensor([scaling, *roi], dtype=torch.float32).to(dtype)
    scale, start, end = rounded.unbind()
    size, resized, length = torch.tensor([old, new, wanted], dtype=dtype).unbind()

    def back(places: Tensor) -> Tensor:
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
        return places.to(torch.float32).to(torch.float64)
    elif coordinates == "pytorch_half_pixel":
        places = centred if new > 1 else x * 0
    elif coordinates == "half_pixel_symmetric":
        places = centred if exact else size / 2 * (1 - resized / (scale * size)) + centred
    else:
        places = centred
    return places.to(torch.float64) if exact else places.to(torch.float32).to(torch.float64)


def resize_weights(
    places: Tensor, size: int, scale: float, mode: str, antialias: bool, cubic: float, inside: bool
) -> tuple[Tensor, Tensor]:
    """For each place the elements near it and their weights."""
    stretch = max(1.0, 1 / scale) if antialias else 1.0
    reach = math.ceil((2 if mode == "cubic" else 1) * stretch)
    near = places.floor()[:, None] + torch.arange(-reach, reach + 2)
    t = (near - places[:, None]).abs() / stretch
    weights = (1 - t).clamp(min=0)
    if mode == "cubic":
        inner = ((cubic + 2) * t - (cubic + 3)) * t * t + 1
        outer = ((cubic * t - 5 * cubic) * t + 8 * cubic) * t - 4 * cubic
        weights = torch.where(t <= 1, inner, torch.where(t < 2, outer, 0))
    if inside:
        weights = torch.where((near < 0) | (near >= size), 0, weights)
    total = weights.sum(dim=1, keepdim=True)
    return near.clamp(0, size - 1).to(torch.int64), weights / torch.where(total == 0, 1, total)


def resize(
    x: Tensor,
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
) -> Tensor:
    """x resampled to other sizes along some axes, one axis after the other."""
    given = [x.shape[axis] for axis in axes]
    if scales is not None:
        factors = [float(scale) for scale in scales]
        rounded = [torch.tensor(a, dtype=torch.float32) * b for a, b in zip(given, factors, strict=True)]
        lengths = [float(length) for length in rounded]
        resized = [math.floor(length) for length in lengths]
    else:
        resized = list(sizes)
        factors = [wanted / size for size, wanted in zip(given, resized, strict=True)]
        if policy != "stretch":
            factors = [min(factors) if policy == "not_larger" else max(factors)] * len(given)
            resized = [math.floor(factor * size + 0.5) for factor, size in zip(factors, given, strict=True)]
        lengths = [float(size) for size in resized]
    is_exact = scales is None and policy == "stretch" and mode == "nearest"
    kind = torch.float64 if mode == "nearest" else torch.float32
    result = x if mode == "nearest" else x.to(torch.float64)
    outside: list[Tensor] = []
    for i, axis in enumerate(axes):
        region = (0.0, 1.0) if roi is None else (float(roi[i]), float(roi[i + len(given)]))
        places = resize_places(given[i], resized[i], factors[i], lengths[i], coordinates, region, is_exact, kind)
        outside.append((places < 0) | (places > given[i] - 1))
        if mode == "nearest":
            found = {"round_prefer_floor": (places - 0.5).ceil(), "round_prefer_ceil": (places + 0.5).floor()}
            index = found.get(rounding, places.floor() if rounding == "floor" else places.ceil())
            result = result.index_select(axis, index.clamp(0, given[i] - 1).to(torch.int64).to(x.device))
        else:
            near, weights = resize_weights(places, given[i], factors[i], mode, antialias, cubic, inside)
            column = (-1,) + (1,) * (x.ndim - 1 - axis % x.ndim)
            total = torch.zeros((), dtype=result.dtype, device=x.device)
            for k in range(near.shape[1]):
                share = weights[:, k].reshape(column).to(x.device)
                taken = result.index_select(axis, near[:, k].to(x.device))
                total = total + torch.where(share == 0, 0, taken * share)
            result = total
    if coordinates == "tf_crop_and_resize":
        for axis, mask in zip(axes, outside, strict=True):
            column = (-1,) + (1,) * (x.ndim - 1 - axis % x.ndim)
            result = torch.where(mask.reshape(column).to(x.device), fill, result)
    if mode != "nearest" and not x.dtype.is_floating_point:
        result = result.round() if antialias else result.trunc()
        result = result.clamp(torch.iinfo(x.dtype).min, torch.iinfo(x.dtype).max)
    return result.to(x.dtype)


def roi_line(place: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """The two neighbours of each place and their weights; none beyond one pixel outside."""
    is_near = (place >= -1) & (place <= size)
    within = place.clamp(0, size - 1)
    low = within.floor().to(torch.int64)
    return [(low, (1 - (within - low)) * is_near), ((low + 1).clamp(max=size - 1), (within - low) * is_near)]


def roi_align(
    x: Tensor, rois: Tensor, batch: Tensor, height: int, width: int, ratio: int, scale: float, mode: str, is_half: bool
) -> Tensor:
    """Means or maxima of interpolated points in each bin of each region [x1, y1, x2, y2]."""
    found: list[Tensor] = []
    for r in range(rois.shape[0]):
        x1, y1, x2, y2 = ((rois[r] * scale).to(torch.float32) - (0.5 if is_half else 0)).tolist()
        lines: list[Tensor] = []
        for first, last, bins in ((y1, y2, height), (x1, x2, width)):
            size = last - first if is_half else max(last - first, 1.0)
            count = ratio if ratio > 0 else max(math.ceil(size / bins), 0)
            points = (torch.arange(count, dtype=torch.float64) + 0.5) * (size / bins) / max(count, 1)
            lines.append(first + torch.arange(bins, dtype=torch.float64)[:, None] * (size / bins) + points)
        image = x[int(batch[r])]
        ends = (roi_line(lines[0].reshape(-1), image.shape[1]), roi_line(lines[1].reshape(-1), image.shape[2]))
        parts = [
            image[:, row[:, None], column[None, :]] * (row_share[:, None] * column_share[None, :])
            for (row, row_share), (column, column_share) in itertools.product(*ends)
        ]
        sampled = torch.stack(parts).reshape(4, x.shape[1], *lines[0].shape, *lines[1].shape)
        if sampled.numel() == 0:  # a region turned inside out has no points
            found.append(x.new_zeros((x.shape[1], height, width)))
        else:
            found.append(sampled.sum(dim=0).mean(dim=(2, 4)) if mode == "avg" else sampled.amax(dim=(0, 3, 5)))
    return torch.stack(found).to(x.dtype) if found else x.new_zeros((0, x.shape[1], height, width))


def dft(x: Tensor, length: int | None, axis: int, inverse: bool, onesided: bool) -> Tensor:
    """The Fourier transform along an axis; the last axis holds real and imaginary parts."""
    axis %= x.ndim
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    signal = torch.view_as_complex(wide.contiguous()) if x.shape[-1] == 2 else wide[..., 0]
    if onesided and inverse:
        size = 2 * (x.shape[axis] - 1) if length is None else length
        return torch.fft.irfft(signal, size, axis).unsqueeze(-1).to(x.dtype)
    size = x.shape[axis] if length is None else length
    if onesided:
        found = torch.fft.rfft(signal.real if signal.is_complex() else signal, size, axis)
    else:
        found = torch.fft.ifft(signal, size, axis) if inverse else torch.fft.fft(signal, size, axis)
    return torch.view_as_real(found.resolve_conj()).to(x.dtype)


def stft(x: Tensor, step: int, window: Tensor | None, length: int | None, onesided: bool) -> Tensor:
    """The Fourier transforms of overlapping frames of a signal."""
    signal = x[..., 0] if x.ndim == 3 and x.shape[-1] == 1 else torch.view_as_complex(x) if x.ndim == 3 else x
    if length is None:
        length = signal.shape[1] if window is None else window.shape[0]
    frames = signal.unfold(1, length, step)
    frames = frames if window is None else frames * window
    return torch.view_as_real(torch.fft.rfft(frames) if onesided else torch.fft.fft(frames)).to(x.dtype)
