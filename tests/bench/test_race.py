import doctest
import json
import math
from pathlib import Path

import bench.race
import numpy as np
import pytest
from bench.__main__ import main
from bench.models import BenchModel, select
from bench.peers import ENGINES
from bench.race import Cell, Row, Settings, race_model, relative_error

from bench import report


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INTAGLIO_BENCH_MODELS", str(tmp_path))
    return tmp_path


def quiet(text: str) -> None:
    pass


def row_of(**cells: Cell) -> Row:
    return Row(select(["mlp"])[0], cells=cells)


def test_doctests():
    assert doctest.testmod(bench.race).failed == 0


@pytest.mark.parametrize(
    ("actual", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, np.nan], [1.0, 2.0], math.inf),
        ([1.0, 2.0], [1.0, np.inf], math.inf),
        ([1.0], [1.0, 2.0], math.inf),
        ([0.0, 0.5], [0.0, 0.0], 0.5),
        ([1, 2], [1, 4], 0.5),
        ([], [], 0.0),
    ],
)
def test_relative_error(actual, expected, error):
    assert relative_error([np.array(actual)], [np.array(expected)]) == error


def test_relative_error_of_other_types_and_counts():
    assert relative_error([np.zeros(2, np.float32)], [np.zeros(2, np.float64)]) == math.inf
    assert relative_error([np.zeros(2)], []) == math.inf
    assert relative_error([np.array(["a"])], [np.array(["b"])]) == math.inf


def test_ratio_is_above_one_when_we_are_faster():
    row = row_of(intaglio=Cell(rounds=[[1.0]], error=0.0), tract=Cell(rounds=[[3.0]], error=0.0))
    assert row.ratio("tract") == 3.0
    assert math.isnan(row.ratio("openvino"))


def test_a_wrong_answer_has_no_ratio():
    row = row_of(intaglio=Cell(rounds=[[1.0]], error=0.5), tract=Cell(rounds=[[3.0]], error=0.0))
    assert not row.is_right("intaglio")
    assert math.isnan(row.ratio("tract"))


def test_noise_is_half_the_distance_of_the_quartiles():
    assert Cell(rounds=[[1.0], [2.0], [3.0]]).noise == pytest.approx(0.25)


def test_report_of_failures_and_wrong_answers():
    wrong = row_of(intaglio=Cell(rounds=[[0.001]] * 2, error=0.5), tract=Cell(failure="TractError: no Loop"))
    missing = Row(select(["lstm"])[0], failure="ImportError: torch")
    settings = Settings(engines=("intaglio", "tract"))
    text = report.markdown([wrong, missing], settings, {"cpu": "one", "peak": 12.3456})
    assert "| mlp | 1 wrong | — | — | 5.0e-01 | 0.0% |" in text
    assert "| lstm | — | — | — | — | — |" in text
    assert "- mlp: Intaglio is wrong: error 5.0e-01, tolerance 1e-05" in text
    assert "- mlp: tract: TractError: no Loop" in text
    assert "- lstm: ImportError: torch" in text
    assert "peak: 12.35" in text
    plain = json.loads(json.dumps(report.as_json([wrong, missing], settings, {}), allow_nan=False))
    assert plain["models"][0]["engines"]["intaglio"]["right"] is False
    assert plain["geometric_mean"] == {"tract": None}


def test_a_batch_that_the_model_does_not_take():
    assert race_model(select(["zoo-squeezenet"])[0], Settings(batch=2), quiet).failure == "takes no batch above 1"


def test_race_of_onnx_runtime(cache):
    pytest.importorskip("onnxruntime")
    row = race_model(select(["mlp"])[0], Settings(engines=("onnxruntime",), rounds=2, seconds=0.01), quiet)
    cell = row.cells["onnxruntime"]
    assert cell.failure == ""
    assert cell.error < 1e-6
    assert len(cell.rounds) == 2
    assert 0 < cell.median < cell.warm
    assert cell.memory > 10 * 2**20


def test_an_engine_that_refuses_the_model_says_why(cache):
    pytest.importorskip("onnxruntime")

    def write(path: Path) -> None:
        path.write_bytes(b"\xff" * 9)

    broken = BenchModel("broken", "generated", "", write, lambda batch: {})
    cell = race_model(broken, Settings(engines=("onnxruntime",), rounds=1), quiet).cells["onnxruntime"]
    assert "InvalidProtobuf" in cell.failure
    assert math.isnan(cell.median)


def test_a_process_that_dies_is_a_failure_of_its_cell(cache, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(bench.race, "sys", type("FakeSys", (), {"executable": "/bin/false"}))
    cell = race_model(select(["mlp"])[0], Settings(engines=("onnxruntime",), rounds=1), quiet).cells["onnxruntime"]
    assert cell.failure == "the process ended with status 1"


def test_command_lists_models(capsys):
    assert main(["--list", "--models", "wheels"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [model.name for model in select(["wheels"])]


def test_command_refuses_unknown_names(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--models", "nothing"])
    assert exit_.value.code == 2
    assert "no benchmark model is called 'nothing'" in capsys.readouterr().err


def test_command_writes_both_reports(cache, capsys):
    pytest.importorskip("onnxruntime")
    files = cache / "results" / "r.json", cache / "results" / "r.md"
    arguments = ["--models", "mlp", "--engines", "onnxruntime", "--rounds", "2", "--seconds", "0.01"]
    assert main([*arguments, "--json", str(files[0]), "--markdown", str(files[1])]) == 0
    assert json.loads(files[0].read_text())["models"][0]["name"] == "mlp"
    assert "| mlp |" in files[1].read_text()
    assert "ONNX Runtime" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("model", select(["generated", "zoo"]), ids=lambda model: model.name)
def test_models_answer_with_finite_and_varied_values(model):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model.path(), providers=["CPUExecutionProvider"])
    for output in session.run(None, model.feeds(1)):
        assert np.isfinite(output).all()
        assert output.std() > 0.1 * np.abs(output).mean() > 0
        assert output.min() < 0 or output.max() < 0.99, "a saturated softmax hides differences"


def test_every_engine_has_a_title_and_a_version():
    assert all(engine.title and engine.version() for engine in ENGINES.values())
