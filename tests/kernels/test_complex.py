"""Complex numbers compiled: moved as bits, taken for pairs of real ones where they are compared, summed and mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kernels.conftest import single_node

from intaglio.runtime.model.loading import load

RNG = np.random.default_rng(12)
TYPES = (np.complex64, np.complex128)


def numbers(dtype: Any, *shape: int) -> Any:
    """Small numbers in both parts, so that sums and products are exact."""
    return (RNG.integers(-4, 5, shape) + 1j * RNG.integers(-4, 5, shape)).astype(dtype)


def check(dtype: Any, operator: str, arrays: list[Any], outputs: int = 1, **attributes: Any) -> None:
    """Run a node on both engines; the native one must need no host node."""
    names = [f"x{i}" for i in range(len(arrays))]
    shapes = {name: (array.dtype, array.shape) for name, array in zip(names, arrays, strict=True)}
    results = [(f"y{i}", dtype if i == 0 else np.int64) for i in range(outputs)]
    results = [("y0", np.int64)] if operator == "NonZero" else results
    model = single_node(operator, shapes, attributes, outputs=results)
    native, reference = load(model, engine="native", strict=True), load(model, engine="reference")
    feed = dict(zip(names, arrays, strict=True))
    for name, expected in reference.run(feed).items():
        got = native.run(feed)[name]
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", TYPES)
def test_combined_at_places(dtype: Any) -> None:
    data, updates = numbers(dtype, 5, 3), numbers(dtype, 4, 3)
    places = np.array([[0, 1, 2], [0, 1, -1], [3, 1, 2], [0, -5, 2]])
    for reduction in ("none", "add", "mul"):
        check(dtype, "ScatterElements", [data, places, updates], reduction=reduction)
        check(dtype, "ScatterND", [data, np.array([[0], [3], [0], [4]]), updates], reduction=reduction)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_unique(dtype: Any, is_sorted: int) -> None:
    """All numbers with a part that is none are one, the last; zeros are one whatever their signs."""
    parts = (1, -0.0, 0.0, np.nan, 2, np.inf, -np.inf, -1)
    x = np.array([complex(a, b) for a in parts for b in parts] * 2, dtype)
    RNG.shuffle(x)
    check(dtype, "Unique", [x], 4, sorted=is_sorted)
    check(dtype, "Unique", [np.sign(numbers(dtype, 30, 2).real).astype(dtype)], 4, sorted=is_sorted, axis=0)


@pytest.mark.parametrize("dtype", TYPES)
def test_nonzero(dtype: Any) -> None:
    x = np.array([0, -0.0, 1j, 1, complex(-0.0, -0.0), complex(0, 1e-40), np.nan, complex(0, np.nan)], dtype)
    check(dtype, "NonZero", [x.reshape(2, 4)])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resampled(dtype: Any, mode: str) -> None:
    image, grid = numbers(dtype, 2, 3, 4, 5), RNG.uniform(-1, 1, (2, 6, 3, 2)).astype(np.float32)
    check(dtype, "GridSample", [image, grid], mode=mode)
    empty, sizes = np.zeros(0, np.float32), np.array([2, 3, 9, 7])
    given = single_node(
        "Resize", {"x": (dtype, image.shape)}, {"mode": mode},
        {"roi": empty, "scales": empty, "sizes": sizes}, [("y", dtype)],
    )  # fmt: skip
    native, reference = load(given, engine="native", strict=True), load(given, engine="reference")
    np.testing.assert_allclose(native(image), reference(image), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", TYPES)
def test_blocks_put_together(dtype: Any) -> None:
    check(dtype, "Col2Im", [numbers(dtype, 2, 12, 20), np.array([5, 6]), np.array([2, 2])])
