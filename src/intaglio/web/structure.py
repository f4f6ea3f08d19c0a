"""A document as columns of numbers and a table of strings: what the page draws."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnx import ValueInfoProto

from intaglio.errors import InputError
from intaglio.onnx.schema_objects import Schema, schema
from intaglio.onnx.scope import Problem
from intaglio.tools.document import Document, Graph, Node
from intaglio.tools.document.weights import stored_bytes
from intaglio.tools.drawing.picture import attribute_lines, is_constant
from intaglio.tools.drawing.theme import theme_of
from intaglio.tools.editing.types import type_text, types_by_graph
from intaglio.web.opening import Opened
from intaglio.web.paths import NodePaths
from intaglio.web.scopes import ScopeTable

FORMAT = 1
LONGEST_STRING = 1 << 14
"""Longer names are cut: the page shows only their beginning, and the graph goes by numbers."""
CATEGORIES = ("other", "product", "attention", "norm", "activation", "pool", "shape", "quantise", "control", "function")
"""What the number of a node's category stands for."""
INTERMEDIATE, INPUT, OUTPUT, INITIALIZER, CONSTANT, OUTSIDE = range(6)
MOST_INFERRED = 20_000
"""Types are inferred for graphs of at most so many nodes before the page is shown; larger ones show stated types."""

Json = dict[str, Any]


class Strings:
    """Texts by number; each is there once."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The number of a text."""
        if len(text) > LONGEST_STRING:
            text = f"{text[:LONGEST_STRING]}…"
        return self.places.setdefault(text, len(self.places))

    def listed(self) -> list[str]:
        """The texts in the order of their numbers; what no UTF-8 can spell is replaced."""
        return [text.encode("utf-8", "replace").decode("utf-8") for text in self.places]


def structure(opened: Opened, *, revision: int = 0, problems: Sequence[Problem] | None = None) -> Json:
    """What the page draws of a model, as `json.dumps` takes it.

    `problems` are what is wrong with the model; None says that nobody looked yet.
    """
    document = opened.document
    builder = _Builder(document)
    builder.add_document()
    scopes = builder.scope_columns()
    return {
        "format": FORMAT,
        "revision": revision,
        "name": document.graph.shell.name[:LONGEST_STRING],
        "file": opened.name,
        "about": about(opened),
        "faults": faults(document, problems or ()),
        "checked": problems is not None,
        "strings": builder.strings.listed(),
        "graphs": builder.graphs,
        "scopes": scopes,
        "schema": builder.schemas(),
    }


def faults(document: Document, problems: Iterable[Problem]) -> list[Json]:
    """What is wrong, each with the number of the node that has it, or None; `nodes` are all that have it."""
    problems = list(problems)
    if not problems:
        return []
    paths, found = NodePaths(document), list[Json]()
    for problem in problems:
        unknown = _UNKNOWN.match(str(problem.error))
        numbers = paths.of_operator(unknown[1]) if unknown else paths.numbers(problem.where)
        found.append({"node": numbers[0] if numbers else None, "nodes": numbers, "text": str(problem)[:4000]})
    return found


_UNKNOWN = re.compile(r"the operator (.*) version \d+(?:,| is)")
"""How a message begins about an operator that nothing stands for."""


def about(opened: Opened) -> list[list[str]]:
    """What a file says of itself, as names and texts."""
    shell, graph = opened.document.shell, opened.document.graph
    nodes = sum(1 for _ in opened.document.all_nodes())
    rows = [
        ("file", opened.name),
        ("kind", opened.format),
        ("size", f"{opened.size:,} bytes" if opened.size else ""),
        ("producer", f"{shell.producer_name} {shell.producer_version}".strip()),
        ("graph", graph.shell.name),
        ("IR version", str(shell.ir_version)),
        *((f"operators {each.domain or 'ai.onnx'}", str(each.version)) for each in shell.opset_import),
        ("domain", shell.domain),
        ("model version", str(shell.model_version or "")),
        ("nodes", f"{nodes:,}"),
        ("description", shell.doc_string or graph.shell.doc_string),
        *((each.key, each.value) for each in shell.metadata_props),
    ]
    return [[name[:LONGEST_STRING], text[:LONGEST_STRING]] for name, text in rows if text]


