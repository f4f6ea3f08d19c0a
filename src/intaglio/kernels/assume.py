"""Broadcasts that only the run can decide.

Where an operand's dimension is one expression and the result's another, the operand may be repeated (its dimension is
1) or not (they are equal). Kernels are specialised in that, so the plan assumes that they are equal; the runtime checks
it for each new set of sizes and makes a plan of its own for those where it does not hold. Sizes that must be equal, as
in a product of matrices, are checked in the same way, and there is no plan where they differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from intaglio.ir.dim import Atom, Call, Dim, Expr, broadcast, lone_atom, replace_atoms, symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.expression import can_emit
from intaglio.kernels.program import reads

Assumption = tuple[Dim, Dim]

ROUNDS = 32
"""Assumptions are made one at a time, at most so many."""


def assume_equal(graph: Graph, inferred: dict[Value, tuple[Dim, ...]]) -> list[Assumption]:
    """Rewrite the types of the graph's values as if ambiguous broadcasts were none; returns what was assumed.

    The shapes that the nodes' own rules gave are kept in `inferred`: a size that data tells must still be found out.
    """
    for value in graph.values():
        inferred.setdefault(value, _shape(value))
    assumed: list[Assumption] = []
    for _ in range(ROUNDS):
        pair = next((pair for pair in _ambiguous(graph) if pair not in assumed), None)
        if pair is None:
            break
        assumed.append(pair)
        _rewrite(graph, _Rewrite.of(pair))
    return assumed


@dataclass(frozen=True)
class _Rewrite:
    """What stands for what: atoms wherever they stand, and dimensions that are no atom only as a whole."""

    atoms: dict[Atom, Dim]
    wholes: dict[Dim, Dim]

    @staticmethod
    def of(pair: Assumption) -> _Rewrite:
        """Replace the less simple side by the other: calls before fresh symbols before named ones."""
        complex_side, simple_side = sorted(pair, key=_rank)
        atom = lone_atom(complex_side)
        joined = lone_atom(broadcast(*pair)) if not any(isinstance(dim, int) for dim in pair) else None
        atoms: dict[Atom, Dim] = {} if joined is None else {joined: simple_side}
        if atom is not None:
            return _Rewrite(atoms | {atom: simple_side}, {})
        return _Rewrite(atoms, {complex_side: simple_side})

    def apply(self, dim: Dim) -> Dim:
        """The dimension as the assumption lets it be written."""
        replaced = replace_atoms(dim, self.atoms)
        return self.wholes.get(replaced, replaced)


def _ambiguous(graph: Graph) -> Iterator[Assumption]:
    """Pairs of dimensions of which it is open if one is broadcast; only such as have a meaning outside of subgraphs."""
    outside = set[str]().union(*(symbols(dim) for value in graph.values() for dim in _shape(value)))
    for pair in _all_ambiguous(graph):
        if all(symbols(dim) <= outside for dim in pair):
            yield pair


def _all_ambiguous(graph: Graph) -> Iterator[Assumption]:
    for value in _all_values(graph):
        for dim in _shape(value):
            yield from _broadcasts(dim)
    for node in graph.all_nodes():
        if can_emit(node):
            yield from _unequal_operands(node)
        elif node.op.name in ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul") and node.op.domain == "":
            yield from _summed_sides(node)
        elif node.op.name in ("Conv", "ConvTranspose", "ConvInteger") and node.op.domain == "":
            yield from _convolved_channels(node)
        elif node.op.name == "Concat" and node.op.domain == "":
            yield from _joined_sides(node)


def _all_values(graph: Graph) -> Iterator[Value]:
    yield from graph.values()
    for node in graph.nodes:
        for _, inner in node.op.subgraphs():
            yield from _all_values(inner)


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
    for value in reads(node):
        for dim, wanted in zip(reversed(_shape(value)), reversed(result), strict=False):
            if dim not in (1, wanted):
                yield dim, wanted


def _summed_sides(node: Node) -> Iterator[Assumption]:
    """The two sizes over which a product of matrices sums; unlike a broadcast, they must be equal."""
    operands = (node.inputs[0], node.inputs[3 if node.op.name == "QLinearMatMul" else 1])
    left, right = (() if value is None else _shape(value) for value in operands)
    if not left or not right:
        return
    is_turned = node.op.name == "Gemm" and node.op.transA, node.op.name == "Gemm" and node.op.transB
    pair = left[-2 if is_turned[0] else -1], right[-1 if is_turned[1] or len(right) == 1 else -2]
    if pair[0] != pair[1]:
        yield pair


def _joined_sides(node: Node) -> Iterator[Assumption]:
    """The sizes of what is joined along all axes but the one, which must be equal."""
    shapes = [_shape(value) for value in node.inputs if value is not None]
    for shape in shapes[1:]:
        for axis, pair in enumerate(zip(shape, shapes[0], strict=False)):
            if pair[0] != pair[1] and axis != node.op.axis % len(shape):
                yield pair


def _convolved_channels(node: Node) -> Iterator[Assumption]:
    """The channels of a convolution's input, of its kernels and of its bias, which must be equal."""
    data, weights, bias = ((() if v is None else _shape(v)) for v in [*node.inputs, None][:3])
    if len(data) < 2 or len(weights) < 2:
        return
    inputs, outputs = weights[1] * node.op.group, weights[0]
    if node.op.name == "ConvTranspose":
        inputs, outputs = weights[0], weights[1] * node.op.group
    pairs = [(data[1], inputs)]
    pairs += [(bias[0], outputs)] if bias and node.op.name != "ConvInteger" else []
    yield from (pair for pair in pairs if pair[0] != pair[1])


def _rank(dim: Dim) -> tuple[int, str]:
    """Less simple dimensions first; numbers last."""
    atom = lone_atom(dim)
    if isinstance(dim, int):
        return 4, str(dim)
    if atom is None:
        return 0, str(dim)
    if isinstance(atom, Call):
        return 1, str(dim)
    return (2 if "." in atom.name else 3), str(dim)


def _rewrite(graph: Graph, rewrite: _Rewrite) -> None:
    for value in _all_values(graph):
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            value.type = value.type.with_shape(tuple(rewrite.apply(dim) for dim in value.type.shape))
        if value.constant is None and value.contents is not None:
            items = [rewrite.apply(item) for item in value.contents.ravel().tolist()]
            contents = np.empty(len(items), dtype=object)
            contents[:] = items
            value.contents = contents.reshape(value.contents.shape)


def _shape(value: Value) -> tuple[Dim, ...]:
    return value.type.shape or () if isinstance(value.type, TensorType) else ()
