"""The command line called in this process, and models for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx.parser
import pytest

from intaglio.cli import main
from intaglio.cli.demo_model import demo_model


@dataclass(frozen=True)
class Result:
    """What a command left: its exit status, and what it wrote."""

    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("COLUMNS", "160")  # pytest-xdist sets a narrow one, which would fold what the tests look for

    def run(*arguments: object) -> Result:
        monkeypatch.setattr("sys.argv", ["intaglio", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main()
        written = capsys.readouterr()
        return Result(int(exit.value.code or 0), written.out, written.err)

    return run


@pytest.fixture
def demo_path(tmp_path: Path) -> Path:
    path = tmp_path / "demo.onnx"
    path.write_bytes(demo_model().SerializeToString())
    return path


@pytest.fixture
def save(tmp_path: Path) -> Callable[[str], Path]:
    """Save a model given in ONNX's text form."""

    def write(text: str) -> Path:
        path = tmp_path / "model.onnx"
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 5]> {text}')
        path.write_bytes(model.SerializeToString())
        return path

    return write
