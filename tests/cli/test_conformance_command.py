"""`intaglio conformance`: what it counts, what it writes, and what a backend that misbehaves comes to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import defs

from intaglio.conformance import suite

FEW = "^test_(relu|lrn|bernoulli|sequence_insert_at_back|string_concat)_cpu$"

TOTAL = len(defs.get_all_schemas())

BACKEND = """
import os, time
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt
from intaglio.backend import IntaglioBackend

class Right(IntaglioBackend):
    engine = "reference"

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"

def is_relu(model):
    return model.graph.node[0].op_type == "Relu"

def prepare(model, device="CPU", **options):
    rep = Right.prepare(model, device, **options)
    if is_relu(model):
        MISBEHAVE
    return rep
"""


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A module that is a backend like ours, but for what it does with Relu."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, misbehaviour: str, more: str = "") -> str:
        source = BACKEND.replace("MISBEHAVE", misbehaviour)
        (tmp_path / f"{name}.py").write_text(source + more, encoding="utf-8")
        return name

    return write


@pytest.mark.parametrize("jobs", [1, 2])
def test_both_engines(cli, jobs: int) -> None:
    result = cli("conformance", "--engine", "both", "--filter", FEW, "--jobs", jobs)
    assert result.status == 0, result.out + result.err
    for engine in ("native", "reference"):
        assert f"{engine} engine: 4 passed, 0 failed, 0 declined, 1 random, 5 in total" in result.out
    assert f"Operators (passed/loaded/total): 4/5/{TOTAL}" in result.out
    assert "│ LRN            │ alpha: 1        │" in result.out
    assert "│ Relu           │ No attributes   │" in result.out
    assert "Passed with no host node: 2" in result.out
    assert "native engine: compiling" in result.err
    assert "ULP" in result.out


def test_json_on_standard_output(cli) -> None:
    result = cli("conformance", "--json", "--filter", "^test_(gelu_tanh_1|relu|bernoulli)_cpu$")
    (report,) = json.loads(result.out)["reports"]
    assert report["subject"] == "native engine"
    assert report["tests"] == {"passed": 2, "failed": 0, "declined": 0, "random": 1, "total": 3}
    assert report["passed_without_host_nodes"] == 2
    assert report["operators"] == {"passed": 2, "loaded": 3, "total": TOTAL}
    assert report["by_operator"]["Gelu"]["attributes"] == {"approximate": 1}
    assert report["by_operator"]["Gelu"]["worst"]["ulp"] >= 0
    assert [entry["outcome"] for entry in report["not_passed"]] == ["random"]


def test_files(cli, tmp_path: Path) -> None:
    data, page = tmp_path / "report.json", tmp_path / "report.md"
    arguments = ("--filter", FEW, "--engine", "reference", "--no-table", "--json", data, "--markdown", page)
    result = cli("conformance", *arguments)
    assert result.status == 0
    assert "│" not in result.out
    assert json.loads(data.read_text())["reports"][0]["passed_without_host_nodes"] is None
    assert "| Tests (passed/failed/total) | 4/0/5 |" in page.read_text()
    assert "| LRN | 1 | 1 | alpha: 1, beta: 1, bias: 1, size: 1 |" in page.read_text()
    assert "### Random\n\n| test | reason |\n|---|---|\n| `test_bernoulli_cpu` |" in page.read_text()
    assert cli("conformance", "--filter", FEW, "--engine", "reference", "--json", tmp_path / "no" / "file").status == 1


def test_another_backend(cli) -> None:
    result = cli("conformance", "--backend", "onnxruntime.backend", "--filter", "^test_(relu|lrn)_cpu$")
    assert result.status == 0, result.out
    assert "onnxruntime.backend: 2 passed" in result.out
    assert "host node" not in result.out
    ours = cli("conformance", "--backend", "intaglio.backend.IntaglioBackend", "--filter", "^test_(relu|lrn)_cpu$")
    assert "IntaglioBackend: 2 passed" in ours.out


@pytest.mark.parametrize(
    ("misbehaviour", "outcome", "reason"),
    [
        ("raise BackendIsNotSupposedToImplementIt('no Relu here')", "declined", "declined: no Relu here"),
        ("raise ValueError('no Relu here')", "failed", "ValueError: no Relu here"),
        ("rep.run = lambda inputs: [inputs[0]]", "failed", "wrong result: Mismatched elements"),
        ("rep.run = lambda inputs: [inputs[0].astype(float)]", "failed", "wrong result"),
        ("rep.run = lambda inputs: []", "failed", "wrong result: 0 values, expected 1"),
        ("return None", "failed", "wrong result: the backend prepared nothing"),
    ],
)
def test_no_test_opts_out(cli, backend, misbehaviour: str, outcome: str, reason: str) -> None:
    name = backend(f"backend_{abs(hash(misbehaviour))}", misbehaviour)
    result = cli("conformance", "--backend", name, "--filter", "^test_(relu|lrn)_cpu$", "--json")
    assert result.status == 1
    (report,) = json.loads(result.out)["reports"]
    assert report["tests"] == {"passed": 1, "failed": 0, "declined": 0, "random": 0, "total": 2} | {outcome: 1}
    (entry,) = report["not_passed"]
    assert entry["test"] == "test_relu_cpu"
    assert entry["outcome"] == outcome
    assert entry["reason"].startswith(reason)


def test_incompatible_models_are_declined(cli, backend) -> None:
    name = backend("backend_choosy", "pass", "\ndef is_compatible(model, **options):\n    return False\n")
    result = cli("conformance", "--backend", name, "--filter", "^test_(operator_exp|relu)_cpu$", "--no-table")
    assert result.status == 1
    assert "1 passed, 0 failed, 1 declined" in result.out
    assert "declined: test_operator_exp_cpu: declined: Not compatible with backend" in result.out


def test_random_tests_must_still_have_right_types(cli, backend) -> None:
    name = backend("backend_random", "pass", "\ndef is_relu(model):\n    return True\n")
    path = Path(sys.path[0]) / f"{name}.py"
    path.write_text(path.read_text().replace("pass", "rep.run = lambda inputs: [inputs[0].astype('float16')]"))
    result = cli("conformance", "--backend", name, "--filter", "^test_bernoulli_cpu$", "--no-table")
    assert result.status == 1
    assert "0 passed, 1 failed, 0 declined, 0 random" in result.out


def test_a_process_that_dies_fails_one_test(cli, backend) -> None:
    name = backend("backend_deadly", "os.kill(os.getpid(), 9)")
    result = cli(
        "conformance", "--backend", name, "--filter", "^test_(relu|lrn|abs|neg)_cpu$", "--jobs", 2, "--no-table"
    )
    assert result.status == 1
    assert "3 passed, 1 failed" in result.out
    assert "failed: test_relu_cpu: the process died: signal 9 (Killed)" in result.out


@pytest.mark.parametrize("jobs", [1, 2])
def test_output_of_a_backend_does_not_mix_with_data(cli, backend, jobs: int) -> None:
    name = backend(f"backend_loud_{jobs}", "print('loud')")
    result = cli("conformance", "--backend", name, "--filter", "^test_(relu|lrn)_cpu$", "--jobs", jobs, "--json")
    assert json.loads(result.out)["reports"][0]["tests"]["passed"] == 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_backend_that_is_none_is_one_message(cli, backend, jobs: int) -> None:
    for name, words in (("no_such_module", "cannot be imported"), ("json", "is no ONNX backend")):
        result = cli("conformance", "--backend", name, "--filter", "^test_relu_cpu$", "--jobs", jobs)
        assert result.status == 1
        assert words in result.err
        assert "Traceback" not in result.err


def test_filters_that_match_nothing_or_are_no_patterns(cli) -> None:
    result = cli("conformance", "--filter", "no such test")
    assert result.status == 1
    assert "matches 'no such test'" in result.err
    assert cli("conformance", "--filter", "(").status == 2
    assert cli("conformance", "--engine", "frobnicate").status == 2


def test_support_table(cli, tmp_path: Path) -> None:
    result = cli("conformance", "--support", tmp_path / "support.md")
    assert result.status == 0
    assert "| Relu | *1*, 6, 13, 14 | yes | compiled |" in (tmp_path / "support.md").read_text()


def test_the_home_folder_is_left_alone(cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ONNX_HOME", raising=False)
    result = cli("conformance", "--engine", "reference", "--filter", "^test_squeezenet_cpu$", "--no-table")
    assert result.status == 0, result.out
    assert "1 passed" in result.out
    assert list(tmp_path.iterdir()) == []
    assert "ONNX_HOME" not in os.environ


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c(backend, tmp_path: Path, jobs: int) -> None:
    name = backend(f"backend_slow_{jobs}", "print('sleeping', flush=True); time.sleep(600)")
    command = [sys.executable, "-m", "intaglio", "conformance", "--backend", name, "--jobs", str(jobs)]
    with subprocess.Popen(
        [*command, "--filter", "^test_(lrn|relu)_cpu$"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        while "sleeping" not in (line := process.stderr.readline()):
            assert line, "it ended before it was interrupted"
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(timeout=60) == 130
    assert "Traceback" not in rest
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_every_test_of_the_suite_is_there() -> None:
    assert len(suite.cases()) >= 2033


CASES = """
import os, subprocess, time
from pathlib import Path
from intaglio.conformance.result import Result
from tests.emit.models import FEEDS, MODELS

