"""Control flow that is decided before the run."""

from __future__ import annotations

from typing import cast

from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Node, Value
from intaglio.passes.driver import Refusal, Result, rule


@rule("If")
def constant_condition(b: Builder, node: Node) -> Result:
    """if true then a else b -> a; if false then a else b -> b"""
    condition = node.input.constant
    if condition is None:
        return None
    if condition.size != 1:
        return Refusal(f"the condition has {condition.size} elements")
    name = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    return splice(cast("Graph", getattr(node.op, name)), b.graph, node)


def splice(inner: Graph, graph: Graph, before: Node) -> tuple[Value, ...]:
    """Move the nodes of a graph without inputs into another one and return its outputs; `inner` is empty then."""
    outputs = inner.outputs
    inner.set_outputs(())
    for node in list(inner.nodes):
        inner._unlink(node)
        graph.insert(node, before)
    return outputs
