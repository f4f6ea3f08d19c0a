"""`verify` checks every rule of the IR and shows the place of the first fault."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from intaglio.errors import GraphError, IntaglioError
from intaglio.ir import dim as dims
from intaglio.ir.build import infer_types
from intaglio.ir.dtype import from_numpy
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.text import format_lines
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type

CONTEXT = 3
"""Lines shown before and after the faulty one."""


def verify(graph: Graph) -> None:
    """Raise GraphError with the surroundings of the first fault, if the graph breaks a rule of the IR.

    The rules: the list of nodes is linked both ways; names are unique; each value is defined before it is read, also
    from subgraphs; values and readers agree about uses; a node's outputs name it as their producer; constants have
    their type; every type is what the operator infers, as far as that can be decided.
    """
    try:
        graphs = dict.fromkeys(_graphs(graph))
        nodes = {node for inner in graphs for node in inner.nodes}
        _check_names(graphs)
        _check_order(graph)
        for inner in graphs:
            _check_outputs(inner)
            for value in inner.values():
                _check_uses(value, nodes, graphs)
            for node in inner.nodes:
                _check_node(node, nodes, graphs)
    except _FaultError as fault:
        raise GraphError(_show(graph, fault)) from None
    except _LinkError as fault:
        raise GraphError(f"{fault} (in graph {graph.name!r})") from None


def is_compatible(found: Type, expected: Type) -> bool:
    """Whether two types can be those of one value: equal element types, no dimension that is certainly different."""
    match found, expected:
        case TensorType(), TensorType():
            return found.dtype == expected.dtype and _shapes_compatible(found, expected)
        case (SequenceType(), SequenceType()) | (OptionalType(), OptionalType()):
            return is_compatible(found.element, expected.element)
        case MapType(), MapType():
            return found.key == expected.key and is_compatible(found.value, expected.value)
        case _:
            return False


def _shapes_compatible(found: TensorType, expected: TensorType) -> bool:
    if found.shape is None or expected.shape is None:
        return True
    if len(found.shape) != len(expected.shape):
        return False
    return all(dims.compare(a, b) in (0, None) for a, b in zip(found.shape, expected.shape, strict=True))


class _FaultError(Exception):
    """A fault: what is wrong, the node where it shows, and the text to put the caret under."""

    def __init__(self, message: str, node: Node | None = None, mark: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.mark = mark


class _LinkError(Exception):
    """A list of nodes that is not linked as it should be, so that it can't be printed."""


def _show(graph: Graph, fault: _FaultError) -> str:
    """The message with the faulty line, its neighbours and a caret."""
    message = f"{fault} (in graph {graph.name!r})"
    try:
        lines = list(format_lines(graph, elide=True))
    except (GraphError, AttributeError, TypeError):
        return message
    place = next((i for i, line in enumerate(lines) if line.node is fault.node and line.node is not None), 0)
    shown: list[str] = []
    for index in range(max(0, place - CONTEXT), min(len(lines), place + CONTEXT + 1)):
        text = str(lines[index])
        shown.append(f"{index + 1:6} | {text[:200]}")
        if index == place:
            column = max(text.rfind(fault.mark), 0) if fault.mark else len(text) - len(text.lstrip())
            shown.append(" " * 7 + "| " + " " * column + "^" * max(1, len(fault.mark)))
    return "\n".join([message, *shown])


def _graphs(graph: Graph) -> Iterator[Graph]:
    """The graph and all its subgraphs, each with its links checked before it is walked."""
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        _check_links(current)
        yield current
        waiting += [inner for node in current.nodes for _, inner in node.op.subgraphs()]


def _check_links(graph: Graph) -> None:
    count, previous, node = 0, None, graph._first
    while node is not None:
        if node.graph is not graph:
            raise _LinkError(f"{node!r} is in the list of graph {graph.name!r} but belongs to another")
        if node.previous is not previous:
            raise _LinkError(f"{node!r} does not link back to the node before it")
        count, previous, node = count + 1, node, node.next
        if count > len(graph):
            raise _LinkError(f"the list of nodes is longer than its length {len(graph)}, or has a cycle")
    if previous is not graph.last or count != len(graph):
        raise _LinkError(f"the list has {count} nodes and ends at {previous!r}; {len(graph)} were counted")


def _check_names(graphs: Iterable[Graph]) -> None:
    owner: dict[str, Value] = {}
    for graph in graphs:
        for value, node in _values(graph):
            if owner.setdefault(value.name, value) is not value:
                raise _FaultError(f"two values are named %{value.name}", node, f"%{value.name}")


