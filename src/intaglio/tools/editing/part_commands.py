"""Commands on parts of a graph: take one out, make a constant of one, copy one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ValueInfoProto

from intaglio.errors import InputError
from intaglio.tools.document import Document
from intaglio.tools.document.parts import copied
from intaglio.tools.editing.base import Commands, Other, opened
from intaglio.tools.editing.foreign import Foreign
from intaglio.tools.editing.journal import Journal, command
from intaglio.tools.editing.renaming import copied_node
from intaglio.tools.editing.selection import (
    FreshNames,
    Selection,
    constants_of,
    known_value,
    needed_functions,
    node_reads,
    select,
)
from intaglio.tools.editing.types import contradiction, tensor_info, value_types


class PartCommands(Commands):
    """Commands on the nodes between some values."""

    @command
    def extract(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Keep only what makes `outputs` of `inputs`, any values of the graph, which become those of the model.

        Inputs of the model that are needed besides stay inputs. A new input whose type is neither stated nor inferred
        raises InputError.
        """
        if not outputs:
            raise InputError("name at least one value that the part shall make")
        part = select(self.document.graph, inputs, outputs)
        types = value_types(self.document)
        new_inputs = [self._input(name, types) for name in dict.fromkeys([*inputs, *part.inputs])]
        new_outputs = [self._output(name, types) for name in dict.fromkeys(outputs)]
        self._keep(part, inputs)
        graph = self.document.graph
        defaults = [info for info in graph.inputs if info.name in part.constants]
        self.refill(graph.inputs, [*new_inputs, *defaults])
        self.refill(graph.outputs, new_outputs)

    def _input(self, name: str, types: Mapping[str, ValueInfoProto]) -> ValueInfoProto:
        stated = next((info for info in self.document.graph.inputs if info.name == name), types.get(name))
        if stated is None:
            raise InputError(f"the type of {name!r} is not known, and an input needs one: use set_type first")
        return stated

    def _output(self, name: str, types: Mapping[str, ValueInfoProto]) -> ValueInfoProto:
        stated = next((info for info in self.document.graph.outputs if info.name == name), types.get(name))
        return ValueInfoProto(name=name) if stated is None else stated

    def _keep(self, part: Selection, inputs: Sequence[str]) -> None:
        graph, fresh = self.document.graph, FreshNames(self.document)
        for node in part.nodes:
            shell = copied(node.shell)
            shell.output[:] = [fresh.take(f"{name}_unused") if name in inputs else name for name in shell.output]
            if shell != node.shell:
                self.rewrite(node, shell)
        constants = set(part.constants) - set(inputs)
        self.refill(graph.nodes, part.nodes)
        self.refill(graph.initializers, [each for each in graph.initializers if each.name in constants])
        sparse = [each for each in graph.sparse_initializers if each.values.name in constants]
        self.refill(graph.sparse_initializers, sparse)
        self.refill(self.document.functions, needed_functions(self.document, part.nodes))
        self.drop_infos()
        self._drop_annotations()

    def _drop_annotations(self) -> None:
        """Take out quantization parameters of values that are not there."""
        graph = self.document.graph
        made = {name for node in graph.nodes for name in node.shell.output} | set(constants_of(graph))
        made |= {info.name for info in graph.inputs}
        kept = [each for each in graph.shell.quantization_annotation if each.tensor_name in made]
        if len(kept) != len(graph.shell.quantization_annotation):
            shell = copied(graph.shell)
            del shell.quantization_annotation[:]
            shell.quantization_annotation.extend(kept)
            self.rewrite(graph, shell)

    @command
    def replace_by_constant(self, value: str, array: Any = None) -> None:
        """Let a value that a node makes be a constant; what served only to make it is taken out.

        Without an array the value is computed, which needs that no input has a part in it. An array of another type
        than that of the value raises InputError.
        """
        graph = self.document.graph
        known_value(graph, value)
        maker = next((node for node in graph.nodes if value in node.shell.output), None)
        if maker is None:
            raise InputError(f"{value!r} is no result of a node; set_initializer changes a constant")
        computed = np.asarray(self._computed(value) if array is None else array)
        before = self.unused()
        self._check_type(value, computed)
        shell = copied(maker.shell)
        names = FreshNames(self.document)
        shell.output[:] = [names.take(f"{name}_unused") if name == value else name for name in shell.output]
        self.rewrite(maker, shell)
        self.add_constant(value, computed)
        self.remove_unused(before)

    def _check_type(self, value: str, array: Any) -> None:
        from intaglio.onnx.write_tensors import tensor_header

        wrong = contradiction(value_types(self.document).get(value), tensor_info(tensor_header(value, array)))
        if wrong is not None:
            raise InputError(f"the constant does not fit {value!r}: {wrong}")

    def _computed(self, value: str) -> Any:
        from intaglio.runtime.model.loading import load

        part = _extracted(self.document.copy(), [value])
        needed = [info.name for info in part.graph.inputs if info.name not in constants_of(part.graph)]
        if needed:
            raise InputError(f"{value!r} depends on the inputs {', '.join(map(repr, needed))}: give the array")
        return load(part.message(), engine="reference", base_folder=part.folder).run({})[value]

    @command
    def copy_part(
        self,
        outputs: Sequence[str],
        inputs: Sequence[str] = (),
        *,
        prefix: str = "copy_",
        bind: Mapping[str, str] | None = None,
        source: Other | None = None,
    ) -> list[str]:
        """Copy the nodes that make `outputs` of `inputs`, from this model or another one; returns the new outputs.

        `bind` says which values of this model take the places of inputs; those of this model stay themselves where it
        says nothing. What is copied has `prefix` before its name.
        """
        other = self.document if source is None else opened(source)
        part = select(other.graph, inputs, outputs)
        bound = dict(bind or {})
        for name in bound:
            known_value(other.graph, name)
        needed = [*inputs, *part.inputs]
        if source is not None:
            missing = [name for name in needed if name not in bound]
            if missing:
                raise InputError(f"say by `bind` what {', '.join(map(repr, missing))} of the other model shall be")
        for name in bound.values():
            known_value(self.document.graph, name)
        return self._copied(other, part, list(outputs), bound, prefix)

    def _copied(
        self, other: Document, part: Selection, outputs: list[str], bound: dict[str, str], prefix: str
    ) -> list[str]:
        fresh = FreshNames(self.document)
        names = {name: fresh.take(prefix + name) for node in part.nodes for name in node.shell.output if name}
        names |= bound
        if other is not self.document:
            names |= {name: fresh.take(prefix + name) for name in part.constants if name not in bound}
            foreign = Foreign(self, other, prefix)
            foreign.bring_constants(part.constants, names)
            foreign.bring_functions(needed_functions(other, part.nodes))
            foreign.bring_imports(part.nodes)
            part = Selection([foreign.called(node) for node in part.nodes], part.inputs, part.constants)
        place = self._first_place({names.get(name, name) for node in part.nodes for name in node_reads(node)})
        for offset, node in enumerate(part.nodes):
            new = copied_node(node, self.document.numbers, names, fresh)
            new.shell.name = fresh.take(prefix + node.name) if node.name else ""
            self.insert(new, self.document.graph.nodes, place + offset)
        return [names.get(name, name) for name in outputs]

    def _first_place(self, read: set[str]) -> int:
        """Where nodes can stand that read these values: behind all that make them."""
        nodes = self.document.graph.nodes
        return 1 + max((i for i, node in enumerate(nodes) if not read.isdisjoint(node.shell.output)), default=-1)


def _extracted(document: Document, outputs: Sequence[str]) -> Document:
    commands = PartCommands()
    commands.document, commands.journal = document, Journal()
    commands.extract([], outputs)
    return document
