"""Products against the peak: the table is made, checked, and says what is too slow."""

import json
from pathlib import Path

import numpy as np
import onnx.reference
import pytest
from bench.__main__ import main
from bench.gemm import Result, Shape, product_model, text_of


def test_share_of_the_peak() -> None:
    result = Result(Shape(128, 10, 10), 1, ours=1e-6, theirs=2e-6, error=0.0, peak=51.2e9, best_share=0.6)
    assert result.share == pytest.approx(0.5)
    assert result.is_below_goal
    assert not Result(Shape(16, 10, 10), 1, 1e-6, 1e-6, 0.0, 1e12, 0.1).is_below_goal
    assert result.cells() == ["128 x 10 x 10", "1", "1", "25.6", "51", "50%", "60%", "0.4", "2", "2.00", "0e+00"]
    assert "at least 128 rows: 128 x 10 x 10 on 1: 50%, at best 60%" in text_of([result], {"cores": 2})


def test_a_wrong_product_is_marked() -> None:
    assert Result(Shape(1, 1, 1), 1, 1.0, 1.0, 0.1, 1.0, 1.0).cells()[-1] == "1e-01 wrong"


def test_model_is_the_product() -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    (y,) = onnx.reference.ReferenceEvaluator(product_model(weight)).run(None, {"x": np.array([[1, 2]], np.float32)})
    np.testing.assert_array_equal(y, [[6, 9, 12]])


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    sizes = [
        "--rows",
        "3",
        "--weights",
        "16x24",
        "--threads",
        "1",
        "2",
        "--rounds",
        "1",
        "--turns",
        "1",
        "--seconds",
        "0.01",
    ]
    assert main(["gemm", *sizes, "--json", str(tmp_path / "gemm.json")]) == 0
    products = json.loads((tmp_path / "gemm.json").read_text())["products"]
    assert [(p["m"], p["k"], p["n"], p["threads"], p["right"]) for p in products] == [
        (3, 16, 24, 1, True),
        (3, 16, 24, 2, True),
    ]
    assert "| 3 x 16 x 24 | 2 |" in capsys.readouterr().out
