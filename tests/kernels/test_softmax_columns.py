"""Softmax along an axis with few columns behind it, on every target, judged by NumPy in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from intaglio.errors import CompileError
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model
from intaglio.targets.c.target import host_target, named_target

Array = np.ndarray[Any, Any]


@pytest.fixture(params=["avx512", "avx2", "sse2", "c"])
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The target that models are compiled for."""
    try:
        named_target(request.param)
    except CompileError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("INTAGLIO_TARGET", request.param)
    host_target.cache_clear()
    yield request.param
    host_target.cache_clear()


def softmax(operator: str, columns: list[int]) -> Model:
    """One node for each number of columns."""
    nodes = [helper.make_node(operator, [f"x{c}"], [f"y{c}"], axis=1) for c in columns]
    shapes = {f"x{c}": ["batch", "length", c] for c in columns}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info(f"y{c}", TensorProto.FLOAT, None) for c in columns]
    graph = helper.make_graph(nodes, "softmax", inputs, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = load(proto, engine="native", strict=True)
    assert len(model.explain().calls) == len(columns)
    return model


def expected(operator: str, x: Array) -> Array:
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        shifted = wide - wide.max(1, keepdims=True)
        total = np.exp(shifted).sum(1, keepdims=True)
        return shifted - np.log(total) if operator == "LogSoftmax" else np.exp(shifted) / total


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_few_columns(operator: str, target: str) -> None:
    columns = [2, 3, 4, 12, 15]
    model, random = softmax(operator, columns), np.random.default_rng(0)
    for batch, length in ((1, 1), (2, 3), (3, 17), (1, 100), (0, 5), (2, 0), (1, 5000)):
        feeds = {f"x{c}": (random.standard_normal((batch, length, c)) * 4).astype(np.float32) for c in columns}
        results = model.run(feeds)
        for c in columns:
            if batch * length:
                wanted = expected(operator, feeds[f"x{c}"])
                np.testing.assert_allclose(results[f"y{c}"], wanted, rtol=3e-6, atol=3e-6 if length > 1 else 1e-7)
            assert results[f"y{c}"].shape == (batch, length, c)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_numbers_that_are_not_finite_stay_in_their_column(operator: str, target: str) -> None:
    model = softmax(operator, [3, 4])
    for c in (3, 4):
        x = np.linspace(-3, 3, 2 * 19 * c, dtype=np.float32).reshape(2, 19, c)
        x[0, 4, 1], x[0, 18, 2], x[1, :, 0], x[1, 7, 1] = np.nan, np.inf, -np.inf, -np.inf
        other = 7 - c
        got = model.run({f"x{c}": x, f"x{other}": np.zeros((2, 19, other), np.float32)})[f"y{c}"]
        np.testing.assert_allclose(got, expected(operator, x), rtol=3e-6, atol=3e-6)


def test_many_columns_or_the_last_axis_are_computed_otherwise() -> None:
    for shape, axis in (((2, 9, 17), 1), ((2, 9, 4), 2), ((2, 9, 4), 0)):
        info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], axis=axis)], "g", info[:1], info[1:])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        assert all(call.kernel != "softmax_columns" for call in load(proto).explain().calls)
