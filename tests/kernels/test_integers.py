"""Integers compiled where an operator is mostly one of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

RNG = np.random.default_rng(6)
SMALL = (np.int8, np.uint8, np.int16, np.uint16)


@pytest.mark.parametrize("dtype", [*SMALL, np.int32, np.uint32, np.int64, np.uint64])
def test_erf(make_model: Any, judge: Any, dtype: Any) -> None:
    """What is cut off is all of it but for the numbers that are rounded to 1."""
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, *range(max(int(limits.min), -9), 10)], dtype)
    judge(make_model("Erf", {"x": (dtype, ["n"])}, outputs=[("y", dtype)], opset=9), [{"x": x}], ort=False)


@pytest.mark.parametrize("dtype", SMALL)
def test_einsum(make_model: Any, judge: Any, dtype: Any) -> None:
    """Sums wrap around."""
    limits = np.iinfo(dtype)
    x, y = (RNG.integers(limits.min, limits.max + 1, shape).astype(dtype) for shape in ((2, 5, 70), (70, 4)))
    types = {"x": (dtype, ["b", "n", "k"]), "y": (dtype, ["k", "m"])}
    for equation in ("bij,jk->bik", "bij,jk->k"):
        given = make_model("Einsum", types, {"equation": equation}, outputs=[("z", dtype)])
        judge(given, [{"x": x, "y": y}], ort=False)
