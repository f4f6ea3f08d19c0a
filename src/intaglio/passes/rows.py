"""Rows that do not mix: whether each row of a graph's results depends on one row of its inputs alone.

Rows lie along the axis of a value whose size has the symbol of the batch in it. A graph maps over its rows where f of
joined rows is the joined f of each: then rows of several callers may be run together, and a fixed batch may be opened.
"""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.resize import own_symbols
from intaglio.ir.substitution import substitute
from intaglio.ir.types import TensorType, Type
from intaglio.passes.row_axes import NO_ROWS, PRODUCTS, REGROUPED, Hindrance, check_axes, data_operands

SIZE_OPERANDS: dict[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Slice": (1, 2, 3, 4), "Resize": (2, 3),
    "Pad": (1,), "Split": (1,),
}  # fmt: skip
"""Operands that say how large a result is and are no data of it."""


def separate_rows(graph: Graph, symbol: str) -> dict[Value, int]:
    """The axis of each output that holds the rows, in a graph whose inputs have `symbol` as the size of an axis.

    Raises Hindrance with the first node that may mix rows, or whose data tells how many there are.
    """
    walk = RowWalk(symbol)
    counted = set[Value]()
    for node in graph.nodes:
        walk.visit(node)
        _check_counts(node, walk, counted)
    found: dict[Value, int] = {}
    for value in graph.outputs:
        axis = walk.axis(value)
        if value in counted or (axis is None and symbol in own_symbols(value)):
            raise Hindrance(value.producer, f"computes how many rows there are: {value!r}")
        if axis is not None:
            walk.check_whole(value, axis)
            found[value] = axis
    return found


def _check_counts(node: Node, walk: RowWalk, counted: set[Value]) -> None:
    """Note results that tell how many rows there are; raise Hindrance where such a number meets the data of rows."""
    sizes = SIZE_OPERANDS.get(node.op.name, ())
    told = [place for place, value in enumerate(node.inputs) if value is not None and value in counted]
    told += [] if node.op.name in NO_ROWS else [-1 for value in node.captures() if value in counted]
    if node.op.name in NO_ROWS and walk.axis(node.input) is not None:
        counted.update(node.outputs)
        return
    outputs = [value for value in node.outputs if walk.axis(value) is not None]
    if any(place not in sizes for place in told):
        if outputs or any(walk.axis(value) is not None for value in data_operands(node)):
            raise Hindrance(node, "computes with the number of rows")
        counted.update(node.outputs)
    elif told and not outputs:
        raise Hindrance(node, "makes something of the number of rows that holds none")


class RowWalk:
    """The way through a graph in which the batch is a symbol, from node to node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lead: dict[Value, Dim] = {}
        """How many parts an axis of rows has, each of which has all rows; those that are not here have one."""

    def axis(self, value: Value | None) -> int | None:
        """The axis of a value that holds the rows."""
        if value is None or not isinstance(value.type, TensorType) or value.type.shape is None:
            return None
        found = [place for place, dim in enumerate(value.shape) if self.name in dims.symbols(dim)]
        return found[0] if found else None

    def visit(self, node: Node) -> None:
        """Check a node of a graph that is open; raises Hindrance where it may mix rows."""
        values = [*node.inputs, *node.captures()]
        if not any(value is not None and self.name in own_symbols(value) for value in values):
            if node.op.is_random:
                raise Hindrance(node, "draws numbers")
            return
        if any(node.op.subgraphs()):
            raise Hindrance(node, "has bodies, whose rows are not followed")
        if node.op.is_random:
            raise Hindrance(node, "draws numbers")
        check_axes(node, self.axis)
        if node.op.name not in NO_ROWS:
            for value in node.outputs:
                self.check_result(node, value)

    def check_result(self, node: Node, value: Value, old: Type | None = None) -> None:
        """Raise Hindrance where a result does not have the rows that its operands have."""
        carrying = [each for each in data_operands(node) if self.axis(each) is not None]
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            raise Hindrance(node, "has a result that is no tensor of known rank")
        axes = [place for place, dim in enumerate(value.shape) if self.name in dims.symbols(dim)]
        if not axes and (not carrying or self.may_lose(node, value)):
            return
        if len(axes) != 1:
            raise Hindrance(node, "puts rows along two axes" if axes else "has no axis of rows in its result")
        dim = value.shape[axes[0]]
        if dim != dims.symbol(self.name) * substituted(dim, self.name, 1):
            raise Hindrance(node, f"has rows of other sizes in its result: {value!r}")
        if not carrying:
            return
        if node.op.is_elementwise or node.op.name in PRODUCTS:
            self._check_pairs(node, value, axes[0])
        if node.op.name in REGROUPED:
            self.lead[value] = self._new_lead(node, value, axes[0])
            return
        alike = [each for each in carrying if each is not None and each.shape[self.axis(each) or 0] == dim]
        leads = [self.lead.get(each, 1) for each in alike]
        if not alike or any(lead != leads[0] for lead in leads):
            raise Hindrance(node, f"has other rows in its result than in its operands: {value!r}")
        self.lead[value] = leads[0]

    def _check_pairs(self, node: Node, value: Value, axis: int) -> None:
        """Raise Hindrance where broadcasting pairs the rows of an operand with something else than rows."""
        for each in data_operands(node):
            place = self.axis(each)
            if each is not None and place is not None and each.rank - place != value.rank - axis:
                raise Hindrance(node, f"pairs the rows of {each!r} with something else")

    def may_lose(self, node: Node, value: Value) -> bool:
        """Whether a result without rows is allowed."""
        del node, value
        return False

    def check_whole(self, value: Value, axis: int) -> None:
        """Raise Hindrance where an axis of an output is made of rows in a way that cannot be cut into them."""
        if self.lead.get(value, 1) != 1:
            raise Hindrance(value.producer, f"joins rows with what stood before them: {value!r}")

    def _new_lead(self, node: Node, value: Value, axis: int) -> Dim:
        """The parts of an axis of rows behind a reshape: before the rows must come as many elements as before it."""
        data = node.needed(0)
        before = dims.product(data.shape[: self.axis(data) or 0]) * self.lead.get(data, 1)
        outer = dims.product(value.shape[:axis])
        lead = dims.floordiv(before, outer)
        rows = substituted(value.shape[axis], self.name, 1)
        if lead * outer != before or dims.floordiv(rows, lead) * lead != rows:
            raise Hindrance(node, f"mixes rows: {list(data.shape)} become {list(value.shape)}")
        return lead


def substituted(dim: Dim, name: str, size: int) -> Dim:
    """A size with a number of rows."""
    return substitute(dim, {name: size})


def open_symbols(graph: Graph, axis: int = 0) -> Sequence[str]:
    """The names that the inputs of a graph have for the size of an axis, each once."""
    found: dict[str, None] = {}
    for value in graph.inputs:
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        if shape is not None and len(shape) > axis:
            found.update(dict.fromkeys(dims.symbols(shape[axis])))
    return list(found)
