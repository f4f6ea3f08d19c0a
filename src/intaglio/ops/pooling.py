"""Pooling: sliding windows, whole images, and the inverse of MaxPool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows
from intaglio.ir.requirements import need_at_most
from intaglio.ir.types import Shape, TensorType
from intaglio.ops.convolution import are_covered, windows_bar
from intaglio.ops.shared.gradient import root
from intaglio.ops.shared.indices import check_size, known, same_dtype
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.open_windows import run_time_pads
from intaglio.ops.shared.operand import cast, ints, known_shape, like, require_equal, require_float, spatial_axes, wide
from intaglio.ops.shared.window import (
    Window,
    pad_for_windows,
    pad_width,
    resolve_transposed_windows,
    resolve_windows,
    slide,
)


class _Windows(Op, abstract=True):
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: tuple[int, ...] | None = None
    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def windows(self, spatial: Sequence[Dim]) -> tuple[Window, ...]:
        """The windows along each spatial axis."""
        return resolve_windows(
            spatial, self.kernel_shape, self.strides, self.dilations, self.pads, self.auto_pad, bool(self.ceil_mode)
        )


class _Pool(_Windows, abstract=True):
    def infer(self, X: Value) -> Any:
        shape = known_shape(X, least=2)
        if shape is None:
            return X.tensor
        outputs = tuple(window.output for window in self.windows(shape[2:]))
        return X.tensor.with_shape(shape[:2] + outputs)


def kernel_axes(windows: Sequence[Window]) -> tuple[int, ...]:
    """The axes of `slide`'s result that run inside a window."""
    return tuple(range(-len(windows), 0))


class MaxPool(_Pool):
    """The maximum of each window, and its place in X flattened (by columns where `storage_order` is 1)."""

    keeps_rows = Rows.FIRST

    chooses_from = 1
    output_names = ("Y", "Indices")
    storage_order: int = 0

    def infer(self, X: Value) -> tuple[TensorType, TensorType]:
        result = super().infer(X)
        return result, result.with_dtype(INT64)

    def reference(self, X: Array) -> tuple[Array, Array]:
        windows = self.windows(X.shape[2:])
        lowest = -np.inf if widen(X).dtype.kind == "f" else np.iinfo(X.dtype).min
        views = slide(pad_for_windows(widen(X), windows, lowest), windows)
        flat = views.reshape(*views.shape[: X.ndim], int(np.prod(views.shape[X.ndim :])))
        best = np.argmax(flat, axis=-1)
        values = np.take_along_axis(flat, best[..., None], -1)[..., 0]
        return like(values, X), self.places(X.shape, windows, self._inside(X.shape, windows, best))

    def _inside(self, shape: tuple[int, ...], windows: Sequence[Window], best: Array) -> Array:
        """The best elements, where a margin is as low as all of X that a window sees: the first inside of X."""
        views = slide(pad_for_windows(np.ones((1, 1, *shape[2:]), bool), windows, False), windows)
        taps = prod(views.shape[len(shape) :])
        inside = np.broadcast_to(views.reshape(*views.shape[: len(shape)], taps), (*best.shape, taps))
        is_inside = np.take_along_axis(inside, best[..., None], -1)[..., 0]
        return np.where(is_inside, best, np.argmax(inside, axis=-1))

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        named = {each.name: getattr(self, each.name) for each in _Windows.attributes()}
        return tuple(b.add(MaxPoolGradient(**named), [inputs[0], outputs[0], output_bars[0]]))

    def places(self, shape: tuple[int, ...], windows: Sequence[Window], best: Array) -> Array:
        """The index into flattened X of the element chosen in each window."""
        inside = np.unravel_index(best, [int(window.kernel) for window in windows])
        places = [
            _starts(window, best.ndim, 2 + axis) + inside[axis] * window.dilation for axis, window in enumerate(windows)
        ]
        spatial = shape[2:]
        sizes = np.cumprod((1, *spatial[:-1])) if self.storage_order else np.cumprod((1, *spatial[:0:-1]))[::-1]
        image = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(*shape[:2], *[1] * len(spatial))
        total = image * int(np.prod(spatial, dtype=np.int64))
        for place, size in zip(places, sizes, strict=True):
            total = total + place * int(size)
        return total.astype(np.int64)


def _starts(window: Window, rank: int, axis: int) -> Array:
    """The place in X of each window's first element, along one axis of the result."""
    starts = np.arange(int(window.output)) * window.stride - int(window.begin)
    return starts.reshape([-1 if i == axis else 1 for i in range(rank)])


