"""Rules that users register, for operators of ONNX and for their own, and backward passes of plain graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops
from intaglio.autodiff import add_backward, forget_pullbacks
from intaglio.errors import GraphError, InputError
from intaglio.ir.graph import Node
from intaglio.ir.verify import verify
from intaglio.ops.evaluate import evaluate
from intaglio.ops.functions import operator_function

X = np.array([0.3, -1.0, 2.0])


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    for name, domain in (("Softplus", ""), ("Cube", "test.rules"), ("Halve", "test.rules")):
        forget_pullbacks(name, domain=domain)


def softplus(shape: str = "float64[3]") -> intaglio.ModelBuilder:
    with intaglio.build("softplus", inputs={"x": shape}) as g:
        g.output(y=ops.Softplus(g["x"]))
    return g


def test_a_rule_comes_before_the_operators_own() -> None:
    @intaglio.pullback("Softplus")
    def doubled(op: Any, b: Any, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        return (output_bars[0] * b.Sigmoid(inputs[0]) * 2,)

    for engine in ("reference", "native"):
        found = intaglio.grad(softplus().graph, engine=engine)(X)
        np.testing.assert_allclose(found, 2 / (1 + np.exp(-X)))


def test_a_rule_is_asked_whether_it_applies() -> None:
    asked: list[Node] = []

    def is_long(node: Node) -> bool:
        asked.append(node)
        return node.input.shape == (3,)

    @intaglio.pullback("Softplus", applies=is_long)
    def zero(op: Any, b: Any, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        return (output_bars[0] * 0.0,)

    assert intaglio.grad(softplus().graph)(X).tolist() == [0, 0, 0]
    short = intaglio.grad(softplus("float64[2]").graph)(X[:2])
    np.testing.assert_allclose(short, 1 / (1 + np.exp(-X[:2])))
    assert {node.op.name for node in asked} == {"Softplus"}


def test_an_operator_of_ones_own() -> None:
    @intaglio.op(domain="test.rules")
    def Cube(x: Any) -> Any:
        return x**3

    @intaglio.pullback(Cube)
    def cube(op: Any, b: Any, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        return (output_bars[0] * inputs[0] * inputs[0] * 3.0,)

    with intaglio.build("cube", inputs={"x": "float64[3]"}) as g:
        g.output(y=Cube(ops.Exp(g["x"])))
    for engine in ("reference", "native"):
        np.testing.assert_allclose(intaglio.grad(g.graph, engine=engine)(X), 3 * np.exp(3 * X))
    np.testing.assert_allclose(intaglio.grad(intaglio.grad(g.graph), of="x.gradient")(X), 9 * np.exp(3 * X))


def test_a_class_brings_its_rule_along() -> None:
    @intaglio.op(domain="test.rules")
    class Halve:
        """x / 2"""

        def reference(self, x: Any) -> Any:
            return x / 2

        def pullback(self, b: Any, inputs: Any, outputs: Any, output_bars: Any) -> Any:
            return (output_bars[0] / 2,)

    with intaglio.build("halve", inputs={"x": "float64[3]"}) as g:
        g.output(y=operator_function(Halve)(g["x"]))
    assert intaglio.grad(g.graph)(X).tolist() == [0.5, 0.5, 0.5]


def test_wrong_rules_are_refused() -> None:
    with pytest.raises(InputError, match="there is no operator 'Softplos'"):
        intaglio.pullback("Softplos")

    @intaglio.pullback("Softplus")
    def wrong(op: Any, b: Any, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        return (b.Unsqueeze(output_bars[0], [0]),)

    with pytest.raises(GraphError, match="the pullback of Softplus gives"):
        intaglio.grad(softplus().graph)


def test_a_backward_pass_of_a_plain_graph() -> None:
    """A matrix product and a sum, as in the documents of DaCeML."""
    with intaglio.build("gemm", inputs={"X": "float32[5, 4]", "Y": "float32[4, 3]"}) as g:
        g.output(S=ops.ReduceSum(ops.MatMul(g["X"], g["Y"]), keepdims=0))
    found = add_backward(g.graph, "S", ["X", "Y"])
    verify(g.graph)
    assert list(found) == ["X", "Y"]
    assert [value.name for value in g.graph.outputs] == ["S", "X.gradient", "Y.gradient"]
    generator = np.random.default_rng(0)
    x, y = generator.random((5, 4), np.float32), generator.random((4, 3), np.float32)
    _, by_x, by_y = evaluate(g.graph, [x, y])
    np.testing.assert_allclose(by_x, np.ones((5, 3), np.float32) @ y.T, rtol=1e-6)
    np.testing.assert_allclose(by_y, x.T @ np.ones((5, 3), np.float32), rtol=1e-6)
    with pytest.raises(InputError, match="no value 'Z'"):
        add_backward(g.graph, "Z", ["X"])
