"""Operators and implementations of the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from intaglio.ir.graph import Graph

Implementations: TypeAlias = Mapping[str, str]


@dataclass(frozen=True)
class Choice:
    """A choice."""


def choose(graph: Graph, wanted: Implementations) -> tuple[Choice, ...]:
    """Nothing yet."""
    return ()


def refusals(choices: Sequence[Choice]) -> list[Choice]:
    """Nothing yet."""
    return []


def warn_of_refusals(choices: Sequence[Choice]) -> None:
    """Nothing yet."""
