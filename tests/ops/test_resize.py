"""Resize in all its modes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType
from intaglio.ops.resize import COORDINATES, NEAREST

N, M = dim.symbol("N"), dim.symbol("M")
PLAIN = [mode for mode in COORDINATES if mode != "tf_crop_and_resize"]


def image(*shape, dtype=np.float32):
    rng = np.random.default_rng(0)
    return (rng.random(shape) * 100).astype(dtype)


def floats(*values):
    return np.array(values, np.float32)


def reference(*arrays, **attributes):
    return OPERATORS[("", "Resize")](**attributes).reference(*arrays)


def value(b, *shape):
    return b.graph.add_input("x", TensorType(FLOAT32, shape))


@pytest.mark.parametrize("coordinates", PLAIN)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [(2.0, 3.0), (0.6, 0.5), (1.5, 0.8), (1.0, 2.5)])
def test_interpolation_by_scales_agrees_with_runtime(agree, coordinates, mode, scales):
    if coordinates == "align_corners" and scales == (1.5, 0.8):
        scales = (1.6, 0.5)  # ONNX Runtime rounds a size that is no whole number before it aligns the corners
    options = {"mode": mode, "coordinate_transformation_mode": coordinates}
    agree("Resize", image(1, 2, 5, 6), None, floats(1, 1, *scales), rtol=1e-4, atol=1e-3, **options)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [(1.5, 0.8), (0.7, 1.3)])
def test_aligned_corners_are_those_of_the_size_before_it_is_rounded(evaluator, mode, scales):
    x, factors = image(1, 1, 5, 6), floats(1, 1, *scales)
    options = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    (expected,) = evaluator("Resize", x, None, factors, opset=19, **options)
    np.testing.assert_allclose(reference(x, None, factors, **options), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("coordinates", PLAIN)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("sizes", [(1, 1), (7, 3), (5, 12)])
def test_interpolation_by_sizes_agrees_with_runtime(agree, coordinates, mode, sizes):
    options = {"mode": mode, "coordinate_transformation_mode": coordinates}
    target = np.array([1, 2, *sizes], np.int64)
    agree("Resize", image(1, 2, 5, 6), None, None, target, rtol=1e-4, atol=1e-3, **options)


@pytest.mark.parametrize(("coordinates", "nearest"), list(itertools.product(PLAIN, NEAREST)))
@pytest.mark.parametrize("sizes", [(10, 12), (4, 4), (7, 9)])
def test_nearest_agrees_with_runtime(agree, coordinates, nearest, sizes):
    options = {"nearest_mode": nearest, "coordinate_transformation_mode": coordinates}
    agree("Resize", image(1, 1, 5, 6), None, None, np.array([1, 1, *sizes], np.int64), **options)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("roi", [(0, 0, 0.4, 0.6, 1, 1, 0.6, 0.8), (0, 0, -0.2, 0.2, 1, 1, 1.2, 1.4)])
def test_crop_and_resize_agrees_with_runtime(agree, mode, roi):
    options = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 10.0}
    sizes = np.array([1, 1, 3, 4], np.int64)
    agree("Resize", image(1, 1, 5, 6), floats(*roi), None, sizes, rtol=1e-4, atol=1e-3, **options)


def test_crop_by_scales_agrees_with_runtime(agree):
    options = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    roi = floats(0, 0, 0.2, 0.2, 1, 1, 0.8, 0.9)
    agree("Resize", image(1, 1, 5, 6), roi, floats(1, 1, 2, 3), rtol=1e-4, atol=1e-3, **options)


@pytest.mark.parametrize(("mode", "exclude"), [("linear", 0), ("cubic", 0), ("cubic", 1)])
@pytest.mark.parametrize("sizes", [(3, 2), (4, 9), (1, 1)])
def test_antialias_agrees_with_runtime(agree, mode, sizes, exclude):
    target = np.array([1, 1, *sizes], np.int64)
    options = {"mode": mode, "antialias": 1, "exclude_outside": exclude}
    agree("Resize", image(1, 1, 7, 8), None, None, target, rtol=1e-3, atol=1e-2, **options)


@pytest.mark.parametrize("a", [-0.5, -0.75])
def test_cubic_without_the_outside_agrees_with_runtime(agree, a):
    options = {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": a}
    agree("Resize", image(1, 1, 5, 6), None, floats(1, 1, 1.7, 0.7), rtol=1e-4, atol=1e-3, **options)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("axes", [(2, 3), (3, 2), (2,)])
def test_aspect_ratio_agrees_with_runtime(agree, policy, axes):
    options = {"mode": "linear", "axes": axes, "keep_aspect_ratio_policy": policy}
    agree(
        "Resize",
        image(1, 1, 4, 6),
        None,
        None,
        np.array([7, 8][: len(axes)], np.int64),
        rtol=1e-4,
        atol=1e-3,
        **options,
    )


def test_axes_with_scales_agree_with_runtime(agree):
    agree("Resize", image(1, 1, 4, 6), None, floats(2, 0.5), axes=(3, 2), mode="nearest")


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_integers_agree_with_runtime(agree, dtype, mode):
    agree(
        "Resize",
        image(1, 1, 4, 6, dtype=dtype),
        None,
        floats(1, 1, 2, 0.6),
        mode=mode,
        coordinate_transformation_mode="asymmetric",
    )


def test_sizes_follow_float32(agree):
    agree("Resize", image(1, 1, 10, 10), None, floats(1, 1, 0.7, 0.3))


def test_infinite_elements_stay_where_they_are():
    data = np.array([1, np.inf, 2, 3], np.float32)
    result = reference(data, None, floats(2), mode="linear", coordinate_transformation_mode="asymmetric")
    assert result.tolist() == [1, np.inf, np.inf, np.inf, 2, 2.5, 3, 3]


def test_a_tiny_scale_leaves_nothing():
    assert reference(image(1), None, floats(1e-30), mode="cubic", antialias=1).shape == (0,)


def test_infer_is_symbolic(b):
    x = value(b, N, 3, M, 8)
    assert b.Resize(x, None, floats(1, 1, 2, 0.5)).shape == (N, 3, M * 2, 4)
    assert b.Resize(x, None, None, [1, 1, 5, 5]).shape == (1, 1, 5, 5)
    odd = b.Resize(x, None, floats(1, 1, 0.3, 1)).shape
    assert odd[:2] == (N, 3)
    assert not isinstance(odd[2], int)


def test_resize_refuses(b):
    x = value(b, 1, 1, 4, 4)
    with pytest.raises(ShapeError, match="either scales or sizes"):
        b.Resize(x)
    with pytest.raises(ShapeError, match="mode 'area' is none of nearest, linear, cubic"):
        b.Resize(x, None, floats(1, 1, 2, 2), mode="area")
    with pytest.raises(ShapeError, match="3 scales or sizes for 4 axes"):
        b.Resize(x, None, floats(1, 1, 2))
    with pytest.raises(OperatorError, match="must be above 0"):
        reference(image(2, 2), None, floats(1, 0))
    with pytest.raises(OperatorError, match="size 0 cannot be resized to 3"):
        reference(image(0), None, None, np.array([3]))
