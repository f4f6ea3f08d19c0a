"""Convolutions and pools."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np


def patches(xp: Any, x: Any, kernel: Any, strides: Any, dilations: Any) -> Any:
    """All windows of x over its last axes: [..., outputs, kernel]."""
    count = len(kernel)
    extents = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    axes = tuple(range(x.ndim - count, x.ndim))
    lacking = [max(extent - x.shape[axis], 0) for extent, axis in zip(extents, axes, strict=True)]
    x = padded(xp, x, (*(0,) * count, *lacking))
    windows = xp.lib.stride_tricks.sliding_window_view(x, extents, axis=axes)
    places = [slice(None, 0 if lack else None, step) for lack, step in zip(lacking, strides, strict=True)]
    return windows[(..., *places, *(slice(None, None, step) for step in dilations))]


def padded(xp: Any, x: Any, pads: Any, value: Any = 0) -> Any:
    """x with a margin around its last axes: all begins, then all ends."""
    count = len(pads) // 2
    widths = [(0, 0)] * (x.ndim - count) + [(pads[i], pads[i + count]) for i in range(count)]
    return xp.pad(x, widths, constant_values=value) if any(pads) else x


def summed(xp: Any, rows: Any, columns: Any) -> Any:
    """A matrix product; long sums of single precision are taken in double, the same on every processor."""
    if rows.dtype != xp.float32:
        return rows @ columns
    return (rows.astype(xp.float64) @ columns.astype(xp.float64)).astype(xp.float32)


def conv(
    xp: Any,
    x: Any,
    weight: Any,
    bias: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    groups: int = 1,
) -> Any:
    """The cross-correlation of x with the kernels of weight, one matrix product for each group."""
    count = x.ndim - 2
    ones = (1,) * count
    x = padded(xp, x, pads or (0,) * (2 * count))
    windows = patches(xp, x, weight.shape[2:], strides or ones, dilations or ones)
    batch, channels = x.shape[:2]
    outputs = windows.shape[2 : 2 + count]
    rows = windows.reshape(batch, groups, channels // groups, *windows.shape[2:])
    order = (0, 1, *range(3, 3 + count), 2, *range(3 + count, 3 + 2 * count))
    size = math.prod(weight.shape[1:])
    rows = rows.transpose(order).reshape(batch, groups, math.prod(outputs), size)
    columns = weight.reshape(groups, weight.shape[0] // groups, size).transpose(0, 2, 1)
    result = summed(xp, rows, columns).transpose(0, 1, 3, 2).reshape(batch, weight.shape[0], *outputs)
    return result if bias is None else result + bias.reshape(-1, *ones)


def conv_transpose(
    xp: Any, x: Any, weight: Any, bias: Any, strides: Any, begins: Any, outputs: Any, dilations: Any, groups: int = 1
) -> Any:
    """The transposed convolution: each element of x adds a multiple of its kernel to the result."""
    batch, channels, *spatial = x.shape
    count = len(spatial)
    kernels = weight.reshape(groups, channels // groups, *weight.shape[1:])
    data = x.reshape(batch, groups, channels // groups, math.prod(spatial))
    full = [
        max((size - 1) * stride + (kernel - 1) * dilation + 1, begin + output, 0)
        for size, stride, kernel, dilation, begin, output in zip(
            spatial, strides, weight.shape[2:], dilations, begins, outputs, strict=True
        )
    ]
    result = xp.zeros((batch, groups, weight.shape[1], *full), dtype=x.dtype)
    for place in itertools.product(*(range(size) for size in weight.shape[2:])):
        part = kernels[(..., *place)].transpose(0, 2, 1) @ data
        target = tuple(
            slice(j * dilation, j * dilation + size * stride, stride)
            for j, dilation, size, stride in zip(place, dilations, spatial, strides, strict=True)
        )
        room = result[(..., *target)]
        result[(..., *target)] += part.reshape(batch, groups, weight.shape[1], *spatial)[
            ..., *map(slice, room.shape[3:])
        ]
    crop = tuple(slice(begin, begin + output) for begin, output in zip(begins, outputs, strict=True))
    result = result[(..., *crop)].reshape(batch, groups * weight.shape[1], *outputs)
    return result if bias is None else result + bias.reshape(-1, *(1,) * count)


def pool_windows(
    xp: Any, x: Any, kernel: Any, strides: Any, pads: Any, dilations: Any, outputs: Any, value: Any
) -> Any:
    """The windows of a pool with its margin, as one axis at the end; `outputs` bounds how many there are."""
    count = len(kernel)
    ends = [
        max(0, (output - 1) * stride + (size - 1) * step + 1 - length - begin)
        for output, stride, size, step, length, begin in zip(
            outputs, strides, kernel, dilations, x.shape[-count:], pads, strict=False
        )
    ]
    windows = patches(xp, padded(xp, x, (*pads[:count], *ends), value), kernel, strides, dilations)
    windows = windows[(slice(None), slice(None), *(slice(size) for size in outputs))]
    return windows.reshape(*windows.shape[: 2 + count], math.prod(kernel))


def pool_sizes(shape: Any, kernel: Any, strides: Any, pads: Any, dilations: Any, ceil_mode: bool) -> tuple[int, ...]:
    """How many windows a pool has along each axis; the last one must begin inside of the data or its first margin."""
    count = len(kernel)
    sizes = []
    for i in range(count):
        room = shape[2 + i] + pads[i] + pads[i + count] - (kernel[i] - 1) * dilations[i] - 1
        size = (-(-room // strides[i]) if ceil_mode else room // strides[i]) + 1
        if ceil_mode and (size - 1) * strides[i] >= shape[2 + i] + pads[i]:
            size -= 1
        sizes.append(size)
    return tuple(sizes)


def max_pool(xp: Any, x: Any, kernel: Any, strides: Any, pads: Any, dilations: Any, ceil_mode: bool = False) -> Any:
    """The maximum of each window."""
    lowest = xp.iinfo(x.dtype).min if x.dtype.kind in "iu" else -xp.inf
    outputs = pool_sizes(x.shape, kernel, strides, pads, dilations, ceil_mode)
    return pool_windows(xp, x, kernel, strides, pads, dilations, outputs, lowest).max(axis=-1)


def max_pool_indices(
    xp: Any,
    x: Any,
    kernel: Any,
    strides: Any,
    pads: Any,
    dilations: Any,
    ceil_mode: bool = False,
    column_major: bool = False,
) -> Any:
    """The maximum of each window, and where in x it lies."""
    lowest = xp.iinfo(x.dtype).min if x.dtype.kind in "iu" else -xp.inf
    outputs = pool_sizes(x.shape, kernel, strides, pads, dilations, ceil_mode)
    spatial = x.shape[2:]
    numbers = xp.arange(math.prod(spatial)).reshape(spatial[::-1]).T if column_major else xp.arange(math.prod(spatial))
    planes = xp.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *(1,) * len(spatial)) * math.prod(spatial)
    places = planes + numbers.reshape(spatial)
    given = (kernel, strides, pads, dilations, outputs)
    windows = pool_windows(xp, x, *given, lowest)
    seen = pool_windows(xp, places, *given, -1)
    best = xp.argmax(windows, axis=-1)[..., None]
    where = xp.take_along_axis(seen, best, axis=-1)
    first = xp.take_along_axis(seen, xp.argmax(seen >= 0, axis=-1)[..., None], axis=-1)
    return windows.max(axis=-1), xp.where(where < 0, first, where)[..., 0].astype(xp.int64)


def average_pool(
    xp: Any,
    x: Any,
    kernel: Any,
    strides: Any,
    pads: Any,
    dilations: Any,
    ceil_mode: bool = False,
    count_margin: bool = False,
) -> Any:
    """The mean of each window; the margin counts only where that is asked for."""
    outputs = pool_sizes(x.shape, kernel, strides, pads, dilations, ceil_mode)
    given = (kernel, strides, pads, dilations, outputs)
    total = pool_windows(xp, x, *given, 0).sum(axis=-1)
    ones = xp.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
    if count_margin:
        ones = padded(xp, ones, pads, 1)
        given = (kernel, strides, (0,) * len(pads), dilations, outputs)
    return total / pool_windows(xp, ones, *given, 0).sum(axis=-1)


def lp_pool(
    xp: Any, x: Any, p: int, kernel: Any, strides: Any, pads: Any, dilations: Any, ceil_mode: bool = False
) -> Any:
    """The p-norm of each window."""
    outputs = pool_sizes(x.shape, kernel, strides, pads, dilations, ceil_mode)
    windows = pool_windows(xp, xp.abs(x) ** p, kernel, strides, pads, dilations, outputs, 0)
    return (windows.sum(axis=-1) ** (1 / p)).astype(x.dtype)


def column_to_image(xp: Any, x: Any, image: Any, block: Any, strides: Any, pads: Any, dilations: Any) -> Any:
    """Blocks put back to where they were cut out of an image, added where they overlap."""
    count = len(image)
    sizes = [image[i] + pads[i] + pads[i + count] for i in range(count)]
    outputs = [
        (size - (length - 1) * dilation - 1) // stride + 1
        for size, length, dilation, stride in zip(sizes, block, dilations, strides, strict=True)
    ]
    channels = x.shape[1] // math.prod(block)
    columns = x.reshape(x.shape[0], channels, *block, *outputs)
    result = xp.zeros((x.shape[0], channels, *sizes), dtype=x.dtype)
    for place in itertools.product(*(range(size) for size in block)):
        target = tuple(
            slice(j * dilation, j * dilation + (output - 1) * stride + 1, stride)
            for j, dilation, output, stride in zip(place, dilations, outputs, strides, strict=True)
        )
        result[(..., *target)] += columns[(slice(None), slice(None), *place)]
    return result[(..., *(slice(pads[i], pads[i] + image[i]) for i in range(count)))]


def deform_conv(
    xp: Any,
    x: Any,
    weight: Any,
    offset: Any,
    bias: Any,
    mask: Any,
    strides: Any,
    pads: Any,
    dilations: Any,
    groups: int,
    offset_groups: int,
) -> Any:
    """A convolution of which each tap is moved by an offset and read by bilinear interpolation."""
    batch, channels, height, width = x.shape
    kernel_height, kernel_width = weight.shape[2:]
    rows = (height + pads[0] + pads[2] - dilations[0] * (kernel_height - 1) - 1) // strides[0] + 1
    columns = (width + pads[1] + pads[3] - dilations[1] * (kernel_width - 1) - 1) // strides[1] + 1
    taps = kernel_height * kernel_width
    moved = offset.reshape(batch, offset_groups, taps, 2, rows, columns)
    shares = None if mask is None else mask.reshape(batch, offset_groups, taps, rows, columns)
    cut = np.zeros((batch, channels, taps, rows, columns), dtype=x.dtype)
    per_group = channels // offset_groups
    for g, tap in itertools.product(range(offset_groups), range(taps)):
        i, j = divmod(tap, kernel_width)
        base_y = np.arange(rows)[:, None] * strides[0] - pads[0] + i * dilations[0]
        base_x = np.arange(columns)[None, :] * strides[1] - pads[1] + j * dilations[1]
        for n in range(batch):
            part = slice(g * per_group, (g + 1) * per_group)
            read = bilinear(x[n, part], base_y + moved[n, g, tap, 0], base_x + moved[n, g, tap, 1])
            cut[n, part, tap] = read if shares is None else read * shares[n, g, tap]
    grouped = cut.reshape(batch, groups, channels // groups * taps, rows * columns)
    kernels = weight.reshape(groups, weight.shape[0] // groups, math.prod(weight.shape[1:]))
    result = (kernels @ grouped).reshape(batch, weight.shape[0], rows, columns)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


def bilinear(image: Any, y: Any, x: Any) -> Any:
    """An image read between its pixels; outside of it are zeros."""
    height, width = image.shape[-2:]
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    total = np.zeros((image.shape[0], *y.shape), dtype=image.dtype)
    for dy, dx in itertools.product((0, 1), (0, 1)):
        row, column = top + dy, left + dx
        weight = (1 - np.abs(y - row)) * (1 - np.abs(x - column))
        is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        read = image[:, np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
        total += read * np.where(is_inside, weight, 0).astype(image.dtype)
    return total
