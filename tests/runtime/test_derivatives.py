"""Derivatives of models as models: on both engines, in ONNX Runtime, saved, differentiated again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import intaglio
from intaglio import ops
from intaglio.errors import InputError, UnsupportedError
from intaglio.runtime.model.model import Model

GENERATOR = np.random.default_rng(7)
W, X = GENERATOR.standard_normal((4, 3)), GENERATOR.standard_normal((2, 4))
ENGINES = ("native", "reference")


def perceptron() -> intaglio.ModelBuilder:
    """loss = sum(tanh(x w)^2 * scale), and a count of what is positive."""
    with intaglio.build("perceptron", inputs={"x": "float64[N, 4]", "scale": "float64[]"}) as g:
        h = ops.Tanh(ops.MatMul(g["x"], g.constant(W, "w")))
        g.output(hidden=h)
        squares = ops.Mul(ops.Mul(h, h), g["scale"])
        g.output(loss=ops.ReduceSum(squares, keepdims=0), count=ops.Size(squares))
    return g


def loss(x: Any, w: Any, scale: Any) -> Any:
    return float((np.tanh(x @ w) ** 2 * scale).sum())


def differences(function: Any, array: Any) -> Any:
    result = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        ends: list[float] = []
        for step in (1e-6, -1e-6):
            moved = array.copy()
            moved[index] += step
            ends.append(function(moved))
        result[index] = (ends[0] - ends[1]) / 2e-6
    return result


SCALE = np.array(0.5)
BY_X = differences(lambda x: loss(x, W, SCALE), X)
BY_W = differences(lambda w: loss(X, w, SCALE), W)


def in_onnx_runtime(model: Model, feeds: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    return list(session.run(None, feeds))


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
def test_outputs_are_in_the_order_of_wrt(engine: str) -> None:
    model = intaglio.grad(perceptron().graph, of="loss", wrt=["w", "x", "scale"], engine=engine)
    assert [output.name for output in model.outputs] == ["w.gradient", "x.gradient", "scale.gradient"]
    assert [item.name for item in model.inputs] == ["x", "scale"]
    feeds = {"x": X, "scale": SCALE}
    found = list(model.run(feeds).values())
    for array, expected in zip(found, (BY_W, BY_X, loss(X, W, 1)), strict=True):
        close(array, expected)
    for array, other in zip(found, in_onnx_runtime(model, feeds), strict=True):
        close(array, other)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_value_comes_first(engine: str) -> None:
    model = intaglio.value_and_grad(perceptron().graph, of="loss", wrt="x", engine=engine)
    value, gradient = model(X, SCALE)
    close(value, loss(X, W, SCALE))
    close(gradient, BY_X)


def test_the_options_are_those_of_the_model() -> None:
    model = intaglio.load(perceptron().graph, engine="reference", threads=1)
    derived = intaglio.grad(model, of="loss", wrt="x")
    assert (derived.options.engine, derived.options.threads) == ("reference", 1)
    assert intaglio.grad(model, of="loss", wrt="x", engine="native").options.engine == "native"


def test_weights_become_inputs_where_that_is_wanted() -> None:
    model = intaglio.grad(perceptron().graph, of="loss", wrt=["w"], parameters="inputs")
    assert [item.name for item in model.inputs] == ["x", "scale", "w"]
    close(model(X, SCALE, 2 * W), differences(lambda w: loss(X, w, SCALE), 2 * W))


def test_any_tensor_can_be_named() -> None:
    model = intaglio.grad(perceptron().graph, of="loss", wrt="hidden")
    close(model(X, SCALE), 2 * np.tanh(X @ W) * SCALE)


@pytest.mark.parametrize("engine", ENGINES)
def test_products_with_the_jacobian(engine: str) -> None:
    graph = perceptron().graph
    slope = 1 - np.tanh(X @ W) ** 2
    bar, tangent = GENERATOR.standard_normal((2, 3)), GENERATOR.standard_normal((2, 4))
    backward = intaglio.vjp(graph, of="hidden", wrt="x", engine=engine)
    assert [item.name for item in backward.inputs] == ["x", "scale", "hidden.bar"]
    close(backward.run({"x": X, "scale": SCALE, "hidden.bar": bar})["x.gradient"], (bar * slope) @ W.T)
    forward = intaglio.jvp(graph, of="hidden", wrt="x", engine=engine)
    close(forward.run({"x": X, "scale": SCALE, "x.tangent": tangent})["hidden.tangent"], (tangent @ W) * slope)
    whole = intaglio.jacobian(graph, of="hidden", wrt=["x", "w"], engine=engine)
    by_x, by_w = whole(X, SCALE)
    close(by_x, np.einsum("nj,ij,nm->njmi", slope, W, np.eye(2)))
    assert by_w.shape == (2, 3, 4, 3)
    close(np.einsum("nj,njik->ik", bar, by_w), X.T @ (bar * slope))


@pytest.mark.parametrize("engine", ENGINES)
def test_second_derivatives(engine: str) -> None:
    graph, v = perceptron().graph, GENERATOR.standard_normal((2, 4))
    first = intaglio.grad(graph, of="loss", wrt="x", engine=engine)
    hessian = intaglio.jacobian(first, of="x.gradient", wrt="x")(X, SCALE)
    close(hessian, np.einsum("abcd->cdab", hessian))
    gradient_of = lambda x: float((first(x, SCALE) * v).sum())  # noqa: E731
    np.testing.assert_allclose(np.einsum("abcd,cd->ab", hessian, v), differences(gradient_of, X), rtol=1e-5, atol=1e-7)
    product = intaglio.hessian_vector_product(graph, of="loss", wrt="x", engine=engine)
    feeds = {"x": X, "scale": SCALE, "x.tangent": v}
    found = product.run(feeds)["x.product"]
    close(found, np.einsum("abcd,cd->ab", hessian, v))
    close(found, in_onnx_runtime(product, feeds)[0])


@pytest.mark.parametrize("rows", [1, 5])
def test_sizes_stay_open(rows: int) -> None:
    x = GENERATOR.standard_normal((rows, 4))
    close(intaglio.grad(perceptron().graph, of="loss", wrt="x")(x, SCALE), differences(lambda a: loss(a, W, SCALE), x))


def test_files_in_and_out(tmp_path: Path) -> None:
    perceptron().save(tmp_path / "forward.onnx")
    model = intaglio.grad(tmp_path / "forward.onnx", of="loss", wrt="x")
    model.save(tmp_path / "backward.onnx")
    again = intaglio.load(tmp_path / "backward.onnx")
    close(again(X, SCALE), BY_X)
    assert model.save_compiled(tmp_path / "backward.intaglio") > 0
    close(intaglio.load(tmp_path / "backward.intaglio")(X, SCALE), BY_X)


def test_nothing_of_the_given_model_changes() -> None:
    model = perceptron().model(engine="reference")
    before = str(model.graph)
    intaglio.grad(model, of="loss", wrt=["x", "w"], parameters="inputs")
    assert str(model.graph) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": "loss", "wrt": "hiden"}, r"no tensor 'hiden' \(wrt\); did you mean 'hidden'\?"),
        ({"of": "los", "wrt": "x"}, r"no tensor 'los' \(of\); did you mean 'loss'\?"),
        ({"of": "count", "wrt": "x"}, "of='count' is int64.*only tensors of real floating-point numbers"),
        ({"of": "loss", "wrt": "count"}, "wrt='count' is int64"),
        ({"wrt": "x"}, r"say which tensor to differentiate.*'hidden'.*'loss'.*'count'"),
        ({"of": "loss", "wrt": ["x", "x"]}, "wrt names a tensor twice"),
        ({"of": "loss", "wrt": []}, "expected the names of one or more tensors"),
        ({"of": "loss", "wrt": "x", "parameters": "all"}, "parameters is 'all', expected 'inputs', 'constants' or"),
    ],
)
def test_what_is_wrong_is_said(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        intaglio.grad(perceptron().graph, **arguments)


def test_all_nodes_without_a_gradient_are_listed_with_reasons() -> None:
    @intaglio.op(domain="test.derivatives")
    def Mystery(x: Any) -> Any:
        return x

    with intaglio.build("chain", inputs={"x": "float64[3]", "axis": "int64[]"}) as g:
        products = ops.CumProd(Mystery(g["x"]), g["axis"])
        g.output(y=ops.Exp(Mystery(ops.Exp(Mystery(products)))))
    with pytest.raises(UnsupportedError) as caught:
        intaglio.grad(g.graph, of="y", wrt="x")
    lines = str(caught.value).splitlines()
    assert lines[0] == "2 operators on the way cannot be differentiated:"
    assert "CumProd: at " in lines[1]
    assert "an axis and a rank that are known before the run" in lines[1]
    assert "test.derivatives::Mystery: 3 nodes, first at " in lines[2]
    assert "register one with `intaglio.pullback`" in lines[2]
