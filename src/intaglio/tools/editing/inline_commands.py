"""Functions of a file put where they are called."""

from __future__ import annotations

from onnx import AttributeProto, NodeProto

from intaglio.errors import InputError, LimitError
from intaglio.tools.document import Document, Function, Node
from intaglio.tools.editing.base import Commands
from intaglio.tools.editing.changes import Removed
from intaglio.tools.editing.journal import command
from intaglio.tools.editing.meaning import changed_nodes
from intaglio.tools.editing.names import did_you_mean, nodes_of
from intaglio.tools.editing.renaming import bind_attributes, copied_node
from intaglio.tools.editing.selection import FreshNames, call_key

MOST_NODES = 1_000_000
"""A function that would become more nodes than this is not inlined: functions in functions can grow without end."""


class InlineCommands(Commands):
    """The command that puts functions where they are called."""

    @command
    def inline_function(self, name: str, domain: str | None = None, overload: str = "") -> int:
        """Put a function of the file in place of every call of it, and take it out; returns how many calls there were.

        A function that calls itself, or whose operators mean something else in the model's operator set, raises
        InputError.
        """
        function = _found(self.document, name, domain, overload)
        self._check_versions(function)
        if any(call_key(node) == function.key for node in _inside(function)):
            raise InputError(f"the function {name!r} calls itself, so it cannot be inlined")
        fresh, count = FreshNames(self.document), 0
        for node, members in list(nodes_of(self.document)):
            if call_key(node) == function.key:
                self._inline(node, members, function, fresh)
                count += 1
                if count * len(function.nodes) > MOST_NODES:
                    raise LimitError(f"{name!r} would become more than {MOST_NODES} nodes where it is called")
        self.journal.change(Removed(self.document.functions, self.document.functions.index(function), function))
        return count

    def _check_versions(self, function: Function) -> None:
        """Bring the domains of a function into the model; raises InputError where a version means something else."""
        for entry in function.shell.opset_import:
            here = self.document.opset(entry.domain)
            if here is None:
                self.import_domain(entry.domain, entry.version)
            elif here != entry.version:
                changed = changed_nodes(function.nodes, entry.domain, entry.version, here, {})
                if changed:
                    names = ", ".join(sorted({node.operator for node, _ in changed}))
                    version = f"{entry.domain or 'ai.onnx'} {entry.version}"
                    raise InputError(
                        f"the function {function.shell.name!r} is written in {version} and the"
                        f" model in {here}, where {names} differ: set_opset the model first"
                    )

    def _inline(self, call: Node, members: list[Node], function: Function, fresh: FreshNames) -> None:
        shell = function.shell
        names = dict(zip(shell.input, [*call.inputs, *[""] * len(shell.input)], strict=False))
        made = dict(zip(shell.output, [*call.outputs, *[""] * len(shell.output)], strict=False))
        prefix = f"{call.name or shell.name}/"
        passed = {name: made[name] for name in made if name in names}  # an input that is an output too
        for node in function.nodes:
            for output in node.outputs:
                if output:
                    names[output] = made.get(output) or fresh.take(prefix + output)
        place = members.index(call)
        self.remove_node(call, members)
        given = _attributes(call, function)
        for node in function.nodes:
            new = copied_node(node, self.document.numbers, names, fresh)
            new.shell.name = fresh.take(prefix + node.name) if node.name else ""
            bind_attributes(new, given, self.document.numbers)
            self.insert(new, members, place)
            place += 1
        for name, output in passed.items():
            if output:
                identity = NodeProto(op_type="Identity", input=[names[name]], output=[output])
                self.insert(Node(self.document.numbers.take(), identity), members, place)
                place += 1


def _attributes(call: Node, function: Function) -> dict[str, AttributeProto]:
    """What the attributes of a function are in a call: those that the call gives, else their defaults."""
    given = {attribute.name: attribute for attribute in function.shell.attribute_proto}
    return given | {attribute.name: attribute.message() for attribute in call.attributes}


def _found(document: Document, name: str, domain: str | None, overload: str) -> Function:
    domain = "" if domain == "ai.onnx" else domain
    named = [each for each in document.functions if each.key[1] == name and each.key[2] == overload]
    found = [each for each in named if domain is None or each.key[0] == domain]
    if len(found) > 1:
        domains = ", ".join(repr(each.key[0]) for each in found)
        raise InputError(f"{len(found)} functions are named {name!r}; give the domain of one: {domains}")
    if not found:
        known = [each.shell.name for each in document.functions]
        raise InputError(f"there is no function {name!r}{did_you_mean(name, known)}")
    return found[0]


def _inside(function: Function) -> list[Node]:
    found = list(function.nodes)
    for node in function.nodes:
        found += [inner for body in node.bodies() for inner in body.all_nodes()]
    return found
