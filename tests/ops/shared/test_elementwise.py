"""Elementwise mathematics, arithmetic and running totals against ONNX Runtime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.present import contents

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim, substitution
from intaglio.ir.build import Builder, infer_types, reference_by_expansion
from intaglio.ir.dtype import FLOAT32, INT8, INT64, from_numpy
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType
from intaglio.ops import arithmetic, unary

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 2.5, 1e-30, 3e38, -3e38, np.inf, -np.inf, np.nan]
UNARY = ["Abs", "Neg", "Ceil", "Floor", "Round", "Sign", "Reciprocal", "Sqrt", "Exp", "Log", "Sin", "Cos", "Tan"]
UNARY += ["Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Erf", "IsNaN", "IsInf"]
SIGNED = (np.int8, np.int16, np.int32, np.int64)


def operator(name, **attributes):
    return OPERATORS[("", name)](**attributes)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("shape", [(14,), (2, 7), (0, 3)])
def test_unary_mathematics_agrees_with_onnx_runtime(name, shape, runtime):
    x = np.resize(np.array(SPECIAL, dtype=np.float32), shape)
    if name in ("Sin", "Cos", "Tan"):
        x = np.where(np.abs(x) > 1e30, np.float32(0.25), x)  # argument reduction is each library's own
    (expected,) = runtime(name, x)
    result = operator(name).reference(x)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_unary_mathematics_is_rounded_once(name, dtype):
    x = np.array([0.3, 0.7, 0.99, 1.5, -0.2, 0.0]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = operator(name).reference(x.astype(np.float64))
        wanted = expected if expected.dtype == bool else expected.astype(dtype)
    result = operator(name).reference(x)
    assert result.dtype == wanted.dtype
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(result.astype(np.float64), wanted.astype(np.float64), rtol=eps, atol=eps * 1e-2)


def test_scalars_stay_arrays():
    result = operator("Exp").reference(np.array(0, np.float32))
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result.dtype == np.float32


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.float32, np.float64])
def test_arithmetic_agrees_with_onnx_runtime(name, dtype, runtime):
    generator = np.random.default_rng(3)
    a = generator.integers(0, 120, (4, 1, 5)).astype(dtype)
    b = generator.integers(1, 9, (3, 1)).astype(dtype)
    if np.dtype(dtype).kind != "u":
        a -= a.dtype.type(60)
    (expected,) = runtime(name, a, b)
    result = operator(name).reference(a, b)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", SIGNED)
def test_integer_division_never_traps(dtype):
    least = np.iinfo(dtype).min
    a = np.array([7, -7, 7, -7, least, 5, -5, 0], dtype=dtype)
    b = np.array([2, 2, -2, -2, -1, 0, 0, 0], dtype=dtype)
    np.testing.assert_array_equal(operator("Div").reference(a, b), np.array([3, -3, -3, 3, least, 0, 0, 0], dtype))
    np.testing.assert_array_equal(operator("Mod").reference(a, b), np.array([1, 1, -1, -1, 0, 0, 0, 0], dtype))
    np.testing.assert_array_equal(operator("Mod", fmod=1).reference(a, b), np.array([1, -1, 1, -1, 0, 0, 0, 0], dtype))


@given(st.data(), st.sampled_from(SIGNED))
def test_integer_division_truncates_and_the_remainder_fits(data, dtype):
    elements = st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    a, b = data.draw(elements), data.draw(elements.filter(lambda item: item not in (0, -1)))
    quotient = int(operator("Div").reference(np.array(a, dtype), np.array(b, dtype)))
    assert quotient == (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    assert int(operator("Mod").reference(np.array(a, dtype), np.array(b, dtype))) == a % b
    assert int(operator("Mod", fmod=1).reference(np.array(a, dtype), np.array(b, dtype))) == a - quotient * b


def test_float_mod_has_the_sign_that_is_asked_for():
    a = np.array([5.5, -5.5, 5.5, -1.0, np.inf, 1.0, -0.0], dtype=np.float32)
    b = np.array([2.0, 2.0, -2.0, np.inf, 2.0, 0.0, 3.0], dtype=np.float32)
    expected = np.array([1.5, 0.5, -0.5, np.inf, np.nan, np.nan, 0.0], dtype=np.float32)
    np.testing.assert_array_equal(operator("Mod").reference(a, b), expected)
    expected = np.array([1.5, -1.5, 1.5, -1.0, np.nan, np.nan, 0.0], dtype=np.float32)
    np.testing.assert_array_equal(operator("Mod", fmod=1).reference(a, b), expected)


@pytest.mark.parametrize(
    ("base", "exponent"),
    [
        (np.array([2, -3, 0, 7], np.int32), np.array([10, 3, 0, 2], np.int64)),
        (np.array([2.0, -3.0, 0.5], np.float32), np.array([10, 3, -2], np.int32)),
        (np.array([2, 3, 4], np.int64), np.array([0.5, 2.0, 1.5], np.float32)),
        (np.array([2.0, 9.0, -1.0], np.float64), np.array([0.5, -0.5, 0.5], np.float64)),
        (np.array([2.0, 1.0, -2.0], np.float32), np.array([np.inf, np.nan, -np.inf], np.float32)),
    ],
)
def test_power_agrees_with_onnx_runtime(base, exponent, runtime):
    (expected,) = runtime("Pow", base, exponent)
    result = operator("Pow").reference(base, exponent)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_integer_power_is_exact_and_wraps():
    base = np.array([2, 3, -1, -1, 5, 0, 3], np.int64)
    exponent = np.array([62, 39, -3, -2, -1, -1, 41], np.int64)
    wrapped = (3**41 + 2**63) % 2**64 - 2**63
    expected = np.array([2**62, 3**39, -1, 1, 0, 0, wrapped], np.int64)
    np.testing.assert_array_equal(operator("Pow").reference(base, exponent), expected)


@pytest.mark.parametrize("name", ["Min", "Max", "Sum", "Mean"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_variadic_operators_agree_with_onnx_runtime(name, count, runtime):
    arrays = [np.array(numbers, np.float32) for numbers in ([[1.0, np.nan, -3.0]], [[2], [0]], -1)][:count]
    (expected,) = runtime(name, *arrays)
    np.testing.assert_allclose(operator(name).reference(*arrays), expected, rtol=1e-6)
    if name in ("Sum", "Mean"):
        np.testing.assert_allclose(reference_by_expansion(operator(name), arrays), expected, rtol=1e-6)


def test_nan_wins_in_min_and_max_of_every_float():
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        a, b = np.array([np.nan, 1], dtype), np.array([1, np.nan], dtype)
        for name in ("Min", "Max"):
            result = operator(name).reference(a, b)
            assert result.dtype == a.dtype
            assert np.isnan(result.astype(np.float32)).all()


def test_shifts_past_the_width():
    x = np.array([1, -8, 127, -1], np.int8)
    y = np.array([8, 9, -1, 3], np.int8)
    np.testing.assert_array_equal(operator("BitShift", direction="LEFT").reference(x, y), [0, 0, 0, -8])
    np.testing.assert_array_equal(operator("BitShift", direction="RIGHT").reference(x, y), [0, -1, 0, -1])
    u = np.array([255, 128], np.uint8)
    np.testing.assert_array_equal(
        operator("BitShift", direction="RIGHT").reference(u, np.array([7, 8], np.uint8)), [1, 0]
    )


@pytest.mark.parametrize("name", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bitwise_operators_agree_with_onnx_runtime(name, runtime):
    a, b = np.array([[5, -7, 127]], np.int8), np.array([[3], [-128]], np.int8)
    np.testing.assert_array_equal(operator(name).reference(a, b), runtime(name, a, b)[0])


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.float64])
def test_running_sums_agree_with_onnx_runtime(reverse, exclusive, dtype, runtime):
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for axis in (0, 1, -1):
        number = np.array(axis, np.int64)
        (expected,) = runtime("CumSum", x, number, reverse=reverse, exclusive=exclusive)
        result = operator("CumSum", reverse=reverse, exclusive=exclusive).reference(x, number)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def test_running_product_and_its_exclusive_form():
    x, axis = np.array([[1.0, 2.0, 3.0]]), np.array(1)
    np.testing.assert_array_equal(operator("CumProd").reference(x, axis), [[1, 2, 6]])
    np.testing.assert_array_equal(operator("CumProd", exclusive=1, reverse=1).reference(x, axis), [[6, 3, 1]])
    assert operator("CumProd", exclusive=1).reference(np.zeros((2, 0)), axis).shape == (2, 0)


def test_running_sum_names_the_axis_that_is_out_of_range():
    with pytest.raises(OperatorError, match=r"axis is 3, it must be in \[-2, 1\]"):
        operator("CumSum").reference(np.zeros((2, 2)), np.array(3))


def inputs(*types):
    graph = Graph("test")
    return [graph.add_input("x", TensorType(dtype, shape)) for dtype, shape in types]


def infer(name, *types, **attributes):
    return infer_types(operator(name, **attributes), inputs(*types), 1, "y")[0]


def test_types_broadcast_with_symbols_and_unknown_ranks():
    n = dim.symbol("N")
    assert infer("Add", (FLOAT32, (n, 1)), (FLOAT32, (3,))) == TensorType(FLOAT32, (n, 3))
    assert infer("Add", (FLOAT32, None), (FLOAT32, (3,))) == TensorType(FLOAT32, None)
    assert infer("Exp", (FLOAT32, None)) == TensorType(FLOAT32, None)
    assert infer("Max", (FLOAT32, ()), (FLOAT32, (2, 1)), (FLOAT32, (5,))) == TensorType(FLOAT32, (2, 5))
    assert infer("Pow", (FLOAT32, (2, 1)), (INT64, (3,))) == TensorType(FLOAT32, (2, 3))


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("Add", [(FLOAT32, (2,)), (INT64, (2,))], "one element type, got x: float32, x_1: int64"),
        ("Add", [(FLOAT32, (2,)), (FLOAT32, (3,))], "2 and 3 cannot be broadcast"),
        ("Exp", [(INT64, (2,))], "Exp takes elements of kind float, got int64"),
        ("BitwiseNot", [(FLOAT32, (2,))], "kind int or uint, got float32"),
    ],
)
def test_wrong_operands_are_refused(name, types, message):
    with pytest.raises(ShapeError, match=message):
        infer(name, *types)


def test_shift_direction_is_checked():
    with pytest.raises(ShapeError, match="direction is 'UP'"):
        infer("BitShift", (INT8, ()), (INT8, ()), direction="UP")


def sizes(*contents, dtype=INT64):
    (value,) = inputs((dtype, (len(contents),)))
    value.contents = np.array(contents, dtype=object)
    return value


def test_shape_arithmetic_stays_symbolic():
    n = dim.symbol("N")
    builder = Builder(Graph("test"))
    shape = sizes(n, 7)
    with builder.active():
        assert contents(shape * 2 + 1) == [n * 2 + 1, 15]
        assert contents(builder.Div(shape * 4, 2)) == [n * 2, 14]
        assert contents(builder.Div(sizes(-7, 7), sizes(2, 0))) == [-3, 0]
        assert contents(builder.Mod(sizes(-7, -7), sizes(2, -2))) == [1, -1]
        assert contents(builder.Mod(sizes(-7, 7), sizes(2, -2), fmod=1)) == [-1, 1]
        assert contents(builder.Max(shape, 0)) == [n, 7]
        assert contents(builder.Neg(shape)) == [-n, -7]
        assert contents(builder.Abs(shape)) == [n, 7]
        assert builder.Abs(shape - 3).contents is None
        quotient = contents(builder.Div(shape - 3, 2))[0]
    assert [substitution.evaluate(quotient, {"N": size}) for size in range(7)] == [-1, -1, 0, 0, 0, 1, 1]


def test_known_sizes_wrap_in_their_element_type():
    builder = Builder(Graph("test"))
    with builder.active():
        assert contents(sizes(100, dtype=INT8) + 100) == [-56]


SYMBOLIC = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Mod",
    "Min",
    "Max",
    "Equal",
    "Less",
    "Greater",
    "LessOrEqual",
    "GreaterOrEqual",
]


@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2), min_size=1, max_size=4))
def test_sizes_that_are_plain_numbers_follow_the_reference(pairs):
    left, right = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    graph = Graph("test")
    values = [graph.constant(left), graph.constant(right)]
    for name in SYMBOLIC:
        op = operator(name)
        assert op.dims(*values).tolist() == op.reference(left, right).tolist(), name
    for name in ("Neg", "Abs"):
        assert operator(name).dims(values[0]).tolist() == operator(name).reference(left).tolist()
    remainder = operator("Mod", fmod=1)
    assert remainder.dims(*values).tolist() == remainder.reference(left, right).tolist()


FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), elements=FLOATS))
def test_results_keep_shape_and_type_for_any_input(x):
    for name, cls in vars(unary).items():
        if isinstance(cls, type) and cls.__module__ == unary.__name__ and name not in ("BitwiseNot",):
            result = cls().reference(x)
            assert result.shape == x.shape
            assert from_numpy(result.dtype) in (FLOAT32, from_numpy(np.dtype(bool)))
    assert arithmetic.Add().reference(x, x).shape == x.shape
