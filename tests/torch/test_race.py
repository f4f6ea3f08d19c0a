"""The race of torch.compile: what counts as right, what has a ratio, and how a stopped race goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from bench.torch_compile import Book, is_right, means, ratios, table  # noqa: E402
from bench.torch_worker import difference  # noqa: E402


def found(call: float, outputs: float = 0.0, gradients: float = 0.0) -> dict[str, Any]:
    return {"first": 2 * call, "call": call, "outputs": outputs, "gradients": gradients}


def row(mine: Any, theirs: Any, eager: Any = None) -> dict[str, Any]:
    return {"eager": eager or found(3.0), "inductor": theirs, "intaglio": mine}


def test_differences_are_relative_to_each_tensor() -> None:
    large, small = torch.full((3,), 100.0), torch.full((2,), 5.0)
    assert difference([large, small], [large, small]) == 0
    assert difference([large + 1, small], [large, small]) == pytest.approx(0.01)
    assert difference([large, small + 0.5], [large, small]) == pytest.approx(0.1)


def test_what_is_all_rounding_is_compared_with_the_largest() -> None:
    large, nothing = torch.full((3,), 1000.0), torch.zeros(2)
    assert difference([large, nothing + 1e-4], [large, nothing]) == pytest.approx(1e-5)


@pytest.mark.parametrize("wrong", [[None], [torch.tensor([1.0, torch.nan])], [torch.tensor([torch.inf, 1.0])]])
def test_nothing_and_no_numbers_are_far_away(wrong: list[Any]) -> None:
    assert difference(wrong, [torch.ones(2)]) == float("inf")


def test_a_row_that_differs_has_no_ratio() -> None:
    assert ratios(row(found(1.0), found(2.0))) == (0.5, 0.5)
    for wrong in (found(1.0, outputs=2e-4), found(1.0, gradients=2e-4), {"error": "ended"}):
        assert ratios(row(wrong, found(2.0))) is None
        assert ratios(row(found(2.0), wrong)) is None
    rough = found(3.0, gradients=1.5e-4)
    assert is_right("intaglio", row(found(1.0, gradients=2e-4), found(2.0), rough))
    assert not is_right("intaglio", row(found(1.0, outputs=2e-4), found(2.0), rough))


def test_means_and_tables_have_what_counts() -> None:
    rows = {"a": row(found(1.0), found(2.0)), "b": row(found(4.0), found(2.0)), "c": row({"error": "x"}, found(1.0))}
    assert means(rows) == "geometric means of intaglio/inductor over 2 of 3 rows: 1.00 a call, 1.00 the first call"
    assert "| a | 3.000 (6.0) | 2.000 (4.0) | 1.000 (2.0) | 0.50 (0.50) |" in table("inference", rows, is_markdown=True)
    assert "failed" in table("inference", rows)
    told = table("inference", rows | {"large-d": row(found(1.0), found(8.0))})
    assert "2 of 3 rows without the larger modules: 1.00 a call" in told
    assert "3 of 4 rows: 0.50 a call" in told
    assert means({}) == "no row has a ratio"


def test_a_race_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path, settings = str(tmp_path / "rows.json"), {"batch": 4}
    Book(path, settings).add("training/a", row(found(1.0), found(2.0)))
    again = Book(path, settings)
    assert list(again.of("training", ["b", "a"])) == ["a"]
    with pytest.raises(SystemExit, match="was made with"):
        Book(path, {"batch": 8})
