"""What a run gives away: arrays that belong to the caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from intaglio.targets.arrays import is_adopted

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
    is_view = array.base is not None and not is_adopted(array)
    if is_view or not array.flags.writeable or id(array) in taken:
        return array.copy()
    taken.add(id(array))
    return array
