"""Less memory for the backward pass: elementwise values are computed again there, from what is kept anyway."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from intaglio.ir.graph import Graph, Node, Value


def recompute_elementwise(graph: Graph, first: Node) -> int:
    """Let the nodes from `first` on compute anew what they read of the elementwise nodes before; returns how many.

    A value is computed anew where that needs only inputs, constants, outputs and values that are kept in any case,
    since a later node reads them and they are dear. The copies stand beside the nodes that read them, so that both
    become one kernel.
    """
    forward, backward = _parted(graph, first)
    read = {value for node in backward for value in (*node.inputs, *node.captures()) if value is not None}
    again = _computable(graph, forward, read)
    copies: dict[Value, Value] = {}
    for node in backward:
        for position, value in enumerate(node.inputs):
            if value is not None and value in again:
                node.set_input(position, _copied(graph, value, again, copies, node))
    return len(copies)


def _parted(graph: Graph, first: Node) -> tuple[list[Node], list[Node]]:
    nodes = list(graph.nodes)
    place = nodes.index(first)
    return nodes[:place], nodes[place:]


def _computable(graph: Graph, forward: Iterable[Node], read: set[Value]) -> set[Value]:
    """The values of cheap nodes that follow from what is kept in any case."""
    kept, again = set(graph.inputs), set[Value]()
    for node in forward:
        operands = [value for value in node.inputs if value is not None and value.constant is None]
        is_known = _is_cheap(node) and all(value in kept or value in again for value in operands)
        for value in node.outputs:
            if value.is_output or (not is_known and value in read):
                kept.add(value)
            elif is_known:
                again.add(value)
    return again


def _is_cheap(node: Node) -> bool:
    return (node.op.is_elementwise or node.op.is_view) and len(node.outputs) == 1


def _copied(graph: Graph, value: Value, again: set[Value], copies: dict[Value, Value], before: Node) -> Value:
    """The copy of a value, with what it needs, in front of the first node that reads it."""
    stack: list[Value] = [value]
    while stack:
        producer = stack[-1].producer
        assert producer is not None
        needed = _missing(producer.inputs, again, copies)
        if needed:
            stack += needed
            continue
        old = stack.pop()
        if old not in copies:
            copies[old] = _copy(graph, producer, copies, before)
    return copies[value]


def _missing(inputs: Sequence[Value | None], again: set[Value], copies: dict[Value, Value]) -> list[Value]:
    return [value for value in inputs if value is not None and value in again and value not in copies]


def _copy(graph: Graph, node: Node, copies: dict[Value, Value], before: Node) -> Value:
    inputs = [None if value is None else copies.get(value, value) for value in node.inputs]
    copy, (old,) = Node(node.op, inputs, node.origin.recomputed()), node.outputs
    result = Value(graph.unique_name(f"{old.name}.again"), old.type, copy)
    result.contents = old.contents
    copy.outputs = (result,)
    graph.insert(copy, before)
    return result
