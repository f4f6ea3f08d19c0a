"""Rows whose elements are one value, repeated: what is computed of them once must still be stored to each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.native import NativeEngine

OPERATORS = ("Softmax", "LogSoftmax", "LpNormalization", "Hardmax", "mean", "two")


def built(b: Builder, operator: str, x: Value, axis: int) -> list[Value]:
    """An operator along an axis, or arithmetic with a reduction along it."""
    if operator == "mean":
        return [b.Exp(b.Sub(x, b.ReduceMean(x, [axis])))]
    if operator == "two":  # a value of the row, stored once and to each element
        total = b.ReduceSum(x, [axis])
        return [total, b.Add(total, b.Mul(x, x)), b.Mul(x, b.constant(2.0, x.dtype))]
    return [getattr(b, operator)(x, axis=axis)]


def drawn_graph(dice: Any) -> Graph:
    """An operator on what was expanded along some axes, of which its own may be one."""
    sizes = tuple(int(size) for size in dice.choice([1, 2, 3, 5, 17, 33], int(dice.integers(1, 4))))
    given = tuple(1 if dice.random() < 0.6 else size for size in sizes)
    given = given[int(dice.integers(0, len(given) + 1)) if set(given) == {1} else 0 :]
    graph = Graph("repeated")
    x = graph.add_input("x", TensorType(FLOAT32, given))
    builder = Builder(graph)
    with builder.active():
        expanded = builder.Expand(x, list(sizes))
        graph.set_outputs(built(builder, str(dice.choice(OPERATORS)), expanded, int(dice.integers(0, len(sizes)))))
    return graph


@pytest.mark.parametrize("seed", range(24))
def test_repeated_rows(seed: int) -> None:
    dice = np.random.default_rng(seed)
    graph = drawn_graph(dice)
    x = dice.standard_normal([int(size) for size in graph.inputs[0].shape]).astype(np.float32)
    for got, expected in zip(NativeEngine(graph, 1).load().run([x]), evaluate(graph, [x]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
