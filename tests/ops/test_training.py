"""Optimizers against their equations, written in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.training import Adagrad, Adam, Gradient, Momentum

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # Adam's unused branch divides by zero at step 0


def tensors(kinds: int, count: int = 2) -> list[Any]:
    generator = np.random.default_rng(12)
    shapes = [(3,), (2, 4)][:count]
    return [np.abs(generator.standard_normal(shape)).astype(np.float64) for _ in range(kinds) for shape in shapes]


RATE = np.array(0.1, np.float32)


@pytest.mark.parametrize("step", [0, 1, 5])
def test_adagrad(step: int) -> None:
    inputs = tensors(3)
    results = Adagrad(decay_factor=0.25, norm_coefficient=0.375, epsilon=2**-9).reference(RATE, np.array(step), *inputs)
    for i in range(2):
        x, g, h = inputs[i], inputs[i + 2], inputs[i + 4]
        g = 0.375 * x + g
        h = h + g * g
        np.testing.assert_allclose(results[i], x - float(RATE) / (1 + step * 0.25) * g / (np.sqrt(h) + 2**-9))
        np.testing.assert_allclose(results[i + 2], h)


@pytest.mark.parametrize("step", [0, 1, 5])
def test_adam(step: int) -> None:
    inputs = tensors(4)
    op = Adam(alpha=0.75, beta=0.625, norm_coefficient=0.125, norm_coefficient_post=0.25, epsilon=2**-9)
    results = op.reference(RATE, np.array(step), *inputs)
    rate = float(RATE) * (np.sqrt(1 - 0.625**step) / (1 - 0.75**step) if step else 1)
    for i in range(2):
        x, g, v, h = inputs[i], inputs[i + 2], inputs[i + 4], inputs[i + 6]
        g = 0.125 * x + g
        v, h = 0.75 * v + 0.25 * g, 0.625 * h + 0.375 * g * g
        np.testing.assert_allclose(results[i], 0.75 * (x - rate * v / (np.sqrt(h) + 2**-9)))
        np.testing.assert_allclose(results[i + 2], v)
        np.testing.assert_allclose(results[i + 4], h)


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
@pytest.mark.parametrize("step", [0, 3])
def test_momentum(mode: str, step: int) -> None:
    inputs = tensors(3)
    op = Momentum(alpha=0.875, beta=0.5, mode=mode, norm_coefficient=0.125)
    results = op.reference(RATE, np.array(step), *inputs)
    for i in range(2):
        x, g, v = inputs[i], inputs[i + 2], inputs[i + 4]
        g = 0.125 * x + g
        v = 0.875 * v + (0.5 if step else 1) * g
        np.testing.assert_allclose(results[i], x - float(RATE) * (v if mode == "standard" else g + 0.875 * v))
        np.testing.assert_allclose(results[i + 2], v)


def test_wrong_operands() -> None:
    b = Builder(Graph())
    rate, step = (b.graph.add_input("r", TensorType(dtype, ())) for dtype in (FLOAT32, INT64))
    x = b.graph.add_input("x", TensorType(FLOAT32, (3,)))
    with pytest.raises(ShapeError, match="a multiple of 4"):
        b.apply(Adam, rate, step, x, x, x)
    with pytest.raises(ShapeError, match="mode is 'fast'"):
        b.apply(Momentum, rate, step, x, x, x, alpha=0.9, beta=0.5, mode="fast", norm_coefficient=0.0)
    with pytest.raises(ShapeError, match="T is float32"):
        b.apply(Adagrad, rate, rate, x, x, x)


def test_gradient_has_the_types_of_what_it_differentiates_by() -> None:
    b = Builder(Graph())
    x, z = (b.graph.add_input("x", TensorType(FLOAT32, shape)) for shape in ((3,), (4,)))
    assert b.apply(Gradient, x, z, xs=("x",), zs=("z",), y="y").shape == (3,)
    with pytest.raises(ShapeError, match="2 inputs for the 1"):
        b.apply(Gradient, x, z, xs=("x",), y="y")
