"""The kinds of models that the hunt makes."""

from __future__ import annotations

from collections.abc import Callable

from . import chains, control, operators, quantised
from .problem import Problem

KINDS: dict[str, Callable[[int], Problem]] = {
    "operators": operators.problem,
    "chains": chains.chains,
    "graphs": chains.graphs,
    "control": control.problem,
    "quantised": quantised.problem,
}
