"""The onnx.backend interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper
from onnx.backend.base import Backend, BackendRep

import intaglio
from intaglio import backend

X = np.array([[1, -2], [3, 4]], np.float32)


@pytest.fixture(params=["native", "reference"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("INTAGLIO_ENGINE", request.param)
    return request.param


@pytest.fixture
def model() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> '
        "g (float[n, 2] x, float w) => (float[n, 2] y, float[n, 2] z) <float w = {2.0}> { y = Mul(x, w) z = Relu(x) }"
    )


def test_is_a_backend() -> None:
    assert issubclass(backend.IntaglioBackend, Backend)
    assert issubclass(backend.IntaglioBackendRep, BackendRep)


@pytest.mark.parametrize(
    ("device", "is_supported"), [("CPU", True), ("CPU:0", True), ("CUDA", False), ("CUDA:1", False), ("TPU", False)]
)
def test_devices(model: onnx.ModelProto, device: str, is_supported: bool) -> None:
    assert backend.supports_device(device) is is_supported
    assert backend.is_compatible(model, device) is is_supported
    if not is_supported:
        with pytest.raises(intaglio.UnsupportedError, match=f"{device}.*is not supported"):
            backend.prepare(model, device)
        with pytest.raises(intaglio.UnsupportedError, match="is not supported"):
            backend.run_node(helper.make_node("Neg", ["x"], ["y"]), [X], device)


def named(outputs: tuple[Any, ...]) -> Any:
    """The outputs, which have names besides their places; ONNX's interface knows a tuple only."""
    return outputs


def test_prepare_and_run(model: onnx.ModelProto, engine: str) -> None:
    rep = backend.prepare(model)
    assert rep.model.options.engine == engine
    for inputs in ([X], (X,), X, {"x": X}, [X, np.float32(2)]):
        outputs = rep.run(inputs)
        assert isinstance(outputs, tuple)
        np.testing.assert_array_equal(outputs[0], X * 2)
        np.testing.assert_array_equal(named(outputs)["z"], np.maximum(X, 0))
    np.testing.assert_array_equal(rep.run([X, np.float32(3)])[0], X * 3)
    with pytest.raises(intaglio.InputError, match="3 inputs were given, the model has 2: x, w"):
        rep.run([X, X, X])


def test_options_of_load_are_taken_over(model: onnx.ModelProto) -> None:
    rep = backend.prepare(model, engine="reference", threads=1, rtol=1e-3)
    assert (rep.model.options.engine, rep.model.options.threads) == ("reference", 1)


def test_run_model(model: onnx.ModelProto) -> None:
    np.testing.assert_array_equal(backend.run_model(model, [X])[1], np.maximum(X, 0))


def test_an_unreadable_model_is_not_compatible(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type = "NoSuchOperator"
    assert not backend.is_compatible(model)
    with pytest.raises(intaglio.UnsupportedError, match="NoSuchOperator"):
        backend.prepare(model)


@pytest.mark.parametrize(
    ("node", "inputs", "expected"),
    [
        (helper.make_node("Add", ["a", "b"], ["c"]), [X, X], X + X),
        (helper.make_node("Clip", ["a", "", "c"], ["y"]), [X, None, np.float32(1)], np.minimum(X, 1)),
        (helper.make_node("Clip", ["a", "", "c"], ["y"]), [X, np.float32(1)], np.minimum(X, 1)),
        (helper.make_node("Clip", ["a", "b", "c"], ["y"]), [X, None, np.float32(1)], np.minimum(X, 1)),
        (helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0), [[X, X[:1]]], np.concatenate([X, X[:1]])),
        (helper.make_node("SequenceLength", ["s"], ["y"]), [[]], np.int64(0)),
        (helper.make_node("OptionalHasElement", ["o"], ["y"]), [None], np.bool_(False)),
        (helper.make_node("StringConcat", ["a", "b"], ["y"]), [np.array(["x"]), np.array(["y"])], np.array(["xy"])),
        (helper.make_node("Reshape", ["x", "s"], ["y"]), {"s": np.array([4]), "x": X}, X.reshape(4)),
    ],
)
def test_run_node(node: onnx.NodeProto, inputs: Any, expected: Any) -> None:
    (found,) = backend.run_node(node, inputs)
    np.testing.assert_array_equal(found, expected)


def test_run_node_at_an_older_version() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"])
    x = np.zeros((1, 2, 2), np.float32)
    np.testing.assert_allclose(named(backend.run_node(node, [x], opset_version=11)).y, np.full((1, 2, 2), 0.25))
    np.testing.assert_allclose(named(backend.run_node(node, [x], opset_version=13)).y, np.full((1, 2, 2), 0.5))


def test_run_node_of_another_domain() -> None:
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=0.0)
    np.testing.assert_array_equal(backend.run_node(node, [X])[0], (X > 0).astype(np.float32))


def test_run_node_with_several_outputs() -> None:
    outputs = backend.run_node(helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2), [X])
    np.testing.assert_array_equal(named(outputs).b, X[1:])
