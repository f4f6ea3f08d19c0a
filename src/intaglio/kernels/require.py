"""What the sizes of a graph must be to each other, as its operators' type rules say."""

from __future__ import annotations

from collections.abc import Iterator

from intaglio.errors import IntaglioError
from intaglio.ir.build import infer_types
from intaglio.ir.dim import Expr, symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.requirements import Requirement, recording
from intaglio.ir.types import TensorType
from intaglio.kernels.control import nested_graphs

_CONTROL = ("If", "Loop", "Scan", "SequenceMap")

Requirements = dict[Graph, dict[Requirement, None]]
"""What each graph needs where it runs: a branch that is not taken needs nothing."""


def find_requirements(graph: Graph, found: Requirements) -> None:
    """Add what the nodes of a graph and of its subgraphs need and what only the sizes of a run decide."""
    for each in (graph, *nested_graphs(graph)):
        wanted = found.setdefault(each, {})
        for node in each.nodes:
            wanted.update(_of_node(node))


def _of_node(node: Node) -> dict[Requirement, None]:
    """What a node needs, said in symbols of its own operands and results; none where all their sizes are numbers."""
    own = set[str]().union(*(_symbols(value) for value in (*node.inputs, *node.outputs)))
    if not own:
        return {}
    with recording() as found:
        try:
            _infer(node)
        except IntaglioError:
            return {}  # what an assumption makes of a type is no model's fault; the assumption is checked by itself
    return {requirement: None for requirement in found if requirement.symbols <= own}


def _infer(node: Node) -> None:
    """Apply the type rule for what it says alone; those of control flow would change the types in the bodies."""
    if node.op.name == "Scan" and node.op.domain == "":
        node.op.length([value for value in node.inputs if value is not None])
    elif node.op.name not in _CONTROL or next(node.op.subgraphs(), None) is None:
        infer_types(node.op, node.inputs, len(node.outputs), node.outputs[0].name)


def _symbols(value: Value | None) -> Iterator[str]:
    if value is None or value.constant is not None or not isinstance(value.type, TensorType):
        return
    for dim in value.type.shape or ():
        yield from symbols(dim)
    for item in () if value.contents is None else value.contents.ravel().tolist():
        if isinstance(item, Expr):
            yield from symbols(item)
