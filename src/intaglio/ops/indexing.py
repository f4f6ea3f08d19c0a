"""Operators that read or write elements at given indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows, Work
from intaglio.ir.requirements import need_equal
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import (
    check_indices,
    check_size,
    integers,
    need_integers,
    need_rank,
    need_single,
    resolve_axis,
    same_dtype,
    sizes_of,
    unify,
    wide,
    zeros_like,
)
from intaglio.ops.shared.sampling import count_up, size_of

Gradients = tuple[Value | None, ...]


class Gather(Op):
    """The slices of `data` along `axis` at `indices`."""

    keeps_rows = Rows.BY_AXES

    moves_only = True
    number_operand = 1
    chooses_from = 1
    work = Work.SHORT
    symbolic = True
    axis: int = 0

    def infer(self, data: Value, indices: Value) -> TensorType:
        need_integers(indices)
        need_rank(data, 1)
        if data.tensor.shape is None or indices.tensor.shape is None:
            return data.tensor.with_shape(None)
        axis = resolve_axis(self.axis, data.rank)
        return data.tensor.with_shape((*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]))

    def reference(self, data: Array, indices: Array) -> Array:
        axis = resolve_axis(self.axis, data.ndim)
        result = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
        check_size(result, data.dtype)
        places = check_indices(indices, data.shape[axis])
        taken = data[(slice(None),) * axis + (places,)]
        return np.asarray(taken, dtype=data.dtype).reshape(result)

    def prepare(self, *constants: Array | None) -> Callable[..., Any]:
        data, indices = constants
        axis = self.axis
        if data is not None and indices is None:
            return lambda places: data.take(places, axis)
        return (lambda array: array.take(indices, axis)) if indices is not None else super().prepare(*constants)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        data, indices = inputs
        axis, rank = resolve_axis(self.axis, data.rank), indices.rank
        # With the gathered axes in front the gradient is a sum over rows, which ScatterND adds up.
        order = (*range(axis, axis + rank), *range(axis), *range(axis + rank, rank + data.rank - 1))
        rows = b.Transpose(output_bars[0], perm=order)
        front = (axis, *(i for i in range(data.rank) if i != axis))
        zeros = b.Transpose(zeros_like(b, data), perm=front)
        places = b.Unsqueeze(b.Cast(indices, to=7), [-1])
        summed = b.ScatterND(zeros, places, rows, reduction="add")
        return b.Transpose(summed, perm=tuple(front.index(i) for i in range(data.rank))), None


class GatherElements(Op):
    """For each position of `indices` the element of `data` there, with the index taken along `axis`."""

    keeps_rows = Rows.BY_AXES

    moves_only = True
    number_operand = 1
    work = Work.LINEAR
    symbolic = True
    axis: int = 0

    def infer(self, data: Value, indices: Value) -> TensorType:
        need_integers(indices)
        if data.tensor.shape is not None:
            resolve_axis(self.axis, data.rank)
            need_rank(indices, data.rank, data.rank)
        return data.tensor.with_shape(indices.tensor.shape)

    def reference(self, data: Array, indices: Array) -> Array:
        return data[element_places(data, indices, self.axis)]

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        zeros = zeros_like(b, inputs[0])
        return b.ScatterElements(zeros, inputs[1], output_bars[0], axis=self.axis, reduction="add"), None


def element_places(data: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    """An index of `data` for each element of `indices`: its own position except along the axis."""
    axis = resolve_axis(axis, data.ndim)
    if indices.ndim != data.ndim:
        raise OperatorError(f"indices of rank {indices.ndim} for data of rank {data.ndim}")
    for i, (size, limit) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if i != axis and size > limit and indices.size:
            raise OperatorError(f"indices of shape {list(indices.shape)} reach past data of shape {list(data.shape)}")
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis] = check_indices(indices, data.shape[axis])
    return tuple(places)


class GatherND(Op):
    """The elements or slices of `data` at the index tuples in the last axis of `indices`."""

    keeps_rows = Rows.BY_AXES

    moves_only = True
    number_operand = 1
    work = Work.LINEAR
    symbolic = True
    batch_dims: int = 0

    def infer(self, data: Value, indices: Value) -> TensorType:
        need_integers(indices)
        for value in (data, indices):
            need_rank(value, self.batch_dims + 1)
        shape, places = data.tensor.shape, indices.tensor.shape
        if shape is None or places is None or not isinstance(places[-1], int):
            return data.tensor.with_shape(None)
        reach = self.batch_dims + places[-1]
        if reach > len(shape):
            raise ShapeError(f"index tuples of length {places[-1]} for {len(shape) - self.batch_dims} axes")
        batch = tuple(unify(a, c, "batch dimensions") for a, c in zip(shape, places[: self.batch_dims], strict=False))
        return data.tensor.with_shape((*batch, *places[self.batch_dims : -1], *shape[reach:]))

    def reference(self, data: Array, indices: Array) -> Array:
        batch, length = self.batch_dims, indices.shape[-1]
        if indices.shape[:batch] != data.shape[:batch]:
            raise OperatorError(
                f"batch dimensions {indices.shape[:batch]} of the indices, {data.shape[:batch]} of data"
            )
        places = tuple_places(indices, data.shape[batch : batch + length])
        grid = np.indices(indices.shape[:batch], sparse=True)
        leading = tuple(g.reshape(g.shape + (1,) * (indices.ndim - 1 - batch)) for g in grid)
        found = data[leading + places] if leading + places else data
        return np.broadcast_to(found, (*indices.shape[:-1], *data.shape[batch + length :])).copy()

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        places = self._with_batch(b, inputs[1])
        return b.ScatterND(zeros_like(b, inputs[0]), places, output_bars[0], reduction="add"), None

    def _with_batch(self, b: Builder, indices: Value) -> Value:
        """The index tuples with the numbers of their batches in front."""
        parts: list[Value] = []
        for axis in range(self.batch_dims):
            numbers = count_up(b, size_of(b, indices, axis))
            column = b.Reshape(numbers, [-1, *[1] * (indices.rank - 1 - axis)])
            shape = b.Concat(b.Shape(indices, end=-1), b.constant(np.array([1])), axis=0)
            parts.append(b.Expand(column, shape))
        return b.Concat(*parts, b.Cast(indices, to=7), axis=-1) if parts else indices


def tuple_places(indices: Array, sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """The index tuples in the last axis, one array for each of their entries."""
    if indices.shape[-1] > len(sizes):
        raise OperatorError(f"index tuples of length {indices.shape[-1]} for {len(sizes)} axes")
    return tuple(check_indices(indices[..., i], size) for i, size in enumerate(sizes))


REDUCTIONS: dict[str, Callable[..., Any] | None] = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def scatter(data: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """A copy of `data` with the updates written or combined into it one after the other."""
    function = REDUCTIONS[reduction]
    if function is None:
        output = data.copy()
        output[places] = updates
        return output
    if data.dtype == object:
        raise OperatorError(f"strings cannot be combined by {reduction!r}")
    output = wide(data).copy()
    function.at(output, places, wide(updates))  # pyright: ignore[reportFunctionMemberAccess]
    return output.astype(data.dtype)


def _check_reduction(reduction: str, dtype: DType) -> None:
    if reduction not in REDUCTIONS:
        raise ShapeError(f"reduction {reduction!r} is none of {', '.join(REDUCTIONS)}")
    if dtype.kind == "complex" and reduction in ("max", "min"):
        raise ShapeError(f"reduction {reduction!r} has no meaning for {dtype}: complex numbers are not ordered")


class ScatterElements(Op):
    """`data` with the elements at `indices` along `axis` replaced by, or combined with, `updates`."""

    keeps_rows = Rows.BY_AXES

    moves_only = True
    number_operand = 1
    symbolic = True
    axis: int = 0
    reduction: str = "none"

    def infer(self, data: Value, indices: Value, updates: Value) -> TensorType:
        need_integers(indices)
        same_dtype(data, updates)
        _check_reduction(self.reduction, data.dtype)
        if data.tensor.shape is not None:
            resolve_axis(self.axis, data.rank)
            for value in (indices, updates):
                need_rank(value, data.rank, data.rank)
        return data.tensor

    def reference(self, data: Array, indices: Array, updates: Array) -> Array:
        if indices.shape != updates.shape:
            raise OperatorError(f"indices of shape {list(indices.shape)} and updates of shape {list(updates.shape)}")
        return scatter(data, element_places(data, indices, self.axis), updates, self.reduction)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        picked = b.GatherElements(output_bars[0], inputs[1], axis=self.axis)
        return _scatter_gradients(self, b, inputs, output_bars[0], picked, {"axis": self.axis})


class ScatterND(Op):
    """`data` with the elements or slices at the index tuples replaced by, or combined with, `updates`."""

    keeps_rows = Rows.BY_AXES

    moves_only = True
    number_operand = 1
    symbolic = True
    reduction: str = "none"

    def infer(self, data: Value, indices: Value, updates: Value) -> TensorType:
        need_integers(indices)
        same_dtype(data, updates)
        need_rank(indices, 1)
        need_rank(data, 1)
        _check_reduction(self.reduction, data.dtype)
        return data.tensor

    def reference(self, data: Array, indices: Array, updates: Array) -> Array:
        expected = (*indices.shape[:-1], *data.shape[indices.shape[-1] :])
        if updates.shape != expected:
            raise OperatorError(f"updates of shape {list(updates.shape)}, expected {list(expected)}")
        places = tuple_places(indices, data.shape[: indices.shape[-1]])
        return scatter(data, places, updates, self.reduction)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        return _scatter_gradients(self, b, inputs, output_bars[0], b.GatherND(output_bars[0], inputs[1]), {})


def _scatter_gradients(op: Op, b: Builder, inputs: Any, bar: Value, picked: Value, options: Any) -> Gradients:
    """Replacing cuts the gradient of data at the indices, adding passes it on; the updates' is what lies there."""
    reduction = getattr(op, "reduction", "none")
    if reduction == "add":
        return bar, None, picked
    if reduction == "none":
        return b.apply(type(op), bar, inputs[1], zeros_like(b, picked), **options), None, picked
    data, indices, updates = inputs

    def scatter(into: Value, values: Value, how: str) -> Value:
        return b.apply(type(op), into, indices, values, reduction=how, **options)

    def pick(value: Value) -> Value:
        is_elements = isinstance(op, ScatterElements)
        return b.GatherElements(value, indices, **options) if is_elements else b.GatherND(value, indices)

    if reduction == "mul":
        return _product_gradients(b, data, updates, bar, scatter, pick)
    result = scatter(data, updates, reduction)
    chosen = [b.CastLike(b.Equal(a, c), data) for a, c in ((data, result), (updates, pick(result)))]
    share = bar / b.Max(scatter(chosen[0], chosen[1], "add"), 1.0)  # those that are equal share the gradient
    return share * chosen[0], None, pick(share) * chosen[1]