class MaxPoolGradient(_Windows):
    """The gradient of MaxPool by X: each of Y_bar is added to the first of the greatest elements under its window.

    Y is what MaxPool made of X. NaN is greater than all numbers, and what windows have outside of X counts for nothing.
    With `channels_last` all three and the result have their channels last.
    """

    domain: ClassVar[str] = "intaglio"
    channels_last: int = 0

    def first(self, shape: Shape) -> Shape:
        """A shape with its channels first."""
        return (shape[0], shape[-1], *shape[1:-1]) if self.channels_last else shape

    def infer(self, X: Value, Y: Value, Y_bar: Value) -> TensorType:
        require_float(X, Y, Y_bar)
        same_dtype(X, Y, Y_bar)
        shape = known_shape(X, least=2)
        for value in (Y, Y_bar):
            found = known_shape(value)
            if shape is None or found is None:
                continue
            data, result = self.first(shape), self.first(found)
            expected = (*data[:2], *(window.output for window in self.windows(data[2:])))
            if len(result) != len(expected):
                raise ShapeError(f"{value.name} has rank {len(result)}, {len(expected)} is needed")
            for left, right in zip(expected, result, strict=True):
                require_equal(left, right, f"the sizes of {value.name} and of the windows of X")
        return X.tensor

    def reference(self, X: Array, Y: Array, Y_bar: Array) -> Array:
        x, y, y_bar = (np.moveaxis(widen(a), -1, 1) if self.channels_last else widen(a) for a in (X, Y, Y_bar))
        windows, rank = self.windows(x.shape[2:]), x.ndim
        views = slide(pad_for_windows(x, windows, 0), windows)
        inside = slide(pad_for_windows(np.ones(x.shape[2:], np.bool_), windows, False), windows)
        top = y.reshape(*y.shape, *[1] * len(windows))
        is_top = ((views == top) | np.isnan(views)) & inside
        flat = is_top.reshape(*y.shape, int(np.prod(is_top.shape[rank:])))
        chosen = flat.any(axis=-1)
        places = MaxPool(kernel_shape=self.kernel_shape).places(x.shape, windows, flat.argmax(axis=-1))
        result = np.zeros(x.size, x.dtype)
        np.add.at(result, places[chosen], y_bar[chosen])
        result = result.reshape(x.shape)
        return like(np.moveaxis(result, 1, -1) if self.channels_last else result, X)

    def expand(self, b: Builder, X: Value, Y: Value, Y_bar: Value) -> Value:
        """The places that MaxPool tells, and a sum over them."""
        x, y_bar = X, Y_bar
        if self.channels_last:
            x, y_bar = (b.Transpose(v, perm=(0, v.rank - 1, *range(1, v.rank - 1))) for v in (X, Y_bar))
        dtype = wide(b, y_bar).dtype
        empty = b.Expand(b.constant(0, dtype), b.Reshape(b.Size(x), [1]))
        bars = [b.Reshape(value, [-1]) for value in (self._places(b, x), wide(b, y_bar))]
        result = b.Reshape(b.ScatterElements(empty, *bars, axis=0, reduction="add"), b.Shape(x), allowzero=1)
        result = cast(b, result, X.dtype)
        return b.Transpose(result, perm=(0, *range(2, x.rank), 1)) if self.channels_last else result

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        if self.channels_last:
            raise UnsupportedError("it has its channels last; differentiate the graph before layouts are chosen")
        return None, None, b.Gather(b.Reshape(output_bars[0], [-1]), self._places(b, inputs[0]))

    def _places(self, b: Builder, x: Value) -> Value:
        """Where the greatest element of each window stands in X flattened."""
        named = {each.name: getattr(self, each.name) for each in _Windows.attributes()}
        return b.add(MaxPool(**named), [x], 2)[1]


