"""A graph as modules of PyTorch."""

from __future__ import annotations

import re
from collections.abc import Sequence

from intaglio.emit.export import ExportRequest, Source, make_printable, print_alone
from intaglio.emit.names import comment
from intaglio.emit.pythonic.block import INLINE, UnprintableError, Writer, needed, write_node
from intaglio.emit.pythonic.parameters import behind_defaults, missing
from intaglio.emit.torch import layers, printers
from intaglio.emit.torch.classes import Classes
from intaglio.emit.torch.draft import Draft, Layer, TorchWriter, constant_text, new_names, scope_path, scope_types
from intaglio.emit.torch.linear import find_linear_layers
from intaglio.emit.torch.naming import Marks
from intaglio.emit.torch.patterns import find_attention
from intaglio.emit.torch.quantized import find_quantized_layers
from intaglio.emit.torch.repeats import repeated_blocks
from intaglio.emit.torch.roles import Roles, layer_names, layer_roles
from intaglio.emit.torch.sequential import sequential_layer
from intaglio.emit.torch.structure import Group, Item, Path, adopt, all_groups, arrange, chain_of, hoist, is_container
from intaglio.emit.torch.weight_scopes import weight_paths
from intaglio.emit.torch.words import LIBRARY, PRINTERS, language
from intaglio.ir.dim import symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.passes.deadcode import remove_dead_code
from intaglio.passes.driver import nothing_stays

WEIGHTS = "safetensors"
LEFT_OUT = ("integer-arithmetic", "fuse-batchnorm", "merge-branches")
"""Passes whose results are for engines, not for people who read or train."""

MOST_TRIES = 200
"""After so many scopes that cannot be modules of their own, none is."""


