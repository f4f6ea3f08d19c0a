"""A model in another version of an operator set, node by node.

A node that means the same in the other version stays as it is. Any other one is read by itself, which gives it the
meaning of the newest version, and is written in operators that the wanted version has. So nothing else of the file is
touched, which a converter that reads and writes the whole model could not promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from intaglio.emit.onnx.older import make_older, write_older
from intaglio.errors import ExternalDataError, InputError, IntaglioError, UnsupportedError
from intaglio.onnx.external import ExternalData
from intaglio.onnx.reader import read_model
from intaglio.onnx.schema import NEWEST, find_schema
from intaglio.onnx.tensors import read_tensor
from intaglio.onnx.writer import write_model
from intaglio.tools.document import Attribute, Function, Graph, Node
from intaglio.tools.document.parts import Numbers, copied
from intaglio.tools.document.weights import Weights, stored_bytes
from intaglio.tools.editing.base import OVERRIDABLE, Commands
from intaglio.tools.editing.changes import Replaced
from intaglio.tools.editing.journal import command
from intaglio.tools.editing.meaning import change, changed_nodes, misfit
from intaglio.tools.editing.older_nodes import written_by_hand
from intaglio.tools.editing.selection import FreshNames, call_key, constants_of
from intaglio.tools.editing.types import types_by_graph

SMALL = 2**16
"""Constants of at most so many bytes are shown to the reader of a node; larger ones never say what it means."""

SHOWN = 20
"""A message lists at most so many nodes."""

FROM_THE_BACK = 11
"""Since this version axes may be counted from the back."""

Constants = dict[str, TensorProto]


class OpsetCommands(Commands):
    """The command that changes the version of an operator set."""

    @command
    def set_opset(self, version: int, *, domain: str = "") -> int:
        """Write the model in another version of an operator set, newer or older; returns how many nodes are others.

        Nodes that mean the same stay as they are, and so does everything else. What the version cannot say raises
        UnsupportedError with all nodes and reasons.
        """
        domain = "" if domain == "ai.onnx" else domain
        old = self.document.opset(domain)
        if old is None:
            raise InputError(f"the model does not import {domain or 'ai.onnx'}, so it has no version to change")
        if not 1 <= version <= NEWEST.get(domain, 2**31 - 1):
            raise InputError(f"there is no version {version} of {domain or 'ai.onnx'}; the newest is {NEWEST[domain]}")
        problems: list[str] = []
        count = self._convert(domain, old, version, problems)
        for function in self.document.functions:
            problems += self._convert_function(function, domain, version)
        if problems:
            shown = [f"  {text}" for text in problems[:SHOWN]] + (["  ..."] if len(problems) > SHOWN else [])
            title = f"{domain or 'ai.onnx'} {version} cannot say {len(problems)} nodes:"
            raise UnsupportedError("\n".join([title, *shown]))
        self.import_domain(domain, version)
        if not domain and version < FROM_THE_BACK <= old:
            self._count_axes_from_the_front(version)
        self.raise_ir_version(helper.find_min_ir_version_for(self.document.shell.opset_import, ignore_unknown=True))
        return count

    def _convert(self, domain: str, old: int, version: int, problems: list[str]) -> int:
        own = {function.key for function in self.document.functions}
        types, fresh, count = types_by_graph(self.document), FreshNames(self.document), 0
        constants = self._constants()
        for graph, known in zip(list(self.document.graph.all_graphs()), types, strict=True):
            for node in list(graph.nodes):
                reason = None if call_key(node) in own else change(node, domain, old, version, known)
                if reason is None:
                    continue
                try:
                    written = self._written(node, domain, version, known, constants)
                except IntaglioError as error:
                    problems.append(f"{_title(node)}: {reason}; {error}")
                    continue
                self._splice(node, graph.nodes, written, fresh)
                count += 1
        return count

    def _count_axes_from_the_front(self, version: int) -> None:
        """Let axes that are counted from the back be counted from the front, as versions before 11 had it."""
        for graph, types in zip(list(self.document.graph.all_graphs()), types_by_graph(self.document), strict=True):
            for node in graph.nodes:
                newer, older = (find_schema("", node.operator, each) for each in (FROM_THE_BACK, version))
                if newer is None or older is None or newer.since_version == older.since_version:
                    continue
                for place, attribute in enumerate(node.attributes):
                    if attribute.name in ("axis", "axes") and min([attribute.shell.i, *attribute.shell.ints]) < 0:
                        new = Attribute(_counted(node, attribute.shell, types))
                        self.journal.change(Replaced(node.attributes, place, attribute, new))

    def _convert_function(self, function: Function, domain: str, version: int) -> list[str]:
        """Give a function the version, where no node of it changes; returns those that do."""
        shell = copied(function.shell)
        for entry in shell.opset_import:
            if ("" if entry.domain == "ai.onnx" else entry.domain) == domain and entry.version != version:
                changed = changed_nodes(function.nodes, domain, entry.version, version, {})
                if changed:
                    title = f"in the function {function.shell.name!r}, which can be inlined before"
                    return [f"{_title(node)} {title}: {reason}" for node, reason in changed]
                entry.version = version
        if shell != function.shell:
            self.rewrite(function, shell)
        return []

    def _constants(self) -> Constants:
        """The small constants that nobody can change, by name."""
        document, weights = self.document, Weights(self.document)
        can_change = {info.name for info in document.graph.inputs if document.shell.ir_version >= OVERRIDABLE}
        found: Constants = {}
        for graph in document.graph.all_graphs():
            for tensor in graph.initializers:
                if tensor.name not in can_change and stored_bytes(tensor) <= SMALL:
                    with suppress(ExternalDataError):  # one that cannot be read is a value like any other
                        found[tensor.name] = _plain(tensor, weights)
            for node in graph.nodes:
                value = node.attribute("value") if node.operator == "Constant" else None
                if value is not None and value.shell.HasField("t"):
                    tensor = copied(value.shell.t)
                    tensor.name = node.outputs[0]
                    found[tensor.name] = tensor
        return found

    def _written(
        self, node: Node, domain: str, version: int, types: Mapping[str, ValueInfoProto], constants: Constants
    ) -> GraphProto:
        """A graph that means what a node means, in the operators of a version."""
        if node.bodies():
            raise UnsupportedError("a node with bodies is not written anew")
        if domain:
            raise UnsupportedError("only nodes of ai.onnx are written anew")
        by_hand = written_by_hand(node, self.document.opset() or version, version, types)
        if by_hand is not None:
            return by_hand
        single = ModelProto(ir_version=8, opset_import=self.document.shell.opset_import)
        single.graph.name = "node"
        single.graph.node.append(node.message())
        for name in dict.fromkeys(name for name in node.inputs if name):
            if name in constants:
                single.graph.initializer.append(constants[name])
            elif name in types:
                single.graph.input.append(types[name])
            else:
                raise UnsupportedError(f"the type of its input {name!r} is not known")
        single.graph.output.extend(ValueInfoProto(name=name) for name in node.outputs if name)
        graph = read_model(single).graph
        make_older(graph, version)
        model = write_model(graph)
        write_older(model, version)
        for made in model.graph.node:
            reason = misfit(Node.read(made, Numbers()), version, types)
            if reason is not None:
                raise UnsupportedError(reason)
        return model.graph

    def _splice(self, node: Node, members: list[Node], written: GraphProto, fresh: FreshNames) -> None:
        """Put the nodes of a graph in place of a node."""
        names = {name: name for name in (*node.inputs, *node.outputs)}
        graph = self.document.graph
        for tensor in written.initializer:
            if tensor.name not in node.inputs:
                names.setdefault(tensor.name, fresh.take(f"{node.outputs[0]}_{tensor.name}"))
                self.add_constant(names[tensor.name], read_tensor(tensor, ExternalData(None)))
        for made in written.node:
            for name in made.output:
                if name:
                    names.setdefault(name, fresh.take(f"{node.outputs[0]}_{name}"))
        place = members.index(node)
        self.remove_node(node, members)
        wanted = [name for name in node.outputs if name]
        passed = [(info.name, name) for info, name in zip(written.output, wanted, strict=True) if info.name != name]
        nodes = [*written.node, *(helper.make_node("Identity", [one], [other]) for one, other in passed)]
        for offset, made in enumerate(nodes):
            new = NodeProto()
            new.CopyFrom(made)
            new.input[:] = [names.get(name, name) for name in made.input]
            new.output[:] = [names.get(name, name) for name in made.output]
            _name_like(new, node, fresh, is_only=len(nodes) == 1)
            self.insert(Node.read(new, self.document.numbers), members, place + offset)
        self._drop_constants(node, graph)

    def _drop_constants(self, node: Node, graph: Graph) -> None:
        """Take out constants of the graph that only this node read, and that are attributes now."""
        read = {name for each in graph.all_graphs() for other in each.nodes for name in other.inputs}
        read |= {info.name for each in graph.all_graphs() for info in each.outputs}
        gone = {name for name in node.inputs if name and name not in read} & set(constants_of(graph))
        gone -= {info.name for info in graph.inputs}
        if gone:
            self.refill(graph.initializers, [each for each in graph.initializers if each.name not in gone])
            self.refill(graph.infos, [each for each in graph.infos if each.name not in gone])


def _counted(node: Node, attribute: AttributeProto, types: Mapping[str, ValueInfoProto]) -> AttributeProto:
    """Axes counted from the front; raises UnsupportedError where the rank that they count from is not known."""
    name = node.outputs[0] if node.operator == "Unsqueeze" else node.inputs[0]
    tensor = types[name].type.tensor_type if name in types else None
    if tensor is None or not tensor.HasField("shape"):
        raise UnsupportedError(f"{_title(node)} counts axes from the back, and the rank of {name!r} is not known")
    new, rank = copied(attribute), len(tensor.shape.dim)
    if attribute.type == AttributeProto.INT:
        new.i = attribute.i % rank
    else:
        new.ints[:] = [axis % rank for axis in attribute.ints]
    return new


def _plain(tensor: TensorProto, weights: Weights) -> TensorProto:
    """A tensor with its data inside."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    plain = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    plain.raw_data = bytes(weights.data(tensor))
    return plain


def _name_like(new: NodeProto, node: Node, fresh: FreshNames, is_only: bool) -> None:
    if is_only:
        new.name, new.doc_string = node.shell.name, node.shell.doc_string
        new.metadata_props.extend(node.shell.metadata_props)
    else:
        new.name = fresh.take(f"{node.name}/{new.op_type}") if node.name else ""


def _title(node: Node) -> str:
    return f"node {node.number} ({node.operator}{f' {node.name!r}' if node.name else ''})"
