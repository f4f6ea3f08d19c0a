"""Comparison, truth values, choice and limits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.present import contents

from intaglio.errors import ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder, infer_types, reference_by_expansion
from intaglio.ir.dtype import BOOL, FLOAT32, INT32, INT64, STRING
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import SequenceType, TensorType

COMPARISONS = ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]


def operator(name, **attributes):
    return OPERATORS[("", name)](**attributes)


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_comparisons_agree_with_onnx_runtime(name, dtype, runtime):
    a = np.array([[0, 1, 2, -1]]).astype(dtype)
    b = np.array([[0], [1]]).astype(dtype)
    if np.dtype(dtype).kind == "f":
        a[0, 2], a[0, 3], b[1, 0] = np.nan, -np.inf, np.nan
    (expected,) = runtime(name, a, b)
    result = operator(name).reference(a, b)
    assert result.dtype == bool
    np.testing.assert_array_equal(result, expected)


def test_strings_and_narrow_floats_compare():
    left, right = np.array([["a", "b"]], object), np.array(["a", "a"], object)
    result = operator("Equal").reference(left, right)
    assert result.dtype == bool
    assert result.tolist() == [[True, False]]
    narrow = np.array([1, 2], ml_dtypes.bfloat16)
    assert operator("Less").reference(narrow, narrow[::-1]).tolist() == [True, False]


@pytest.mark.parametrize("name", ["And", "Or", "Xor"])
def test_truth_values_agree_with_onnx_runtime(name, runtime):
    a, b = np.array([[True], [False]]), np.array([True, False])
    np.testing.assert_array_equal(operator(name).reference(a, b), runtime(name, a, b)[0])
    assert operator("Not").reference(a).tolist() == [[False], [True]]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, object, np.complex64, ml_dtypes.bfloat16])
def test_where_chooses_elements_of_every_type(dtype):
    x, y = np.array([[1.0], [2.0]]).astype(dtype), np.array([3.0, 4.0, 5.0]).astype(dtype)
    result = operator("Where").reference(np.array([True, False, True]), x, y)
    assert result.dtype == x.dtype
    assert result.tolist() == [[x[0, 0], y[1], x[0, 0]], [x[1, 0], y[1], x[1, 0]]]


@pytest.mark.parametrize(("low", "high"), [(None, None), (-1, None), (None, 1), (-1, 1), (2, -2)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64, np.float64])
def test_clip_agrees_with_onnx_runtime(low, high, dtype, runtime):
    if np.dtype(dtype).kind == "u":
        low, high = (None if bound is None else abs(bound) for bound in (low, high))
    x = np.array([0, 1, 2, 3, 100]).astype(dtype)
    bounds = [None if bound is None else np.array(bound, dtype) for bound in (low, high)]
    (expected,) = runtime("Clip", x, *bounds)
    result = operator("Clip").reference(x, *bounds)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(reference_by_expansion(operator("Clip"), [x, *bounds]), expected)


def test_clip_keeps_nan_in_narrow_floats():
    x = np.array([np.nan, 5], ml_dtypes.bfloat16)
    result = operator("Clip").reference(x, np.array(0, x.dtype), np.array(1, x.dtype))
    assert result.dtype == x.dtype
    assert np.isnan(float(result[0]))
    assert float(result[1]) == 1


def infer(name, *types):
    graph = Graph("test")
    values = [None if type is None else graph.add_input("x", type) for type in types]
    return infer_types(operator(name), values, 1, "y")[0]


def test_types():
    assert infer("Less", TensorType(FLOAT32, (2, 1)), TensorType(FLOAT32, (3,))) == TensorType(BOOL, (2, 3))
    assert infer("Not", TensorType(BOOL, None)) == TensorType(BOOL, None)
    chosen = infer("Where", TensorType(BOOL, (3,)), TensorType(STRING, ()), TensorType(STRING, (2, 1)))
    assert chosen == TensorType(STRING, (2, 3))
    sequence = SequenceType(TensorType(FLOAT32, (2,)))
    assert infer("Identity", sequence) == sequence


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("Where", [TensorType(INT32, ()), TensorType(INT32, ()), TensorType(INT32, ())], "condition must be bool"),
        ("And", [TensorType(INT32, ()), TensorType(INT32, ())], "kind bool, got int32"),
        ("Less", [TensorType(STRING, ()), TensorType(STRING, ())], "got string"),
        ("Clip", [TensorType(INT32, (2,)), TensorType(INT32, (2,))], "min must be a scalar"),
        ("Clip", [TensorType(INT32, (2,)), None, TensorType(INT64, ())], "one element type"),
    ],
)
def test_wrong_operands_are_refused(name, types, message):
    with pytest.raises(ShapeError, match=message):
        infer(name, *types)


def test_sizes_are_compared_where_that_can_be_decided():
    n = dim.symbol("N")
    graph = Graph("test")
    builder = Builder(graph)
    shape = graph.add_input("shape", TensorType(INT64, (2,)))
    shape.contents = np.array([n, 4], dtype=object)
    with builder.active():
        is_free = builder.Equal(shape, [-1, 4])
        assert contents(is_free) == [False, True]
        assert contents(builder.Where(is_free, [1, 1], shape)) == [n, 1]
        assert builder.Equal(shape, [3, 4]).contents is None
        assert contents(builder.Less(shape, [0, 5])) == [False, True]
        assert contents(builder.LessOrEqual(shape, [-1, 4])) == [False, True]
        assert contents(builder.Greater(shape, [-1, 4])) == [True, False]
        assert contents(builder.GreaterOrEqual(shape, [0, 5])) == [True, False]
        assert contents(builder.Not(is_free)) == [True, False]
        assert contents(builder.And(is_free, builder.Not(is_free))) == [False, False]
        assert contents(builder.Xor(is_free, builder.Or(is_free, builder.Not(is_free)))) == [True, False]
        assert contents(builder.Clip(shape, 0, 3)) == [dim.minimum(n, 3), 3]
        assert contents(builder.Identity(shape)) == [n, 4]
