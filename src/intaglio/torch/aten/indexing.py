"""Elements by index: looked up and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.dtype import BOOL, FLOAT32, INT32, INT64
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import Call
from intaglio.torch.aten.table import aten


@aten("embedding")
def embedding(c: Call, weight: Value, indices: Value, *arguments: Any, **others: Any) -> Value:
    """Rows of a matrix."""
    return c.b.Gather(weight, indices, axis=0)


@aten("index_select")
def index_select(c: Call, x: Value, dim: int, index: Value) -> Value:
    """Slices of an axis."""
    if not x.rank:
        return x
    flat = index if index.rank else c.b.Reshape(index, [1])
    return c.b.Gather(x, flat, axis=c.axis(dim, x.rank))


@aten("gather")
def gather(c: Call, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """For each index the element of its line."""
    if not x.rank or not index.rank:
        flat = c.b.Gather(c.b.Reshape(x, [-1]), c.b.Reshape(index, [-1]), axis=0)
        return c.reshape(flat, index.shape)
    return c.b.GatherElements(x, index, axis=c.axis(dim, x.rank))


def _scatter(c: Call, x: Value, dim: int, index: Value, source: Value, reduction: str) -> Value:
    if not x.rank or not index.rank:
        flat = [c.b.Reshape(value, [-1]) for value in (x, index, source)]
        return c.reshape(c.b.ScatterElements(*flat, axis=0, reduction=reduction), x.shape)
    if index.tensor.shape != source.tensor.shape:
        axes = list(range(x.rank))
        source = c.b.Slice(source, [0] * x.rank, c.vector(index.shape), axes)
    if x.dtype == BOOL and reduction != "none":
        raise UnsupportedError("truth values that are combined")
    return c.b.ScatterElements(x, index, source, axis=c.axis(dim, x.rank), reduction=reduction)


@aten("scatter.src")
def scatter(c: Call, x: Value, dim: int, index: Value, source: Value) -> Value:
    """Elements written to indices."""
    return _scatter(c, x, dim, index, source, "none")


@aten("scatter.value")
def scatter_value(c: Call, x: Value, dim: int, index: Value, value: Any) -> Value:
    """One number written to indices."""
    return _scatter(c, x, dim, index, c.full(index.shape, value, x.dtype), "none")


@aten("scatter_add")
def scatter_add(c: Call, x: Value, dim: int, index: Value, source: Value) -> Value:
    """Elements added at indices."""
    return _scatter(c, x, dim, index, source, "add")


_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@aten("scatter_reduce.two")
def scatter_reduce(
    c: Call, x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """Elements combined at indices."""
    if not include_self or reduce not in _REDUCTIONS:
        raise UnsupportedError(f"scatter_reduce {reduce!r} with include_self={include_self}")
    return _scatter(c, x, dim, index, source, _REDUCTIONS[reduce])


@aten("scatter.reduce")
def scatter_with(c: Call, x: Value, dim: int, index: Value, source: Value, *, reduce: str) -> Value:
    """Elements added or multiplied at indices."""
    return _scatter(c, x, dim, index, source, _REDUCTIONS[reduce])


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(c: Call, x: Value, indices: Sequence[Value | None]) -> Value:
    """Elements at tuples of indices, which are broadcast; axes without an index stay."""
    given = _places(c, x, indices)
    if len(given) == 1:
        ((axis, places),) = given.items()
        return c.b.Gather(x, places, axis=axis)
    axes, data, tuples = _in_front(c, x, given)
    found = c.b.GatherND(data, tuples)
    return _put_back(c, found, axes, tuples.rank - 1, x.rank)


def _places(c: Call, x: Value, indices: Sequence[Value | None]) -> dict[int, Value]:
    """The index tensor of each indexed axis; one of truth values is the places where it is true."""
    found: dict[int, Value] = {}
    axis = 0
    for each in indices:
        if each is None:
            axis += 1
        elif each.dtype == BOOL or each.dtype.name == "uint8":
            places = c.b.NonZero(c.to_bool(each))
            for row in range(each.rank):
                found[axis + row] = c.b.Gather(places, c.number(row, INT64), axis=0)
            axis += each.rank
        else:
            found[axis] = each
            axis += 1
    if not found:
        raise UnsupportedError("an index without indices")
    return found


def _in_front(c: Call, x: Value, given: dict[int, Value]) -> tuple[list[int], Value, Value]:
    """The indexed axes, the data with those in front, and tuples of indices."""
    axes = sorted(given)
    order = axes + [axis for axis in range(x.rank) if axis not in given]
    data = x if order == list(range(x.rank)) else c.b.Transpose(x, perm=tuple(order))
    same = [c.cast(given[axis], INT64) for axis in axes]
    if len(same) == 1:
        return axes, data, c.b.Unsqueeze(same[0], [same[0].rank])
    rank = max(value.rank for value in same)
    shape = same[0]
    for other in same[1:]:
        shape = c.b.Add(shape, other)
    common = shape.shape
    spread = [c.expand(value, common) for value in same]
    return axes, data, c.b.Concat(*[c.b.Unsqueeze(value, [rank]) for value in spread], axis=rank)


def _put_back(c: Call, found: Value, axes: Sequence[int], width: int, rank: int) -> Value:
    """The axes of the indices where PyTorch has them: in place of adjacent indexed axes, else in front."""
    is_adjacent = axes[-1] - axes[0] == len(axes) - 1
    front = axes[0] if is_adjacent else 0
    if not front:
        return found
    rest = list(range(width, found.rank))
    return c.b.Transpose(found, perm=(*rest[:front], *range(width), *rest[front:]))


@aten("index_put", "_unsafe_index_put")
def index_put(c: Call, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    """Elements written or added at tuples of indices."""
    masks = [each for each in indices if each is not None]
    if len(masks) == 1 and masks[0].dtype == BOOL and not accumulate and _is_single(values):
        return _masked(c, x, indices, masks[0], values)
    given = _places(c, x, indices)
    axes, data, tuples = _in_front(c, x, given)
    order = axes + [axis for axis in range(x.rank) if axis not in given]
    width = tuples.rank - 1
    kept = [x.shape[axis] for axis in order[len(axes) :]]
    is_adjacent = axes[-1] - axes[0] == len(axes) - 1
    front = axes[0] if is_adjacent else 0
    shape = [*kept[:front], *tuples.shape[:-1], *kept[front:]]
    updates = c.expand(c.cast(values, x.dtype), shape)
    if front:
        updates = c.b.Transpose(
            updates, perm=(*range(front, front + width), *range(front), *range(front + width, len(shape)))
        )
    if accumulate and x.dtype == BOOL:
        raise UnsupportedError("truth values that are combined")
    wide = FLOAT32 if accumulate and x.dtype.is_float and x.dtype.bits < 32 else x.dtype
    written = c.b.ScatterND(
        c.cast(data, wide), tuples, c.cast(updates, wide), reduction="add" if accumulate else "none"
    )
    back = sorted(range(x.rank), key=lambda place: order[place])
    result = c.cast(written, x.dtype)
    return result if order == list(range(x.rank)) else c.b.Transpose(result, perm=tuple(back))


def _is_single(values: Value) -> bool:
    return dims.product(values.shape) == 1 and values.rank <= 1


def _masked(c: Call, x: Value, indices: Sequence[Value | None], mask: Value, values: Value) -> Value:
    """One number where a mask is true."""
    front = next(place for place, each in enumerate(indices) if each is not None)
    behind = x.rank - front - mask.rank
    spread = c.b.Unsqueeze(mask, list(range(mask.rank, mask.rank + behind))) if behind else mask
    return c.b.Where(spread, c.b.Reshape(c.cast(values, x.dtype), []), x)


@aten("index_add")
def index_add(c: Call, x: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1) -> Value:
    """Slices added at indices of an axis."""
    if not x.rank:
        raise UnsupportedError("index_add to one number")
    if alpha != 1:
        source = c.b.Mul(source, c.operand(alpha, source.dtype))
    return _along(c, x, dim, index, source, "add")


@aten("index_copy")
def index_copy(c: Call, x: Value, dim: int, index: Value, source: Value) -> Value:
    """Slices written to indices of an axis."""
    if not x.rank:
        return source
    return _along(c, x, dim, index, source, "none")


def _along(c: Call, x: Value, dim: int, index: Value, source: Value, reduction: str) -> Value:
    axis = c.axis(dim, x.rank)
    if x.dtype == BOOL and reduction != "none":
        raise UnsupportedError("truth values that are combined")
    flat = c.b.Reshape(index, [-1])
    if source.rank != x.rank:
        raise UnsupportedError("slices of another rank")
    shape = [1] * x.rank
    shape[axis] = -1
    spread = c.expand(c.b.Reshape(c.cast(flat, INT64), shape), source.shape)
    return c.b.ScatterElements(x, spread, source, axis=axis, reduction=reduction)


@aten("nonzero")
def nonzero(c: Call, x: Value) -> Value:
    """The indices of elements that are not zero, one row for each."""
    if not x.rank:
        raise UnsupportedError("nonzero of one number")
    value = c.cast(x, INT32) if x.dtype == BOOL else x
    return c.b.Transpose(c.b.NonZero(value), perm=(1, 0))


@aten("embedding_dense_backward")
def embedding_backward(
    c: Call, bar: Value, indices: Value, num_weights: Any, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    """The gradient of a matrix whose rows were looked up."""
    if scale_grad_by_freq:
        raise UnsupportedError("embedding_dense_backward with scale_grad_by_freq")
    b, width = c.b, bar.shape[-1]
    wide = c.cast(bar, FLOAT32 if bar.dtype.bits < 32 else bar.dtype)
    rows = c.reshape(wide, [dims.product(bar.shape[:-1]), width])
    flat = b.Reshape(c.cast(indices, INT64), [-1])
    if padding_idx >= 0:
        is_kept = b.Not(b.Equal(flat, c.number(padding_idx, INT64)))
        rows = b.Where(b.Unsqueeze(is_kept, [1]), rows, c.number(0, rows.dtype))
    zeros = c.full([num_weights, width], 0, rows.dtype)
    return c.cast(b.ScatterND(zeros, b.Unsqueeze(flat, [1]), rows, reduction="add"))
