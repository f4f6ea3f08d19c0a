"""Less memory for the backward pass: values of the forward pass are computed again there, from what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate
from math import prod
from typing import Literal

from intaglio.errors import InputError
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType

Recompute = Literal["none", "all"] | int | Sequence[str]
"""What the backward pass computes again: nothing, elementwise values, so many of them that those which are left take at
most so many bytes, or blocks by name."""


def check_recompute(how: object) -> None:
    """Raise InputError where a choice is none."""
    is_number = isinstance(how, int) and not isinstance(how, bool) and how >= 0
    is_names = isinstance(how, (list, tuple)) and all(isinstance(name, str) for name in how)  # pyright: ignore
    if how not in ("none", "all") and not is_number and not is_names:
        raise InputError(f"recompute is {how!r}, expected 'none', 'all', a number of bytes, or a list of block names")


def recompute_values(graph: Graph, first: Node, how: Recompute) -> int:
    """Let the nodes from `first` on compute anew what they read of the nodes before; returns how many values.

    A value is computed anew where that needs only inputs, constants, outputs and values that are kept in any case,
    since a later node reads them and they are not to be computed anew. The copies stand beside the nodes that read
    them, so that elementwise ones become one kernel with those. Raises InputError where a name is that of no block.
    """
    if how == "none":
        return 0
    forward, backward = _parted(graph, first)
    read = {value for node in backward for value in (*node.inputs, *node.captures()) if value is not None}
    if isinstance(how, (str, int)):
        again = _computable(graph, forward, read, _is_cheap)
    else:
        again = _inside_blocks(graph, forward, read, _blocks(forward, how))
    if isinstance(how, int):
        again -= _within(how, [value for value in again if value in read], again)
    copies: dict[Value, Value] = {}
    for node in backward:
        for position, value in enumerate(node.inputs):
            if value is not None and value in again:
                node.set_input(position, _copied(graph, value, again, copies, node))
    return len(copies)


def _parted(graph: Graph, first: Node) -> tuple[list[Node], list[Node]]:
    nodes = list(graph.nodes)
    place = nodes.index(first)
    return nodes[:place], nodes[place:]


def _computable(graph: Graph, forward: Iterable[Node], read: set[Value], may: Callable[[Node], bool]) -> set[Value]:
    """The values of nodes that may be computed anew, and that follow from what is kept in any case."""
    kept, again = set(graph.inputs), set[Value]()
    for node in forward:
        operands = [value for value in node.inputs if value is not None and value.constant is None]
        is_known = may(node) and all(value in kept or value in again for value in operands)
        for value in node.outputs:
            if value.is_output or (not is_known and value in read):
                kept.add(value)
            elif is_known:
                again.add(value)
    return again


def _is_cheap(node: Node) -> bool:
    return (node.op.is_elementwise or node.op.is_view) and len(node.outputs) == 1


def _within(budget: int, waiting: Sequence[Value], again: set[Value]) -> set[Value]:
    """Of values that wait for the backward pass those that are kept: what takes longest to compute, for its size."""
    work: dict[Value, int] = {}
    for value in waiting:
        work[value] = len(_needed(value, again))
    kept, left = set[Value](), budget
    for value in sorted(waiting, key=lambda value: (-work[value] / max(_bytes(value), 1), value.name)):
        if _bytes(value) <= left:
            kept.add(value)
            left -= _bytes(value)
    return kept


def _needed(value: Value, again: set[Value]) -> set[Value]:
    """What is computed anew for a value, with itself."""
    found, stack = {value}, [value]
    while stack:
        producer = stack.pop().producer
        more = [v for v in producer.inputs if v is not None and v in again and v not in found] if producer else []
        found.update(more)
        stack += more
    return found


def _bytes(value: Value) -> int:
    """The bytes of a value; an open size counts as one."""
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return 0
    elements = prod(size if isinstance(size, int) else 1 for size in value.type.shape)
    return elements * max(value.dtype.bits, 8) // 8


def _blocks(forward: Iterable[Node], patterns: Sequence[str]) -> dict[Node, str]:
    """The nodes of the blocks that patterns name, with the names of those.

    A name is that of a module, or of a node: `encoder/layer.0`; the shortest one that a pattern fits is the block.
    """
    found: dict[Node, str] = {}
    used: set[str] = set()
    known: dict[str, None] = {}
    for node in forward:
        names = _names(node)
        known |= dict.fromkeys(names)
        for name in names:
            fitting = [pattern for pattern in patterns if fnmatchcase(name, pattern)]
            if fitting:
                found[node] = name
                used.update(fitting)
                break
    for pattern in patterns:
        if pattern not in used:
            some = ", ".join(map(repr, list(known)[:8])) or "none that has a name"
            raise InputError(f"recompute names {pattern!r}, and the model has no such block; it has {some}")
    return found


def _names(node: Node) -> list[str]:
    """The names of the modules around a node, outermost first, each with those around it, and its own."""
    if not node.origin:
        return []
    own = node.origin.name.rpartition("/")[2]
    parts = [*(scope.name for scope in node.origin.scopes), own]
    return list(accumulate(parts, lambda left, right: f"{left}/{right}"))


def _inside_blocks(graph: Graph, forward: Sequence[Node], read: set[Value], blocks: Mapping[Node, str]) -> set[Value]:
    """The values that only their own block reads, besides the backward pass: those of blocks that draw no numbers."""
    order = {node: place for place, node in enumerate(forward)}

    def may(node: Node) -> bool:
        if node not in blocks or node.op.is_random or any(True for _ in node.op.subgraphs()):
            return False
        readers = [reader for value in node.outputs for reader in value.readers]
        return all(reader not in order or blocks.get(reader) == blocks[node] for reader in readers)

    return _computable(graph, forward, read, may)


def _copied(graph: Graph, value: Value, again: set[Value], copies: dict[Value, Value], before: Node) -> Value:
    """The copy of a value, with what it needs, in front of the first node that reads it."""
    stack: list[Value] = [value]
    while stack:
        producer = stack[-1].producer
        assert producer is not None
        needed = _missing(producer.inputs, again, copies)
        if needed:
            stack += needed
            continue
        old = stack.pop()
        if old not in copies:
            copies.update(_copy(graph, producer, copies, before))
    return copies[value]


def _missing(inputs: Sequence[Value | None], again: set[Value], copies: dict[Value, Value]) -> list[Value]:
    return [value for value in inputs if value is not None and value in again and value not in copies]


def _copy(graph: Graph, node: Node, copies: dict[Value, Value], before: Node) -> dict[Value, Value]:
    inputs = [None if value is None else copies.get(value, value) for value in node.inputs]
    copy = Node(node.op, inputs, node.origin.recomputed())
    made: dict[Value, Value] = {}
    for old in node.outputs:
        made[old] = Value(graph.unique_name(f"{old.name}.again"), old.type, copy)
        made[old].contents = old.contents
    copy.outputs = tuple(made.values())
    graph.insert(copy, before)
    return made
