"""What came of one test, as plain data that can travel between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Outcome = Literal["passed", "failed", "declined", "random"]
"""A test that the backend declined did not pass; one that compares random numbers cannot, but by chance."""

Usage: TypeAlias = list[tuple[str, str, list[tuple[str, str]]]]
"""The nodes of a model: domain, operator, and its attributes with something that tells their values apart."""


@dataclass(frozen=True)
class Result:
    """What came of one test.

    `ulp` is the largest distance of a floating-point output from what is expected, None where there are none; `scaled`
    the largest difference in units in the last place of the largest number of the output.
    `is_compiled` says that it passed in native code that needs no reference engine inside.
    """

    name: str
    outcome: Outcome
    reason: str = ""
    usage: Usage = field(default_factory=list[tuple[str, str, list[tuple[str, str]]]])
    ulp: float | None = None
    scaled: float | None = None
    is_compiled: bool = False
    seconds: float = 0.0
