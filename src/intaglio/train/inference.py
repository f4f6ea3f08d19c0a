"""Models that were exported in training mode, as they are used: what is predicted, measured and saved."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Node, Value


def leave_training_mode(graph: Graph) -> None:
    """Make nodes that a file has in training mode compute what they compute in use; the graph is changed.

    Batches are normalized by the running statistics, and nothing is dropped. Running statistics that are outputs are
    those that the layer was given.
    """
    for node in graph.all_nodes():
        if node.op.domain == "" and node.op.name == "Dropout":
            _leave_dropout(node)
        elif node.op.domain == "" and node.op.name == "BatchNormalization" and node.op.training_mode:
            _leave_normalization(node)


def _leave_dropout(node: Node) -> None:
    """A mode that a constant decides is left out; one that is fed is the user's."""
    mode = node.optional(2)
    if mode is not None and mode.constant is not None:
        node.set_inputs(node.inputs[:2])


def _leave_normalization(node: Node) -> None:
    graph = node.graph
    assert graph is not None
    builder = Builder(graph, before=node, origin=node.origin)
    (made,) = builder.add(node.op.changed(training_mode=0), list(node.inputs), 1)
    for old, new in zip(node.outputs, (made, node.needed(3), node.needed(4)), strict=False):
        _take_over(builder, old, new)
    graph.remove(node)


def _take_over(builder: Builder, old: Value, new: Value) -> None:
    """Put a value in the place of another, under the name that a reader of the model knows."""
    if old.is_output and new.producer is None:
        new = builder.Identity(new)
    old.replace_uses(new)
    if new.is_output:
        new.name, old.name = old.name, new.name
