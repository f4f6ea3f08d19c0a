"""Elements by index: looked up and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.dtype import BOOL, FLOAT32, INT32, INT64, DType
from intaglio.ir.graph import Value
from intaglio.ops.shared.elementwise import broadcast_shape
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.reduction import opmath
from intaglio.torch.aten.table import aten


@aten("embedding")
def embedding(c: AtenCall, weight: Value, indices: Value, *arguments: Any, **others: Any) -> Value:
    """Rows of a matrix."""
    return c.b.Gather(weight, c.counted_from_front(indices, weight.shape[0]), axis=0)


@aten("index_select")
def index_select(c: AtenCall, x: Value, dim: int, index: Value) -> Value:
    """Slices of an axis."""
    if not x.rank:
        return x
    flat, axis = index if index.rank else c.b.Reshape(index, [1]), c.axis(dim, x.rank)
    return c.b.Gather(x, c.counted_from_front(flat, x.shape[axis]), axis=axis)


@aten("gather")
def gather(c: AtenCall, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """For each index the element of its line."""
    if not x.rank or not index.rank:
        flat = c.b.Gather(c.b.Reshape(x, [-1]), c.b.Reshape(index, [-1]), axis=0)
        return c.reshape(flat, index.shape)
    axis = c.axis(dim, x.rank)
    return c.b.GatherElements(x, c.counted_from_front(index, x.shape[axis]), axis=axis)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(c: AtenCall, x: Value, indices: Sequence[Value | None]) -> Value:
    """Elements at tuples of indices, which are broadcast; axes without an index stay."""
    given = _places(c, x, indices)
    if len(given) == 1:
        ((axis, places),) = given.items()
        return c.b.Gather(x, places, axis=axis)
    axes, data, tuples = _in_front(c, x, given)
    found = c.b.GatherND(data, tuples)
    return _put_back(c, found, axes, tuples.rank - 1, x.rank)


def _places(c: AtenCall, x: Value, indices: Sequence[Value | None]) -> dict[int, Value]:
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


def _in_front(c: AtenCall, x: Value, given: dict[int, Value]) -> tuple[list[int], Value, Value]:
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


def _put_back(c: AtenCall, found: Value, axes: Sequence[int], width: int, rank: int) -> Value:
    """The axes of the indices where PyTorch has them: in place of adjacent indexed axes, else in front."""
    is_adjacent = axes[-1] - axes[0] == len(axes) - 1
    front = axes[0] if is_adjacent else 0
    if not front:
        return found
    rest = list(range(width, found.rank))
    return c.b.Transpose(found, perm=(*rest[:front], *range(width), *rest[front:]))


@aten("index_put", "_unsafe_index_put")
def index_put(c: AtenCall, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
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
    wide = summed_in(x.dtype) if accumulate else x.dtype
    written = c.b.ScatterND(
        c.cast(data, wide), tuples, c.cast(updates, wide), reduction="add" if accumulate else "none"
    )
    back = sorted(range(x.rank), key=lambda place: order[place])
    result = c.cast(written, x.dtype)
    return result if order == list(range(x.rank)) else c.b.Transpose(result, perm=tuple(back))


def _is_single(values: Value) -> bool:
    return dims.product(values.shape) == 1 and values.rank <= 1


def summed_in(dtype: DType) -> DType:
    """What elements written to one place are added up in; of truth values, a sum that is not zero is true."""
    return INT32 if dtype == BOOL else opmath(dtype)


def _masked(c: AtenCall, x: Value, indices: Sequence[Value | None], mask: Value, values: Value) -> Value:
    """One number where a mask is true."""
    front = next(place for place, each in enumerate(indices) if each is not None)
    behind = x.rank - front - mask.rank
    spread = c.b.Unsqueeze(mask, list(range(mask.rank, mask.rank + behind))) if behind else mask
    return c.b.Where(spread, c.b.Reshape(c.cast(values, x.dtype), []), x)


@aten("nonzero")
def nonzero(c: AtenCall, x: Value) -> Value:
    """The indices of elements that are not zero, one row for each."""
    return c.b.Transpose(c.b.NonZero(c.cast(x, INT32) if x.dtype == BOOL else x), perm=(1, 0))


@aten("nonzero_static")
def nonzero_static(c: AtenCall, x: Value, *, size: Any, fill_value: int = -1) -> Value:
    """The first so many indices of elements that are not zero; rows of one number where there are fewer."""
    found = c.b.Concat(nonzero(c, x), c.full((size, x.rank), fill_value, INT64), axis=0)
    return c.b.Slice(found, [0], c.vector([size]), [0])


@aten("masked_select")
def masked_select(c: AtenCall, x: Value, mask: Value) -> Value:
    """The elements where a mask is true."""
    shape = broadcast_shape(x, mask) or ()
    flat = [c.b.Reshape(c.expand(value, shape), [-1]) for value in (x, mask)]
    return c.b.Compress(*flat)


@aten("bincount")
def bincount(c: AtenCall, x: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    """How often each number from zero on is there, or what its weights add up to."""
    b = c.b
    places = c.cast(x, INT64)
    above = b.Add(b.ReduceMax(places, [0], keepdims=1), c.number(1, INT64))
    size = b.Max(above, c.number(minlength, INT64))
    added = c.full(x.shape, 1, INT64) if weights is None else c.cast(weights, c.dtype())
    zeros = b.Expand(c.number(0, c.dtype()), size)
    return b.ScatterElements(zeros, places, added, axis=0, reduction="add")


@aten("embedding_dense_backward")
def embedding_backward(
    c: AtenCall, bar: Value, indices: Value, num_weights: Any, padding_idx: int, scale_grad_by_freq: bool
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
