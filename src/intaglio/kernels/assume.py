"""Broadcasts that only the run can decide.

Where an operand's dimension is one expression and the result's another, the operand may be repeated (its dimension is
1) or not (they are equal). Kernels are specialised in that, so the plan assumes that they are equal; the runtime checks
it for each new set of sizes and makes a plan of its own for those where it does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from intaglio.ir.dim import Atom, Call, Dim, Expr, Symbol, lone_atom, replace_atoms
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.expression import EMITTERS

Assumption = tuple[Dim, Dim]

ROUNDS = 32
"""Assumptions are made one at a time, at most so many."""


def assume_equal(graph: Graph) -> list[Assumption]:
    """Rewrite the types of the graph's values as if ambiguous broadcasts were none; returns what was assumed."""
    assumed: list[Assumption] = []
    for _ in range(ROUNDS):
        pair = next(_ambiguous(graph), None)
        if pair is None:
            break
        assumed.append(pair)
        _rewrite(graph, dict([_orient(pair)]))
    return assumed


def _ambiguous(graph: Graph) -> Iterator[Assumption]:
    for value in graph.values():
        for dim in _shape(value):
            yield from _broadcasts(dim)
    for node in graph.nodes:
        if node.op.name in EMITTERS and node.op.domain == "":
            yield from _unequal_operands(node)


def _broadcasts(dim: Dim) -> Iterator[Assumption]:
    for monomial, _ in dim.terms if isinstance(dim, Expr) else ():
        for atom in monomial:
            if isinstance(atom, Call):
                if atom.function == "broadcast":
                    yield atom.left, atom.right
                yield from _broadcasts(atom.left)
                yield from _broadcasts(atom.right)


def _unequal_operands(node: Node) -> Iterator[Assumption]:
    result = _shape(node.output)
    for value in node.inputs:
        shape = () if value is None else _shape(value)
        for dim, wanted in zip(reversed(shape), reversed(result), strict=False):
            is_simple = lone_atom(dim) is not None or lone_atom(wanted) is not None
            if dim not in (1, wanted) and is_simple:
                yield dim, wanted


def _orient(pair: Assumption) -> tuple[Atom, Dim]:
    """Which side stands for the other: calls before symbols, fresh symbols before named ones."""
    ranked = sorted(pair, key=_rank)
    atom = lone_atom(ranked[0])
    if atom is None:
        atom = lone_atom(ranked[1])
        ranked.reverse()
    assert atom is not None or not isinstance(ranked[0], Expr)
    return (atom or Symbol("")), ranked[1]


def _rank(dim: Dim) -> tuple[int, str]:
    atom = lone_atom(dim)
    if isinstance(atom, Call):
        return 0, str(dim)
    if isinstance(atom, Symbol):
        return (1 if "." in atom.name else 2), str(dim)
    return 3, str(dim)


def _rewrite(graph: Graph, atoms: dict[Atom, Dim]) -> None:
    for value in graph.values():
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            value.type = value.type.with_shape(tuple(replace_atoms(dim, atoms) for dim in value.type.shape))
        if value.constant is None and value.contents is not None:
            items = [replace_atoms(item, atoms) for item in value.contents.ravel().tolist()]
            contents = np.empty(len(items), dtype=object)
            contents[:] = items
            value.contents = contents.reshape(value.contents.shape)


def _shape(value: Value) -> tuple[Dim, ...]:
    return value.type.shape or () if isinstance(value.type, TensorType) else ()
