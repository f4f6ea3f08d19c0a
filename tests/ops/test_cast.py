"""Conversion between element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.present import contents

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder, infer_types, reference_by_expansion
from intaglio.ir.dtype import BOOL, DTYPES, FLOAT32, INT8, INT32, INT64, STRING, UINT8
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.cast import BitCast, Cast, CastLike, convert, integer_limits, to_power_of_two

NUMERIC = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
CASTABLE = [dtype for dtype in DTYPES.values() if dtype.kind != "complex"]


@pytest.mark.parametrize("source", [*NUMERIC, "bool"])
@pytest.mark.parametrize("target", [*NUMERIC, "bool", "string"])
def test_conversions_in_range_agree_with_onnx_runtime(source, target, runtime):
    x = np.array([0, 1, 2, 100, 7]).astype(DTYPES[source].numpy)
    if DTYPES[source].is_float:
        x = x + x.dtype.type(0.5)
    (expected,) = runtime("Cast", x, to=DTYPES[target].number)
    result = Cast(to=DTYPES[target].number).reference(x)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("source", CASTABLE, ids=str)
@pytest.mark.parametrize("target", CASTABLE, ids=str)
def test_every_pair_of_types_converts_small_numbers(source, target):
    count = 1 if "int2" in (source.name, target.name) else 3
    x = convert(np.array([1.0, 2.0, 1.0], np.float32).reshape(3, 1)[:count], source)
    result = convert(x, target)
    assert result.dtype == target.numpy
    assert result.shape == x.shape
    scalar = convert(x[0].reshape(()), target)
    assert isinstance(scalar, np.ndarray)
    assert scalar.shape == ()
    assert convert(x[:0], target).shape == (0, 1)
    back = convert(result, FLOAT32)
    is_truth = BOOL in (source, target)
    np.testing.assert_array_equal(back, np.minimum(convert(x, FLOAT32), 1) if is_truth else convert(x, FLOAT32))


def test_integers_wrap():
    x = np.array([200, -1, 256, 9, -9], np.int16)
    assert convert(x, INT8).tolist() == [-56, -1, 0, 9, -9]
    assert convert(x, DTYPES["int4"]).astype(int).tolist() == [-8, -1, 0, -7, 7]
    assert convert(x, DTYPES["uint4"]).astype(int).tolist() == [8, 15, 0, 9, 7]
    assert convert(x, DTYPES["int2"]).astype(int).tolist() == [0, -1, 0, 1, -1]
    assert convert(np.array([-1], np.int8), DTYPES["uint64"]).tolist() == [2**64 - 1]


@pytest.mark.parametrize("name", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("source", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_floats_out_of_range_become_the_nearest_integer_and_nan_zero(name, source):
    low, high = integer_limits(DTYPES[name])
    x = np.array([np.inf, -np.inf, np.nan, 2.75, -2.75], source)
    assert convert(x, DTYPES[name]).tolist() == [high, low, 0, 2, max(-2, low)]


def test_floats_reach_narrow_integers_by_way_of_int32():
    x = np.array([300.7, -1.5, 128, 1e20, np.nan], np.float32)
    assert convert(x, UINT8).tolist() == [44, 255, 128, 255, 0]
    assert convert(x, INT8).tolist() == [44, -1, -128, -1, 0]


@given(st.floats(-(2.0**63), 2.0**63, exclude_max=True))
def test_floats_are_rounded_towards_zero(x):
    assert int(convert(np.array(x), INT64)) == int(x)


@pytest.mark.parametrize("name", ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"])
def test_float8_saturates_unless_told_not_to(name):
    dtype = DTYPES[name]
    most = float(ml_dtypes.finfo(dtype.numpy).max)
    x = np.array([1e6, -1e6, np.inf, -np.inf, np.nan, most, -0.0], np.float32)
    saturated = convert(x, dtype).astype(np.float32)
    np.testing.assert_array_equal(saturated, [most, -most, most, -most, np.nan, most, 0])
    free = convert(x, dtype, saturate=False).astype(np.float32)
    overflow = np.inf if name == "float8e5m2" else np.nan
    np.testing.assert_array_equal(free, [overflow, -overflow, overflow, -overflow, np.nan, most, 0])
    assert np.signbit(free[-1]) == (not name.endswith("fnuz"))


@pytest.mark.parametrize("name", ["float4e2m1", "float6e2m3", "float6e3m2"])
def test_floats_without_infinity_always_saturate(name):
    most = float(ml_dtypes.finfo(DTYPES[name].numpy).max)
    result = convert(np.array([1e6, -np.inf, 0.5], np.float32), DTYPES[name], saturate=False)
    assert result.astype(float).tolist() == [most, -most, 0.5]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("up", [1, 2, 4, 4, 2.0**-126]), ("down", [1, 1, 2, 2, 2.0**-127]), ("nearest", [1, 2, 2, 4, 2.0**-126])],
)
def test_powers_of_two_are_rounded_as_asked(mode, expected):
    x = np.array([1, 1.5, 2.9, 3, 1.75 * 2.0**-127])
    assert to_power_of_two(x, True, mode).astype(np.float64).tolist() == expected


def test_powers_of_two_saturate_or_become_nan():
    x = np.array([0, np.inf, np.nan, 2.0**200, 2.0**-140])
    result = to_power_of_two(x, True, "up").astype(np.float64)
    np.testing.assert_array_equal(result, [2.0**-127, 2.0**127, np.nan, 2.0**127, 2.0**-127])
    assert np.isnan(to_power_of_two(x, False, "nearest").astype(np.float64)).all()


def test_numbers_are_written_as_the_shortest_text():
    x = np.array([0.1, 100, 1e20, np.nan, -np.inf, -2.5], np.float32)
    assert convert(x, STRING).tolist() == ["0.1", "100", "1e+20", "NaN", "-INF", "-2.5"]
    assert convert(np.array([True, False]), STRING).tolist() == ["1", "0"]
    assert convert(np.zeros((0, 2), np.int8), STRING).shape == (0, 2)


def test_texts_are_read_as_numbers():
    x = np.array([["1.5", "1e-5", "INF"], ["-inf", "nan", " 7 "]], object)
    np.testing.assert_array_equal(
        convert(x, FLOAT32), np.array([[1.5, 1e-5, np.inf], [-np.inf, np.nan, 7]], np.float32)
    )
    assert convert(np.array(["12", "-3.7", str(2**63 - 1)], object), INT64).tolist() == [12, -3, 2**63 - 1]
    assert convert(np.array([str(2**64 - 1)], object), DTYPES["uint64"]).tolist() == [2**64 - 1]
    assert convert(np.array(["true", "0", "False", "2"], object), BOOL).tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("text", "dtype"), [("Hello", FLOAT32), ("300", UINT8), ("", INT64), ("inf", INT64), ("1_0", INT64), ("١", FLOAT32)]
)
def test_texts_that_are_no_numbers_are_named(text, dtype):
    with pytest.raises(OperatorError, match=f"the text '{text}' is not a number of type {dtype}"):
        convert(np.array([text], object), dtype)


def infer(op, *types):
    graph = Graph("test")
    return infer_types(op, [graph.add_input("x", type) for type in types], 1, "y")[0]


def test_types():
    assert infer(Cast(to=7), TensorType(FLOAT32, (2,))) == TensorType(INT64, (2,))
    assert infer(Cast(to=7), TensorType(FLOAT32, None)) == TensorType(INT64, None)
    assert infer(CastLike(), TensorType(FLOAT32, (2,)), TensorType(STRING, None)) == TensorType(STRING, (2,))
    assert infer(BitCast(to=6), TensorType(FLOAT32, (2,))) == TensorType(INT32, (2,))


@pytest.mark.parametrize(
    ("op", "dtype", "message"),
    [
        (Cast(to=99), FLOAT32, "99 is not the number"),
        (Cast(to=14), FLOAT32, "no conversion to complex64"),
        (Cast(to=1, round_mode="even"), FLOAT32, "round_mode is 'even'"),
        (BitCast(to=7), FLOAT32, "float32 cannot be read as int64"),
        (BitCast(to=8), INT64, "int64 cannot be read as string"),
    ],
)
def test_wrong_attributes_are_refused(op, dtype, message):
    with pytest.raises(ShapeError, match=message):
        infer(op, TensorType(dtype, (1,)))


def test_cast_like_is_a_cast():
    x, target = np.array([1.7, -3.2], np.float32), np.zeros(0, np.int64)
    assert CastLike().reference(x, target).tolist() == [1, -3]
    np.testing.assert_array_equal(reference_by_expansion(CastLike(), [x, target]), [1, -3])


@pytest.mark.parametrize("shape", [(), (2,), (0, 3)])
def test_bits_are_kept(shape):
    x = np.full(shape, -1.5, np.float32)
    result = BitCast(to=DTYPES["uint32"].number).reference(x)
    assert result.shape == shape
    np.testing.assert_array_equal(BitCast(to=1).reference(result), x)
    assert np.all(result == 0xBFC00000)


def test_sizes_survive_integer_casts():
    graph = Graph("test")
    builder = Builder(graph)
    n = dim.symbol("N")
    shape = graph.add_input("shape", TensorType(INT64, (2,)))
    shape.contents = np.array([n, 300], dtype=object)
    with builder.active():
        assert contents(builder.Cast(shape, to=6)) == [n, 300]
        assert contents(builder.Cast(shape, to=3)) == [n, 44]
        assert contents(builder.Cast(shape + 1, to=9)) == [True, True]
        assert builder.Cast(shape, to=1).contents is None
        assert contents(builder.CastLike(shape, builder.constant([1], INT32))) == [n, 300]
