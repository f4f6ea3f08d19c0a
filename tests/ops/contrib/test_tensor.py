"""More operators of ONNX Runtime: movement, sampling, gates, experts and recurrent layers, judged by it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.present import tensor

from intaglio.errors import OperatorError, ShapeError, UnsupportedError
from intaglio.ir.build import infer_types, type_of
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

from ..conftest import feeds, single_node_model

DOMAIN = "com.microsoft"
GENERATOR = np.random.default_rng(23)


def real(*shape):
    return GENERATOR.standard_normal(shape).astype(np.float32)


def half(*shape):
    return real(*shape).astype(np.float16)


def whole(shape, dtype, low=None, high=None):
    limits = np.iinfo(dtype)
    low, high = limits.min if low is None else low, limits.max if high is None else high
    return np.asarray(GENERATOR.integers(low, high, shape, dtype=dtype, endpoint=True), dtype)


def scale(*shape):
    return np.asarray(GENERATOR.random(shape) * 0.02 + 0.01, np.float32)


def byte(number, dtype=np.uint8):
    return np.array(number, dtype)


def int32(*numbers):
    return np.array(numbers, np.int32)


def operator(name, attributes):
    fixed = {key: tuple(value) if isinstance(value, list) else value for key, value in attributes.items()}
    return OPERATORS[(DOMAIN, name)](**fixed)


def outputs_of(op, arrays):
    result = op.reference(*arrays)
    return result if isinstance(result, tuple) else (result,)


def infer(op, arrays, outputs):
    graph = Graph("test")
    values = [None if array is None else graph.add_input("x", type_of(array)) for array in arrays]
    return [tensor(type) for type in infer_types(op, values, outputs, "y")]


def check(name, attributes, arrays, outputs, runtime, tolerance=2e-5):
    expected = runtime(name, *arrays, opset=17, domain=DOMAIN, outputs=outputs, attributes=attributes)
    op = operator(name, attributes)
    found = outputs_of(op, arrays)[:outputs]
    for left, right, type in zip(found, expected, infer(op, arrays, outputs), strict=True):
        assert left.dtype == right.dtype == type.dtype.numpy
        assert left.shape == right.shape
        assert type.rank == left.ndim
        np.testing.assert_allclose(left.astype(float), right.astype(float), rtol=tolerance, atol=tolerance)


BOXES = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.9, 0.7], [-0.3, 0.5, 1.2, 0.8], [0.8, 0.8, 0.1, 0.2]], np.float32)
ANGLES, FEW_ANGLES = real(16, 8), real(16, 4)
POSITIONS = GENERATOR.integers(0, 16, (3, 2, 5))
CASES = [
    ("ExpandDims", {}, [real(2, 3), np.array(1, np.int32)], 1),
    ("ExpandDims", {}, [real(2, 3), np.array(-1, np.int32)], 1),
    ("GatherND", {}, [real(3, 4, 5), whole((2, 2), np.int32, 0, 2)], 1),
    ("GridSample", {}, [real(1, 2, 5, 6), real(1, 4, 3, 2)], 1),
    ("GridSample", {"mode": "bicubic", "padding_mode": "border"}, [real(1, 2, 5, 6), real(1, 4, 3, 2)], 1),
    ("GridSample", {"mode": "nearest", "align_corners": 1}, [real(1, 2, 5, 6), real(1, 4, 3, 2)], 1),
    ("Pad", {}, [real(2, 3), np.array([0, 1, 2, 0]), np.array([2.5], np.float32)], 1),
    ("Pad", {"mode": "reflect"}, [real(2, 3), np.array([0, 1, 0, 1])], 1),
    ("Range", {}, [np.array(2), np.array(9)], 1),
    ("Range", {}, [np.array([2], np.float32), np.array([9], np.float32), np.array([0.5], np.float32)], 1),
    ("Trilu", {"upper": 0}, [real(2, 4, 5), np.array(1)], 1),
    ("Unique", {}, [np.array([3, 1, 3, 2, 1], np.float32)], 3),
    ("UnfoldTensor", {"dim": 1, "size": 4, "step": 2}, [real(2, 9, 3)], 1),
    ("UnfoldTensor", {"size": 3}, [real(2, 9)], 1),
    ("CDist", {}, [real(4, 6), real(5, 6)], 1),
    ("CDist", {"metric": "euclidean"}, [real(4, 6), real(5, 6)], 1),
    ("Inverse", {}, [real(2, 4, 4)], 1),
    ("ConvTransposeWithDynamicPads", {"strides": [2, 2], "output_padding": [1, 1]},
     [real(1, 3, 5, 6), real(3, 4, 3, 3), np.array([1, 0, 1, 1]), real(4)], 1),
    ("CropAndResize", {"extrapolation_value": 9.0}, [real(2, 3, 6, 7), BOXES, int32(0, 1, 1, 0), int32(3, 4)], 1),
    ("CropAndResize", {"mode": "nearest"}, [real(2, 3, 6, 7), BOXES, int32(0, 1, 1, 0), int32(7, 2)], 1),
    ("CropAndResize", {}, [real(2, 3, 6, 7), BOXES, int32(0, 1, 1, 0), int32(1, 1)], 1),
    ("NGramRepeatBlock", {"ngram_size": 1}, [np.array([[0, 1, 1], [5, 5, 5]]), real(2, 8)], 1),
    ("NGramRepeatBlock", {"ngram_size": 3}, [np.array([[0, 1, 2, 3, 1, 2], [5] * 6, range(6)]), real(3, 8)], 1),
    ("MatMulInteger16", {}, [whole((3, 4), np.int16, -99, 99), whole((4, 5), np.int16, -99, 99)], 1),
    ("MRotaryEmbedding", {"mrope_section": [4, 2, 2], "num_heads": 2},
     [real(2, 5, 32), POSITIONS, np.cos(ANGLES), np.sin(ANGLES)], 1),
    ("MRotaryEmbedding", {"mrope_section": [2, 3, 3], "mrope_layout": 1, "interleaved": 1},
     [real(2, 2, 5, 16), POSITIONS, np.cos(ANGLES), np.sin(ANGLES)], 1),
    ("MRotaryEmbedding", {"mrope_section": [2, 1, 1], "num_heads": 2, "rotary_embedding_dim": 8},
     [real(2, 5, 32), POSITIONS, np.cos(FEW_ANGLES), np.sin(FEW_ANGLES)], 1),
    ("GatedRMSNorm", {}, [real(2, 3, 12), real(4), real(2, 3, 12)], 1),
    ("GatedRMSNorm", {"activation": "sigmoid", "epsilon": 0.1}, [real(2, 3, 12), real(4), real(2, 3, 12)], 1),
    ("GatedRMSNorm", {}, [half(2, 3, 12), half(4), half(2, 3, 12)], 1),
    ("ScaledSiLU", {"alpha": 1.5}, [real(2, 3)], 1),
    ("ScaledSiLU", {}, [half(2, 3), np.array(1.5, np.float32)], 1),
    ("GatedAdd", {}, [real(2, 3), real(2, 3), real(2, 1)], 1),
    ("GatedAdd", {}, [half(2, 3), half(2, 3), half(2, 1)], 1),
    ("LinearAttentionGate", {}, [real(2, 3, 4), real(4), real(4), real(2, 3, 4)], 2),
    ("LinearAttentionGate", {}, [real(2, 3, 4), real(4), real(4)], 1),
    ("BranchwiseRMSNorm", {}, [real(2, 3, 4)], 1),
    ("BranchwiseRMSNorm", {}, [real(2, 3, 4), real(12)], 1),
    ("BranchwiseRMSNorm", {"num_branches": 3, "epsilon": 0.1}, [real(2, 12), real(4)], 1),
    ("LinearAttention", {"q_num_heads": 2, "kv_num_heads": 2},
     [real(2, 5, 8), real(2, 5, 8) / 3, real(2, 5, 12), real(2, 2, 4, 6), -(real(2, 5, 2) ** 2), real(2, 5, 2) / 3], 2),
    ("CausalConvWithState", {}, [real(2, 4, 7), real(4, 1, 3)], 2),
    ("CausalConvWithState", {"dilation": 2, "activation": "silu"},
     [real(2, 4, 7), real(4, 1, 3), real(4), real(2, 4, 4)], 2),
    ("CausalConvWithState", {"channels_last": 1}, [real(2, 7, 2, 2), real(4, 1, 3), None, real(2, 2, 2, 2)], 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attributes", "arrays", "outputs"), CASES, ids=[case[0] for case in CASES])
def test_operators_agree_with_onnx_runtime(name, attributes, arrays, outputs, runtime):
    check(name, attributes, arrays, outputs, runtime, 1e-4 if name in ("Inverse", "CDist") else 2e-5)


@pytest.mark.parametrize(
    ("attributes", "is_fused"),
    [
        ({"activation_type": "relu"}, False),
        ({"activation_type": "gelu", "k": 2}, False),
        ({"activation_type": "silu", "k": 2, "normalize_routing_weights": 1}, False),
        ({"activation_type": "identity"}, False),
        ({"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2}, True),
        (
            {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_beta": 1.0, "swiglu_limit": 0.7, "k": 3},
            True,
        ),
    ],
)
@pytest.mark.parametrize("shape", [(6, 8), (2, 3, 8)])
def test_experts_agree_with_onnx_runtime(attributes, is_fused, shape, runtime):
    rows = 10 if is_fused else 5
    arrays = [real(*shape), real(6, 4), real(4, rows, 8), real(4, rows), real(4, 8, 5), real(4, 8)]
    check("MoE", attributes, arrays, 1, runtime)


def test_gates_of_two_layers_and_of_one_in_halves_mean_the_same():
    """ONNX Runtime's CPU kernel has neither, but the form in which both take turns."""
    x, router, first, third, second = real(6, 8), real(6, 4), real(4, 5, 8), real(4, 5, 8), real(4, 8, 5)
    turns = np.stack([first, third], axis=2).reshape(4, 10, 8)
    options = {"activation_type": "swiglu", "k": 2}
    (expected,) = outputs_of(operator("MoE", {**options, "swiglu_fusion": 1}), [x, router, turns, None, second])
    halves = [x, router, np.concatenate([first, third], axis=1), None, second]
    apart = [x, router, first, None, second, None, third]
    for arrays, fusion in ((halves, 2), (apart, 0)):
        (found,) = outputs_of(operator("MoE", {**options, "swiglu_fusion": fusion}), arrays)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def quantized_layer(bits, block, has_zeros, rows, columns):
    weights, step = whole((4, rows, columns * bits // 8), np.uint8), np.float32(4 / 2**bits)
    if not block:
        zeros = whole((4, -(-rows * bits // 8)), np.uint8) if has_zeros else None
        return weights, scale(4, rows) * step, zeros, real(4, rows)
    blocks = columns // block
    zeros = whole((4, rows, -(-blocks * bits // 8)), np.uint8) if has_zeros else None
    return weights, scale(4, rows, blocks) * step, zeros, real(4, rows)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("activation", ["silu", "swiglu"])
def test_quantized_experts_agree_with_onnx_runtime(bits, block, has_zeros, activation, runtime):
    is_fused = activation == "swiglu"
    first = quantized_layer(bits, block, has_zeros, 64 if is_fused else 32, 32)
    second = quantized_layer(bits, block, has_zeros, 32, 32)
    arrays = [real(6, 32), real(6, 4), first[0], first[1], first[3], second[0], second[1], second[3]]
    arrays += [None, None, None, first[2], second[2]] if has_zeros else []
    attributes = {"k": 2, "activation_type": activation, "expert_weight_bits": bits, "swiglu_fusion": int(is_fused)}
    check("QMoE", attributes | ({"block_size": block} if block else {}), arrays, 1, runtime, 1e-4)


@pytest.mark.parametrize("normalize", [0, 1])
def test_shares_of_experts_can_come_from_other_weights(normalize, runtime):
    first, second = (quantized_layer(4, 0, False, 32, 32) for _ in range(2))
    arrays = [real(6, 32), real(6, 4), first[0], first[1], None, second[0], second[1], *[None] * 7, np.abs(real(6, 4))]
    check("QMoE", {"k": 2, "normalize_routing_weights": normalize}, arrays, 1, runtime)


@pytest.mark.parametrize("quant_type", [0, 1])
@pytest.mark.parametrize(("inner", "block"), [(32, 16), (40, 16), (33, 32)])
def test_products_with_tables_of_four_bits(quant_type, inner, block, runtime):
    rows = 5
    arrays = [real(2, 3, inner), whole(((rows * inner + 1) // 2,), np.uint8), real(-(-rows * inner // block))]
    check("MatMulBnb4", {"N": rows, "K": inner, "block_size": block, "quant_type": quant_type}, arrays, 1, runtime)


def test_tables_of_four_bits_not_transposed(runtime):
    arrays = [real(2, 5), whole((5 * 16,), np.uint8), real(10)]
    op = operator("MatMulBnb4", {"N": 5, "K": 32, "block_size": 16, "quant_type": 1, "transB": 0})
    turned = operator("MatMulBnb4", {"N": 5, "K": 32, "block_size": 16, "quant_type": 1})
    weights = turned.reference(np.eye(32, dtype=np.float32), *arrays[1:])
    np.testing.assert_allclose(op.reference(*arrays), arrays[0] @ weights.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels_last", [0, 1])
def test_quantized_convolution(channels_last, runtime):
    image = whole((1, 5, 6, 4) if channels_last else (1, 4, 5, 6), np.uint8)
    arrays = [image, scale(), byte(9), whole((3, 4, 3, 3), np.uint8), scale(), byte(120), scale() * 5, byte(128)]
    arrays = [np.asarray(array) for array in arrays]
    attributes = {"channels_last": channels_last, "pads": [1, 1, 1, 1]}
    (expected,) = runtime("QLinearConv", *arrays, opset=17, domain=DOMAIN, attributes=attributes)
    (found,) = outputs_of(operator("QLinearConv", attributes), arrays)
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_quantized_embeddings(runtime):
    ids, segments = whole((2, 5), np.int32, 0, 9), whole((2, 5), np.int32, 0, 1)
    tables = [whole(shape, np.uint8) for shape in ((10, 8), (6, 8), (2, 8), (8,), (8,))]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    arrays = [ids, segments, *tables, mask, *(scale() for _ in range(5)), *(byte(100) for _ in range(5))]
    check("QEmbedLayerNormalization", {}, [np.asarray(array) for array in arrays], 2, runtime)


def test_the_mean_of_quantized_numbers():
    data, steps = whole((2, 3, 4), np.uint8), [np.float32(0.02), np.float32(0.03)]
    op = operator("QLinearReduceMean", {"axes": [1, 2], "keepdims": 0})
    (found,) = outputs_of(op, [data, np.asarray(steps[0]), byte(99), np.asarray(steps[1]), byte(100)])
    mean = (data.astype(float) - 99).mean(axis=(1, 2)) * steps[0] / steps[1]
    np.testing.assert_array_equal(found, np.clip(np.rint(mean) + 100, 0, 255))


def initializer_model(name, data, data_type, others, attributes):
    """A model whose first input is a constant of a type that NumPy does not know."""
    inputs = ["data", *(f"x{i}" for i in range(len(others)))]
    node = helper.make_node(name, inputs, ["y"], domain=DOMAIN, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(inputs[1:], others, strict=True)
    ]
    constant = helper.make_tensor("data", data_type, data.shape, data.astype(float).ravel())
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", 1, None)], [constant])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize(
    ("data_type", "dtype", "block"),
    [
        (TensorProto.UINT4, ml_dtypes.uint4, 16),
        (TensorProto.INT4, ml_dtypes.int4, 16),
        (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn, 16),
        (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2, 0),
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_gather_of_blocks_of_small_types(data_type, dtype, block, axis):
    data = whole((9, 32), np.int8, 0, 7).astype(dtype)
    blocks = 32 // block if block else 1
    others = [np.array([[0, 8], [-1, 3]]), real(9, blocks)]
    attributes = {"block_size": block, "gather_axis": axis, "quantize_axis": 1}
    model = initializer_model("GatherBlockQuantized", data, data_type, others, attributes)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = map(np.asarray, session.run(None, {"x0": others[0], "x1": others[1]}))
    (found,) = evaluate(read_model(model).graph, others)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("data_type", [TensorProto.UINT4, TensorProto.INT4])
def test_numbers_of_four_bits_are_dequantized(data_type):
    dtype = ml_dtypes.uint4 if data_type == TensorProto.UINT4 else ml_dtypes.int4
    data, steps = whole((3, 4), np.int8, 0, 7).astype(dtype), np.asarray(scale())
    model = initializer_model("DequantizeLinear", data, data_type, [steps], {})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = evaluate(read_model(model).graph, [steps])
    np.testing.assert_array_equal(found, session.run(None, {"x0": steps})[0])


@pytest.mark.parametrize("data_type", [TensorProto.UINT4, TensorProto.INT4])
def test_numbers_are_quantized_to_four_bits_and_back(data_type):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], domain=DOMAIN),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], domain=DOMAIN),
    ]
    constants = [helper.make_tensor("scale", 1, (), [0.3]), helper.make_tensor("zero", data_type, (), [3])]
    infos = [helper.make_tensor_value_info(name, 1, (2, 5)) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], constants)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    x = real(2, 5) * np.float32(2)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    (found,) = evaluate(read_model(model).graph, [x])
    np.testing.assert_allclose(found, np.asarray(session.run(None, {"x": x})[0]), rtol=1e-6)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_out_of_range_are_zeros(bits, runtime):
    arrays = [whole((9, 4 * bits), np.uint8), np.array([[0, 9], [-10, -1]]), real(9, 2)]
    check("GatherBlockQuantized", {"bits": bits, "block_size": 16}, arrays, 1, runtime)


def reordered(bits, zeros):
    """Operands whose columns belong to the blocks in any order."""
    inner, block, rows = 40, 16, 6
    order = GENERATOR.permutation(np.arange(inner) // block).astype(np.int32)
    arrays = [real(2, 3, inner), whole((rows, 3, block * bits // 8), np.uint8), real(rows, 3), zeros, order]
    return {"K": inner, "N": rows, "bits": bits, "block_size": block}, arrays


@pytest.mark.parametrize("has_zeros", [False, True])
def test_columns_of_few_bits_in_another_order(has_zeros, runtime):
    zeros = whole((6, 3), np.int32, 0, 15).astype(np.float32) if has_zeros else None
    attributes, arrays = reordered(4, zeros)
    check("MatMulNBits", attributes, arrays, 1, runtime)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_columns_in_another_order_have_the_zero_point_of_their_block(bits):
    """ONNX Runtime's CPU kernel leaves packed zero points out of account here."""
    attributes, arrays = reordered(bits, whole((6, -(-3 * bits // 8)), np.uint8))
    x, packed, steps, zeros, order = arrays

    def unpacked(array):
        return ((array[..., None] >> np.arange(0, 8, bits)) & ((1 << bits) - 1)).reshape(6, -1).astype(np.float32)

    weights = (unpacked(packed)[:, :40] - unpacked(zeros)[:, order]) * steps[:, order]
    (found,) = outputs_of(operator("MatMulNBits", attributes), arrays)
    np.testing.assert_allclose(found, x @ weights.T, rtol=1e-4, atol=1e-3)


def single_threaded(name, arrays, outputs, attributes) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = single_node_model(name, arrays, 17, DOMAIN, outputs, attributes).SerializeToString()
    return list(onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"]).run(None, feeds(arrays)))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_gate", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_an_lstm_that_quantizes_its_data(direction, per_gate, dtype):
    count = 2 if direction == "bidirectional" else 1
    inputs, hidden, batch = 6, 4, 3
    shape = (count, 4 * hidden) if per_gate else (count,)
    zero = np.full(shape, 0 if dtype == np.int8 else 128, dtype)
    states = [real(count, batch, hidden), real(count, batch, hidden)]
    weights = [whole((count, inputs, 4 * hidden), dtype), whole((count, hidden, 4 * hidden), dtype)]
    arrays = [real(5, batch, inputs), *weights, real(count, 8 * hidden), None, *states, real(count, 3 * hidden)]
    arrays += [scale(*shape) / 2, zero, scale(*shape) / 2, zero]
    attributes = {"hidden_size": hidden, "direction": direction}
    expected = single_threaded("DynamicQuantizeLSTM", arrays, 3, attributes)
    op = operator("DynamicQuantizeLSTM", attributes)
    for left, right, type in zip(outputs_of(op, arrays), expected, infer(op, arrays, 3), strict=True):
        assert left.dtype == right.dtype == type.dtype.numpy
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=2e-6)


REFUSED = [
    ("MoE", {"activation_type": "sine"}, [real(2, 8), real(2, 4), real(4, 5, 8), None, real(4, 8, 5)], ShapeError),
    ("CDist", {"metric": "cosine"}, [real(2, 3), real(2, 3)], ShapeError),
    ("UnfoldTensor", {"size": 0}, [real(2, 3)], ShapeError),
    ("CropAndResize", {"mode": "cubic"}, [real(2, 3, 6, 7), BOXES, int32(0, 1, 1, 0), int32(3, 4)], ShapeError),
    ("CausalConvWithState", {"activation": "relu"}, [real(2, 4, 7), real(4, 1, 3)], ShapeError),
    ("CausalConvWithState", {"ndim": 2}, [real(2, 4, 7, 7), real(4, 1, 3, 3)], UnsupportedError),
    ("GatedRMSNorm", {"activation": "relu"}, [real(2, 4), real(4), real(2, 4)], ShapeError),
    ("MRotaryEmbedding", {"mrope_section": [8]}, [real(2, 5, 32), POSITIONS, ANGLES, ANGLES], ShapeError),
    ("Inverse", {}, [np.zeros((2, 2), np.float32)], OperatorError),
    ("MatMulBnb4", {"N": 1, "K": 16, "block_size": 16, "quant_type": 2}, [real(1, 16), byte([0]), real(1)], ShapeError),
]


@pytest.mark.parametrize(("name", "attributes", "arrays", "error"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_makes_no_sense_is_refused(name, attributes, arrays, error):
    with pytest.raises(error):
        operator(name, attributes).reference(*arrays)


def test_what_is_not_supported_says_so():
    layer = [whole((4, 5, 4), np.uint8), scale(4, 5)]
    with pytest.raises(UnsupportedError, match="takes integers only"):
        operator("QMoE", {"quant_type": "fp4"}).reference(real(2, 8), real(2, 4), *layer)
    op = operator("LinearAttention", {"q_num_heads": 1, "kv_num_heads": 1, "state_window": 2})
    with pytest.raises(UnsupportedError, match="several steps"):
        op.reference(real(1, 2, 4), real(1, 2, 4), real(1, 2, 4))
