"""Older versions of Resize, and Upsample, judged by ONNX Runtime or by stored data."""

from __future__ import annotations

import numpy as np
import pytest

from intaglio.errors import UnsupportedError


def image(*shape):
    return (np.random.default_rng(0).random(shape) * 100).astype(np.float32)


def floats(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample_7(agree, mode):
    agree("Upsample", image(1, 1, 3, 4), opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 3.0], rtol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample_9(agree, mode):
    agree("Upsample", image(1, 1, 3, 4), floats(1, 1, 2.5, 3), opset=9, mode=mode, rtol=1e-4)


def test_upsample_1(agree):
    data = np.array([[[[1, 2]]]], np.float32)
    expected = [np.array([[[[1, 1, 2, 2], [1, 1, 2, 2]]]], np.float32)]
    agree("Upsample", data, opset=1, height_scale=2.0, width_scale=2.0, expected=expected)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2, 3), (0.6, 0.6), (0.5, 2)])
def test_resize_10(agree, mode, scales):
    agree("Resize", image(1, 1, 4, 6), floats(1, 1, *scales), opset=10, mode=mode, rtol=1e-4)


def test_resize_10_shrinks_as_its_stored_data_says(agree):
    data = np.array([[[[1, 2, 3, 4], [5, 6, 7, 8]]]], np.float32)
    agree("Resize", data, floats(1, 1, 0.6, 0.6), opset=10, expected=[np.array([[[[1, 3]]]], np.float32)])


EMPTY = np.zeros(0, np.float32)


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_11(agree, opset, mode):
    agree("Resize", image(1, 1, 4, 6), EMPTY, floats(1, 1, 1.5, 0.8), opset=opset, mode=mode, rtol=1e-4, atol=1e-3)


def test_resize_11_by_sizes(agree):
    target = np.array([1, 1, 7, 3], np.int64)
    agree("Resize", image(1, 1, 4, 6), EMPTY, EMPTY, target, opset=11, mode="linear", rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("scales", [(2, 3), (0.6, 0.5), (1.7, 1.2), (1, 2)])
def test_resize_11_with_tensorflows_half_pixels(agree, nearest, scales):
    options = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": nearest}
    agree("Resize", image(1, 1, 4, 6), EMPTY, floats(1, 1, *scales), opset=11, **options)


@pytest.mark.parametrize("nearest", ["ceil", "round_prefer_ceil"])
@pytest.mark.parametrize("sizes", [(8, 9), (2, 6), (7, 4)])
def test_resize_11_with_tensorflows_half_pixels_by_sizes(agree, nearest, sizes):
    options = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": nearest}
    agree("Resize", image(1, 1, 4, 6), EMPTY, EMPTY, np.array([1, 1, *sizes], np.int64), opset=11, **options)


def test_resize_11_refuses_other_uses_of_them(agree):
    options = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "mode": "linear"}
    with pytest.raises(UnsupportedError, match="tf_half_pixel_for_nn"):
        agree("Resize", image(1, 1, 4, 6), EMPTY, floats(1, 1, 2, 2), opset=11, **options)
