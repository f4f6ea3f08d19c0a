"""ArgMax, ArgMin and TopK: ties, NaN, every element type, any axis, symbolic and empty sizes."""

import ml_dtypes
import numpy as np
import pytest

from intaglio.errors import OperatorError, ShapeError
from intaglio.runtime.model.loading import load

RNG = np.random.default_rng(11)
DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.int64, np.uint64]
SHAPES = [(2, 5, 3), (1, 1, 1), (3, 40, 33), (2, 7, 130), (4, 9, 64), (0, 3, 2)]


def _array(dtype, shape, values=20):
    return (RNG.integers(0, values, shape) - (0 if np.dtype(dtype).kind == "u" else values // 2)).astype(dtype)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_places_of_extremes(make_model, judge, op, last, axis, keepdims):
    attributes = {"axis": axis, "select_last_index": last, "keepdims": keepdims}
    model = make_model(op, {"x": (np.float32, ["a", "b", "c"])}, attributes, outputs=[("y", np.int64)])
    judge(model, [{"x": _array(np.float32, shape, 6)} for shape in SHAPES if shape[axis]])


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_places_of_every_element_type(make_model, judge, op, dtype, axis):
    model = make_model(op, {"x": (dtype, ["a", "b"])}, {"axis": axis}, outputs=[("y", np.int64)])
    judge(model, [{"x": _array(dtype, shape)} for shape in [(3, 4), (37, 50), (1, 9), (70, 1)]], ort=False)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_nan_is_more_extreme_than_any_number(make_model, judge, op, last, axis):
    attributes = {"axis": axis, "select_last_index": last}
    model = make_model(op, {"x": (np.float32, ["a", "b"])}, attributes, outputs=[("y", np.int64)])
    feeds = []
    for shape in [(5, 40), (40, 5), (3, 3)]:
        x = _array(np.float32, shape, 4)
        x[RNG.random(shape) < 0.1] = np.nan
        x[RNG.random(shape) < 0.1] = -np.inf
        feeds.append({"x": x})
    feeds.append({"x": np.full((9, 20), -np.inf, np.float32)})
    judge(model, feeds, ort=False)


def test_nothing_to_choose_from_says_so(make_model):
    model = make_model("ArgMax", {"x": (np.float32, ["a", "b"])}, {"axis": 1}, outputs=[("y", np.int64)])
    with pytest.raises(OperatorError, match="no elements"):
        load(model, engine="native", strict=True)(np.ones((2, 0), np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_of_every_element_type(make_model, judge, dtype, largest):
    outputs = [("v", dtype), ("i", np.int64)]
    model = make_model("TopK", {"x": (dtype, ["a", "b"])}, {"largest": largest}, {"k": np.array([5])}, outputs)
    judge(model, [{"x": _array(dtype, shape)} for shape in [(2, 5), (3, 6), (1, 300), (0, 7)]], ort=False)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_top_k_along_each_axis(make_model, judge, axis, largest, k):
    outputs = [("v", np.float32), ("i", np.int64)]
    attributes = {"axis": axis, "largest": largest}
    model = make_model("TopK", {"x": (np.float32, ["a", "b", "c"])}, attributes, {"k": np.array([k])}, outputs)
    feeds = [
        {"x": RNG.permutation(np.prod(shape)).reshape(shape).astype(np.float32)} for shape in [(3, 5, 4), (9, 3, 70)]
    ]
    judge(model, feeds)


@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_with_nan_and_signed_zeros(make_model, judge, largest):
    outputs = [("v", np.float32), ("i", np.int64)]
    model = make_model("TopK", {"x": (np.float32, ["a"])}, {"largest": largest}, {"k": np.array([6])}, outputs)
    x = np.array([0.0, -0.0, np.nan, 1, -np.inf, np.inf, -0.0, -np.nan, 0.0, -1], np.float32)
    judge(model, [{"x": x}, {"x": x[::-1].copy()}], ort=False)


def test_top_k_of_too_few_says_so(make_model):
    outputs = [("v", np.float32), ("i", np.int64)]
    model = make_model("TopK", {"x": (np.float32, ["a"])}, constants={"k": np.array([6])}, outputs=outputs)
    with pytest.raises(ShapeError, match="K is 6, the axis has 3 elements"):
        load(model, engine="native", strict=True)(np.ones(3, np.float32))
