"""`bench`: several engines, batches and threads; engines that fail, differ or are missing."""

from __future__ import annotations

import importlib.util

import onnx
import onnx.parser
import pytest

from intaglio.errors import InputError
from intaglio.tools import bench
from intaglio.tools.comparing import PeerError, Tolerances

HEADER = '<ir_version: 10, opset_import: ["" : 21]> '
TEXT = HEADER + "g (float[n, 4] x) => (float[n, 4] y) { a = Exp (x) y = Softmax (a) }"


def test_engines_take_turns_and_agree() -> None:
    found = bench(onnx.parser.parse_model(TEXT), against=["ort"], batches=[1, 64], threads=[1], rounds=2, seconds=0.01)
    assert [(row.engine, row.batch) for row in found.rows] == [
        ("intaglio", 1), ("ort", 1), ("intaglio", 64), ("ort", 64)
    ]  # fmt: skip
    assert found.is_agreed
    assert found.batch_symbol == "n"
    for row in found.rows:
        assert not row.failure
        assert row.runs >= 6
        assert 0 < row.least <= row.median <= row.p90 <= row.p99
        assert row.batch is not None
        assert row.throughput == pytest.approx(row.batch / row.median)
        assert row.memory > 1 << 20


def test_what_differs_and_what_fails_is_said() -> None:
    random = onnx.parser.parse_model(HEADER + "g (float[n] x) => (y) { r = RandomUniformLike (x) y = Add (x, r) }")
    found = bench(random, against=["ort"], threads=[1], rounds=1, seconds=0, dims={"n": 9})
    assert not found.is_agreed
    assert "output 0" in found.rows[1].difference
    assert bench(
        random, against=["ort"], threads=[1], rounds=1, seconds=0, dims={"n": 9}, tolerances=Tolerances(atol=5.0)
    ).is_agreed


def test_an_engine_that_refuses_a_model_has_a_row_that_says_so() -> None:
    text = HEADER + "g (float[n] x) => (y) { y = Swish (x) }"
    newer = onnx.parser.parse_model(text.replace('"" : 21', '"" : 24').replace("ir_version: 10", "ir_version: 99"))
    found = bench(newer, against=["ort"], threads=[1], rounds=1, seconds=0)
    assert not found.rows[0].failure
    assert found.rows[1].failure
    assert found.rows[1].runs == 0


def test_who_is_missing_and_what_cannot_be() -> None:
    with pytest.raises(PeerError, match="no engine 'zz'"):
        bench(onnx.parser.parse_model(TEXT), against=["zz"])
    if importlib.util.find_spec("openvino") is None:
        with pytest.raises(PeerError, match="pip install openvino"):
            bench(onnx.parser.parse_model(TEXT), against=["openvino"])
    with pytest.raises(InputError, match="make-dynamic"):
        bench(onnx.parser.parse_model(TEXT.replace("n, 4", "1, 4")), against=[], batches=[2])
