"""What comes from another model into this one: constants, functions, operator sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from onnx import TensorProto

from intaglio.errors import InputError
from intaglio.tools.document import Document, Function, Node
from intaglio.tools.document.parts import copied, held_tensor, node_tensors, put_bytes
from intaglio.tools.document.weights import Weights, external_location
from intaglio.tools.editing.base import Commands
from intaglio.tools.editing.changes import Inserted
from intaglio.tools.editing.selection import call_key


class Foreign:
    """Brings parts of another document into the one that is edited."""

    def __init__(self, editor: Commands, other: Document, prefix: str) -> None:
        self._editor, self._other, self._prefix = editor, other, prefix
        self._functions: dict[tuple[str, str, str], str] = {}

    def bring_constants(self, chosen: Iterable[str], names: Mapping[str, str]) -> None:
        """Copy constants of the other graph under new names; those in files stay in files."""
        wanted, graph = set(chosen), self._editor.document.graph
        for tensor in self._other.graph.initializers:
            if tensor.name in wanted:
                new = self._moved(tensor)
                new.name = names.get(tensor.name, tensor.name)
                self._editor.journal.change(Inserted(graph.initializers, len(graph.initializers), new))
        for sparse in self._other.graph.sparse_initializers:
            if sparse.values.name in wanted:
                copy = copied(sparse)
                copy.values.name = names.get(sparse.values.name, sparse.values.name)
                self._editor.journal.change(Inserted(graph.sparse_initializers, len(graph.sparse_initializers), copy))

    def _moved(self, tensor: TensorProto) -> TensorProto:
        """A tensor of the other document as one of this: its data is where it was, and this document knows where."""
        document = self._editor.document
        held = self._other.held_bytes(tensor)
        if held is not None:
            return held_tensor(tensor, document.hold(held))
        location = external_location(tensor) if tensor.data_location == TensorProto.EXTERNAL else None
        new = copied(tensor)
        if location is None:
            return new
        place = self._other.origins.get(location, (self._other.folder, location))
        if place == document.origins.get(location, (document.folder, location)):
            return new
        name = self._location(location, place)
        document.origins[name] = place
        for entry in new.external_data:
            if entry.key == "location":
                entry.value = name
        return new

    def _location(self, location: str, place: tuple[Path | None, str]) -> str:
        """A name for a file of the other document that no other file of this one has."""
        taken = {external_location(each) for each in self._editor.document.tensors()} - {None}
        name, number = location, 1
        while name in taken and self._editor.document.origins.get(name) != place:
            number += 1
            name = f"{self._prefix or 'other'}{number}_{Path(location).name}"
        return name

    def bring_functions(self, functions: Iterable[Function]) -> None:
        """Copy functions; one whose name is taken by another function gets the prefix, or raises without one."""
        document = self._editor.document
        here = {function.key: function for function in document.functions}
        functions = list(functions)
        for function in _others(functions, here):
            domain, name, overload = function.key
            new = self._prefix + name
            if not self._prefix or (domain, new, overload) in here:
                raise InputError(f"both models have a function {name!r}, and they differ: give a prefix")
            self._functions[function.key] = new
        for function in functions:
            if function.key in here and function.key not in self._functions:
                continue
            new_function = Function.read(function.message(), document.numbers)
            new_function.shell.name = self._functions.get(function.key, function.shell.name)
            for node in new_function.nodes:
                self._rename_calls(node)
            self._editor.journal.change(Inserted(document.functions, len(document.functions), new_function))

    def called(self, node: Node) -> Node:
        """A node of the other document with the names that functions have here, and with its external data inside."""
        new = Node.read(node.message(), self._other.numbers)
        self._rename_calls(new)
        for tensor in node_tensors(new):
            if tensor.data_location == TensorProto.EXTERNAL:
                put_bytes(tensor, Weights(self._other).data(tensor))
        return new

    def _rename_calls(self, node: Node) -> None:
        key = call_key(node)
        if key in self._functions:
            node.shell.op_type = self._functions[key]
        for body in node.bodies():
            for inner in body.nodes:
                self._rename_calls(inner)

    def bring_imports(self, nodes: Iterable[Node]) -> None:
        """Let this document import every domain that some nodes are of; another version raises InputError."""
        domains: dict[str, None] = {}
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            domains["" if node.shell.domain == "ai.onnx" else node.shell.domain] = None
            waiting += [inner for body in node.bodies() for inner in body.nodes]
        for domain in domains:
            there, here = self._other.opset(domain), self._editor.document.opset(domain)
            if there is None:
                continue
            if here is None:
                self._editor.import_domain(domain, there)
            elif here != there:
                raise InputError(
                    f"the models import {domain or 'ai.onnx'} in versions {here} and {there}: set_opset one of them"
                )


def _others(functions: list[Function], here: Mapping[tuple[str, str, str], Function]) -> list[Function]:
    """The functions whose names are taken by functions that do something else, themselves or in what they call."""
    shared = [each for each in functions if each.key in here]
    found = {each.key: each for each in shared if here[each.key].message() != each.message()}
    while True:
        more = [each for each in shared if each.key not in found and not found.keys().isdisjoint(_called(each))]
        if not more:
            return list(found.values())
        found |= {each.key: each for each in more}


def _called(function: Function) -> set[tuple[str, str, str]]:
    inner = [node for each in function.nodes for body in each.bodies() for node in body.all_nodes()]
    return {call_key(node) for node in (*function.nodes, *inner)}
