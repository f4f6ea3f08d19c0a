"""The driver, with rules made for the test, and what rules decline to do."""

from __future__ import annotations

import pytest

import intaglio.ops  # noqa: F401  (registers the operators that the texts name)
from intaglio.errors import GraphError
from intaglio.ir import dim_parse
from intaglio.ir.build import Builder
from intaglio.ir.graph import Node
from intaglio.ir.text import parse_graph
from intaglio.ir.verify import verify
from intaglio.passes import Refusal, Result, rewrite, rule
from intaglio.passes.match import equal_if_broadcast, produced

CHAIN = """
graph "g" (%x: float32[N]) -> (%d) {
  %a = Relu(%x) @"first"
  %b = Exp(%a) @"second"
  %c = Neg(%b)
  %d = Abs(%c)
}"""


@rule("Relu")
def sine(b: Builder, node: Node) -> Result:
    """relu(x) -> sin(x)"""
    return b.Sin(node.input)


@rule("Neg", fuses=True)
def fused(b: Builder, node: Node) -> Result:
    """-exp(relu(x)) -> cos(x)"""
    exp = produced(node.input, "Exp")
    relu = produced(exp.input, "Relu") if exp is not None else None
    return b.Cos(relu.input) if relu is not None else None


def operators(graph) -> list[str]:
    return [node.op.name for node in graph.all_nodes()]


def test_a_replacement_takes_name_and_source() -> None:
    graph = parse_graph(CHAIN)
    outcome = rewrite(graph, [sine])
    verify(graph)
    assert '%a: float32[N] = Sin(%x) @"first"' in str(graph)
    assert [(event.rule, event.place) for event in outcome.applied] == [("sine", "first")]


def test_dead_nodes_go_with_a_fused_pattern() -> None:
    graph = parse_graph(CHAIN)
    rewrite(graph, [fused])
    verify(graph)
    assert operators(graph) == ["Cos", "Abs"]


@pytest.mark.parametrize("reader", ["-> (%d, %b)", "-> (%d, %a)"])
def test_a_fused_pattern_with_an_outside_reader_is_refused(reader: str) -> None:
    graph = parse_graph(CHAIN.replace("-> (%d)", reader))
    before = str(graph)
    outcome = rewrite(graph, [fused])
    assert str(graph) == before
    assert "is also read by the graph" in outcome.refused[0].reason


def test_a_pattern_across_a_subgraph_is_refused() -> None:
    graph = parse_graph("""
        graph "g" (%x: float32[N], %c: bool[]) -> (%d) {
          %a = Relu(%x)
          %b = Exp(%a)
          %d = If(%c; then_branch=graph "t" () -> (%p) { %p = Neg(%b) }, else_branch=graph "e" () -> (%x) {})
        }""")
    assert "outside this subgraph" in rewrite(graph, [fused]).refused[0].reason


def test_rules_reach_into_subgraphs() -> None:
    graph = parse_graph("""
        graph "g" (%x: float32[N], %c: bool[]) -> (%d) {
          %d = If(%c; then_branch=graph "t" () -> (%p) { %p = Relu(%x) }, else_branch=graph "e" () -> (%x) {})
        }""")
    rewrite(graph, [sine])
    verify(graph)
    assert operators(graph) == ["If", "Sin"]


def test_a_refusal_is_reported_and_leaves_no_trace() -> None:
    @rule("Exp")
    def reluctant(b: Builder, node: Node) -> Result:
        """exp(x) -> nothing"""
        b.Sin(node.input)
        return Refusal("not today")

    graph = parse_graph(CHAIN)
    before = str(graph)
    outcome = rewrite(graph, [reluctant])
    assert str(graph) == before
    assert [(event.place, event.reason) for event in outcome.refused] == [("second", "not today")]
    assert not outcome.has_changes


def test_an_operator_that_cannot_take_its_inputs_is_a_refusal() -> None:
    @rule("Exp")
    def wrong(b: Builder, node: Node) -> Result:
        """exp(x) -> not(x)"""
        return b.Not(node.input)

    graph = parse_graph(CHAIN)
    before = str(graph)
    assert "Not cannot take" in rewrite(graph, [wrong]).refused[0].reason
    assert str(graph) == before


def test_a_replacement_of_another_type_is_an_error() -> None:
    @rule("Exp")
    def shape(b: Builder, node: Node) -> Result:
        """exp(x) -> shape(x)"""
        return b.Shape(node.input)

    with pytest.raises(GraphError, match="the rule shape would replace"):
        rewrite(parse_graph(CHAIN), [shape])


def test_rules_that_never_end_are_stopped() -> None:
    @rule("Sin")
    def cosine(b: Builder, node: Node) -> Result:
        """sin(x) -> cos(x)"""
        return b.Cos(node.input)

    @rule("Cos")
    def back(b: Builder, node: Node) -> Result:
        """cos(x) -> sin(x)"""
        return b.Sin(node.input)

    graph = parse_graph(CHAIN.replace("Relu", "Sin"))
    outcome = rewrite(graph, [cosine, back], steps=50)
    assert not outcome.is_complete
    assert len(outcome.applied) == 50
    verify(graph)


def test_other_domains_are_left_alone() -> None:
    text = CHAIN.replace("Abs(%c)", "Abs(%c)")
    graph = parse_graph(text)
    for node in graph.nodes:
        if node.op.name == "Relu":
            type(node.op).domain = "other"
            try:
                assert not rewrite(graph, [sine]).has_changes
            finally:
                type(node.op).domain = ""


def test_types_behind_a_more_precise_replacement_are_inferred_anew() -> None:
    @rule("Identity")
    def skip(b: Builder, node: Node) -> Result:
        """identity(x) -> x"""
        return node.input

    graph = parse_graph("""
        graph "g" (%x: float32[2, 3]) -> (%c) {
          %a: float32[M, 3] = Identity(%x)
          %b: float32[M, 3] = Relu(%a)
          %c: float32[M, 3] = Exp(%b)
        }""")
    rewrite(graph, [skip])
    verify(graph)
    assert str(graph.outputs[0].type) == "float32[2, 3]"


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("min(512, N)", "N", True),
        ("N", "broadcast(min(512, N), N)", True),
        ("min(1024, broadcast(min(1024, N), N))", "broadcast(min(1024, N), N)", True),
        ("1", "N", False),
        ("M", "N", False),
        ("min(M, N)", "N", False),
        ("min(0, N)", "N", False),
        ("2*min(512, N)", "N", False),
    ],
)
def test_equality_that_follows_from_a_broadcast(left: str, right: str, expected: bool) -> None:
    assert equal_if_broadcast(dim_parse.parse(left), dim_parse.parse(right)) == expected
