"""Operators that read or write elements at given indices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.dtype import COMPLEX64, INT64

from .operands import arange, ints, reference, value

N, M = dim.symbol("N"), dim.symbol("M")
WRONG = [4, -5, 2**62, -(2**63)]
"""Indices outside of a size of 4."""


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [np.array(1), ints(0, -1), ints(0, 1, 1).reshape(3, 1), np.zeros((0,), np.int64)])
def test_gather_agrees_with_runtime(agree, axis, indices):
    agree("Gather", arange(3, 4, 2), indices, axis=axis)


def test_gather_of_strings(agree):
    agree("Gather", np.array(["a", "b"], object), ints(1, 1, 0))


@pytest.mark.parametrize("index", WRONG)
def test_indices_out_of_range_are_refused(index):
    places = ints(index)
    with pytest.raises(OperatorError, match=f"index {index} is out of range for size 4: expected -4 to 3"):
        reference("Gather", arange(4), places)
    with pytest.raises(OperatorError, match="out of range"):
        reference("GatherElements", arange(4), places)
    with pytest.raises(OperatorError, match="out of range"):
        reference("GatherND", arange(4), places)
    with pytest.raises(OperatorError, match="out of range"):
        reference("ScatterElements", arange(4), places, arange(1))
    with pytest.raises(OperatorError, match="out of range"):
        reference("ScatterND", arange(4), places[None], arange(1))


def test_gather_of_a_shape_keeps_its_contents(b):
    shape = b.Shape(value(b, N, 3, M))
    assert b.Gather(shape, ints(2, 0)).contents.tolist() == [M, N]
    assert b.Gather(shape, np.array(-1)).contents.item() == M
    with pytest.raises(ShapeError, match="expected an integer type"):
        b.Gather(shape, value(b, 2))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements_agrees_with_runtime(agree, axis):
    agree("GatherElements", arange(3, 3), np.array([[0, -1, 2], [1, 0, 0]], np.int64), axis=axis)


@pytest.mark.parametrize(
    ("batch_dims", "indices"),
    [
        (0, [[0, 1, 1], [1, 0, -1]]),
        (0, [[0], [1]]),
        (0, [[[0, 2]], [[1, 1]]]),
        (1, [[0], [2]]),
        (1, [[[0], [1]], [[2], [2]]]),
        (2, [[[1], [0], [2]], [[0], [0], [3]]]),
    ],
)
def test_gather_nd_agrees_with_runtime(agree, batch_dims, indices):
    agree("GatherND", arange(2, 3, 4), np.array(indices, np.int64), batch_dims=batch_dims)


def test_gather_nd_of_nothing():
    assert reference("GatherND", arange(2, 3), np.zeros((2, 0), np.int64)).shape == (2, 2, 3)
    assert reference("GatherND", arange(2, 3), np.zeros((0, 1), np.int64)).shape == (0, 3)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float64, np.uint8])
def test_scatter_elements_agrees_with_runtime(agree, reduction, dtype):
    indices = np.array([[0, 1, 2], [2, 1, 0]], np.int64)
    if reduction != "none":
        indices[1] = [0, 1, 0]  # several updates of one element
    agree("ScatterElements", arange(4, 3, dtype=dtype), indices, 3 - arange(2, 3, dtype=dtype), reduction=reduction)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_nd_agrees_with_runtime(agree, reduction):
    indices = np.array([[2], [0], [2]] if reduction != "none" else [[2], [0], [1]], np.int64)
    agree("ScatterND", arange(4, 3), indices, arange(3, 3) - 4, reduction=reduction)


def test_scatter_rounds_narrow_floats_once():
    data = np.array([256], ml_dtypes.bfloat16)
    updates = np.array([1, 1], ml_dtypes.bfloat16)
    result = reference("ScatterElements", data, ints(0, 0), updates, reduction="add")
    assert result.dtype == data.dtype
    assert result.tolist() == [258]


def test_scatter_refuses(b):
    with pytest.raises(ShapeError, match="reduction 'max' has no meaning for complex64"):
        b.ScatterElements(value(b, 4, dtype=COMPLEX64), [0], value(b, 1, dtype=COMPLEX64), reduction="max")
    with pytest.raises(ShapeError, match="reduction 'sub' is none of"):
        b.ScatterND(value(b, 4), [[0]], value(b, 1), reduction="sub")
    with pytest.raises(OperatorError, match=r"updates of shape \[2\], expected \[1\]"):
        reference("ScatterND", arange(4), ints(0)[None], arange(2))
    with pytest.raises(OperatorError, match="reach past"):
        reference("ScatterElements", arange(2, 2), np.zeros((1, 3), np.int64), arange(1, 3))


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, -1])
def test_tensor_scatter(mode, axis):
    cache, update = np.zeros((2, 4, 4), np.float32), np.ones((2, 2, 4) if axis == 1 else (2, 4, 2), np.float32)
    starts = ints(1, 3 if mode == "circular" else 2)
    result = reference("TensorScatter", cache, update, starts, mode=mode, axis=axis)
    rows = np.moveaxis(result, axis, 1)[:, :, 0]
    assert rows.tolist() == [[0, 1, 1, 0], [1, 0, 0, 1] if mode == "circular" else [0, 0, 1, 1]]


def test_tensor_scatter_refuses(b):
    cache, update = np.zeros((1, 4, 2), np.float32), np.ones((1, 2, 2), np.float32)
    with pytest.raises(OperatorError, match="write index 3 of batch 0: 2 elements do not fit in 4"):
        reference("TensorScatter", cache, update, ints(3))
    with pytest.raises(OperatorError, match="write index -1"):
        reference("TensorScatter", cache, update, ints(-1), mode="circular")
    with pytest.raises(ShapeError, match="axis 0 is the batch"):
        b.TensorScatter(value(b, 1, 4), value(b, 1, 4), axis=0)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_one_hot_agrees_with_runtime(agree, axis, dtype):
    indices = np.array([[0, 2], [-1, 5]], np.int64)
    agree("OneHot", indices, np.array(3, np.int64), np.array([2, 7], dtype), axis=axis)


def test_one_hot_infers_its_depth(b):
    depth = b.Squeeze(b.Shape(value(b, N, 1), end=1), [0])
    assert b.OneHot(value(b, M, dtype=INT64), depth, np.array([0, 1], np.float32)).shape == (M, N)
