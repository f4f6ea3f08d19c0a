"""Order: sorting, the largest elements, searching."""

from __future__ import annotations

from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import BOOL, INT64
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import Call
from intaglio.torch.aten.table import aten


@aten("topk")
def topk(c: Call, x: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Value, ...]:
    """The largest or smallest elements along an axis, and where they are."""
    return _top(c, x, k, dim, largest)


@aten("sort", "sort.stable")
def sort(c: Call, x: Value, *arguments: Any, **named: Any) -> tuple[Value, ...]:
    """The elements along an axis in order, and where they were; equal ones stay in order."""
    given: list[Any] = list(arguments)
    if given and (given[0] is None or isinstance(given[0], bool)) and "stable" not in named and len(given) > 1:
        given = given[1:]
    dim: Any = given[0] if given else named.get("dim", -1)
    descending = given[1] if len(given) > 1 else named.get("descending", False)
    size = x.shape[c.axis(dim, x.rank)] if x.rank else 1
    return _top(c, x, size, dim, descending)


def _top(c: Call, x: Value, k: Any, dim: int, largest: bool) -> tuple[Value, ...]:
    if x.dtype == BOOL:
        raise UnsupportedError("the order of truth values")
    if not x.rank:
        return x, c.full((), 0, INT64)
    if x.dtype.is_float and c.fake(x).dtype.itemsize < 4:
        raise UnsupportedError("the order of numbers of 16 bits")
    return c.b.TopK(x, c.vector([k]), axis=c.axis(dim, x.rank), largest=int(largest), sorted=1, outputs=2)