class _Builder:
    """Goes through a document and fills columns."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.strings = Strings()
        self.scopes = ScopeTable()
        self.graphs: list[Json] = []
        self.used: dict[tuple[str, str], None] = {}
        self.functions = {each.key[:2] for each in document.functions}
        self._types = _types(document)

    def add_document(self) -> None:
        """The model's graph, its bodies, and the functions beside it."""
        main = self.document.graph
        self._add_graph(main, "main", None, -1, set())
        for function in self.document.functions:
            inputs, outputs = ([ValueInfoProto(name=name) for name in names] for names in
                               (function.shell.input, function.shell.output))  # fmt: skip
            graph = Graph(main.shell, function.nodes, inputs, outputs)
            self._add_graph(graph, "function", None, -1, set(), function.shell.name, function.shell.domain)

    def scope_columns(self) -> Json:
        """The table of scopes with names by number."""
        table = self.scopes
        names = [self.strings(name) for name in table.name]
        return {"parent": table.parent, "name": names, "graph": table.graph, "kind": table.kind,
                "repeats": table.repeats}  # fmt: skip

    def schemas(self) -> Json:
        """The names of inputs and outputs of the operators that are used, by domain and name."""
        found: Json = {}
        for domain, name in self.used:
            known = find_schema(self.document, domain, name)
            if known is not None:
                found[f"{domain or 'ai.onnx'}.{name}"] = {
                    "inputs": [each.name for each in known.inputs],
                    "outputs": [each.name for each in known.outputs],
                }
        return found

    def _add_graph(
        self,
        graph: Graph,
        kind: str,
        owner: tuple[int, str] | None,
        parent: int,
        outer: set[str],
        name: str | None = None,
        domain: str = "",
    ) -> int:
        number = len(self.graphs)
        title = graph.shell.name if name is None else name
        row = self.scopes.add(parent, title, number, {"main": "module"}.get(kind, kind))
        columns = _GraphColumns(graph, self.strings, self._types.get(id(graph), {}), outer)
        entry: Json = {
            "id": number, "name": self.strings(title), "domain": self.strings(domain), "kind": kind, "scope": row,
            "owner": None if owner is None else [owner[0], self.strings(owner[1])],
        }  # fmt: skip
        self.graphs.append(entry)
        shown = [node for node in graph.nodes if node.number not in columns.hidden]
        scopes = self.scopes.add_graph(shown, row, number)
        nodes = columns.nodes(shown, scopes, self.functions)
        self.used.update(dict.fromkeys((_domain(node), node.shell.op_type) for node in shown))
        visible = outer | set(columns.places)
        for node in shown:
            bodies = [(each.name, body) for each in node.attributes for body in each.bodies()]
            if bodies:
                nodes["bodies"][str(node.number)] = [
                    self._add_graph(body, "body", (node.number, attribute), scopes[node.number], visible)
                    for attribute, body in bodies
                ]
        entry |= {"inputs": columns.inputs, "outputs": columns.outputs, "nodes": nodes, "values": columns.values()}
        return number


