"""How large a model is: nodes by operator, weights, bytes and work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto

from intaglio.ir.graph import Graph
from intaglio.onnx.writer import stored_bytes
from intaglio.tools.simplifying.written import Written


@dataclass
class Counts:
    """How large a model is. Nodes of bodies and functions are counted, and Constant is no node."""

    operators: dict[str, int]
    weights: int
    """The elements of all constants."""
    bytes: int
    """The bytes of all constants and of the message around them."""

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return sum(self.operators.values())


def counts_of_message(message: ModelProto, graph: Graph) -> Counts:
    """The size of a model as its file has it; `graph` is what was read from it."""
    nodes = [*_nodes(message.graph.node), *(each for f in message.functions for each in _nodes(f.node))]
    return _counts(nodes, graph, message)


def counts_of_graph(graph: Graph, result: Written) -> Counts:
    """The size of a model as it is written."""
    message = result.bare
    return _counts(_nodes(message.graph.node), graph, message)


def _counts(nodes: Iterable[NodeProto], graph: Graph, message: ModelProto) -> Counts:
    counted = Counter(_title(node) for node in nodes if node.op_type != "Constant")
    size = stored_bytes(graph) + len(_without_tensors(message).SerializeToString())
    weights = sum(value.constant.size for value in graph.constants() if value.constant is not None)
    return Counts(dict(counted.most_common()), weights, size)


def _title(node: NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _without_tensors(message: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.graph.node.extend(message.graph.node)
    copy.functions.extend(message.functions)
    return copy


def _nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            bodies: list[GraphProto] = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
            for body in bodies:
                yield from _nodes(body.node)
