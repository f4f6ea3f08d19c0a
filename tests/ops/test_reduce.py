"""Reductions against ONNX Runtime: axes, kept axes, empty sets, integers, NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.present import contents

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT32, INT64
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.reduce import ArgMax, ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum

NAMES = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
AXES = [
    (None, 1, 0),
    (None, 0, 0),
    ([1], 1, 0),
    ([-1, 0], 0, 0),
    ([], 1, 0),
    ([], 1, 1),
    (None, 0, 1),
    ([0, 1, 2], 0, 0),
]


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(5).uniform(0.5, 4, shape).astype(dtype)


def axes_array(axes: list[int] | None) -> Any:
    return None if axes is None else np.array(axes, np.int64)


@pytest.mark.parametrize(("axes", "keepdims", "noop"), AXES)
@pytest.mark.parametrize("name", NAMES)
def test_axes(agree: Any, name: str, axes: list[int] | None, keepdims: int, noop: int) -> None:
    options = {"keepdims": keepdims, "noop_with_empty_axes": noop}
    agree(f"Reduce{name}", numbers(2, 3, 4), axes_array(axes), opset=20, **options)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("Log")])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_types(agree: Any, name: str, dtype: Any) -> None:
    agree(f"Reduce{name}", numbers(2, 3, 4, dtype=dtype) - dtype(2), axes_array([1]), opset=20)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_])
@pytest.mark.parametrize("name", ["Max", "Min"])
def test_extremes_of_narrow_types(agree: Any, name: str, dtype: Any) -> None:
    agree(f"Reduce{name}", np.array([[0, 1, 0], [1, 1, 1]], dtype), axes_array([1]), opset=20)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Mean"])
def test_reduction_of_nothing_gives_the_identity(agree: Any, name: str) -> None:
    agree(f"Reduce{name}", numbers(2, 0, 3), axes_array([1]), opset=20)


def test_extremes_of_no_integers_are_the_ends_of_the_type() -> None:
    empty = np.zeros((2, 0), np.int32)
    assert ReduceMax().reference(empty, axes_array([1])).tolist() == [[-(2**31)], [-(2**31)]]
    assert ReduceMin().reference(empty, axes_array([1])).tolist() == [[2**31 - 1], [2**31 - 1]]
    assert ReduceMax().reference(np.zeros((1, 0), np.bool_), axes_array([1])).tolist() == [[False]]


def test_mean_of_no_integers_is_an_error() -> None:
    with pytest.raises(OperatorError, match="mean of no integers"):
        ReduceMean().reference(np.zeros((2, 0), np.int32), axes_array([1]))


@pytest.mark.parametrize("name", NAMES)
def test_scalar(agree: Any, name: str) -> None:
    agree(f"Reduce{name}", np.array(3.5, np.float32), None, opset=20)


def test_extremes_carry_nan() -> None:
    data = np.array([[1, np.nan, 2]], np.float32)
    assert np.isnan(ReduceMax().reference(data)).all()
    assert np.isnan(ReduceMin().reference(data)).all()


@pytest.mark.parametrize("row", [[1e4, 1e4], [-np.inf, -np.inf], [np.inf, 0], [-1e4, -1e5], [np.nan, 0]])
def test_log_sum_exp_does_not_overflow(agree: Any, row: list[float]) -> None:
    agree("ReduceLogSumExp", np.array([row], np.float32), axes_array([1]), opset=20)


def test_integer_sums_wrap_around() -> None:
    data = np.array([2**31 - 1, 1], np.int32)
    assert ReduceSum(keepdims=0).reference(data) == -(2**31)
    assert ReduceMean(keepdims=0).reference(data) == 2**30
    assert ReduceMean(keepdims=0).reference(np.array([-3, -4], np.int32)) == -3
    assert ReduceMean(keepdims=0).reference(np.array([-(2**63), 1])) == 1 - 2**62


@pytest.mark.parametrize("axes", [[3], [-4], [1, -2]])
def test_wrong_axes(axes: list[int]) -> None:
    with pytest.raises(OperatorError, match="axis"):
        ReduceSum().reference(numbers(2, 3, 4), axes_array(axes))
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (2, 3, 4)))
    with pytest.raises(ShapeError, match="axis"):
        b.ReduceSum(x, axes)


def test_axes_must_be_int64() -> None:
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (2, 3)))
    with pytest.raises(ShapeError, match="int64"):
        b.ReduceSum(x, b.graph.add_input("axes", TensorType(INT32, (1,))))


def test_unknown_axes_leave_the_rank() -> None:
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (2, 3, 4)))
    axes = b.graph.add_input("axes", TensorType(INT64, (2,)))
    assert b.ReduceSum(x, axes).rank == 3
    assert b.ReduceSum(x, axes, keepdims=0).rank == 1


def test_contents_of_shapes_are_followed() -> None:
    b = Builder(Graph())
    n = dim.symbol("N")
    x = b.graph.add_input("x", TensorType(FLOAT32, (n, 3, 4)))
    assert contents(b.ReduceProd(b.Shape(x), keepdims=0)) == n * 12
    assert contents(b.ReduceSum(b.Shape(x))) == [n + 7]


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
def test_places_of_extremes(agree: Any, name: str, axis: int, keepdims: int, last: int) -> None:
    data = np.random.default_rng(1).integers(0, 3, (3, 4, 5)).astype(np.int32)
    agree(name, data, axis=axis, keepdims=keepdims, select_last_index=last)


def test_place_among_nothing_is_an_error() -> None:
    with pytest.raises(OperatorError, match="no elements"):
        ArgMax(axis=1).reference(np.zeros((2, 0), np.float32))


@given(st.lists(st.integers(0, 3), min_size=0, max_size=4), st.data())
def test_inferred_shape_is_the_computed_one(shape: list[int], data: st.DataObject) -> None:
    rank = len(shape)
    axes = data.draw(st.lists(st.integers(-rank, rank - 1), unique_by=lambda a: a % rank) if rank else st.just([]))
    keepdims, noop = data.draw(st.tuples(st.integers(0, 1), st.integers(0, 1)))
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, tuple(shape)))
    op = ReduceProd(keepdims=keepdims, noop_with_empty_axes=noop)
    (value,) = b.add(op, [x, b.constant(np.array(axes, np.int64))])
    assert value.shape == op.reference(np.ones(shape, np.float32), np.array(axes, np.int64)).shape
