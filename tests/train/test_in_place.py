"""The state of a trainer is written over: all of it or nothing, and it is held once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import build, ops
from intaglio.kernels.plan import Call, Commit, walk
from intaglio.kernels.plan_form import SegmentForm
from intaglio.runtime.engine.native import NativeEngine
from intaglio.targets.c.driver import Driver
from intaglio.train import Trainer

OPTIMIZERS = ("sgd", "adam", "adamw", "adagrad", "rmsprop", "lion")


def layers(sizes: tuple[int, ...] = (6, 20, 3)) -> Any:
    """A graph of linear layers."""
    dice = np.random.default_rng(0)
    with build("layers") as g:
        h = g.input("x", f"float32[N,{sizes[0]}]")
        for number, (left, right) in enumerate(pairwise(sizes)):
            weight = g.constant(dice.normal(0, 0.3, (left, right)).astype(np.float32), f"w{number}")
            h = ops.Tanh(ops.MatMul(h, weight) + g.constant(np.zeros(right, np.float32), f"b{number}"))
        g.output(y=h)
    return g.graph


def trainer(sizes: tuple[int, ...] = (6, 20, 3), **options: Any) -> Trainer:
    return Trainer(layers(sizes), loss="mse", lr=1e-2, **options)


def batch(sizes: tuple[int, ...] = (6, 20, 3), rows: int = 4) -> tuple[Any, Any]:
    dice = np.random.default_rng(1)
    return dice.normal(size=(rows, sizes[0])).astype(np.float32), dice.normal(size=(rows, sizes[-1])).astype(np.float32)


def places(made: Trainer) -> dict[str, int]:
    return {name: made.state.held(name).ctypes.data for name in made.state}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("options", [{}, {"ema": 0.9, "clip_norm": 0.5}, {"accumulate": 2}], ids=str)
def test_a_step_writes_over_the_state_and_gives_what_new_arrays_give(optimizer: str, options: Any) -> None:
    """The reference engine returns new arrays, so its steps tell what is right."""
    ours, other = trainer(optimizer=optimizer, **options), trainer(optimizer=optimizer, engine="reference", **options)
    before = places(ours)
    for _ in range(4):
        assert ours.step(*batch()) == pytest.approx(other.step(*batch()), rel=1e-5)
    assert places(ours) == before
    assert ours.state.bytes == sum(array.nbytes for array in ours.state.values())
    for name in ours.state:
        np.testing.assert_allclose(ours.state[name], other.state[name], rtol=2e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("optimizer", ["adam", "lion"])
def test_a_step_that_is_left_out_changes_nothing(engine: Any, optimizer: str) -> None:
    made = trainer(optimizer=optimizer, engine=engine, nonfinite="skip")
    made.step(*batch())
    before, at = made.state.state_dict(), places(made)
    x, y = batch()
    x[1, 2] = np.inf
    with pytest.warns(UserWarning, match="left out"):
        made.step(x, y * np.nan)
    after = made.state.state_dict()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert engine == "reference" or places(made) == at
    made.nonfinite = "ignore"
    made.step(x, y * np.nan)
    assert not np.isfinite(made.state["w0"]).all()


def segment_of(made: Trainer) -> SegmentForm:
    engine = made.model.model.whole_engine()
    assert isinstance(engine, NativeEngine)
    (segment,) = engine.form.segments
    return segment


@contextmanager
def stopped_at(number: int) -> Iterator[None]:
    """Drivers that are made here are cancelled at one of their calls, as the pool cancels them."""
    run = Driver.run

    def stop(self: Driver, call: Call) -> None:
        self.out.add("return 1;") if self.places[id(call)] == number else run(self, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Driver, "run", stop)
        patch.setattr("intaglio.runtime.model.loading.warm_start", lambda source, options: None)
        yield


def test_a_step_that_is_stopped_at_any_call_changes_nothing() -> None:
    """The run may end at every call before the update; behind that, no call can fail."""
    made = trainer(optimizer="adam")
    actions = list(walk(segment_of(made).actions))
    commit = next(place for place, action in enumerate(actions) if isinstance(action, Commit))
    calls = [place for place, action in enumerate(actions) if isinstance(action, Call)]
    writes = [place for place in calls if any("@next" in o.buffer.home.name for o in _written(actions[place]))]
    assert min(writes) > commit
    assert not any(actions[place].checks or actions[place].scratch for place in calls if place > commit)  # pyright: ignore
    before = [place for place in calls if place < commit]
    assert len(before) > 10
    for place in before:
        with stopped_at(place):
            stopped = trainer(optimizer="adam")
        state = stopped.state.state_dict()
        with pytest.raises(intaglio.RunTimeoutError):
            stopped.step(*batch())
        assert all(np.array_equal(state[name], stopped.state[name]) for name in state), place


def _written(action: Any) -> list[Any]:
    return [operand for operand in action.operands if operand.is_written]


def test_interrupts_find_the_old_state_or_the_new_one() -> None:
    """Signals at many moments of a step, of which the update is a large part."""
    sizes = (256, 1024, 1024, 64)
    made, clean = trainer(sizes, optimizer="adam"), trainer(sizes, optimizer="adam")
    given = batch(sizes, 2)
    made.step(*given)
    handler = signal.signal(signal.SIGALRM, _interrupt)
    try:
        for number in range(60):
            before, counters = made.state.state_dict(), made.counters()
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 * (1 + number % 30))
                made.step(*given)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if made.counters()["updates"] == counters["updates"]:
                clean.state.load_state_dict(before)
                clean.set_counters({**clean.counters(), **counters})
                clean.step(*given)
                found = {each: _equal(made.state, other) for each, other in (("old", before), ("new", clean.state))}
                assert any(found.values()), number
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _equal(left: Any, right: Any) -> bool:
    return all(np.array_equal(left[name], right[name]) for name in left)


def test_a_deadline_that_is_over_is_obeyed_before_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is too short for the pool to look at the clock: the update does, and begins no more."""
    monkeypatch.setattr("intaglio.runtime.model.loading.warm_start", lambda source, options: None)
    made = trainer(optimizer="adam")
    made.step(*batch())
    before = made.state.state_dict()
    engine: Any = made.model.model._main.engine
    engine._limit_ns = 1
    with pytest.raises(intaglio.RunTimeoutError):
        made.step(*batch())
    assert _equal(made.state, before)
    engine._limit_ns = 0
    made.step(*batch())
    assert not _equal(made.state, before)
