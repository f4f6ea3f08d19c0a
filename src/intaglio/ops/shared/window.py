"""The size arithmetic of sliding windows, shared by convolution and pooling; every size may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim
from intaglio.ir.op import Array
from intaglio.ir.requirements import need_at_most
from intaglio.ops.shared.indices import check_size
from intaglio.ops.shared.operand import ints

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True)
class Window:
    """The windows along one axis: window `i` reads `i*stride + j*dilation - begin` for each j below `kernel`.

    `begin` and `end` are the effective pads, `output` is the number of windows. In ceil mode the last window may reach
    past the end pad.
    """

    input: Dim
    kernel: Dim
    stride: int
    dilation: int
    begin: Dim
    end: Dim
    output: Dim

    @property
    def reach(self) -> Dim:
        """How far the last window reaches from the start of the begin pad; zero where there is no window."""
        last = (self.output - 1) * self.stride + extent(self.kernel, self.dilation)
        return last if dims.compare(self.output, 0) == 1 else dims.maximum(last, 0)


def extent(kernel: Dim, dilation: int) -> Dim:
    """The number of input elements from a window's first to its last, both counted."""
    return (kernel - 1) * dilation + 1


def output_dim(
    size: Dim, kernel: Dim, stride: int, dilation: int, begin: Dim, end: Dim, ceil_mode: bool = False
) -> Dim:
    """The number of windows along one axis.

    >>> output_dim(224, 7, 2, 1, 3, 3)
    112
    >>> output_dim(dims.symbol("W"), 3, 1, 1, 1, 1)
    W
    """
    room = size + begin + end - extent(kernel, dilation)
    if not ceil_mode:
        return dims.floordiv(room, stride) + 1
    starts_before_end_pad = dims.ceildiv(size + begin, stride)
    return dims.minimum(dims.ceildiv(room, stride) + 1, starts_before_end_pad)


