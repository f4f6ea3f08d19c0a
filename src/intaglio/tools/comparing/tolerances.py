"""How far results may be apart: by element type, and for single tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from intaglio.errors import InputError
from intaglio.ir.dtype import DTYPES

DEFAULTS: dict[str, float] = {
    "float64": 1e-7, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1, "complex64": 1e-3, "complex128": 1e-7,
    "float8e4m3fn": 0.25, "float8e4m3fnuz": 0.25, "float8e5m2": 0.5, "float8e5m2fnuz": 0.5, "float8e8m0": 1.0,
    "float6e2m3": 0.25, "float6e3m2": 0.5, "float4e2m1": 0.5,
}  # fmt: skip
"""Relative tolerances by element type: what rounding in another order does in deep models. Others are 0."""


@dataclass(frozen=True)
class Tolerances:
    """Relative and absolute tolerances. A name stands for an element type, or is a pattern of names of tensors.

    Without an absolute one it is the relative one times the root of the mean square of what is expected.
    """

    rtol: float | None = None
    atol: float | None = None
    relative: Mapping[str, float] = field(default_factory=dict[str, float])
    absolute: Mapping[str, float] = field(default_factory=dict[str, float])

    def of(self, name: str, dtype: str) -> tuple[float, float | None]:
        """The relative and the absolute tolerance of a tensor; None where the latter follows from the data."""
        rtol = _found(self.relative, name, dtype, self.rtol)
        return DEFAULTS.get(dtype, 0.0) if rtol is None else rtol, _found(self.absolute, name, dtype, self.atol)


def _found(table: Mapping[str, float], name: str, dtype: str, default: float | None) -> float | None:
    if name in table:
        return table[name]
    patterns = (value for pattern, value in table.items() if pattern not in DTYPES and fnmatchcase(name, pattern))
    return next(patterns, table.get(dtype, default))


def make_tolerances(rtol: float | Mapping[str, float] | None, atol: float | Mapping[str, float] | None) -> Tolerances:
    """Tolerances from one number for all, or from numbers by element type and by name of a tensor."""
    return Tolerances(
        rtol if isinstance(rtol, (int, float)) else None,
        atol if isinstance(atol, (int, float)) else None,
        rtol if isinstance(rtol, Mapping) else {},
        atol if isinstance(atol, Mapping) else {},
    )


def parse_tolerances(relative: Iterable[str], absolute: Iterable[str]) -> Tolerances:
    """Tolerances as options spell them: `1e-3` for all, `float16:1e-2` for a type, `out:1e-3` for a tensor.

    >>> parse_tolerances(["1e-3", "out:0.1"], []).of("out", "float32")
    (0.1, None)
    """
    (rtol, by_relative), (atol, by_absolute) = _parse(relative, "rtol"), _parse(absolute, "atol")
    return Tolerances(rtol, atol, by_relative, by_absolute)


def _parse(texts: Iterable[str], option: str) -> tuple[float | None, dict[str, float]]:
    general, named = None, dict[str, float]()
    for text in texts:
        name, _, number = text.rpartition(":")
        try:
            value = float(number)
        except ValueError:
            raise InputError(f"--{option} {text!r} is no number, and no NAME:NUMBER such as out:1e-3") from None
        if not value >= 0:
            raise InputError(f"--{option} {text!r} is not at least 0")
        if name:
            named[name] = value
        else:
            general = value
    return general, named
