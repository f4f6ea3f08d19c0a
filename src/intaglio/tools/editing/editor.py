"""`Editor`: a document, what was done to it, and what can be done to it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, TensorShapeProto, ValueInfoProto, helper

from intaglio.errors import InputError
from intaglio.ir.dtype import DTYPES
from intaglio.onnx.reader import Source, check_message
from intaglio.onnx.scope import Problem
from intaglio.onnx.write_tensors import TensorWriter
from intaglio.tools.document import Attribute, Document, Graph, Node, read_document, save_document
from intaglio.tools.document.parts import copied
from intaglio.tools.document.weights import bare_parts
from intaglio.tools.editing.changes import Inserted, Removed, Replaced, Rewritten
from intaglio.tools.editing.inline_commands import InlineCommands
from intaglio.tools.editing.journal import Journal, command
from intaglio.tools.editing.merge_commands import MergeCommands
from intaglio.tools.editing.names import defined, did_you_mean, find_node, graph_of, nodes_of, reach, readers
from intaglio.tools.editing.part_commands import PartCommands
from intaglio.tools.editing.type_commands import TypeCommands
from intaglio.tools.editing.types import type_text, value_types

Size = int | str | None
"""A dimension: a number, a name, or None where nothing is known of it."""
Key = int | str
"""How a node is named: by its number, or by its name where no other node has it."""


def edit(
    source: Source | Document, *, base_folder: str | os.PathLike[str] | None = None, strict: bool = False
) -> Editor:
    """Open an ONNX file to change it. Files that cannot be run are opened too.

    With `strict`, a command that leaves a fault which was not there before raises InputError and does nothing.
    """
    document = source if isinstance(source, Document) else read_document(source, base_folder=base_folder)
    return Editor(document, strict=strict)


class Editor(PartCommands, MergeCommands, InlineCommands, TypeCommands):
    """Changes a document by commands, each of which can be undone.

    A command either does all that it says or raises InputError and does nothing. The graph may be broken in between:
    `faults()` lists everything that is wrong with it at the moment.
    """

    def __init__(self, document: Document, *, strict: bool = False) -> None:
        self.document = document
        self.journal = Journal()
        if strict:
            self.journal.check = self._check_faults
            self._known_faults = {str(fault) for fault in self.faults()}

    def _check_faults(self) -> None:
        faults = {str(fault) for fault in self.faults()}
        new = sorted(faults - self._known_faults)
        if new:
            raise InputError("\n".join(["the change would break the model:", *(f"  {text}" for text in new[:20])]))
        self._known_faults = faults

    def undo(self) -> str:
        """Take the last command back; returns its name. Raises InputError where there is none."""
        return self.journal.undo()

    def redo(self) -> str:
        """Give the command again that was taken back last; returns its name."""
        return self.journal.redo()

    def faults(self) -> list[Problem]:
        """Everything that stops the model from being read at the moment, types that do not fit included."""
        message, cut = bare_parts(self.document)
        return check_message(message, cut, base_folder=self.document.folder)

    def types(self) -> dict[str, str]:
        """The types of the values of the model's graph, stated or inferred, such as `float32[N, 3]`.

        Results of operators that nobody knows have none.
        """
        return {name: type_text(info) for name, info in value_types(self.document).items()}

    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write the file as it is now; returns the files that were written."""
        return save_document(self.document, path)

    def script(self) -> str:
        """The commands as a Python script that gives them again. Long arrays raise; `save_script` writes them too."""
        return self.journal.script(str(self.document.path or "model.onnx"))

    def save_script(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write the commands as a script, and long arrays beside it; returns the files that were written."""
        target, arrays = Path(path), dict[str, Any]()
        target.write_text(self.journal.script(str(self.document.path or "model.onnx"), arrays), encoding="utf-8")
        if not arrays:
            return [target]
        data = target.with_name(target.name + ".npz")
        np.savez(data, **arrays)
        return [target, data]

    def nodes(self) -> list[Node]:
        """All nodes, those of bodies and functions included."""
        return [node for node, _ in nodes_of(self.document)]

    def node(self, key: Key) -> Node:
        """A node by its number or its name."""
        return find_node(self.document, key)[0]

    @command
    def delete_node(self, node: Key) -> None:
        """Take a node out. Those that read its results are left as they are: `faults()` names them."""
        found, members = find_node(self.document, node)
        self.journal.change(Removed(members, members.index(found), found))

    @command
    def bypass_node(self, node: Key, input: int = 0, output: int = 0) -> None:
        """Take a node out, and let those that read one of its results read one of its inputs.

        Where the result is an output of the graph, the name of the output stays: what made the input gets that name.
        """
        found, members = find_node(self.document, node)
        graph = graph_of(self.document, members)
        old, new = _at(found.inputs, input, "input"), _at(found.outputs, output, "output")
        if any(info.name == new for info in graph.outputs):
            self._bypass_to_output(found, members, graph, old, new)
            return
        for reader in list(readers(graph, new)):
            self._rename_inputs(reader, new, old)
        self.delete_node(found.number)

    def _bypass_to_output(self, node: Node, members: list[Node], graph: Graph, old: str, new: str) -> None:
        producer = next((each for each in members if old in each.shell.output), None)
        if producer is None or any(info.name == old for info in graph.outputs):
            raise InputError(
                f"{new!r} is an output of the graph and {old!r} is no result of a node: nothing can name it"
            )
        self.delete_node(node.number)
        self._rename_everywhere(graph, old, new)

    @command
    def insert_node(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        name: str = "",
        before: Key | None = None,
    ) -> int:
        """Add a node at the end of the graph, or before another node, in whose graph it then is; returns its number."""
        members = self.document.graph.nodes if before is None else find_node(self.document, before)[1]
        place = len(members) if before is None else members.index(self.node(before))
        if before is None or members is self.document.graph.nodes:
            taken = defined(self.document.graph)
            for output in outputs:
                if output in taken:
                    raise InputError(f"{output!r} is the name of another value; give the result another name")
        shell = NodeProto(op_type=operator, domain=domain, name=name, input=list(inputs), output=list(outputs))
        made = [Attribute(_attribute(key, value)) for key, value in (attributes or {}).items()]
        node = Node(self.document.numbers.take(), shell, made)
        self.journal.change(Inserted(members, place, node))
        return node.number

    @command
    def rewire(self, node: Key, input: int, value: str) -> None:
        """Let a node read another value at the place of one of its inputs; an empty name leaves the input out."""
        found = self.node(node)
        if not 0 <= input <= len(found.shell.input):
            raise InputError(f"{found.operator} has {len(found.shell.input)} inputs, so no input {input} can be set")
        new = copied(found.shell)
        if input == len(new.input):
            new.input.append(value)
        else:
            new.input[input] = value
        self.journal.change(Rewritten(found, found.shell, new))

    @command
    def rename_node(self, node: Key, name: str) -> None:
        """Give a node another name."""
        found = self.node(node)
        new = copied(found.shell)
        new.name = name
        self.journal.change(Rewritten(found, found.shell, new))

    @command
    def rename_value(self, old: str, new: str) -> None:
        """Give a value of the model's graph another name, wherever it is defined, read and described."""
        graph = self.document.graph
        self._known(graph, old)
        if not new:
            raise InputError("a value needs a name")
        taken = next((each for each in reach(graph, old) if new in defined(each)), None)
        if taken is not None:
            raise InputError(f"{new!r} is the name of another value already")
        self._rename_everywhere(graph, old, new)

    @command
    def set_attribute(self, node: Key, name: str, value: Any) -> None:
        """Set an attribute of a node to a number, a text, a list of them, or an array; None takes it away."""
        found = self.node(node)
        before = found.attribute(name)
        place = len(found.attributes) if before is None else found.attributes.index(before)
        if value is None:
            if before is None:
                known = [each.name for each in found.attributes]
                raise InputError(f"{found.operator} has no attribute {name!r} here{did_you_mean(name, known)}")
            self.journal.change(Removed(found.attributes, place, before))
        elif before is None:
            self.journal.change(Inserted(found.attributes, place, Attribute(_attribute(name, value))))
        else:
            self.journal.change(Replaced(found.attributes, place, before, Attribute(_attribute(name, value))))

    @command
    def set_initializer(self, name: str, array: Any) -> None:
        """Give a constant of the model's graph its value; one that is not there yet is added."""
        tensor = TensorWriter().write(name, np.asarray(array))
        members = self.document.graph.initializers
        place = next((i for i, each in enumerate(members) if each.name == name), None)
        if place is not None:
            self.journal.change(Replaced(members, place, members[place], tensor))
            return
        if any(name in node.shell.output for node in self.document.graph.nodes):
            raise InputError(
                f"{name!r} is the result of a node; delete the node first, or give the constant another name"
            )
        self.journal.change(Inserted(members, len(members), tensor))

    @command
    def remove_initializer(self, name: str) -> None:
        """Take a constant out of the model's graph."""
        members = self.document.graph.initializers
        place = _place(members, name, "constant")
        self.journal.change(Removed(members, place, members[place]))

    @command
    def set_type(self, name: str, dtype: str | None = None, shape: Sequence[Size] | None = None) -> None:
        """Say of what element type and shape a tensor is: an input, an output, or a value in between.

        What is None stays as it is in the file.
        """
        graph = self.document.graph
        places = _described(graph, name)
        if not places:
            self._known(graph, name)
            info = ValueInfoProto(name=name)
            self.journal.change(Inserted(graph.infos, len(graph.infos), _typed(info, dtype, shape)))
        for members, i in places:
            self.journal.change(Replaced(members, i, members[i], _typed(copied(members[i]), dtype, shape)))

    @command
    def set_dimension(self, name: str, axis: int, size: Size) -> None:
        """Set one dimension of an input, an output or a value in between to a number, a name, or None for unknown."""
        graph = self.document.graph
        places = _described(graph, name)
        if not places:
            self._known(graph, name)
            raise InputError(f"the file does not say of what shape {name!r} is; use set_type")
        for members, i in places:
            new = copied(members[i])
            _write_size(_dimension(new, axis), size)
            self.journal.change(Replaced(members, i, members[i], new))

    @command
    def add_input(self, name: str, dtype: str, shape: Sequence[Size] | None = None) -> None:
        """Add an input to the model."""
        graph = self.document.graph
        if name in defined(graph):
            raise InputError(f"{name!r} is the name of another value already")
        self.journal.change(Inserted(graph.inputs, len(graph.inputs), _typed(ValueInfoProto(name=name), dtype, shape)))

    @command
    def remove_input(self, name: str) -> None:
        """Take an input off the model. Those that read it are left as they are: `faults()` names them."""
        members = self.document.graph.inputs
        place = _place(members, name, "input")
        self.journal.change(Removed(members, place, members[place]))

    @command
    def add_output(self, name: str, dtype: str | None = None, shape: Sequence[Size] | None = None) -> None:
        """Let a value of the graph be an output of the model too; its type may be left open."""
        graph = self.document.graph
        self._known(graph, name)
        if any(info.name == name for info in graph.outputs):
            raise InputError(f"{name!r} is an output already")
        known = next((info for info in (*graph.infos, *graph.inputs) if info.name == name), None)
        info = ValueInfoProto(name=name) if known is None else copied(known)
        new = info if dtype is None and shape is None else _typed(info, dtype, shape)
        self.journal.change(Inserted(graph.outputs, len(graph.outputs), new))

    @command
    def remove_output(self, name: str) -> None:
        """Take an output off the model."""
        members = self.document.graph.outputs
        place = _place(members, name, "output")
        self.journal.change(Removed(members, place, members[place]))

    def _known(self, graph: Graph, name: str) -> None:
        names = defined(graph)
        if name not in names:
            raise InputError(f"there is no value {name!r}{did_you_mean(name, sorted(names))}")

    def _rename_inputs(self, node: Node, old: str, new: str) -> None:
        shell = copied(node.shell)
        shell.input[:] = [new if name == old else name for name in shell.input]
        self.journal.change(Rewritten(node, node.shell, shell))

    def _rename_everywhere(self, graph: Graph, old: str, new: str) -> None:
        for each in list(reach(graph, old)):
            for node in each.nodes:
                if old in node.shell.input or (each is graph and old in node.shell.output):
                    shell = copied(node.shell)
                    shell.input[:] = [new if name == old else name for name in shell.input]
                    if each is graph:
                        shell.output[:] = [new if name == old else name for name in shell.output]
                    self.journal.change(Rewritten(node, node.shell, shell))
            lists: list[list[Any]] = [each.outputs]
            if each is graph:
                lists += [each.inputs, each.infos, each.initializers]
            for members in lists:
                for i, message in enumerate(members):
                    if message.name == old:
                        renamed = copied(message)
                        renamed.name = new
                        self.journal.change(Replaced(members, i, message, renamed))


def _described(graph: Graph, name: str) -> list[tuple[list[ValueInfoProto], int]]:
    """Where a graph says of what type a value is: lists of inputs, outputs and values in between, and the places."""
    lists = (graph.inputs, graph.outputs, graph.infos)
    return [(members, i) for members in lists for i, info in enumerate(members) if info.name == name]


def _at(names: list[str], place: int, what: str) -> str:
    if not 0 <= place < len(names) or not names[place]:
        raise InputError(f"the node has no {what} {place}")
    return names[place]


def _place(members: Sequence[Any], name: str, what: str) -> int:
    for place, each in enumerate(members):
        if each.name == name:
            return place
    raise InputError(f"there is no {what} {name!r}{did_you_mean(name, [each.name for each in members])}")


def _attribute(name: str, value: Any) -> AttributeProto:
    if isinstance(value, (np.ndarray, TensorProto)):
        tensor = value if isinstance(value, TensorProto) else TensorWriter().write("", value)
        return helper.make_attribute(name, tensor)
    try:
        return helper.make_attribute(name, value)
    except (TypeError, ValueError) as error:
        raise InputError(f"the attribute {name!r} cannot be {value!r}: {error}") from None


def _typed(info: ValueInfoProto, dtype: str | None, shape: Sequence[Size] | None) -> ValueInfoProto:
    """The same information with another element type or shape."""
    kind = info.type.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        raise InputError(f"{info.name!r} is no tensor, so it has no element type and shape")
    tensor = info.type.tensor_type
    if dtype is not None:
        if dtype not in DTYPES:
            raise InputError(f"{dtype!r} is no element type{did_you_mean(dtype, sorted(DTYPES))}")
        tensor.elem_type = DTYPES[dtype].number
    if shape is not None:
        tensor.shape.CopyFrom(TensorShapeProto())
        for size in shape:
            _write_size(tensor.shape.dim.add(), size)
    return info


def _dimension(info: ValueInfoProto, axis: int) -> TensorShapeProto.Dimension:
    shape = info.type.tensor_type.shape
    if info.type.WhichOneof("value") != "tensor_type" or not -len(shape.dim) <= axis < len(shape.dim):
        raise InputError(f"{info.name!r} has {len(shape.dim)} dimensions in the file, so no axis {axis}")
    return shape.dim[axis]


def _write_size(proto: TensorShapeProto.Dimension, size: Size) -> None:
    proto.ClearField("value")
    if isinstance(size, str):
        proto.dim_param = size
    elif size is not None:
        if size < 0:
            raise InputError(f"a size is at least 0, and not {size}; None stands for an unknown one")
        proto.dim_value = size
