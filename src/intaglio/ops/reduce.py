"""Reductions along axes: sums, products, extremes, means, norms and the places of extremes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import FLOAT64, INT64
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows, Work
from intaglio.ir.types import Shape, TensorType
from intaglio.ops.arithmetic import truncated_quotient
from intaglio.ops.shared.indices import known, known_integers, resolve_axes, resolve_axis, unknown_shape
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import cast, known_shape, like, wide


def reduced_shape(data: Value, axes: Value | None, keepdims: int, is_noop: bool) -> Shape | None:
    """The shape of a reduction; dims are fresh where the axes are known only at run time."""
    shape = known_shape(data)
    if shape is None:
        return None
    chosen = [] if axes is None else known(axes)
    if chosen is None and axes is not None:
        return _shape_with_unknown_axes(shape, axes, keepdims)
    given = resolve_axes(chosen or [], len(shape))
    removed = given if given else () if is_noop else tuple(range(len(shape)))
    if keepdims:
        return tuple(1 if i in removed else dim for i, dim in enumerate(shape))
    return tuple(dim for i, dim in enumerate(shape) if i not in removed)


def _shape_with_unknown_axes(shape: Shape, axes: Value, keepdims: int) -> Shape | None:
    if keepdims:
        return tuple(dims.fresh() for _ in shape)
    count: Dim | None = axes.shape[0] if axes.tensor.shape else None
    if not isinstance(count, int) or count == 0:
        return None
    return tuple(dims.fresh() for _ in range(len(shape) - count))


class Reduction(Op, abstract=True):
    """A reduction of `data` along `axes`, or along all axes where none are given."""

    keepdims: int = 1
    noop_with_empty_axes: int = 0

    def infer(self, data: Value, axes: Value | None = None) -> TensorType:
        if axes is not None and axes.dtype != INT64:
            raise ShapeError(f"axes is {axes.dtype}, int64 is needed")
        shape = reduced_shape(data, axes, self.keepdims, bool(self.noop_with_empty_axes))
        return data.tensor.with_shape(shape)

    def axes_of(self, data: Array, axes: Array | None) -> tuple[int, ...]:
        """The axes to reduce along, counted from the front."""
        given = () if axes is None else tuple(resolve_axes(axes.ravel(), data.ndim, OperatorError))
        return given if given or self.noop_with_empty_axes else tuple(range(data.ndim))

    def _spread(self, b: Builder, reduced: Value, inputs: Sequence[Value | None]) -> Value:
        """The reduced value in a shape that broadcasts against `data`."""
        data, axes = inputs[0], inputs[1] if len(inputs) > 1 else None
        is_empty = axes is None or known(axes) == []
        if self.keepdims or (is_empty and self.noop_with_empty_axes) or data is None:
            return reduced
        return reduced if axes is None or is_empty else b.Unsqueeze(reduced, axes)  # a scalar fits any shape


class _Primitive(Reduction, abstract=True):
    symbolic = True

    def reference(self, data: Array, axes: Array | None = None) -> Array:
        result = self.combine(widen(data), self.axes_of(data, axes))
        return like(result, data) if data.dtype != object else np.asarray(result, dtype=object)

    def combine(self, data: Array, axes: tuple[int, ...]) -> Any:
        """The reduction in NumPy."""
        raise NotImplementedError


class ReduceSum(_Primitive):
    """The sum along `axes`."""

    keeps_rows = Rows.BY_AXES

    never_fails = True
    work = Work.LINEAR

    def combine(self, data: Array, axes: tuple[int, ...]) -> Any:
        return np.sum(data, axis=axes, keepdims=bool(self.keepdims), dtype=data.dtype)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        bar = self._spread(b, output_bars[0], inputs)
        return b.Expand(bar, b.Shape(inputs[0])), *[None] * (len(inputs) - 1)


class ReduceProd(_Primitive):
    """The product along `axes`."""

    keeps_rows = Rows.BY_AXES

    work = Work.LINEAR

    def combine(self, data: Array, axes: tuple[int, ...]) -> Any:
        return np.prod(data, axis=axes, keepdims=bool(self.keepdims), dtype=data.dtype)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        axes = self._known_axes(inputs)
        bar, partial = self._spread(b, output_bars[0], inputs), [inputs[0]]
        for axis in axes[:-1]:
            partial.append(b.ReduceProd(partial[-1], [axis]))
        for data, axis in zip(partial[::-1], axes[::-1], strict=False):
            others = [b.CumProd(data, b.constant(axis), exclusive=1, reverse=reverse) for reverse in (0, 1)]
            bar = bar * others[0] * others[1]  # a quotient would not do where an element is zero
        return bar, *[None] * (len(inputs) - 1)

    def _known_axes(self, inputs: Sequence[Value | None]) -> list[int]:
        axes = inputs[1] if len(inputs) > 1 else None
        given, data = [] if axes is None else known_integers(axes), inputs[0]
        if given is None or data is None or data.tensor.shape is None:
            raise UnsupportedError("its gradient needs axes and a rank that are known before the run")
        return resolve_axes(given, data.rank) or ([] if self.noop_with_empty_axes else list(range(data.rank)))


class ReduceMean(_Primitive):
    """The mean along `axes`; that of integers is truncated."""

    keeps_rows = Rows.BY_AXES

    never_fails = True
    work = Work.LINEAR
    symbolic = False

    def combine(self, data: Array, axes: tuple[int, ...]) -> Any:
        count = int(np.prod([data.shape[axis] for axis in axes], dtype=np.int64))
        if data.dtype.kind == "f":
            return np.sum(data, axis=axes, keepdims=bool(self.keepdims), dtype=data.dtype) / data.dtype.type(count)
        if count == 0:
            raise OperatorError("the mean of no integers is not defined")
        accumulator = np.uint64 if data.dtype.kind == "u" else np.int64
        total = np.asarray(np.sum(data, axis=axes, keepdims=bool(self.keepdims), dtype=accumulator))
        return truncated_quotient(total, np.asarray(count, accumulator))

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        sized = [cast(b, b.Size(value), inputs[0].dtype) for value in (outputs[0], inputs[0])]
        bar = self._spread(b, output_bars[0] * sized[0] / sized[1], inputs)
        return b.Expand(bar, b.Shape(inputs[0])), *[None] * (len(inputs) - 1)


class _Extreme(_Primitive, abstract=True):
    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        data = inputs[0]
        chosen = cast(b, b.Equal(data, self._spread(b, outputs[0], inputs)), data.dtype)
        axes = inputs[1] if len(inputs) > 1 else None
        ties = b.ReduceSum(chosen, axes, keepdims=1, noop_with_empty_axes=self.noop_with_empty_axes)
        return chosen / ties * self._spread(b, output_bars[0], inputs), *[None] * (len(inputs) - 1)


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min


def _highest(dtype: np.dtype[Any]) -> Any:
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


class ReduceMax(_Extreme):
    """The maximum along `axes`; that of nothing is the lowest value of the type."""

    keeps_rows = Rows.BY_AXES

    never_fails = True
    work = Work.LINEAR

    def combine(self, data: Array, axes: tuple[int, ...]) -> Any:
        if data.dtype == object:
            return np.frompyfunc(dims.maximum, 2, 1).reduce(data, axis=axes, keepdims=bool(self.keepdims))
        return np.max(data, axis=axes, keepdims=bool(self.keepdims), initial=_lowest(data.dtype))


class ReduceMin(_Extreme):
    """The minimum along `axes`; that of nothing is the highest value of the type."""

    keeps_rows = Rows.BY_AXES

    never_fails = True
    work = Work.LINEAR

    def combine(self, data: Array, axes: tuple[int, ...]) -> Any:
        if data.dtype == object:
            return np.frompyfunc(dims.minimum, 2, 1).reduce(data, axis=axes, keepdims=bool(self.keepdims))
        return np.min(data, axis=axes, keepdims=bool(self.keepdims), initial=_highest(data.dtype))


class _Composite(Reduction, abstract=True):
    """A reduction by way of a sum."""

    def sum(self, b: Builder, data: Value, axes: Value | None) -> Value:
        """The sum with this operator's attributes."""
        return b.ReduceSum(data, axes, keepdims=self.keepdims, noop_with_empty_axes=self.noop_with_empty_axes)


