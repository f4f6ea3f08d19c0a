"""Compiling many models at once, which takes far fewer runs of the compiler than one model after another."""

from __future__ import annotations

from collections.abc import Iterable

from intaglio.kernels.plan_form import PlanForm
from intaglio.runtime.engine.engine import Progress
from intaglio.runtime.engine.native import NativeEngine
from intaglio.targets import executor_for


def compile_together(engines: Iterable[NativeEngine], progress: Progress | None = None) -> int:
    """Compile the code of engines that are not loaded yet; returns how many different functions they have.

    Engines are taken one at a time, so a generator of them needs the memory of one, and of all plans.
    """
    forms: list[PlanForm] = []
    for engine in engines:
        forms += engine.forms()
    return executor_for().compile_together(forms, progress)