class Given:
    def __init__(self, name):
        self.name = name

    def model(self):
        return MODELS["shapes"]()

    def run(self, subject):
        Path(f"{self.name}.ran").touch()
        if self.name == "slow":
            child = subprocess.Popen(["sleep", "600"])
            Path("child").write_text(str(child.pid))
            child.wait()
        if self.name == "quick":
            return Result(self.name, "passed"), None
        found = subject.prepare(self.model()).run(FEEDS["shapes"])
        return Result(self.name, "passed", f"{len(found)} outputs"), None

def cases():
    return {name: Given(name) for name in ("one", "quick", "slow", "two")}
"""


@pytest.fixture
def given_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with four cases, of which one takes ten minutes."""
    name = f"cases_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(CASES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return name


def test_cases_of_a_module_go_on_where_they_were(cli, given_cases: str) -> None:
    command = ("conformance", "--export", "python", "--cases", given_cases, "--keep", "kept.jsonl")
    assert cli(*command, "--filter", "one").status == 0
    Path("one.ran").unlink()
    result = cli(*command, "--filter", "one|two")
    assert result.status == 0, result.err
    assert "python         2        2      2" in result.out
    assert not Path("one.ran").exists()
    assert Path("two.ran").exists()
    lines = Path("kept.jsonl").read_text().splitlines()
    Path("kept.jsonl").write_text("\n".join(line.replace('"passed"', '"failed"') for line in lines) + "\n")
    result = cli(*command, "--filter", "one|two")
    assert result.status == 1
    assert "python: two: 1 outputs" in result.out
    Path("kept.jsonl").write_text("[]\n")
    assert "a line that is no result" in cli(*command, "--filter", "one").err


def test_a_test_that_takes_too_long_is_ended_with_all_that_it_started(cli, given_cases: str) -> None:
    result = cli(
        "conformance", "--export", "python", "--cases", given_cases, "--filter", "slow|quick", "--time-limit", 3
    )
    assert result.status == 1
    assert "python: slow: the time limit of 3 s has passed" in result.out
    assert "python         1        2      2" in result.out
    child = Path("/proc") / Path("child").read_text() / "stat"
    assert not child.exists() or ") Z " in child.read_text()  # nobody may have asked what came of it


def test_cases_that_are_none(cli) -> None:
    assert cli("conformance", "--cases", "bench.exported").status == 2
    assert cli("conformance", "--keep", "kept.jsonl").status == 2
    for module in ("json", "no_such_module"):
        result = cli("conformance", "--export", "python", "--cases", module)
        assert result.status == 1
        assert f"{module!r} has no cases" in result.err
