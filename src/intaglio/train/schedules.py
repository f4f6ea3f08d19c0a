"""Schedules: by what the learning rate is multiplied in each step, counted from 0: plain functions of the step.

As PyTorch's CosineAnnealingLR, OneCycleLR (of the learning rate alone), LinearLR and StepLR, called after each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from intaglio.errors import InputError

Schedule = Callable[[int], float]


def constant() -> Schedule:
    """The learning rate as it is."""
    return lambda step: 1.0


def cosine(steps: int, least: float = 0.0) -> Schedule:
    """Down to `least` of the learning rate over so many steps, along half a cosine; there it stays."""
    _check(steps)
    return lambda step: least + (1 - least) * (1 + math.cos(math.pi * min(step, steps) / steps)) / 2


def one_cycle(steps: int, rise: float = 0.3, first: float = 1 / 25, last: float = 1 / 25e4) -> Schedule:
    """Up from `first` of the learning rate during the share `rise` of the steps, then down to `last`, along cosines.

    The learning rate is the largest, what PyTorch calls `max_lr`.
    """
    _check(steps)
    if not 0 < rise < 1:
        raise InputError(f"rise is {rise}, expected a share of the steps between 0 and 1")
    top = max(rise * steps - 1, 1e-9)

    def factor(step: int) -> float:
        step = min(step, steps - 1)
        if step <= top:
            return _along(first, 1.0, step / top)
        return _along(1.0, last, (step - top) / max(steps - 1 - top, 1e-9))

    return factor


def warmup(steps: int, then: Schedule | None = None, first: float = 0.0) -> Schedule:
    """Up from `first` of the learning rate along a line over so many steps, then another schedule from its start."""
    _check(steps)
    follow = then or constant()
    return lambda step: first + (1 - first) * step / steps if step < steps else follow(step - steps)


def step_decay(every: int, factor: float = 0.1) -> Schedule:
    """Multiplied by `factor` after each so many steps."""
    _check(every)
    return lambda step: factor ** (step // every)


def _along(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def _check(steps: int) -> None:
    if steps < 1:
        raise InputError(f"a schedule of {steps} steps, expected at least 1")