class AveragePool(_Pool):
    """The mean of each window, of its elements inside X only unless `count_include_pad`."""

    keeps_rows = Rows.FIRST

    count_include_pad: int = 0

    def reference(self, X: Array) -> Array:
        windows = self.windows(X.shape[2:])
        axes = kernel_axes(windows)
        total = slide(pad_for_windows(widen(X), windows, 0), windows).sum(axis=axes, dtype=widen(X).dtype)
        counts = slide(self._counted(X.shape[2:], windows), windows).sum(axis=axes)
        return like(total / counts.astype(total.dtype), X)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        x = inputs[0]
        windows = self.windows(x.shape[2:])
        is_known = all(isinstance(size, int) for size in x.shape[2:])
        if not is_known and (self.ceil_mode or not are_covered(windows)):
            return NotImplemented
        if self.ceil_mode:
            pads = _pads_with_overhang(windows)
            windows = [replace(w, end=end) for w, end in zip(windows, pads[len(windows) :], strict=True)]
        kernel = b.constant(np.ones((1, 1, *self.kernel_shape)), x.dtype)
        share = b.Div(output_bars[0], self._counts(b, x, kernel))
        flat, bar = (b.Reshape(v, b.Concat(b.constant([-1, 1]), b.Shape(v, start=2), axis=0)) for v in (x, share))
        return (b.Reshape(windows_bar(b, flat, kernel, bar, windows, 1), b.Shape(x), allowzero=1),)

    def smooth_form(self, b: Builder, X: Value) -> Value:
        """Means of data whose pads are written out, as they depend on sizes that only the run knows."""
        pads = run_time_pads(b, self, X, b.constant(np.array(self.kernel_shape, np.int64)))
        named: dict[str, Any] = {
            "kernel_shape": self.kernel_shape,
            "strides": self.strides,
            "dilations": self.dilations,
        }
        share = b.AveragePool(pads.counted(b, X, bool(self.count_include_pad)), **named)
        return b.AveragePool(pads.pad(b, X), **named) / share

    def _counts(self, b: Builder, x: Value, kernel: Value) -> Value:
        """How many elements each window's mean is of, in a shape that broadcasts."""
        if all(isinstance(size, int) for size in x.shape[2:]):
            windows = self.windows(x.shape[2:])
            counts = slide(self._counted([int(size) for size in x.shape[2:]], windows), windows)
            return b.constant(counts.sum(axis=kernel_axes(windows)), x.dtype)
        if self.count_include_pad:
            return b.constant(prod(self.kernel_shape), x.dtype)
        ones = b.Expand(b.constant(1, x.dtype), b.Concat(b.constant([1, 1]), b.Shape(x, start=2), axis=0))
        return b.Conv(
            ones, kernel, strides=self.strides, dilations=self.dilations, pads=self.pads, auto_pad=self.auto_pad
        )

    def _counted(self, spatial: Sequence[int], windows: Sequence[Window]) -> Array:
        """One for each element of the padded image that counts, zero for the others; what hangs over never does."""
        sizes = spatial
        if self.count_include_pad:
            sizes = [size + int(w.begin) + int(w.end) for size, w in zip(spatial, windows, strict=True)]
            windows = [replace(w, input=size, begin=0, end=0) for size, w in zip(sizes, windows, strict=True)]
        return pad_for_windows(np.ones(sizes, np.int64), windows, 0)


class LpPool(_Pool):
    """The p-norm of each window."""

    keeps_rows = Rows.FIRST

    p: int = 2

    def infer(self, X: Value) -> TensorType:
        require_float(X)
        return super().infer(X)

    def reference(self, X: Array) -> Array:
        windows = self.windows(X.shape[2:])
        powers = np.abs(pad_for_windows(widen(X), windows, 0)) ** widen(X).dtype.type(self.p)
        total = slide(powers, windows).sum(axis=kernel_axes(windows), dtype=powers.dtype)
        return like(total ** powers.dtype.type(1 / self.p), X)

    def expand(self, b: Builder, X: Value) -> Value:
        x = wide(b, X)
        window: dict[str, Any] = {"auto_pad": self.auto_pad, "pads": self.pads}
        if self.ceil_mode and all(isinstance(size, int) for size in X.shape[2:]):
            window = {"pads": _pads_with_overhang(self.windows(X.shape[2:]))}
        elif self.ceil_mode:
            window = {}
            x = run_time_pads(b, self, x, b.constant(np.array(self.kernel_shape, np.int64))).pad(b, x)
        window |= {"kernel_shape": self.kernel_shape, "strides": self.strides, "dilations": self.dilations}
        mean = b.AveragePool(b.Abs(x) ** self.p, count_include_pad=1, **window)
        return cast(b, root(b, mean * prod(self.kernel_shape), self.p), X.dtype)


def _pads_with_overhang(windows: Sequence[Window]) -> tuple[int, ...]:
    """Explicit pads with which no window of ceil mode hangs over; sizes must be known."""
    widths = [pad_width(window) for window in windows]
    return (*(begin for begin, _ in widths), *(end for _, end in widths))


