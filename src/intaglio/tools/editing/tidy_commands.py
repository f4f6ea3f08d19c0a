"""Commands on many values at once: other names, more outputs, less of what nobody reads or what is there twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import AttributeProto, TensorProto, ValueInfoProto

from intaglio.errors import ExternalDataError, InputError
from intaglio.ir.op import OPERATORS
from intaglio.onnx.schema import find_schema
from intaglio.tools.document import Graph, Node, Weights
from intaglio.tools.document.parts import copied
from intaglio.tools.document.weights import checksum
from intaglio.tools.editing.base import Commands, Unused
from intaglio.tools.editing.changes import Inserted, Replaced
from intaglio.tools.editing.journal import command
from intaglio.tools.editing.names import defined
from intaglio.tools.editing.selection import call_key, constants_of, known_value, needed_functions
from intaglio.tools.editing.types import value_types

Size = int | str | None


class TidyCommands(Commands):
    """Commands that go over the whole model."""

    @command
    def rename_values(self, names: Mapping[str, str]) -> None:
        """Give many values of the model's graph other names at once; two may change places."""
        graph = self.document.graph
        for old, new in names.items():
            known_value(graph, old)
            if not new:
                raise InputError(f"{old!r} needs a name")
        kept = (defined(graph) - set(names)) | _inner_names(graph)
        news = list(names.values())
        taken = next((new for new in news if new in kept or news.count(new) > 1), None)
        if taken is not None:
            raise InputError(f"{taken!r} would be the name of two values")
        self.redirect(graph, names, is_definition=True)

    def redirect(self, graph: Graph, names: Mapping[str, str], *, is_definition: bool = False) -> None:
        """Let everybody who reads some values read others; with `is_definition` the values themselves are renamed."""
        for node in graph.nodes:
            shell = copied(node.shell)
            shell.input[:] = [names.get(name, name) for name in shell.input]
            if is_definition:
                shell.output[:] = [names.get(name, name) for name in shell.output]
            if shell != node.shell:
                self.rewrite(node, shell)
            for body in node.bodies():
                own = defined(body)
                seen = {old: new for old, new in names.items() if old not in own}
                if seen:
                    self.redirect(body, seen)
                    self._rename_infos(body.outputs, seen)
        if is_definition:
            for members in (graph.inputs, graph.outputs, graph.infos, graph.initializers):
                self._rename_infos(members, names)
            for place, sparse in enumerate(graph.sparse_initializers):
                if sparse.values.name in names:
                    new = copied(sparse)
                    new.values.name = names[sparse.values.name]
                    self.journal.change(Replaced(graph.sparse_initializers, place, sparse, new))

    def _rename_infos(self, members: Sequence[Any], names: Mapping[str, str]) -> None:
        assert isinstance(members, list)
        for place, info in enumerate(members):
            if info.name in names:
                new = copied(info)
                new.name = names[info.name]
                self.journal.change(Replaced(members, place, info, new))

    @command
    def rename_dimension(self, name: str, size: Size) -> None:
        """Give a dimension that has a name another name, or a number, wherever the file speaks of it."""
        count = 0
        for graph in self.document.graph.all_graphs():
            for members in (graph.inputs, graph.outputs, graph.infos):
                for place, info in enumerate(members):
                    new = _with_dimension(info, name, size)
                    if new is not None:
                        self.journal.change(Replaced(members, place, info, new))
                        count += 1
        if not count:
            raise InputError(f"no dimension is named {name!r}")

    @command
    def add_outputs(self, names: Sequence[str]) -> None:
        """Let values of the graph be outputs of the model too, of the types that are stated or inferred."""
        graph, types = self.document.graph, value_types(self.document)
        there = {info.name for info in graph.outputs}
        for name in dict.fromkeys(names):
            known_value(graph, name)
            if name in there:
                raise InputError(f"{name!r} is an output already")
            info = copied(types[name]) if name in types else ValueInfoProto(name=name)
            self.journal.change(Inserted(graph.outputs, len(graph.outputs), info))

    @command
    def prune(self, inputs: bool = False) -> dict[str, int]:
        """Take out nodes, constants and functions that no output needs; returns how many of each.

        With `inputs`, inputs that nobody reads go too.
        """
        before = self._sizes()
        while True:
            count = sum(self._sizes().values())
            for graph in list(self.document.graph.all_graphs()):
                self._prune(graph, inputs and graph is self.document.graph)
            if sum(self._sizes().values()) == count:
                break
        nodes = list(self.document.graph.nodes)
        self.refill(self.document.functions, needed_functions(self.document, nodes))
        after = self._sizes()
        return {name: before[name] - after[name] for name in before}

    def _sizes(self) -> dict[str, int]:
        document = self.document
        constants = sum(len(constants_of(graph)) for graph in document.graph.all_graphs())
        nodes = sum(1 for _ in document.graph.all_nodes())
        inputs = len(document.graph.inputs)
        return {"nodes": nodes, "constants": constants, "functions": len(document.functions), "inputs": inputs}

    def _prune(self, graph: Graph, inputs: bool) -> None:
        unused = Unused(graph)
        self.refill(graph.nodes, [node for node in graph.nodes if node.number not in unused.nodes])
        self.refill(graph.initializers, [each for each in graph.initializers if each.name not in unused.constants])
        sparse = [each for each in graph.sparse_initializers if each.values.name not in unused.constants]
        self.refill(graph.sparse_initializers, sparse)
        if graph is self.document.graph:
            kept = [info for info in graph.inputs if info.name not in unused.constants]
            read = unused.needed | {info.name for info in graph.outputs}
            self.refill(graph.inputs, [info for info in kept if not inputs or info.name in read])
        made = {name for node in graph.nodes for name in node.shell.output} | set(constants_of(graph))
        self.refill(graph.infos, [info for info in graph.infos if info.name in made])

    @command
    def dedupe(self) -> dict[str, int]:
        """Keep one of equal constants and one of nodes that do the same; returns how many of each were taken out.

        Nodes that give random numbers, calls of functions, unknown operators, nodes with bodies and outputs of the
        model are left as they are.
        """
        constants = self._dedupe_constants()
        nodes = sum(self._dedupe_nodes(graph) for graph in list(self.document.graph.all_graphs()))
        self.drop_infos()
        return {"constants": constants, "nodes": nodes}

    def _dedupe_constants(self) -> int:
        graph, weights = self.document.graph, Weights(self.document)
        left = {info.name for info in (*graph.inputs, *graph.outputs)} | _inner_names(graph)
        first: dict[Any, str] = {}
        names: dict[str, str] = {}
        for tensor in graph.initializers:
            key = None if tensor.name in left else _tensor_key(tensor, weights)
            if key is not None and first.setdefault(key, tensor.name) != tensor.name:
                names[tensor.name] = first[key]
        if names:
            self.redirect(graph, names)
            self.refill(graph.initializers, [each for each in graph.initializers if each.name not in names])
        return len(names)

    def _dedupe_nodes(self, graph: Graph) -> int:
        left = {info.name for info in graph.outputs}
        hidden = _inner_names(graph)
        first: dict[Any, Node] = {}
        names: dict[str, str] = {}
        gone: set[int] = set()
        for node in graph.nodes:
            key = self._node_key(node, names)
            if key is None or left & set(node.outputs):
                continue
            other = first.setdefault(key, node)
            if other is node or hidden & set(other.outputs):
                continue
            names.update((one, kept) for one, kept in zip(node.outputs, other.outputs, strict=True) if one)
            gone.add(node.number)
        if names:
            self.redirect(graph, names)
        self.refill(graph.nodes, [node for node in graph.nodes if node.number not in gone])
        return len(gone)

    def _node_key(self, node: Node, names: Mapping[str, str]) -> Any:
        """What two nodes must have in common to do the same; None for a node that must stay."""
        key = call_key(node)
        operator = OPERATORS.get(key[:2])
        version = self.document.opset(key[0])
        is_known = version is not None and find_schema(key[0], key[1], version) is not None
        is_own = any(function.key == key for function in self.document.functions)
        if operator is None or operator.is_random or not is_known or is_own or node.bodies() or key[1] == "Dropout":
            return None
        attributes = sorted(_attribute_key(each.shell) for each in node.attributes)
        inputs = tuple(names.get(name, name) for name in node.inputs)
        return key, inputs, tuple(map(bool, node.outputs)), tuple(attributes)