def resolve_pads(
    auto_pad: str,
    pads: Sequence[int] | None,
    input_dims: Sequence[Dim],
    kernel_shape: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[tuple[Dim, Dim], ...]:
    """The effective pads (begin, end) of each axis."""
    count = len(input_dims)
    if auto_pad not in AUTO_PADS:
        raise ShapeError(f"auto_pad is {auto_pad!r}, it must be one of {', '.join(AUTO_PADS)}")
    if auto_pad == "VALID":
        return ((0, 0),) * count
    if auto_pad == "NOTSET":
        given = ints(pads, 2 * count, 0, "pads")
        if any(pad < 0 for pad in given):
            raise ShapeError(f"pads is {list(given)}, no pad may be negative")
        return tuple(zip(given[:count], given[count:], strict=True))
    axes = zip(input_dims, kernel_shape, strides, dilations, strict=True)
    return tuple(_same_pads(auto_pad == "SAME_UPPER", *axis) for axis in axes)


def _same_pads(is_upper: bool, size: Dim, kernel: Dim, stride: int, dilation: int) -> tuple[Dim, Dim]:
    windows = dims.ceildiv(size, stride)
    total = dims.maximum((windows - 1) * stride + extent(kernel, dilation) - size, 0)
    small = dims.floordiv(total, 2)
    return (small, total - small) if is_upper else (total - small, small)


def resolve_windows(
    input_dims: Sequence[Dim],
    kernel_shape: Sequence[Dim],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
) -> tuple[Window, ...]:
    """The windows along each axis with all defaults filled in; raises ShapeError where an attribute is wrong."""
    steps, spread = _steps(kernel_shape, strides, dilations, len(input_dims))
    padding = resolve_pads(auto_pad, pads, input_dims, kernel_shape, steps, spread)
    axes = zip(input_dims, kernel_shape, steps, spread, padding, strict=True)
    if auto_pad.startswith("SAME"):
        return tuple(Window(*axis[:4], *axis[4], dims.ceildiv(axis[0], axis[2])) for axis in axes)
    return tuple(_window(*axis, ceil_mode) for axis in axes)


def _steps(
    kernel_shape: Sequence[Dim], strides: Sequence[int] | None, dilations: Sequence[int] | None, count: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The strides and dilations of each axis; raises ShapeError where they or the kernel are wrong."""
    if len(kernel_shape) != count:
        raise ShapeError(f"kernel_shape is {list(kernel_shape)}, it needs {count} numbers")
    steps, spread = ints(strides, count, 1, "strides"), ints(dilations, count, 1, "dilations")
    known = [size for size in kernel_shape if isinstance(size, int)]
    ints(known, len(known), 1, "kernel_shape")
    for name, numbers in (("kernel_shape", kernel_shape), ("strides", steps), ("dilations", spread)):
        for number in numbers:
            need_at_most(1, number, f"{name} is {list(numbers)}, each number must be at least 1")
    return steps, spread


def _window(size: Dim, kernel: Dim, stride: int, dilation: int, pads: tuple[Dim, Dim], ceil_mode: bool) -> Window:
    output = output_dim(size, kernel, stride, dilation, *pads, ceil_mode)
    message = f"a window of {extent(kernel, dilation)} elements does not fit an axis of {size} with pads {list(pads)}"
    need_at_most(0, output, message)
    return Window(size, kernel, stride, dilation, *pads, output)


def pad_for_windows(x: Array, windows: Sequence[Window], fill: Any) -> Array:
    """The array with its trailing axes padded so that every window lies inside."""
    widths = [(0, 0)] * (x.ndim - len(windows)) + [pad_width(window) for window in windows]
    check_size([size + sum(width) for size, width in zip(x.shape, widths, strict=True)], x.dtype)
    return np.pad(x, widths, constant_values=fill)


def pad_width(window: Window) -> tuple[int, int]:
    """How many elements to add before and behind an axis of known size, so that every window lies inside."""
    begin, size, reach = int(window.begin), int(window.input), int(window.reach)
    return begin, max(int(window.end), reach - begin - size, 0)


def slide(padded: Array, windows: Sequence[Window]) -> Array:
    """A view of all windows of a padded array, of shape [leading axes, windows of each axis, kernel of each axis]."""
    leading = padded.ndim - len(windows)
    axes = zip(windows, padded.shape[leading:], padded.strides[leading:], strict=True)
    steps = [(window, stride) for window, _, stride in axes]
    shape = (*padded.shape[:leading], *(int(w.output) for w in windows), *(int(w.kernel) for w in windows))
    strides = (
        *padded.strides[:leading],
        *(step * window.stride for window, step in steps),
        *(step * window.dilation for window, step in steps),
    )
    return np.lib.stride_tricks.as_strided(padded, shape, strides, writeable=False)


def resolve_transposed_windows(
    input_dims: Sequence[Dim],
    kernel_shape: Sequence[Dim],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
) -> tuple[Window, ...]:
    """The windows of a transposed convolution: element `i` adds to `i*stride + j*dilation - begin` of the output.

    `input` is the size of what is convolved, `output` that of the result.
    """
    count = len(input_dims)
    steps, spread = _steps(kernel_shape, strides, dilations, count)
    padding = resolve_pads(auto_pad, pads, kernel_shape, kernel_shape, steps, spread)
    extra = ints(output_padding, count, 0, "output_padding")
    sizes = zip(input_dims, kernel_shape, steps, spread, extra, strict=True)
    full = [(size - 1) * stride + more + extent(kernel, apart) for size, kernel, stride, apart, more in sizes]
    outputs = [whole - begin - end for whole, (begin, end) in zip(full, padding, strict=True)]
    if output_shape:
        outputs = list[Dim](ints(output_shape[-count:], count, 0, "output_shape"))
    elif auto_pad.startswith("SAME"):
        outputs = [
            dims.minimum(size * stride, whole) for size, stride, whole in zip(input_dims, steps, full, strict=True)
        ]
    if output_shape or auto_pad.startswith("SAME"):
        padding = tuple(_cropped(auto_pad, *axis) for axis in zip(full, outputs, strict=True))
    for output in outputs:
        need_at_most(0, output, f"the pads {[list(pair) for pair in padding]} leave nothing of sizes {full}")
    axes = zip(input_dims, kernel_shape, steps, spread, padding, outputs, strict=True)
    return tuple(
        Window(size, kernel, stride, apart, begin, end, output)
        for size, kernel, stride, apart, (begin, end), output in axes
    )


def _cropped(auto_pad: str, full: Dim, output: Dim) -> tuple[Dim, Dim]:
    """How much to take away before and behind, so that `output` elements stay."""
    total = dims.maximum(full - output, 0)
    small = dims.floordiv(total, 2)
    return (small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small)
