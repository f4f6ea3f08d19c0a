"""Graphs as plain data, for pickling: no recursion over nodes, no cycles."""

from __future__ import annotations

from typing import Any

from intaglio.ir.graph import Graph, Node, Value


def graph_state(graph: Graph) -> dict[str, Any]:
    """Everything that a graph is, as lists of values and nodes that refer to each other by number."""
    numbers: dict[Value, int] = {}
    values: list[tuple[Any, ...]] = []

    def number(value: Value | None) -> int:
        if value is None:
            return -1
        if value not in numbers:
            numbers[value] = len(values)
            values.append(value.state())
        return numbers[value]

    def state(each: Graph) -> dict[str, Any]:
        inputs = [number(value) for value in each.inputs]
        nodes = [node_state(node) for node in each.nodes]
        outputs = [number(value) for value in each.outputs]
        return {"name": each.name, "doc": each.doc, "metadata": each.metadata, "inputs": inputs, "nodes": nodes,
                "outputs": outputs}  # fmt: skip

    def node_state(node: Node) -> tuple[Any, ...]:
        bodies = {name: state(body) for name, body in node.op.subgraphs()}
        op = node.op.changed(**dict.fromkeys(bodies)) if bodies else node.op  # pyright: ignore
        return op, bodies, [number(v) for v in node.inputs], [number(v) for v in node.outputs], node.origin

    return {"graph": state(graph), "values": values, "names": dict(graph.names)}


def graph_from_state(data: dict[str, Any]) -> Graph:
    """The inverse of `graph_state`."""
    values = [Value.from_state(state) for state in data["values"]]

    def build(state: dict[str, Any]) -> Graph:
        graph = Graph(state["name"])
        graph.doc, graph.metadata, graph.names = state["doc"], dict(state["metadata"]), data["names"]
        graph.inputs = [values[number] for number in state["inputs"]]
        for op, bodies, inputs, outputs, origin in state["nodes"]:
            whole = op.changed(**{name: build(body) for name, body in bodies.items()}) if bodies else op
            node = Node(whole, [None if number < 0 else values[number] for number in inputs], origin)
            node.outputs = tuple(values[number] for number in outputs)
            for value in node.outputs:
                value.producer = node
            graph.insert(node)
        graph.set_outputs(values[number] for number in state["outputs"])
        return graph

    return build(data["graph"])
