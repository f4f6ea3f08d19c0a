"""Gradients of graphs against finite differences in double precision, to second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from intaglio.autodiff import gradients
from intaglio.errors import GraphError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import FLOAT32, FLOAT64, INT64, from_numpy
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Op
from intaglio.ir.types import TensorType
from intaglio.ir.verify import verify
from intaglio.ops.evaluate import evaluate, evaluate_values

Build = Callable[..., Value]


def numbers(*shape: int, low: float = -1.0, high: float = 1.0) -> Any:
    return np.random.default_rng(sum(shape)).uniform(low, high, shape)


@dataclass(frozen=True)
class Problem:
    """A function of some arrays, and how often it can be differentiated."""

    name: str
    build: Build
    arrays: Sequence[Any]
    order: int = 2


def op(name: str, *arrays: Any, order: int = 2, **attributes: Any) -> Problem:
    return Problem(name, lambda b, *values: getattr(b, name)(*values, **attributes), arrays, order)


MATRIX, POSITIVE = numbers(2, 3), numbers(2, 3, low=0.3, high=2)
IMAGE = numbers(1, 2, 4, 5)
PLACES = np.array([[0, 2], [1, 1]])
UNARY = ("Exp", "Sin", "Cos", "Tan", "Tanh", "Sigmoid", "Erf", "Softplus", "Atan", "Asin", "Sinh", "Neg", "Abs")
COMPOSITE = ("Gelu", "Elu", "Selu", "Mish", "Swish", "HardSigmoid", "HardSwish", "LeakyRelu", "Celu", "Softsign")

PROBLEMS = [
    *(op(name, MATRIX) for name in (*UNARY, *COMPOSITE)),
    *(op(name, POSITIVE) for name in ("Log", "Sqrt", "Reciprocal")),
    *(op(name, MATRIX, POSITIVE[:1]) for name in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    op("Pow", POSITIVE, MATRIX[:1]),
    op("Clip", MATRIX, np.array(-0.4), np.array(0.5)),
    op("PRelu", MATRIX, POSITIVE[0]),
    Problem("Where", lambda b, x, y: b.Where(b.Greater(x, y), x * y, x), [MATRIX, POSITIVE[0]]),
    *(op(name, MATRIX, np.array([1]), keepdims=0) for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")),
    *(op(name, POSITIVE, np.array([1])) for name in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")),
    op("ReduceSumSquare", MATRIX),
    op("ReduceProd", numbers(2, 3, 4) * np.array([0, 1, 1, 1]), np.array([0, 2]), keepdims=0, order=1),
    op("ReduceProd", MATRIX, order=1),
    op("CumSum", MATRIX, np.array(1)),
    op("MatMul", numbers(2, 3, 4), numbers(4, 2)),
    op("MatMul", numbers(3), numbers(3)),
    op("Gemm", MATRIX, numbers(4, 3), numbers(4), alpha=0.5, transB=1),
    op("Einsum", MATRIX, numbers(3, 4), equation="ij,jk->ki"),
    op("Conv", IMAGE, numbers(4, 1, 3, 2), numbers(4), group=2, strides=(2, 1), pads=(1, 0, 2, 1)),
    op("Conv", numbers(1, 2, 7), numbers(3, 2, 3), dilations=(2,), auto_pad="SAME_UPPER"),
    op("ConvTranspose", numbers(1, 4, 3, 2), numbers(4, 2, 3, 2), numbers(4), group=2, strides=(2, 2)),
    op("ConvTranspose", numbers(1, 2, 4), numbers(2, 3, 3), strides=(3,), pads=(1, 0), output_padding=(2,)),
    op("ConvTranspose", numbers(1, 2, 4), numbers(2, 3, 2), strides=(2,), output_shape=(11,)),
    op("MaxPool", IMAGE, kernel_shape=(2, 3), strides=(1, 2), pads=(1, 1, 0, 1)),
    op("AveragePool", IMAGE, kernel_shape=(2, 3), strides=(2, 2), pads=(1, 0, 0, 2)),
    op("AveragePool", IMAGE, kernel_shape=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1), ceil_mode=1),
    op("AveragePool", IMAGE, kernel_shape=(3, 2), pads=(1, 0, 1, 1), count_include_pad=1),
    op("LpPool", np.abs(IMAGE) + 0.1, kernel_shape=(2, 2), p=3),
    op("GlobalAveragePool", IMAGE),
    op("GlobalMaxPool", IMAGE),
    op("Softmax", MATRIX),
    op("LogSoftmax", MATRIX, axis=0),
    op("LayerNormalization", MATRIX, numbers(3), numbers(3)),
    op("RMSNormalization", MATRIX, numbers(3)),
    op("InstanceNormalization", numbers(2, 3, 4), numbers(3), numbers(3)),
    op("GroupNormalization", numbers(2, 4, 3), numbers(4), numbers(4), num_groups=2),
    op("BatchNormalization", numbers(2, 3, 2), numbers(3), numbers(3), numbers(3), np.array([0.5, 1.0, 2.0])),
    op("LRN", numbers(1, 5, 2, 2), size=3),
    op("LpNormalization", MATRIX),
    op("Gather", MATRIX, PLACES, axis=1),
    op("GatherElements", MATRIX, PLACES, axis=1),
    op("GatherND", MATRIX, np.array([[1, 2], [0, 0], [1, 2]])),
    op("ScatterElements", MATRIX, PLACES[:, :1], numbers(2, 1), axis=1),
    op("ScatterND", MATRIX, np.array([[1]]), numbers(1, 3), reduction="add"),
    op("Concat", MATRIX, POSITIVE, axis=1),
    op("Slice", numbers(4, 5), np.array([-3, 4]), np.array([99, 0]), np.array([0, 1]), np.array([1, -2])),
    op("Slice", numbers(4, 5), np.array([1]), np.array([3]), np.array([1])),
    op("Pad", MATRIX, np.array([1, 0, 0, 2])),
    op("Transpose", numbers(2, 3, 4), perm=(2, 0, 1)),
    op("Reshape", MATRIX, np.array([3, -1])),
    op("Flatten", numbers(2, 3, 2)),
    op("Expand", numbers(2, 1), np.array([3, 2, 4])),
    op("Tile", MATRIX, np.array([2, 1])),
    op("Squeeze", numbers(2, 1, 3)),
    op("Unsqueeze", MATRIX, np.array([0, -1])),
    op("Trilu", numbers(3, 3)),
    op("DepthToSpace", numbers(1, 4, 2, 3), blocksize=2),
    op("TopK", MATRIX, np.array([2])),
    Problem("Split", lambda b, x: b.Split(x, num_outputs=2, axis=1, outputs=2)[1], [numbers(2, 4)]),
    op("SoftmaxCrossEntropyLoss", MATRIX, np.array([2, 0])),
    op("Attention", numbers(1, 2, 3, 4), numbers(1, 2, 5, 4), numbers(1, 2, 5, 4)),
    Problem("uses", lambda b, x: x * x + b.Exp(x) / x, [POSITIVE]),
]


class Function:
    """The scalar sum(weights * f(arrays)) in a graph, where the weights make every element count otherwise."""

    def __init__(self, problem: Problem) -> None:
        self.graph = Graph(problem.name)
        self.inputs = [self.graph.add_input("x", TensorType(from_numpy(a.dtype), a.shape)) for a in problem.arrays]
        self.builder = Builder(self.graph)
        with self.builder.active():
            self.value = self.weighted(problem.build(self.builder, *self._operands(problem)))

    def _operands(self, problem: Problem) -> list[Value]:
        """Integers as constants, which shapes and axes must be."""
        pairs = zip(self.inputs, problem.arrays, strict=True)
        return [value if a.dtype.kind == "f" else self.builder.constant(a) for value, a in pairs]

    @property
    def smooth(self) -> list[Value]:
        return [value for value in self.inputs if value.dtype == FLOAT64]

    def weighted(self, value: Value) -> Value:
        weights = numbers(*(int(size) for size in value.shape), low=0.5, high=1.5)
        return self.builder.ReduceSum(self.builder.Mul(value, self.builder.constant(weights)), keepdims=0)

    def differentiated(self) -> list[Value]:
        """The gradients; the function becomes the weighted sum of them all."""
        found = gradients(self.graph, self.value, self.smooth)
        with self.builder.active():
            total = self.weighted(found[0])
            for gradient in found[1:]:
                total = total + self.weighted(gradient)
        self.value = total
        return found

    def __call__(self, arrays: Sequence[Any], wanted: Sequence[Value]) -> list[Any]:
        return evaluate_values(self.graph, arrays, wanted)


def differences(function: Function, value: Value, arrays: Sequence[Any], position: int) -> Any:
    result, step = np.zeros_like(arrays[position]), 1e-6
    for index in np.ndindex(result.shape):
        ends: list[Any] = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[position][index] += sign * step
            ends += function(moved, [value])
        result[index] = (ends[0] - ends[1]) / (2 * step)
    return result


@pytest.mark.parametrize("problem", PROBLEMS, ids=[problem.name for problem in PROBLEMS])
def test_gradients_agree_with_differences(problem: Problem) -> None:
    function = Function(problem)
    for _ in range(problem.order):
        value = function.value
        found = function.differentiated()
        function.graph.set_outputs([value, *found])
        verify(function.graph)
        positions = [function.inputs.index(each) for each in function.smooth]
        for position, gradient in zip(positions, found, strict=True):
            (array,) = function(problem.arrays, [gradient])
            expected = differences(function, value, problem.arrays, position)
            np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)


def graph_of(build: Build, *types: TensorType) -> tuple[Graph, Builder, list[Value], Any]:
    graph = Graph("test")
    inputs = [graph.add_input("x", type) for type in types]
    builder = Builder(graph)
    with builder.active():
        result = build(builder, *inputs)
    return graph, builder, inputs, result


def test_values_and_names_survive_expansion() -> None:
    graph, _, (x,), y = graph_of(lambda b, x: b.Gelu(x), TensorType(FLOAT32, (3,)))
    graph.set_outputs([y])
    name, array = y.name, numbers(3).astype(np.float32)
    before = evaluate(graph, [array])
    (bar,) = gradients(graph, y, [x])
    assert graph.outputs == (y,)
    assert y.name == name
    assert "Gelu" not in {node.op.name for node in graph.nodes}
    np.testing.assert_allclose(evaluate(graph, [array])[0], before[0], rtol=1e-6)
    assert bar.type == x.type


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: b.Identity(b.constant(np.ones(2))),
        lambda b, x: b.Cast(b.Cast(x, to=7), to=11),
        lambda b, x: b.Cast(b.Shape(x), to=11),
        lambda b, x: b.Floor(x),
    ],
    ids=["unrelated", "through integers", "through its shape", "steps"],
)
def test_zero_where_nothing_depends_smoothly(build: Build) -> None:
    graph, _, (x,), y = graph_of(build, TensorType(FLOAT64, (2,)))
    (bar,) = gradients(graph, y, [x])
    assert evaluate_values(graph, [np.ones(2)], [bar])[0].tolist() == [0, 0]


def test_a_value_by_itself_and_a_seed() -> None:
    graph, _, (x, seed), y = graph_of(lambda b, x, s: x * x, *[TensorType(FLOAT64, (2,))] * 2)
    own, weighted = gradients(graph, y, [y])[0], gradients(graph, y, [x], seed=seed)[0]
    arrays = [np.array([1.0, 2.0]), np.array([10.0, 100.0])]
    found = evaluate_values(graph, arrays, [own, weighted])
    assert [array.tolist() for array in found] == [[1, 1], [20, 400]]


def test_an_intermediate_value() -> None:
    graph, b, (x,), (h, y) = graph_of(lambda b, x: (lambda h: (h, h * h))(b.Exp(x)), TensorType(FLOAT64, ()))
    of_h, of_x = gradients(graph, y, [h, x], builder=b)
    found = evaluate_values(graph, [np.array(1.0)], [of_h, of_x])
    np.testing.assert_allclose(found, [2 * np.e, 2 * np.e**2])


@pytest.mark.parametrize("size", [1, 4])
def test_symbolic_sizes(size: int) -> None:
    """A dimension that may or may not have been broadcast is summed at run time."""
    n, m = symbol("N"), symbol("M")
    graph, _, (x, y), z = graph_of(lambda b, x, y: x * y, TensorType(FLOAT64, (n, 2)), TensorType(FLOAT64, (m, 2)))
    bars = gradients(graph, z, [x, y])
    arrays = [np.ones((size, 2)), 2 * np.ones((4, 2))]
    found = evaluate_values(graph, arrays, bars)
    assert [array.shape for array in found] == [(size, 2), (4, 2)]
    assert found[0].sum() == 16


@pytest.mark.parametrize("operator", ["Conv", "AveragePool"])
def test_windows_over_images_of_unknown_size(operator: str) -> None:
    image, attributes = numbers(1, 1, 8), {"strides": (3,), "pads": (1, 0), "kernel_shape": (2,)}

    def build(b: Builder, x: Value) -> Value:
        weights = [b.constant(numbers(1, 1, 2))] if operator == "Conv" else []
        return getattr(b, operator)(x, *weights, **attributes)

    results: list[Any] = []
    for size in (8, symbol("W")):
        graph, _, inputs, y = graph_of(build, TensorType(FLOAT64, (1, 1, size)))
        results += evaluate_values(graph, [image], gradients(graph, y, inputs))
    np.testing.assert_allclose(results[0], results[1])


def test_dropout_uses_the_mask_of_the_forward_pass() -> None:
    def build(b: Builder, x: Value) -> Value:
        return b.Dropout(x, b.constant(np.float64(0.75)), b.constant(True))

    graph, _, (x,), y = graph_of(build, TensorType(FLOAT64, (1000,)))
    (bar,) = gradients(graph, y, [x])
    out, slope = evaluate_values(graph, [np.ones(1000)], [y, bar])
    np.testing.assert_array_equal(out, slope)
    assert set(slope.tolist()) == {0.0, 4.0}


class Mystery(Op):
    """An operator of a user without a gradient."""

    domain = "test"

    def infer(self, x: Value) -> Any:
        return x.type

    def reference(self, x: Any) -> Any:
        return x


class Careless(Mystery):
    """An operator whose pullback has the wrong shape."""

    def pullback(self, b: Any, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        return (b.Unsqueeze(output_bars[0], [0]),)


def test_all_operators_without_a_rule_are_listed_and_nothing_is_left_behind() -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b.apply(Mystery, b.apply(Mystery, x))
        return b.ScatterElements(b.Exp(y), [0], x, axis=0, reduction="mul")

    graph, _, (x,), y = graph_of(build, TensorType(FLOAT64, (1,)))
    before = len(graph)
    with pytest.raises(UnsupportedError, match=r"(?s)2 operators.*ScatterElements: at .*test::Mystery: 2 nodes"):
        gradients(graph, y, [x])
    assert len(graph) == before


def test_a_rule_that_refuses_says_why() -> None:
    build: Build = lambda b, x: b.Exp(b.ScatterElements(x, [0], x, axis=0, reduction="mul"))  # noqa: E731
    graph, _, (x,), y = graph_of(build, TensorType(FLOAT64, (1,)))
    before = len(graph)
    with pytest.raises(UnsupportedError, match=r"ScatterElements.*reduction 'mul'"):
        gradients(graph, y, [x])
    assert len(graph) == before


def test_wrong_operands() -> None:
    graph, _, (x, i), y = graph_of(lambda b, x, i: b.Exp(x), TensorType(FLOAT64, (2,)), TensorType(INT64, (2,)))
    with pytest.raises(GraphError, match="no gradient"):
        gradients(graph, y, [i])
    with pytest.raises(GraphError, match="the seed"):
        gradients(graph, y, [x], seed=i)
    with pytest.raises(UnsupportedError, match="outside of graph 'other'"):
        gradients(Graph("other"), y, [x])
    graph, _, (x,), y = graph_of(lambda b, x: b.apply(Careless, x), TensorType(FLOAT64, (2,)))
    with pytest.raises(GraphError, match="the pullback of Careless gives"):
        gradients(graph, y, [x])
