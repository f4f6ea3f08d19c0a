"""`intaglio.tools.profile` and `intaglio profile`: rows that add up, limits, traces, pages, and two profiles."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from intaglio.errors import InputError
from intaglio.runtime.model.loading import load
from intaglio.targets.c.limits import machine_limits
from intaglio.targets.c.target import host_target
from intaglio.tools import profile, read_profile
from intaglio.tools.profiling import Profile

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n, 256] x, float[256, 256] w) => (float[n, 256] z) {
    y = MatMul (x, w)
    t = Softmax <axis = 1> (y)
    u = MatMul (t, w)
    z = Relu (u)
}
"""


@pytest.fixture(scope="module")
def made() -> Profile:
    return profile(onnx.parser.parse_model(TEXT), runs=10, dims={"n": 512}, threads=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "m<b>.onnx"
    found.write_bytes(onnx.parser.parse_model(TEXT).SerializeToString())
    return found


def test_rows_are_nearly_all_of_the_run(made: Profile) -> None:
    assert len(made.run_seconds) == 10
    assert 0.0 < made.counted <= 1.0  # how much of it is a matter of the machine: docs/profiling.md
    product = max(made.rows, key=lambda row: row.flops or 0)
    assert product.flops == 2 * 512 * 256 * 256
    assert product.calls == 1
    assert product.flops_per_second == pytest.approx(product.flops / product.best)
    assert 0 < product.best <= product.seconds
    assert product.efficiency is not None
    assert product.efficiency > 0
    assert made.slowest[0].seconds == max(row.seconds for row in made.rows)
    assert "the rows add up to" in str(made)
    assert "MatMul" in str(made)


def test_limits_are_measured_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    first = machine_limits(host_target(), 1)
    monkeypatch.setattr("intaglio.targets.c.limits._flops", lambda target, threads: pytest.fail("measured again"))
    assert machine_limits(host_target(), 1) == first
    assert first.flops > 1e8
    assert first.bandwidth > 1e8
    assert first.least_seconds(int(first.flops), 0) == pytest.approx(1)
    assert first.least_seconds(0, int(2 * first.bandwidth)) == pytest.approx(2)


def test_inputs_are_taken_and_models_too() -> None:
    model = load(onnx.parser.parse_model(TEXT), threads=1)
    x = np.ones((3, 256), np.float32)
    found = profile(model, {"x": x}, 2, has_limits=False)
    assert found.inputs["x"] == "(3, 256)"
    assert found.peak_flops is None
    assert all(row.efficiency is None for row in found.rows)
    with pytest.raises(InputError, match="runs=0"):
        profile(model, {"x": x}, 0)
    with pytest.raises(InputError, match="threads cannot be obeyed"):
        profile(model, {"x": x}, threads=2)


def test_data_comes_back(made: Profile, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(made.to_json())
    back = read_profile(tmp_path / "p.json")
    assert back.rows == made.rows
    assert back.run_seconds == made.run_seconds
    for text in ("{}", "[", '{"format": 99}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InputError, match=r"is no profile"):
            read_profile(tmp_path / "bad.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_profile(tmp_path / "none.json")


def test_a_trace_has_an_event_for_each_call(made: Profile) -> None:
    events = json.loads(made.trace())["traceEvents"]
    kernels = [row for row in made.rows if row.kind == "kernel"]
    assert len(events) == 10 * len(kernels)
    for event in events:
        assert {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} <= event.keys()
        assert event["ph"] == "X"
        assert event["ts"] >= 0
    total = sum(event["dur"] for event in events) / 1e6 / 10
    assert total == pytest.approx(sum(row.seconds for row in kernels), rel=0.02)


def test_two_profiles_side_by_side(made: Profile) -> None:
    rows = made.against(made)
    assert rows[0][2:] == ("1.00", "run", "all together")
    assert len(rows) == len(made.rows) + 1
    other = Profile("other", "c", 1, (1.0,), made.rows[1:])
    assert sum(row[0] == "" for row in made.against(other)) == 1
    assert sum(row[1] == "" for row in other.against(made)) == 1


def test_a_page_needs_nothing_else_and_escapes_names(made: Profile) -> None:
    named = Profile(**{**made.__dict__, "name": "<script>alert(1)</script>"})
    text = named.html(made)
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert text.count("<svg") == 2
    assert "Compared with the profile before" in text
    assert made._repr_html_().startswith("<table")


def run(*arguments: Any, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "intaglio", "profile", *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode == status, found.stderr
    return found


def test_the_command_writes_what_it_is_asked_for(path: Path, tmp_path: Path) -> None:
    before, trace, page = tmp_path / "p.json", tmp_path / "t.json", tmp_path / "p.html"
    table = run(path, "-d", "n=64", "--runs", 3, "-o", before, "--trace", trace, "--html", page).stdout
    assert "Where the time goes" in table
    assert "add up to" in table
    assert json.loads(trace.read_text())["traceEvents"]
    assert page.read_text().startswith("<!doctype html>")
    compared = run(path, "-d", "n=64", "--runs", 2, "--against", before).stdout
    assert "Before and now" in compared
    data = json.loads(run(path, "-d", "n=64", "--runs", 2, "--json").stdout)
    assert {"rows", "counted", "run_seconds", "seconds"} <= data.keys()


def test_wrong_usage_is_told(path: Path, tmp_path: Path) -> None:
    assert "standard output" in run(path, "--json", "-o", "-", status=2).stderr
    assert "same name" in run(path, "-o", "a", "--html", "a", status=2).stderr
    assert "cannot be read" in run(path, "--against", tmp_path / "none.json", status=1).stderr
