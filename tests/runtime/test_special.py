"""Engines made for the values of small inputs: what decides between branches of different ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ops.control import If
from intaglio.runtime.native import PARAMETER_LIMIT, NativeEngine


def branch(outer: Graph, name: str, x: Value, is_reduced: bool) -> Graph:
    body = Graph(name, outer=outer)
    b = Builder(body)
    body.set_outputs([b.ReduceMax(x, axes=[1], keepdims=0) if is_reduced else b.Exp(x)])
    return body


def deciding_graph() -> Graph:
    """exp(x), or the largest element of each row where a small input is 2."""
    graph = Graph("decides")
    x = graph.add_input("x", TensorType(FLOAT32, (symbol("N"), symbol("M"))))
    mode = graph.add_input("mode", TensorType(INT64, ()))
    b = Builder(graph)
    condition = b.Equal(mode, b.constant(2, INT64))
    bodies = {"then_branch": branch(graph, "then", x, True), "else_branch": branch(graph, "else", x, False)}
    graph.set_outputs([b.apply(If, condition, **bodies)])
    return graph


def test_an_input_that_decides_a_rank_is_a_parameter() -> None:
    engine = NativeEngine(deciding_graph(), 1).load()
    assert [step.node.op.name for step in engine.plan.host_steps] == ["If"]
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