class _GlobalPool(Op, abstract=True):
    def infer(self, X: Value) -> TensorType:
        require_float(X)
        shape = known_shape(X, least=2)
        return X.tensor.with_shape(None if shape is None else shape[:2] + (1,) * (len(shape) - 2))


class GlobalAveragePool(_GlobalPool):
    """The mean over all spatial axes."""

    keeps_rows = Rows.FIRST

    def expand(self, b: Builder, X: Value) -> Value:
        return b.ReduceMean(X, spatial_axes(X), noop_with_empty_axes=1)


class GlobalMaxPool(_GlobalPool):
    """The maximum over all spatial axes."""

    keeps_rows = Rows.FIRST

    def expand(self, b: Builder, X: Value) -> Value:
        return b.ReduceMax(X, spatial_axes(X), noop_with_empty_axes=1)


class GlobalLpPool(_GlobalPool):
    """The p-norm over all spatial axes."""

    keeps_rows = Rows.FIRST

    p: int = 2

    def expand(self, b: Builder, X: Value) -> Value:
        x = wide(b, X)
        total = b.ReduceSum(b.Abs(x) ** self.p, spatial_axes(X), noop_with_empty_axes=1)
        return cast(b, root(b, total, self.p), X.dtype)


class MaxUnpool(Op):
    """The elements of X at the places I of a tensor of zeros: the inverse of MaxPool."""

    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def sizes(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """The shape that MaxPool must have had as its input."""
        windows = resolve_transposed_windows(shape[2:], self.kernel_shape, self.strides, None, self.pads)
        return (*shape[:2], *(window.output for window in windows))

    def infer(self, X: Value, I: Value, output_shape: Value | None = None) -> TensorType:
        if I.dtype != INT64:
            raise ShapeError(f"I is {I.dtype}, int64 is needed")
        shape = known_shape(X, least=3)
        if output_shape is None:
            return X.tensor.with_shape(None if shape is None else self.sizes(shape))
        sizes = known(output_shape)
        if sizes is not None:
            for size, least in () if shape is None else zip(sizes, self.sizes(shape), strict=False):
                need_at_most(least, size, f"output_shape is {sizes}, {size} is less than {least}")
            return X.tensor.with_shape(tuple(sizes))
        return X.tensor.with_shape(None if shape is None else tuple(dims.fresh() for _ in shape))

    def reference(self, X: Array, I: Array, output_shape: Array | None = None) -> Array:
        sizes = tuple(int(size) for size in self.sizes(X.shape))
        places = I.ravel()
        count = int(np.prod(sizes, dtype=np.int64))
        if places.size and not (places.min() >= 0 and places.max() < count):
            raise OperatorError(f"indices from {places.min()} to {places.max()}, they must be in [0, {count - 1}]")
        result = np.zeros(check_size(sizes, X.dtype), X.dtype).reshape(-1)
        result[places] = X.ravel()
        result = result.reshape(sizes)
        return result if output_shape is None else _enlarged(result, output_shape)

    def expand(self, b: Builder, X: Value, I: Value, output_shape: Value | None = None) -> Value:
        count = X.rank - 2
        pads = np.array(ints(self.pads, 2 * count, 0, "pads")).reshape(2, count).sum(axis=0)
        strides = np.array(ints(self.strides, count, 1, "strides"))
        spatial = (b.Shape(X, start=2) - 1) * b.constant(strides) + b.constant(np.array(self.kernel_shape) - pads)
        shape = b.Concat(b.Shape(X, start=0, end=2), spatial, axis=0)
        empty = b.Expand(b.constant(0, X.dtype), b.ReduceProd(shape, [0]))
        result = b.Reshape(b.ScatterElements(empty, b.Reshape(I, [-1]), b.Reshape(X, [-1]), axis=0), shape)
        if output_shape is None:
            return result
        more = output_shape - shape
        ends = b.Where(b.Less(more, b.constant(0)), -1 - shape, more)  # a smaller shape is refused, not cut to
        return b.Pad(result, b.Concat(b.constant(np.zeros(X.rank, np.int64)), ends, axis=0))


def _enlarged(x: Array, output_shape: Array) -> Array:
    """The array at the beginning of a larger one of zeros."""
    sizes = [int(size) for size in output_shape.ravel()]
    if len(sizes) != x.ndim or any(size < least for size, least in zip(sizes, x.shape, strict=False)):
        raise OperatorError(f"output_shape is {sizes}, it must be at least {list(x.shape)}")
    check_size(sizes, x.dtype)
    return np.pad(x, [(0, size - least) for size, least in zip(sizes, x.shape, strict=True)])