def _inner_names(graph: Graph) -> set[str]:
    """The names that bodies inside a graph define."""
    names: set[str] = set()
    for each in graph.all_graphs():
        if each is not graph:
            names |= defined(each)
    return names


def _with_dimension(info: ValueInfoProto, name: str, size: Size) -> ValueInfoProto | None:
    """The same information with another size for a named dimension; None where it has no such dimension."""
    if info.type.WhichOneof("value") != "tensor_type":
        return None
    new = copied(info)
    found = [each for each in new.type.tensor_type.shape.dim if each.HasField("dim_param") and each.dim_param == name]
    for dimension in found:
        dimension.ClearField("value")
        if isinstance(size, str):
            dimension.dim_param = size
        elif size is not None:
            dimension.dim_value = size
    return new if found else None


def _tensor_key(tensor: TensorProto, weights: Weights) -> Any:
    if tensor.data_type == TensorProto.STRING:
        return tensor.data_type, tuple(tensor.dims), tuple(tensor.string_data)
    try:
        data = weights.data(tensor)
    except ExternalDataError:
        return None
    return tensor.data_type, tuple(tensor.dims), checksum(data) if len(data) > 64 else bytes(data)


def _attribute_key(attribute: AttributeProto) -> tuple[str, bytes]:
    key = copied(attribute)
    key.ClearField("doc_string")
    if key.HasField("t"):
        key.t.ClearField("name")
        key.t.ClearField("doc_string")
    return key.name, key.SerializeToString(deterministic=True)
