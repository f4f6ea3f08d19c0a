"""The order of a graph's nodes: ONNX asks for each value to be computed before it is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from onnx import GraphProto, NodeProto

from intaglio.errors import LoadError
from intaglio.onnx.functions import subgraphs
from intaglio.onnx.protobuf import shorten, texts
from intaglio.onnx.scope import path_of
from intaglio.onnx.tensors import decode

Numbered = tuple[int, NodeProto]


def sorted_nodes(nodes: Sequence[NodeProto], known: Collection[str] = ()) -> tuple[list[Numbered], str]:
    """The nodes with their positions in the file, in an order that works, and a note where it is not the file's.

    `known` are the names that inputs and initializers define. Raises LoadError naming the nodes of a cycle, or the
    names that are defined twice where those make it one.
    """
    numbered = list(enumerate(nodes))
    producers = {name: index for index, node in numbered for name in texts(node.output) if name}
    needs = [[producers[name] for name in reads(node) if name in producers] for _, node in numbered]
    late = next((index for index, needed in enumerate(needs) if any(n >= index for n in needed)), None)
    if late is None:
        return numbered, ""
    order = _topological(needs)
    if len(order) < len(numbered):
        again = "; ".join(_defined_again(nodes, known))
        raise LoadError(again or f"nodes depend on each other in a cycle: {_cycle(nodes, needs, set(order))}")
    note = f"{path_of(nodes[late], late)} reads a value that is computed further down; the nodes were sorted"
    return [numbered[index] for index in order], note


def _defined_again(nodes: Sequence[NodeProto], known: Collection[str]) -> Iterator[str]:
    defined = set(known)
    for index, node in enumerate(nodes):
        for name in filter(None, texts(node.output)):
            if name in defined:
                yield f"{path_of(node, index)} defines {shorten(name)!r}, which is already defined"
            defined.add(name)


def reads(node: NodeProto) -> Iterable[str]:
    """The names that a node reads, those that its subgraphs take from outside included."""
    names = [name for name in texts(node.input) if name]
    if node.op_type == "Gradient" and node.domain == "ai.onnx.preview.training":
        names += [decode(item.s) for item in node.attribute if item.name == "y"]
    for _, graph in subgraphs(node):
        names.extend(_free_names(graph))
    return names


def _free_names(graph: GraphProto) -> list[str]:
    inside = set(texts(value.name for value in graph.input)) | set(texts(t.name for t in graph.initializer))
    inside |= set(texts(t.values.name for t in graph.sparse_initializer))
    for node in graph.node:
        inside.update(texts(node.output))
    found: dict[str, None] = {}
    for node in graph.node:
        found.update((name, None) for name in reads(node) if name not in inside)
    found.update((name, None) for name in texts(value.name for value in graph.output) if name not in inside)
    return list(found)


def _topological(needs: Sequence[Sequence[int]]) -> list[int]:
    """Positions in an order in which each comes after what it needs, close to the given one; cycles are left out."""
    waiting = [len(set(needed)) for needed in needs]
    readers: list[list[int]] = [[] for _ in needs]
    for index, needed in enumerate(needs):
        for producer in set(needed):
            readers[producer].append(index)
    order: list[int] = []
    for start in range(len(needs)):
        ready = [start] if waiting[start] == 0 else []
        while ready:
            index = ready.pop()
            waiting[index] = -1
            order.append(index)
            for reader in readers[index]:
                waiting[reader] -= 1
                if waiting[reader] == 0 and reader <= start:
                    ready.append(reader)
    return order


def _cycle(nodes: Sequence[NodeProto], needs: Sequence[Sequence[int]], done: set[int]) -> str:
    current = next(index for index in range(len(nodes)) if index not in done)
    path: dict[int, None] = {}
    while current not in path:
        path[current] = None
        current = next(index for index in needs[current] if index not in done)
    steps = list(path)
    circle = [*steps[steps.index(current) :], current]
    return shorten(" -> ".join(path_of(nodes[index], index) for index in reversed(circle)), 500)
