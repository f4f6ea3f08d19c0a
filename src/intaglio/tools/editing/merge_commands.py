"""Another model behind this one: its inputs read outputs of this."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ValueInfoProto

from intaglio.errors import InputError, IntaglioError
from intaglio.tools.document import Document
from intaglio.tools.document.parts import copied
from intaglio.tools.editing.base import Other, opened
from intaglio.tools.editing.changes import Inserted
from intaglio.tools.editing.foreign import Foreign
from intaglio.tools.editing.journal import Journal, command
from intaglio.tools.editing.names import defined, did_you_mean
from intaglio.tools.editing.opset_commands import OpsetCommands
from intaglio.tools.editing.renaming import copied_node
from intaglio.tools.editing.selection import FreshNames, constants_of, known_value
from intaglio.tools.editing.types import contradiction, renamed_info, value_types

SHOWN = 8
"""A message lists at most so many names."""


class MergeCommands(OpsetCommands):
    """The command that joins models."""

    @command
    def merge(
        self, other: Other, connect: Mapping[str, str] | None = None, *, prefix: str = "", keep_outputs: bool = False
    ) -> None:
        """Append another model; `connect` says which value of this model each of its inputs reads, by the input's name.

        Without `connect` its inputs read the outputs of this model of the same name, or else each its own in order, as
        many as there are. Inputs that are not connected become inputs of the model. Outputs that are read are no longer
        outputs, unless `keep_outputs`. All names of the other model get `prefix`; without one, names that both have
        raise InputError. Where the operator sets differ, the older model is brought to the newer set, or the error
        lists what hinders.
        """
        added = opened(other)
        read = _connections(self.document, added) if connect is None else dict(connect)
        self._check(added, read)
        self._reconcile(added)
        self._append(added, read, prefix, keep_outputs)

    def _check(self, added: Document, read: Mapping[str, str]) -> None:
        """Raise InputError where a connection names what is not there, or joins types that cannot be one."""
        names = [info.name for info in added.graph.inputs]
        here, there = value_types(self.document), {info.name: info for info in added.graph.inputs}
        for name, value in read.items():
            if name not in names:
                raise InputError(f"the other model has no input {name!r}{did_you_mean(name, names)}")
            known_value(self.document.graph, value)
            wrong = contradiction(here.get(value), there[name])
            if wrong is not None:
                raise InputError(f"{value!r} cannot be the input {name!r} of the other model: they are {wrong}")

    def _reconcile(self, added: Document) -> None:
        """Bring both to the same operator sets and to the newer IR version."""
        for domain in {"" if e.domain == "ai.onnx" else e.domain: None for e in added.shell.opset_import}:
            here, there = self.document.opset(domain), added.opset(domain)
            if here is None or there is None or here == there:
                continue
            editor = self
            if here > there:
                editor = OpsetCommands()
                editor.document, editor.journal = added, Journal()
            try:
                editor.set_opset(max(here, there), domain=domain)
            except IntaglioError as error:
                which = "this model" if editor is self else "the other model"
                raise InputError(
                    f"the operator sets differ ({here} and {there}), and {which} cannot follow: {error}"
                ) from None
        self.raise_ir_version(added.shell.ir_version)

    def _append(self, added: Document, read: Mapping[str, str], prefix: str, keep_outputs: bool) -> None:
        graph, fresh = self.document.graph, FreshNames(self.document)
        names = {name: prefix + name for name in sorted(defined(added.graph))} | dict(read)
        clashes = [name for name in names if name not in read and names[name] in defined(graph)]
        if clashes:
            shown = ", ".join(map(repr, clashes[:SHOWN])) + (", ..." if len(clashes) > SHOWN else "")
            raise InputError(f"both models have {shown}: give a prefix for one of them")
        constants = [name for name in constants_of(added.graph) if name not in read]
        foreign = Foreign(self, added, prefix)
        foreign.bring_constants(constants, names)
        foreign.bring_functions(added.functions)
        for node in added.graph.nodes:
            new = copied_node(foreign.called(node), self.document.numbers, names, fresh)
            new.shell.name = prefix + node.name if node.name else ""
            self.insert(new, graph.nodes, len(graph.nodes))
        foreign.bring_imports(added.graph.nodes)
        self._describe(added, read, names, keep_outputs)

    def _describe(self, added: Document, read: Mapping[str, str], names: Mapping[str, str], keep_outputs: bool) -> None:
        """Join what the models say of their inputs, outputs, values and origin."""
        graph = self.document.graph
        if not keep_outputs:
            self.refill(graph.outputs, [info for info in graph.outputs if info.name not in read.values()])
        joined: list[tuple[list[ValueInfoProto], list[ValueInfoProto]]] = [
            (graph.inputs, [info for info in added.graph.inputs if info.name not in read]),
            (graph.outputs, added.graph.outputs),
            (graph.infos, added.graph.infos),
        ]
        for members, more in joined:
            for info in more:
                named = renamed_info(info, names.get(info.name, info.name))
                self.journal.change(Inserted(members, len(members), named))
        shell, known = copied(self.document.shell), {entry.key for entry in self.document.shell.metadata_props}
        shell.metadata_props.extend(entry for entry in added.shell.metadata_props if entry.key not in known)
        if shell != self.document.shell:
            self.rewrite(self.document, shell)


def _connections(document: Document, added: Document) -> dict[str, str]:
    """Which outputs the inputs of another model read: those of the same names, else those in the same places."""
    constants = set(constants_of(added.graph))
    inputs = [info.name for info in added.graph.inputs if info.name not in constants]
    outputs = [info.name for info in document.graph.outputs]
    same = {name: name for name in inputs if name in outputs}
    return same or dict(zip(inputs, outputs, strict=False))
