"""The reverse-mode rules of elementwise operators against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from intaglio.ir import dim
from intaglio.ir.build import Builder, EagerBuilder, constant_value
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType
from intaglio.ops.shared.gradient import unbroadcast

INSIDE = np.array([[-0.8, -0.3, 0.2], [0.4, 0.6, 0.9]])
POSITIVE = INSIDE + 1.3
CASES = [
    *((name, [INSIDE]) for name in ("Abs", "Neg", "Exp", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh")),
    *((name, [INSIDE]) for name in ("Tanh", "Asinh", "Atanh", "Erf", "Relu", "Sigmoid", "Softplus", "Identity")),
    *((name, [POSITIVE]) for name in ("Reciprocal", "Sqrt", "Log")),
    ("Acosh", [POSITIVE + 1]),
    *((name, [INSIDE, POSITIVE[:1]]) for name in ("Add", "Sub", "Mul", "Div", "Min", "Max")),
    *((name, [INSIDE[:, :1], POSITIVE[0]]) for name in ("Sum", "Mean", "Max")),
    ("Pow", [POSITIVE, INSIDE[:1]]),
    ("Mod", [INSIDE * 5.13, POSITIVE[:1]]),
    ("Where", [np.array([[True], [False]]), INSIDE, POSITIVE[:1]]),
    ("CumSum", [INSIDE, np.array(1)]),
]


def numerical(op, arrays, position, bar):
    result = np.zeros_like(arrays[position])
    for index in np.ndindex(result.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [array.copy() for array in arrays]
            moved[position][index] += step
            ends.append(float(np.sum(op.reference(*moved) * bar)))
        result[index] = (ends[0] - ends[1]) / 2e-6
    return result


@pytest.mark.parametrize(("name", "arrays"), CASES, ids=[f"{name}-{len(arrays)}" for name, arrays in CASES])
def test_pullbacks_agree_with_finite_differences(name, arrays):
    op = OPERATORS[("", name)]()
    output = op.reference(*arrays)
    bar = np.random.default_rng(0).random(output.shape)
    builder = EagerBuilder()
    with builder.active():
        inputs = [constant_value(array) for array in arrays]
        bars = op.pullback(builder, inputs, [constant_value(output)], [constant_value(bar)])
    for position, (array, found) in enumerate(zip(arrays, bars, strict=True)):
        if array.dtype.kind != "f":
            assert found is None
            continue
        assert found.constant.shape == array.shape
        np.testing.assert_allclose(found.constant, numerical(op, arrays, position, bar), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (3,), (1,), (), (2, 1)])
def test_unbroadcast_sums_to_the_operand(shape):
    gradient = np.arange(6.0).reshape(2, 3)
    builder = EagerBuilder()
    like = np.zeros(shape)
    with builder.active():
        result = unbroadcast(builder, constant_value(gradient), constant_value(like)).constant
    axes = tuple(range(2 - len(shape))) + tuple(2 - len(shape) + i for i, size in enumerate(shape) if size == 1)
    expected = gradient.sum(axis=tuple(axis for axis in axes if gradient.shape[axis] != 1)).reshape(shape)
    np.testing.assert_array_equal(result, expected)


def test_unbroadcast_finds_symbolic_axes_at_run_time():
    graph = Graph("test")
    builder = Builder(graph)
    n, m = dim.symbol("N"), dim.symbol("M")
    like = graph.add_input("like", TensorType(FLOAT32, (n, 3)))
    gradient = graph.add_input("gradient", TensorType(FLOAT32, (dim.broadcast(n, m), 3)))
    with builder.active():
        assert unbroadcast(builder, gradient, like).shape == (n, 3)
        assert unbroadcast(builder, like, like) is like