class _DissolveError(Exception):
    """A scope that cannot be a module of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(".".join(path))
        self.path = path


def write(request: ExportRequest) -> Source:
    """The module, its weights and its README."""
    graph = request.graph
    find_attention(graph)
    remove_dead_code(graph, nothing_stays)
    find_quantized_layers(graph)
    find_linear_layers(graph)
    make_printable(graph, lambda node: _try(node, graph))
    find_linear_layers(graph)  # those that expansions are made of
    root = _Structure(graph, request.outputs).build()
    classes = Classes(root)
    text = classes.source(request.name, graph)
    return Source({"model.py": text}, classes.weights, _readme(request))


def _try(node: Node, graph: Graph) -> None:
    writer = TorchWriter(language(constant_text), new_names())
    writer.draft = Draft(())
    print_alone(node, graph, writer)


class _Structure:
    """Makes drafts of modules from a graph."""

    def __init__(self, graph: Graph, results: Sequence[str]) -> None:
        self.graph = graph
        self.results = dict(zip(graph.outputs, results, strict=True))
        known = {name for value in graph.inputs for name in _symbols(value)}
        self.nodes = [node for node in graph.nodes if not _is_free(node, known)]
        kept = set(self.nodes)
        self.free = frozenset(value for node in graph.nodes if node not in kept for value in node.outputs)
        self.paths = {node: scope_path(node) for node in self.nodes}
        if not any(self.paths.values()):
            self.paths = weight_paths(self.nodes, self.free)
        self.types: dict[Path, str] = {}
        if not any(self.paths.values()):
            self.paths, self.types = repeated_blocks(self.nodes, self.free)
        else:
            adopt(self.nodes, self.paths, self.free)
        hoist(self.nodes, self.paths, self.free)
        for node in self.nodes:
            self.types |= scope_types(node)

    def build(self) -> Draft:
        dissolved: set[Path] = set()
        for _ in range(MOST_TRIES):
            try:
                return self._root(dissolved)
            except _DissolveError as error:
                dissolved.add(error.path)
        self.paths = dict.fromkeys(self.nodes, ())
        return self._root(set())

    def _root(self, dissolved: set[Path]) -> Draft:
        items = arrange(self.nodes, (), self.paths, dissolved, self.free)
        for group in all_groups(items):
            if is_container(group, self.paths) and not self._is_sequential(group):
                raise _DissolveError(group.path)
        whole = Group((), self.nodes, items, self.free)
        return self._draft(whole, list(self.graph.inputs), list(self.graph.outputs))

    def _is_sequential(self, group: Group) -> bool:
        chain = chain_of(group)
        if chain is None:
            return False
        names = [_name(item, group, self.paths) for item in chain]
        numbers = [int(name) for name in names if name.isdigit()]
        is_ordered = len(numbers) == len(names) and numbers == sorted(set(numbers)) and max(numbers) < 3 * len(numbers)
        return is_ordered and all(isinstance(item, Group) or sequential_layer(item) is not None for item in chain)

    def _draft(self, group: Group, inputs: Sequence[Value], outputs: Sequence[Value]) -> Draft:
        draft = Draft(group.path, self.types.get(group.path, ""))
        marks = Marks()
        writer = TorchWriter(language(constant_text), marks)
        writer.draft, is_root = draft, not group.path
        writer.roles = roles = Roles(group.nodes, inputs, self.results if is_root else None)
        own = [item for item in group.items if isinstance(item, Node)]
        draft.layer_names = layer_names(own, layer_roles(own, roles))
        behind = behind_defaults(inputs) if is_root else []
        for value in inputs:
            name = writer.declare(value)
            draft.inputs.append((name, value))
            if value in behind and missing(name, value):
                writer.add(missing(name, value), is_kept=True)
            if is_root and value.default is not None:
                stored = draft.store(Value(f"{value.name}_default", value.type, constant=value.default))
                writer.add([f"{name} = self.{stored} if {name} is None else {name}"], is_kept=True)
        try:
            for item in group.items:
                self._write(item, draft, writer)
            draft.outputs = [(writer.read(value), value) for value in outputs]
        except UnprintableError:
            if is_root:
                raise
            raise _DissolveError(group.path) from None
        draft.statements = needed(writer.statements, [*outputs, *writer.reads])
        draft.used = writer.used
        draft.name_locals(marks)
        return draft

    def _write(self, item: Item, draft: Draft, writer: TorchWriter) -> None:
        if isinstance(item, Node):
            write_node(item, writer)
            return
        if is_container(item, self.paths):
            child = self._sequential(item)
        else:
            child = self._draft(item, item.inputs, item.outputs)
        place = draft.add(item.path[len(draft.path) :], child)
        arguments = ", ".join(writer.read(value) for value in item.inputs)
        assert writer.roles is not None
        results = ", ".join(writer.declare(value, writer.roles.of_call(value)) for value in item.outputs)
        note = "" if len(item.outputs) != 1 else str(item.outputs[0].type)
        writer.add([f"{results} = self.{place}({arguments})"], item.outputs, note=note)

    def _sequential(self, group: Group) -> Draft:
        draft = Draft(group.path, is_sequential=True)
        for item in group.items:
            number = int(_name(item, group, self.paths))
            for gap in range(len(draft.attributes), number):
                draft.attributes[str(gap)] = Layer("Identity", {}, {})
            if isinstance(item, Group):
                inner = is_container(item, self.paths)
                child = self._sequential(item) if inner else self._draft(item, item.inputs, item.outputs)
                draft.attributes[str(number)] = child
            else:
                found = sequential_layer(item)
                assert found is not None
                draft.attributes[str(number)] = Layer(*found)
        return draft


def _name(item: Item, group: Group, paths: dict[Node, Path]) -> str:
    path = item.path if isinstance(item, Group) else paths[item]
    return path[len(group.path)] if len(path) > len(group.path) else ""


def _symbols(value: Value) -> set[str]:
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return set()
    return {str(name) for size in value.type.shape for name in symbols(size)}


def _is_free(node: Node, known: set[str]) -> bool:
    """Whether all that a node gives are sizes that can be written where they are read."""
    if node.op.is_random:
        return False
    for value in node.outputs:
        contents = value.contents
        if contents is None or contents.size > 2 * INLINE:
            return False
        if not all(
            {str(name) for name in symbols(item)} <= known for item in contents.flat if not isinstance(item, bool)
        ):
            return False
    return True


def _readme(request: ExportRequest) -> str:
    graph = request.graph
    taken = "\n".join(f"- `{comment(value.name)}`: {comment(str(value.type))}" for value in graph.inputs)
    given = "\n".join(f"- `{comment(value.name)}`: {comment(str(value.type))}" for value in graph.outputs)
    return f"""# {request.name}

A model as modules of PyTorch, written by Intaglio. `model.py` needs PyTorch and safetensors.

```python
from model import load

model = load()        # Model.from_pretrained(folder), ready to run; model.train() to train it further
outputs = model(...)  # tensors in the order below
```

Inputs:

{taken or "none"}

Outputs:

{given}
"""


__all__ = ["LEFT_OUT", "LIBRARY", "PRINTERS", "WEIGHTS", "Writer", "layers", "printers", "re", "write"]
