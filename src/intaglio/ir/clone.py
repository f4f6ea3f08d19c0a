"""Copying graphs. Constants are shared, everything else is new."""

from __future__ import annotations

from intaglio.ir.graph import Graph, Node, Value


def clone(graph: Graph) -> Graph:
    """A copy of a graph that can be changed without touching the original."""
    return clone_with_values(graph)[0]


def clone_with_values(graph: Graph) -> tuple[Graph, dict[Value, Value]]:
    """A copy of a graph, and which of its values stands for which of the original's."""
    values: dict[Value, Value] = {}
    names: dict[str, int] = dict(graph.names)
    return _clone(graph, values, names), values


def _clone(graph: Graph, values: dict[Value, Value], names: dict[str, int]) -> Graph:
    result = Graph(graph.name)
    result.doc, result.metadata, result.names = graph.doc, dict(graph.metadata), names
    result.inputs = [_copy_value(value, values) for value in graph.inputs]
    for node in graph.nodes:
        _clone_node(node, result, values, names)
    result.set_outputs(_lookup(value, values) for value in graph.outputs)
    return result


def _clone_node(node: Node, into: Graph, values: dict[Value, Value], names: dict[str, int]) -> None:
    bodies = {name: _clone(body, values, names) for name, body in node.op.subgraphs()}
    op = node.op.changed(**bodies) if bodies else node.op  # pyright: ignore[reportArgumentType, reportCallIssue]
    copy = Node(op, [None if value is None else _lookup(value, values) for value in node.inputs], node.origin)
    copy.outputs = tuple(_copy_value(value, values, copy) for value in node.outputs)
    into.insert(copy)


def _lookup(value: Value, values: dict[Value, Value]) -> Value:
    if value not in values:
        _copy_value(value, values)
    return values[value]


def _copy_value(value: Value, values: dict[Value, Value], producer: Node | None = None) -> Value:
    copy = Value.from_state(value.state(), producer)
    values[value] = copy
    return copy


def clone_into(source: Graph, into: Graph, values: dict[Value, Value]) -> list[Value]:
    """Copy the nodes of a graph to the end of another, under names of their own; returns what its outputs became.

    `values` says what stands for the inputs of the source, and learns what stands for the rest. What the source reads
    from outside stays what it is.
    """
    for node in source.nodes:
        bodies = {name: _clone_body(body, into, values) for name, body in node.op.subgraphs()}
        op = node.op.changed(**bodies) if bodies else node.op  # pyright: ignore[reportArgumentType, reportCallIssue]
        copy = Node(op, [None if value is None else values.get(value, value) for value in node.inputs], node.origin)
        copy.outputs = tuple(_renamed(value, into, values, copy) for value in node.outputs)
        into.insert(copy)
    return [values.get(value, value) for value in source.outputs]


def _clone_body(body: Graph, outer: Graph, values: dict[Value, Value]) -> Graph:
    result = Graph(body.name, outer=outer)
    result.doc, result.metadata = body.doc, dict(body.metadata)
    result.inputs = [_renamed(value, result, values) for value in body.inputs]
    result.set_outputs(clone_into(body, result, values))
    return result


def _renamed(value: Value, graph: Graph, values: dict[Value, Value], producer: Node | None = None) -> Value:
    copy = _copy_value(value, values, producer)
    copy.name = graph.unique_name(value.name)
    return copy
