"""Why nodes are not compiled: causes decide, words do not."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import pytest

from intaglio.ir.graph import Graph
from intaglio.ir.text import parse_graph
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.passes import simplify
from intaglio.runtime.engine.native import NativeEngine
from intaglio.targets.c.rules import ANCHORS, LATE

MISLEADING = "is not known before the run"


def engine_of(text: str) -> NativeEngine:
    graph: Graph = parse_graph(text)
    simplify(graph)
    return NativeEngine(graph, 1)


def causes(engine: NativeEngine) -> set[Cause]:
    return {host.refusal.cause for host in engine.form.hosts}


@pytest.mark.parametrize("name", ["a", f"a {MISLEADING}", f"the rank of a {MISLEADING}"])
@pytest.mark.parametrize(
    ("type", "operator", "cause"),
    [("string[n]", "StringNormalizer", Cause.ELEMENTS), ("seq(float32[n])", "SequenceLength", Cause.ELEMENTS)],
)
def test_names_of_values_decide_nothing(name: str, type: str, operator: str, cause: Cause) -> None:
    result = "string[m]" if operator == "StringNormalizer" else "int64[]"
    engine = engine_of(f'graph "g" (%"{name}": {type}) -> (%y) {{ %y: {result} = {operator}(%"{name}") }}')
    assert causes(engine) == {cause}
    assert not engine.depends_on_shapes


def test_a_rank_that_sizes_decide_has_a_plan_for_them() -> None:
    engine = engine_of('graph "g" (%x: float32[n], %s: int64[k]) -> (%y) { %y = Reshape(%x, %s) }')
    assert causes(engine) == {Cause.SHAPE}
    assert engine.depends_on_shapes


def test_a_body_is_refused_for_the_cause_of_its_node() -> None:
    inner = Refusal(Cause.SHAPE, "its window is open")
    assert inner.inside("MaxPool") == Refusal(Cause.SHAPE, "MaxPool in its body: its window is open")


@pytest.mark.parametrize("name", sorted({*ANCHORS, *LATE}))
def test_every_rule_that_may_refuse_says_so_in_a_refusal(name: str) -> None:
    for rule in (table[name] for table in (ANCHORS, LATE) if name in table):
        if inspect.isfunction(rule.refuse) and rule.refuse.__name__ != "<lambda>":
            assert get_type_hints(rule.refuse)["return"] == (Refusal | None)
