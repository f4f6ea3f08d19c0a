"""A fixed part of the hunt among exports: one seed of each maker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.emit.models import parse

from ..judging import Finding
from ..problem import Problem
from . import exports

QUICK = (200, 201, 202, 203, 204)
"""Each of these is of another maker."""


def check(seed: int, languages: Sequence[str]) -> None:
    seen = exports.look(seed, 1, lambda phase: None, languages)
    assert seen.cases
    assert not seen.verdict.findings, "\n".join(map(str, seen.verdict.findings[:5]))


@pytest.mark.parametrize("seed", QUICK)
def test_nothing_is_wrong(seed: int) -> None:
    check(seed, ("python", "torch", "onnx", "c:readable", "c:fast"))


@pytest.mark.targets
@pytest.mark.parametrize("seed", QUICK)
def test_nothing_is_wrong_in_zig_and_webassembly(seed: int) -> None:
    check(seed, ("zig", "wasm"))


def test_a_wrong_export_is_a_finding() -> None:
    feeds = [{"x": np.arange(3, dtype=np.float32)}]
    piece = exports.Piece(Problem(parse("g (float[3] x) => (y) { y = Neg (x) }"), feeds))
    right = exports._findings("python", lambda arrays: [-arrays[0]], ["x"], [piece])
    wrong = exports._findings("python", lambda arrays: [-arrays[0] + 1e-3], ["x"], [piece])
    failed = exports._findings("python", lambda arrays: [1 / 0], ["x"], [piece])
    assert not right
    assert ["type" in finding.text for finding in wrong] == [False]
    assert "ZeroDivisionError" in failed[0].text


def test_long_sums_may_be_taken_one_by_one() -> None:
    x = np.random.default_rng(0).uniform(0, 1, 9000)
    piece = exports.Piece(Problem(parse("g (double[n] x) => (y) { y = ReduceSum (x) }"), [{"x": x}]))

    def found(language: str, factor: float) -> list[Finding]:
        return exports._findings(language, lambda arrays: [arrays[0].sum(keepdims=True) * factor], ["x"], [piece])

    assert found("c:fast", 1 + 1e-14)
    assert not found("c:readable", 1 + 1e-14)
    assert found("c:readable", 1 + 1e-12)


def test_pytorch_may_sample_what_is_not_finite_otherwise() -> None:
    text = "g (float[1, 1, 1, 2] x, float[1, 1, 2, 2] p) => (y) { y = GridSample (x, p) }"
    feeds = {"x": np.ones((1, 1, 1, 2), np.float32), "p": np.full((1, 1, 2, 2), 0.25, np.float32)}
    feeds["p"][0, 0, 0, 0] = np.nan
    piece = exports.Piece(Problem(parse(text), [feeds]))
    right = piece.expected[0].plain["y"]
    assert np.isnan(right).sum() == 1

    def found(language: str, *numbers: float) -> list[Finding]:
        result = np.array(numbers, np.float32).reshape(1, 1, 1, 2)
        return exports._findings(language, lambda arrays: [result], ["x", "p"], [piece])

    last = float(right[0, 0, 0, 1])
    assert not found("torch", 1, last)
    assert found("python", 1, last)
    assert found("torch", 1, last + 0.01)


def test_only_our_kernels_may_round_rows_to_bytes() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
    g (float[2, 32] x) => (y) {
        y = com.microsoft.MatMulNBits <K = 32, N = 3, bits = 8, block_size = 32, accuracy_level = 4> (x, w, s) }"""
    rng = np.random.default_rng(0)
    weights = {"w": rng.integers(0, 256, (3, 1, 32), np.uint8), "s": np.full(3, 0.01, np.float32)}
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    piece = exports.Piece(Problem(model, [{"x": rng.standard_normal((2, 32)).astype(np.float32)}]))
    rounded = piece.expected[0].rounded
    assert rounded is not None
    for language, is_found in (("c:fast", False), ("wasm", False), ("c:readable", True), ("python", True)):
        found = exports._findings(language, lambda arrays: [rounded.plain["y"]], ["x"], [piece])
        assert bool(found) == is_found


def test_refusals_of_languages_are_no_findings_and_others_are() -> None:
    text = "running raised IndexError: amax(): Expected reduction dim 3 to have non-zero size."
    assert exports.is_refusal(Finding("torch", "y", 0, text))
    assert not exports.is_refusal(Finding("python", "y", 0, text))
    assert exports.is_refusal(Finding("zig", "y", 0, "shape (0, 3, 0) instead of (0, 3, 4)"))
    assert not exports.is_refusal(Finding("zig", "y", 0, "shape (0, 3) instead of (10, 3)"))


def test_a_language_without_its_tools_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(exports.NEEDS, "zig", lambda: False)
    seen = exports.look(QUICK[0], 1, lambda phase: None, ["zig"])
    assert seen.cases == 0
    assert seen.verdict.judges["zig without its tools"] > 0
