"""Quick seeds of the gradients, and what the judges see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.parser
import pytest

import intaglio
from intaglio.autodiff import forget_pullbacks

from ..judging import Verdict

pytest.importorskip("torch", reason="PyTorch judges gradients at kinks, and it is not a part of `dev`")

from tests.autodiff.kinks import KINKS, compare

from . import gradients
from .slopes import Differences, Function, Move, weights_of


def silent(phase: str) -> None:
    """Nobody watches."""


@pytest.mark.parametrize("seed", range(100, 124))
def test_nothing_is_wrong(seed: int) -> None:
    seen = gradients.look(seed, 1, silent)
    assert not seen.verdict.findings, "\n".join(map(str, seen.verdict.findings[:3]))
    assert seen.verdict.judges["order 1 right"] > seen.verdict.judges["order 1 open"]
    assert seen.verdict.judges["PyTorch"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 300))
def test_nothing_is_wrong_in_more(seed: int) -> None:
    test_nothing_is_wrong(seed)


def test_a_seed_always_stands_for_the_same() -> None:
    (_, first), (_, second) = (gradients.problem_of(5, 2) for _ in range(2))
    assert first.model.SerializeToString(deterministic=True) == second.model.SerializeToString(deterministic=True)
    assert all(first.feeds[0][name].tobytes() == second.feeds[0][name].tobytes() for name in first.feeds[0])


@pytest.fixture
def wrong_tanh() -> Iterator[None]:
    """A rule that is right to the first order only: 1 - y * y with y as if it were a constant."""

    @intaglio.pullback("Tanh")
    def tanh(op: Any, b: Any, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        copied = b.Cast(b.Round(outputs[0] * 1e15), to=7)
        y = b.Cast(copied, to=11) / 1e15
        return (output_bars[0] * (1.0 - y * y),)

    yield
    forget_pullbacks("Tanh")


def slopes(text: str, x: Any, order: int) -> tuple[Differences, float]:
    """Differences of the last order but one of the only output by the only input, and the slope of our gradient."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    functions = [Function(model, ["y"], ["x"], order) for order in (order - 1, order)]
    random, feeds = np.random.default_rng(0), {"x": x}
    for each in range(order + 1):
        feeds |= weights_of([x.shape], each, random)
    move = Move("", (), {"x": np.ones(x.shape)})
    (bar,) = functions[1](feeds, functions[1].gradients[-1])
    return Differences(functions[0], functions[0].values[-1], feeds, move), move.slope({"x": bar})


@pytest.mark.parametrize(("order", "verdict"), [(1, "right"), (2, "wrong")])
def test_a_rule_that_is_wrong_at_the_second_order_is_found(wrong_tanh: None, order: int, verdict: str) -> None:
    differences, ours = slopes("g (double[3] x) => (double[3] y) { y = Tanh (x) }", np.array([0.3, -0.7, 1.1]), order)
    assert differences.verdict(ours) == verdict


@pytest.mark.parametrize(("x", "verdict"), [(0.0, "open"), (1e-9, "open"), (0.5, "right")])
def test_differences_do_not_judge_kinks(x: float, verdict: str) -> None:
    differences, ours = slopes("g (double[1] x) => (double[1] y) { y = Relu (x) }", np.array([x]), 1)
    assert differences.verdict(ours + (0.25 if verdict == "open" else 0)) == verdict


def test_steps_are_edges_and_not_slopes() -> None:
    differences, ours = slopes("g (double[1] x) => (double[1] y) { y = Floor (x) }", np.array([1.0]), 1)
    assert differences.verdict(ours) == "open"


def test_a_finding_has_what_it_takes_to_see_it_again(wrong_tanh: None) -> None:
    """Of a few seeds some graph has a Tanh, or a Mish, which is made of one, that is differentiated twice."""
    findings = []
    for seed in range(40):
        verdict = Verdict()
        for number in range(3):
            gradients.Examined(seed, number, verdict).run()
        findings += verdict.findings
        if findings:
            break
    assert "instead of" in findings[0].text
    assert {node.op_type for node in onnx.parser.parse_model(findings[0].node).graph.node} & {"Tanh", "Mish"}
    assert findings[0].output == "order 2"


def test_another_side_of_a_kink_is_found() -> None:
    kink = next(kink for kink in KINKS if kink.name == "Relu")

    @intaglio.pullback("Relu")
    def relu(op: Any, b: Any, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        return (b.Where(inputs[0] >= 0, output_bars[0], b.constant(0, output_bars[0].dtype)),)

    try:
        found = compare(kink, np.random.default_rng(0))
    finally:
        forget_pullbacks("Relu")
    assert "Relu, order 1" in str(found.differences[0])
