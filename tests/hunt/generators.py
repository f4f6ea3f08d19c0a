"""The kinds of models and programs that the hunt makes."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

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

ROOMS: dict[str, str] = {
    "donate": "donations",
    "exports": "exports",
    "gradients": "gradients",
    "rows": "rows",
    "torch": "torch_programs",
    "training": "training",
}
"""The modules of `rooms` by kind. They are imported when a seed of theirs is made, as some import PyTorch."""


def room(kind: str) -> Any:
    """The module that makes and judges the seeds of a kind that is no ONNX model."""
    return importlib.import_module(f".rooms.{ROOMS[kind]}", __package__)


def every_kind() -> list[str]:
    """The names of all kinds."""
    return sorted((*KINDS, *ROOMS))
