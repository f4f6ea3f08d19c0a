"""`simplify`, `stats`, `make-dynamic` and `set-dtype` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.emit.models import parse

from intaglio.cli import main

TEXT = "g (float[2,3] x, float[3,4] w) => (y) { i = Identity (x)  p = MatMul (i, w)  y = Relu (p) }"


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "in.onnx"
    onnx.save(parse(TEXT.replace("float[3,4] w", "float[3,4] v").replace("(i, w)", "(i, v)")), path)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    status, out, err = run(capsys, *arguments, "--json")
    assert status == 0, err
    return json.loads(out)


def test_simplify(capsys: pytest.CaptureFixture[str], model: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.onnx")
    found = data(capsys, "simplify", model, out, "--check", "1")
    assert (found["before"]["nodes"], found["after"]["nodes"], found["files"]) == (3, 2, [out])
    status, text, _ = run(capsys, "simplify", model, "-o", out, "--skip-optimization")
    assert status == 0
    assert "Before and after" in text
    names = [each["name"] for each in data(capsys, "simplify", "--list")["passes"]]
    assert {"fold-affine", "compact", "dead-code"} <= set(names)


@pytest.mark.parametrize(("option", "remedy"), [("--dtype=fp16", "set-dtype"), ("--inputs=x", "intaglio extract")])
def test_what_is_done_elsewhere_is_told(
    capsys: pytest.CaptureFixture[str], model: str, option: str, remedy: str
) -> None:
    status, _, err = run(capsys, "simplify", model, "out.onnx", option)
    assert (status, remedy in err) == (2, True)


def test_stats(capsys: pytest.CaptureFixture[str], model: str) -> None:
    assert data(capsys, "stats", model)["total"]["macs"] == 24
    assert data(capsys, "stats", model, "--shape", "x:5,3")["total"]["macs"] == 60
    status, text, _ = run(capsys, "stats", model, "--by", "node")
    assert (status, "MatMul" in text) == (0, True)


def test_make_dynamic_and_set_dtype(capsys: pytest.CaptureFixture[str], model: str, tmp_path: Path) -> None:
    opened, half = str(tmp_path / "open.onnx"), str(tmp_path / "half.onnx")
    assert data(capsys, "make-dynamic", model, opened, "--input", "x")["opened"] == "axis 0 of x: 2 -> batch"
    assert run(capsys, "make-dynamic", opened, half)[0] == 1
    assert run(capsys, "make-dynamic", model, half, "--sizes", "a")[0] == 2
    assert data(capsys, "set-dtype", opened, half, "--to", "float16")["type"] == "float16"
    assert run(capsys, "set-dtype", opened, half, "--to", "float8")[0] == 2
