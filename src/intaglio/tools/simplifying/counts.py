"""How large a model is: nodes by operator, weights, bytes and work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Graph
from intaglio.onnx.wire import LARGE
from intaglio.onnx.write_tensors import stored_size
from intaglio.ops.counting import total
from intaglio.tools.simplifying.written import Written


@dataclass
class Counts:
    """How large a model is. Nodes of bodies and functions are counted, and Constant is no node."""

    operators: dict[str, int]
    weights: int
    """The elements of all constants."""
    bytes: int
    """The bytes of all constants and of the message around them."""
    macs: str
    """Multiplications with additions, as a formula of the open sizes."""
    flops: str
    """Operations."""

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return sum(self.operators.values())


def counts_of_message(message: ModelProto, graph: Graph, others: int) -> Counts:
    """The size of a model as its file has it; `graph` is what was read from it, `others` the bytes outside of it."""
    nodes = [*_nodes(message.graph.node), *(each for f in message.functions for each in _nodes(f.node))]
    return _counts(nodes, graph, message.ByteSize() + others)


def counts_of_graph(graph: Graph, result: Written) -> Counts:
    """The size of a model as it is written."""
    arrays = [*(value.constant for value in graph.constants()), *(value.default for value in graph.inputs)]
    held = [size for array in arrays if array is not None and (size := stored_size(array)) >= LARGE]
    return _counts(_nodes(result.bare.graph.node), graph, result.bare.ByteSize() + sum(held))


def _counts(nodes: Iterable[NodeProto], graph: Graph, size: int) -> Counts:
    counted = Counter(_title(node) for node in nodes if node.op_type != "Constant")
    weights = sum(value.constant.size for value in graph.constants() if value.constant is not None)
    work = total(graph)
    return Counts(dict(counted.most_common()), weights, size, shown(work.macs), shown(work.flops))


def shown(work: Dim) -> str:
    """Work for people."""
    return f"{work:,}" if isinstance(work, int) else str(work)


def _title(node: NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            bodies: list[GraphProto] = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
            for body in bodies:
                yield from _nodes(body.node)