def _product_gradients(b: Builder, data: Value, updates: Value, bar: Value, scatter: Any, pick: Any) -> Gradients:
    """Each factor's gradient is the product of all others, also where some are zero.

    A zero that is left among the others is a factor of its own, so that the second derivative is right too.
    """
    zero, one = b.constant(0, data.dtype), b.constant(1, data.dtype)
    are_zero = [b.Equal(value, zero) for value in (data, updates)]
    factors = list(zip(are_zero, (data, updates), strict=True))
    whole, gone = [b.Where(mask, one, value) for mask, value in factors], [b.Where(m, v, zero) for m, v in factors]
    counts = [b.CastLike(mask, data) for mask in are_zero]
    product, total, zeros = scatter(*whole, "mul"), scatter(*gone, "add"), scatter(*counts, "add")

    def others(place: int, product: Value, total: Value, zeros: Value) -> Value:
        left = zeros - counts[place]
        lone = b.Where(b.Equal(left, one), total - gone[place], zero)
        return product / whole[place] * b.Where(b.Equal(left, zero), one, lone)

    return bar * others(0, product, total, zeros), None, pick(bar) * others(1, pick(product), pick(total), pick(zeros))


class TensorScatter(Op):
    """A cache with `update` written along `axis`, in each batch from `write_indices[batch]` on."""

    moves_only = True
    number_operand = 2
    axis: int = -2
    mode: str = "linear"

    def infer(self, past_cache: Value, update: Value, write_indices: Value | None = None) -> TensorType:
        same_dtype(past_cache, update)
        if self.mode not in ("linear", "circular"):
            raise ShapeError(f"mode {self.mode!r} is neither linear nor circular")
        if past_cache.tensor.shape is not None:
            if resolve_axis(self.axis, past_cache.rank) == 0:
                raise ShapeError("axis 0 is the batch, expected another axis")
            need_rank(update, past_cache.rank, past_cache.rank)
        if write_indices is not None:
            need_integers(write_indices)
        return past_cache.tensor

    def reference(self, past_cache: Array, update: Array, write_indices: Array | None = None) -> Array:
        axis = resolve_axis(self.axis, past_cache.ndim)
        size, count = past_cache.shape[axis], update.shape[axis]
        starts = [0] * len(past_cache) if write_indices is None else integers(write_indices)
        beside = [a for a in range(past_cache.ndim) if a != axis]
        if (
            len(starts) != len(past_cache)
            or count > size
            or any(past_cache.shape[a] != update.shape[a] for a in beside)
        ):
            raise OperatorError(f"{len(starts)} write indices, cache {past_cache.shape} and update {update.shape}")
        output = past_cache.copy()
        target, source = (np.moveaxis(array, axis, 1) for array in (output, update))
        for batch, start in enumerate(starts):
            if start < 0 or (self.mode == "linear" and start + count > size):
                raise OperatorError(f"write index {start} of batch {batch}: {count} elements do not fit in {size}")
            target[batch, (start + np.arange(count)) % max(size, 1)] = source[batch]
        return output

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        """What was written over has the gradient zero, the update the gradient where it was written."""
        update, bar = inputs[1], output_bars[0]
        axis = resolve_axis(self.axis, bar.rank)
        starts = inputs[2] if len(inputs) > 2 else b.Expand(b.constant(0), b.Shape(bar, end=1))
        column = [-1 if other == axis else 1 for other in range(bar.rank)]
        places = b.Reshape(count_up(b, size_of(b, update, axis)), column)
        places = b.Reshape(b.Cast(starts, to=7), [-1, *[1] * (bar.rank - 1)]) + places
        places = b.Expand(b.Mod(places, size_of(b, bar, axis)), b.Shape(update))
        kept = b.TensorScatter(bar, zeros_like(b, update), *inputs[2:], axis=self.axis, mode=self.mode)
        return kept, b.GatherElements(bar, places, axis=axis), *[None] * (len(inputs) - 2)


