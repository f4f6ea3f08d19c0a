"""What a value must be: the reference's result, and how far rounding may carry another from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .shaking import BYTES, is_float, least_normal

FACTOR = 32.0
"""A difference of so many times the spread of the shaken runs is a fault."""


def difference(ours: Any, plain: Any, samples: Sequence[Any], count: int = 0) -> str:
    """What is wrong with a result, judged by the plain and the shaken results; empty where nothing is.

    The samples may be some of `count`, of which the others are not known yet. A result that is right by some of them is
    right by all: others add to the spread and take nothing from it.
    """
    if plain is None or isinstance(plain, str):
        return "" if ours == plain else f"{ours!r} instead of {plain!r}"
    if isinstance(plain, list):
        return _list_difference(ours, plain, samples, count)
    if isinstance(plain, dict):
        return "" if repr(ours) == repr(plain) else f"{ours!r} instead of {plain!r}"
    ours, plain = np.asarray(ours), np.asarray(plain)
    if ours.dtype != plain.dtype:
        return f"type {ours.dtype} instead of {plain.dtype}"
    if any(np.asarray(sample).shape != plain.shape for sample in samples):
        return ""  # even the shape hangs on rounding
    if ours.shape != plain.shape:
        return f"shape {ours.shape} instead of {plain.shape}"
    return _array_difference(ours, plain, [np.asarray(sample) for sample in samples], count or len(samples))


def traits_of(values: Sequence[Any]) -> set[str]:
    """What judges may not be able to meet: SPECIAL numbers (not finite), EMPTY arrays."""
    is_empty = any(isinstance(value, np.ndarray) and value.size == 0 for value in values)
    return ({"SPECIAL"} if is_special(values) else set[str]()) | ({"EMPTY"} if is_empty else set[str]())


def is_special(values: Sequence[Any]) -> bool:
    """Whether some number is not finite."""
    arrays = [value for value in values if is_float(value)]
    return any(not np.isfinite(array.astype(np.float64)).all() for array in arrays)


def _list_difference(ours: Any, plain: list[Any], samples: Sequence[Any], count: int) -> str:
    if any(len(sample) != len(plain) for sample in samples):
        return ""
    if not isinstance(ours, list) or len(ours) != len(plain):
        return f"{len(ours) if isinstance(ours, list) else ours!r} elements instead of {len(plain)}"
    pairs = enumerate(zip(ours, plain, strict=True))
    found = (difference(a, b, [s[i] for s in samples], count) for i, (a, b) in pairs)
    return next((f"element {i}: {text}" for i, text in enumerate(found) if text), "")


def _array_difference(ours: Any, plain: Any, samples: list[Any], count: int) -> str:
    if plain.dtype == object:
        wrong = np.array([a != b for a, b in zip(ours.ravel(), plain.ravel(), strict=True)], bool).reshape(plain.shape)
    elif plain.dtype.kind == "c":
        pairs = [(ours.real, plain.real, [s.real for s in samples]), (ours.imag, plain.imag, [s.imag for s in samples])]
        wrong = np.logical_or(*(_wrong_floats(*pair, count) for pair in pairs))
    elif is_float(plain):
        wrong = _wrong_floats(ours, plain, samples, count)
    elif plain.dtype in BYTES:
        wrong = _wrong_bytes(ours, plain, samples)
    else:
        is_firm = np.all([sample == plain for sample in samples], axis=0) if samples else True
        wrong = (ours != plain) & is_firm
    return _told(ours, plain, np.asarray(wrong, bool))


def _wrong_bytes(ours: Any, plain: Any, samples: list[Any]) -> Any:
    wide = plain.astype(np.int64)
    moved = np.max([np.abs(sample.astype(np.int64) - wide) for sample in samples] or [np.zeros_like(wide)], axis=0)
    # where one element of a kind is moved by quantising, its neighbours may be
    return np.abs(ours.astype(np.int64) - wide) > np.where(moved.any(), np.maximum(4 * moved, 1), 0)


def _wrong_floats(ours: Any, plain: Any, samples: list[Any], count: int) -> Any:
    kinds = [_kind(sample) for sample in (plain, *samples)]
    is_firm = np.all([kind == kinds[0] for kind in kinds], axis=0)
    values = [array.astype(np.float64) for array in (plain, *samples)]
    own = ours.astype(np.float64)
    with np.errstate(all="ignore"):
        errors = [np.where(is_firm & (kinds[0] == 0), value - values[0], 0.0) for value in values[1:]]
        spread = np.hypot.reduce(errors) / np.sqrt(count) if errors else np.zeros(plain.shape)  # squares would vanish
        typical = float(np.median(spread)) if spread.size else 0.0
        unit = 4 * float(ml_dtypes.finfo(plain.dtype).eps) * np.abs(values[0]) if spread.any() else 0.0
        limit = FACTOR * np.maximum(spread, min(typical, float(np.max(spread, initial=0.0)))) + unit
        is_near = np.abs(own - values[0]) <= limit + 4 * least_normal(plain.dtype)
    is_same = (_kind(ours) == kinds[0]) & ((kinds[0] != 0) | is_near)
    return is_firm & ~is_same


def _kind(array: Any) -> Any:
    """0 for finite numbers, 1 and 2 for infinities, 3 for NaN."""
    wide = array.astype(np.float64)
    return np.where(np.isnan(wide), 3, np.where(np.isinf(wide), np.where(wide > 0, 1, 2), 0))


def _told(ours: Any, plain: Any, wrong: Any) -> str:
    if not wrong.any():
        return ""
    place = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    count = f"{int(wrong.sum())} of {wrong.size} elements"
    return f"{count} of {plain.dtype}{list(plain.shape)}: at {list(place)} {ours[place]!r} instead of {plain[place]!r}"
