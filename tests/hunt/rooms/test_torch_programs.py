"""Quick seeds of random PyTorch programs, and tests of those who judge them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from ..judging import Finding, Verdict
from . import torch_programs
from .program_minimise import Minimiser, sort_of
from .program_text import Call, Text
from .torch_programs import compared, examine, look, programs, quietly

QUICK = (0, 1, 2, 3)


@pytest.mark.parametrize("seed", QUICK)
def test_nothing_is_wrong(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTAGLIO_POISON", "1")
    seen = look(seed, 1, lambda phase: None)
    assert seen.cases == torch_programs.PROGRAMS
    assert not seen.verdict.findings, "\n".join(map(str, seen.verdict.findings[:3]))


def test_a_seed_always_stands_for_the_same() -> None:
    first, second = ([text.script() for text in programs(7, 1)] for _ in range(2))
    assert first == second
    assert len(set(first)) == torch_programs.PROGRAMS


def made(*body: str, returned: tuple[str, ...] = ("y",), x: str = "torch.randn(n, m)", mode: str = "plain") -> Text:
    calls = (Call((3, 4), 0), Call((5, 2), 1))
    return Text((("x", x),), (), body, returned, calls, mode)


def rewritten(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Something in the place of torch.compile that changes what a program returns."""
    return lambda module: lambda *given: change(module(*given))


def moved(tensor: Any) -> Any:
    """A tensor that begins at the beginning of its storage."""
    return tensor.as_strided(tensor.shape, tensor.stride(), 0)


FAULTS: dict[str, tuple[Text, Callable[[Any], Any], str]] = {
    "value": (made("y = x.t()"), lambda found: [found[0] + 1e-6], "elements"),
    "rounding": (made("y = x.exp()"), lambda found: [found[0] * (1 + 1e-4)], "elements"),
    "dtype": (made("y = x + 1"), lambda found: [found[0].double()], "type"),
    "strides": (made("y = x.sin().t()"), lambda found: [found[0].contiguous()], "strides"),
    "sharing": (made("y = x[1:]"), lambda found: [found[0].clone()], "shares"),
    "offset": (made("x.zero_()", "y = x[1:]"), lambda found: [moved(found[0])], "offset"),
    "gradient": (
        made("y = x.sin()", x="torch.randn(n, m).requires_grad_()", mode="gradients"),
        lambda found: [found[0].detach() + 2 * (found[0] - found[0].detach())],
        "elements",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_seen(name: str) -> None:
    text, change, expected = FAULTS[name]
    with quietly():
        found = compared(text, rewritten(change))
    assert any(expected in finding.text for finding in found), found


def test_an_input_that_is_not_written_to_is_seen() -> None:
    text = made("x.add_(1)", "y = x * 2")
    with quietly():
        found = compared(text, lambda module: lambda x: module(x.clone()))
    assert [finding.output for finding in found] == ["input 0"]


def test_rounding_is_no_fault() -> None:
    text = made("y = (x @ x.t()).softmax(-1).sum(0)", returned=("y",))
    with quietly():
        assert not compared(text, rewritten(lambda found: [found[0] * (1 + 2e-7)]))
        assert not compared(text, lambda module: module)


def test_what_the_witness_shows_too_is_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    text = made("y = x.t()")
    finding = Finding("", "output 0", 0, "1 of 2 elements")
    for witness, doubts in (([], 0), ([finding], 1), ([Finding("", "raised", 0, "")], 1)):
        verdict = Verdict()
        torch_programs._weigh(text, [finding], witness, verdict)
        assert len(verdict.doubts) == doubts
        assert len(verdict.findings) == 1 - doubts


def test_findings_are_reduced_to_what_they_take() -> None:
    text = made("a = x.sin()", "b = x.t()", "c = a * 2", "y = b.floor()", "z = c + y.t()", returned=("a", "y", "z"))

    def examined(text: Text) -> Verdict:
        is_there = "y = b.floor()" in text.body and "y" in text.returned
        if is_there:
            compared(text, lambda module: module)  # raises where a name is missing
        return Verdict([Finding("", "output 1", 0, "3 of 4 elements")] if is_there else [])

    small = Minimiser(examined, sort_of(examined(text).findings[0])).run(text)
    assert small.body == ("b = x.t()", "y = b.floor()")
    assert small.returned == ("y",)


def test_a_script_reproduces_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    text = made("x.mul_(2)", "y = x.t()")
    with quietly():
        assert not examine(text).findings
        torch._dynamo.reset()
        exec(compile(text.script(), "script", "exec"), {"__name__": "script"})
    eager, compiled, *_ = capsys.readouterr().out.split("(tensor")[1:]
    assert eager == compiled


def test_numbers_that_a_module_keeps_keep_their_roundings() -> None:
    text = Text(
        (("x", "torch.randn(n, m)"),),
        (("self.part0", "nn.Buffer(torch.ones(4))"),),
        ("y = self.part0.exp_()",),
        ("y",),
        tuple(Call((3, 4), seed) for seed in range(3)),
    )

    def nearly(module: Any) -> Any:
        return lambda *given: [each.mul_(1 + 2e-7) for each in module(*given)]

    with quietly():
        assert not compared(text, nearly)  # exp(exp(exp(1 + e))) is off by 41 times e


def test_either_of_two_answers_of_eager_is_right() -> None:
    text = made("y = F.gelu(x)", x="torch.full((16 * n, m), float('inf'))")
    with quietly():
        assert not compared(text, rewritten(lambda found: [torch.full_like(found[0], float("inf"))]))
        assert not compared(text, rewritten(lambda found: [torch.full_like(found[0], float("nan"))]))
        text = made("y = F.gelu(x)")
        assert compared(text, rewritten(lambda found: [torch.full_like(found[0], float("inf"))]))


def test_the_sign_of_nan_means_nothing() -> None:
    lowest = torch.iinfo(torch.int32).min
    with quietly():
        text = made("y = (-1 - x.abs()).sqrt().view(torch.int32)")
        assert not compared(text, rewritten(lambda found: [found[0] ^ lowest]))
        text = made("y = x.view(torch.int32)")
        assert compared(text, rewritten(lambda found: [found[0] ^ lowest]))


def test_compiled_code_may_take_denormals_for_zero() -> None:
    text = made("y = x.sqrt()", x="torch.full((n, m), 1e-40)")
    with quietly():
        assert not compared(replace(text, engine="native"), rewritten(lambda found: [found[0] * 0]))
        assert compared(text, rewritten(lambda found: [found[0] * 0]))


def test_integers_that_are_read_off_bits_of_rounded_numbers() -> None:
    with quietly():
        text = made("y = int(x.exp().view(torch.int16)[0, 0])")
        assert not compared(text, rewritten(lambda found: [found[0] + 1]))
        text = made("y = int(x.view(torch.int16)[0, 0])")
        assert compared(text, rewritten(lambda found: [found[0] + 1]))


def test_strides_of_results_whose_sizes_hang_on_rounding_are_not_compared() -> None:
    text = made("y = ((x * 3) / 3 - x).nonzero()", x="torch.randn(40 * n, m)")
    with quietly():
        assert not compared(text, rewritten(lambda found: [found[0].t().contiguous().t()[1:].clone()]))