def _values(graph: Graph) -> Iterator[tuple[Value, Node | None]]:
    """All values of a graph, constants included, each with the node where it shows."""
    yield from ((value, None) for value in graph.inputs)
    for node in graph.nodes:
        yield from ((value, node) for value in node.inputs if value is not None and value.constant is not None)
        yield from ((value, node) for value in node.outputs)
    yield from ((value, None) for value in graph.outputs if value.constant is not None)


def _check_order(graph: Graph) -> None:
    """Every value that is read is a constant or was defined before, in this graph or one around it."""
    stack = [_order(graph, set())]
    while stack:
        inner = next(stack[-1], None)
        if inner is None:
            stack.pop()
        else:
            stack.append(inner)


def _order(graph: Graph, visible: set[Value]) -> Iterator[Iterator[Any]]:
    """Check one graph; its subgraphs are yielded, to be checked before this one goes on."""
    defined = list(graph.inputs)
    visible.update(defined)
    for node in graph.nodes:
        _check_visible(node.inputs, visible, node, graph)
        for _, inner in node.op.subgraphs():
            yield _order(inner, visible)
        visible.update(node.outputs)
        defined += node.outputs
    _check_visible(graph.outputs, visible, None, graph)
    visible.difference_update(defined)


def _check_visible(values: Sequence[Value | None], visible: set[Value], node: Node | None, graph: Graph) -> None:
    for value in values:
        if value is None or value.constant is not None or value in visible:
            continue
        reader = f"{node!r}" if node is not None else f"graph {graph.name!r} as its output"
        cause = "is not defined before it" if value.producer is not None else "is neither an input nor defined"
        raise _FaultError(f"{value!r} is read by {reader} but {cause}", node, f"%{value.name}")


def _check_node(node: Node, nodes: set[Node], graphs: Container[Graph]) -> None:
    for position, value in enumerate(node.inputs):
        if value is None:
            continue
        if (node, position) not in value.uses:
            raise _FaultError(f"%{value.name} does not know its reader {node!r}", node, f"%{value.name}")
        if value.constant is not None:
            _check_constant(value, node)
            _check_uses(value, nodes, graphs, node)
        elif value.producer is not None and value.producer not in nodes:
            raise _FaultError(f"the producer of %{value.name} is in no graph", node, f"%{value.name}")
    for value in node.outputs:
        if value.producer is not node:
            raise _FaultError(f"%{value.name} names {value.producer!r} as its producer", node, f"%{value.name}")
    _check_types(node)


def _check_uses(value: Value, nodes: set[Node], graphs: Container[Graph], node: Node | None = None) -> None:
    """Every use that the value knows is by a reader in the model, at that position."""
    for user, position in value.uses:
        is_inside = user in nodes if isinstance(user, Node) else user in graphs
        read = user.inputs if isinstance(user, Node) else user.outputs
        if not is_inside or position >= len(read) or read[position] is not value:
            name = repr(user) if isinstance(user, Node) else f"graph {user.name!r}"
            problem = "does not" if is_inside else "is not in the model"
            message = f"%{value.name} lists {name} as its reader at {position}, which {problem}"
            raise _FaultError(message, node or value.producer, f"%{value.name}")


def _check_outputs(graph: Graph) -> None:
    for position, value in enumerate(graph.outputs):
        if (graph, position) not in value.uses:
            raise _FaultError(f"%{value.name} does not know that graph {graph.name!r} returns it", value.producer)
        if value.constant is not None:
            _check_constant(value, None)


def _check_constant(value: Value, node: Node | None) -> None:
    array = value.constant
    if not isinstance(array, np.ndarray):
        return
    found = TensorType(from_numpy(array.dtype), array.shape)
    if value.type != found:
        raise _FaultError(f"the constant %{value.name} holds {found}, its type is {value.type}", node, f"%{value.name}")


def _check_types(node: Node) -> None:
    if not node.outputs:
        return
    try:
        types = infer_types(node.op, node.inputs, len(node.outputs), node.outputs[0].name)
    except IntaglioError as error:
        raise _FaultError(str(error), node, node.op.name) from None
    for value, expected in zip(node.outputs, types, strict=True):
        if not is_compatible(value.type, expected):
            message = f"%{value.name} has type {value.type}, {node.op.name} gives {expected}"
            raise _FaultError(message, node, f"%{value.name}")
        contents = value.contents
        if contents is not None and not is_compatible(value.type, TensorType(value.dtype, contents.shape)):
            raise _FaultError(f"the known contents of {value!r} have shape {contents.shape}", node, f"%{value.name}")
