"""Fused and quantized operators of ONNX Runtime, judged by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from tests.present import operator as operator_of
from tests.present import tensor

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir import dim
from intaglio.ir.build import infer_types, type_of
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

DOMAIN = "com.microsoft"
GENERATOR = np.random.default_rng(11)


def real(*shape):
    return GENERATOR.standard_normal(shape).astype(np.float32)


def whole(shape, dtype, low=None, high=None):
    limits = np.iinfo(dtype)
    low, high = limits.min if low is None else low, limits.max if high is None else high
    return np.asarray(GENERATOR.integers(low, high, shape, dtype=dtype, endpoint=True), dtype)


def scale(*shape):
    return np.asarray(GENERATOR.random(shape) * 0.02 + 0.01, np.float32)


def byte(number, dtype: Any = np.uint8):
    return np.array(number, dtype)


X = real(2, 5, 8)
GAMMA, BETA = real(8), real(8)
IMAGE = real(2, 4, 7, 6)
KERNEL = real(6, 4, 3, 3)

FLOAT_CASES = [
    ("Gelu", {}, [X], 1),
    ("BiasGelu", {}, [X, BETA], 1),
    ("FastGelu", {}, [X], 1),
    ("FastGelu", {}, [X, BETA], 1),
    ("QuickGelu", {}, [X], 1),
    ("QuickGelu", {"alpha": 0.7}, [X], 1),
    ("SkipLayerNormalization", {}, [X, real(2, 5, 8), GAMMA], 1),
    ("SkipLayerNormalization", {"epsilon": 0.1}, [X, real(2, 5, 8), GAMMA, BETA, real(8)], 1),
    ("SkipSimplifiedLayerNormalization", {}, [X, real(2, 5, 8), GAMMA], 1),
    ("SkipSimplifiedLayerNormalization", {"epsilon": 0.1}, [X, real(2, 5, 8), GAMMA, real(8)], 1),
    ("FusedMatMul", {"alpha": 0.5}, [real(2, 3, 4), real(2, 4, 5)], 1),
    ("FusedMatMul", {"transA": 1}, [real(2, 4, 3), real(2, 4, 5)], 1),
    ("FusedMatMul", {"transB": 1}, [real(2, 3, 4), real(5, 4)], 1),
    ("FusedMatMul", {"transBatchA": 1}, [real(3, 2, 4), real(2, 4, 5)], 1),
    ("FusedMatMul", {"transBatchB": 1, "transB": 1}, [real(2, 3, 4), real(5, 2, 4)], 1),
    ("FusedMatMul", {"transBatchA": 1, "transA": 1}, [real(4, 2, 3), real(2, 4, 5)], 1),
    ("SkipLayerNormalization", {}, [X, real(1, 5, 8), GAMMA, BETA, real(8)], 4),
    ("SkipLayerNormalization", {}, [X, real(5, 8), GAMMA], 4),
    ("SkipSimplifiedLayerNormalization", {}, [X, real(5, 8), GAMMA, real(8)], 1),
    ("TransposeMatMul", {"transA": 1, "alpha": 2.0}, [real(2, 4, 3), real(2, 4, 5)], 1),
    ("FusedGemm", {"activation": "Relu", "transB": 1, "alpha": 0.5}, [real(3, 4), real(5, 4), real(5)], 1),
    ("FusedGemm", {"activation": "LeakyRelu", "activation_alpha": 0.3}, [real(3, 4), real(4, 5), real(5)], 1),
    ("FusedGemm", {"activation": "Tanh", "beta": 2.0}, [real(3, 4), real(4, 5), real(3, 1)], 1),
    *(
        (
            "FusedGemm",
            {"activation": name, "activation_alpha": 0.3, "activation_beta": 0.4, "activation_gamma": 0.5},
            [real(3, 4), real(4, 5), real(5)],
            1,
        )
        for name in ("Sigmoid", "Elu", "HardSigmoid", "Softplus", "Softsign", "Selu", "ThresholdedRelu", "Celu")
    ),
    ("FusedConv", {"activation": "Tanh"}, [IMAGE, KERNEL], 1),
    ("FusedConv", {"activation": "HardSwish"}, [IMAGE, KERNEL], 1),
    ("FusedConv", {"activation": "Relu"}, [IMAGE, KERNEL, real(6)], 1),
    ("FusedConv", {"activation": "Relu", "pads": [1, 1, 1, 1]}, [IMAGE, KERNEL, real(6), real(2, 6, 7, 6)], 1),
    ("FusedConv", {"activation": "LeakyRelu", "activation_params": [0.2]}, [IMAGE, KERNEL], 1),
    ("FusedConv", {"activation": "Clip", "activation_params": [-0.5, 0.5]}, [IMAGE, KERNEL], 1),
    ("FusedConv", {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}, [IMAGE, KERNEL], 1),
    ("FusedConv", {"strides": [2, 1], "dilations": [1, 2], "activation": "Sigmoid"}, [IMAGE, KERNEL], 1),
]
IDS = [f"{case[0]}{case[1] or ''}-{len(case[2])}" for case in FLOAT_CASES]


def operator(name, attributes):
    fixed = {key: tuple(value) if isinstance(value, list) else value for key, value in attributes.items()}
    return OPERATORS[(DOMAIN, name)](**fixed)


def compute(op, arrays, outputs) -> tuple[Any, ...]:
    result = op.reference(*arrays)
    results = result if isinstance(result, tuple) else (result,)
    graph = Graph("test")
    values = [None if array is None else graph.add_input("x", type_of(array)) for array in arrays]
    for type, array in zip(infer_types(op, values, outputs, "y"), results, strict=False):
        inferred = tensor(type)
        assert inferred.dtype.numpy == array.dtype
        assert inferred.rank == array.ndim
        assert all(
            size in (found, size) if not isinstance(size, int) else size == found
            for size, found in zip(inferred.dims, array.shape, strict=True)
        )
    return results[:outputs]


def agree(found, expected, tolerance):
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "attributes", "arrays", "outputs"), FLOAT_CASES, ids=IDS)
def test_fused_operators_agree_with_onnx_runtime(name, attributes, arrays, outputs, runtime):
    expected = runtime(name, *arrays, opset=17, domain=DOMAIN, outputs=outputs, **attributes)
    agree(compute(operator(name, attributes), arrays, outputs), expected, 2e-5)


def test_the_sum_before_normalization_is_an_output(runtime):
    skip, bias = real(2, 5, 8), real(8)
    for name, arrays in (
        ("SkipLayerNormalization", [X, skip, GAMMA, BETA, bias]),
        ("SkipSimplifiedLayerNormalization", [X, skip, GAMMA, bias]),
    ):
        found = compute(operator(name, {}), arrays, 4)
        np.testing.assert_allclose(found[3], X + skip + bias, rtol=1e-6)
        np.testing.assert_allclose(found[1], (X + skip + bias).mean(axis=-1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_simplified_normalization_stands_in_the_default_domain(runtime):
    expected = runtime("SimplifiedLayerNormalization", X, GAMMA, opset=17, epsilon=0.01, axis=-1)
    op = operator_of("SimplifiedLayerNormalization", epsilon=0.01)
    found = compute(op, [X, GAMMA], 2)
    agree(found[:1], expected, 1e-5)
    assert found[1].shape == (2, 5, 1)
    np.testing.assert_allclose(found[1][..., 0], 1 / np.sqrt((X * X).mean(axis=-1) + 0.01), rtol=1e-6)


IDS_ARRAY = whole((2, 5), np.int32, 0, 9)
SEGMENTS = whole((2, 5), np.int32, 0, 1)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)


@pytest.mark.parametrize(
    "arrays",
    [
        [IDS_ARRAY, SEGMENTS, real(10, 8), real(6, 8), real(2, 8), GAMMA, BETA, MASK],
        [IDS_ARRAY, None, real(10, 8), real(6, 8), None, GAMMA, BETA],
        [IDS_ARRAY, None, real(10, 8), real(6, 8), None, GAMMA, BETA, None, whole((2, 5), np.int32, 0, 5)],
    ],
)
def test_embeddings_agree_with_onnx_runtime(arrays, runtime):
    expected = runtime("EmbedLayerNormalization", *arrays, opset=17, domain=DOMAIN, outputs=3)
    agree(compute(operator("EmbedLayerNormalization", {}), arrays, 3), expected, 1e-5)


FEW_BITS = [
    (bits, zeros) for bits in (2, 4, 8) for zeros in ("none", "packed", "float") if (bits, zeros) != (8, "float")
]


@pytest.mark.parametrize(("bits", "zeros"), FEW_BITS)
@pytest.mark.parametrize("inner", [32, 40])
def test_few_bit_products_agree_with_onnx_runtime(bits, zeros, inner, runtime):
    rows, block = 6, 16
    blocks = -(-inner // block)
    weights = whole((rows, blocks, block * bits // 8), np.uint8)
    zero_points = {
        "none": None,
        "packed": whole((rows, -(-blocks * bits // 8)), np.uint8),
        "float": (whole((rows, blocks), np.int32, 0, 3)).astype(np.float32),
    }[zeros]
    attributes = {"K": inner, "N": rows, "bits": bits, "block_size": block}
    arrays = [real(2, 3, inner), weights, real(rows, blocks), zero_points, None, real(rows)]
    expected = runtime("MatMulNBits", *arrays, opset=17, domain=DOMAIN, **attributes)
    agree(compute(operator("MatMulNBits", attributes), arrays, 1), expected, 1e-3)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_gather_of_quantized_blocks_agrees_with_onnx_runtime(bits, has_zeros, runtime):
    data = whole((9, 40 * bits // 8), np.uint8)
    zeros = whole((9, -(-3 * bits // 8)), np.uint8) if has_zeros else None
    arrays = [data, np.array([[0, 8], [-1, 3]]), real(9, 3), zeros]
    attributes = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    expected = runtime("GatherBlockQuantized", *arrays, opset=17, domain=DOMAIN, **attributes)
    agree(compute(operator("GatherBlockQuantized", attributes), arrays, 1), expected, 1e-6)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("shape", [(2, 5, 32), (2, 2, 5, 16)])
@pytest.mark.parametrize("positions", [np.array([3]), np.array([[0, 1, 2, 3, 4], [9, 8, 7, 6, 5]])])
def test_rotation_agrees_with_onnx_runtime(interleaved, shape, positions, runtime):
    angles = real(16, 8)
    arrays = [real(*shape), positions.astype(np.int64), np.cos(angles), np.sin(angles)]
    expected = runtime("RotaryEmbedding", *arrays, opset=17, domain=DOMAIN, interleaved=interleaved)
    agree(compute(operator("RotaryEmbedding", {"interleaved": interleaved}), arrays, 1), expected, 1e-5)


@pytest.mark.parametrize("attributes", [{"scale": 2.5}, {"is_packed_batching": 1}])
def test_rotation_of_packed_batches(attributes, runtime):
    angles = real(6, 8)
    length = 10 if "is_packed_batching" in attributes else 5
    positions = np.arange(length)[None] % 5
    arrays = [real(1, length, 32), positions, np.cos(angles), np.sin(angles)]
    expected = runtime("RotaryEmbedding", *arrays, opset=17, domain=DOMAIN, **attributes)
    agree(compute(operator("RotaryEmbedding", attributes), arrays, 1), expected, 1e-5)


def test_rotation_of_a_part_of_each_head(runtime):
    angles = real(16, 4)
    attributes = {"num_heads": 2, "rotary_embedding_dim": 8}
    arrays = [real(2, 5, 32), np.array([1]), np.cos(angles), np.sin(angles)]
    expected = runtime("RotaryEmbedding", *arrays, opset=17, domain=DOMAIN, **attributes)
    agree(compute(operator("RotaryEmbedding", attributes), arrays, 1), expected, 1e-5)


@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 1, 1], "strides": [2, 2]}, {"dilations": [2, 1]}])
def test_pooling_with_channels_last(attributes, runtime):
    x = whole((2, 7, 6, 4), np.uint8)
    attributes = {"kernel_shape": [3, 2], **attributes}
    expected = runtime("NhwcMaxPool", x, opset=17, domain=DOMAIN, **attributes)
    agree(compute(operator("NhwcMaxPool", attributes), [x], 1), expected, 0)


A, B = whole((2, 5, 6), np.uint8), whole((5, 6), np.uint8)
SIGNED = whole((2, 5, 6), np.int8)
MAPS = whole((2, 4, 7, 6), np.uint8)
QUANTIZED_CASES = [
    ("QLinearAdd", {}, [A, scale(), byte(120), B, scale(), byte(7), scale(), byte(128)]),
    ("QLinearAdd", {}, [A, scale(), byte(0), B, scale(), byte(0), np.float32(0.05), byte(0)]),
    ("QLinearMul", {}, [A, scale(), byte(120), B, scale(), byte(7), np.float32(0.04), byte(128)]),
    (
        "QLinearMul",
        {},
        [SIGNED, scale(), byte(3, np.int8), SIGNED, scale(), byte(0, np.int8), scale() * 2, byte(0, np.int8)],
    ),
    ("QLinearSigmoid", {}, [A, np.float32(0.05), byte(128), np.float32(1 / 256), byte(0)]),
    ("QLinearSigmoid", {}, [SIGNED, np.float32(0.05), None, np.float32(1 / 256), byte(-128, np.int8)]),
    ("QLinearLeakyRelu", {"alpha": 0.2}, [A, scale(), byte(100), scale(), byte(90)]),
    ("QLinearGlobalAveragePool", {}, [MAPS, scale(), byte(99), scale(), byte(90)]),
    ("QLinearGlobalAveragePool", {"channels_last": 1}, [MAPS, scale(), byte(99), scale(), byte(90)]),
    ("QLinearAveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}, [MAPS, scale(), byte(99), scale(), byte(9)]),
    ("QLinearConcat", {"axis": 1}, [scale(), byte(50), A, scale(), byte(9), A, scale(), byte(200)]),
    ("QLinearSoftmax", {"opset": 13, "axis": 1}, [A, np.float32(0.05), byte(100), np.float32(1 / 256), byte(0)]),
    ("QLinearSoftmax", {"opset": 11, "axis": 1}, [A, np.float32(0.02), byte(100), np.float32(1 / 1024), byte(0)]),
    ("QLinearWhere", {}, [B > 99, A, scale(), byte(9), B, scale(), byte(90), scale(), byte(100)]),
    ("QGemm", {"transB": 1}, [B, scale(), byte(9), whole((3, 6), np.uint8), scale(), byte(8), None, scale(), byte(99)]),
    ("QGemm", {}, [B, scale(), byte(9), whole((6, 3), np.int8), scale(3), byte([0, 0, 0], np.int8)]),
    ("QGemm", {}, [B, scale(), byte(9), whole((6, 3), np.uint8), scale(), byte(8), whole((3,), np.int32, -99, 99)]),
    ("MatMulIntegerToFloat", {}, [A, whole((6, 3), np.uint8), scale(), scale(3), byte(9), byte([3, 4, 5]), real(3)]),
    ("MatMulIntegerToFloat", {}, [A, whole((6, 3), np.int8), scale(), scale()]),
    ("DynamicQuantizeMatMul", {}, [real(2, 5, 6), whole((6, 3), np.int8), scale(3), byte([1, 2, 3], np.int8), real(3)]),
    ("DynamicQuantizeMatMul", {}, [real(5, 6), whole((6, 3), np.uint8), scale(), byte(100)]),
    ("QuantizeLinear", {"axis": 1}, [real(2, 5, 6), scale(5), byte([1, 2, 3, 4, 5])]),
    ("QuantizeLinear", {}, [real(2, 5, 6), scale(), byte(3, np.int8)]),
    ("QuantizeLinear", {}, [real(2, 5, 6), scale() / 99, byte(-3, np.int16)]),
    ("QuantizeLinear", {"axis": 2}, [real(2, 5, 6), scale(6) / 99, whole((6,), np.uint16)]),
    ("DequantizeLinear", {"axis": 2}, [whole((2, 5, 6), np.int16), scale(6) / 99, whole((6,), np.int16)]),
    ("DequantizeLinear", {}, [whole((2, 5, 6), np.uint16), scale() / 99, byte(77, np.uint16)]),
    ("DequantizeLinear", {}, [whole((2, 5, 6), np.int32, -99, 99), scale()]),
    ("DequantizeLinear", {"axis": 2}, [A, scale(6), whole((6,), np.uint8)]),
    ("DequantizeLinear", {}, [SIGNED, scale()]),
]


@pytest.mark.parametrize(("name", "attributes", "arrays"), QUANTIZED_CASES)
def test_quantized_operators_agree_with_onnx_runtime(name, attributes, arrays, runtime):
    arrays = [None if array is None else np.asarray(array) for array in arrays]
    (expected,) = runtime(name, *arrays, opset=17, domain=DOMAIN, attributes=attributes)
    (result,) = compute(operator(name, attributes), arrays, 1)
    assert result.dtype == expected.dtype
    if result.dtype == np.float32:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
        return
    distance = np.abs(result.astype(int) - expected.astype(int))
    assert distance.max() <= 1  # another order of multiplication can turn a tie
    assert (distance > 0).mean() < 0.02


def test_absent_zero_points_are_zero():
    scales = [np.asarray(scale()) for _ in range(3)]
    given = operator("QLinearAdd", {}).reference(A, scales[0], byte(0), B, scales[1], byte(0), scales[2], byte(0))
    absent = operator("QLinearAdd", {}).reference(A, scales[0], None, B, scales[1], None, scales[2])
    np.testing.assert_array_equal(given, absent)


def test_a_product_without_activation_is_just_a_product():
    left, right = real(3, 4), real(4, 5)
    np.testing.assert_allclose(operator("FusedGemm", {}).reference(left, right), left @ right, rtol=1e-5, atol=1e-6)


def test_what_is_not_supported_says_so():
    with pytest.raises(UnsupportedError, match="the fused activation 'Sine'"):
        operator("FusedGemm", {"activation": "Sine"}).reference(real(2, 2), real(2, 2))
    with pytest.raises(UnsupportedError, match="weights of 2, 4 and 8 bits only"):
        operator("MatMulNBits", {"K": 16, "N": 1, "bits": 3, "block_size": 16}).reference(real(1, 16), A, A)
    with pytest.raises(ShapeError, match="block_size=0 must be at least 1"):
        operator("MatMulNBits", {"K": 16, "N": 1, "block_size": 0}).reference(real(1, 16), A, A)
    with pytest.raises(ShapeError, match="the input 'B' is missing"):
        operator("QLinearAdd", {}).reference(A, np.asarray(scale()))


def test_a_model_with_a_fused_operator_is_read():
    node = helper.make_node("SkipLayerNormalization", ["x", "skip", "gamma"], ["y", "", "", "sum"], domain=DOMAIN)
    infos = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", X.shape), ("skip", X.shape))]
    infos.append(helper.make_tensor_value_info("gamma", 1, GAMMA.shape))
    outputs = [helper.make_tensor_value_info(name, 1, X.shape) for name in ("y", "sum")]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(helper.make_graph([node], "fused", infos, outputs), opset_imports=imports, ir_version=8)
    found = evaluate(read_model(model).graph, [X, X, GAMMA])
    np.testing.assert_allclose(found[1], X + X)
    np.testing.assert_array_equal(found[0], operator("SkipLayerNormalization", {}).reference(X, X, GAMMA)[0])


def test_symbolic_batches_stay_symbolic():
    graph = Graph("test")
    n = dim.symbol("N")
    x = graph.add_input("x", TensorType(FLOAT32, (n, 5, 8)))
    gamma = graph.add_input("gamma", TensorType(FLOAT32, (8,)))
    types = infer_types(operator("SkipLayerNormalization", {}), [x, x, gamma], 1, "y")
    assert types == (TensorType(FLOAT32, (n, 5, 8)),)
