"""The models of the benchmark as cases of exported source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from bench.exported import BenchCase, cases
from bench.models import BenchModel, select
from tests.emit.models import MODELS

from intaglio.conformance.exported import export_subject


def given(tmp_path: Path, tolerance: float = 1e-4) -> BenchCase:
    def write(path: Path) -> None:
        onnx.save(MODELS["convolution"](), path)

    def feeds(batch: int) -> dict[str, np.ndarray]:
        return {"image": np.random.default_rng(7).standard_normal((batch, 3, 8, 8), dtype=np.float32)}

    return BenchCase(BenchModel("small", "generated", "", write, feeds, tolerance))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTAGLIO_BENCH_MODELS", str(tmp_path))


def test_every_model_of_the_race_is_a_case() -> None:
    assert list(cases()) == [model.name for model in select([])]


@pytest.mark.parametrize("language", ["python", "c:readable", "onnx"])
def test_what_is_exported_is_compared(language: str, tmp_path: Path) -> None:
    result, error = given(tmp_path).run(export_subject(language))
    assert error is None, result.reason
    assert result.outcome == "passed"
    assert result.reason.startswith("error ")


def test_a_wrong_answer_and_a_refusal_are_results(tmp_path: Path) -> None:
    result, error = given(tmp_path, -1.0).run(export_subject("python"))
    assert (result.outcome, type(error)) == ("failed", AssertionError)
    assert "expected at most" in result.reason
    result, _ = given(tmp_path).run(export_subject("cobol"))
    assert result.outcome == "failed"
    assert "there is no language 'cobol'" in result.reason
