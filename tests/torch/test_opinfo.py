"""The table of ATen operators against PyTorch's own samples. `python -m intaglio.torch.opinfo` runs them all."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from intaglio.torch.aten import FAMILIES, REFUSED, TABLE  # noqa: E402
from intaglio.torch.opinfo import _is_nearer, infos, judge, summary  # noqa: E402

WRONG = ("differs", "failed")


def check(verdicts: Any) -> None:
    listed = list(verdicts)
    assert any(verdict.outcome == "passes" for verdict in listed), summary(listed)
    wrong = [f"{each.name} {each.dtype}: {each.reason}" for each in listed if each.outcome in WRONG]
    assert not wrong, "\n".join(wrong)


def test_every_name_is_an_operator_of_pytorch() -> None:
    for name in (*TABLE, *REFUSED):
        namespace, packet, overload = name.split(".")
        found = getattr(getattr(torch.ops, namespace), packet, None)
        assert found is not None, name
        assert overload in found.overloads() or name in REFUSED, name


def test_every_rule_says_what_it_means() -> None:
    assert {rule.__module__ for rule in TABLE.values()} == {family.__name__ for family in FAMILIES}
    assert not set(TABLE) & set(REFUSED)


QUICK = (
    "add",
    "addbmm",
    "div",
    "clamp",
    "cat",
    "gather",
    "index_put",
    "var",
    "nn.functional.layer_norm",
    "sort",
    "slice_scatter",
    "scatter_reduce",
    "index_reduce",
    "masked_select",
    "masked_scatter",
    "put",
    "nonzero_static",
    "unique",
    "unique_consecutive",
    "searchsorted",
    "mode",
    "as_strided_scatter",
    "diagonal_scatter",
    "bitwise_right_shift",
    "bincount",
    "cdist",
    "nn.functional.bilinear",
    "nn.functional.conv2d",
    "nn.functional.conv_transpose1d",
    "nn.functional.avg_pool2d",
    "nn.functional.adaptive_avg_pool2d",
    "nn.functional.adaptive_max_pool2d",
)


@pytest.mark.parametrize("name", QUICK)
def test_a_few_samples(name: str) -> None:
    check(judge(lambda each: each == name, ("float32", "int64"), limit=4))


@pytest.mark.parametrize("name", ["cross", "nn.functional.gelu", "mean"])
def test_narrow_samples(name: str) -> None:
    check(judge(lambda each: each == name, ("bfloat16",), limit=2))


def test_narrow_results_must_be_as_near_as_those_of_pytorch() -> None:
    x = torch.randn(50).bfloat16()
    exact = x.double() * 3
    theirs = [(x * 3 + 0.01).bfloat16()]

    def call(x: Any) -> list[Any]:
        return [x * 3]

    for found, is_nearer in (
        (exact.bfloat16(), True),
        (theirs[0], True),
        ((exact * 1.1).bfloat16(), False),
        (exact.float(), False),
        (exact.bfloat16()[:40], False),
        (torch.full_like(x, torch.nan), False),
    ):
        assert _is_nearer(call, [x], [found], theirs) == is_nearer


@pytest.mark.parametrize("name", ["nn.functional.softplus", "remainder"])
def test_compiled_samples(name: str) -> None:
    check(judge(lambda each: each == name, ("float32",), limit=3, engine="native"))


@pytest.mark.slow
def test_all_samples() -> None:
    verdicts = list(judge(lambda _: True, ("float32", "int64", "bool")))
    check(verdicts)
    print(summary(verdicts))
    assert len({verdict.name for verdict in verdicts}) > 400
    assert len(infos()) > 400
