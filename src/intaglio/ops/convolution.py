"""Convolution and transposed convolution in any number of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows
from intaglio.ir.requirements import need_at_most, need_multiple
from intaglio.ir.types import Shape, TensorType
from intaglio.ops.shared.indices import check_size, same_dtype
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.open_windows import run_time_pads
from intaglio.ops.shared.operand import along, known_shape, like, require_equal, require_float
from intaglio.ops.shared.products import matrix_product
from intaglio.ops.shared.window import (
    Window,
    extent,
    pad_for_windows,
    resolve_transposed_windows,
    resolve_windows,
    slide,
)


def check_kernel_shape(kernel_shape: Sequence[int] | None, found: Sequence[Dim]) -> None:
    """Raise ShapeError where the attribute `kernel_shape` is not what the weights have."""
    if kernel_shape is None or not len(kernel_shape):
        return
    if len(kernel_shape) != len(found):
        raise ShapeError(f"kernel_shape is {list(kernel_shape)}, the weights have {len(found)} spatial axes")
    for given, size in zip(kernel_shape, found, strict=True):
        require_equal(given, size, "kernel_shape and the weights")


class _Convolution(Op, abstract=True):
    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def windows(self, spatial: Sequence[Dim], kernel: Sequence[Dim]) -> tuple[Window, ...]:
        """The windows along each spatial axis."""
        return resolve_windows(spatial, kernel, self.strides, self.dilations, self.pads, self.auto_pad)

    def infer(self, X: Value, W: Value, B: Value | None = None) -> TensorType:
        require_float(X, W, B)
        dtype = same_dtype(X, W, B)
        if self.group < 1:
            raise ShapeError(f"group is {self.group}, it must be at least 1")
        data, weights = known_shape(X, least=2), known_shape(W, least=2)
        if data is None or weights is None:
            return TensorType(dtype, None)
        if len(data) != len(weights):
            raise ShapeError(f"{X.name} has rank {len(data)} but {W.name} has rank {len(weights)}")
        check_kernel_shape(self.kernel_shape, weights[2:])
        channels = self.output_channels(data, weights)
        if B is not None:
            bias = known_shape(B, rank=1)
            require_equal((bias or (channels,))[0], channels, "the bias and the output channels")
        outputs = tuple(window.output for window in self.windows(data[2:], weights[2:]))
        return TensorType(dtype, (data[0], channels, *outputs))

    def output_channels(self, data: Shape, weights: Shape) -> Dim:
        """The number of output channels, once the input channels are checked."""
        raise NotImplementedError

    def check_groups(self, channels: Dim, what: str) -> None:
        """Raise ShapeError where channels cannot be split into `group` parts."""
        need_multiple(channels, self.group, f"{channels} {what} cannot be split into {self.group} groups")


class Conv(_Convolution):
    """Cross-correlation of X with the kernels W, plus the bias B."""

    keeps_rows = Rows.FIRST

    def output_channels(self, data: Shape, weights: Shape) -> Dim:
        require_equal(data[1], weights[1] * self.group, "the channels of X and of W times group")
        self.check_groups(weights[0], "output channels")
        return weights[0]

    def reference(self, X: Array, W: Array, B: Array | None = None) -> Array:
        result = convolve(widen(X), widen(W), self.windows(X.shape[2:], W.shape[2:]), self.group)
        return like(result if B is None else result + along(widen(B), X.ndim), X)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        x, w = inputs[0], inputs[1]
        windows = self.windows(x.shape[2:], w.shape[2:])
        if not are_covered(windows):
            return NotImplemented
        bars = (
            windows_bar(b, x, w, output_bars[0], windows, self.group),
            _weight_bar(b, x, w, output_bars[0], windows, self.group),
        )
        return bars if len(inputs) == 2 else (*bars, _bias_bar(b, output_bars[0]))

    def smooth_form(self, b: Builder, X: Value, W: Value, B: Value | None = None) -> Value:
        """The convolution of data whose pads are written out, as they depend on sizes that only the run knows."""
        padded = run_time_pads(b, self, X, b.Shape(W, start=2)).pad(b, X)
        named: dict[str, Any] = {"strides": self.strides, "dilations": self.dilations, "group": self.group}
        return b.Conv(padded, W, B, **named)


def are_covered(windows: Sequence[Window]) -> bool:
    """Whether `windows_bar` takes windows: their pads are numbers, and over an open axis each reads some data."""
    pads = [pad for window in windows for pad in (window.begin, window.end)]
    reads = [w.begin == 0 or dims.compare(extent(w.kernel, w.dilation), w.begin) == 1 for w in windows]
    return all(isinstance(pad, int) for pad in pads) and (_are_known(windows) or all(reads))


def _are_known(windows: Sequence[Window]) -> bool:
    return all(isinstance(size, int) for window in windows for size in (window.input, window.kernel))


def _bias_bar(b: Builder, y_bar: Value) -> Value:
    return b.ReduceSum(y_bar, [axis for axis in range(y_bar.rank) if axis != 1], keepdims=0)


def windows_bar(b: Builder, x: Value, w: Value, y_bar: Value, windows: Sequence[Window], group: int) -> Value:
    """The gradient of a Conv's input: each window adds its part; what no window covers at the end is zero."""
    attributes: dict[str, Any] = {
        "strides": tuple(window.stride for window in windows),
        "dilations": tuple(window.dilation for window in windows),
        "group": group,
    }
    has_all = all(window.output == size for window, size in zip(windows, y_bar.shape[2:], strict=True))
    if has_all and _are_known(windows):
        rest = tuple(int(_uncovered(window)) for window in windows)
        return b.ConvTranspose(y_bar, w, **attributes, pads=_pads(windows), output_padding=rest)
    pads = (*_pads(windows)[: len(windows)], *[0] * len(windows))
    rest = tuple(window.stride - 1 for window in windows)  # without it, no windows at all would have a negative size
    covered = b.ConvTranspose(y_bar, w, **attributes, pads=pads, output_padding=rest)
    behind = b.Shape(x, start=2) - b.Shape(covered, start=2)
    return b.Pad(covered, b.Concat(b.constant([0] * len(windows)), behind, axis=0), None, list(range(2, x.rank)))


