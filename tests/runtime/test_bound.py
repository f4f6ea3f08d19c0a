"""Models that are bound to sizes: results, targets, deadlines, refusals, threads, state."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import build, ops
from intaglio.errors import InputError, RunTimeoutError, ShapeError
from intaglio.runtime.engine.engine import EngineName
from intaglio.runtime.model.bound import Bound

ENGINES: list[EngineName] = ["reference", "native"]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def affine(**options: Any) -> intaglio.Model:
    with build("affine") as g:
        x = g.input("x", "float32[N, 3]")
        g.output(y=ops.Add(x, np.float32(1)), total=ops.ReduceSum(x, keepdims=0))
    return g.model(**options)


def endless(**options: Any) -> intaglio.Model:
    """A loop of as many rounds as an input says."""
    with build("endless") as g:
        rounds, x = g.input("rounds", "int64[]"), g.input("x", "float32[N]")
        body = build("body")
        with body as b:
            _, goes_on, state = b.input("i", "int64[]"), b.input("c", "bool[]"), b.input("s", "float32[N]")
            b.output(d=ops.Identity(goes_on), t=ops.Sin(state))
        g.output(y=ops.Loop(rounds, True, x, body=body.graph))
    return g.model(**options)


def expected(x: Any) -> tuple[Any, Any]:
    return x + np.float32(1), x.sum(dtype=np.float32)


def check(results: Any, x: Any = X) -> None:
    for result, wanted in zip(results, expected(x), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("given", [X, (2, 3), [2, 3], X.tolist()])
def test_examples_and_shapes_bind_alike(engine: EngineName, given: Any) -> None:
    bound = affine(engine=engine).bind(given)
    assert isinstance(bound, Bound)
    assert bound.shapes == ((2, 3),)
    assert "x: (2, 3)" in repr(bound)
    for _ in range(2):
        check(bound(X))
    check(bound(X.tolist()))
    check(bound(np.asfortranarray(X)))


@pytest.mark.parametrize("engine", ENGINES)
def test_other_sizes_are_refused(engine: EngineName) -> None:
    model = affine(engine=engine)
    bound = model.bind((2, 3))
    for x in (np.zeros((3, 3), np.float32), np.zeros((3, 3), np.float32).tolist()):
        with pytest.raises(ShapeError, match=r"'x' has shape \[3, 3\], and the model is bound to \[2, 3\]"):
            bound(x)
    with pytest.raises(InputError, match="dtype float64"):
        bound(X.astype(np.float64))
    with pytest.raises(InputError, match="0 inputs were given, expected 1: x"):
        bound()
    for wrong in ((2, 4), (2,)):
        with pytest.raises((ShapeError, InputError), match="'x'"):
            model.bind(wrong)
    with pytest.raises(ShapeError, match="below 0"):
        model.bind((-1, 3))
    with pytest.raises(InputError, match="2 sizes or examples were given, the model has 1 inputs: x"):
        model.bind(X, X)
    check(model(np.zeros((5, 3), np.float32)), np.zeros((5, 3), np.float32))


@pytest.mark.parametrize("engine", ENGINES)
def test_targets_are_written_and_returned(engine: EngineName) -> None:
    model = affine(engine=engine)
    bound = model.bind(X)
    y, total = np.empty((2, 3), np.float32), np.empty((), np.float32)
    for timeout in (None, 30):
        y[...], total[...] = -1, -1
        results = bound(X, out={"y": y}, timeout=timeout)
        assert results[0] is y
        check(results)
        results = bound(X, out={"total": total, "y": y}, timeout=timeout)
        assert results[0] is y
        assert results[1] is total
        check(results)
        named = model.run({"x": X}, out={"y": y}, timeout=timeout)
        assert list(named) == ["y", "total"]
        assert named["y"] is y
        check(named.values())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("out", "message"),
    [
        ({"z": np.empty((2, 3), np.float32)}, "no output of this run"),
        ({"y": np.empty((3, 3), np.float32)}, r"out\['y'\]"),
        ({"y": np.empty((2, 3), np.float64)}, "dtype float64"),
        ({"y": np.empty((2, 6), np.float32)[:, ::2]}, "not contiguous"),
        ({"y": np.broadcast_to(np.float32(0), (2, 3))}, "read-only"),
        ({"y": [1, 2]}, "expected a NumPy array"),
        ([1], "expected a dict"),
    ],
)
def test_wrong_targets_are_refused_after_the_first_run_too(engine: EngineName, out: Any, message: str) -> None:
    model = affine(engine=engine)
    bound = model.bind(X)
    bound(X)
    with pytest.raises(InputError, match=message):
        bound(X, out=out)
    with pytest.raises(InputError, match=message):
        model.run({"x": X}, out=out)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_target_may_be_an_input_and_no_other_target(engine: EngineName) -> None:
    bound = affine(engine=engine).bind(X)
    x = X.copy()
    results = bound(x, out={"y": x})
    assert results[0] is x
    check(results)
    memory = np.empty(7, np.float32)
    with pytest.raises(InputError, match="share memory"):
        bound(X, out={"y": memory[:6].reshape(2, 3), "total": memory[5:6].reshape(())})


@pytest.mark.parametrize("engine", ENGINES)
def test_deadlines_end_bound_runs(engine: EngineName) -> None:
    model = endless(engine=engine)
    x = np.ones(4, np.float32)
    bound = model.bind((), x)
    np.testing.assert_allclose(bound(np.int64(2), x, timeout=60), np.sin(np.sin(x)), rtol=1e-6)
    many = np.array(10**9)
    for timeout in (0.05, 1e-9):
        with pytest.raises(RunTimeoutError, match=f"timeout of {timeout:g} s"):
            bound(many, x, timeout=timeout)
        with pytest.raises(RunTimeoutError, match=f"timeout of {timeout:g} s"):
            model.run({"rounds": many, "x": x}, timeout=timeout)
    np.testing.assert_allclose(bound(np.array(1), x, timeout=60), np.sin(x), rtol=1e-6)


def test_the_first_call_prepares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from intaglio.targets.step import Step

    bound = affine().bind((2, 3))

    def fail(*_: Any) -> Any:
        raise AssertionError("it was prepared when it was bound")

    monkeypatch.setattr(Step, "_prepare", fail)
    check(bound(X))
    check(bound(X, timeout=10))


def test_a_bound_call_makes_few_calls_of_our_code() -> None:
    bound = affine().bind(X)
    y = np.empty((2, 3), np.float32)
    bound(X)
    calls: list[str] = []
    ways: list[tuple[dict[str, Any], int]] = [({}, 11), ({"timeout": 5.0}, 11), ({"out": {"y": y}}, 16)]
    for named, most in ways:
        calls.clear()
        sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
        try:
            bound(X, **named)
        finally:
            sys.setprofile(None)
        assert len(calls) <= most, calls


def test_a_second_run_makes_six_calls_of_our_code(tmp_path: Path) -> None:
    """Of a model that was lowered, and of one whose plan was stored: both have one engine."""
    lowered = affine()
    lowered.save_compiled(tmp_path / "affine.intaglio")
    calls: list[str] = []
    for model in (lowered, intaglio.load(tmp_path / "affine.intaglio")):
        model(X)
        calls.clear()
        sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
        try:
            model(X)
        finally:
            sys.setprofile(None)
        assert len(calls) <= 6, calls


def test_sizes_that_were_forgotten_are_prepared_again() -> None:
    model = affine()
    bound = model.bind(X)
    model.forget_sizes()
    check(bound(X, timeout=10))
    check(bound(X))


def test_threads_call_one_bound_model_at_once() -> None:
    bound = affine().bind((40, 3))
    inputs = [np.full((40, 3), number, np.float32) for number in range(8)]

    def call(x: Any) -> None:
        y = np.empty((40, 3), np.float32)
        for _ in range(50):
            check(bound(x, out={"y": y}, timeout=60), x)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, inputs))


def test_a_model_that_was_saved_binds_too(tmp_path: Any) -> None:
    affine().save_compiled(tmp_path / "m.intaglio")
    bound = intaglio.load(tmp_path / "m.intaglio").bind((2, 3))
    y = np.empty((2, 3), np.float32)
    results = bound(X, out={"y": y}, timeout=10)
    assert results[0] is y
    check(results)


@pytest.mark.parametrize("engine", ENGINES)
def test_state_is_kept_by_short_runs_as_by_long_ones(engine: EngineName) -> None:
    with build("counter") as g:
        x, total = g.input("x", "float32[2]"), g.input("total", "float32[2]")
        g.output(y=ops.Mul(x, np.float32(2)), next=ops.Add(x, total))
    model = intaglio.stateful(g.graph, {"total": np.zeros(2, np.float32)}, updates={"total": "next"}, engine=engine)
    x = np.array([1, 2], np.float32)
    for number in range(1, 5):
        given = x if number % 2 else x.tolist()
        np.testing.assert_array_equal(model(given), 2 * x)
        np.testing.assert_array_equal(model.state["total"], number * x)
    for wrong in ({}, {"x": x, "z": x}, {"z": x}):
        with pytest.raises(InputError, match="inputs are 'x'"):
            model.run(wrong)
    with pytest.raises(InputError, match="dtype"):
        model.run({"x": x.astype(np.float64)})
    np.testing.assert_array_equal(model.state["total"], 4 * x)
