"""A fixed part of the hunt for training runs, and whether its judge sees what it is there for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is the judge")

from intaglio import train  # noqa: E402 (what follows needs PyTorch)

from ..dice import Dice  # noqa: E402
from . import training  # noqa: E402
from .training_judge import Judge  # noqa: E402
from .training_plans import STEPS, Plan, Planner, plans  # noqa: E402


@pytest.mark.parametrize("seed", range(100, 118))
def test_nothing_is_wrong(seed: int) -> None:
    seen = training.look(seed, 1, lambda phase: None)
    assert seen.cases == training.RUNS
    assert not seen.verdict.findings, "\n".join(map(str, seen.verdict.findings[:5]))


def test_a_seed_always_stands_for_the_same() -> None:
    first, second = (plans(7, 3) for _ in range(2))
    for left, right in zip(first, second, strict=True):
        assert training.describe(left) == training.describe(right)
        for pair, other in zip(left.batches, right.batches, strict=True):
            assert all(a.tobytes() == b.tobytes() for a, b in zip(pair, other, strict=True))


def found_by(plan: Plan, **changes: Any) -> list[tuple[str, str]]:
    """What the judge finds where our trainer does something else than the plan says."""
    truth = Judge(plan, torch.float64).run()
    samples = [Judge(plan, torch.float64, training.noise_of(plan), n).run() for n in range(training.FEW)]
    return training.differences(plan, training.trained(replace(plan, **changes)), truth, samples)


def plain_plan(dtype: str) -> Plan:
    """A run of a network whose gradients are not small."""
    planner = Planner(Dice(5))
    planner.dtype, planner.shape, planner.is_poisoned = dtype, (4,), False
    planner.dense(5)
    planner.add("activation", word="Tanh")
    planner.dense(3)
    batches = [(planner.values(4, 4), planner.values(4, 3)) for _ in range(STEPS)]
    settings: dict[str, Any] = {"groups": [], "nonfinite": "skip", "engine": "reference"}
    optimizer = train.Adam(0.01, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1)
    return Plan(dtype, planner.layers, (4,), False, train.MSE(), optimizer, ("constant", ()), settings, batches)


@pytest.mark.parametrize(
    "fault",
    [
        {"lr": 0.01 * (1 + 1e-4)}, {"betas": (0.8, 0.9001)}, {"eps": 1.1e-3}, {"weight_decay": 0.1001},
        {"amsgrad": True},
    ],
)  # fmt: skip
def test_the_judge_sees_small_faults(fault: dict[str, Any]) -> None:
    for dtype in ("float32", "float64"):
        plan = plain_plan(dtype)
        assert not found_by(plan)
        assert found_by(plan, optimizer=replace(plan.optimizer, **fault))


def test_elements_are_judged_by_their_own_rounding() -> None:
    right = np.array([1.0, 1000.0])
    samples = [np.array([1 + 1e-7, 1000.001])]
    assert not training.difference(np.array([1 + 1e-6, 1000.01]), right, samples, 2.0**-24)
    assert "1 of 2 differ, at [0]" in training.difference(np.array([1.1, 1000.01]), right, samples, 2.0**-24)
    assert training.difference(np.array([np.nan, 1000.0]), right, samples, 2.0**-24)
    assert not training.difference(np.array([np.nan]), np.array([np.nan]), [np.array([np.nan])], 2.0**-24)