def _uncovered(window: Window) -> Any:
    return (window.input + window.begin + window.end - (window.kernel - 1) * window.dilation - 1) % window.stride


def _pads(windows: Sequence[Window]) -> tuple[int, ...]:
    """The pads as an attribute; raises UnsupportedError where they depend on sizes that are not known."""
    pads = [*(window.begin for window in windows), *(window.end for window in windows)]
    plain = tuple(pad for pad in pads if isinstance(pad, int))
    if len(plain) != len(pads):
        raise UnsupportedError(f"its gradient needs pads that are known before the run, got {pads}")
    return plain


def _weight_bar(b: Builder, x: Value, w: Value, y_bar: Value, windows: Sequence[Window], group: int) -> Value:
    kernel = tuple(window.kernel for window in windows if isinstance(window.kernel, int))
    named: dict[str, Any] = {
        "strides": tuple(window.stride for window in windows),
        "dilations": tuple(window.dilation for window in windows),
        "pads": _pads(windows),
        "group": group,
    }
    if len(kernel) == len(windows):
        return b.apply(ConvWeightGradient, x, y_bar, kernel_shape=kernel, **named)
    return _weight_product(b, x, y_bar, b.Shape(w, start=2), **named)


def _weight_product(
    b: Builder, x: Value, y_bar: Value, kernel: Value, *, strides: Any, dilations: Any, pads: Any, group: int
) -> Value:
    """A Conv of x with y_bar in the place of kernels, batch and channels exchanged in each group.

    Where there may be no window at all, y_bar gets one of zeros: kernels have at least one element.
    """
    axes = list(range(2, x.rank))
    if not all(dims.compare(size, 0) == 1 for size in y_bar.shape[2:]):
        count = len(axes)
        y_bar = b.Pad(y_bar, b.constant([0] * count + [1] * count), None, axes)
        pads = (*pads[:count], *(end + stride for end, stride in zip(pads[count:], strides, strict=True)))
    found = b.Conv(
        _exchanged(b, x, group, channels_first=True),
        _exchanged(b, y_bar, group, channels_first=False),
        strides=dilations,
        dilations=strides,
        pads=pads,
        group=group,
    )
    cropped = b.Slice(found, [0] * len(axes), kernel, axes)  # a stride may leave a longer rest
    return b.Transpose(cropped, perm=(1, 0, *axes))


