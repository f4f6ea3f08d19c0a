"""Passes together: what is declined, budgets, switches, reports and whole pipelines on random graphs."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.present import constant

from intaglio.errors import InputError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph, Value
from intaglio.ir.text import format_graph, parse_graph
from intaglio.ir.types import TensorType
from intaglio.ir.verify import verify
from intaglio.ops.evaluate import evaluate
from intaglio.passes import PIPELINE, constants, simplify

UNCHANGED = {
    "identity between an input and an output": (
        "remove-noops",
        'graph "g" (%x: float32[N]) -> (%y) { %y = Identity(%x) }',
    ),
    "identity between two outputs": (
        "remove-noops",
        'graph "g" (%x: float32[N]) -> (%y, %z) { %y = Relu(%x) %z = Identity(%y) }',
    ),
    "a mask that is read": (
        "remove-noops",
        'graph "g" (%x: float32[N]) -> (%y, %m) { %y, %m = Dropout(%x) }',
    ),
    "a narrowing cast": (
        "remove-noops",
        'graph "g" (%x: float32[N]) -> (%y) { %a = Cast(%x; to=10) %y = Cast(%a; to=1) }',
    ),
    "a sum that grows": (
        "algebra",
        'graph "g" (%x: float32[]) -> (%y) { %y = Add(%x, float32[3] {-0.0, -0.0, -0.0}) }',
    ),
    "a product of rank 2": (
        "algebra",
        'graph "g" (%x: float32[N]) -> (%y) { %y = Mul(%x, float32[1, 1] {1.0}) }',
    ),
    "a division that is not exact": (
        "algebra",
        'graph "g" (%x: float32[N]) -> (%y) { %y = Div(%x, float32[] {3.0}) }',
    ),
    "constants whose product overflows": (
        "algebra",
        'graph "g" (%x: float32[N]) -> (%y) { %a = Mul(%x, float32[] {1e30}) %y = Mul(%a, float32[] {1e30}) }',
    ),
    "a gelu with another factor": (
        "recognise-gelu",
        """graph "g" (%x: float32[N]) -> (%y) {
          %a = Mul(%x, float32[] {0.8}) %b = Erf(%a) %c = Add(%b, float32[] {1.0}) %d = Mul(%x, %c)
          %y = Mul(%d, float32[] {0.5}) }""",
    ),
    "a random value twice": (
        "common-subexpressions",
        'graph "g" () -> (%y) { %a = RandomNormal(; shape=[3]) %b = RandomNormal(; shape=[3]) %y = Sub(%a, %b) }',
    ),
    "a random value": (
        "fold-constants",
        'graph "g" () -> (%a) { %a = RandomNormal(; shape=[3]) }',
    ),
    "a Loop of constants": (
        "fold-constants",
        """graph "g" () -> (%y) {
          %y = Loop(int64[] {3}, bool[] {true}, float32[] {1.0}; body=graph "b"
            (%i: int64[], %c: bool[], %v: float32[]) -> (%c, %w) { %w = Add(%v, %v) }) }""",
    ),
    "If with a condition that is not known": (
        "constant-control",
        """graph "g" (%x: float32[N], %c: bool[]) -> (%y) {
          %y = If(%c; then_branch=graph "t" () -> (%x) {}, else_branch=graph "e" () -> (%p) { %p = Neg(%x) }) }""",
    ),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_left_alone(name: str) -> None:
    chosen, text = UNCHANGED[name]
    graph = parse_graph(text)
    verify(graph)
    before = str(graph)
    report = simplify(graph, pipeline=[each for each in PIPELINE if each.name == chosen])
    assert str(graph) == before
    assert not any(report.applied.values())


ATTENTION = """
graph "g" (%q: {q}, %t: {t}, %v: {v}, %m: {m}) -> (%y) {{
  %a = MatMul(%q, %t)
  %b = Add(%a, %m)
  %p = Softmax(%b)
  %y = MatMul(%p, %v)
}}"""
FITTING = {
    "q": "float32[N, 2, S, 4]",
    "t": "float32[N, 2, 4, M]",
    "v": "float32[N, 2, M, 5]",
    "m": "float32[N, 1, S, M]",
}

REFUSALS = [
    ("attention", ATTENTION.format(**FITTING | {"m": "float32[N, 1, S, 1]"}), "is not the number of keys, M"),
    ("attention", ATTENTION.format(**FITTING | {"v": "float32[2, M, 5]"}), "ranks 4, 4, 3"),
    ("attention", ATTENTION.format(**FITTING | {"v": "float32[N, 1, M, 5]"}), "batch and heads differ"),
    (
        "layernorm",
        """graph "g" (%x: float32[4, N]) -> (%n) {
          %p = Mul(%x, %x) %v = ReduceMean(%p, int64[1] {0}) %e = Add(%v, float32[] {1e-05})
          %r = Sqrt(%e) %n = Div(%x, %r) }""",
        r"not over the last axes but over \[0\]",
    ),
    (
        "layernorm",
        """graph "g" (%x: float64[N, 4]) -> (%n) {
          %p = Mul(%x, %x) %v = ReduceMean(%p, int64[1] {1}) %e = Add(%v, float64[] {1e-05})
          %r = Sqrt(%e) %n = Div(%x, %r) }""",
        "less than float64",
    ),
    (
        "batchnorm",
        """graph "g" (%x: float32[N, 2, 4], %w: float32[2, 2, 1]) -> (%y) {
          %a = Conv(%x, %w)
          %o: float32[2] = {1.0, 1.0}
          %y = BatchNormalization(%a, %o, %o, %o, %o) }""",
        "weights are not constants",
    ),
    (
        "batchnorm",
        """graph "g" (%x: float32[N, 2, 4]) -> (%y, %a) {
          %a = Conv(%x, float32[2, 2, 1] {1.0, 2.0, 3.0, 4.0})
          %o: float32[2] = {1.0, 1.0}
          %y = BatchNormalization(%a, %o, %o, %o, %o) }""",
        "%a is also read by the graph",
    ),
    (
        "fold-constants",
        'graph "g" () -> (%y) { %y = ConstantOfShape(int64[2] {100000, 100000}) }',
        "would have 40000000000 bytes",
    ),
    (
        "fold-constants",
        'graph "g" () -> (%y) { %y = Gather(float32[2] {1.0, 2.0}, int64[1] {7}) }',
        "it cannot be computed",
    ),
    (
        "fold-constants",
        'graph "g" () -> (%y) { %y = Einsum(float32[1] {2.0}; equation="i->") }',
        "may take long",
    ),
]


@pytest.mark.parametrize(("name", "text", "reason"), REFUSALS)
def test_refused_with_a_reason(name: str, text: str, reason: str) -> None:
    graph = parse_graph(text)
    before = str(graph)
    report = simplify(graph, pipeline=[each for each in PIPELINE if name in each.name])
    assert str(graph) == before
    assert any(re.search(reason, event.reason) for events in report.refused.values() for event in events)
    assert "refused at" in str(report)


def test_large_constants_are_folded_through_operators_whose_time_is_known() -> None:
    graph = Graph("g")
    b = Builder(graph)
    large = graph.constant(np.ones((256, 256), np.float32))
    graph.set_outputs([b.Transpose(large), b.MatMul(large, large), b.ReduceMean(large, [0]), b.Det(large)])
    simplify(graph, disable=["dead-code"])
    verify(graph)
    assert [node.op.name for node in graph.nodes] == ["Det"]


FOLDED: dict[str, Callable[[Builder, Value], Value]] = {
    "a mean": lambda b, x: b.ReduceMean(x, [1]),
    "a normalization": lambda b, x: b.LayerNormalization(x, b.constant(np.ones(256, np.float32))),
    "a product": lambda b, x: b.MatMul(x, x),
    "a product of the transpose": lambda b, x: b.Gemm(x, x, transA=1),
    "a convolution": lambda b, x: b.Conv(b.Reshape(x, [1, 16, 64, 64]), b.constant(np.ones((3, 16, 3, 3), np.float32))),
    "a table": lambda b, x: b.Sin(b.Mul(b.Reshape(b.Slice(x, [0], [1], [0]), [256, 1]), b.Slice(x, [0], [1], [0]))),
}
"""What a model computes of 256 x 256 numbers that it holds; the table is larger than what it is made of."""


@pytest.mark.parametrize("what", FOLDED)
def test_what_is_folded_is_what_the_graph_gives(what: str) -> None:
    graph = Graph("g")
    numbers = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    graph.set_outputs([FOLDED[what](Builder(graph), graph.constant(numbers))])
    (expected,) = evaluate(graph, [])
    simplify(graph)
    assert len(graph) == 0
    np.testing.assert_allclose(constant(graph.outputs[0]), expected, rtol=1e-6)


@pytest.mark.parametrize("what", [name for name in FOLDED if name != "a table"])
def test_folding_ends_with_its_seconds(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph("g")
    b = Builder(graph)
    values = [graph.constant(np.full((256, 256), number, np.float32)) for number in range(6)]
    graph.set_outputs([FOLDED[what](b, value) for value in values])
    before = len(graph)
    with monkeypatch.context() as patch:
        patch.setattr(constants, "SECONDS", 0.001)
        report = simplify(graph, disable=["common-subexpressions"])
        assert any("of 0 s for folding" in event.reason for event in report.refused["fold-constants"])
    assert 0 < len(graph) <= before
    simplify(graph)
    assert len(graph) == 0


def test_folding_ends_with_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph("g")
    b = Builder(graph)
    rows = [graph.constant(np.full((1, 256), number, np.float32)) for number in range(4)]
    graph.set_outputs([b.Mul(b.Reshape(row, [256, 1]), row) for row in rows])
    monkeypatch.setattr(constants, "GROWN", 2 * 256 * 256 * 4)
    report = simplify(graph)
    assert [node.op.name for node in graph.nodes] == ["Mul", "Mul"]
    assert any("0 of 524288 are left" in event.reason for event in report.refused["fold-constants"])


def test_what_only_repeats_is_not_folded_to_many_bytes() -> None:
    graph = Graph("g")
    b = Builder(graph)
    graph.set_outputs([b.Expand(graph.constant(np.ones(256, np.float32)), [256, 256]), b.ConstantOfShape([300, 300])])
    simplify(graph)
    assert {node.op.name for node in graph.nodes} == {"Expand", "ConstantOfShape"}


def test_common_subexpressions_by_operator_constants_and_sizes() -> None:
    graph = parse_graph("""
        graph "g" (%x: float32[N, 3], %z: float32[N, 5]) -> (%y, %w) {
          %a = Mul(%x, float32[] {2.0})
          %b = Mul(%x, float32[] {2.0})
          %c = Add(%a, %b)
          %s = Shape(%x; end=1)
          %t = Shape(%z; end=1)
          %u = Concat(%s, int64[1] {1}; axis=0)
          %v = Concat(%t, int64[1] {1}; axis=0)
          %d = LeakyRelu(%c; alpha=0.0)
          %e = LeakyRelu(%c; alpha=-0.0)
          %f = Add(%d, %e)
          %y = Expand(%f, int64[2] {1, 1})
          %w = Concat(%u, %v; axis=0)
        }""")
    merge = [each for each in PIPELINE if each.name == "common-subexpressions"]
    report = simplify(graph, pipeline=merge)
    verify(graph)
    assert [event.place for event in report.applied["common-subexpressions"]] == ["%b", "%t", "%v"]
    assert "%c: float32[N, 3] = Add(%a, %a)" in str(graph)
    assert "%w: int64[4] = Concat(%u, %u; axis=0)" in str(graph)
    assert str(graph).count("LeakyRelu") == 2


def test_a_node_that_went_with_a_merged_one_is_not_used_again() -> None:
    graph = parse_graph("""
        graph "g" (%x: float32[N, 3], %z: float32[N, 3]) -> (%y, %w) {
          %a = Shape(%x; end=1)
          %b = Shape(%z; end=2)
          %c = Slice(%b, int64[1] {0}, int64[1] {1})
          %y = Add(%a, %c)
          %w = Shape(%z; end=2)
        }""")
    simplify(graph, pipeline=[each for each in PIPELINE if each.name == "common-subexpressions"])
    verify(graph)
    assert "%y: int64[1] = Add(%a, %a)" in str(graph)
    assert "%w: int64[2] = Shape(%z; end=2)" in str(graph)


def test_equal_outputs_keep_both_names() -> None:
    graph = parse_graph('graph "g" (%x: float32[N]) -> (%y, %z) { %y = Exp(%x) %z = Exp(%x) }')
    simplify(graph)
    verify(graph)
    assert [value.name for value in graph.outputs] == ["y", "z"]
    assert [node.op.name for node in graph.nodes] == ["Exp", "Identity"]


def test_a_subgraph_may_use_what_stands_before_it_but_not_the_reverse() -> None:
    graph = parse_graph("""
        graph "g" (%x: float32[N], %c: bool[]) -> (%y, %z) {
          %a = Exp(%x)
          %y = If(%c; then_branch=graph "t" () -> (%p) { %p = Exp(%x) },
                      else_branch=graph "e" () -> (%q) { %q = Sin(%x) })
          %b = Sin(%x)
          %z = Mul(%a, %b)
        }""")
    simplify(graph)
    verify(graph)
    assert str(graph).count("Exp(") == 1
    assert str(graph).count("Sin(") == 2


def test_dead_code_is_removed_with_what_only_it_read() -> None:
    graph = parse_graph("""
        graph "g" (%x: float32[N], %c: bool[]) -> (%y) {
          %a = Exp(%x)
          %b = Sin(%a)
          %d = If(%c; then_branch=graph "t" () -> (%p) { %p = Neg(%b) }, else_branch=graph "e" () -> (%b) {})
          %y = Relu(%x)
        }""")
    simplify(graph, pipeline=[each for each in PIPELINE if each.name == "dead-code"])
    verify(graph)
    assert [node.op.name for node in graph.all_nodes()] == ["Relu"]


SWISH = 'graph "g" (%x: float32[N]) -> (%y) { %a = Sigmoid(%x) %b = Identity(%a) %y = Mul(%x, %b) }'


def test_passes_are_switched_off_by_name() -> None:
    def operators(**options: object) -> list[str]:
        graph = parse_graph(SWISH)
        simplify(graph, **options)  # type: ignore[arg-type]
        return [node.op.name for node in graph.nodes]

    assert operators() == ["Swish"]
    assert operators(disable=["remove-noops"]) == ["Sigmoid", "Identity", "Mul"]
    assert operators(disable=["recognise-activations"]) == ["Sigmoid", "Mul"]
    assert operators(exact=True) == ["Sigmoid", "Mul"]
    assert operators(disable=[each.name for each in PIPELINE]) == ["Sigmoid", "Identity", "Mul"]


def test_an_unknown_pass_is_an_error() -> None:
    with pytest.raises(InputError, match="no pass 'remove-noop'; did you mean 'remove-noops'"):
        simplify(parse_graph(SWISH), disable=["remove-noop"])


def test_the_report_counts_and_marks() -> None:
    report = simplify(parse_graph(SWISH))
    assert (report.nodes_before, report.nodes_after) == (3, 1)
    assert report.changes_rounding
    assert "recognise-activations: swish 1 times (can change rounding)" in str(report)
    assert not simplify(parse_graph(SWISH), exact=True).changes_rounding


def test_every_pass_has_a_name_and_a_reason() -> None:
    assert len({each.name for each in PIPELINE}) == len(PIPELINE)
    assert all(each.reason and (each.rules or each.function) for each in PIPELINE)


UNARY = ["Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Identity", "Floor", "Softplus"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]
CONSTANTS = [0.0, -0.0, 1.0, 2.0, 0.5, 3.0]


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    graph = Graph("random")
    b = Builder(graph)
    values: list[Value] = [graph.add_input(name, TensorType(FLOAT32, (symbol("N"), 3))) for name in ("x", "z")]
    for _ in range(draw(st.integers(1, 12))):
        pick = st.sampled_from(values)
        kind = draw(st.integers(0, 5))
        if kind == 0:
            values.append(getattr(b, draw(st.sampled_from(UNARY)))(draw(pick)))
        elif kind == 1:
            values.append(getattr(b, draw(st.sampled_from(BINARY)))(draw(pick), draw(pick)))
        elif kind == 2:
            number = b.constant(draw(st.sampled_from(CONSTANTS)), FLOAT32)
            operands = draw(st.permutations([draw(pick), number]))
            values.append(getattr(b, draw(st.sampled_from(BINARY)))(*operands))
        elif kind == 3:
            values.append(b.Transpose(b.Transpose(draw(pick), perm=(1, 0)), perm=(1, 0)))
        elif kind == 4:
            values.append(b.Reshape(b.Unsqueeze(draw(pick), [draw(st.integers(0, 2))]), [-1, 3]))
        else:
            x = draw(pick)
            values.append(b.Reshape(b.Relu(x), b.Shape(draw(pick))))
    graph.set_outputs(draw(st.lists(st.sampled_from(values), min_size=1, max_size=3)))
    return graph


@settings(deadline=None)
@given(random_graphs(), st.booleans())
def test_any_graph_means_the_same_before_and_after(graph: Graph, exact: bool) -> None:
    original = parse_graph(format_graph(graph))
    report = simplify(graph, exact=exact)
    verify(graph)
    assert not report.incomplete
    assert [value.name for value in graph.outputs] == [value.name for value in original.outputs]
    inputs = [np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32) for seed in (1, 2)]
    inputs[0][0] = [np.nan, np.inf, -np.inf] if exact else [100.0, -100.0, 0.0]
    for old, new in zip(evaluate(original, inputs), evaluate(graph, inputs), strict=True):
        if exact:
            np.testing.assert_array_equal(new, old)
        else:
            np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-4)


@settings(deadline=None, max_examples=30)
@given(random_graphs())
def test_simplifying_again_changes_nothing(graph: Graph) -> None:
    simplify(graph)
    text = str(graph)
    report = simplify(graph)
    assert str(graph) == text
    assert report.rounds == 1


def test_with_everything_switched_off_the_graph_stays(random_inputs: Callable[..., list[np.ndarray]]) -> None:
    graph = parse_graph(SWISH)
    before, expected = str(graph), evaluate(graph, random_inputs(graph))
    simplify(graph, disable={each.name for each in PIPELINE})
    assert str(graph) == before
    np.testing.assert_array_equal(evaluate(graph, random_inputs(graph))[0], expected[0])
