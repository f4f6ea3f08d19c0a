"""What names mean in a document: which graph defines a value, and who reads it."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from intaglio.errors import InputError
from intaglio.tools.document.parts import Document, Graph, Node


def nodes_of(document: Document) -> Iterator[tuple[Node, list[Node]]]:
    """Every node of a document, with the list that it stands in; bodies and functions included."""
    lists = [graph.nodes for graph in document.graph.all_graphs()]
    for function in document.functions:
        lists.append(function.nodes)
        lists += [inner.nodes for node in function.nodes for body in node.bodies() for inner in body.all_graphs()]
    for members in lists:
        yield from ((node, members) for node in members)


def find_node(document: Document, key: int | str) -> tuple[Node, list[Node]]:
    """A node by its number, or by its name where only one node has it; raises InputError."""
    if isinstance(key, int):
        found = [pair for pair in nodes_of(document) if pair[0].number == key]
        if not found:
            raise InputError(f"there is no node {key}; deleted nodes come back by undo()")
        return found[0]
    found = [pair for pair in nodes_of(document) if pair[0].name == key]
    if len(found) > 1:
        numbers = ", ".join(str(node.number) for node, _ in found)
        raise InputError(f"{len(found)} nodes are named {key!r}; give the number of one: {numbers}")
    if not found:
        raise InputError(f"there is no node {key!r}{did_you_mean(key, [node.name for node, _ in nodes_of(document)])}")
    return found[0]


def graph_of(document: Document, members: list[Node]) -> Graph:
    """The graph that a list of nodes is of; raises InputError for nodes of functions."""
    for graph in document.graph.all_graphs():
        if graph.nodes is members:
            return graph
    raise InputError("the node stands in a function; inline the function to change what stands around it")


def defined(graph: Graph) -> set[str]:
    """The names that a graph itself gives a meaning: inputs, initializers, results of its nodes."""
    names = {info.name for info in graph.inputs} | {tensor.name for tensor in graph.initializers}
    names |= {sparse.values.name for sparse in graph.sparse_initializers}
    names |= {name for node in graph.nodes for name in node.shell.output}
    return names - {""}


def readers(graph: Graph, name: str) -> Iterator[Node]:
    """The nodes that read a value which this graph can see, those in bodies that do not hide it included."""
    for node in graph.nodes:
        if name in node.shell.input:
            yield node
        for body in node.bodies():
            if name not in defined(body):
                yield from readers(body, name)


def reach(graph: Graph, name: str) -> Iterator[Graph]:
    """This graph and the bodies in it in which a name means what it means here."""
    yield graph
    for node in graph.nodes:
        for body in node.bodies():
            if name not in defined(body):
                yield from reach(body, name)


def did_you_mean(name: str, known: list[str]) -> str:
    """The end of a message about a name that is not known."""
    close = get_close_matches(name[:200], known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
