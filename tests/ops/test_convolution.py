"""Convolutions against ONNX Runtime in one to three axes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from intaglio.errors import ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.convolution import Conv, ConvTranspose

CONVOLUTIONS = [
    ((2, 4, 9), (6, 4, 3)),
    ((1, 4, 7, 8), (6, 2, 3, 2)),
    ((1, 2, 5, 6, 7), (4, 2, 2, 3, 2)),
    ((1, 4, 8, 8), (4, 1, 3, 3)),
]
TRANSPOSED = [((2, 4, 5), (4, 3, 3), 1), ((1, 4, 4, 5), (4, 2, 3, 2), 2), ((1, 2, 3, 4, 3), (2, 2, 2, 3, 2), 1)]
PADS = ["NOTSET", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"]


def numbers(*shape: int) -> Any:
    return np.random.default_rng(4).standard_normal(shape).astype(np.float32)


def padding(kind: str, axes: int) -> dict[str, Any]:
    return {"pads": [1] * axes + [2] * axes} if kind == "pads" else {"auto_pad": kind}


@pytest.mark.parametrize(("shape", "weights"), CONVOLUTIONS)
@pytest.mark.parametrize(
    ("stride", "dilation", "kind"), [c for c in product((1, 2, 3), (1, 2), PADS) if c[1] == 1 or c[2][0] != "S"]
)
def test_conv(agree: Any, shape: Any, weights: Any, stride: int, dilation: int, kind: str) -> None:
    axes = len(shape) - 2
    options = {"strides": [stride] * axes, "dilations": [dilation] * axes, "group": shape[1] // weights[1]}
    options |= padding(kind, axes)
    agree("Conv", numbers(*shape), numbers(*weights), numbers(weights[0]), atol=1e-5, **options)


@pytest.mark.parametrize(("shape", "weights", "group"), TRANSPOSED)
@pytest.mark.parametrize(("stride", "dilation", "kind"), list(product((1, 2, 3), (1, 2), PADS)))
def test_conv_transpose(
    agree: Any, shape: Any, weights: Any, group: int, stride: int, dilation: int, kind: str
) -> None:
    axes = len(shape) - 2
    options = {"strides": [stride] * axes, "dilations": [dilation] * axes, "group": group}
    options |= {"pads": [1] * axes + [0] * axes} if kind == "pads" else {"auto_pad": kind}
    bias = numbers(weights[1] * group)
    agree("ConvTranspose", numbers(*shape), numbers(*weights), bias, atol=1e-5, **options)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_conv_transpose_with_output_shape(agree: Any, auto_pad: str) -> None:
    x, w = numbers(1, 2, 3, 3), numbers(2, 2, 3, 3)
    agree("ConvTranspose", x, w, strides=[3, 2], output_shape=[8, 6], auto_pad=auto_pad, atol=1e-5)


def test_conv_transpose_with_output_padding(agree: Any) -> None:
    agree("ConvTranspose", numbers(1, 2, 3, 3), numbers(2, 2, 3, 3), strides=[3, 2], output_padding=[2, 1], atol=1e-5)


@pytest.mark.parametrize("name", ["Conv", "ConvTranspose"])
def test_empty_batch(agree: Any, name: str) -> None:
    assert agree(name, numbers(0, 3, 5, 5), numbers(3, 3, 3, 3))[0].shape[0] == 0


def test_default_kernel_shape_is_that_of_the_weights(agree: Any) -> None:
    agree("Conv", numbers(1, 3, 5, 5), numbers(2, 3, 3, 2), kernel_shape=[3, 2], atol=1e-5)


def test_symbolic_image() -> None:
    b, n, h = Builder(Graph()), dim.symbol("N"), dim.symbol("H")
    x = b.graph.add_input("x", TensorType(FLOAT32, (n, 3, h, h)))
    w = b.graph.add_input("w", TensorType(FLOAT32, (8, 3, 3, 3)))
    assert b.Conv(x, w, pads=(1, 1, 1, 1)).shape == (n, 8, h, h)
    assert b.Conv(x, w, auto_pad="SAME_UPPER", strides=(2, 2)).shape == (n, 8, dim.ceildiv(h, 2), dim.ceildiv(h, 2))


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ((8, 4, 3, 3), {}, "channels"),
        ((8, 2, 3, 3), {"group": 3}, "8 output channels cannot be split into 3"),
        ((8, 6, 3), {}, "rank"),
        ((8, 6, 3, 3), {"kernel_shape": (2, 3)}, "kernel_shape"),
        ((8, 6, 3, 3), {"group": 0}, "group is 0"),
        ((8, 6, 9, 9), {}, "does not fit"),
    ],
)
def test_wrong_operands(weights: tuple[int, ...], options: dict[str, Any], message: str) -> None:
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (1, 6, 5, 5)))
    with pytest.raises(ShapeError, match=message):
        b.Conv(x, b.graph.add_input("w", TensorType(FLOAT32, weights)), **options)


def test_huge_output_is_refused() -> None:
    with pytest.raises(ShapeError, match="no number may be over 2147483647"):
        ConvTranspose(output_shape=(2**40,)).reference(numbers(1, 1, 3), numbers(1, 1, 3))


def test_four_spatial_axes() -> None:
    x, w = np.ones((1, 1, 3, 3, 3, 3), np.float32), np.ones((1, 1, 2, 2, 2, 2), np.float32)
    result = Conv().reference(x, w)
    assert result.shape == (1, 1, 2, 2, 2, 2)
    assert (result == 16).all()
