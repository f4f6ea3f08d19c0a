"""Operators that choose elements."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.dtype import BOOL

from .operands import ints, reference, value

N = dim.symbol("N")


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [(3, 2), (6,), (0, 2), (1, 6, 1)])
def test_non_zero_agrees_with_runtime(agree, dtype, shape):
    agree("NonZero", np.array([0, 1, 2, 0, 0, 3][: int(np.prod(shape))]).reshape(shape).astype(dtype))


def test_non_zero_of_a_scalar_and_of_narrow_floats():
    assert reference("NonZero", np.array(3.0)).shape == (0, 1)
    assert reference("NonZero", np.array(0.0)).shape == (0, 0)
    assert reference("NonZero", np.array([0, 1, -0.0], ml_dtypes.bfloat16)).tolist() == [[1]]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress_agrees_with_runtime(agree, axis):
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    agree("Compress", data, np.array([False, True]), **({} if axis is None else {"axis": axis}))


def test_compress_refuses(b):
    with pytest.raises(OperatorError, match="length 3 for an axis of size 2"):
        reference("Compress", np.zeros((2, 2)), np.ones(3, bool), axis=0)
    with pytest.raises(ShapeError, match="expected bool"):
        b.Compress(value(b, 2), value(b, 2))
    assert b.Compress(value(b, N, 3), value(b, 3, dtype=BOOL), axis=1).shape[0] == N


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8])
def test_unique_agrees_with_runtime(agree, is_sorted, axis, dtype):
    data = np.array([[2, 1, 1], [3, 1, 1], [2, 1, 1]]).astype(dtype)
    agree("Unique", data, outputs=4, sorted=is_sorted, **({} if axis is None else {"axis": axis}))


def test_unique_of_strings(agree):
    agree("Unique", np.array(["b", "a", "b"], object), outputs=4)
    found, *_ = reference("Unique", np.array([["b", "a"], ["b", "a"]], object), axis=0)
    assert found.tolist() == [["b", "a"]]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int32, np.uint8, np.float16])
def test_top_k_agrees_with_runtime(agree, axis, largest, count, dtype):
    data = np.array([[3, 1, 2, 3], [0, 5, 5, 1], [7, 7, 0, 2]]).astype(dtype)
    opset = 24 if dtype == np.uint8 else 21
    if opset == 24:
        expected = reference("TopK", data.astype(np.int64), ints(count), axis=axis, largest=largest)
        agree(
            "TopK",
            data,
            ints(count),
            outputs=2,
            opset=opset,
            axis=axis,
            largest=largest,
            expected=[expected[0].astype(dtype), expected[1]],
        )
    else:
        agree("TopK", data, ints(count), outputs=2, axis=axis, largest=largest)


def test_top_k_of_extremes():
    data = np.array([np.iinfo(np.int64).min, 0, np.iinfo(np.int64).max])
    assert reference("TopK", data, ints(2))[1].tolist() == [2, 1]
    assert reference("TopK", data, ints(2), largest=0)[1].tolist() == [0, 1]
    infinite = np.array([-np.inf, np.inf, 0], np.float32)
    assert reference("TopK", infinite, ints(3))[1].tolist() == [1, 2, 0]


def test_top_k_refuses(b):
    with pytest.raises(OperatorError, match="K is 4, expected 0 to 3"):
        reference("TopK", np.zeros(3), ints(4))
    with pytest.raises(OperatorError, match="K is -1"):
        reference("TopK", np.zeros(3), ints(-1))
    with pytest.raises(ShapeError, match="K is 4, the axis has 3"):
        b.TopK(value(b, 3), [4], outputs=2)


@given(hnp.arrays(np.int64, st.integers(1, 8), elements=st.integers(-3, 3)), st.data())
def test_top_k_takes_the_first_of_equal_elements(data, draw):
    count = draw.draw(st.integers(0, len(data)))
    order = sorted(range(len(data)), key=lambda i: (-data[i], i))[:count]
    assert reference("TopK", data, ints(count))[1].tolist() == order


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize(
    ("most", "overlap", "least"), [(3, 0.5, 0.0), (1, 0.5, None), (9, 0.0, 0.4), (0, 0.5, None), (9, 1.0, 0.9)]
)
def test_non_max_suppression_agrees_with_runtime(agree, center, most, overlap, least):
    rng = np.random.default_rng(1)
    boxes = np.concatenate([rng.random((2, 12, 2)), rng.random((2, 12, 2)) * 0.7], axis=2).astype(np.float32)
    scores = np.round(rng.random((2, 3, 12)), 1).astype(np.float32)
    optional = [np.array([most], np.int64), np.array([overlap], np.float32)]
    optional += [] if least is None else [np.array([least], np.float32)]
    agree("NonMaxSuppression", boxes, scores, *optional, center_point_box=center)


def test_non_max_suppression_without_a_limit_chooses_nothing():
    boxes, scores = np.zeros((1, 2, 4), np.float32), np.ones((1, 1, 2), np.float32)
    assert reference("NonMaxSuppression", boxes, scores).shape == (0, 3)
    with pytest.raises(OperatorError, match="boxes of shape"):
        reference("NonMaxSuppression", boxes, scores[:, :, :1])
