"""Parts of values: `x[1:, None, -1]` as nodes, with the meaning that NumPy gives it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.dtype import BOOL, INT64
from intaglio.ir.graph import Value
from intaglio.ir.types import TensorType

if TYPE_CHECKING:
    from intaglio.ir.build import Builder

_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)


@dataclass
class _Parts:
    """What an index asks for: slices and places by axis of the value, and new axes by their place in the result."""

    slices: dict[int, slice] = field(default_factory=dict[int, slice])
    places: dict[int, Any] = field(default_factory=dict[int, Any])
    new_axes: list[int] = field(default_factory=list[int])


def subscript(b: Builder, value: Value, index: Any) -> Value:
    """The part of a value that an index of numbers, slices, None, an ellipsis and at most one tensor of integers names.

    Raises InputError for other indices, and for more than the value has axes.
    """
    parts = _read(value, _listed(value, index))
    if len(parts.places) > 1 and any(_rank(place) > 0 for place in parts.places.values()):
        raise InputError("a tensor or list as index stands beside slices only: index in two steps, or use GatherND")
    result = _sliced(b, value, parts.slices) if parts.slices else value
    for axis, place in sorted(parts.places.items(), reverse=True):
        result = b.Gather(result, place, axis=axis)
    return b.Unsqueeze(result, parts.new_axes) if parts.new_axes else result


def _listed(value: Value, index: Any) -> list[Any]:
    """The items of an index, with slices of whole axes for an ellipsis."""
    items = list(cast("tuple[Any, ...]", index)) if isinstance(index, tuple) else [index]
    used = sum(item is not None and item is not Ellipsis for item in items)
    rank = None if not isinstance(value.type, TensorType) or value.type.shape is None else value.rank
    if rank is not None and used > rank:
        raise InputError(f"{used} indices for {value!r}, which has {rank} axes")
    places = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise InputError("an index has at most one ellipsis")
    if places:
        whole = [slice(None)] * (value.rank - used)
        items[places[0] : places[0] + 1] = whole
    return items


def _read(value: Value, items: Sequence[Any]) -> _Parts:
    parts = _Parts()
    axis = result_axis = 0
    for item in items:
        if item is None:
            parts.new_axes.append(result_axis)
            result_axis += 1
            continue
        if isinstance(item, slice):
            if (item.start, item.stop, item.step) != (None, None, None):
                parts.slices[axis] = item
            result_axis += 1
        else:
            place = _place(value, item, axis)
            parts.places[axis] = place
            result_axis += _rank(place)
        axis += 1
    return parts


def _rank(place: Any) -> int:
    return place.rank if isinstance(place, Value) else np.ndim(place)


def _place(value: Value, item: Any, axis: int) -> Value | np.ndarray[Any, Any]:
    """A number, an array or a value that names places along an axis."""
    if isinstance(item, Value):
        if item.dtype == BOOL or not item.dtype.is_integer:
            raise InputError(f"{item!r} is no index; intaglio.ops.Compress and Where choose by truth values")
        return item
    array = np.asarray(item)
    if array.dtype.kind not in "iu" or isinstance(item, bool):
        raise InputError(f"an index of {value!r} is a {type(item).__name__}, expected numbers, slices, None or ...")
    size = value.shape[axis] if isinstance(value.type, TensorType) and value.type.shape is not None else None
    for number in array.ravel().tolist():
        if isinstance(size, int) and not -size <= number < size:
            raise InputError(f"the index {number} is out of range for axis {axis} of {value!r}")
    return array.astype(np.int64)


def _sliced(b: Builder, value: Value, slices: dict[int, slice]) -> Value:
    steps = [1 if each.step is None else _number(each.step) for each in slices.values()]
    if 0 in steps:
        raise InputError("the step of a slice is 0")
    firsts = [0 if step > 0 else _LARGEST for step in steps]
    ends = [_LARGEST if step > 0 else _SMALLEST for step in steps]
    starts = _numbers(b, [each.start for each in slices.values()], firsts)
    stops = _numbers(b, [each.stop for each in slices.values()], ends)
    return b.Slice(value, starts, stops, list(slices), steps)


def _numbers(b: Builder, given: Sequence[Any], defaults: Sequence[int]) -> Any:
    """Bounds as a list of integers: a constant, or joined where some are values."""
    items = [default if item is None else item for item, default in zip(given, defaults, strict=True)]
    if not any(isinstance(item, Value) for item in items):
        return [_number(item) for item in items]
    parts = [b.Reshape(_bound(b, item), [1]) for item in items]
    return parts[0] if len(parts) == 1 else b.Concat(*parts, axis=0)


def _bound(b: Builder, item: Any) -> Value:
    return b.Cast(item, to=INT64.number) if isinstance(item, Value) else b.constant(_number(item), INT64)


def _number(item: Any) -> int:
    try:
        return operator.index(item)
    except TypeError:
        raise InputError(f"a slice is given a {type(item).__name__}, expected whole numbers") from None
