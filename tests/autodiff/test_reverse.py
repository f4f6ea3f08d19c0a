"""Gradients of graphs: paths, seeds, open sizes, and what is refused; the operators have a table of their own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops
from intaglio.autodiff import gradients
from intaglio.errors import GraphError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dim import decide_less, symbol
from intaglio.ir.dtype import FLOAT32, FLOAT64, INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import OPERATORS, Op
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import evaluate, evaluate_values

Build = Callable[..., Value | tuple[Value, ...]]


def numbers(*shape: int, low: float = -1.0, high: float = 1.0) -> Any:
    return np.random.default_rng(sum(shape)).uniform(low, high, shape)


def graph_of(build: Build, *types: TensorType) -> tuple[Graph, Builder, list[Value], Any]:
    graph = Graph("test")
    inputs = [graph.add_input("x", type) for type in types]
    builder = Builder(graph)
    with builder.active():
        result = build(builder, *inputs)
    return graph, builder, inputs, result


def test_values_and_names_survive_expansion() -> None:
    graph, _, (x,), y = graph_of(lambda b, x: b.Mish(x), TensorType(FLOAT32, (3,)))
    graph.set_outputs([y])
    name, array = y.name, numbers(3).astype(np.float32)
    before = evaluate(graph, [array])
    (bar,) = gradients(graph, y, [x])
    assert graph.outputs == (y,)
    assert y.name == name
    assert "Mish" not in {node.op.name for node in graph.nodes}
    np.testing.assert_allclose(evaluate(graph, [array])[0], before[0], rtol=1e-6)
    assert bar.type == x.type


def test_sizes_that_an_expansion_tells_have_one_name() -> None:
    """The gradient asks Unique for its places, which the operator that was expanded does not give."""
    unique = OPERATORS["com.microsoft", "Unique"]
    graph, _, (x,), y = graph_of(lambda b, x: b.apply(unique, x), TensorType(FLOAT64, (5,)))
    gradients(graph, y, [x])
    (node,) = (node for node in graph.nodes if node.op.name == "Unique")
    assert len({node.outputs[place].shape for place in (0, 1, 3)}) == 1


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
    def build(b: Builder, x: Value, axis: Value) -> Value:
        y = b.apply(Mystery, b.apply(Mystery, x))
        return b.CumProd(b.Exp(y), axis)

    graph, _, (x, _), y = graph_of(build, TensorType(FLOAT64, (1,)), TensorType(INT64, ()))
    before = len(graph)
    with pytest.raises(UnsupportedError, match=r"(?s)2 operators.*CumProd: at .*test::Mystery: 2 nodes"):
        gradients(graph, y, [x])
    assert len(graph) == before


def test_a_rule_that_refuses_says_why() -> None:
    graph, b, (x, axis), _ = graph_of(lambda b, x, axis: x, TensorType(FLOAT64, (1,)), TensorType(INT64, ()))
    y = b.Exp(b.CumProd(x, axis))
    before = len(graph)
    with pytest.raises(UnsupportedError, match=r"CumProd.*an axis and a rank that are known"):
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


def test_weights_that_serve_many_rows_have_one_product_as_gradient() -> None:
    """x [N, 5, 3] @ w [3, 4]: not a product for each of N, and then their sum."""
    import intaglio
    from intaglio import ops

    with intaglio.build("many", inputs={"x": "float32[N, 5, 3]"}) as g:
        g.output(y=ops.MatMul(g["x"], g.constant(np.ones((3, 4), np.float32), "w")))
    names = [node.op.name for node in intaglio.grad(g.graph, wrt="w").simplified.nodes]
    assert "MatMul" in names
    assert "ReduceSum" not in names


@pytest.mark.parametrize("operator", ["Compress", "NonZero"])
def test_weights_of_what_data_sizes_are_compiled(operator: str) -> None:
    """An input that named a size which data says kept compiled code from finding it."""
    with intaglio.build("picked", inputs={"x": "float64[N]"}) as g:
        flags = ops.Greater(g["x"], np.array(0.0))
        places = ops.Squeeze(ops.NonZero(flags), [0])
        picked = ops.Compress(g["x"], flags, axis=0) if operator == "Compress" else ops.Gather(g["x"], places)
        g.output(y=ops.Sin(picked))
    x, weights = np.array([1.0, -1.0, 2.0]), np.array([3.0, 5.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = intaglio.vjp(g.graph, engine="native")
        found = model.run({"x": x, "y.bar": weights})["x.gradient"]
    np.testing.assert_allclose(found, [3 * np.cos(1), 0, 5 * np.cos(2)])
    with pytest.raises(intaglio.IntaglioError):
        model.run({"x": x, "y.bar": np.ones(3)})


@pytest.mark.parametrize("is_rule", [True, False])
def test_sizes_that_cannot_be_decided_are_a_reason_with_a_place(is_rule: bool) -> None:
    class Undecided(Op, abstract=True):
        """An operator whose gradient asks for more than is known of a size."""

        def infer(self, x: Value) -> TensorType:
            return x.tensor

        def reference(self, x: Any) -> Any:
            return x

        def expand(self, b: Builder, x: Value) -> Value:
            return x if decide_less(x.shape[0], 3) else -x

    class Ruled(Undecided, abstract=True):
        """The same in its rule."""

        def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
            return (output_bars[0] if decide_less(inputs[0].shape[0], 3) else -output_bars[0],)

    graph = Graph("undecided")
    x = graph.add_input("x", TensorType(FLOAT64, (symbol("N"),)))
    (y,) = Builder(graph).add(Ruled() if is_rule else Undecided(), [x], names=["y"])
    with pytest.raises(UnsupportedError, match=r"%y .*sizes that are known before the run.*dims="):
        gradients(graph, y, [x])
