"""Elements written to or combined at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import BOOL, INT32, INT64, DType
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.pointwise import floor_quotient
from intaglio.torch.aten.table import aten

_OPERATORS = {"sum": "add", "add": "add", "mean": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


def _aligned(c: AtenCall, x: Value, dim: int, index: Value, source: Value) -> tuple[int, Value, Value, Value]:
    """The axis, and tensors of one rank of at least one; the source has the sizes of the index."""
    if not x.rank or not index.rank:
        x, index, source = (c.b.Reshape(value, [-1]) for value in (x, index, source))
    if index.tensor.shape != source.tensor.shape:
        source = c.b.Slice(source, [0] * x.rank, c.vector(index.shape), list(range(x.rank)))
    axis = c.axis(dim, x.rank)
    return axis, x, c.counted_from_front(index, x.shape[axis]), source


def _scatter(c: AtenCall, x: Value, dim: int, index: Value, source: Value) -> Value:
    axis, data, places, updates = _aligned(c, x, dim, index, c.cast(source, x.dtype))
    return c.reshape(c.b.ScatterElements(data, places, updates, axis=axis), x.shape)


def _combine(
    c: AtenCall, x: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool = True
) -> Value:
    """Elements combined at indices, with those that stand there or without."""
    wide = INT32 if x.dtype == BOOL else x.dtype
    axis, data, places, updates = _aligned(c, x, dim, index, c.cast(source, wide))
    data = c.cast(data, wide)
    if not include_self:
        neutral = c.number(_neutral(reduce, wide), wide)
        data = c.b.Where(c.cast(_counts(c, data, places, axis, 0), BOOL), neutral, data)
    found = c.b.ScatterElements(data, places, updates, axis=axis, reduction=_OPERATORS[reduce])
    if reduce == "mean":
        found = _mean(c, found, _counts(c, data, places, axis, int(include_self)))
    return c.cast(c.reshape(found, x.shape), x.dtype)


def _neutral(reduce: str, dtype: DType) -> float:
    """The number that changes nothing."""
    if reduce in ("amax", "amin"):
        limits = (
            (-np.inf, np.inf) if dtype.is_float else (int(np.iinfo(dtype.numpy).min), int(np.iinfo(dtype.numpy).max))
        )
        return limits[reduce == "amin"]
    return int(_OPERATORS[reduce] == "mul")


def _counts(c: AtenCall, data: Value, places: Value, axis: int, start: int) -> Value:
    """How many elements come to each place."""
    ones = c.full(places.shape, 1, INT32)
    return c.b.ScatterElements(c.full(data.shape, start, INT32), places, ones, axis=axis, reduction="add")


def _mean(c: AtenCall, total: Value, counts: Value) -> Value:
    """Sums divided by counts; whole numbers are rounded down."""
    divisor = c.cast(c.b.Max(counts, c.number(1, INT32)), total.dtype)
    return c.b.Div(total, divisor) if total.dtype.is_float else floor_quotient(c, total, divisor)


@aten("scatter.src")
def scatter(c: AtenCall, x: Value, dim: int, index: Value, source: Value) -> Value:
    """Elements written to indices."""
    return _scatter(c, x, dim, index, source)


@aten("scatter.value")
def scatter_value(c: AtenCall, x: Value, dim: int, index: Value, value: Any) -> Value:
    """One number written to indices."""
    return _scatter(c, x, dim, index, c.full(index.shape, value, x.dtype))


@aten("scatter_add")
def scatter_add(c: AtenCall, x: Value, dim: int, index: Value, source: Value) -> Value:
    """Elements added at indices."""
    return _combine(c, x, dim, index, source, "sum")


@aten("scatter_reduce.two")
def scatter_reduce(
    c: AtenCall, x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """Elements combined at indices."""
    return _combine(c, x, dim, index, source, reduce, include_self)


@aten("scatter.reduce")
def scatter_with(c: AtenCall, x: Value, dim: int, index: Value, source: Value, *, reduce: str) -> Value:
    """Elements added or multiplied at indices."""
    return _combine(c, x, dim, index, source, reduce)


@aten("scatter.value_reduce")
def scatter_value_with(c: AtenCall, x: Value, dim: int, index: Value, value: Any, *, reduce: str) -> Value:
    """One number added or multiplied at indices."""
    return _combine(c, x, dim, index, c.full(index.shape, value, x.dtype), reduce)


def _slices(c: AtenCall, x: Value, dim: int, index: Value, source: Value) -> tuple[Value, int, Value, Value]:
    """The tensor, the axis, the index of each element of the source, and the source; one number counts as a vector."""
    if not x.rank:
        x = c.b.Reshape(x, [1])
    if source.rank < x.rank:
        source = c.b.Reshape(source, [1] * x.rank)
    axis, shape = c.axis(dim, x.rank), [1] * x.rank
    shape[axis] = -1
    return x, axis, c.expand(c.b.Reshape(c.cast(index, INT64), shape), source.shape), source


@aten("index_add")
def index_add(c: AtenCall, x: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1) -> Value:
    """Slices added at indices of an axis."""
    data, axis, places, updates = _slices(c, x, dim, index, source)
    if alpha != 1:
        wide = INT32 if x.dtype == BOOL else x.dtype
        updates = c.b.Mul(c.cast(updates, wide), c.operand(alpha, wide))
    return c.reshape(_combine(c, data, axis, places, updates, "sum"), x.shape)


@aten("index_reduce")
def index_reduce(
    c: AtenCall, x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """Slices combined at indices of an axis."""
    data, axis, places, updates = _slices(c, x, dim, index, source)
    return c.reshape(_combine(c, data, axis, places, updates, reduce, include_self), x.shape)


@aten("index_copy")
def index_copy(c: AtenCall, x: Value, dim: int, index: Value, source: Value) -> Value:
    """Slices written to indices of an axis."""
    data, axis, places, updates = _slices(c, x, dim, index, source)
    return c.reshape(_scatter(c, data, axis, places, updates), x.shape)


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(c: AtenCall, x: Value, dim: int, index: Value, value: Any) -> Value:
    """One number written to indices of an axis, which may count from the end."""
    data = x if x.rank else c.b.Reshape(x, [1])
    axis = c.axis(dim, data.rank)
    places = _from_start(c, c.b.Reshape(c.cast(index, INT64), [-1]), data.shape[axis])
    shape = [*data.shape[:axis], places.shape[0], *data.shape[axis + 1 :]]
    source = c.expand(c.cast(value, x.dtype), shape) if isinstance(value, Value) else c.full(shape, value, x.dtype)
    return index_copy(c, x, dim, places, source)


def _from_start(c: AtenCall, places: Value, size: Dim) -> Value:
    """Indices that may count from the end, counted from the start."""
    moved = c.b.Add(places, c.operand(size, places.dtype))
    return c.b.Where(c.b.Less(places, c.number(0, places.dtype)), moved, places)


@aten("put")
def put(c: AtenCall, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """Elements written to or added at places of the flattened tensor."""
    data, places, updates = (c.b.Reshape(value, [-1]) for value in (x, index, source))
    places = _from_start(c, places, data.shape[0])
    found = _combine(c, data, 0, places, updates, "sum") if accumulate else _scatter(c, data, 0, places, updates)
    return c.reshape(found, x.shape)


@aten("masked_scatter")
def masked_scatter(c: AtenCall, x: Value, mask: Value, source: Value) -> Value:
    """The elements of the source, one after the other, where a mask is true."""
    b = c.b
    if 0 in source.shape:
        raise UnsupportedError("masked_scatter of nothing")
    shape = c.shape()
    spread = c.expand(mask, shape)
    rank = b.CumSum(c.cast(b.Reshape(spread, [-1]), INT64), c.number(0, INT64))
    places = b.Max(b.Sub(rank, c.number(1, INT64)), c.number(0, INT64))
    taken = b.Gather(b.Reshape(source, [-1]), places, axis=0)
    return b.Where(spread, c.reshape(taken, shape), x)