class ConvWeightGradient(Op):
    """The gradient of a Conv by its kernels, from its input X and the gradient Y_bar of its output.

    Y_bar may have fewer windows than X holds, as that of a ConvTranspose with output_padding has; the last ones then
    count for nothing. With `channels_last` both have their channels last; the result is as W is.
    """

    domain: ClassVar[str] = "intaglio"
    kernel_shape: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    group: int = 1
    channels_last: int = 0

    def windows(self, spatial: Sequence[Dim]) -> tuple[Window, ...]:
        """The windows along each spatial axis of X."""
        return resolve_windows(spatial, self.kernel_shape, self.strides, self.dilations, self.pads)

    def first(self, shape: Shape) -> Shape:
        """A shape of X or Y_bar with its channels first."""
        return (shape[0], shape[-1], *shape[1:-1]) if self.channels_last else shape

    def infer(self, X: Value, Y_bar: Value) -> TensorType:
        require_float(X, Y_bar)
        dtype, rank = same_dtype(X, Y_bar), len(self.kernel_shape) + 2
        data, bars = known_shape(X, rank=rank), known_shape(Y_bar, rank=rank)
        if data is None or bars is None:
            return TensorType(dtype, None)
        data, bars = self.first(data), self.first(bars)
        require_equal(data[0], bars[0], "the batches of X and of Y_bar")
        for window, found in zip(self.windows(data[2:]), bars[2:], strict=True):
            need_at_most(found, window.output, f"Y_bar has {found} windows along an axis, X holds {window.output}")
        for channels, what in ((data[1], "input channels"), (bars[1], "output channels")):
            need_multiple(channels, self.group, f"{channels} {what} cannot be split into {self.group} groups")
        return TensorType(dtype, (bars[1], dims.floordiv(data[1], self.group), *self.kernel_shape))

    def reference(self, X: Array, Y_bar: Array) -> Array:
        x, bars = (np.moveaxis(a, -1, 1) if self.channels_last else a for a in (widen(X), widen(Y_bar)))
        windows, group = self.windows(x.shape[2:]), self.group
        padded = pad_for_windows(x, windows, 0)
        shape = bars.shape[1] // group, x.shape[1] // group
        by_group = _by_group(bars, group)
        result = np.zeros((group, *shape, *self.kernel_shape), x.dtype)
        for place in product(*(range(size) for size in self.kernel_shape)):
            axes = zip(windows, bars.shape[2:], place, strict=True)
            taken = tuple(_read_at(window, count, j) for window, count, j in axes)
            result[(..., *place)] = matrix_product(by_group, _by_group(padded[(..., *taken)], group).transpose(0, 2, 1))
        return like(result.reshape(group * shape[0], shape[1], *self.kernel_shape), X)

    def expand(self, b: Builder, X: Value, Y_bar: Value) -> Value:
        x, bars = X, Y_bar
        if self.channels_last:
            x, bars = (b.Transpose(v, perm=(0, v.rank - 1, *range(1, v.rank - 1))) for v in (X, Y_bar))
        named: dict[str, Any] = {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}
        return _weight_product(b, x, bars, b.constant(np.array(self.kernel_shape, np.int64)), **named, group=self.group)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        x, y_bar, w_bar = *inputs, output_bars[0]
        if self.channels_last:
            raise UnsupportedError("it has its channels last; differentiate the graph before layouts are chosen")
        named: dict[str, Any] = {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}
        by_y = b.Conv(x, w_bar, group=self.group, **named)
        if by_y.type != y_bar.type:
            axes = list(range(2, x.rank))
            by_y = b.Slice(by_y, [0] * len(axes), b.Shape(y_bar, start=2), axes)
        return windows_bar(b, x, w_bar, y_bar, self.windows(x.shape[2:]), self.group), by_y


