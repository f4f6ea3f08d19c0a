"""Gradients of Resize by its region and scales: where there is none, that is said, and only if it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops
from intaglio.errors import UnsupportedError

X = np.random.default_rng(0).standard_normal((1, 2, 6, 7)).astype(np.float32)
ROI = np.array([0.11, 0.23, 0.83, 0.87], np.float32)


def cropped(**named: Any) -> Any:
    with intaglio.build("cropped", inputs={"x": "float32[1, 2, 6, 7]", "roi": "float32[4]"}) as g:
        how: dict[str, Any] = {"axes": (2, 3), "coordinate_transformation_mode": "tf_crop_and_resize"}
        g.output(y=ops.Resize(g["x"], g["roi"], None, [4, 5], **how, **named))
    return g.graph


@pytest.mark.parametrize("named", [{"mode": "cubic"}, {"mode": "linear", "antialias": 1}])
def test_other_interpolations_have_no_gradient_by_the_region(named: Any) -> None:
    graph = cropped(**named)
    assert np.abs(intaglio.grad(graph, wrt="x")(X, ROI)).max() > 0
    with pytest.raises(UnsupportedError, match="by the region is known for linear interpolation only"):
        intaglio.grad(graph, wrt=["x", "roi"])


def test_what_is_nearest_changes_in_steps() -> None:
    assert not intaglio.grad(cropped(mode="nearest"), wrt="roi")(X, ROI).any()


def test_both_gradients_agree_with_those_of_a_constant_region() -> None:
    with intaglio.build("fixed", inputs={"x": "float32[1, 2, 6, 7]"}) as g:
        how: dict[str, Any] = {"axes": (2, 3), "coordinate_transformation_mode": "tf_crop_and_resize"}
        g.output(y=ops.Resize(g["x"], g.constant(ROI, "roi"), None, [4, 5], mode="linear", **how))
    expected = intaglio.grad(g.graph, wrt="x")(X)
    for engine in ("reference", "native"):
        found, by_roi = intaglio.grad(cropped(mode="linear"), wrt=["x", "roi"], engine=engine)(X, ROI)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        assert np.abs(by_roi).min() > 0


def test_scales_have_no_gradient() -> None:
    with intaglio.build("scaled", inputs={"x": "float32[1, 2, 6, 7]", "scales": "float32[4]"}) as g:
        g.output(y=ops.Resize(g["x"], None, g["scales"], mode="linear"))
    assert np.abs(intaglio.grad(g.graph, wrt="x")(X, np.array([1, 1, 2, 2], np.float32))).max() > 0
    with pytest.raises(UnsupportedError, match="no gradient by its scales"):
        intaglio.grad(g.graph)