class ReduceL1(_Composite):
    """The sum of absolute values along `axes`."""

    keeps_rows = Rows.BY_AXES

    work = Work.LINEAR

    def expand(self, b: Builder, data: Value, axes: Value | None = None) -> Value:
        return cast(b, self.sum(b, b.Abs(wide(b, data)), axes), data.dtype)


class ReduceL2(_Composite):
    """The square root of the sum of squares along `axes`; the root of an integer sum is taken in double precision."""

    keeps_rows = Rows.BY_AXES

    work = Work.LINEAR

    def expand(self, b: Builder, data: Value, axes: Value | None = None) -> Value:
        x = wide(b, data)
        total = self.sum(b, x * x, axes)
        return cast(b, b.Sqrt(total if x.dtype.is_float else cast(b, total, FLOAT64)), data.dtype)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        """The direction of the data; zero where all of it is zero, which has none."""
        length, bar = (self._spread(b, value, inputs) for value in (outputs[0], output_bars[0]))
        zero, one = (b.constant(number, length.dtype) for number in (0, 1))
        is_zero = b.Equal(length, zero)
        slope = b.Where(is_zero, zero, bar) / b.Where(is_zero, one, length)
        return inputs[0] * slope, *[None] * (len(inputs) - 1)


class ReduceLogSum(_Composite):
    """The logarithm of the sum along `axes`."""

    keeps_rows = Rows.BY_AXES

    work = Work.LINEAR

    def expand(self, b: Builder, data: Value, axes: Value | None = None) -> Value:
        total = self.sum(b, wide(b, data), axes)
        return cast(b, b.Log(total if total.dtype.is_float else cast(b, total, FLOAT64)), data.dtype)