def _by_group(array: Array, group: int) -> Array:
    """(batch, channels, ...) as (group, channels of a group, everything else)."""
    batch, channels = array.shape[:2]
    split = array.reshape(batch, group, channels // group, int(np.prod(array.shape[2:], dtype=np.int64)))
    return split.transpose(1, 2, 0, 3).reshape(group, channels // group, batch * split.shape[3])


def _read_at(window: Window, count: int, place: int) -> slice:
    """What the first windows of an axis read at one place of the kernel, in padded data."""
    start = place * window.dilation
    return slice(start, start + (count - 1) * window.stride + 1 if count else start, window.stride)


def _exchanged(b: Builder, value: Value, group: int, channels_first: bool) -> Value:
    """(batch, group * n, ...) as (n, group * batch, ...), or as (group * n, batch, ...)."""
    if group == 1:
        return b.Transpose(value, perm=(1, 0, *range(2, value.rank)))
    tail = list(range(3, value.rank + 1))
    grouped = b.Reshape(
        value,
        b.Concat(
            b.Shape(value, start=0, end=1),
            [group],
            b.Shape(value, start=1, end=2) / [group],
            b.Shape(value, start=2),
            axis=0,
        ),
        allowzero=1,
    )
    turned = b.Transpose(grouped, perm=(2, 1, 0, *tail) if channels_first else (1, 2, 0, *tail))
    outer, middle, inner = (b.Shape(turned, start=i, end=i + 1) for i in range(3))
    merged = [outer, middle * inner] if channels_first else [outer * middle, inner]
    return b.Reshape(turned, b.Concat(*merged, b.Shape(turned, start=3), axis=0), allowzero=1)


def convolve(x: Array, w: Array, windows: Sequence[Window], group: int, fill: Any = 0) -> Array:
    """Grouped cross-correlation as one matrix product per group, in the operands' type."""
    batch, channels = x.shape[:2]
    patches = slide(pad_for_windows(x, windows, fill), windows)
    outputs = patches.shape[2 : 2 + len(windows)]
    grouped = patches.reshape(batch, group, channels // group, *patches.shape[2:])
    count = len(windows)
    order = (0, 1, *range(3, 3 + count), 2, *range(3 + count, 3 + 2 * count))
    size = int(np.prod(w.shape[1:], dtype=np.int64))
    rows = grouped.transpose(order).reshape(batch, group, int(np.prod(outputs, dtype=np.int64)), size)
    columns = w.reshape(group, w.shape[0] // group, size).transpose(0, 2, 1)
    return matrix_product(rows, columns).transpose(0, 1, 3, 2).reshape(batch, w.shape[0], *outputs)


class ConvTranspose(_Convolution):
    """The gradient of Conv: each input element adds a multiple of the kernels W to the output."""

    keeps_rows = Rows.FIRST

    output_padding: tuple[int, ...] | None = None
    output_shape: tuple[int, ...] | None = None

    def windows(self, spatial: Sequence[Dim], kernel: Sequence[Dim]) -> tuple[Window, ...]:
        return resolve_transposed_windows(
            spatial,
            kernel,
            self.strides,
            self.dilations,
            self.pads,
            self.auto_pad,
            self.output_padding,
            self.output_shape,
        )

    def output_channels(self, data: Shape, weights: Shape) -> Dim:
        require_equal(data[1], weights[0], "the channels of X and of W")
        self.check_groups(weights[0], "input channels")
        return dims.product((weights[1], self.group))

    def reference(self, X: Array, W: Array, B: Array | None = None) -> Array:
        windows = self.windows(X.shape[2:], W.shape[2:])
        result = convolve_transposed(widen(X), widen(W), windows, self.group)
        return like(result if B is None else result + along(widen(B), X.ndim), X)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        x, w, y_bar = inputs[0], inputs[1], output_bars[0]
        windows = self.windows(x.shape[2:], w.shape[2:])
        strides, dilations = tuple(w.stride for w in windows), tuple(w.dilation for w in windows)
        x_bar = b.Conv(y_bar, w, strides=strides, dilations=dilations, pads=_pads(windows), group=self.group)
        if x_bar.type != x.type:  # an output that was made larger holds more windows
            axes = list(range(2, x.rank))
            x_bar = b.Slice(x_bar, [0] * len(axes), b.Shape(x, start=2), axes)
        bars = (x_bar, _weight_bar(b, y_bar, w, x, windows, self.group))
        return bars if len(inputs) == 2 else (*bars, _bias_bar(b, y_bar))


def convolve_transposed(x: Array, w: Array, windows: Sequence[Window], group: int) -> Array:
    """Grouped transposed convolution: a strided sum for each position in the kernel."""
    batch, channels, *spatial = x.shape
    columns = w.reshape(group, channels // group, w.shape[1], *w.shape[2:])
    data = x.reshape(batch, group, channels // group, int(np.prod(spatial, dtype=np.int64)))
    sizes = check_size((batch, group, w.shape[1], *(_full_size(window) for window in windows)), x.dtype)
    result = np.zeros(sizes, x.dtype)
    for place in product(*(range(int(window.kernel)) for window in windows)):
        part = matrix_product(columns[(..., *place)].transpose(0, 2, 1), data)
        target = tuple(_strided(window, j) for window, j in zip(windows, place, strict=True))
        result[(..., *target)] += part.reshape(batch, group, w.shape[1], *spatial)
    crop = tuple(slice(int(window.begin), int(window.begin) + int(window.output)) for window in windows)
    return result[(..., *crop)].reshape(batch, group * w.shape[1], *(int(window.output) for window in windows))


def _full_size(window: Window) -> int:
    written = (int(window.input) - 1) * window.stride + (int(window.kernel) - 1) * window.dilation + 1
    return max(written, int(window.begin) + int(window.output), 0)


def _strided(window: Window, place: int) -> slice:
    start, count = place * window.dilation, int(window.input)
    return slice(start, start + count * window.stride - window.stride + 1 if count else start, window.stride)
