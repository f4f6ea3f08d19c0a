"""Rules about the numbers in weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from intaglio.ir.dtype import from_numpy
from intaglio.tools.linting.rules import Found, rule
from intaglio.tools.linting.subject import Subject

PART = 1 << 20
LARGE = 1 << 16
"""Weights of so many bytes are worth a look for a second copy."""


def _parts(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    flat = array.reshape(-1)
    yield from (flat[start : start + PART] for start in range(0, flat.size, PART))


def _floats(subject: Subject) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    for name, array in subject.weights():
        if from_numpy(array.dtype).is_float:
            yield name, array


@rule("weights-nan", "error", "train or convert again")
def weights_nan(subject: Subject) -> Found:
    """Weights that are not a number."""
    for name, array in _floats(subject):
        count = sum(int(np.isnan(part).sum()) for part in _parts(array))
        if count:
            yield name, f"{count} of {array.size} elements are NaN"


@rule("weights-infinite", "info", "use a finite number")
def weights_infinite(subject: Subject) -> Found:
    """Weights that are infinite: fine in masks, and wrong elsewhere."""
    for name, array in _floats(subject):
        count = sum(int(np.isinf(part).sum()) for part in _parts(array))
        if count:
            yield name, f"{count} of {array.size} elements are infinite"


@rule("weights-denormal", "warning", "set to 0")
def weights_denormal(subject: Subject) -> Found:
    """Weights too small for normal numbers: slow, and zero in some runtimes."""
    for name, array in _floats(subject):
        if array.dtype not in (np.float32, np.float64):
            continue
        tiny = np.finfo(array.dtype).tiny
        count = sum(int(((part != 0) & (np.abs(part) < tiny)).sum()) for part in _parts(array))
        if count:
            yield name, f"{count} of {array.size} elements are denormal"


@rule("weights-duplicate", "info", "store them once: `dedupe`")
def weights_duplicate(subject: Subject) -> Found:
    """Equal weights that are stored twice."""
    seen: dict[tuple[Any, ...], str] = {}
    for name, array in subject.weights():
        if array.nbytes < LARGE or array.dtype == object:
            continue
        digest = hashlib.sha256()
        for part in _parts(array):
            digest.update(np.ascontiguousarray(part).tobytes())
        key = (array.shape, str(array.dtype), digest.digest())
        if key in seen:
            yield name, f"equals {seen[key]!r}, {array.nbytes} bytes"
        seen.setdefault(key, name)


@rule("float16-range", "info", "leave them in float32 when converting")
def float16_range(subject: Subject) -> Found:
    """Weights of float32 that float16 cannot hold."""
    for name, array in _floats(subject):
        if array.dtype == np.float32 and array.size:
            finite = [np.abs(part[np.isfinite(part)]).max(initial=0.0) for part in _parts(array)]
            if max(finite) > 65504:
                yield name, f"up to {float(max(finite)):.3g}, and float16 ends at 65504"
