"""How many steps of its type lie between two floating-point numbers."""

from __future__ import annotations

from typing import Any

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
    (left, is_left_below), (right, is_right_below) = magnitude(expected, dtype), magnitude(found, dtype)
    apart = np.maximum(left, right) - np.minimum(left, right)
    steps = np.where(is_left_below == is_right_below, apart, left + right).astype(np.float64)
    is_nan, is_other_nan = np.isnan(expected), np.isnan(found)
    return np.where(is_nan | is_other_nan, np.where(is_nan & is_other_nan, 0.0, np.inf), steps)


def magnitude(array: Array, dtype: DType) -> tuple[Array, Array]:
    """How many steps each element is away from zero, and whether it lies below."""
    unsigned = np.dtype(f"u{array.dtype.itemsize}")
    bits = np.ascontiguousarray(array, dtype.numpy).reshape(array.shape).view(unsigned).astype(np.uint64)
    sign = np.uint64(0 if dtype == FLOAT8E8M0 else 1 << (dtype.bits - 1))
    return bits & ~sign, (bits & sign) != 0
