"""The parts of an ONNX file as objects that can be listed, moved and changed one by one.

Each object holds a **shell**: its protobuf message without the parts that are objects themselves. So whatever the
message has, fields that this version of `onnx` does not know included, is written back as it was read.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
)

Message = TypeVar("Message", bound=Any)


def copied(message: Message) -> Message:
    """A message of its own that equals this one."""
    new = type(message)()
    new.CopyFrom(message)
    return new


def shell_of(message: Message, *parts: str) -> Message:
    """A copy of a message without some of its fields; fields that nobody knows are kept."""
    new = copied(message)
    for name in parts:
        new.ClearField(name)
    return new


class Numbers:
    """Gives each node of a document a number that stays the node's own, whatever is changed around it."""

    def __init__(self) -> None:
        self._next = itertools.count()

    def take(self) -> int:
        """A number that no node has."""
        return next(self._next)


@dataclass(eq=False)
class Attribute:
    """An attribute of a node; its graphs are objects."""

    shell: AttributeProto
    graph: Graph | None = None
    graphs: list[Graph] = field(default_factory=list["Graph"])

    @classmethod
    def read(cls, message: AttributeProto, numbers: Numbers) -> Attribute:
        """The attribute that a message holds."""
        if not message.HasField("g") and not message.graphs:
            return cls(copied(message))
        graph = Graph.read(message.g, numbers) if message.HasField("g") else None
        return cls(shell_of(message, "g", "graphs"), graph, [Graph.read(each, numbers) for each in message.graphs])

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.shell.name

    def bodies(self) -> list[Graph]:
        """All graphs that the attribute holds."""
        return [*([] if self.graph is None else [self.graph]), *self.graphs]

    def message(self) -> AttributeProto:
        """The attribute as a message."""
        new = copied(self.shell)
        if self.graph is not None:
            new.g.CopyFrom(self.graph.message())
        new.graphs.extend(each.message() for each in self.graphs)
        return new


@dataclass(eq=False)
class Node:
    """A node. `number` is its own in the document, and stays when the node is changed, deleted and restored."""

    number: int
    shell: NodeProto
    attributes: list[Attribute] = field(default_factory=list[Attribute])

    @classmethod
    def read(cls, message: NodeProto, numbers: Numbers) -> Node:
        """The node that a message holds."""
        number = numbers.take()
        return cls(
            number, shell_of(message, "attribute"), [Attribute.read(each, numbers) for each in message.attribute]
        )

    @property
    def name(self) -> str:
        """The name in the file, which may be empty or that of another node too."""
        return self.shell.name

    @property
    def operator(self) -> str:
        """The operator's name, behind its domain where that is not ONNX's own."""
        domain = self.shell.domain
        return self.shell.op_type if domain in ("", "ai.onnx") else f"{domain}.{self.shell.op_type}"

    @property
    def inputs(self) -> list[str]:
        """The names of what the node reads; an empty name stands for an input that is left out."""
        return list(self.shell.input)

    @property
    def outputs(self) -> list[str]:
        """The names of what the node makes; an empty name stands for an output that nobody wants."""
        return list(self.shell.output)

    def attribute(self, name: str) -> Attribute | None:
        """The first attribute of this name."""
        return next((each for each in self.attributes if each.name == name), None)

    def bodies(self) -> list[Graph]:
        """The graphs in the node's attributes."""
        return [graph for attribute in self.attributes for graph in attribute.bodies()]

    def message(self) -> NodeProto:
        """The node as a message."""
        new = copied(self.shell)
        new.attribute.extend(each.message() for each in self.attributes)
        return new


@dataclass(eq=False)
class Graph:
    """A graph: the model's own, or one in an attribute of a node."""

    shell: GraphProto
    nodes: list[Node] = field(default_factory=list[Node])
    inputs: list[ValueInfoProto] = field(default_factory=list[ValueInfoProto])
    outputs: list[ValueInfoProto] = field(default_factory=list[ValueInfoProto])
    infos: list[ValueInfoProto] = field(default_factory=list[ValueInfoProto])
    """What the file says about the types of values in between."""
    initializers: list[TensorProto] = field(default_factory=list[TensorProto])
    sparse_initializers: list[SparseTensorProto] = field(default_factory=list[SparseTensorProto])

    FIELDS = ("input", "output", "value_info", "initializer", "sparse_initializer")

    @classmethod
    def read(cls, message: GraphProto, numbers: Numbers) -> Graph:
        """The graph that a message holds."""
        nodes = [Node.read(each, numbers) for each in message.node]
        lists = [[copied(each) for each in getattr(message, name)] for name in cls.FIELDS]
        return cls(shell_of(message, "node", *cls.FIELDS), nodes, *lists)

    def message(self) -> GraphProto:
        """The graph as a message."""
        new = copied(self.shell)
        new.node.extend(node.message() for node in self.nodes)
        lists = (self.inputs, self.outputs, self.infos, self.initializers, self.sparse_initializers)
        for name, members in zip(self.FIELDS, lists, strict=True):
            getattr(new, name).extend(members)
        return new

    def all_nodes(self) -> Iterator[Node]:
        """The nodes of the graph and of all graphs in them, each before those inside of it."""
        for graph in self.all_graphs():
            yield from graph.nodes

    def all_graphs(self) -> Iterator[Graph]:
        """This graph and all graphs in its nodes."""
        waiting = [self]
        while waiting:
            graph = waiting.pop()
            yield graph
            waiting += [body for node in graph.nodes for body in node.bodies()]


