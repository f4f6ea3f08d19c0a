"""Det compiled, against the reference and NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes  # pyright: ignore[reportMissingImports]
import numpy as np
import pytest

from intaglio.errors import IntaglioError, OperatorError
from intaglio.runtime.model.loading import load

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_batches(make_model: Any, judge: Any, dtype: Any) -> None:
    given = make_model("Det", {"x": (dtype, ["n", "m", "m"])}, outputs=[("y", dtype)], opset=22)
    shapes = [(3, 1, 1), (2, 2, 2), (4, 3, 3), (0, 3, 3), (2, 0, 0)]
    judge(given, [{"x": RNG.integers(-3, 4, shape).astype(dtype)} for shape in shapes], ort=False, exact=False)


@pytest.mark.parametrize("side", [5, 17, 40])
def test_against_numpy(make_model: Any, side: int) -> None:
    x = RNG.standard_normal((3, 2, side, side))
    given = make_model("Det", {"x": (np.float64, ["a", "b", "m", "m"])}, outputs=[("y", np.float64)], opset=22)
    got = load(given, engine="native", strict=True).run({"x": x})["y"]
    np.testing.assert_allclose(got, np.linalg.det(x), rtol=1e-10)


def test_by_onnx_runtime(make_model: Any, judge: Any) -> None:
    given = make_model("Det", {"x": (np.float32, ["n", "m", "m"])}, opset=11)
    judge(given, [{"x": RNG.integers(-4, 5, (5, side, side)).astype(np.float32)} for side in (2, 3, 4)], exact=False)


def test_singular_and_special_matrices(make_model: Any) -> None:
    native = load(make_model("Det", {"x": (np.float32, ["n", "m", "m"])}), engine="native", strict=True)
    x = np.stack([np.ones((3, 3)), np.zeros((3, 3)), np.eye(3)[[1, 0, 2]], np.diag([1e-30, 1e-30, 1e30])])
    x[1, 0, 0] = np.nan
    got = native.run({"x": x.astype(np.float32)})["y"]
    assert got[0] == 0
    assert np.isnan(got[1])
    assert got[2] == -1
    np.testing.assert_allclose(got[3], 1e-30, rtol=1e-6)


def test_sides_that_differ(make_model: Any) -> None:
    native = load(make_model("Det", {"x": (np.float32, ["m", "k"])}), engine="native", strict=True)
    with pytest.raises((IntaglioError, np.linalg.LinAlgError)):
        native.run({"x": np.zeros((2, 3), np.float32)})


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_inverses(make_model: Any, dtype: Any) -> None:
    given = make_model("Inverse", {"x": (dtype, ["n", "m", "m"])}, {"domain": "com.microsoft"}, outputs=[("y", dtype)])
    given.opset_import.add(domain="com.microsoft", version=1)
    native = load(given, engine="native", strict=True)
    for side in (1, 2, 5, 12):
        x = (RNG.integers(-3, 4, (3, side, side)) + 8 * np.eye(side)[::-1]).astype(dtype)
        tolerance = 2e-3 if dtype == np.float16 else 1e-5
        np.testing.assert_allclose(native(x), np.linalg.inv(x.astype(np.float64)), rtol=tolerance, atol=tolerance)
    assert native(np.zeros((0, 3, 3), dtype)).shape == (0, 3, 3)
    with pytest.raises(OperatorError, match=r"Inverse.*no inverse"):
        native(np.ones((1, 2, 2), dtype))
