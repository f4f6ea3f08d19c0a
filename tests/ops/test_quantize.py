"""Quantization, its inverse, and products of quantized tensors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from intaglio.errors import ShapeError
from intaglio.ir import dim
from intaglio.ir.build import infer_types, reference_by_expansion
from intaglio.ir.dtype import DTYPES, FLOAT16, FLOAT32, INT8, INT32, UINT8
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.quantize import (
    ConvInteger,
    DequantizeLinear,
    DynamicQuantizeLinear,
    MatMulInteger,
    QLinearConv,
    QLinearMatMul,
    QuantizeLinear,
)

GENERATOR = np.random.default_rng(7)
X = (GENERATOR.standard_normal((2, 6, 3)) * 30).astype(np.float32)
X.flat[:4] = [1e6, -1e6, 0.5, 2.5]
GRANULARITIES = [
    ((), {}),
    ((1,), {}),
    ((6,), {"axis": 1}),
    ((3,), {"axis": -1}),
    ((2, 2, 3), {"axis": 1, "block_size": 3}),
]
GRANULARITIES += [((2, 2, 3), {"axis": 1, "block_size": 4}), ((1, 6, 3), {"axis": 0, "block_size": 2})]


def agree(op, arrays, expected):
    result = op.reference(*arrays)
    expanded = reference_by_expansion(op, arrays)
    assert result.dtype == expected.dtype == expanded.dtype
    for found in (result, expanded):
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize(("shape", "attributes"), GRANULARITIES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_quantization_agrees_with_onnx_runtime(shape, attributes, dtype, runtime):
    scale = np.asarray(GENERATOR.random(shape) + 0.5, np.float32)
    zero = np.asarray(GENERATOR.integers(0, 100, shape), dtype)
    agree(QuantizeLinear(**attributes), [X, scale, zero], runtime("QuantizeLinear", X, scale, zero, **attributes)[0])


@pytest.mark.parametrize(("shape", "attributes"), GRANULARITIES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_dequantization_agrees_with_onnx_runtime(shape, attributes, dtype, runtime):
    x = GENERATOR.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, X.shape, dtype=dtype)
    scale = np.asarray(GENERATOR.random(shape) + 0.5, np.float32)
    zero = np.asarray(GENERATOR.integers(0, 100, shape), dtype)
    (expected,) = runtime("DequantizeLinear", x, scale, zero, **attributes)
    agree(DequantizeLinear(**attributes), [x, scale, zero], expected)


@pytest.mark.parametrize("scale_type", [np.float16, np.float32])
def test_int32_is_dequantized_without_zero_point(scale_type, runtime):
    x, scale = np.array([2**30, -5, 0], np.int32), np.array(0.25, scale_type)
    with np.errstate(over="ignore"):
        agree(DequantizeLinear(), [x, scale], runtime("DequantizeLinear", x, scale)[0])


def test_the_output_type_without_zero_point():
    x, scale = np.array([-3, 0.5, 1.5, 300], np.float32), np.array(1, np.float32)
    agree(QuantizeLinear(), [x, scale], np.array([0, 0, 2, 255], np.uint8))
    agree(QuantizeLinear(output_dtype=3), [x, scale], np.array([-3, 0, 2, 127], np.int8))
    int2 = DTYPES["int2"].numpy
    agree(QuantizeLinear(output_dtype=26), [x, scale], np.array([-2, 0, 1, 1], np.int8).astype(int2))


@pytest.mark.parametrize("name", ["uint4", "int4", "uint2", "int2", "float8e4m3fn", "float8e5m2", "float4e2m1"])
def test_narrow_types_agree_with_the_reference_evaluator(name, evaluator):
    dtype = DTYPES[name]
    x, scale = np.array([-100, -3.3, -0.6, 0.5, 1.5, 2.2, 1000], np.float32), np.array(0.7, np.float32)
    zero = np.array(1 if dtype.kind == "uint" else 0).astype(np.int8).astype(dtype.numpy)
    agree(QuantizeLinear(), [x, scale, zero], evaluator("QuantizeLinear", x, scale, zero, opset=25)[0])
    quantized = QuantizeLinear().reference(x, scale, zero)
    (expected,) = evaluator("DequantizeLinear", quantized, scale, zero, opset=25)
    agree(DequantizeLinear(), [quantized, scale, zero], expected)


def test_saturation_of_float8_can_be_switched_off():
    x, scale, zero = np.array([1e6], np.float32), np.array(1, np.float32), np.zeros((), ml_dtypes.float8_e4m3fn)
    assert float(QuantizeLinear().reference(x, scale, zero)[0]) == 448
    assert np.isnan(float(QuantizeLinear(saturate=0).reference(x, scale, zero)[0]))
    assert np.isnan(float(reference_by_expansion(QuantizeLinear(saturate=0), [x, scale, zero])[0]))


def test_nan_becomes_the_zero_point_and_infinity_the_end_of_the_range():
    x, scale, zero = np.array([np.nan, 1, np.inf, -np.inf], np.float32), np.array(1, np.float32), np.array(9, np.uint8)
    agree(QuantizeLinear(), [x, scale, zero], np.array([9, 10, 255, 0], np.uint8))


def test_precision_and_output_type():
    x, scale = np.array([1, 2], np.float32), np.array(3, np.float16)
    halves = QuantizeLinear(output_dtype=19, precision=1).reference(x, scale)
    assert halves.dtype == ml_dtypes.float8_e5m2
    wide = DequantizeLinear(output_dtype=1).reference(np.array([1, 2], np.int8), scale)
    assert wide.dtype == np.float32
    assert wide.tolist() == [3, 6]
    power = np.array(2, ml_dtypes.float8_e8m0fnu)
    agree(DequantizeLinear(output_dtype=10), [np.array([3], np.int8), power], np.array([6], np.float16))


@pytest.mark.parametrize(
    "x", [X[1], np.zeros((2, 2), np.float32), np.array([1, 5], np.float32), np.array([-4], np.float32), np.float32(3)]
)
def test_dynamic_quantization_agrees_with_onnx_runtime(x, runtime):
    x = np.asarray(x)
    expected = runtime("DynamicQuantizeLinear", x, outputs=3)
    for found in (DynamicQuantizeLinear().reference(x), reference_by_expansion(DynamicQuantizeLinear(), [x])):
        for left, right in zip(found, expected, strict=True):
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)


def test_dynamic_quantization_of_nothing():
    y, scale, zero = DynamicQuantizeLinear().reference(np.zeros((0, 2), np.float32))
    assert y.shape == (0, 2)
    assert float(scale) == 1
    assert int(zero) == 0


def whole(shape, dtype):
    return GENERATOR.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("shapes", "zeros"),
    [
        (((4, 5), (5, 3)), ((), ())),
        (((4, 5), (5, 3)), (None, (3,))),
        (((4, 5), (5, 3)), ((1,), (1,))),
        (((2, 4, 5), (5, 3)), ((), (3,))),
        (((2, 4, 5), (2, 5, 3)), ((), (2, 1, 3))),
    ],
)
def test_integer_matrix_products_agree_with_onnx_runtime(left, shapes, zeros, runtime):
    a, b = whole(shapes[0], left), whole(shapes[1], np.int8 if left is np.int8 else np.uint8)
    points = [None if shape is None else whole(shape, array.dtype) for shape, array in zip(zeros, (a, b), strict=True)]
    points = [
        None if point is None else np.asarray(point, array.dtype) for point, array in zip(points, (a, b), strict=True)
    ]
    (expected,) = runtime("MatMulInteger", a, b, *points)
    result = MatMulInteger().reference(a, b, *points)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, expected)


def test_rows_may_have_their_own_zero_points():
    a, b, zeros = whole((4, 5), np.uint8), whole((5, 3), np.int8), whole((4,), np.uint8)
    expected = (a.astype(int) - zeros.astype(int)[:, None]) @ b.astype(int)
    np.testing.assert_array_equal(MatMulInteger().reference(a, b, zeros, None), expected)


@pytest.mark.parametrize("columns", [(), (3,)])
def test_quantized_matrix_products_agree_with_onnx_runtime(columns, runtime):
    a, b = whole((4, 5), np.uint8), whole((5, 3), np.uint8)
    scale, zero = np.float32(0.02), np.uint8(120)
    b_scale = np.asarray(GENERATOR.random(columns) * 0.01 + 0.01, np.float32)
    b_zero = np.asarray(whole(columns, np.uint8), np.uint8)
    arrays = [a, np.array(scale), np.array(zero), b, b_scale, b_zero, np.array(0.1, np.float32), np.array(zero)]
    (expected,) = runtime("QLinearMatMul", *arrays)
    result = QLinearMatMul().reference(*arrays)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


CONVOLUTIONS = [
    {},
    {"pads": (1, 2, 0, 1), "strides": (2, 1)},
    {"auto_pad": "SAME_UPPER"},
    {"dilations": (2, 1)},
    {"group": 2, "kernel_shape": (3, 2)},
]


@pytest.mark.parametrize("attributes", CONVOLUTIONS)
def test_integer_convolution_agrees_with_onnx_runtime(attributes, runtime):
    group = attributes.get("group", 1)
    x, w = whole((2, 4, 7, 6), np.uint8), whole((4, 4 // group, 3, 2), np.uint8)
    zeros = [np.array(100, np.uint8), np.array(7, np.uint8)]
    (expected,) = runtime("ConvInteger", x, w, *zeros, **attributes)
    result = ConvInteger(**attributes).reference(x, w, *zeros)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(
        ConvInteger(**attributes).reference(x, w), runtime("ConvInteger", x, w, **attributes)[0]
    )


@pytest.mark.parametrize("attributes", CONVOLUTIONS)
@pytest.mark.parametrize("channels", [(), (4,)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_quantized_convolution_agrees_with_onnx_runtime(attributes, channels, has_bias, runtime):
    group = attributes.get("group", 1)
    x, w = whole((2, 4, 7, 6), np.uint8), whole((4, 4 // group, 3, 2), np.int8)
    w_scale = np.asarray(GENERATOR.random(channels) * 0.01 + 0.01, np.float32)
    w_zero = np.zeros(channels, np.int8)
    data = [x, np.array(0.03, np.float32), np.array(90, np.uint8), w, w_scale, w_zero]
    bias = [whole((4,), np.int32) // 2**22] if has_bias else []
    arrays = [*data, np.array(0.5, np.float32), np.array(128, np.uint8), *bias]
    (expected,) = runtime("QLinearConv", *arrays, **attributes)
    result = QLinearConv(**attributes).reference(*arrays)
    assert result.dtype == expected.dtype
    assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1  # ONNX Runtime multiplies in another order
    assert (result != expected).mean() < 0.01


def infer(op, *types):
    graph = Graph("test")
    return infer_types(op, [None if type is None else graph.add_input("x", type) for type in types], 1, "y")[0]


def test_types():
    n = dim.symbol("N")
    x = TensorType(FLOAT32, (n, 4))
    assert infer(QuantizeLinear(), x, TensorType(FLOAT32, ())) == TensorType(UINT8, (n, 4))
    assert infer(QuantizeLinear(), x, TensorType(FLOAT32, (4,)), TensorType(INT8, (4,))) == TensorType(INT8, (n, 4))
    unranked = TensorType(UINT8, None)
    assert infer(DequantizeLinear(), unranked, TensorType(FLOAT16, (3,))) == TensorType(FLOAT16, None)
    assert infer(MatMulInteger(), unranked, unranked) == TensorType(INT32, None)
    assert infer(ConvInteger(), unranked, unranked) == TensorType(INT32, None)
    byte = TensorType(UINT8, (n, 4))
    assert infer(MatMulInteger(), byte, TensorType(UINT8, (4, 5))) == TensorType(INT32, (n, 5))
    images = TensorType(UINT8, (n, 3, 8, 8))
    assert infer(ConvInteger(), images, TensorType(UINT8, (6, 3, 3, 3))) == TensorType(INT32, (n, 6, 6, 6))


@pytest.mark.parametrize(
    ("op", "types", "message"),
    [
        (QuantizeLinear(), [(FLOAT32, (2, 3)), (FLOAT32, (4,))], "the scale and axis 1: 4 and 3 differ"),
        (QuantizeLinear(axis=5), [(FLOAT32, (2, 3)), (FLOAT32, (3,))], "axis"),
        (QuantizeLinear(), [(FLOAT32, (2, 3)), (FLOAT32, (2, 3))], "block_size 0 does not fit"),
        (QuantizeLinear(block_size=2), [(FLOAT32, (2, 4)), (FLOAT32, (3, 2))], "the scale and axis 0: 3 and 2 differ"),
        (QuantizeLinear(), [(FLOAT32, (2, 3)), (FLOAT32, (3,)), (UINT8, (2,))], "the scale and the zero point"),
        (QuantizeLinear(block_size=2), [(FLOAT32, (2, 5)), (FLOAT32, (2, 2))], "the scale and axis 1: 2 and 3 differ"),
        (QuantizeLinear(block_size=-1), [(FLOAT32, (2, 5)), (FLOAT32, ())], "block_size is -1"),
        (MatMulInteger(), [(INT32, (2, 5)), (UINT8, (5, 2))], "is int32, int8 or uint8 is needed"),
        (ConvInteger(), [(UINT8, (1, 2, 5)), (UINT8, (5, 2, 1)), (INT8, ())], "uint8 but its zero point is int8"),
        (QuantizeLinear(output_dtype=2), [(FLOAT32, (2,)), (FLOAT32, ()), (INT8, ())], "output_dtype is uint8 but"),
        (DequantizeLinear(), [(UINT8, (2,)), (FLOAT32, ()), (INT8, ())], "x is uint8 but x_zero_point is int8"),
        (DequantizeLinear(), [(UINT8, (2,)), (INT32, ())], "x_scale must be a float"),
    ],
)
def test_wrong_operands_are_refused(op, types, message):
    with pytest.raises(ShapeError, match=message):
        infer(op, *(TensorType(dtype, shape) for dtype, shape in types))


def test_numbers_of_types_are_onnx_numbers():
    assert DTYPES["int2"].number == 26
