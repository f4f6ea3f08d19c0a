"""Operators that change or read shapes, and those that make tensors of a given shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir import requirements
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import FLOAT32, INT64, STRING
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows, Tensor, Work
from intaglio.ir.types import Shape as ShapeTuple
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import (
    Growing,
    check_size,
    first_only,
    integers,
    known,
    known_integers,
    known_length,
    list_length,
    need_integers,
    need_rank,
    need_single,
    numbered_dtype,
    resolve_axes,
    same_dtype,
    sizes_of,
    unknown_shape,
)

Gradients = tuple[Value | None, ...]


class Reshape(Op):
    """The same elements in another shape; in `shape` a 0 copies a dimension and one -1 is computed."""

    keeps_rows = Rows.BY_AXES

    is_view = True
    keeps_order = True
    moves_only = True
    chooses_from = 1
    carries_quantized = True
    never_fails = True
    work = Work.SHORT
    symbolic = True
    allowzero: int = 0

    def infer(self, data: Value, shape: Value) -> TensorType:
        need_integers(shape)
        wanted = known(shape)
        if wanted is None:
            return data.tensor.with_shape(unknown_shape(known_length(shape)))
        if data.tensor.shape is None:
            copied = (-1,) if self.allowzero else (0, -1)
            return data.tensor.with_shape(tuple(dims.fresh() if d in copied else d for d in wanted))
        return data.tensor.with_shape(reshaped(data.shape, wanted, bool(self.allowzero)))

    def reference(self, data: Array, shape: Array) -> Array:
        return data.reshape(reshaped(data.shape, integers(shape), bool(self.allowzero)))  # pyright: ignore

    def prepare(self, *constants: Array | None) -> Callable[..., Any]:
        data, shape = constants
        wanted = [] if shape is None else integers(shape)
        if data is not None or shape is None or any(size == 0 or size < -1 for size in wanted):
            return super().prepare(*constants)
        return lambda array: array.reshape(wanted)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        return first_only(b.Reshape(output_bars[0], b.Shape(inputs[0]), allowzero=1), inputs)


def reshaped(given: ShapeTuple, wanted: list[Dim], allowzero: bool) -> ShapeTuple:
    """The shape that Reshape gives: copies filled in and -1 resolved.

    >>> reshaped((dims.symbol("N"), 6), [0, -1, 2], False)
    (N, 3, 2)
    """
    if any(isinstance(size, int) and size < -1 for size in wanted):
        raise ShapeError(f"the shape {wanted} has a size below -1")
    if wanted.count(-1) > 1:
        raise ShapeError(f"the shape {wanted} leaves more than one size to compute")
    copies = [] if allowzero else [position for position, size in enumerate(wanted) if size == 0]
    if copies and copies[-1] >= len(given):
        raise ShapeError(f"the shape {wanted} copies dimension {copies[-1]} of a tensor of rank {len(given)}")
    _need_plain_sizes(given, wanted, allowzero)
    result: list[Dim] = [given[i] if i in copies else size for i, size in enumerate(wanted)]
    # Copied dimensions are left out of the division, so that a size can be computed although one of them is 0.
    total = dims.product(size for i, size in enumerate(given) if i not in copies)
    rest = dims.product(size for i, size in enumerate(wanted) if i not in copies and size != -1)
    if -1 in wanted:
        message = f"the shape {wanted} does not divide the {total} elements of shape {list(given)}"
        requirements.need_multiple(total, rest, message)
        result[wanted.index(-1)] = dims.floordiv(total, rest)
    else:
        size, message = dims.product(given), f"elements of shape {list(given)} cannot have the shape {result}"
        requirements.need_equal(size, dims.product(result), f"{size} {message}")
    return tuple(result)


def _need_plain_sizes(given: ShapeTuple, wanted: list[Dim], allowzero: bool) -> None:
    """What is known as an expression must be a size in the run, not -1 or a 0 that asks for a copy of another size."""
    for position, size in enumerate(wanted):
        if isinstance(size, dims.Expr):
            message = f"the size {size} of the shape {wanted} asks for another one"
            copied = given[position] if position < len(given) else 1
            requirements.need_at_most(0 if allowzero else dims.minimum(copied, 1), size, message)


class Squeeze(Op):
    """The tensor without the dimensions of size 1 at `axes`, or without all of them."""

    keeps_rows = Rows.BY_AXES

    is_view = True
    keeps_order = True
    moves_only = True
    chooses_from = 1
    carries_quantized = True
    never_fails = True
    work = Work.SHORT
    symbolic = True

    def infer(self, data: Value, axes: Value | None = None) -> TensorType:
        shape, dropped = data.tensor.shape, known_integers(axes)
        if shape is None:
            return data.tensor
        if axes is None:
            if not data.tensor.is_static:
                return data.tensor.with_shape(None)
            dropped = [axis for axis, size in enumerate(shape) if size == 1]
        if dropped is None:
            count = known_length(axes) if axes is not None else None
            return data.tensor.with_shape(unknown_shape(None if count is None else len(shape) - count))
        return data.tensor.with_shape(squeezed(shape, dropped))

    def reference(self, data: Array, axes: Array | None = None) -> Array:
        dropped = [i for i, size in enumerate(data.shape) if size == 1] if axes is None else integers(axes)
        return data.reshape(squeezed(data.shape, dropped))  # pyright: ignore

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        return first_only(b.Reshape(output_bars[0], b.Shape(inputs[0]), allowzero=1), inputs)


def squeezed(shape: ShapeTuple, axes: list[int]) -> ShapeTuple:
    """The shape without some dimensions of size 1; raises where one has another size or is named twice."""
    dropped = set(resolve_axes(axes, len(shape)))
    for axis in sorted(dropped):
        message = f"axis {axis} of shape {list(shape)} has size {shape[axis]}, only size 1 can be squeezed"
        requirements.need_equal(shape[axis], 1, message)
    return tuple(size for axis, size in enumerate(shape) if axis not in dropped)


class Unsqueeze(Op):
    """The tensor with dimensions of size 1 put in, at the positions `axes` of the result."""

    keeps_rows = Rows.BY_AXES

    is_view = True
    keeps_order = True
    moves_only = True
    chooses_from = 1
    carries_quantized = True
    never_fails = True
    work = Work.SHORT
    symbolic = True

    def infer(self, data: Value, axes: Value) -> TensorType:
        shape, added = data.tensor.shape, known_integers(axes)
        if shape is None:
            return data.tensor
        if added is None:
            count = known_length(axes)
            return data.tensor.with_shape(unknown_shape(None if count is None else len(shape) + count))
        return data.tensor.with_shape(unsqueezed(shape, added))

    def reference(self, data: Array, axes: Array) -> Array:
        return data.reshape(unsqueezed(data.shape, integers(axes)))  # pyright: ignore

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        return first_only(b.Reshape(output_bars[0], b.Shape(inputs[0]), allowzero=1), inputs)


def unsqueezed(shape: ShapeTuple, axes: list[int]) -> ShapeTuple:
    """The shape with dimensions of size 1 at the given axes of the result."""
    added = resolve_axes(axes, len(shape) + len(axes))
    rest = iter(shape)
    return tuple(1 if axis in added else next(rest) for axis in range(len(shape) + len(axes)))


class Flatten(Op):
    """A matrix: the dimensions before `axis` as rows, the others as columns."""

    keeps_rows = Rows.BY_AXES

    is_view = True
    keeps_order = True
    moves_only = True
    chooses_from = 1
    carries_quantized = True
    never_fails = True
    work = Work.SHORT
    symbolic = True
    axis: int = 1

    def infer(self, input: Value) -> TensorType:
        if input.tensor.shape is None:
            return input.tensor.with_shape(unknown_shape(2))
        return input.tensor.with_shape(self._shape(input.shape))

    def reference(self, input: Array) -> Array:
        return input.reshape(self._shape(input.shape))  # pyright: ignore

    def _shape(self, shape: ShapeTuple) -> ShapeTuple:
        rank = len(shape)
        if not -rank <= self.axis <= rank:
            raise ShapeError(f"axis {self.axis} is out of range for rank {rank}: expected {-rank} to {rank}")
        axis = self.axis if self.axis >= 0 else self.axis + rank
        return dims.product(shape[:axis]), dims.product(shape[axis:])

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        return (b.Reshape(output_bars[0], b.Shape(inputs[0]), allowzero=1),)


class Shape(Op):
    """The dimensions `start` to `end` of a tensor."""

    keeps_rows = Rows.BY_AXES

    never_fails = True
    work = Work.SHORT
    no_gradient = "its result depends on sizes only"
    symbolic = True
    start: int = 0
    end: int | None = None

    def infer(self, data: Value) -> TensorType:
        shape = data.tensor.shape
        return TensorType(INT64, (dims.fresh(),) if shape is None else (len(shape[self.start : self.end]),))

    def reference(self, data: Array) -> Array:
        return np.asarray(data.shape[self.start : self.end], dtype=np.int64)

    def dims(self, data: Value) -> Any:
        shape = data.tensor.shape
        return None if shape is None else np.array(shape[self.start : self.end], dtype=object)


class Size(Op):
    """The number of elements of a tensor."""

    keeps_rows = Rows.BY_AXES

    never_fails = True
    work = Work.SHORT
    no_gradient = "its result depends on sizes only"
    symbolic = True

    def infer(self, data: Value) -> TensorType:
        del data
        return TensorType(INT64, ())

    def reference(self, data: Array) -> Array:
        return np.asarray(data.size, dtype=np.int64)

    def dims(self, data: Value) -> Any:
        return None if data.tensor.shape is None else np.array(data.tensor.size, dtype=object)


class Expand(Growing):
    """The tensor broadcast with `shape`."""

    keeps_rows = Rows.BY_AXES

    is_view = True
    moves_only = True
    chooses_from = 1
    never_fails = True
    work = Work.SHORT
    repeats = True
    symbolic = True

    def infer(self, input: Value, shape: Value) -> TensorType:
        need_integers(shape)
        given, wanted = input.tensor.shape, sizes_of(shape)
        if given is None or (wanted is None and known_length(shape) is None):
            return input.tensor.with_shape(None)
        if wanted is not None:
            return input.tensor.with_shape(requirements.broadcast_shapes(given, tuple(wanted)))
        rank = max(len(given), known_length(shape) or 0)
        known = (None,) * (rank - len(given)) + given
        sizes = (size if isinstance(size, int) and size != 1 else dims.fresh() for size in known)
        return input.tensor.with_shape(tuple(sizes))

    def reference(self, input: Array, shape: Array) -> Array:
        target = np.broadcast_shapes(input.shape, check_size(integers(shape), input.dtype))
        return np.broadcast_to(input, check_size(target, input.dtype)).copy()

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        from intaglio.ops.shared.gradient import unbroadcast

        return first_only(unbroadcast(b, output_bars[0], inputs[0]), inputs)


class Tile(Growing):
    """The tensor repeated `repeats[i]` times along each axis i."""

    keeps_rows = Rows.BY_AXES

    moves_only = True
    work = Work.SHORT
    repeats = True
    symbolic = True

    def infer(self, input: Value, repeats: Value) -> TensorType:
        need_integers(repeats)
        shape, counts = input.tensor.shape, known(repeats)
        if shape is None:
            return input.tensor.with_shape(unknown_shape(known_length(repeats)))
        length = list_length(repeats)
        requirements.need_equal(length, len(shape), f"{length} repeats for a tensor of rank {len(shape)}")
        if counts is None:
            return input.tensor.with_shape(unknown_shape(len(shape)))
        self._check(counts, len(shape), ShapeError)
        return input.tensor.with_shape(tuple(a * b for a, b in zip(shape, counts, strict=True)))

    def reference(self, input: Array, repeats: Array) -> Array:
        counts = integers(repeats)
        self._check(counts, input.ndim, OperatorError)
        check_size([a * b for a, b in zip(input.shape, counts, strict=True)], input.dtype)
        return np.tile(input, counts)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        data, repeats = inputs
        pairs = b.Concat(b.Unsqueeze(b.Cast(repeats, to=7), [1]), b.Unsqueeze(b.Shape(data), [1]), axis=1)
        copies = b.Reshape(output_bars[0], b.Reshape(pairs, [-1]), allowzero=1)
        return b.ReduceSum(copies, list(range(0, 2 * data.rank, 2)), keepdims=0), None

    def _check(self, counts: list[Any], rank: int, error: type[Exception]) -> None:
        if len(counts) != rank:
            raise error(f"{len(counts)} repeats for a tensor of rank {rank}")
        if any(isinstance(count, int) and count < 0 for count in counts):
            raise error(f"the repeats {counts} have a negative number")


class ConstantOfShape(Growing):
    """A tensor of the shape `input` filled with the one element of `value` (float32 zero by default)."""

    moves_only = True
    repeats = True
    no_gradient = "its result depends on sizes only"
    symbolic = True
    value: Tensor | None = None

    def infer(self, input: Value) -> TensorType:
        need_integers(input)
        sizes = sizes_of(input)
        shape = unknown_shape(known_length(input)) if sizes is None else tuple(sizes)
        return TensorType(self._fill().dtype, shape)

    def reference(self, input: Array) -> Array:
        fill = self._fill().array
        return np.full(check_size(integers(input), fill.dtype), fill.reshape(()), fill.dtype)

    def _fill(self) -> Tensor:
        fill = Tensor(np.zeros(1, np.float32)) if self.value is None else self.value
        if fill.array.size != 1:
            raise ShapeError(f"the value to fill with has {fill.array.size} elements, expected 1")
        return fill


class Range(Growing):
    """The numbers from `start` in steps of `delta` up to, but without, `limit`."""

    repeats = True
    symbolic = True
    stash_type: int = 1

    def infer(self, start: Value, limit: Value, delta: Value) -> TensorType:
        dtype = same_dtype(start, limit, delta)
        for value in (start, limit, delta):
            need_rank(value, 0, 1)
        need_single(start, limit, delta)
        if all(value.constant is not None for value in (start, limit, delta)):
            count = self._count(start.constant, limit.constant, delta.constant)
            return TensorType(dtype, (count,))
        ends = [known(value) for value in (start, limit, delta)]
        if any(end is None or len(end) != 1 for end in ends):
            return TensorType(dtype, (dims.fresh(),))
        first, last, step = (end[0] for end in ends if end)
        if not isinstance(step, int) or step == 0:
            return TensorType(dtype, (dims.fresh(),))
        return TensorType(dtype, (dims.maximum(dims.ceildiv(last - first, step), 0),))

    def reference(self, start: Array, limit: Array, delta: Array) -> Array:
        count, dtype = self._count(start, limit, delta), start.dtype
        check_size((count,), dtype)
        if dtype.kind == "O":
            return np.array([start.item() + i * delta.item() for i in range(count)], dtype=object)
        compute = self._compute_dtype(dtype)
        first, step = start.astype(compute).reshape(()), delta.astype(compute).reshape(())
        return (first + np.arange(count).astype(compute) * step).astype(dtype)

    def _count(self, start: Any, limit: Any, delta: Any) -> int:
        compute = self._compute_dtype(start.dtype)
        first, last, step = (np.asarray(item).astype(compute).item() for item in (start, limit, delta))
        if step == 0:
            raise OperatorError("delta is 0, a range needs a step")
        if isinstance(first, float):
            steps = (last - first) / step
            if not math.isfinite(steps):
                raise OperatorError(f"a range from {first} to {last} in steps of {step} has no length")
            return max(math.ceil(steps), 0)
        return max(-((first - last) // step), 0)

    def _compute_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        is_half = dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
        return np.dtype(np.float32) if is_half and self.stash_type == 1 else dtype

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        """Linear in the start and the step; the limit only decides how many numbers there are."""
        start, _, delta = inputs
        bar = output_bars[0]
        count = b.Reshape(b.Shape(bar), b.constant(np.zeros(0, np.int64)))
        steps = b.CastLike(b.Range(b.constant(0, INT64), count, b.constant(1, INT64)), bar)
        totals = [b.ReduceSum(value, keepdims=0) for value in (bar, bar * steps)]
        return b.Reshape(totals[0], b.Shape(start)), None, b.Reshape(totals[1], b.Shape(delta))


class Constant(Op):
    """The tensor that its one attribute holds; a sparse value is given in its dense form."""

    work = Work.SHORT
    no_gradient = "it has no input that changes smoothly"
    value: Tensor | None = None
    sparse_value: Tensor | None = None
    value_float: float | None = None
    value_floats: tuple[float, ...] | None = None
    value_int: int | None = None
    value_ints: tuple[int, ...] | None = None
    value_string: str | None = None
    value_strings: tuple[str, ...] | None = None

    def infer(self) -> TensorType:
        array = self._array()
        return TensorType(Tensor(array).dtype, array.shape)

    def reference(self) -> Array:
        return self._array()

    def _array(self) -> Array:
        given = [item.name for item in self.attributes() if getattr(self, item.name) is not None]
        if len(given) != 1:
            raise ShapeError(f"a constant needs exactly one attribute, got {', '.join(given) or 'none'}")
        item = getattr(self, given[0])
        if isinstance(item, Tensor):
            return item.array
        dtype = {"float": FLOAT32, "int": INT64, "string": STRING}[given[0].removeprefix("value_").removesuffix("s")]
        return np.array(item, dtype=dtype.numpy)


class EyeLike(Op):
    """A matrix of the input's shape with ones on diagonal `k` and zeros elsewhere."""

    moves_only = True
    no_gradient = "its result depends on sizes only"
    dtype: int | None = None
    k: int = 0

    def infer(self, input: Value) -> TensorType:
        need_rank(input, 2, 2)
        shape = unknown_shape(2) if input.tensor.shape is None else input.shape
        return TensorType(input.dtype if self.dtype is None else numbered_dtype(self.dtype), shape)

    def reference(self, input: Array) -> Array:
        dtype = input.dtype if self.dtype is None else numbered_dtype(self.dtype).numpy
        offset = np.arange(input.shape[1]) - np.arange(input.shape[0])[:, None]
        return (offset == self.k).astype(dtype)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        return (None,)
