"""What a run gives away: arrays that belong to the caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from intaglio.ir.graph import Value


def constant_ids(values: Iterable[Value | None]) -> frozenset[int]:
    """The identities of the arrays that these values hold, which a run must not give away."""
    return frozenset(id(value.constant) for value in values if value is not None and value.constant is not None)


def owned(outputs: Sequence[Any], inputs: Sequence[Any], constants: frozenset[int]) -> list[Any]:
    """The outputs as arrays that belong to the caller: no input, no constant, no view of either, no array twice."""
    taken: set[int] = set(constants)
    for item in inputs:
        _note(item, taken)
    return [_own(output, taken) for output in outputs]


class _Adopted:
    """Memory of a run that has become an array's; the owner frees it."""

    def __init__(self, owner: object, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        self.owner = owner
        kind = f"|V{dtype.itemsize}" if dtype.num >= 256 else dtype.str
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": tuple(shape), "typestr": kind}


def adopted(owner: object, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array in memory that was allocated for it, and that goes with it."""
    return np.asarray(_Adopted(owner, address, shape, dtype)).view(dtype)


def _is_adopted(array: np.ndarray[Any, Any]) -> bool:
    base: Any = array.base
    while isinstance(base, np.ndarray):
        base = cast("Any", base).base
    return isinstance(base, _Adopted)


def _note(item: Any, taken: set[int]) -> None:
    taken.add(id(item))
    if isinstance(item, list):
        for part in cast("list[Any]", item):
            _note(part, taken)


def _own(output: Any, taken: set[int]) -> Any:
    if isinstance(output, list):
        return [_own(part, taken) for part in cast("list[Any]", output)]
    if not isinstance(output, np.ndarray):
        return output
    array = cast("np.ndarray[Any, Any]", output)
    is_view = array.base is not None and not _is_adopted(array)
    if is_view or not array.flags.writeable or id(array) in taken:
        return array.copy()
    taken.add(id(array))
    return array
