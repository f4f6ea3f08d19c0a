"""What all groups of commands share: the document, its journal, and changes that several of them make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto, OperatorSetIdProto, TensorProto, helper

from intaglio.onnx.reader import Source
from intaglio.onnx.write_tensors import TensorWriter
from intaglio.tools.document import Attribute, Document, Graph, Node, read_document
from intaglio.tools.document.parts import copied
from intaglio.tools.editing.changes import Inserted, Refilled, Removed, Rewritten
from intaglio.tools.editing.journal import Journal
from intaglio.tools.editing.selection import constants_of, select

Other: TypeAlias = Source | Document
"""Another model: a path, bytes, a message or a document."""

OVERRIDABLE = 4
"""From this IR version on, a constant need not be an input of the graph too."""


class Commands:
    """A document, and what was done to it."""

    document: Document
    journal: Journal

    def refill(self, items: list[Any], after: Sequence[Any]) -> None:
        """Let a list hold other items, where they are others."""
        if len(items) != len(after) or any(one is not other for one, other in zip(items, after, strict=True)):
            self.journal.change(Refilled(items, list(items), list(after)))

    def rewrite(self, owner: Any, shell: Any) -> None:
        """Give an object another shell."""
        self.journal.change(Rewritten(owner, owner.shell, shell))

    def import_domain(self, domain: str, version: int) -> None:
        """Let the document import an operator set in a version, in place of the one that it has."""
        shell = copied(self.document.shell)
        names = ("", "ai.onnx") if domain in ("", "ai.onnx") else (domain,)
        entry = next((each for each in shell.opset_import if each.domain in names), None)
        if entry is None:
            shell.opset_import.append(OperatorSetIdProto(domain=domain, version=version))
        elif entry.version == version:
            return
        else:
            entry.version = version
        self.rewrite(self.document, shell)

    def raise_ir_version(self, version: int) -> None:
        """Let the document be of at least this IR version."""
        if self.document.shell.ir_version < version:
            shell = copied(self.document.shell)
            shell.ir_version = version
            self.rewrite(self.document, shell)

    def add_constant(self, name: str, array: Any, members: list[Node] | None = None, place: int = 0) -> None:
        """Add a constant: an initializer, or a Constant node in a list of nodes or in files that know no other way."""
        tensor = TensorWriter().write(name, np.asarray(array))
        if members is None and self.document.shell.ir_version >= OVERRIDABLE:
            initializers = self.document.graph.initializers
            self.journal.change(Inserted(initializers, len(initializers), tensor))
            return
        nodes = self.document.graph.nodes if members is None else members
        self.insert(constant_node(self.document, tensor), nodes, place)

    def insert(self, node: Node, members: list[Node], place: int) -> None:
        """Put a new node into a list."""
        self.journal.change(Inserted(members, place, node))

    def unused(self) -> Unused:
        """What nobody needs at the moment, so that it can be left alone when more becomes unused."""
        return Unused(self.document.graph)

    def remove_unused(self, before: Unused) -> None:
        """Take out the nodes and constants that became unused since `before`."""
        graph = self.document.graph
        now = Unused(graph)
        self.refill(graph.nodes, [n for n in graph.nodes if n.number not in now.nodes or n.number in before.nodes])
        gone = now.constants - before.constants
        self.refill(graph.initializers, [each for each in graph.initializers if each.name not in gone])
        kept = [each for each in graph.sparse_initializers if each.values.name not in gone]
        self.refill(graph.sparse_initializers, kept)
        self.drop_infos()

    def drop_infos(self) -> None:
        """Take out what is said about values that are not there."""
        graph = self.document.graph
        made = {name for node in graph.nodes for name in node.shell.output} | set(constants_of(graph))
        self.refill(graph.infos, [info for info in graph.infos if info.name in made])

    def remove_node(self, node: Node, members: list[Node]) -> None:
        """Take a node out of its list."""
        self.journal.change(Removed(members, members.index(node), node))


class Unused:
    """The nodes and constants of a graph that no output needs."""

    def __init__(self, graph: Graph) -> None:
        known = {name for node in graph.nodes for name in node.shell.output}
        known |= {info.name for info in graph.inputs} | set(constants_of(graph))
        part = select(graph, (), [info.name for info in graph.outputs if info.name in known])
        self.nodes = {node.number for node in graph.nodes} - {node.number for node in part.nodes}
        self.constants = set(constants_of(graph)) - set(part.constants)
        self.needed = {*part.inputs, *part.constants}


def constant_node(document: Document, tensor: TensorProto) -> Node:
    """A node that makes a constant."""
    shell = NodeProto(op_type="Constant", output=[tensor.name])
    return Node(document.numbers.take(), shell, [Attribute(helper.make_attribute("value", tensor))])


def opened(other: Other) -> Document:
    """Another model as a document of its own that may be changed."""
    return other.copy() if isinstance(other, Document) else read_document(other)
