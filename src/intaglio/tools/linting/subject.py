"""What rules look at: the file as it is, the graph that is read of it, and the plan for it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from onnx import TensorProto, defs

from intaglio.errors import IntaglioError
from intaglio.ir.clone import clone
from intaglio.ir.graph import Graph, Value
from intaglio.onnx.external import ExternalData
from intaglio.onnx.reader import check_model, read_model
from intaglio.onnx.schema import find_schema
from intaglio.onnx.scope import Problem
from intaglio.passes import simplify
from intaglio.runtime.engine.native import NativeEngine
from intaglio.tools.cutting.cut import reads_of, weight_array
from intaglio.tools.document import Document, Node

Array = np.ndarray[Any, Any]


class Subject:
    """A model under examination; what takes long is found when a rule first asks for it."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.external = ExternalData(document.folder)
        functions = [node for each in document.functions for node in each.nodes]
        inner = [graph for node in functions for body in node.bodies() for graph in body.all_graphs()]
        self.nodes: list[Node] = [
            *document.graph.all_nodes(),
            *functions,
            *(node for graph in inner for node in graph.nodes),
        ]
        """All nodes, those of bodies and functions included."""

    @cached_property
    def problems(self) -> list[Problem]:
        """What stops the model from being read."""
        return check_model(self._message, base_folder=self.document.folder)

    @cached_property
    def graph(self) -> Graph | None:
        """The graph with all types; None where the model cannot be read."""
        return None if self.problems else read_model(self._message, base_folder=self.document.folder).graph

    @cached_property
    def _message(self) -> Any:
        return self.document.message()

    @cached_property
    def engine(self) -> NativeEngine | None:
        """The plan of the model, of which nothing is compiled; None where there is none."""
        if self.graph is None:
            return None
        graph = clone(self.graph)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                simplify(graph)
                return NativeEngine(graph, 1)
        except IntaglioError:
            return None

    @cached_property
    def values(self) -> dict[str, Value]:
        """The values of the graph by name."""
        if self.graph is None:
            return {}
        return {value.name: value for value in (*self.graph.constants(), *self.graph.values())}

    def weights(self) -> Iterator[tuple[str, Array]]:
        """The initializers of the model's own graph that can be read, by name, one at a time."""
        for tensor in self.document.graph.initializers:
            array = self.array(tensor)
            if array is not None:
                yield tensor.name, array

    def array(self, tensor: TensorProto) -> Array | None:
        """The elements of a tensor; None where they cannot be read."""
        try:
            return weight_array(self.document, tensor, self.external)
        except IntaglioError:
            return None

    def constant(self, name: str) -> Array | None:
        """A value that is known before the run: an initializer, or what a Constant node holds."""
        value = self.values.get(name)
        return None if value is None else value.constant

    def version(self, node: Node) -> int | None:
        """The version of the node's operator set that the file imports."""
        return self.document.opset(node.shell.domain)

    def schema(self, node: Node) -> defs.OpSchema | None:
        """The definition of the node's operator; None where it has none."""
        version = self.version(node)
        domain = "" if node.shell.domain == "ai.onnx" else node.shell.domain
        return None if version is None else find_schema(domain, node.shell.op_type, version)  # pyright: ignore[reportReturnType]

    @cached_property
    def read(self) -> set[str]:
        """The names that some node of the model's own graph reads, and those of its outputs."""
        found = {info.name for info in self.document.graph.outputs}
        for node in self.document.graph.nodes:
            found.update(reads_of(node))
        return found

    def readers(self, name: str) -> list[Node]:
        """The nodes that read a value."""
        return [node for node in self.nodes if name in node.shell.input]

    def maker(self, name: str) -> Node | None:
        """The node that makes a value."""
        return self._makers.get(name)

    @cached_property
    def _makers(self) -> dict[str, Node]:
        return {name: node for node in self.nodes for name in node.shell.output if name}


def title(node: Node) -> str:
    """How a node is named in findings."""
    label = node.name or (f"%{node.outputs[0]}" if node.outputs else f"#{node.number}")
    return f"{label} ({node.operator})"


def attribute_int(node: Node, name: str, default: int = 0) -> int:
    """A whole number that is an attribute."""
    found = node.attribute(name)
    return default if found is None else int(found.shell.i)


def attribute_text(node: Node, name: str, default: str = "") -> str:
    """A text that is an attribute."""
    found = node.attribute(name)
    return default if found is None else found.shell.s.decode("utf-8", "replace")
