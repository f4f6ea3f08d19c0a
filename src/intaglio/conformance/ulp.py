"""Distances between floating-point numbers in units in the last place: how many steps of the type lie between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from intaglio.ir.dtype import from_numpy
from intaglio.ir.steps import distance, magnitude

Array = np.ndarray[Any, Any]


def steps(expected: Array, found: Array) -> float:
    """The largest distance between the elements of two arrays; zero where there are none."""
    return float(distance(expected, found).max(initial=0.0))


def scaled(expected: Array, found: Array) -> float:
    """The largest difference in steps of the type at the largest number that is expected.

    This is what to look at where numbers cancel: next to zero the steps are so small that any rounding is many.
    Denormal numbers of the types that processors compute in count as zero, which is what fast modes take them for.

    >>> scaled(np.float32([0, 1]), np.float32([2**-30, 1]))
    0.015625
    """
    expected, found = _without_denormals(expected), _without_denormals(found)
    is_different = distance(expected, found) > 0
    if not is_different.any():
        return 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(expected[is_different].astype(np.float64) - found[is_different].astype(np.float64))
    return float(np.nan_to_num(apart / _largest_step(expected), nan=np.inf, posinf=np.inf).max())


def _without_denormals(array: Array) -> Array:
    if array.dtype not in (np.float32, np.float64):
        return array
    return np.where(np.abs(array) < np.finfo(array.dtype).tiny, np.zeros_like(array), array)


def _largest_step(array: Array) -> float:
    """From the largest finite number of an array to the next one towards zero; of zero, to the next one away."""
    dtype = from_numpy(array.dtype)
    magnitudes, _ = magnitude(array[np.isfinite(array)], dtype)
    code = max(int(magnitudes.max(initial=0)), 1)
    below, above = np.array([code - 1, code], f"u{dtype.itemsize}").view(dtype.numpy).astype(np.float64)
    return float(above - below)


def worst(
    expected: Sequence[Any], found: Sequence[Any], measure: Callable[[Array, Array], float] = steps
) -> float | None:
    """The largest of a measure over all floating-point outputs, those in sequences and complex ones included.

    None where there are none; infinity where an output has another type or shape, or is missing.

    >>> worst([np.float32([0, 1])], [np.float32([0, 1])])
    0.0
    """
    return max((_worst_of(*pair, measure) for pair in _pairs(expected, found)), default=None)


def _pairs(expected: Sequence[Any], found: Sequence[Any]) -> Iterator[tuple[Array, Any]]:
    """The floating-point arrays that are expected, each with what was found in its place."""
    for index, item in enumerate(expected):
        other = found[index] if index < len(found) else None
        if isinstance(item, (list, tuple)):
            is_nested = isinstance(other, (list, tuple))
            yield from _pairs(cast("Sequence[Any]", item), cast("Sequence[Any]", other) if is_nested else ())
        elif isinstance(item, (np.ndarray, np.generic)) and from_numpy(item.dtype).kind in ("float", "complex"):
            yield np.asarray(item), other


def _worst_of(expected: Array, found: Any, measure: Callable[[Array, Array], float]) -> float:
    array: Any = None if found is None else np.asarray(found)
    if array is None or array.dtype != expected.dtype or array.shape != expected.shape:
        return math.inf
    if expected.dtype.kind != "c":
        return measure(expected, array)
    return max(measure(np.real(expected), np.real(array)), measure(np.imag(expected), np.imag(array)))
