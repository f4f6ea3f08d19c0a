"""Operators that move elements and change none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.table import aten

LAST = 2**63 - 1
"""What PyTorch gives as the end of a slice that has none."""


@aten(
    "clone",
    "alias",
    "detach",
    "lift_fresh_copy",
    "lift_fresh",
    "contiguous",
    "detach_copy",
    "_conj_physical",
    "positive",
)
def same(c: AtenCall, x: Value, *, memory_format: Any = None) -> Value:
    """The same elements; where they lie in memory is no matter of values."""
    return x


@aten("view", "reshape", "_unsafe_view", "view_copy")
def view(c: AtenCall, x: Value, size: Any) -> Value:
    """The elements in another shape."""
    return c.reshape(x, _plain_shape(c, size))


def _plain_shape(c: AtenCall, size: Sequence[Any]) -> list[Dim]:
    """The shape that PyTorch has worked out; -1 where one size is asked for and depends on symbols."""
    found = list(c.shape())
    return found if all(isinstance(size, int) for size in found) else _given(size, found)


def _given(size: Sequence[Any], found: list[Dim]) -> list[Dim]:
    return [have if isinstance(want, int) and want == -1 else want for want, have in zip(size, found, strict=True)]


@aten("permute")
def permute(c: AtenCall, x: Value, axes: Sequence[int]) -> Value:
    """The axes in another order."""
    order = [c.axis(axis, x.rank) for axis in axes]
    return x if order == list(range(x.rank)) else c.b.Transpose(x, perm=tuple(order))


@aten("transpose.int")
def transpose(c: AtenCall, x: Value, first: int, second: int) -> Value:
    """Two axes exchanged."""
    order = list(range(x.rank))
    if not order:
        return x
    first, second = c.axis(first, x.rank), c.axis(second, x.rank)
    order[first], order[second] = order[second], order[first]
    return permute(c, x, order)


@aten("t")
def t(c: AtenCall, x: Value) -> Value:
    """A matrix transposed."""
    return permute(c, x, [1, 0]) if x.rank == 2 else x


@aten("unsqueeze")
def unsqueeze(c: AtenCall, x: Value, dim: int) -> Value:
    """A new axis of size 1."""
    return c.b.Unsqueeze(x, [dim % (x.rank + 1)])


@aten("squeeze", "squeeze.dim", "squeeze.dims")
def squeeze(c: AtenCall, x: Value, dim: Any = None) -> Value:
    """Without axes of size 1."""
    axes = [axis for axis in c.axes(dim, x.rank) if _is_one(x.shape[axis])]
    if dim is not None and isinstance(dim, (list, tuple)) and not dim:
        return x
    return c.b.Squeeze(x, axes) if axes else x


def _is_one(size: Dim) -> bool:
    return isinstance(size, int) and size == 1


@aten("expand")
def expand(c: AtenCall, x: Value, size: Sequence[Any], *, implicit: bool = False) -> Value:
    """Axes of size 1 repeated."""
    front = len(size) - x.rank
    shape = [x.shape[place - front] if isinstance(w, int) and w == -1 else w for place, w in enumerate(size)]
    return c.expand(x, shape)


@aten("repeat")
def repeat(c: AtenCall, x: Value, repeats: Sequence[Any]) -> Value:
    """The whole tensor several times along each axis."""
    front = len(repeats) - x.rank
    value = c.b.Unsqueeze(x, list(range(front))) if front else x
    return c.b.Tile(value, c.vector(repeats)) if repeats else value


@aten("cat")
def cat(c: AtenCall, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Tensors one behind the other; empty ones of one axis count for nothing."""
    kept = [value for value in tensors if value.tensor.shape != (0,) or len(c.shape()) == 1]
    same_type = [c.cast(value) for value in kept]
    return same_type[0] if len(same_type) == 1 else c.b.Concat(*same_type, axis=c.axis(dim, kept[0].rank))


