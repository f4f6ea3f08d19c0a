"""The page on starting time, memory and idle cost: its generator works, and the page has every model."""

import json
import math
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from bench.__main__ import main
from bench.footprint import idle, read_arrays, save_arrays
from bench.gemm import product_model
from bench.models import BenchModel, select
from bench.production import COLUMNS, Row, Settings, markdown_table, measure_model, page, summary, table

PAGE = Path(__file__).parents[2] / "docs" / "production.md"
ONCE = Settings(threads=1, rounds=1, cold_rounds=1, requests=3)


def quiet(text: str) -> None:
    pass


def tiny(name: str, tolerance: float = 1e-5) -> BenchModel:
    """A product of four rows by an 8 x 8 matrix."""
    weight = np.eye(8, dtype=np.float32)
    return BenchModel(
        name, "generated", "", lambda path: onnx.save(product_model(weight), path),
        lambda batch: {"x": np.ones((4, 8), np.float32)}, tolerance=tolerance,
    )  # fmt: skip


def write_noise(path: Path) -> None:
    path.write_bytes(b"\xff" * 9)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTAGLIO_BENCH_MODELS", str(tmp_path))
    return tmp_path


def first_cells(text: str) -> list[str]:
    rows = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return [name.removesuffix(" wrong") for name in rows if name not in ("model", "---")]


def test_the_page_has_a_row_for_every_model() -> None:
    assert first_cells(PAGE.read_text()) == [model.name for model in select([])]


def test_the_page_explains_every_column() -> None:
    text = PAGE.read_text()
    for title in COLUMNS:
        word = re.sub(r"^ORT | (s|ms|MiB)$", "", re.sub(r" (s|ms|MiB)$", "", title))
        assert f"**{word}** is" in text or f"**{word}** the most" in text or f"**{word}** what" in text, title


def test_all_figures_of_a_tiny_model(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    row = measure_model(tiny("tiny"), ONCE, quiet)
    assert row.notes == []
    assert not row.is_wrong
    assert all(len(row.figures[figure]) == 1 for figure in COLUMNS.values())
    assert row.median("file") > 0
    assert 0 < row.median("resident") <= row.median("peak")
    assert row.median("planned") >= 4 * 8 * 4
    text = page([row], ONCE, {"cores": 1}, "python -m bench production")
    assert first_cells(text) == ["tiny"]
    assert "cores: 1" in text
    assert "made by `python -m bench production`" in text


def test_a_wrong_answer_is_marked(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    row = measure_model(tiny("strict", tolerance=-1.0), Settings(1, 0, 1, 3), quiet)
    assert row.is_wrong
    assert row.notes == ["wrong: error 0.0e+00, tolerance -1e+00"]
    assert table([row])[1][0] == "strict wrong"


def test_a_model_that_no_engine_reads(folder: Path) -> None:
    broken = BenchModel("broken", "generated", "", write_noise, lambda batch: {})
    row = measure_model(broken, Settings(1, 0, 1, 3), quiet)
    assert [note.split(":")[0] for note in row.notes] == ["judge", "intaglio"]
    assert table([row])[1] == ["broken", *["—"] * len(COLUMNS)]


def test_a_model_that_cannot_be_had(folder: Path) -> None:
    def write(path: Path) -> None:
        raise ImportError("torch")

    row = measure_model(BenchModel("absent", "torch", "", write, lambda batch: {}), ONCE, quiet)
    assert row.notes == ["ImportError: torch"]


def test_summary_is_of_medians() -> None:
    row = Row("one", {"warm": [1.0, 9.0, 2.0], "theirs_warm": [4.0], "idle": [0.001], "theirs_idle": [0.003]})
    lines = summary([row, Row("none")])
    assert lines[0] == "warm start: ONNX Runtime / ours 2.00"
    assert lines[-1] == "idle CPU for each request, mean: ours 1.00 ms, ONNX Runtime 3.00 ms"
    assert "resident memory: ONNX Runtime / ours —" in lines
    assert math.isnan(Row("none").median("warm"))


def test_what_a_stopped_run_did_not_measure() -> None:
    rows = [Row("one", {"warm": [1.0]}), Row("two")]
    text = page(rows, ONCE, {}, "x")
    assert "- not measured, for the run was stopped before: two\n" in text
    assert first_cells(text) == ["one", "two"]


def test_markdown() -> None:
    assert markdown_table([["a", "b"], ["1", "2"]]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"


def test_arrays_of_any_name(tmp_path: Path) -> None:
    save_arrays(tmp_path / "a.npz", {"gpu_0/data": np.arange(3), "names": np.float32(2.5)})
    found = read_arrays(tmp_path / "a.npz")
    assert list(found) == ["gpu_0/data", "names"]
    assert found["names"] == 2.5
    np.testing.assert_array_equal(found["gpu_0/data"], [0, 1, 2])


def test_idle_counts_the_pauses() -> None:
    calls: list[int] = []
    assert abs(idle(lambda: calls.append(1), 3)) < 0.05
    assert len(calls) == 7  # once to see how long it takes, three with pauses, three without


def test_command_writes_the_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("bench.models.MODELS", [tiny("tiny")])
    files = folder / "out" / "page.md", folder / "out" / "all.json"
    arguments = ["production", "--rounds", "1", "--cold-rounds", "1", "--requests", "3"]
    assert main([*arguments, "--write", str(files[0]), "--json", str(files[1])]) == 0
    assert first_cells(files[0].read_text()) == ["tiny"]
    assert json.loads(files[1].read_text())["models"][0]["medians"]["cold"] > 0


def test_command_refuses_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["production", "--models", "nothing"])
    assert exit_.value.code == 2
    assert "no benchmark model is called 'nothing'" in capsys.readouterr().err
