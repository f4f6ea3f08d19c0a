"""Straight-through gradients: quantizing counts as if it did not round, within its range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops

X = np.array([[-0.7, 0.12, 0.61], [0.33, -2.9, 3.1]], np.float32)


def derivatives(g: intaglio.ModelBuilder, *arrays: Any, wrt: Any = "x", **options: Any) -> list[Any]:
    """The gradients, the same on both engines."""
    results = [intaglio.grad(g.graph, wrt=wrt, engine=engine, **options)(*arrays) for engine in ("reference", "native")]
    first, second = (item if isinstance(item, tuple) else (item,) for item in results)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return list(first)


@pytest.mark.parametrize("axis_scales", [False, True])
def test_quantize_and_dequantize(axis_scales: bool) -> None:
    scale = np.array([0.02, 0.03, 0.01], np.float32) if axis_scales else np.array(0.02, np.float32)
    with intaglio.build("qdq", inputs={"x": "float32[2, 3]", "s": f"float32[{'3' if axis_scales else ''}]"}) as g:
        zero = np.full(scale.shape, 3, np.int8)
        q = ops.Transpose(ops.QuantizeLinear(g["x"], g["s"], zero, axis=1), perm=[1, 0])
        g.output(
            y=ops.Mul(ops.DequantizeLinear(q, g["s"], zero, axis=0), np.arange(1, 7, dtype=np.float32).reshape(3, 2))
        )
    weights = np.arange(1, 7, dtype=np.float32).reshape(3, 2).T
    is_inside = np.abs(X / scale + 3 + 0.5) < 128
    by_x, by_s = derivatives(g, X, scale, wrt=["x", "s"], straight_through=True)
    np.testing.assert_allclose(by_x, weights * is_inside, rtol=1e-6)
    rounded = np.clip(np.rint(X / scale) + 3, -128, 127) - 3
    slopes = weights * (rounded - np.where(is_inside, X / scale, 0))
    np.testing.assert_allclose(by_s, slopes.sum(axis=0) if axis_scales else slopes.sum(), rtol=1e-4, atol=1e-4)


def test_without_the_option_rounding_has_no_slope() -> None:
    with intaglio.build("qdq", inputs={"x": "float32[2, 3]"}) as g:
        scale, zero = np.array(0.02, np.float32), np.array(3, np.int8)
        g.output(y=ops.DequantizeLinear(ops.QuantizeLinear(g["x"], scale, zero), scale, zero))
    assert not derivatives(g, X)[0].any()


@pytest.mark.parametrize("operator", ["MatMulInteger", "ConvInteger", "QLinearMatMul"])
def test_products_of_quantized_numbers(operator: str) -> None:
    """As far as nothing leaves its range, the gradient is that of the product of what was quantized."""
    shape = (2, 3) if operator != "ConvInteger" else (1, 1, 2, 3)
    w = np.arange(-3, 3).astype(np.int8).reshape((3, 2) if operator != "ConvInteger" else (2, 1, 1, 3))
    one, none = np.array(0.1, np.float32), np.array(0, np.int8)
    with intaglio.build("product", inputs={"x": f"float32[{', '.join(map(str, shape))}]"}) as g:
        if operator == "QLinearMatMul":
            a = ops.QuantizeLinear(g["x"], one, none)
            y = ops.QLinearMatMul(a, one, none, w, np.array(0.5, np.float32), none, np.array(0.2, np.float32), none)
            g.output(y=ops.DequantizeLinear(y, np.array(0.2, np.float32), none))
        else:
            a, scale, zero = ops.DynamicQuantizeLinear(g["x"], outputs=3)
            product = getattr(ops, operator)(a, w.astype(np.int8), zero)
            g.output(y=ops.Mul(ops.Cast(product, to=1), ops.Mul(scale, np.float32(0.5))))
    found = derivatives(g, X.reshape(shape), straight_through=True)[0].reshape(2, 3)
    kernel = w.astype(np.float32) * 0.5
    expected = kernel.sum(axis=1) if operator != "ConvInteger" else kernel.sum(axis=(0, 1, 2))
    if operator == "QLinearMatMul":
        np.testing.assert_allclose(found, np.broadcast_to(expected, (2, 3)), rtol=1e-4)
    else:  # the largest and the smallest element also move the scale
        inner = (X.min() < X) & (X.max() > X)
        np.testing.assert_allclose(found[inner], np.broadcast_to(expected, (2, 3))[inner], rtol=1e-4, atol=1e-5)
