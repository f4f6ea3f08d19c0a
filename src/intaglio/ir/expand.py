"""Expansions: operators written in simpler ones, until whoever asks can handle what is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from intaglio.errors import GraphError, UnsupportedError
from intaglio.ir.build import Builder, take_place
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.limits import check_nodes, check_time
from intaglio.ir.resize import keep_sizes

EXPANSION_LIMIT = 200_000
"""Nodes that expanding a graph may add."""


def expand_until(
    nodes: Graph | Iterable[Node],
    handles: Callable[[Node], bool],
    *,
    expand: Callable[[Node], object] | None = None,
    bodies: bool = False,
) -> dict[Node, str]:
    """Replace nodes by what their operators expand to, until `handles` is true of all that are left.

    Returns the nodes that nobody handles and that have no expansion, each with the reason. Of a graph, what expansions
    bring in is looked at too, and with `bodies` the subgraphs of the nodes that stay; of nodes that are given one by
    one, only those. `expand` takes the place of `expand_node`; it must take the node out of its graph.

    Whoever consumes a graph (lowering, derivatives, exporters) says what it handles, and gets the rest through this.
    Raises LimitError where the graph becomes too large; after EXPANSION_LIMIT new nodes the rest stays as it is.
    """
    refused: dict[Node, str] = {}
    step = expand or expand_node
    if not isinstance(nodes, Graph):
        for node in nodes:
            if not handles(node):
                _expand(node, step, refused)
        return refused
    _expand_graph(nodes, handles, step, refused)
    for node in nodes.nodes if bodies else ():
        for _, body in node.op.subgraphs():
            refused |= expand_until(body, handles, expand=expand, bodies=True)
    return refused


def _expand_graph(
    graph: Graph, handles: Callable[[Node], bool], expand: Callable[[Node], object], refused: dict[Node, str]
) -> None:
    node, added = graph.first, 0
    while node is not None:
        before, following, size = node.previous, node.next, len(graph)
        if not handles(node) and _expand(node, expand, refused):
            added += len(graph) - size
            check_nodes(len(graph))
            check_time()
            if added > EXPANSION_LIMIT:
                return
            following = graph.first if before is None else before.next
        node = following


def _expand(node: Node, expand: Callable[[Node], object], refused: dict[Node, str]) -> bool:
    """Expand one node, or note why that is not possible and take out what was built of it."""
    graph, before = node.graph, node.previous
    try:
        expand(node)
    except UnsupportedError as error:
        if graph is not None and node.graph is graph:
            _remove_between(graph, before, node)
        refused[node] = str(error)
        return False
    return True


def _remove_between(graph: Graph, before: Node | None, end: Node) -> None:
    while end.previous is not before and end.previous is not None:
        graph.remove(end.previous)


def expand_node(node: Node, drop: bool = True) -> tuple[Value, ...]:
    """Replace a node by its operator's expansion and return the values that took its outputs' place."""
    graph = node.graph
    if graph is None:
        raise GraphError(f"{node!r} is in no graph")
    builder = Builder(graph, before=node, origin=node.origin)
    with builder.active():
        result = node.op.expand(builder, *node.inputs)
    values = result if isinstance(result, tuple) else (result,)
    for old, new in zip(node.outputs, values, strict=False):
        old.replace_uses(new)
    keep_sizes(graph, [(old.type, new.type) for old, new in zip(node.outputs, values, strict=False)])
    if drop:
        graph.remove(node)
    return values[: len(node.outputs)]


def expand_in_place(node: Node) -> None:
    """Replace a node by its operator's expansion, which then gives the very values that the node gave.

    Unlike after `expand_node`, who holds an output of the node holds it still, under its name and with its type.
    """
    graph, outputs = node.graph, node.outputs
    if graph is None:
        raise GraphError(f"{node!r} is in no graph")
    builder = Builder(graph, before=node, origin=node.origin)
    before = node.previous
    with builder.active():
        result = node.op.expand(builder, *node.inputs)
        values = list(result if isinstance(result, tuple) else (result,))[: len(outputs)]
        made = _outputs_between(graph, before, node)
        for position, value in enumerate(values):
            if value not in made or value in values[:position]:  # what was there before keeps its own name
                values[position] = builder.Identity(value)
    keep_sizes(graph, [(old.type, new.type) for old, new in zip(outputs, values, strict=True)])
    for old, new in zip(outputs, values, strict=True):
        take_place(old, new)
    graph.detach(node)


def _outputs_between(graph: Graph, before: Node | None, end: Node) -> set[Value]:
    found: set[Value] = set()
    node = graph.first if before is None else before.next
    while node is not None and node is not end:
        found.update(node.outputs)
        node = node.next
    return found