@dataclass(eq=False)
class Function:
    """A function of the file, of which nodes may be calls."""

    shell: FunctionProto
    nodes: list[Node] = field(default_factory=list[Node])

    @classmethod
    def read(cls, message: FunctionProto, numbers: Numbers) -> Function:
        """The function that a message holds."""
        return cls(shell_of(message, "node"), [Node.read(each, numbers) for each in message.node])

    @property
    def key(self) -> tuple[str, str, str]:
        """The domain, name and overload by which nodes call the function."""
        return ("" if self.shell.domain == "ai.onnx" else self.shell.domain, self.shell.name, self.shell.overload)

    def message(self) -> FunctionProto:
        """The function as a message."""
        new = copied(self.shell)
        new.node.extend(node.message() for node in self.nodes)
        return new


@dataclass(eq=False)
class Document:
    """An ONNX file as it is. Large weights stay in the mapped file until somebody asks for their bytes."""

    shell: ModelProto
    graph: Graph
    functions: list[Function]
    numbers: Numbers
    has_graph: bool = True
    path: Path | None = None
    folder: Path | None = None
    """Where external data is; None for a model that is not a file."""
    held: dict[str, memoryview] = field(default_factory=dict[str, memoryview])
    """The bytes of large weights that go into the file itself, by the location that stands for them in memory."""
    origins: dict[str, tuple[Path | None, str]] = field(default_factory=dict[str, tuple[Path | None, str]])
    """Files of external data that are elsewhere than in `folder`: the folder and the name there, by location."""

    @classmethod
    def read(cls, message: ModelProto) -> Document:
        """The document that a message holds."""
        numbers = Numbers()
        graph = Graph.read(message.graph, numbers)
        functions = [Function.read(each, numbers) for each in message.functions]
        shell = shell_of(message, "graph", "functions")
        return cls(shell, graph, functions, numbers, message.HasField("graph"))

    def copy(self) -> Document:
        """A document of its own that equals this one. It shares what large weights are mapped from."""
        new = Document.read(self.bare_message())
        new.path, new.folder, new.has_graph = self.path, self.folder, self.has_graph
        new.held, new.origins = dict(self.held), dict(self.origins)
        return new

    def message(self) -> ModelProto:
        """The whole as one message with all weights that are in the file; external data stays external."""
        return self.filled(self.bare_message())

    def bare_message(self) -> ModelProto:
        """The whole as a message in which large weights are locations that only this document knows."""
        new = copied(self.shell)
        if self.has_graph:
            new.graph.CopyFrom(self.graph.message())
        new.functions.extend(each.message() for each in self.functions)
        return new

    def filled(self, message: ModelProto) -> ModelProto:
        """Put the bytes of large weights into a message that was made without them."""
        for tensor in message.graph.initializer:
            data = self.held_bytes(tensor)
            if data is not None:
                put_bytes(tensor, data)
        return message

    def held_bytes(self, tensor: TensorProto) -> memoryview | None:
        """The bytes of a large weight of the file itself; None for any other tensor."""
        if tensor.data_location != TensorProto.EXTERNAL or len(tensor.external_data) != 1:
            return None
        return self.held.get(tensor.external_data[0].value)

    def hold(self, data: memoryview) -> str:
        """Keep the bytes of a weight that shall go into the file; returns the location that stands for them."""
        location = f"\0{secrets.token_hex(16)}/{len(self.held)}"
        self.held[location] = data
        return location

    def tensors(self) -> Iterator[TensorProto]:
        """All tensors of the file: initializers and those in attributes, dense ones and parts of sparse ones."""
        graphs = [*self.graph.all_graphs(), *_graphs_of(each.nodes for each in self.functions)]
        for graph in graphs:
            yield from graph.initializers
            for sparse in graph.sparse_initializers:
                yield from (sparse.values, sparse.indices)
        nodes = [node for graph in graphs for node in graph.nodes]
        nodes += [node for function in self.functions for node in function.nodes]
        for attribute in itertools.chain.from_iterable(node.attributes for node in nodes):
            yield from attribute_tensors(attribute.shell)

    def all_nodes(self) -> Iterator[Node]:
        """Every node, those of bodies and functions included."""
        yield from self.graph.all_nodes()
        for function in self.functions:
            yield from function.nodes
        for graph in _graphs_of(each.nodes for each in self.functions):
            yield from graph.nodes

    def opset(self, domain: str = "") -> int | None:
        """The version of an operator set that the file imports."""
        names = ("", "ai.onnx") if domain in ("", "ai.onnx") else (domain,)
        return next((entry.version for entry in self.shell.opset_import if entry.domain in names), None)


def _graphs_of(lists: Iterable[list[Node]]) -> Iterator[Graph]:
    for nodes in lists:
        for node in nodes:
            for body in node.bodies():
                yield from body.all_graphs()


def node_tensors(node: Node) -> Iterator[TensorProto]:
    """The tensors in the attributes of a node and in its bodies."""
    for attribute in node.attributes:
        yield from attribute_tensors(attribute.shell)
    for body in node.bodies():
        yield from body.initializers
        for sparse in body.sparse_initializers:
            yield from (sparse.values, sparse.indices)
        for inner in body.nodes:
            yield from node_tensors(inner)


def attribute_tensors(attribute: AttributeProto) -> Iterator[TensorProto]:
    """The tensors in an attribute, without those of its graphs."""
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    sparse = [*attribute.sparse_tensors, *([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else [])]
    for each in sparse:
        yield from (each.values, each.indices)


def held_tensor(tensor: TensorProto, location: str) -> TensorProto:
    """A copy of a tensor whose data is what a document holds under a location."""
    new = TensorProto()
    new.CopyFrom(tensor)
    for name in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data"):
        new.ClearField(name)
    new.data_location = TensorProto.EXTERNAL
    new.external_data.add(key="location", value=location)
    return new


def put_bytes(tensor: TensorProto, data: Any) -> None:
    """Store the data of a tensor inside of it."""
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")
    tensor.raw_data = bytes(data)
