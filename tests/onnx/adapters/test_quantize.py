"""Every version of the quantized operators through the reader, judged by ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

GENERATOR = np.random.default_rng(2)
X = (GENERATOR.standard_normal((2, 4, 3)) * 20).astype(np.float32)
BYTES = GENERATOR.integers(0, 256, (2, 4, 3), dtype=np.uint8)


def array(value: Any, dtype: Any = np.float32) -> Any:
    return np.array(value, dtype)


def agree(operator: str, inputs: list[Any], opset: int, outputs: int = 1, **attributes: Any) -> None:
    names = [f"input_{position}" for position in range(len(inputs))]
    results = [f"output_{position}" for position in range(outputs)]
    node = helper.make_node(operator, names, results, **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(item.dtype), item.shape)
        for name, item in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], "single", infos, [onnx.ValueInfoProto(name=name) for name in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=5)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    expected: list[Any] = list(session.run(None, dict(zip(names, inputs, strict=True))))
    for info, item in zip(model.graph.output, expected, strict=True):
        info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(item.dtype)
    found = evaluate(read_model(model).graph, inputs)
    for left, right in zip(found, expected, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantization_of_the_whole_tensor(opset, dtype):
    agree("QuantizeLinear", [X, array(0.3), array(3, dtype)], opset)
    agree("DequantizeLinear", [BYTES.astype(dtype), array(0.3), array(3, dtype)], opset)
    agree("QuantizeLinear", [X, array(0.3)], opset)


@pytest.mark.parametrize("opset", [13, 19, 21, 23])
@pytest.mark.parametrize("attributes", [{}, {"axis": -2}])
def test_quantization_along_an_axis(opset, attributes):
    scale, zero = array([0.1, 0.2, 0.3, 0.4]), array([1, 2, 3, 4], np.uint8)
    agree("QuantizeLinear", [X, scale, zero], opset, **attributes)
    agree("DequantizeLinear", [BYTES, scale, zero], opset, **attributes)


@pytest.mark.parametrize("opset", [21, 23])
def test_quantization_in_blocks(opset):
    scale, zero = np.full((2, 2, 3), 0.5, np.float32), np.full((2, 2, 3), 7, np.int16)
    agree("QuantizeLinear", [X, scale, zero], opset, axis=1, block_size=2)
    agree("DequantizeLinear", [BYTES.astype(np.int16), scale, zero], opset, axis=1, block_size=2)


@pytest.mark.parametrize("opset", [19, 21, 23])
def test_half_precision(opset):
    agree("DequantizeLinear", [BYTES, array(0.25, np.float16), array(3, np.uint8)], opset)


@pytest.mark.parametrize("opset", [10, 13, 21])
def test_products(opset):
    left, right = BYTES, np.ascontiguousarray(BYTES[0].T)
    agree("MatMulInteger", [left, right, array(9, np.uint8), array(8, np.uint8)], opset)
    scales = [array(0.1), array(0.2), array(60.0)]
    zero = array(100, np.uint8)
    agree("QLinearMatMul", [left, scales[0], zero, right, scales[1], zero, scales[2], zero], opset)
    agree("ConvInteger", [BYTES, BYTES[:, :, :2].copy(), zero, zero], opset)
    agree("DynamicQuantizeLinear", [X], max(opset, 11), outputs=3)