class _GraphColumns:
    """The columns of one graph."""

    def __init__(self, graph: Graph, strings: Strings, types: Mapping[str, ValueInfoProto], outer: set[str]) -> None:
        self._strings, self._outer = strings, outer
        self.places: dict[str, int] = {}
        self._kind: list[int] = []
        self._type: list[int] = []
        self._bytes: list[int] = []
        self._types = types
        self.constants: dict[str, int] = {}
        stored = {tensor.name for tensor in graph.initializers} | {e.values.name for e in graph.sparse_initializers}
        self.inputs = [self._place(info.name, INPUT) for info in graph.inputs if info.name not in stored]
        for tensor in graph.initializers:
            self._bytes[self._place(tensor.name, INITIALIZER)] = _bytes_of(tensor)
        for sparse in graph.sparse_initializers:
            self._bytes[self._place(sparse.values.name, INITIALIZER)] = _bytes_of(sparse.values)
        ends = {info.name for info in graph.outputs}
        self.hidden = {node.number for node in graph.nodes if is_constant(node) and not ends & set(node.outputs)}
        for node in graph.nodes:
            for name in node.shell.output if node.number in self.hidden else ():
                self.constants[str(self._place(name, CONSTANT))] = node.number
        for node in graph.nodes:
            for name in node.shell.output:
                self._place(name, INTERMEDIATE)
        self.outputs = [self._output(info.name) for info in graph.outputs]

    def _place(self, name: str, kind: int) -> int:
        if not name:
            return -1
        place = self.places.get(name)
        if place is None:
            place = self.places[name] = len(self.places)
            info = self._types.get(name)
            self._kind.append(kind)
            self._type.append(-1 if info is None else self._strings(_type(info)))
            self._bytes.append(0)
        return place

    def _output(self, name: str) -> int:
        place = self._place(name, OUTSIDE if name in self._outer else OUTPUT)
        if place >= 0 and self._kind[place] == INTERMEDIATE:
            self._kind[place] = OUTPUT
        return place

    def _read(self, name: str) -> int:
        return self._place(name, OUTSIDE)

    def nodes(self, nodes: Sequence[Node], scopes: Mapping[int, int], functions: set[tuple[str, str]]) -> Json:
        """The columns of nodes."""
        strings = self._strings
        labels = [" ".join(attribute_lines(node)) for node in nodes]
        return {
            "id": [node.number for node in nodes],
            "name": [strings(node.shell.name) for node in nodes],
            "op": [strings(node.shell.op_type) for node in nodes],
            "domain": [strings(_domain(node)) for node in nodes],
            "scope": [scopes[node.number] for node in nodes],
            "category": [_category(node, functions) for node in nodes],
            "label": [strings(text) if text else -1 for text in labels],
            "inputs": [[self._read(name) for name in node.shell.input] for node in nodes],
            "outputs": [[self._place(name, INTERMEDIATE) for name in node.shell.output] for node in nodes],
            "bodies": {},
        }

    def values(self) -> Json:
        """The columns of values; complete when all nodes were asked for."""
        names = [self._strings(name) for name in self.places]
        return {
            "name": names,
            "type": self._type,
            "kind": self._kind,
            "bytes": self._bytes,
            "constants": self.constants,
        }


def _types(document: Document) -> dict[int, Mapping[str, ValueInfoProto]]:
    """The types of values by graph: inferred ones where the model is not too large, else what the file says."""
    graphs = list(document.graph.all_graphs())
    if sum(len(graph.nodes) for graph in graphs) <= MOST_INFERRED:
        found = types_by_graph(document)
        if len(found) == len(graphs):
            return {id(graph): types for graph, types in zip(graphs, found, strict=True)}
    return {id(graph): stated_types(graph) for graph in graphs}


def stated_types(graph: Graph) -> dict[str, ValueInfoProto]:
    """What a graph itself says of its values."""
    from intaglio.tools.editing.types import tensor_info

    types = {tensor.name: tensor_info(tensor) for tensor in graph.initializers}
    for info in (*graph.infos, *graph.outputs, *graph.inputs):
        if info.HasField("type"):
            types.setdefault(info.name, info)
    return types


def _type(info: ValueInfoProto) -> str:
    text = type_text(info)
    return "" if text == "unknown" else text


def _domain(node: Node) -> str:
    return "" if node.shell.domain == "ai.onnx" else node.shell.domain


def _category(node: Node, functions: set[tuple[str, str]]) -> int:
    if (_domain(node), node.shell.op_type) in functions:
        return CATEGORIES.index("function")
    return CATEGORIES.index(theme_of(node.shell.op_type))


def _bytes_of(tensor: Any) -> int:
    try:
        return stored_bytes(tensor)
    except (ValueError, NotImplementedError, MemoryError):  # sizes and types of a broken file may be anything
        return 0


def find_schema(document: Document, domain: str, name: str) -> Schema | None:
    """The schema of an operator in the version that the file imports; None where nobody knows the operator."""
    try:
        return schema(name, domain, document.opset(domain))
    except InputError:
        pass
    try:
        return schema(name, domain)
    except InputError:
        return None