@aten("slice.Tensor")
def slice_tensor(c: AtenCall, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    """A range along an axis."""
    axis = c.axis(dim, x.rank)
    first, last = slice_bounds(x.shape[axis], start, end)
    if first == 0 and last == x.shape[axis] and step == 1:
        return x
    return c.b.Slice(x, c.vector([first]), c.vector([last]), [axis], [step])


def slice_bounds(size: Dim, start: Any, end: Any) -> tuple[Dim, Dim]:
    """The first and the last index but one of a slice, counted from the front and inside."""
    first = 0 if start is None else _inside(start, size)
    last = size if end is None or (isinstance(end, int) and end >= LAST) else _inside(end, size)
    return first, dims.maximum(first, last)


def _inside(index: Dim, size: Dim) -> Dim:
    """An index between 0 and the size."""
    low, high = dims.bounds(index)
    if high is not None and high < 0:
        index = index + size
    elif low is None or low < 0:
        raise UnsupportedError(f"a slice from {index}, which may be negative or not")
    return dims.maximum(dims.minimum(index, size), 0)


@aten("select.int")
def select(c: AtenCall, x: Value, dim: int, index: Any) -> Value:
    """The slice at one index of an axis."""
    axis = c.axis(dim, x.rank)
    if isinstance(index, int) and index < 0:
        index = index + x.shape[axis]
    return c.select(x, axis, index)


@aten("split_with_sizes", "split.Tensor", "split_with_sizes_copy")
def split(c: AtenCall, x: Value, sizes: Any, dim: int = 0) -> tuple[Value, ...]:
    """Parts along an axis."""
    axis = c.axis(dim, x.rank)
    parts = [c.shape(place)[axis] for place in range(len(c.results))]
    if len(parts) == 1:
        return (x,)
    found: list[Value] = []
    begin: Dim = 0
    for part in parts:
        end = begin + part
        found.append(c.b.Slice(x, c.vector([begin]), c.vector([end]), [axis]))
        begin = end
    return tuple(found)


@aten("unbind.int")
def unbind(c: AtenCall, x: Value, dim: int = 0) -> tuple[Value, ...]:
    """The slices of an axis."""
    axis = c.axis(dim, x.rank)
    return tuple([c.select(x, axis, place) for place in range(len(c.results))])


@aten("flip")
def flip(c: AtenCall, x: Value, axes: Sequence[int]) -> Value:
    """Axes the other way round."""
    listed = [c.axis(axis, x.rank) for axis in axes] if x.rank else []
    if not listed:
        return x
    count = len(listed)
    return c.b.Slice(x, [-1] * count, [-(2**62)] * count, listed, [-1] * count)


def _pads(padding: Sequence[Any], rank: int) -> list[Dim]:
    """ONNX's order of pads, all begins before all ends, for PyTorch's, which begins with the last axis."""
    begins: list[Dim] = [0] * rank
    ends: list[Dim] = [0] * rank
    for place in range(len(padding) // 2):
        axis = rank - 1 - place
        begins[axis], ends[axis] = padding[2 * place], padding[2 * place + 1]
    return begins + ends


@aten("constant_pad_nd")
def constant_pad(c: AtenCall, x: Value, pad: Sequence[Any], value: Any = 0) -> Value:
    """More or, with negative numbers, fewer elements at the ends of axes."""
    if not any(isinstance(size, int) is False or size for size in pad):
        return x
    return c.b.Pad(x, c.vector(_pads(pad, x.rank)), c.operand(value, x.dtype))


def _padded(c: AtenCall, x: Value, padding: Sequence[Any], mode: str) -> Value:
    """The tensor with more elements at its ends; negative pads then take some away."""
    more = [max(size, 0) if isinstance(size, int) else size for size in padding]
    padded = c.b.Pad(x, c.vector(_pads(more, x.rank)), mode=mode)
    fewer = [min(size, 0) if isinstance(size, int) else 0 for size in padding]
    return c.b.Pad(padded, c.vector(_pads(fewer, x.rank)), c.number(0, x.dtype)) if any(fewer) else padded


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(c: AtenCall, x: Value, padding: Sequence[Any]) -> Value:
    """Mirrored elements at the ends of axes."""
    return _padded(c, x, padding, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(c: AtenCall, x: Value, padding: Sequence[Any]) -> Value:
    """The outermost elements repeated at the ends of axes."""
    return _padded(c, x, padding, "edge")


def _trilu(upper: int) -> Any:
    def rule(c: AtenCall, x: Value, diagonal: int = 0) -> Value:
        """The part of matrices on one side of a diagonal."""
        return c.b.Trilu(x, c.number(diagonal, INT64), upper=upper)

    return rule


aten("tril")(_trilu(0))
aten("triu")(_trilu(1))


@aten("roll")
def roll(c: AtenCall, x: Value, shifts: Any, axes: Any = ()) -> Value:
    """Elements shifted along axes, those that leave at one end come in at the other."""
    shifts = shifts if isinstance(shifts, (list, tuple)) else [shifts]
    axes = axes if isinstance(axes, (list, tuple)) else [axes]
    if not axes:
        return c.reshape(_rolled(c, c.b.Reshape(x, [-1]), shifts[0], 0), x.shape) if x.rank else x
    for shift, axis in zip(shifts, axes, strict=True):
        x = _rolled(c, x, shift, c.axis(axis, x.rank))
    return x


def _rolled(c: AtenCall, x: Value, shift: Any, axis: int) -> Value:
    size = x.shape[axis]
    if isinstance(size, int) and isinstance(shift, int):
        if not size or not shift % size:
            return x
        cut: Dim = size - shift % size
    else:
        cut = size - dims.mod(shift, size)
    back = c.b.Slice(x, c.vector([cut]), c.vector([size]), [axis])
    return c.b.Concat(back, c.b.Slice(x, [0], c.vector([cut]), [axis]), axis=axis)


@aten("pixel_shuffle")
def pixel_shuffle(c: AtenCall, x: Value, factor: int) -> Value:
    """Channels spread over pixels."""
    if x.rank != 4:
        raise UnsupportedError(f"pixel_shuffle of {x.rank} axes")
    return c.b.DepthToSpace(x, blocksize=factor, mode="CRD")


@aten("diagonal", "diagonal_copy")
def diagonal(c: AtenCall, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The diagonal of two axes, as the last axis."""
    first, second = c.axis(dim1, x.rank), c.axis(dim2, x.rank)
    others = [axis for axis in range(x.rank) if axis not in (first, second)]
    rows, columns, length = x.shape[first], x.shape[second], c.shape()[-1]
    if not all(isinstance(size, int) for size in (rows, columns, length)):
        raise UnsupportedError("the diagonal of open sizes")
    flat = c.reshape(permute(c, x, [*others, first, second]), [*[x.shape[a] for a in others], int(rows) * int(columns)])
    begin = offset if offset >= 0 else -offset * int(columns)
    places = [begin + step * (int(columns) + 1) for step in range(int(length))]
    return c.b.Gather(flat, c.b.constant(places) if places else c.vector([]), axis=len(others))


@aten("select_scatter")
def select_scatter(c: AtenCall, x: Value, source: Value, dim: int, index: Any) -> Value:
    """The tensor with one slice of an axis replaced."""
    axis = c.axis(dim, x.rank)
    if not isinstance(index, int):
        raise UnsupportedError("a slice at an open index")
    begin: Dim = index if index >= 0 else index + x.shape[axis]
    return _replaced(c, x, c.b.Unsqueeze(c.cast(source, x.dtype), [axis]), axis, begin, begin + 1)


@aten("slice_scatter")
def slice_scatter(
    c: AtenCall, x: Value, source: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """The tensor with a range along an axis replaced."""
    axis = c.axis(dim, x.rank)
    first, last = slice_bounds(x.shape[axis], start, end)
    if step != 1:
        return _scattered(c, x, source, axis, first, last, step)
    sizes = [last - first if place == axis else size for place, size in enumerate(x.shape)]
    return _replaced(c, x, c.expand(c.cast(source, x.dtype), sizes), axis, first, last)


def _scattered(c: AtenCall, x: Value, source: Value, axis: int, first: Dim, last: Dim, step: int) -> Value:
    """The tensor with every so many elements of an axis replaced."""
    count = dims.ceildiv(last - first, step)
    sizes = [count if place == axis else size for place, size in enumerate(x.shape)]
    shape = [-1 if place == axis else 1 for place in range(x.rank)]
    steps = c.b.Range(c.operand(first, INT64), c.operand(last, INT64), c.number(step, INT64))
    places = c.expand(c.b.Reshape(steps, shape), sizes)
    return c.b.ScatterElements(x, places, c.expand(c.cast(source, x.dtype), sizes), axis=axis)


def _replaced(c: AtenCall, x: Value, middle: Value, axis: int, first: Dim, last: Dim) -> Value:
    parts = [middle]
    if first != 0:
        parts.insert(0, c.b.Slice(x, [0], c.vector([first]), [axis]))
    if last != x.shape[axis]:
        parts.append(c.b.Slice(x, c.vector([last]), c.vector([x.shape[axis]]), [axis]))
    return parts[0] if len(parts) == 1 else c.b.Concat(*parts, axis=axis)


@aten("copy")
def copy(c: AtenCall, x: Value, source: Any, non_blocking: bool = False) -> Value:
    """The source, a tensor or a number, in the shape and type of the target."""
    return c.expand(c.operand(source, x.dtype), x.shape)


@aten("unfold")
def unfold(c: AtenCall, x: Value, dimension: int, size: int, step: int) -> Value:
    """Windows along an axis, as a new last axis."""
    axis = c.axis(dimension, x.rank)
    count = c.shape()[axis] if x.rank else 1
    if not isinstance(count, int) or not x.rank:
        raise UnsupportedError("windows over an open size")
    places = [[start * step + inside for inside in range(size)] for start in range(count)]
    if not count or not size:
        raise UnsupportedError("no windows")
    found = c.b.Gather(x, c.b.constant(places), axis=axis)
    order = [place for place in range(x.rank + 1) if place != axis + 1]
    return c.b.Transpose(found, perm=(*order, axis + 1))
