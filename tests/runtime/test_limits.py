"""Limits on memory, time, rounds and nodes: each raises, and the model works again afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import intaglio
from intaglio import InputError, LimitError, Limits
from intaglio.compat import InferenceSession
from intaglio.runtime.engine.engine import EngineName
from intaglio.runtime.engine.limits import machine_memory, settled

Make = Callable[..., onnx.ModelProto]

GROWING = (
    "g (float[n] x) => (float[n, m] y) { one = Constant<value_ints = [-1, 1]>() column = Reshape(x, one)"
    " wide = Mul(column, x) y = Exp(wide) }"
)
LOOP = (
    "g (int64 n) => (float y) { one = Constant<value = float {1.0}>() yes = Constant<value = bool {1}>()"
    " y = Loop(n, yes, one)<body = b (int64 i, bool go, float v) => (bool again, float w)"
    " { again = Identity(go) w = Add(v, v) }> }"
)
SCAN = (
    "g (float[n] x) => (float y, float[n] z) { zero = Constant<value = float {0.0}>()"
    " y, z = Scan<num_scan_inputs = 1, body = b (float s, float e) => (float t, float o)"
    " { t = Add(s, e) o = Identity(t) }>(zero, x) }"
)
FILLED = "g (int64[2] s) => (float[a, b] y) { y = ConstantOfShape<value = float {2.0}>(s) }"
"""The size is in the data, so nothing is planned."""


def square(size: int, count: int = 1) -> onnx.ModelProto:
    """A chain of products with one weight of size x size."""
    weight = numpy_helper.from_array(np.eye(size, dtype=np.float32), "w")
    nodes = [helper.make_node("MatMul", [f"x{i}", "w"], [f"x{i + 1}"]) for i in range(count)]
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name in ("x0", f"x{count}")]
    graph = helper.make_graph(nodes, "square", types[:1], types[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_memory_is_checked_before_a_run(make: Make, engine: EngineName) -> None:
    model = intaglio.load(make(GROWING), engine=engine, limits=Limits(memory=2**20))
    with pytest.raises(LimitError, match=r"400000000 bytes.*the limit on memory is 1048576"):
        model(np.ones(10_000, np.float32))
    np.testing.assert_allclose(model(np.ones(2, np.float32)), np.full((2, 2), np.e), rtol=1e-6)


def test_the_message_names_what_is_too_large(make: Make) -> None:
    feeds = np.ones(10_000, np.float32)
    with pytest.raises(LimitError, match=r"Exp at .*makes|Mul at .* makes 'wide'"):
        intaglio.load(make(GROWING), engine="reference", limits=Limits(memory=2**20))(feeds)
    with pytest.raises(LimitError, match="the largest tensor is 'y' with 400000000 bytes"):
        intaglio.load(make(GROWING), engine="native", limits=Limits(memory=2**20))(feeds)


def test_memory_of_sizes_that_only_data_tells(make: Make, engine: EngineName) -> None:
    model = intaglio.load(make(FILLED), engine=engine, limits=Limits(memory=2**20))
    with pytest.raises(LimitError):
        model(np.array([2**12, 2**12]))
    with pytest.raises(LimitError):
        model(np.array([2**31, 2**31]))
    np.testing.assert_array_equal(model(np.array([2, 3])), np.full((2, 3), 2, np.float32))


def test_memory_counts_the_weights(engine: EngineName) -> None:
    with pytest.raises(LimitError, match=r"weights take 1048576 bytes; the limit on memory is 1000000"):
        intaglio.load(square(512), engine=engine, limits=Limits(memory=1_000_000))
    model = intaglio.load(square(512), engine="native", limits=Limits(memory=1_200_000))
    assert model(np.ones((2, 512), np.float32)).sum() == 1024
    with pytest.raises(LimitError, match="1048576 of weights"):
        model(np.ones((100, 512), np.float32))


@pytest.mark.parametrize("limits", [Limits(loop_iterations=10), None])
def test_rounds_of_a_loop(make: Make, engine: EngineName, limits: Limits | None) -> None:
    model = intaglio.load(make(LOOP), engine=engine, limits=limits)
    assert float(model(np.int64(10))) == 2**10
    if limits is None:
        assert float(model(np.int64(11))) == 2**11
        return
    with pytest.raises(LimitError, match="more than 10 rounds, the limit on loop_iterations"):
        model(np.int64(11))
    assert float(model(np.int64(3))) == 8


def test_rounds_of_a_scan(make: Make, engine: EngineName) -> None:
    model = intaglio.load(make(SCAN), engine=engine, limits=Limits(loop_iterations=5))
    np.testing.assert_array_equal(model(np.ones(5, np.float32))[1], np.arange(1, 6))
    with pytest.raises(LimitError, match="more than 5 rounds"):
        model(np.ones(6, np.float32))
    np.testing.assert_array_equal(model(np.ones(2, np.float32))[1], [1, 2])


def test_nodes_of_the_graph_that_is_read(engine: EngineName) -> None:
    with pytest.raises(LimitError, match=r"40 nodes .* the limit is 30"):
        intaglio.load(square(4, 40), engine=engine, limits=Limits(nodes=30))
    assert intaglio.load(square(4, 30), engine=engine, limits=Limits(nodes=30)).options.limits.nodes == 30


def test_nodes_that_expansions_add(make: Make) -> None:
    text = "g (float[n, 4] x, int64[n] t) => (float l) { l = SoftmaxCrossEntropyLoss(x, t) }"
    with pytest.raises(LimitError, match=r"nodes once its operators are expanded; the limit is 3"):
        intaglio.load(make(text), engine="native", limits=Limits(nodes=3))
    x = np.array([[1, 0, 0, 0]], np.float32)
    loss = intaglio.load(make(text), engine="native", limits=Limits(nodes=100))(x, np.array([0]))
    np.testing.assert_allclose(loss, np.log(np.exp(x).sum()) - 1, rtol=1e-6)


def test_time_of_a_run(endless: onnx.ModelProto, engine: EngineName) -> None:
    assert intaglio.load(endless, engine=engine).options.limits.time is None
    limited = intaglio.load(endless, engine=engine, limits=Limits(time=60))
    assert limited(np.ones((1, 1024), np.float32)).shape == (1, 1024)
    with pytest.raises(intaglio.RunTimeoutError, match=r"timeout of 0\.01 s"):
        limited.run({"x0": np.ones((4096, 1024), np.float32)}, timeout=0.01)


@pytest.fixture
def short(endless: onnx.ModelProto) -> intaglio.Model:
    """A model that may take a tenth of a second a run, loaded from the cache in less than the time it has."""
    intaglio.load(endless, engine="native")
    return intaglio.load(endless, engine="native", limits=Limits(time=2))


def test_every_way_of_running_has_the_limit(short: intaglio.Model) -> None:
    x = np.ones((20_000, 1024), np.float32)
    for run in (lambda: short(x), lambda: short.run({"x0": x}), lambda: short.run({"x0": x}, timeout=1000)):
        with pytest.raises(intaglio.RunTimeoutError, match="timeout of 2 s"):
            run()
    with pytest.raises(intaglio.RunTimeoutError, match=r"timeout of 0\.01 s"):
        short.run({"x0": x}, timeout=0.01)
    assert short(x[:1]).shape == (1, 1024)


def test_time_of_loading(endless: onnx.ModelProto, engine: EngineName) -> None:
    with pytest.raises(LimitError, match=r"loading the model took longer than the limit of 1e-06 s"):
        intaglio.load(endless, engine=engine, limits=Limits(time=1e-6))


def test_time_of_compiling(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """A cold cache, so that the compiler is the one that takes too long."""
    from intaglio.targets.c import cache

    fresh = cache.Cache(tmp_path / "cache")  # pyright: ignore[reportOperatorIssue, reportUnknownArgumentType]
    monkeypatch.setattr(cache, "default_cache", lambda: fresh)
    with pytest.raises(LimitError, match="loading the model took longer"):
        intaglio.load(square(64, 3), engine="native", limits=Limits(time=0.15))
    assert intaglio.load(square(64, 3), engine="native")(np.ones((1, 64), np.float32)).sum() == 64


def test_defaults_are_those_of_the_machine() -> None:
    assert Limits() == Limits(memory=None, time=None, loop_iterations=2**31 - 1, nodes=1_000_000)
    assert settled(None).memory == machine_memory()
    assert settled(Limits(memory=5)).memory == 5
    assert 2**28 < machine_memory() < 2**50


@pytest.mark.parametrize("name", ["memory", "time", "loop_iterations", "nodes"])
def test_limits_that_allow_nothing(name: str) -> None:
    with pytest.raises(intaglio.InputError, match=f"the limit on {name} is 0, expected more than 0"):
        Limits(**{name: 0})


def test_a_session_takes_limits(make: Make) -> None:
    session = InferenceSession(make(LOOP).SerializeToString(), limits=Limits(loop_iterations=4))
    assert float(session.run(None, {"n": np.int64(4)})[0]) == 16
    with pytest.raises(LimitError):
        session.run(None, {"n": np.int64(5)})


@pytest.mark.parametrize(
    ("text", "count"), [("1G", 2**30), ("512M", 2**29), ("1.5 KiB", 1536), ("2TB", 2**41), ("100", 100), ("7b", 7)]
)
def test_memory_as_text(text: str, count: int) -> None:
    assert Limits(memory=text).memory == count
    assert Limits(memory=text) == Limits(memory=count)


@pytest.mark.parametrize("text", ["", "many", "-1G", "1 X", "0.0001", "1e9", "G"])
def test_memory_that_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(InputError, match="bytes"):
        Limits(memory=text)


@pytest.mark.parametrize("name", ["memory", "time", "loop_iterations", "nodes"])
@pytest.mark.parametrize("value", [True, object(), [1], float("nan"), -1])
def test_limits_that_are_no_numbers(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"the limit on {name} is"):
        Limits(**{name: value})


def test_whole_floats_are_numbers_and_others_are_not() -> None:
    assert Limits(memory=1e9).memory == 10**9  # pyright: ignore[reportArgumentType]
    for name in ("memory", "nodes", "loop_iterations"):
        for value in (1.5, float("inf")):
            wrong: dict[str, Any] = {name: value}
            with pytest.raises(InputError, match="expected a whole number"):
                Limits(**wrong)
    with pytest.raises(InputError, match="expected a number"):
        Limits(nodes=None)  # pyright: ignore[reportArgumentType]
