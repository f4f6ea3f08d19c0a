"""Removal of nodes whose outputs nobody reads."""

from __future__ import annotations

from intaglio.ir.graph import Graph, Node
from intaglio.passes.driver import Event, Outcome, Stays, is_dead, nothing_stays, remove_dead


def remove_dead_code(graph: Graph, stays: Stays = nothing_stays) -> Outcome:
    """A node that nobody reads -> nothing; also in subgraphs."""
    outcome = Outcome()
    while dead := [node for node in graph.all_nodes() if is_dead(node) and not stays(node)]:
        outcome.applied += [Event("dead-code", _place(node)) for node in dead]
        remove_dead(dead, stays)
    return outcome


def _place(node: Node) -> str:
    return node.origin.path or f"%{node.outputs[0].name}"
