"""Engines made for the values of small inputs, or for sizes: what decides between branches of different ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ops.control import If
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.engine.specialise import PARAMETER_LIMIT, decisive_sizes


def branch(outer: Graph, name: str, x: Value, is_reduced: bool) -> Graph:
    body = Graph(name, outer=outer)
    b = Builder(body)
    body.set_outputs([b.ReduceMax(x, axes=[1], keepdims=0) if is_reduced else b.Exp(x)])
    return body


def branches(graph: Graph, x: Value) -> dict[str, Any]:
    return {"then_branch": branch(graph, "then", x, True), "else_branch": branch(graph, "else", x, False)}


def deciding_graph() -> Graph:
    """exp(x), or the largest element of each row where a small input is 2."""
    graph = Graph("decides")
    x = graph.add_input("x", TensorType(FLOAT32, (symbol("N"), symbol("M"))))
    mode = graph.add_input("mode", TensorType(INT64, ()))
    b = Builder(graph)
    condition = b.Equal(mode, b.constant(2, INT64))
    graph.set_outputs([b.apply(If, condition, **branches(graph, x))])
    return graph


def test_an_input_that_decides_a_rank_is_a_parameter() -> None:
    engine = NativeEngine(deciding_graph(), 1).load()
    assert [host.node.operator for host in engine.form.hosts] == ["If"]
    x: Any = np.arange(6, dtype=np.float32).reshape(2, 3) / 6
    for mode in (2, 1, 2, 0):
        (found,) = engine.run([x, np.array(mode)])
        np.testing.assert_allclose(found, x.max(axis=1) if mode == 2 else np.exp(x), rtol=1e-6)
    assert engine.host_runs == 0


def test_many_values_of_a_parameter_are_left_to_the_host() -> None:
    engine = NativeEngine(deciding_graph(), 1).load()
    x: Any = np.ones((2, 3), np.float32)
    for mode in range(3, 6 + PARAMETER_LIMIT):
        (found,) = engine.run([x, np.array(mode)])
        np.testing.assert_allclose(found, np.exp(x), rtol=1e-6)
    assert engine.host_runs == 3


def squeezing_graph() -> Graph:
    """x * 2 without its last axis where that has one element, as exporters write `squeeze`; and the sum with y."""
    graph = Graph("squeezes")
    x = graph.add_input("x", TensorType(FLOAT32, (symbol("N"), symbol("M"))))
    y = graph.add_input("y", TensorType(FLOAT32, (symbol("K"), 1)))
    b = Builder(graph)
    doubled = b.Mul(x, b.constant(2.0, FLOAT32))
    condition = b.Equal(b.Shape(x, start=1), b.constant([1], INT64))
    graph.set_outputs([b.apply(If, condition, **branches(graph, doubled)), b.Add(doubled, y)])
    return graph


def test_sizes_that_decide_no_rank_stay_open() -> None:
    graph = squeezing_graph()
    assert decisive_sizes(graph, [np.ones((3, 1)), np.ones((3, 1))]) == {"M"}
    engine = NativeEngine(graph, 1).load()
    engines: list[int] = []
    rng = np.random.default_rng(3)
    for rows, columns in ((3, 1), (1, 1), (7, 1), (3, 4), (5, 4), (1, 4), (7, 1)):
        x: Any = rng.standard_normal((rows, columns)).astype(np.float32)
        y: Any = rng.standard_normal((rows, 1)).astype(np.float32)
        found, total = engine.run([x, y])
        np.testing.assert_allclose(found, (2 * x).max(axis=1) if columns == 1 else np.exp(2 * x), rtol=1e-5)
        np.testing.assert_allclose(total, 2 * x + y, rtol=1e-6)
        engines.append(len(engine.all_engines()))
    assert engines[0] == engines[2] < engines[3] == engines[-1]
    assert engine.host_runs == 0


def test_sizes_that_do_not_fit_are_told_where_others_stay_open() -> None:
    engine = NativeEngine(squeezing_graph(), 1).load()
    with pytest.raises(ShapeError, match="Add"):
        engine.run([np.ones((3, 1), np.float32), np.ones((2, 1), np.float32)])
    found, total = engine.run([np.ones((3, 1), np.float32), np.ones((1, 1), np.float32)])
    assert found.shape == (3,)
    np.testing.assert_array_equal(total, np.full((3, 1), 3, np.float32))


def test_all_sizes_are_fixed_where_all_decide() -> None:
    graph = Graph("both")
    x = graph.add_input("x", TensorType(FLOAT32, (symbol("N"), symbol("M"))))
    b = Builder(graph)
    condition = b.Equal(b.Size(x), b.constant(6, INT64))
    graph.set_outputs([b.apply(If, condition, **branches(graph, x))])
    assert decisive_sizes(graph, [np.ones((2, 3))]) is None
    engine = NativeEngine(graph, 1).load()
    for shape in ((2, 3), (3, 2), (2, 4), (6, 1)):
        x_array: Any = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8
        (found,) = engine.run([x_array])
        np.testing.assert_allclose(found, x_array.max(axis=1) if x_array.size == 6 else np.exp(x_array), rtol=1e-6)
    assert engine.host_runs == 0


def test_data_of_sequences_and_loops_are_no_parameters() -> None:
    graph = Graph("collects")
    first, second = (graph.add_input(name, TensorType(FLOAT32, (3,))) for name in "xy")
    b = Builder(graph)
    graph.set_outputs([b.ConcatFromSequence(b.SequenceConstruct(first, second), axis=0)])
    engine = NativeEngine(graph, 1).load()
    for number in range(3):
        x: Any = np.full(3, number, np.float32)
        (found,) = engine.run([x, x + 1])
        np.testing.assert_array_equal(found, np.concatenate([x, x + 1]))
    assert engine.all_engines() == [engine], "a plan was made for the values of data"
    assert engine.host_runs == 6
