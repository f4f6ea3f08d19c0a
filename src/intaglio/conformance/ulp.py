"""Distances between floating-point numbers in units in the last place: how many steps of the type lie between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from intaglio.ir.dtype import FLOAT8E8M0, DType, from_numpy

Array = np.ndarray[Any, Any]


def distance(expected: Array, found: Array) -> Array:
    """The steps between the elements of two arrays of one floating-point type.

    NaN is NaN, whatever its bits, and infinitely far from all else; zeros have one value.

    >>> one = np.float32([1.0])
    >>> distance(one, np.nextafter(one, np.float32(2)))
    array([1.])
    """
    dtype = from_numpy(expected.dtype)
    (left, is_left_below), (right, is_right_below) = _magnitude(expected, dtype), _magnitude(found, dtype)
    apart = np.maximum(left, right) - np.minimum(left, right)
    steps = np.where(is_left_below == is_right_below, apart, left + right).astype(np.float64)
    is_nan, is_other_nan = np.isnan(expected), np.isnan(found)
    return np.where(is_nan | is_other_nan, np.where(is_nan & is_other_nan, 0.0, np.inf), steps)


def _magnitude(array: Array, dtype: DType) -> tuple[Array, Array]:
    """How many steps each element is away from zero, and whether it lies below."""
    unsigned = np.dtype(f"u{array.dtype.itemsize}")
    bits = np.ascontiguousarray(array, dtype.numpy).reshape(array.shape).view(unsigned).astype(np.uint64)
    sign = np.uint64(0 if dtype == FLOAT8E8M0 else 1 << (dtype.bits - 1))
    return bits & ~sign, (bits & sign) != 0


def worst(expected: Sequence[Any], found: Sequence[Any]) -> float | None:
    """The largest distance over all floating-point outputs, those in sequences and complex ones included.

    None where there are none; infinity where an output has another type or shape, or is missing.

    >>> worst([np.float32([0, 1])], [np.float32([0, 1])])
    0.0
    """
    return max((_worst_of(*pair) for pair in _pairs(expected, found)), default=None)


def _pairs(expected: Sequence[Any], found: Sequence[Any]) -> Iterator[tuple[Array, Any]]:
    """The floating-point arrays that are expected, each with what was found in its place."""
    for index, item in enumerate(expected):
        other = found[index] if index < len(found) else None
        if isinstance(item, (list, tuple)):
            is_nested = isinstance(other, (list, tuple))
            yield from _pairs(cast("Sequence[Any]", item), cast("Sequence[Any]", other) if is_nested else ())
        elif isinstance(item, (np.ndarray, np.generic)) and from_numpy(item.dtype).kind in ("float", "complex"):
            yield np.asarray(item), other


def _worst_of(expected: Array, found: Any) -> float:
    array = None if found is None else np.asarray(found)
    if array is None or array.dtype != expected.dtype or array.shape != expected.shape:
        return math.inf
    if expected.dtype.kind == "c":
        return max(_worst_of(expected.real, array.real), _worst_of(expected.imag, array.imag))
    return float(distance(expected, array).max(initial=0.0))
