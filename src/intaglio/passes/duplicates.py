"""Equal constants as one."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Array
from intaglio.passes.driver import Event, Outcome, Stays, nothing_stays

SAMPLE = 64
"""So many elements of a constant are compared before all of them are."""


def merge_equal_constants(graph: Graph, stays: Stays = nothing_stays) -> Outcome:
    """Of constants with equal elements, the readers of all read the first one."""
    del stays
    outcome, known = Outcome(), dict[Hashable, list[Value]]()
    for value in graph.constants():
        if not isinstance(value.constant, np.ndarray) or value.constant.dtype == object or value.is_output:
            continue
        alike = known.setdefault(_key(value.constant), [])
        first = next((each for each in alike if _are_equal(each.constant, value.constant)), None)
        if first is None:
            alike.append(value)
        elif first is not value:
            value.replace_uses(first)
            outcome.applied.append(Event("equal-constants", f"%{value.name}"))
    return outcome


def _key(array: Array) -> Hashable:
    flat = array.reshape(-1)[:SAMPLE] if array.flags.c_contiguous else array[(0,) * (array.ndim - 1)][:SAMPLE]
    return str(array.dtype), array.shape, np.ascontiguousarray(flat).tobytes()


def _are_equal(left: Array | None, right: Array) -> bool:
    if left is None or left is right:
        return left is right
    if left.strides == right.strides and not any(left.strides):
        return True  # of both, all elements are one, which the key has compared
    return bool(np.array_equal(_bits(left), _bits(right)))


def _bits(array: Array) -> Array:
    """The elements as bytes, so that -0.0 is not 0.0 and a NaN is itself."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
