"""Grids, regions of interest, deformed convolutions and blocks against ONNX Runtime."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from intaglio.errors import LimitError, OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder, reference_by_expansion
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.convolution import Conv
from intaglio.ops.vision_nn import AffineGrid, Col2Im, DeformConv, GridSample, MaxRoiPool, RoiAlign, reflect


def numbers(*shape: int) -> Any:
    return np.random.default_rng(13).standard_normal(shape).astype(np.float32)


MODES = list(product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)))


@pytest.mark.parametrize(("mode", "padding_mode", "align_corners"), MODES)
def test_grid_sample(agree: Any, mode: str, padding_mode: str, align_corners: int) -> None:
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    grid = numbers(2, 4, 7, 2) * np.float32(1.2)
    agree("GridSample", numbers(2, 3, 5, 6), grid, opset=20, rtol=1e-3, atol=1e-4, **options)


@pytest.mark.parametrize(("mode", "padding_mode", "align_corners"), [case for case in MODES if case[0] != "cubic"])
def test_grid_sample_of_volumes(agree: Any, mode: str, padding_mode: str, align_corners: int) -> None:
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    grid = numbers(2, 4, 7, 3, 3) * np.float32(1.2)
    agree("GridSample", numbers(2, 3, 4, 5, 6), grid, opset=20, rtol=1e-3, atol=1e-4, **options)


def test_grid_sample_of_integers_truncates() -> None:
    x = np.array([[[[0, 9]]]], np.int32)
    assert GridSample().reference(x, np.array([[[[0.0, 0.0]]]], np.float32)).tolist() == [[[[4]]]]


def test_far_points_are_reflected_until_inside() -> None:
    places = np.array([-3.5, -0.5, 0, 2.5, 3.5, 9.25])
    np.testing.assert_allclose(reflect(places, -0.5, 2.5), [2.5, -0.5, 0, 2.5, 1.5, 1.75])


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_affine_grid(agree: Any, align_corners: int, size: tuple[int, ...]) -> None:
    axes = len(size) - 2
    theta = numbers(2, axes, axes + 1)
    agree("AffineGrid", theta, np.array(size), opset=20, align_corners=align_corners)
    op = AffineGrid(align_corners=align_corners)
    expected = op.reference(theta, np.array(size))
    np.testing.assert_allclose(reference_by_expansion(op, [theta, np.array(size)]), expected, rtol=1e-5, atol=1e-6)


def test_one_pixel_is_in_the_middle() -> None:
    identity = np.array([[[1, 0, 0], [0, 1, 0]]], np.float32)
    for align_corners in (0, 1):
        op = AffineGrid(align_corners=align_corners)
        assert op.reference(identity, np.array([1, 1, 1, 1])).tolist() == [[[[0, 0]]]]


@pytest.mark.parametrize(("stride", "pad", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
@pytest.mark.parametrize("groups", [1, 2])
def test_deformed_convolution(agree: Any, stride: int, pad: int, dilation: int, groups: int) -> None:
    height, width = (6 + 2 * pad - 2 * dilation - 1) // stride + 1, (7 + 2 * pad - dilation - 1) // stride + 1
    offset, mask = numbers(1, groups * 12, height, width), numbers(1, groups * 6, height, width)
    inputs = (numbers(1, 4, 6, 7), numbers(6, 4 // groups, 3, 2), offset, numbers(6), mask)
    options = {"strides": [stride] * 2, "pads": [pad] * 4, "dilations": [dilation] * 2}
    agree("DeformConv", *inputs, opset=22, atol=1e-4, group=groups, offset_group=groups, **options)


def test_deformed_convolution_without_offsets_is_a_convolution() -> None:
    x, w = numbers(1, 2, 5, 6, 4), numbers(3, 2, 2, 3, 2)
    offset = np.zeros((1, 12 * 3, 4, 4, 3), np.float32)
    np.testing.assert_allclose(DeformConv().reference(x, w, offset), Conv().reference(x, w), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "image", "block", "options"),
    [
        ((2, 27, 25), (5, 5), (3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 12, 9), (6, 6), (2, 2), {"strides": [2, 2]}),
        ((1, 4, 16), (6, 6), (2, 2), {"dilations": [2, 2]}),
        ((1, 12, 12), (3, 4, 5), (1, 2, 3), {"strides": [1, 2, 2]}),
    ],
)
def test_columns_to_image(agree: Any, shape: Any, image: Any, block: Any, options: dict[str, Any]) -> None:
    agree("Col2Im", numbers(*shape), np.array(image), np.array(block), opset=18, **options)


def test_columns_must_fit() -> None:
    with pytest.raises(OperatorError, match="do not fit"):
        Col2Im().reference(numbers(1, 4, 8), np.array([4, 4]), np.array([2, 2]))


REGIONS = np.array([[0, 0, 0, 3, 4], [1, 1, 2, 5, 5], [0, 4, 4, 2, 1], [1, 0, 0, 20, 20]], np.float32)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_max_roi_pool(agree: Any, scale: float) -> None:
    agree("MaxRoiPool", numbers(2, 3, 6, 7), REGIONS, pooled_shape=[2, 3], spatial_scale=scale)


ALIGNMENTS = list(product(("avg", "max"), ("half_pixel", "output_half_pixel"), (0, 2), (1.0, 0.5)))


@pytest.mark.parametrize(("mode", "transformation", "ratio", "scale"), ALIGNMENTS)
def test_roi_align(agree: Any, mode: str, transformation: str, ratio: int, scale: float) -> None:
    options = {"mode": mode, "coordinate_transformation_mode": transformation, "sampling_ratio": ratio}
    options |= {"spatial_scale": scale, "output_height": 2, "output_width": 3}
    agree("RoiAlign", numbers(2, 3, 6, 7), REGIONS[:, 1:], np.array([0, 1, 0, 1]), opset=16, atol=1e-5, **options)


def test_huge_regions_are_refused() -> None:
    region = np.array([[0, 0, 1e20, 1e20]], np.float32)
    with pytest.raises(LimitError, match="over the limit"):
        RoiAlign().reference(numbers(1, 1, 4, 4), region, np.array([0]))


def test_regions_must_be_of_an_image() -> None:
    with pytest.raises(OperatorError, match="batch index 2"):
        RoiAlign().reference(numbers(2, 3, 6, 7), REGIONS[:1, 1:], np.array([2]))
    with pytest.raises(OperatorError, match="batch index of a region 3"):
        MaxRoiPool(pooled_shape=(1, 1)).reference(numbers(2, 3, 6, 7), REGIONS[:1] + 3)


def test_inferred_shapes() -> None:
    b, n = Builder(Graph()), dim.symbol("N")
    x = b.graph.add_input("x", TensorType(FLOAT32, (n, 3, 8, 8)))
    grid = b.graph.add_input("g", TensorType(FLOAT32, (n, 5, 6, 2)))
    assert b.GridSample(x, grid).shape == (n, 3, 5, 6)
    with pytest.raises(ShapeError, match="mode is 'bilinear'"):
        b.GridSample(x, grid, mode="bilinear")
    with pytest.raises(ShapeError, match="rank 4 but"):
        b.GridSample(x, b.graph.add_input("h", TensorType(FLOAT32, (n, 5, 2))))