class OneHot(Op):
    """A new axis of size `depth` that holds values[1] at each index and values[0] elsewhere."""

    keeps_rows = Rows.BY_AXES

    moves_only = True
    number_operand = 0
    axis: int = -1

    def infer(self, indices: Value, depth: Value, values: Value) -> TensorType:
        need_rank(values, 1, 1)
        need_rank(depth, 0, 1)
        need_single(depth)
        if values.tensor.shape is not None:
            need_equal(values.shape[0], 2, f"{values.name} has {values.shape[0]} elements, expected 2")
        sizes = sizes_of(depth)
        if sizes is None and depth.constant is not None:
            sizes = [int(depth.constant.reshape(-1)[0])]
        if indices.tensor.shape is None:
            return values.tensor.with_shape(None)
        axis = resolve_axis(self.axis, indices.rank + 1)
        size = dims.fresh() if sizes is None else sizes[0]
        return values.tensor.with_shape((*indices.shape[:axis], size, *indices.shape[axis:]))

    def reference(self, indices: Array, depth: Array, values: Array) -> Array:
        if values.size != 2:
            raise OperatorError(f"values has {values.size} elements, expected 2")
        size = int(depth.reshape(()))
        axis = resolve_axis(self.axis, indices.ndim + 1)
        check_size((*indices.shape, size), values.dtype)
        largest = np.iinfo(np.int64).max
        whole = np.minimum(indices, largest) if indices.dtype == np.uint64 else indices
        places = np.expand_dims(whole.astype(np.int64), axis)
        wanted = np.arange(size).reshape((-1,) + (1,) * (indices.ndim - axis))
        # Indices from -depth on count from the end; any other one matches nothing.
        return np.where((places == wanted) | (places + size == wanted), values[1], values[0]).astype(values.dtype)

    def smooth_form(self, b: Builder, indices: Value, depth: Value, values: Value) -> Value:
        """Linear in the values."""
        is_on = b.OneHot(indices, depth, b.constant(np.array([0, 1]), values.dtype), axis=self.axis)
        off, on = (b.Gather(values, b.constant(i)) for i in (0, 1))
        return off * (1 - is_on) + on * is_on
