"""A fixed part of the hunt among inputs that are given away, and faults that it must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from intaglio.kernels import arena, in_place, lower
from intaglio.kernels.plan import Call

from . import donations


def findings(seeds: range) -> list[str]:
    seen = [donations.look(seed, 1, lambda phase: None) for seed in seeds]
    return [finding.text for each in seen for finding in each.verdict.findings]


@pytest.mark.parametrize("seed", range(12))
def test_runs_give_what_they_gave(seed: int) -> None:
    seen = donations.look(seed, 1, lambda phase: None)
    assert seen.verdict.judges["in place"] > 5
    assert seen.verdict.judges["copied"] > 2
    assert not seen.verdict.findings, "\n".join(map(str, seen.verdict.findings[:3]))


def in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operand may be written over although the kernel also reads it in another order."""

    def careless(fused: Any) -> Any:
        if fused.reduced or len(fused.stores) != 1:
            return ()
        (store,) = fused.stores.values()
        loads = fused.loads.values()
        return tuple((store.buffer, load.buffer) for load in loads if arena._is_same_place(load, store))

    def is_paired(action: Any, made: Any, given: Any) -> bool:
        pairs = action.replaces if isinstance(action, Call) else ()
        return any(left.home is made and right.home is given for left, right in pairs)

    monkeypatch.setattr(lower, "replaceable", careless)
    monkeypatch.setattr(in_place, "_writes_over", is_paired)


def without_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said to run behind anything else."""
    monkeypatch.setattr(in_place.Order, "may_follow", lambda self, first, second: False)


def with_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first read of an input counts."""
    conflict = in_place.conflict

    def forgetful(order: Any, given: Any, *others: Any) -> str:
        reads = order.reads.get(given, [])
        order.reads[given] = reads[:1]
        try:
            return conflict(order, given, *others)
        finally:
            order.reads[given] = reads

    monkeypatch.setattr(in_place, "conflict", forgetful)


@pytest.mark.parametrize("fault", [in_another_order, without_order, with_one_read])
def test_planted_faults_are_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intaglio.runtime.model.loading.warm_start", lambda source, options: None)
    fault(monkeypatch)
    assert findings(range(4))