class ReduceLogSumExp(_Composite):
    """The logarithm of the sum of exponentials along `axes`, computed without overflow."""

    keeps_rows = Rows.BY_AXES

    work = Work.LINEAR

    def expand(self, b: Builder, data: Value, axes: Value | None = None) -> Value:
        x = wide(b, data) if data.dtype.is_float else cast(b, data, FLOAT64)
        noop = self.noop_with_empty_axes
        top = b.ReduceMax(x, axes, keepdims=1, noop_with_empty_axes=noop)
        shift = b.Where(b.IsInf(top), b.constant(0, x.dtype), top)  # inf - inf would be NaN
        total = b.ReduceSum(b.Exp(x - shift), axes, keepdims=1, noop_with_empty_axes=noop)
        result = b.Log(total) + shift
        return cast(b, result if self.keepdims else self.sum(b, result, axes), data.dtype)


class ReduceSumSquare(_Composite):
    """The sum of squares along `axes`."""

    keeps_rows = Rows.BY_AXES

    work = Work.LINEAR

    def expand(self, b: Builder, data: Value, axes: Value | None = None) -> Value:
        x = wide(b, data)
        return cast(b, self.sum(b, x * x, axes), data.dtype)


class ReductionOrder(Op):
    """The data twice, in an order in which the axes to reduce along are known, and the shape of the reduction.

    Neighbours that are kept, or reduced, alike become one dimension; there are as many as there could be, the first
    ones of size 1. In `rows` what is kept comes first and what is reduced last. In `columns` the last dimension that is
    kept follows behind. One of them holds all elements, with those last that lie side by side, and the other none.
    """

    no_gradient = "it is made when a graph is lowered"
    domain: ClassVar[str] = "intaglio"
    keepdims: int = 1
    noop_with_empty_axes: int = 0

    def infer(self, data: Value, axes: Value) -> tuple[TensorType, ...]:
        kept = reduced_shape(data, axes, self.keepdims, bool(self.noop_with_empty_axes))
        if data.tensor.shape is None or kept is None:
            raise ShapeError("how many dimensions the data and the result have is not known")
        ordered = [data.tensor.with_shape(unknown_shape(2 * _most_runs(data.rank))) for _ in range(2)]
        return *ordered, TensorType(INT64, (len(kept),))

    def reference(self, data: Array, axes: Array) -> tuple[Array, ...]:
        given = resolve_axes(axes.ravel(), data.ndim, OperatorError)
        reduced = given or ([] if self.noop_with_empty_axes else list(range(data.ndim)))
        order = sorted(range(data.ndim), key=lambda axis: axis in reduced)
        halves = [_runs(data.shape, [axis for axis in order if (axis in reduced) == is_last]) for is_last in (0, 1)]
        is_row = all(axis in reduced for axis in _long_axes(data.shape)[-1:])
        rows = data.transpose(order).reshape([*halves[0], *halves[1]])
        columns = np.moveaxis(rows, len(halves[0]) - 1, -1)
        nothing = np.zeros([0 if axis in range(len(halves[0])) else 1 for axis in range(rows.ndim)], data.dtype)
        kept = [1 if axis in reduced else size for axis, size in enumerate(data.shape)]
        left = kept if self.keepdims else [size for axis, size in enumerate(kept) if axis not in reduced]
        found = (rows, np.moveaxis(nothing, len(halves[0]) - 1, -1)) if is_row else (nothing, columns)
        return *found, np.array(left, np.int64)


