"""Each rule of docs/semantics.md on both engines: the test of the rule `some-rule` is `test_some_rule`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper, parser

import intaglio
from intaglio.errors import IntaglioError

PAGE = Path(__file__).parent.parent / "docs" / "semantics.md"
ENGINES = ("native", "reference")
NAN, INF = np.nan, np.inf


def f32(values: Any) -> Any:
    return np.array(values, np.float32)


def f64(values: Any) -> Any:
    return np.array(values, np.float64)


def f16(values: Any) -> Any:
    return np.array(values, np.float16)


def i8(values: Any) -> Any:
    return np.array(values, np.int8)


def u8(values: Any) -> Any:
    return np.array(values, np.uint8)


def i32(values: Any) -> Any:
    return np.array(values, np.int32)


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def bf16(values: Any) -> Any:
    return np.array(values, ml_dtypes.bfloat16)


def strings(*texts: str) -> Any:
    return np.array(texts, object)


def number_of(array: Any) -> int:
    return TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)


def model_of(operator: str, inputs: tuple[Any, ...], outputs: int, attributes: dict[str, Any]) -> tuple[Any, list[Any]]:
    """A model of one node, and what is fed to it: arrays are fed, lists are int64 constants, None is left out.

    Among the attributes, `opset` is the version of ONNX's operators.
    """
    opset = attributes.pop("opset", 23)
    names = ["" if item is None else f"x{i}" for i, item in enumerate(inputs)]
    arrays = {name: np.asarray(item) for name, item in zip(names, inputs, strict=True) if not isinstance(item, list)}
    arrays.pop("", None)
    fixed = [numpy_helper.from_array(i64(v), n) for n, v in zip(names, inputs, strict=True) if isinstance(v, list)]
    infos = [helper.make_tensor_value_info(name, number_of(array), array.shape) for name, array in arrays.items()]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, names, results, **attributes)
    graph = helper.make_graph([node], operator, infos, [ValueInfoProto(name=name) for name in results], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)
    return model, list(arrays.values())


def run(operator: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
    """What one node gives on both engines, which must agree."""
    model, feeds = model_of(operator, inputs, outputs, attributes)
    native, reference = (intaglio.load(model, engine=engine)(*feeds) for engine in ENGINES)
    for ours, theirs in zip(*((native, reference) if outputs > 1 else ([native], [reference])), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(plain(ours), plain(theirs), strict=True)
    return native


def plain(array: Any) -> Any:
    """The array in a type that NumPy can compare."""
    return array if array.dtype.kind in "biufO" else array.astype(np.float32)


def check(expected: Any, operator: str, *inputs: Any, **attributes: Any) -> None:
    """The node gives what is expected on both engines; dtypes are compared where `expected` is an array."""
    found = run(operator, *inputs, **attributes)
    is_exact = isinstance(expected, np.ndarray)
    if is_exact:
        assert found.dtype == expected.dtype
        expected = plain(expected)
    np.testing.assert_array_equal(plain(found), expected, strict=is_exact)


def check_error(text: str, operator: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> None:
    """Both engines refuse the node, when the model is loaded or when it runs, with that text."""
    model, feeds = model_of(operator, inputs, outputs, attributes)
    for engine in ENGINES:
        with pytest.raises(IntaglioError, match=text):
            intaglio.load(model, engine=engine)(*feeds)


# Integers


def test_integer_overflow() -> None:
    check([-(2**31)], "Add", i32([2**31 - 1]), i32([1]))
    check([-2], "Mul", i64([2**63 - 1]), i64([2]))
    check([255], "Sub", u8([0]), u8([1]))


def test_integer_least() -> None:
    check([-128], "Abs", i8([-128]))
    check([-(2**31)], "Neg", i32([-(2**31)]))


def test_integer_sum_overflow() -> None:
    check([-(2**31)], "ReduceSum", i32([2**31 - 1, 1]), [0])
    check([[-(2**31)]], "MatMul", i32([[2**30, 2**30]]), i32([[1], [1]]))
    check([127, -2], "CumSum", i32([127, -129]), np.array(0))


def test_integer_division() -> None:
    check([3, -3, -3, 3], "Div", i32([7, -7, 7, -7]), i32([2, 2, -2, -2]))


def test_integer_division_by_zero() -> None:
    check([0, 0, 0], "Div", i32([7, -7, 0]), i32([0, 0, 0]))
    check([0], "Div", np.array([9], np.uint64), np.array([0], np.uint64))


def test_integer_division_overflow() -> None:
    check([-(2**31)], "Div", i32([-(2**31)]), i32([-1]))
    check([-(2**63)], "Div", i64([-(2**63)]), i64([-1]))
    check([0], "Mod", i32([-(2**31)]), i32([-1]), fmod=1)


def test_mod() -> None:
    check([1, 2, -2, -1], "Mod", i32([7, -7, 7, -7]), i32([3, 3, -3, -3]))


def test_mod_fmod() -> None:
    check([1, -1, 1, -1], "Mod", i32([7, -7, 7, -7]), i32([3, 3, -3, -3]), fmod=1)
    check([1.5, -1.5], "Mod", f32([5.5, -5.5]), f32([2, 2]), fmod=1)


def test_mod_by_zero() -> None:
    check([0], "Mod", i32([5]), i32([0]))
    check([NAN], "Mod", f32([5]), f32([0]), fmod=1)


def test_shift_past_the_width() -> None:
    check([0, 254], "BitShift", u8([255, 255]), u8([8, 1]), direction="LEFT")
    check([0, 127], "BitShift", u8([255, 255]), u8([200, 1]), direction="RIGHT")


def test_integer_power() -> None:
    check([0, 0, 9, -1, 1], "Pow", i32([2, 0, 3, -1, 0]), i32([-1, -1, 2, -3, 0]))
    check([0], "Pow", i32([2]), i32([32]))


def test_integer_mean() -> None:
    check([[-3]], "ReduceMean", i32([[-3, -4]]), [1])
    check([[3]], "ReduceMean", i32([[3, 4]]), [1])
    check([[1 - 2**62]], "ReduceMean", i64([[-(2**63), 1]]), [1])


def test_integer_gemm() -> None:
    check([[1, -1]], "Gemm", i32([[1]]), i32([[3, -3]]), alpha=0.5)
    check([[4, -5]], "Gemm", i64([[1]]), i64([[3, -3]]), i64([5, -7]), alpha=0.5, beta=0.5)
    check([[-4]], "Gemm", i32([[2**31 - 1]]), i32([[4]]), alpha=1.0)


# Floats


def test_power_of_one_half() -> None:
    for exponent in (f32(0.5), f32([0.5]), f32([0.5, 0.5, 0.5, 0.5])):
        found = run("Pow", f32([-np.inf, -0.0, 4, -1]), exponent)
        np.testing.assert_array_equal(found, [np.inf, 0, 2, np.nan])
        assert not np.signbit(found[1])


def test_float_division_by_zero() -> None:
    check([INF, -INF, NAN], "Div", f32([1, -1, 0]), f32([0, 0, 0]))
    check([INF, -INF], "Reciprocal", f32([0.0, -0.0]))


def test_domain_errors() -> None:
    check([-INF, NAN], "Log", f32([0, -1]))
    check([NAN], "Sqrt", f32([-1]))
    check([NAN, NAN], "Asin", f32([1.5, -2]))


def test_float_overflow() -> None:
    check([INF, 0], "Exp", f32([200, -200]))
    check([INF], "Mul", f32([1e30]), f32([1e30]))


def test_infinity_minus_infinity() -> None:
    check([NAN, NAN], "Sub", f32([INF, -INF]), f32([INF, -INF]))
    check([NAN], "Mul", f32([INF]), f32([0]))


def test_saturating_functions() -> None:
    check([0, 1], "Sigmoid", f32([-INF, INF]))
    check([-1, 1], "Tanh", f32([-INF, INF]))
    check([-1, 1], "Erf", f32([-INF, INF]))


def test_round_half_to_even() -> None:
    check([0, 2, 2, -2], "Round", f32([0.5, 1.5, 2.5, -1.5]))


def test_negative_zero() -> None:
    check([True], "Equal", f32([0.0]), f32([-0.0]))
    check([0], "Sign", f32([-0.0]))
    check([False], "Less", f32([-0.0]), f32([0.0]))


def test_half_rounds_once() -> None:
    x = f16([[2048, 1, 1]])
    check(f16([[2050]]), "ReduceSum", x, [1])
    check(f16([[2050]]), "MatMul", x, f16([[1], [1], [1]]))


def test_bfloat16_rounds_once() -> None:
    check(bf16([[258]]), "ReduceSum", bf16([[256, 1, 1]]), [1])
    check(bf16([[258]]), "MatMul", bf16([[256, 1, 1]]), bf16([[1], [1], [1]]))


def test_half_overflow() -> None:
    check(f16([INF]), "Mul", f16([300]), f16([300]))
    check(f16([[60000]]), "ReduceMean", f16([[60000, 60000]]), [1])


# NaN


def test_nan_comparisons() -> None:
    for operator in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        check([False, False], operator, f32([NAN, NAN]), f32([NAN, 1]))


def test_nan_min_max() -> None:
    check([NAN, NAN, 1], "Max", f32([NAN, 1, 1]), f32([0, NAN, 0]))
    check([NAN, NAN, 0], "Min", f32([NAN, 1, 1]), f32([0, NAN, 0]))


def test_nan_clip() -> None:
    check([NAN, 3, 1], "Clip", f32([NAN, 5, 0]), f32(1), f32(3))


def test_nan_relu() -> None:
    check([NAN, 0, 2], "Relu", f32([NAN, -1, 2]))


def test_nan_sign() -> None:
    check([NAN, -1, 1], "Sign", f32([NAN, -2, INF]))


def test_nan_reduction() -> None:
    x = f32([[1, NAN, 3], [1, 2, 3]])
    check([[NAN], [3]], "ReduceMax", x, [1])
    check([[NAN], [1]], "ReduceMin", x, [1])
    check([[NAN], [6]], "ReduceSum", x, [1])


def test_nan_pool() -> None:
    check([[[NAN, NAN, 3]]], "MaxPool", f32([[[1, NAN, 2, 3]]]), kernel_shape=[2])


def test_special_convolution() -> None:
    """Weights as constants, so that Winograd's algorithm is taken."""
    weights = numpy_helper.from_array(np.full((16, 16, 3, 3), 0.25, np.float32), "w")
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 8, 8])
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    graph = helper.make_graph([node], "convolution", [info], [ValueInfoProto(name="y")], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    native, reference = (intaglio.load(model, engine=engine) for engine in ENGINES)
    assert "winograd" in str(native.explain())
    for special in (INF, NAN, 1e38, -1e9):
        x = np.zeros((1, 16, 8, 8), np.float32)
        x[0, 3, 2, 2] = special
        expected = np.zeros((1, 16, 8, 8), np.float32)
        expected[..., 1:4, 1:4] = f32(special) * f32(0.25)
        np.testing.assert_allclose(native(x), expected, rtol=1e-6)
        np.testing.assert_array_equal(reference(x), expected)


def test_nan_argmax() -> None:
    x = f32([[1, NAN, 2, NAN]])
    check([[1]], "ArgMax", x, axis=1)
    check([[1]], "ArgMin", x, axis=1)


def test_nan_topk() -> None:
    values, places = run("TopK", f32([1, NAN, 3, 2]), [3], outputs=2)
    np.testing.assert_array_equal(values, [NAN, 3, 2])
    assert places.tolist() == [1, 2, 3]


def test_nan_topk_smallest() -> None:
    values, places = run("TopK", f32([1, NAN, 3, 2]), [4], outputs=2, largest=0)
    np.testing.assert_array_equal(values, [1, 2, 3, NAN])
    assert places.tolist() == [0, 3, 2, 1]


def test_nan_unique() -> None:
    check([1, 2, NAN], "Unique", f32([2, NAN, 1, NAN]))


def test_nan_softmax() -> None:
    check([[NAN, NAN], [0.5, 0.5]], "Softmax", f32([[NAN, 1], [1, 1]]))


def test_nan_truth() -> None:
    check([True, False, False, True], "Cast", f32([NAN, 0, -0.0, 0.5]), to=TensorProto.BOOL)


def test_nan_matmul() -> None:
    check([[NAN]], "MatMul", f32([[0, 1]]), f32([[NAN], [1]]))
    check([[NAN]], "MatMul", f32([[0, 1]]), f32([[INF], [1]]))


def test_nan_where() -> None:
    check([1, NAN], "Where", np.array([True, False]), f32([1, 1]), f32([NAN, NAN]))


def test_nan_grid() -> None:
    image, grid = f32([[[[5, 6], [7, 8]]]]), f32([[[[NAN, NAN]]]])
    check([[[[NAN]]]], "GridSample", image, grid)
    check([[[[0]]]], "GridSample", image, grid, mode="nearest")
    check([[[[5]]]], "GridSample", image, grid, mode="nearest", padding_mode="border")
    for padding in ("zeros", "border", "reflection"):
        check([[[[NAN]]]], "GridSample", image, grid, mode="cubic", padding_mode=padding)
        check([[[[NAN]]]], "GridSample", image, f32([[[[INF, 0]]]]), mode="cubic", padding_mode=padding)


def test_nan_pad() -> None:
    check([NAN, 1, NAN], "Pad", f32([1]), [1, 1], f32(NAN))


# Infinities


def test_infinite_softmax() -> None:
    check([[0, 1]], "Softmax", f32([[-INF, 3]]))
    check([[NAN, NAN]], "Softmax", f32([[-INF, -INF]]))


def test_infinite_logsumexp() -> None:
    check([[-INF], [INF]], "ReduceLogSumExp", f32([[-INF, -INF], [INF, 1]]), [1])


def test_infinite_resize() -> None:
    mode = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    check([[[INF, INF, 1, 1, 1]]], "Resize", f32([[[INF, 1, 1]]]), None, None, [1, 1, 5], **mode)


# Choice


def test_clip_crossed() -> None:
    check([1, 1], "Clip", f32([5, 0]), f32(3), f32(1))


def test_clip_missing_bound() -> None:
    check([INF, 1], "Clip", f32([INF, -INF]), f32(1))


def test_ties_first() -> None:
    check([[0]], "ArgMax", f32([[2, 1, 2]]), axis=1)
    check([[1, 0, 0], [0, 1, 0]], "Hardmax", f32([[1, 1, 0], [1, NAN, NAN]]))
    assert run("TopK", f32([2, 1, 2]), [2], outputs=2)[1].tolist() == [0, 2]


def test_ties_last() -> None:
    check([[2]], "ArgMax", f32([[2, 1, 2]]), axis=1, select_last_index=1)


def test_quantize() -> None:
    check(u8([0, 2, 2, 255, 0]), "QuantizeLinear", f32([0.5, 1.5, 2.5, 1e9, -5]), f32(1), u8(0))


# Casts


def test_cast_integer_wraps() -> None:
    check(u8([44, 255]), "Cast", i32([300, -1]), to=TensorProto.UINT8)
    check(i32([0, -1]), "Cast", i64([2**32, 2**32 - 1]), to=TensorProto.INT32)


def test_cast_float_truncates() -> None:
    check(i32([1, -1, 0]), "Cast", f32([1.9, -1.9, -0.5]), to=TensorProto.INT32)


def test_cast_out_of_range() -> None:
    check(i32([2**31 - 1, -(2**31), 2**31 - 1]), "Cast", f32([3e9, -3e9, INF]), to=TensorProto.INT32)
    check(i64([2**63 - 1, -(2**63)]), "Cast", f32([1e19, -1e19]), to=TensorProto.INT64)


def test_cast_nan_to_integer() -> None:
    check(i32([0]), "Cast", f32([NAN]), to=TensorProto.INT32)
    check(i64([0]), "Cast", f64([NAN]), to=TensorProto.INT64)


def test_cast_narrow() -> None:
    check(u8([44, 255]), "Cast", f32([300, -1]), to=TensorProto.UINT8)


def test_cast_float_overflow() -> None:
    check(f16([INF, -INF, NAN]), "Cast", f32([1e30, -1e30, NAN]), to=TensorProto.FLOAT16)


def test_cast_float_rounds() -> None:
    check(f16([2048, 2052]), "Cast", f32([2049, 2051]), to=TensorProto.FLOAT16)
    check(bf16([1, 1.015625]), "Cast", f32([1.00390625, 1.01171875]), to=TensorProto.BFLOAT16)


def test_cast_from_bool() -> None:
    check(f32([1, 0]), "Cast", np.array([True, False]), to=TensorProto.FLOAT)


def test_cast_to_string() -> None:
    check(strings("1.5", "NaN", "INF", "-INF", "2"), "Cast", f32([1.5, NAN, INF, -INF, 2]), to=TensorProto.STRING)
    check(strings("-7"), "Cast", i32([-7]), to=TensorProto.STRING)
    check(strings("1", "0"), "Cast", np.array([True, False]), to=TensorProto.STRING)


def test_cast_from_string() -> None:
    check(f32([1.5, NAN, -INF, 1000]), "Cast", strings("1.5", "NaN", "-INF", "1e3"), to=TensorProto.FLOAT)
    check(i32([-7]), "Cast", strings("-7"), to=TensorProto.INT32)


def test_cast_from_string_error() -> None:
    check_error("'seven' is not a number", "Cast", strings("seven"), to=TensorProto.INT32)
    check_error("'300' is not a number of type uint8", "Cast", strings("300"), to=TensorProto.UINT8)


def test_float8_saturates() -> None:
    found = run("Cast", f32([1000, -1000, INF]), to=TensorProto.FLOAT8E4M3FN)
    assert found.astype(np.float32).tolist() == [448, -448, 448]


def test_float8_without_saturation() -> None:
    found = run("Cast", f32([1000, -1000]), to=TensorProto.FLOAT8E4M3FN, saturate=0)
    assert np.isnan(found.astype(np.float32)).all()
    found = run("Cast", f32([1e6]), to=TensorProto.FLOAT8E5M2, saturate=0)
    assert found.astype(np.float32).tolist() == [INF]


def test_float4_saturates() -> None:
    found = run("Cast", f32([1000, -1000, INF]), to=TensorProto.FLOAT4E2M1)
    assert found.astype(np.float32).tolist() == [6, -6, 6]


def test_float4_nan() -> None:
    for number in (TensorProto.FLOAT4E2M1, TensorProto.FLOAT6E2M3, TensorProto.FLOAT6E3M2):
        assert run("Cast", f32([NAN, 1]), opset=28, to=number).astype(np.float32).tolist() == [0, 1]


def test_float8e8m0() -> None:
    given, number = f32([0, -3, 4, NAN]), TensorProto.FLOAT8E8M0
    check([2.0**-127, 2.0**-127, 4, NAN], "Cast", given, to=number, opset=24)
    check([NAN, NAN, 4, NAN], "Cast", given, to=number, saturate=0, opset=24)


def test_double_rounds_once() -> None:
    above_a_tie = f64([1 + 2**-4 + 2**-40])
    check([1.125], "Cast", above_a_tie, to=TensorProto.FLOAT8E4M3FN)
    check([1 + 2**-7], "Cast", f64([1 + 2**-8 + 2**-40]), to=TensorProto.BFLOAT16)


def test_int4_wraps() -> None:
    assert run("Cast", i32([9, 7, -9]), to=TensorProto.INT4).astype(np.int32).tolist() == [-7, 7, 7]


def test_bitcast_bool() -> None:
    check(np.array([False, True, True]), "BitCast", u8([0, 1, 130]), to=TensorProto.BOOL, opset=26)


# Nothing


EMPTY = np.zeros((1, 0), np.float32)


def test_empty_sum() -> None:
    check([[0]], "ReduceSum", EMPTY, [1])
    check([[1]], "ReduceProd", EMPTY, [1])
    check([[0]], "ReduceL2", EMPTY, [1])


def test_empty_extreme() -> None:
    check([[-INF]], "ReduceMax", EMPTY, [1])
    check([[INF]], "ReduceMin", EMPTY, [1])
    check([[-(2**31)]], "ReduceMax", np.zeros((1, 0), np.int32), [1])


def test_empty_mean() -> None:
    check([[NAN]], "ReduceMean", EMPTY, [1])


def test_empty_integer_mean() -> None:
    check_error("mean of no integers", "ReduceMean", np.zeros((1, 0), np.int32), [1])


def test_empty_logsumexp() -> None:
    check([[-INF]], "ReduceLogSumExp", EMPTY, [1])


def test_empty_argmax() -> None:
    check_error("no elements", "ArgMax", EMPTY, axis=1)


def test_empty_matmul() -> None:
    check(f32([[0, 0]]), "MatMul", EMPTY, np.zeros((0, 2), np.float32))
    check(f32([[3, 4]]), "Gemm", EMPTY, np.zeros((0, 2), np.float32), f32([6, 8]), beta=0.5)


def test_empty_concat() -> None:
    check(f32([1]), "Concat", np.zeros(0, np.float32), f32([1]), np.zeros(0, np.float32), axis=0)


def test_empty_softmax() -> None:
    for operator in ("Softmax", "LogSoftmax", "Hardmax"):
        check(EMPTY, operator, EMPTY)


def test_empty_elementwise() -> None:
    check(np.zeros((0, 3), np.float32), "Add", np.zeros((0, 1), np.float32), f32([1, 2, 3]))


def test_empty_pool() -> None:
    check(np.zeros((0, 1, 2), np.float32), "MaxPool", np.zeros((0, 1, 3), np.float32), kernel_shape=[2])


def test_empty_conv() -> None:
    check(np.zeros((0, 1, 2), np.float32), "Conv", np.zeros((0, 1, 3), np.float32), np.ones((1, 1, 2), np.float32))


def test_empty_gather() -> None:
    check(np.zeros((0, 2), np.float32), "Gather", f32([[1, 2]]), np.zeros(0, np.int64))


def test_empty_nonzero() -> None:
    check(np.zeros((1, 0), np.int64), "NonZero", f32([0, 0]))


def test_empty_topk() -> None:
    assert [a.shape for a in run("TopK", f32([1, 2]), [0], outputs=2)] == [(0,), (0,)]


def test_empty_loop() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[N] x, int64 m) => (float[K, P] s, int64[K, A, B] z) {
        t = Constant <value = bool {1}> ()
        s, z = Loop (m, t) <body = a (int64 i, bool c) => (bool d, float[P] o, int64[A, B] p) {
            d = Identity (c)  o = Concat <axis = 0> (x, x)  p = NonZero (x) }>
    }"""
    for engine in ENGINES:
        model = intaglio.load(parser.parse_model(text), engine=engine)
        assert [array.shape for array in model(f32([1, 2, 3]), i64(0))] == [(0, 6), (0, 1, 0)]
        assert [array.shape for array in model(f32([1, 2, 3]), i64(2))] == [(2, 6), (2, 1, 3)]


def test_average_pool_padding() -> None:
    x = f32([[[4, 8]]])
    check([[[4, 6, 8]]], "AveragePool", x, kernel_shape=[2], pads=[1, 1])
    check([[[2, 6, 4]]], "AveragePool", x, kernel_shape=[2], pads=[1, 1], count_include_pad=1)


def test_pool_same_stride() -> None:
    x = f32([[[0, 1, 2, 3, 4, 5]]])
    for operator in ("MaxPool", "AveragePool"):
        check([[[0, 3]]], operator, x, kernel_shape=[1], strides=[3], auto_pad="SAME_UPPER")


def test_max_pool_padding() -> None:
    check([[[-4, -4, -8]]], "MaxPool", f32([[[-4, -8]]]), kernel_shape=[2], pads=[1, 1])


def test_pool_long_window() -> None:
    for operator in ("MaxPool", "AveragePool", "LpPool"):
        check(np.zeros((1, 1, 0), np.float32), operator, f32([[[4, 8]]]), kernel_shape=[3], strides=[2])
        check_error("a window of 3 elements", operator, f32([[[4]]]), kernel_shape=[3])


# Indices


def test_negative_index() -> None:
    check([3, 1], "Gather", f32([1, 2, 3]), i64([-1, 0]))
    check([1, 2, 9], "ScatterND", f32([1, 2, 3]), i64([[-1]]), f32([9]))


def test_gather_out_of_range() -> None:
    check_error("index 3 is out of range for size 3: expected -3 to 2", "Gather", f32([1, 2, 3]), i64([-1, 3]))
    check_error("index -4 is out of range for size 3", "GatherElements", f32([1, 2, 3]), i64([-4]))
    check_error("index 5 is out of range for size 3", "GatherND", f32([1, 2, 3]), i64([[5]]))


def test_scatter_out_of_range() -> None:
    check_error("index 3 is out of range for size 3", "ScatterND", f32([1, 2, 3]), i64([[3]]), f32([9]))
    check_error("index -4 is out of range for size 3", "ScatterElements", f32([1, 2, 3]), i64([-4]), f32([9]))


def test_slice_clamps() -> None:
    check([2, 3], "Slice", f32([1, 2, 3]), i64([1]), i64([100]))
    check([3, 2, 1], "Slice", f32([1, 2, 3]), i64([100]), i64([-100]), i64([0]), i64([-1]))
    check(np.zeros(0, np.float32), "Slice", f32([1, 2, 3]), i64([2]), i64([1]))


def test_slice_backwards() -> None:
    for target in (i64([-9]), [-9]):
        check([1], "Slice", f32([1, 2, 3]), target, target, [0], [-1])
    check(np.zeros(0, np.float32), "Slice", np.zeros(0, np.float32), [-9], [-9], [0], [-1])
    check([3, 2, 1], "Slice", f32([1, 2, 3]), [-1], [-9], [0], [-1])


def test_slice_step_zero() -> None:
    check_error("step is 0", "Slice", f32([1, 2, 3]), i64([0]), i64([1]), i64([0]), i64([0]))


def test_split_mismatch() -> None:
    check_error(
        r"3 and 2|the parts \[1, 1\] do not make up the size 3", "Split", f32([1, 2, 3]), i64([1, 1]), outputs=2
    )


def test_split_uneven() -> None:
    assert [a.size for a in run("Split", f32([1, 2, 3, 4, 5]), outputs=3, num_outputs=3)] == [2, 2, 1]


def test_pad_negative() -> None:
    check([2], "Pad", f32([1, 2, 3]), i64([-1, -1]))
    check_error("pads", "Pad", f32([1, 2, 3]), i64([-2, -2]))


def test_one_hot_out_of_range() -> None:
    check([[0, 0], [0, 1], [0, 0]], "OneHot", i64([2, -1, -3]), i64(2), f32([0, 1]))


def test_top_k_too_large() -> None:
    check_error("K is 4", "TopK", f32([1, 2, 3]), i64([4]), outputs=2)


def test_reshape_mismatch() -> None:
    check_error(r"\[2, 2\]|3 and 4", "Reshape", f32([1, 2, 3]), i64([2, 2]))
    check_error(r"\[2, -1\]", "Reshape", f32([1, 2, 3]), i64([2, -1]))


def test_reshape_zero() -> None:
    check([[1, 2], [3, 4]], "Reshape", f32([[1, 2], [3, 4]]), i64([0, -1]))
    check(np.zeros((0, 7), np.float32), "Reshape", np.zeros((0, 3), np.float32), i64([0, 7]), allowzero=1)


def test_expand_at_run_time() -> None:
    model, feeds = model_of("Expand", (f32([[1, 2, 3]]), i64([2, 1])), 1, {})
    for size, name in zip(model.graph.input[0].type.tensor_type.shape.dim, "NM", strict=True):
        size.dim_param = name
    for engine in ENGINES:
        assert intaglio.load(model, engine=engine)(*feeds).tolist() == [[1, 2, 3], [1, 2, 3]]


def test_expand_mismatch() -> None:
    check_error("3.*2", "Expand", f32([1, 2, 3]), i64([2]))
    check_error("3.*2", "Expand", f32([1, 2, 3]), [2])


def test_broadcast_mismatch() -> None:
    check_error("3 and 2", "Add", f32([1, 2, 3]), f32([1, 2]))


def test_axis_out_of_range() -> None:
    check_error("axis 2", "Softmax", f32([[1, 2]]), axis=2)


def test_compress_too_long() -> None:
    check_error("length 3", "Compress", f32([1, 2]), np.array([True, False, True]), axis=0)


def test_compress_short() -> None:
    check([1], "Compress", f32([1, 2, 3]), np.array([True, False]), axis=0)


def test_region_out_of_range() -> None:
    image, inside = np.zeros((2, 1, 4, 4), np.float32), f32([[0, 0, 1, 1]])
    check_error("batch index 2 is out of range", "RoiAlign", image, inside, i64([2]))
    check_error("no finite number", "RoiAlign", image, f32([[0, NAN, 1, 1]]), i64([0]))
    check_error("batch index of a region 2", "MaxRoiPool", image, f32([[2, 0, 0, 1, 1]]), pooled_shape=[1, 1])
    check_error("corner", "MaxRoiPool", image, f32([[0, 0, 0, INF, 1]]), pooled_shape=[1, 1])


def test_sizes_that_differ() -> None:
    infos = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "c", "h", "w"]),
        helper.make_tensor_value_info("k", TensorProto.FLOAT, ["o", "p", "i", "j"]),
    ]
    graph = helper.make_graph([helper.make_node("Conv", ["x", "k"], ["y"])], "g", infos, [ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    for engine in ENGINES:
        with pytest.raises(IntaglioError, match="Conv at"):
            intaglio.load(model, engine=engine)(np.ones((1, 3, 5, 5), np.float32), np.ones((4, 2, 3, 3), np.float32))


def test_range_step_zero() -> None:
    check_error("delta is 0", "Range", i64(0), i64(5), i64(0))


def test_range_wrong_way() -> None:
    check(np.zeros(0, np.int64), "Range", i64(5), i64(0), i64(1))


def test_scatter_duplicates() -> None:
    check([5, 0], "ScatterElements", f32([0, 0]), i64([0, 0]), f32([4, 5]), axis=0)


# Defaults


def test_softmax_axis() -> None:
    check([[0.5, 0.5], [0.5, 0.5]], "Softmax", f32([[1, 1], [2, 2]]))


def test_reduce_all_axes() -> None:
    check([[10]], "ReduceSum", f32([[1, 2], [3, 4]]))


def test_reduce_no_axes() -> None:
    check([[1, 2]], "ReduceSum", f32([[1, 2]]), [], noop_with_empty_axes=1)


def test_argmax_axis() -> None:
    check([[1, 0]], "ArgMax", f32([[1, 5], [2, 3]]))


def test_constant_of_shape() -> None:
    check(np.zeros((2, 1), np.float32), "ConstantOfShape", i64([2, 1]))


# Resize


def test_resize_length() -> None:
    check([[[1, 1, 2]]], "Resize", f32([[[1, 2]]]), None, f32([1, 1, 1.9]), mode="nearest")


def test_resize_align_corners() -> None:
    x, mode = f32([[[0, 3, 6]]]), {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    model, feeds = model_of("Resize", (x, None, f32([1, 1, 1.5])), 1, mode)
    for engine in ENGINES:
        found = intaglio.load(model, engine=engine)(*feeds)
        np.testing.assert_allclose(found, [[[0, 6 / 3.5, 12 / 3.5, 18 / 3.5]]], rtol=1e-6)
    check([[[0, 2, 4, 6]]], "Resize", x, None, None, [1, 1, 4], **mode)


def test_resize_exact() -> None:
    x = np.arange(26, dtype=np.float32)
    options: dict[str, Any] = {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}
    assert run("Resize", x, None, None, [115], **options)[57] == 13  # 57.5 * 26 / 115 - 0.5 is 12.5
    third = run("Resize", x, None, f32([1 / 3]), coordinate_transformation_mode="asymmetric", **options)
    np.testing.assert_array_equal(third, 3 * np.arange(8))


def test_resize_ties() -> None:
    x, mode = f32([[[1, 2]]]), {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    check([[[1, 1, 2, 2]]], "Resize", x, None, f32([1, 1, 2]), **mode)
    check([[[1, 2, 2, 2]]], "Resize", x, None, f32([1, 1, 2]), nearest_mode="round_prefer_ceil", **mode)


# Random numbers


@pytest.mark.parametrize("operator", ["RandomUniform", "RandomNormal"])
def test_random_seed(operator: str) -> None:
    first, second = (run(operator, shape=[4], seed=1.0) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first != run(operator, shape=[4], seed=2.0)).any()


def test_random_without_seed() -> None:
    model, _ = model_of("RandomNormal", (), 1, {"shape": [8]})
    for engine in ENGINES:
        loaded = intaglio.load(model, engine=engine)
        assert (loaded() != loaded()).any()


# The page and its tests


def rules() -> list[str]:
    return re.findall(r'^- <a id="([\w-]+)"></a>', PAGE.read_text(encoding="utf-8"), re.MULTILINE)


NOT_A_RULE = {"test_every_rule_is_tested", "test_every_line_is_a_rule"}


def test_every_rule_is_tested() -> None:
    tests = {name for name, item in globals().items() if name.startswith("test_") and callable(item)} - NOT_A_RULE
    assert len(rules()) == len(set(rules()))
    assert {"test_" + rule.replace("-", "_") for rule in rules()} == tests


def test_every_line_is_a_rule() -> None:
    text = PAGE.read_text(encoding="utf-8").split("\n## Where", 1)[0]
    listed = re.findall(r"^- ", text, re.MULTILINE)
    assert len(listed) == len(rules())
