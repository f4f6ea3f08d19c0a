"""The check of all models at many sizes: on tiny models, right and wrong."""

import doctest
import re
from dataclasses import replace
from pathlib import Path

import bench.check
import numpy as np
import onnx
import pytest
from bench.__main__ import main
from bench.check import BATCH, ENGINES, Found, cases, check_model, open_axes, resized, table
from bench.models import BenchModel, select
from onnx import TensorProto, helper

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def quiet(text: str) -> None:
    pass


def write_flat(path: Path, shape: list[str]) -> None:
    """relu(x) * 2, then rows of 4, so that only some lengths fit."""
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("Mul", ["positive", "two"], ["doubled"]),
        helper.make_node("Reshape", ["doubled", "rows"], ["y"]),
    ]
    two = helper.make_tensor("two", TensorProto.FLOAT, [], [2.0])
    rows = helper.make_tensor("rows", TensorProto.INT64, [2], [-1, 4])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 4])
    graph = helper.make_graph(nodes, "flat", [x], [y], [two, rows])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def flat(name: str, tolerance: float = 1e-6) -> BenchModel:
    def feeds(batch: int) -> dict[str, np.ndarray]:
        return {"x": np.random.default_rng(1).standard_normal((batch, 8), np.float32)}

    return BenchModel(name, "generated", "", lambda path: write_flat(path, ["batch", "length"]), feeds, tolerance)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTAGLIO_BENCH_MODELS", str(tmp_path))
    return tmp_path


def test_the_page_has_a_row_for_every_model_and_all_its_columns() -> None:
    text = PAGE.read_text()
    names = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    assert names[2:] == [model.name for model in select([])]
    assert all(f"- **{title}** " in text for title in table([])[0][1:])


def test_doctests() -> None:
    assert doctest.testmod(bench.check).failed == 0


def test_axes_that_grow_with_the_batch_are_the_batch() -> None:
    model = flat("any")
    assert open_axes(model, {"x": ["n", "length"]}) == {BATCH: [("x", 0)], "length": [("x", 1)]}
    assert open_axes(model, {"x": [None, None]}) == {BATCH: [("x", 0)], "x[1]": [("x", 1)]}
    assert open_axes(model, {"x": [1, 8]}) == {}
    assert open_axes(replace(model, fixed=(("x", 1),)), {"x": ["n", "length"]}) == {BATCH: [("x", 0)]}


def test_cases_begin_with_the_usual_one_and_stay_small() -> None:
    found = list(cases({BATCH: 1, "length": 8}, 50))
    assert found[0] == {BATCH: 1, "length": 8}
    assert len(found) == 5 + 2 + 50
    assert all(case[BATCH] * case["length"] <= 8 * 8 or case[BATCH] == 1 for case in found[7:])
    assert len({tuple(case.values()) for case in found[7:]}) > 20
    assert list(cases({}, 5)) == [{}]


def test_inputs_of_other_sizes_hold_different_samples() -> None:
    model, axes = flat("any"), {BATCH: [("x", 0)], "length": [("x", 1)]}
    x = resized(model, axes, {BATCH: 3, "length": 20})["x"]
    assert x.shape == (3, 20)
    np.testing.assert_array_equal(x[0], np.take(model.feeds(3)["x"][0], np.arange(20) % 8))
    same = BenchModel("same", "", "", model.write, lambda batch: {"x": np.tile(np.arange(8.0), (batch, 1))})
    assert len(np.unique(resized(same, axes, {BATCH: 5, "length": 8})["x"], axis=0)) == 5


def test_a_right_model_and_sizes_that_no_engine_takes(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    found = check_model(flat("flat"), ENGINES["native"], 1, 20, quiet)
    assert found.wrong == []
    assert found.failure == ""
    assert found.error == 0.0
    assert (found.host_runs, found.plans, found.unjudged) == (0, 0, 0)
    refused = [case for case in found.sizes if case[BATCH] * case["length"] % 4]
    assert found.refused == len(refused) > 0
    assert found.notes[0].startswith("refused by both at batch ")
    line = table([found])[1]
    assert line[:2] == ["flat", "batch, length"]
    assert line[2].startswith("27: batch 1 to ")
    assert line[3:] == ["0", "0", "0.0e+00", f"right, {len(refused)} refused by both"]


def test_the_command_fails_when_an_answer_is_wrong(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("bench.models.MODELS", [flat("strict", tolerance=-1.0)])
    assert main(["check", "--random", "0", "--threads", "1", "--engine", "reference"]) == 1
    printed = capsys.readouterr()
    assert "| strict | batch, length | 7: batch 1 to 8, length 4 to 40 | 0 | 0 | 0.0e+00 | wrong at 7 |" in printed.out
    assert "- strict: wrong at batch 3, length 8: error 0.0e+00, tolerance -1e+00" in printed.out
    assert "strict: Intaglio, reference engine, 7 of 7" in printed.err


def test_a_model_that_cannot_be_had_is_not_wrong(folder: Path) -> None:
    def write(path: Path) -> None:
        raise ImportError("torch")

    found = check_model(BenchModel("absent", "torch", "", write, lambda batch: {}), ENGINES["native"], 1, 0, quiet)
    assert (found.failure, found.wrong, found.verdict) == ("ImportError: torch", [], "—")


def test_a_model_that_only_we_refuse_is_wrong() -> None:
    from bench.worker import Failed

    found = Found(flat("any"))
    found.judge({BATCH: 2}, Failed("ShapeError: no"), [np.zeros(2)])
    found.judge({BATCH: 3}, Failed("ShapeError: no"), Failed("INVALID_ARGUMENT"))
    assert found.wrong == ["batch 2: ShapeError: no"]
    assert found.verdict == "wrong at 1, 1 refused by both"


def test_command_refuses_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["check", "--models", "nothing"])
    assert exit_.value.code == 2
    assert "no benchmark model is called 'nothing'" in capsys.readouterr().err
