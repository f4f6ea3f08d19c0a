"""`expand_until`: one way from operators to those that somebody handles."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from intaglio.errors import LimitError, UnsupportedError
from intaglio.ir.clone import clone
from intaglio.ir.expand import expand_until
from intaglio.ir.graph import Graph, Node
from intaglio.ir.limits import Limits, within
from intaglio.ir.verify import verify
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate


def read(text: str) -> Graph:
    return read_model(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]> {text}')).graph


MODEL = """g (float[n] x, bool c) => (float[n] y) {
    t = Mish(x)
    y = If (c) <then_branch = t () => (float[n] p) { p = Gelu(t) },
        else_branch = e () => (float[n] q) { q = Exp(t) }> }"""


def is_leaf(node: Node) -> bool:
    return not node.op.has("expand")


def test_everything_is_expanded_down_to_leaves() -> None:
    graph = read(MODEL)
    before = clone(graph)
    assert not expand_until(graph, is_leaf, bodies=True)
    verify(graph)
    assert all(is_leaf(node) for node in graph.all_nodes())
    x = np.linspace(-2, 2, 5, dtype=np.float32)
    for chosen in (True, False):
        expected = evaluate(before, [x, np.array(chosen)])
        result = evaluate(graph, [x, np.array(chosen)])
        np.testing.assert_allclose(result[0], expected[0], rtol=1e-6)  # a reference may round less often


def test_what_is_handled_stays_and_bodies_are_left_alone_unless_asked_for() -> None:
    graph = read(MODEL)
    expand_until(graph, lambda node: node.op.name in ("Mish", "If"))
    assert sorted(node.op.name for node in graph.all_nodes()) == ["Exp", "Gelu", "If", "Mish"]


def test_nodes_without_expansion_are_told_and_leave_nothing_behind() -> None:
    graph = read("g (float[n] x) => (float[n] y) { t = Exp(x) y = Mish(t) }")

    def expand(node: Node) -> None:
        from intaglio.ir.build import Builder

        Builder(graph, before=node).Relu(node.input)
        raise UnsupportedError(f"{node.op.name} is not for me")

    refused = expand_until(graph, lambda node: node.op.name == "Exp", expand=expand)
    assert {node.op.name: reason for node, reason in refused.items()} == {"Mish": "Mish is not for me"}
    assert [node.op.name for node in graph.nodes] == ["Exp", "Mish"]
    assert list(expand_until(graph, lambda node: False)) != []


def test_only_the_nodes_that_are_given_are_looked_at() -> None:
    graph = read("g (float[n] x) => (float[n] y) { t = Mish(x) y = Mish(t) }")
    first = next(iter(graph.nodes))
    assert not expand_until([first], lambda node: False)
    assert [node.op.name for node in graph.nodes].count("Mish") == 1
    assert any(not is_leaf(node) for node in graph.nodes)


def test_the_limit_on_nodes_holds() -> None:
    graph = read("g (float[n] x) => (float[n] y) { y = Mish(x) }")
    with within(Limits(nodes=2)), pytest.raises(LimitError, match="nodes"):
        expand_until(graph, is_leaf)
