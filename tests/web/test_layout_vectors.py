"""The page and the drawing place boxes alike: both layouts are held against the same file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from intaglio.tools.drawing.layered import Wires, layered_layout

VECTORS = Path(__file__).parents[2] / "src/intaglio/web/ui/tests/vectors/layered.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_drawing_places_boxes_where_the_page_does(case: dict[str, Any]) -> None:
    wires = Wires(
        [(begin, end) for begin, end in case["shifts"]],
        case["bundles"],
        frozenset(case["first"]),
        frozenset(case["last"]),
    )
    layout = layered_layout(
        [(width, height) for width, height in case["sizes"]], [(a, b) for a, b in case["edges"]], wires
    )
    assert layout.x == pytest.approx(case["x"], abs=1e-5)
    assert layout.y == pytest.approx(case["y"], abs=1e-5)
    assert (layout.width, layout.height) == pytest.approx((case["width"], case["height"]), abs=1e-5)
    found = [list(point) for points in layout.points for point in points]
    wanted = [point for points in case["points"] for point in points]
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a == pytest.approx(b, abs=1e-5)
