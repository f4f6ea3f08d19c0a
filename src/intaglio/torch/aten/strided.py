"""Elements by their places in memory, and diagonals that are written to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.movement import permute
from intaglio.torch.aten.table import aten

MOST = 2**22
"""Up to so many places are listed."""


def _numbers(*sizes: Any) -> None:
    if not all(isinstance(size, int) for size in sizes):
        raise UnsupportedError("strides of open sizes")


def _order(c: AtenCall, x: Value) -> list[int]:
    """The axes in the order in which the tensor lies in memory; raises where it has gaps."""
    fake = c.fake(x)
    _numbers(*fake.shape, *fake.stride(), fake.storage_offset())
    order = sorted(range(fake.ndim), key=lambda axis: (-fake.stride(axis), axis))
    if not fake.permute(order).is_contiguous():
        raise UnsupportedError("as_strided of a tensor with gaps between its elements")
    return order


def _places(c: AtenCall, x: Value, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any) -> Any:
    """Where the elements are, counted from the first of the tensor."""
    begin = c.fake(x).storage_offset()
    first = begin if storage_offset is None else storage_offset
    _numbers(*size, *stride, first)
    if int(np.prod(size)) > MOST:
        raise UnsupportedError(f"as_strided to more than {MOST} elements")
    places = np.full(tuple(size), first - begin, np.int64)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[axis] = count
        places = places + np.arange(count, dtype=np.int64).reshape(shape) * step
    if places.size and not (places.min() >= 0 and places.max() < c.fake(x).numel()):
        raise UnsupportedError("as_strided beyond the elements of its tensor")
    return places


@aten("as_strided", "as_strided_copy")
def as_strided(c: AtenCall, x: Value, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None) -> Value:
    """The elements at given steps in memory."""
    flat = c.b.Reshape(permute(c, x, _order(c, x)), [-1])
    return c.b.Gather(flat, c.b.constant(_places(c, x, size, stride, storage_offset)), axis=0)


@aten("as_strided_scatter")
def as_strided_scatter(
    c: AtenCall, x: Value, source: Value, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Value:
    """The tensor with elements at given steps in memory replaced."""
    order = _order(c, x)
    places = _places(c, x, size, stride, storage_offset)
    if len(np.unique(places)) != places.size:
        raise UnsupportedError("it writes to elements that share memory with each other")
    written = _replaced(c, permute(c, x, order), places, source)
    return permute(c, written, sorted(range(x.rank), key=lambda axis: order[axis]))


def _replaced(c: AtenCall, x: Value, places: Any, source: Value) -> Value:
    """The tensor with elements at places of the flattened tensor replaced."""
    updates = c.b.Reshape(c.cast(source, x.dtype), [-1])
    flat = c.b.ScatterElements(c.b.Reshape(x, [-1]), c.b.constant(places.reshape(-1)), updates, axis=0)
    return c.reshape(flat, x.shape)


@aten("diagonal_scatter")
def diagonal_scatter(c: AtenCall, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The tensor with the diagonal of two axes replaced."""
    sizes = [size for size in x.shape if isinstance(size, int)]
    if len(sizes) != x.rank or int(np.prod(sizes)) > MOST:
        raise UnsupportedError("the diagonal of open or large sizes")
    places = np.arange(int(np.prod(sizes)), dtype=np.int64).reshape(sizes)
    return _replaced(c, x, places.diagonal(offset, dim1, dim2), source)
