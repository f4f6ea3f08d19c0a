"""Pooling against ONNX Runtime: pads, dilations, ceil mode, places of maxima."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from intaglio.errors import LimitError, OperatorError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.pooling import GlobalLpPool, MaxPool, MaxUnpool

SHAPES = [(2, 3, 9), (1, 2, 7, 8), (1, 1, 5, 6, 7)]
PADS = ["NOTSET", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"]
WINDOWS = [c for c in product((2, 3), (1, 2, 3), (1, 2), PADS, (0, 1)) if c[2] == 1 or c[3][0] != "S"]


def numbers(*shape: int) -> Any:
    return np.random.default_rng(6).standard_normal(shape).astype(np.float32)


def attributes(axes: int, kernel: int, stride: int, dilation: int, kind: str, ceil_mode: int) -> dict[str, Any]:
    options: dict[str, Any] = {"kernel_shape": [kernel] * axes, "strides": [stride] * axes, "ceil_mode": ceil_mode}
    options["dilations"] = [dilation] * axes
    return options | ({"pads": [1] * 2 * axes} if kind == "pads" else {"auto_pad": kind})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [0, 1])
def test_max_pool(agree: Any, shape: tuple[int, ...], order: int) -> None:
    for window in WINDOWS[order :: len(shape)]:
        options = attributes(len(shape) - 2, *window)
        agree("MaxPool", numbers(*shape), outputs=2, storage_order=order, **options)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [0, 1])
def test_average_pool(agree: Any, shape: tuple[int, ...], count: int) -> None:
    for window in WINDOWS[count :: len(shape)]:
        agree("AveragePool", numbers(*shape), count_include_pad=count, **attributes(len(shape) - 2, *window))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(agree: Any, shape: tuple[int, ...], p: int) -> None:
    for window in WINDOWS[p :: 3 * len(shape)]:
        agree("LpPool", numbers(*shape), p=p, **attributes(len(shape) - 2, *window))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64])
def test_max_pool_types(agree: Any, dtype: Any) -> None:
    data = np.random.default_rng(0).integers(0, 256, (1, 2, 5, 5)).astype(np.uint8).view(np.int8)
    agree("MaxPool", data.astype(dtype), kernel_shape=[2, 2], pads=[1, 1, 0, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8])
def test_places_are_inside_where_all_is_as_low_as_a_margin(agree: Any, dtype: Any) -> None:
    dice = np.random.default_rng(3)
    lowest = -np.inf if dtype is np.float32 else np.iinfo(dtype).min
    for axes in (1, 2, 3):
        kernel = dice.integers(1, 6, axes).tolist()
        shape = (1, 2, *(int(dice.integers(size, 9)) for size in kernel))
        data = np.where(dice.random(shape) < 0.8, lowest, dice.integers(0, 3, shape)).astype(dtype)
        pads = [int(dice.integers(0, size)) for size in kernel]
        agree("MaxPool", data, outputs=2, kernel_shape=kernel, pads=[*pads, *pads], storage_order=axes % 2)


@pytest.mark.parametrize("name", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (1, 2, 2, 3, 4)])
def test_global_pools(agree: Any, name: str, shape: tuple[int, ...]) -> None:
    agree(name, numbers(*shape))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(p: int) -> None:
    x = numbers(2, 3, 4, 5)
    expected = (np.abs(x) ** p).sum(axis=(2, 3), keepdims=True) ** (1 / p)
    np.testing.assert_allclose(GlobalLpPool(p=p).reference(x), expected, rtol=1e-5)


def test_unpool_undoes_pool(agree: Any) -> None:
    x = numbers(1, 2, 4, 6)
    values, places = MaxPool(kernel_shape=(2, 2), strides=(2, 2)).reference(x)
    (result,) = agree("MaxUnpool", values, places, kernel_shape=[2, 2], strides=[2, 2])
    assert result.shape == x.shape
    assert set(result[result != 0].tolist()) == set(values.ravel().tolist())


def test_unpool_places_must_exist() -> None:
    x, places = np.ones((1, 1, 2, 2), np.float32), np.full((1, 1, 2, 2), 16)
    with pytest.raises(OperatorError, match=r"16.*\[0, 15\]"):
        MaxUnpool(kernel_shape=(2, 2), strides=(2, 2)).reference(x, places)
    with pytest.raises(OperatorError, match="output_shape"):
        MaxUnpool(kernel_shape=(2, 2), strides=(2, 2)).reference(x, places * 0, np.array([1, 1, 3, 3]))


def test_huge_unpooled_image_is_refused() -> None:
    x, places = np.ones((1, 1, 2, 2), np.float32), np.zeros((1, 1, 2, 2), np.int64)
    with pytest.raises(LimitError, match="over the limit"):
        MaxUnpool(kernel_shape=(2, 2)).reference(x, places, np.array([1, 1, 2**20, 2**40]))


def test_kernel_must_fit_the_image() -> None:
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (1, 1, 3, 3)))
    with pytest.raises(ShapeError, match="does not fit"):
        b.MaxPool(x, kernel_shape=(5, 5))
    with pytest.raises(ShapeError, match="kernel_shape"):
        b.MaxPool(x, kernel_shape=(2,))