def _most_runs(rank: int) -> int:
    """How many runs of neighbours that are kept there can be, or of such that are reduced.

    >>> [_most_runs(rank) for rank in range(5)]
    [1, 1, 1, 2, 2]
    """
    return max(1, (rank + 1) // 2)


def _long_axes(shape: Sequence[int]) -> list[int]:
    return [axis for axis, size in enumerate(shape) if size != 1]


def _runs(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    """The sizes of the runs of neighbours among axes, sizes of 1 left out, behind as many ones as there can be more."""
    runs, long, before = list[int](), _long_axes(shape), -2
    for place, axis in enumerate(long):
        if axis in axes:
            runs[len(runs) - (before == place - 1) :] = [(runs[-1] if before == place - 1 else 1) * shape[axis]]
            before = place
    return [1] * (_most_runs(len(shape)) - len(runs)) + runs


class _ArgExtreme(Op, abstract=True):
    axis: int = 0
    keepdims: int = 1
    select_last_index: int = 0

    def infer(self, data: Value) -> TensorType:
        shape = known_shape(data)
        if shape is None:
            return TensorType(INT64, None)
        axis = resolve_axis(self.axis, max(len(shape), 1))
        if not shape:
            return TensorType(INT64, ())
        return TensorType(INT64, shape[:axis] + ((1,) if self.keepdims else ()) + shape[axis + 1 :])

    def reference(self, data: Array) -> Array:
        x = widen(np.atleast_1d(data))
        axis = resolve_axis(self.axis, x.ndim)
        if x.shape[axis] == 0:
            raise OperatorError(f"axis {self.axis} has no elements to choose from")
        found = self.place(np.flip(x, axis) if self.select_last_index else x, axis)
        result = x.shape[axis] - 1 - found if self.select_last_index else found
        result = np.expand_dims(result, axis) if self.keepdims else result
        return result.astype(np.int64).reshape(() if data.ndim == 0 else result.shape)

    def place(self, x: Array, axis: int) -> Any:
        """The index of the first extreme along the axis."""
        raise NotImplementedError


class ArgMax(_ArgExtreme):
    """The index of the maximum along `axis`."""

    keeps_rows = Rows.BY_AXES

    work = Work.LINEAR
    no_gradient = "its results are integers"

    def place(self, x: Array, axis: int) -> Any:
        return np.argmax(x, axis)


class ArgMin(_ArgExtreme):
    """The index of the minimum along `axis`."""

    keeps_rows = Rows.BY_AXES

    work = Work.LINEAR
    no_gradient = "its results are integers"

    def place(self, x: Array, axis: int) -> Any:
        return np.argmin(x, axis)
