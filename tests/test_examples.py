"""The examples of gradients and training run, and find what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["adversarial", "fine_tune", "mlp_from_scratch", "ode_parameter"])
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 40
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out
