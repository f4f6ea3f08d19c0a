"""The kinds of models that the hunt makes."""

from __future__ import annotations

from typing import Protocol

from . import chains, control, operators, quantised
from .problem import Problem


class Generator(Protocol):
    """Makes the problem of a seed, with so many times the usual number of parts."""

    def __call__(self, seed: int, times: int = 1) -> Problem: ...


KINDS: dict[str, Generator] = {
    "operators": operators.problem,
    "chains": chains.chains,
    "graphs": chains.graphs,
    "control": control.problem,
    "quantised": quantised.problem,
}
