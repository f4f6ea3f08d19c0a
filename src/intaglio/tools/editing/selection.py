"""Parts of a graph: which nodes lie between some values, and what they need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from intaglio.errors import InputError
from intaglio.tools.document.parts import Document, Function, Graph, Node
from intaglio.tools.editing.names import defined, did_you_mean


@dataclass(frozen=True)
class Selection:
    """The nodes between some values, in the order of the graph, and the inputs and constants that they read besides."""

    nodes: list[Node]
    inputs: list[str]
    constants: list[str]


def node_reads(node: Node) -> list[str]:
    """The names that a node reads, those that its bodies take from outside included; each once."""
    names: dict[str, None] = dict.fromkeys(name for name in node.shell.input if name)
    for body in node.bodies():
        names.update(dict.fromkeys(outer_names(body)))
    return list(names)


def outer_names(graph: Graph) -> list[str]:
    """The names that a body reads and does not define."""
    own = defined(graph)
    names = [name for node in graph.nodes for name in node_reads(node)] + [info.name for info in graph.outputs]
    return [name for name in dict.fromkeys(names) if name and name not in own]


def constants_of(graph: Graph) -> list[str]:
    """The names of a graph's initializers, sparse ones included."""
    return [each.name for each in graph.initializers] + [each.values.name for each in graph.sparse_initializers]


def known_value(graph: Graph, name: str) -> None:
    """Raise InputError where a graph has no value of this name."""
    names = defined(graph)
    if name not in names:
        raise InputError(f"there is no value {name!r}{did_you_mean(name, sorted(names))}")


def select(graph: Graph, inputs: Collection[str], outputs: Iterable[str]) -> Selection:
    """The nodes that make `outputs` of `inputs`; inputs of the graph that are needed besides are listed.

    A name that the graph does not have raises InputError.
    """
    outputs = list(outputs)
    for name in (*inputs, *outputs):
        known_value(graph, name)
    makers = {name: node for node in graph.nodes for name in node.shell.output if name}
    constants = set(constants_of(graph))
    needed, chosen = set[str](), set[int]()
    waiting = [name for name in outputs if name not in inputs]
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        needed.add(name)
        node = makers.get(name)
        if node is not None and node.number not in chosen:
            chosen.add(node.number)
            waiting += [each for each in node_reads(node) if each not in inputs]
    nodes = [node for node in graph.nodes if node.number in chosen]
    rest = [info.name for info in graph.inputs if info.name in needed and info.name not in constants]
    return Selection(nodes, rest, [name for name in constants_of(graph) if name in needed])


def needed_functions(document: Document, nodes: Iterable[Node]) -> list[Function]:
    """The functions that some nodes call, and those that these call in turn, in the order of the file."""
    by_key = {function.key: function for function in document.functions}
    found: dict[tuple[str, str, str], None] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        waiting += [inner for body in node.bodies() for inner in body.nodes]
        key = call_key(node)
        if key in by_key and key not in found:
            found[key] = None
            waiting += by_key[key].nodes
    return [function for function in document.functions if function.key in found]


def call_key(node: Node) -> tuple[str, str, str]:
    """The key of the function that a node would call."""
    shell = node.shell
    return ("" if shell.domain == "ai.onnx" else shell.domain, shell.op_type, shell.overload)


def all_names(document: Document) -> set[str]:
    """Every name of a value or node in the document, whatever it means where it stands."""
    names: set[str] = set()
    lists: list[Sequence[Node]] = [each.nodes for each in document.functions]
    graphs = list(document.graph.all_graphs())
    for function in document.functions:
        names |= {*function.shell.input, *function.shell.output}
        graphs += [inner for node in function.nodes for body in node.bodies() for inner in body.all_graphs()]
    lists += [graph.nodes for graph in graphs]
    for nodes in lists:
        for node in nodes:
            names |= {node.name, *node.shell.input, *node.shell.output}
    for graph in graphs:
        names |= defined(graph) | {info.name for info in (*graph.outputs, *graph.infos)}
    return names - {""}


class FreshNames:
    """Makes names that a document does not have yet."""

    def __init__(self, document: Document) -> None:
        self._taken = all_names(document)

    def take(self, wished: str) -> str:
        """The wished name, or one with a number behind it where it is taken."""
        name, number = wished, 1
        while name in self._taken or not name:
            number += 1
            name = f"{wished}_{number}"
        self._taken.add(name)
        return name
