"""Broadcasts that only the run can decide.

Where an operand's dimension is one expression and the result's another, the operand may be repeated (its dimension is
1) or not (they are equal). Kernels are specialised in that, so the plan assumes that they are equal; the runtime checks
it for each new set of sizes and makes a plan of its own for those where it does not hold. Sizes that must be equal, as
in a product of matrices, are checked in the same way, and there is no plan where they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from intaglio.ir.dim import Atom, Dim, DimFunction, Expr, bounds, broadcast, contains, lone_atom, symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.resize import every_value, rewrite_sizes
from intaglio.ir.substitution import replace_atoms
from intaglio.ir.types import TensorType
from intaglio.kernels.elementwise import can_translate
from intaglio.kernels.fused import reads

Assumption = tuple[Dim, Dim]

LIMIT = 512
"""Assumptions in one model at most."""


class Assumptions:
    """Which sizes are taken to be equal, and how sizes are written then.

    `inferred` has the shapes of values as the nodes' own rules gave them: a size that data tells must still be found.
    """

    def __init__(self) -> None:
        self.pairs: list[Assumption] = []
        self.inferred: dict[Value, tuple[Dim, ...]] = {}
        self._sizes = _Sizes()

    def settle(self, graph: Graph) -> None:
        """Take every pair of dimensions of which it is open if one is broadcast to be equal."""
        for value in graph.values():
            self.inferred.setdefault(value, _shape(value))
        self._sizes.when = _when_known(graph, self.inferred)
        self.rewrite(graph)
        while self._find(graph):
            self.rewrite(graph)

    def rewrite(self, graph: Graph) -> None:
        """Write the sizes of a graph as the assumptions let them be written."""
        if self.pairs:
            rewrite_sizes(graph, self._sizes.apply)

    def _find(self, graph: Graph) -> bool:
        """Go through the graph once for pairs that have a meaning outside of subgraphs; whether there were any.

        What must be equal comes first: what may be is not assumed against it.
        """
        count = len(self.pairs)
        for pair, must_be in chain(_equal_pairs(graph), _broadcast_pairs(graph)):
            if len(self.pairs) < LIMIT and all(symbols(dim) <= self._sizes.when.keys() for dim in pair):
                self.pairs += self._sizes.assume(pair, must_be)
        return len(self.pairs) > count


def _when_known(graph: Graph, inferred: Mapping[Value, tuple[Dim, ...]]) -> dict[str, int]:
    """How many nodes run before a symbol has a value; symbols of subgraphs alone are not there.

    Sizes of inputs are known from the start, those that data tells when the first node has run whose result has them.
    """
    when: dict[str, int] = {}
    for value in graph.inputs:
        when.update(dict.fromkeys(_symbols_of(value, inferred), 0))
    for place, node in enumerate(graph.nodes, 1):
        for value in node.outputs:
            for name in _symbols_of(value, inferred):
                when.setdefault(name, place)
    return when


def _symbols_of(value: Value, inferred: Mapping[Value, tuple[Dim, ...]]) -> set[str]:
    return set[str]().union(*(symbols(dim) for dim in (*inferred.get(value, ()), *_shape(value))))


class _Sizes:
    """What stands for what: atoms wherever they stand, and dimensions that are no atom only as a whole."""

    def __init__(self) -> None:
        self.when: Mapping[str, int] = {}
        self._atoms: dict[Atom, Dim] = {}
        self._wholes: dict[Dim, Dim] = {}
        self._memo: dict[Dim, Dim] = {}
        self._rebuilt: dict[Dim, Dim] = {}

    def assume(self, pair: Assumption, must_be: bool) -> list[Assumption]:
        """Take two dimensions to be equal, which they `must_be` or may be; what that adds to what was assumed before.

        Where one of them may be repeated and is one element cut from an axis, all that is open is whether the axis is
        empty: it is taken not to be.
        """
        left, right = (self.apply(dim) for dim in pair)
        if left == right or (isinstance(left, int) and isinstance(right, int)):
            return []
        if 1 in (left, right) and not must_be:
            return []
        for dim in () if must_be else (left, right):
            if _is_at_most_one(dim):
                self._replace(dim, 1)
                return [(dim, 1)]
        replaced, kept = sorted((left, right), key=self._order)
        if not isinstance(left, int) and not isinstance(right, int):
            both = broadcast(left, right)
            if both == kept:  # a size and its broadcast with another: the size is known no later
                replaced, kept = kept, replaced
            self._replace(both, kept)
        self._replace(replaced, kept)
        return [(left, right)]

    def _replace(self, replaced: Dim, kept: Dim) -> None:
        if replaced == kept:
            return
        atom = lone_atom(replaced)
        if atom is None or contains(kept, atom):
            self._wholes[replaced] = kept
        else:
            one: dict[Atom, Dim] = {atom: kept}
            self._atoms = {each: replace_atoms(dim, one) for each, dim in self._atoms.items()} | one
            self._rewrite_wholes(one)
            self._rebuilt.clear()
        self._memo.clear()

    def _rewrite_wholes(self, atoms: Mapping[Atom, Dim]) -> None:
        """Write what stands for what with other atoms, where two that differed may be the same now."""
        pairs = [(replace_atoms(dim, atoms), replace_atoms(other, atoms)) for dim, other in self._wholes.items()]
        self._wholes = {}
        for dim, other in pairs:
            left, right = self._end(dim), self._end(other)
            if left != right:
                replaced, kept = (left, right) if left == dim else sorted((left, right), key=self._order)
                self._wholes[replaced] = kept

    def _end(self, dim: Dim) -> Dim:
        """What stands for a dimension as a whole. There is no way back to it: see `_rewrite_wholes`."""
        while dim in self._wholes:
            dim = self._wholes[dim]
        return dim

    def apply(self, dim: Dim) -> Dim:
        """The dimension as the assumptions let it be written."""
        if isinstance(dim, int):
            return dim
        if dim not in self._memo:
            self._memo[dim] = self._end(replace_atoms(dim, self._atoms, self._rebuilt))
        return self._memo[dim]

    def _order(self, dim: Dim) -> tuple[int, int, str]:
        """What is to be replaced first: what is known later, and of sizes known at once the less simple."""
        known = max((self.when[name] for name in symbols(dim)), default=0)
        return -known, *_rank(dim)


def _is_at_most_one(dim: Dim) -> bool:
    """Whether the dimension is a minimum of 1 and sizes, as of a slice of one element."""
    atom = lone_atom(dim)
    return isinstance(atom, DimFunction) and atom.function == "min" and bounds(dim) == (0, 1)


def _broadcast_pairs(graph: Graph) -> Iterator[tuple[Assumption, bool]]:
    """Pairs of dimensions of which it is open if one is repeated."""
    for value in every_value(graph):
        for dim in _shape(value):
            yield from ((pair, False) for pair in _broadcasts(dim))
    for node in graph.all_nodes():
        if can_translate(node):
            yield from ((pair, False) for pair in _unequal_operands(node))


def _equal_pairs(graph: Graph) -> Iterator[tuple[Assumption, bool]]:
    """Pairs of dimensions that differ as expressions and must be equal."""
    for node in graph.all_nodes():
        if node.op.domain == "" and node.op.name in _EQUAL_SIDES:
            yield from ((pair, True) for pair in _EQUAL_SIDES[node.op.name](node))


def _broadcasts(dim: Dim) -> Iterator[Assumption]:
    for monomial, _ in dim.terms if isinstance(dim, Expr) else ():
        for atom in monomial:
            if isinstance(atom, DimFunction):
                if atom.function == "broadcast":
                    yield atom.left, atom.right
                for operand in atom.operands:
                    yield from _broadcasts(operand)


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


_EQUAL_SIDES: dict[str, Callable[[Node], Iterator[Assumption]]] = {
    **dict.fromkeys(("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul"), _summed_sides),
    **dict.fromkeys(("Conv", "ConvTranspose", "ConvInteger"), _convolved_channels),
    "Concat": _joined_sides,
}


def _rank(dim: Dim) -> tuple[int, str]:
    """Less simple dimensions first; numbers last."""
    atom = lone_atom(dim)
    if isinstance(dim, int):
        return 4, str(dim)
    if atom is None:
        return 0, str(dim)
    if isinstance(atom, DimFunction):
        return 1, str(dim)
    return (2 if "." in atom.name else 3), str(dim)


def _shape(value: Value) -> tuple[Dim, ...]:
    return value.type.shape or () if isinstance(value.type, TensorType) else ()
