"""Older versions of elementwise operators and activations, through the reader."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from intaglio.errors import IntaglioError
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate


def model(operator: str, inputs: list[Any], opset: int, **attributes: Any) -> onnx.ModelProto:
    names = [f"input_{position}" for position in range(len(inputs))]
    node = helper.make_node(operator, names, ["output"], **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], "single", infos, [onnx.ValueInfoProto(name="output")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)


def run(operator: str, inputs: list[Any], opset: int, **attributes: Any) -> Any:
    proto = model(operator, inputs, opset, **attributes)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return evaluate(read_model(proto).graph, inputs)[0]


def judged(operator: str, inputs: list[Any], opset: int, **attributes: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    proto = model(operator, inputs, opset, **attributes)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, {f"input_{position}": array for position, array in enumerate(inputs)})[0]


X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        *((name, {}) for name in ("Abs", "Neg", "Ceil", "Floor", "Reciprocal", "Exp", "Tanh", "Relu", "Sigmoid")),
        ("LeakyRelu", {"alpha": 0.3}),
        ("Elu", {}),
        ("HardSigmoid", {}),
    ],
)
def test_version_1_means_version_6(operator, attributes):
    old = run(operator, [X], 5, consumed_inputs=[0], **attributes)
    np.testing.assert_allclose(old, judged(operator, [X], 7, **attributes), rtol=1e-6, atol=1e-7)


def test_selu_had_other_constants():
    expected = np.where(X > 0, X, 1.6732 * np.expm1(X)) * 1.0507
    np.testing.assert_allclose(run("Selu", [X], 5), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("operator", ["Min", "Max", "Sum", "Mean"])
def test_variadic_operators(operator):
    old = run(operator, [X, -X], 5, consumed_inputs=[0, 0])
    np.testing.assert_allclose(old, judged(operator, [X, -X], 8), rtol=1e-6)


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(
    ("shape", "axis", "aligned"),
    [
        ((), None, ()),
        ((1, 1), None, (1, 1)),
        ((4,), None, (4,)),
        ((3, 4), None, (3, 4)),
        ((3,), 1, (3, 1)),
        ((2,), 0, (2, 1, 1)),
        ((2, 3), 0, (2, 3, 1)),
        ((3,), -2, (3, 1)),
    ],
)
@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div", "Pow"])
def test_limited_broadcast_is_aligned_at_its_axis(operator, shape, axis, aligned, opset):
    left, right = X + 3, np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    attributes = {} if axis is None else {"axis": axis}
    expected = judged(operator, [left, right.reshape(aligned)], 7)
    np.testing.assert_allclose(run(operator, [left, right], opset, broadcast=1, **attributes), expected, rtol=1e-6)


@pytest.mark.parametrize("operator", ["Less", "Greater", "Equal", "And", "Or", "Xor"])
def test_comparisons_had_limited_broadcast(operator):
    left, right = (
        (X > 0, X[0, :, 0] > -1)
        if operator in ("And", "Or", "Xor")
        else (X.astype(np.int32), np.array([0, 1, 2], np.int32))
    )
    if operator in ("Less", "Greater"):
        left, right = left.astype(np.float32), right.astype(np.float32)
    proto = model(operator, [left, right], 6, broadcast=1, axis=1)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    result = evaluate(read_model(proto).graph, [left, right])[0]
    np.testing.assert_array_equal(result, judged(operator, [left, right.reshape(3, 1)], 7))


def test_without_broadcast_the_ranks_must_agree():
    with pytest.raises(IntaglioError, match="differ in rank, and the attribute broadcast is 0"):
        run("Add", [X, X[0]], 6)
    with pytest.raises(IntaglioError, match="does not fit into"):
        run("Add", [X, X[0]], 6, broadcast=1, axis=2)


@pytest.mark.parametrize("opset", [1, 6, 7, 10])
@pytest.mark.parametrize("attributes", [{}, {"min": -1.0}, {"max": 0.5}, {"min": -1.0, "max": 0.5}])
def test_clip_took_its_limits_as_attributes(opset, attributes):
    expected = judged("Clip", [X], 10, **attributes)
    np.testing.assert_array_equal(run("Clip", [X], opset, **attributes), expected)


def test_clip_of_half_floats_has_no_overflow():
    proto = model("Clip", [X.astype(np.float16)], 6, max=0.5)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    result = evaluate(read_model(proto).graph, [X.astype(np.float16)])[0]
    np.testing.assert_array_equal(result, np.minimum(X.astype(np.float16), np.float16(0.5)))


@pytest.mark.parametrize(("name", "dtype"), [("FLOAT", np.float32), ("INT64", np.int64), ("DOUBLE", np.float64)])
def test_cast_took_a_name(name, dtype):
    proto = model("Cast", [X], 5, to=name)
    proto.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    result = evaluate(read_model(proto).graph, [X])[0]
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, X.astype(dtype))


def test_cast_refuses_a_name_that_is_no_type():
    with pytest.raises(IntaglioError, match="'FLOATY' is not the name of an element type"):
        run("Cast", [X], 5, to="FLOATY")


@pytest.mark.parametrize("opset", [5, 6])
@pytest.mark.parametrize("count", [1, 3])
def test_prelu_had_a_slope_for_each_channel(opset, count):
    slope = np.arange(1, count + 1, dtype=np.float32) / 4
    expected = judged("PRelu", [X, slope.reshape(-1, 1)], 9)
    np.testing.assert_allclose(run("PRelu", [X, slope], opset), expected, rtol=1e-6)
