"""The list of operators: each has a gradient, which is tried, or a reason why it has none."""

from __future__ import annotations

import pytest
from tests.autodiff.problems import ELSEWHERE, PROBLEMS

from intaglio.autodiff.rules import gradient_kind
from intaglio.errors import GraphError
from intaglio.ir.op import OPERATORS, Op

OURS = {key: cls for key, cls in OPERATORS.items() if cls.__module__.startswith("intaglio.ops.")}
TRIED = {name for problem in PROBLEMS for name in problem.operators} | ELSEWHERE.keys()


@pytest.mark.parametrize(("domain", "name"), OURS, ids=map("::".join, OURS))
def test_every_operator_says_how_it_is_differentiated(domain: str, name: str) -> None:
    kind, reason = gradient_kind(OURS[domain, name])
    full = f"{domain}::{name}".removeprefix("::")
    if kind == "no":
        assert reason
        assert not OURS[domain, name].has("smooth_form")
    elif domain != "intaglio":
        assert full in TRIED, f"{full} is differentiated by {kind}, and no problem tries it"


def test_an_operator_that_says_nothing_is_found() -> None:
    class Silent(Op, abstract=True):
        """An operator without anything."""

    with pytest.raises(GraphError, match="Silent has neither a gradient nor a reason"):
        gradient_kind(Silent)
