"""Gradients of windows over sizes that only the run knows: of images, of kernels, and of pads that follow from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.autodiff.judge import judge

import intaglio
from intaglio import ops

X: Any = np.random.default_rng(1).standard_normal((2, 2, 5, 4))
W: Any = np.random.default_rng(2).standard_normal((4, 1, 3, 2))

CONVOLUTIONS: list[dict[str, Any]] = [
    {"strides": [2, 1], "pads": [1, 0, 2, 1]},
    {"strides": [2, 3], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 1], "dilations": [1, 2], "auto_pad": "SAME_LOWER"},
    {"strides": [3, 2], "pads": [4, 3, 0, 1]},  # windows that see nothing but margins
]


@pytest.mark.parametrize("attributes", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("kernel", ["3, 2", "kh, kw"])
def test_convolutions(attributes: dict[str, Any], kernel: str) -> None:
    with intaglio.build("conv", inputs={"x": "float64[N, 2, H, W]", "w": f"float64[4, 1, {kernel}]"}) as g:
        g.output(y=ops.Sin(ops.Conv(g["x"], g["w"], group=2, **attributes)))
    engines = ("reference", "native") if attributes is CONVOLUTIONS[1] else ("reference",)
    judge(g.graph, {"x": X, "w": W}, ["x", "w"], engines=engines, in_onnx_runtime=False)


@pytest.mark.parametrize("kernel", ["3, 2", "kh, kw"])
@pytest.mark.parametrize(("size", "stride"), [(2, 1), (1, 3), (2, 3), (5, 3)])
def test_images_in_which_no_window_fits(size: int, stride: int, kernel: str) -> None:
    with intaglio.build("conv", inputs={"x": "float64[N, 2, H, W]", "w": f"float64[4, 1, {kernel}]"}) as g:
        g.output(y=ops.Conv(g["x"], g["w"], group=2, strides=[stride, 1]))
    feeds = {"x": X[:, :, :size], "w": W}
    judge(g.graph, feeds, ["x", "w"], engines=("reference",), in_onnx_runtime=False)


@pytest.mark.parametrize("kernel", ["3, 2", "kh, kw"])
def test_transposed_convolutions(kernel: str) -> None:
    with intaglio.build("turned", inputs={"x": "float64[N, 2, H, W]", "w": f"float64[2, 3, {kernel}]"}) as g:
        g.output(y=ops.Sin(ops.ConvTranspose(g["x"], g["w"], strides=[2, 1], pads=[1, 0, 0, 1])))
    weights = np.random.default_rng(3).standard_normal((2, 3, 3, 2))
    judge(g.graph, {"x": X, "w": weights}, ["x", "w"], engines=("reference",), in_onnx_runtime=False)


POOLS: list[tuple[str, dict[str, Any]]] = [
    (name, {"kernel_shape": [3, 2], "strides": [2, 3], **more, **flag})
    for more in ({"ceil_mode": 1, "pads": [1, 0, 1, 1]}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"})
    for name, flag in (("AveragePool", {"count_include_pad": 0}), ("AveragePool", {"count_include_pad": 1}),
                       ("LpPool", {}), ("MaxPool", {}))
]  # fmt: skip


@pytest.mark.parametrize(("name", "attributes"), POOLS, ids=str)
def test_pools(name: str, attributes: dict[str, Any]) -> None:
    with intaglio.build("pool", inputs={"x": "float64[N, 2, H, W]"}) as g:
        g.output(y=ops.Sin(getattr(ops, name)(g["x"], **attributes)))
    engines = ("reference", "native") if "ceil_mode" in attributes else ("reference",)
    judge(g.graph, {"x": X + 0.01}, ["x"], order=1, engines=engines, in_onnx_runtime=False)


EMPTY = [
    ("Resize", (1, 2, 3, 0)),
    *((name, shape) for name in ("Resize", "AveragePool") for shape in ((0, 2, 3, 4), (3, 0, 2, 2))),
]


@pytest.mark.parametrize(("operator", "shape"), EMPTY)
def test_images_without_elements(operator: str, shape: tuple[int, ...]) -> None:
    with intaglio.build("empty", inputs={"x": f"float64{list(shape)}"}) as g:
        doubled = ops.Resize(g["x"], None, np.array([1, 1, 2, 1], np.float32), mode="nearest")
        g.output(y=doubled if operator == "Resize" else ops.AveragePool(g["x"], kernel_shape=[2, 2]))
    found = intaglio.grad(g.graph, engine="reference")(np.zeros(shape))
    assert found.shape == shape
