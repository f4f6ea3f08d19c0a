"""What operators do with the axis that holds the rows of a batch: which mix rows, and which operands go row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Rows
from intaglio.ir.types import TensorType
from intaglio.ops.einsum import parse_equation
from intaglio.ops.evaluate import describe

Axis = Callable[[Value | None], int | None]
"""The axis of a value that holds the rows, None where it holds none."""

NO_ROWS = frozenset({"Shape", "Size"})
"""Operators whose results say something of rows and hold none."""

REGROUPED = frozenset({"Reshape", "Flatten"})
"""Operators that may join the axis of the rows with those behind it, or split them again."""

_UNTIL_THE_END = frozenset({"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"})
_ANY_AXIS = frozenset({"Flatten", "OneHot", "QuantizeLinear", "DequantizeLinear", "Unsqueeze"})
"""Operators whose `axis` is none along which they compute."""


class Hindrance(Exception):
    """Why a node cannot take another batch than that of the file."""

    def __init__(self, node: Node | None, why: str) -> None:
        where = f"{describe(node)} (which gives {node.outputs[0].name!r})" if node is not None else "an output"
        super().__init__(f"{where} cannot take another: it {why}")


def data_operands(node: Node) -> tuple[Value | None, ...]:
    """The operands whose elements a node reads, in their places."""
    return node.inputs[:1] if node.op.name == "CastLike" else node.inputs


def check_axes(node: Node, axis: Axis) -> None:
    """Raise Hindrance where a node computes along the axis of the rows."""
    places = [axis(value) for value in data_operands(node)]
    if all(place is None for place in places):
        return
    if not node.op.is_elementwise and node.op.keeps_rows is Rows.MIXED:
        raise Hindrance(node, "is not known to keep rows apart")
    if node.op.keeps_rows is Rows.FIRST and places[0] not in (0, None):
        raise Hindrance(node, "takes another axis for the batch")
    if node.op.keeps_rows is Rows.RECURRENT and places[0] != (0 if node.op.layout else 1):
        raise Hindrance(node, "takes another axis for the batch")
    if node.op.name.startswith("Scatter") and None in places:
        raise Hindrance(node, "writes into a fixed number of rows")
    if node.op.name in ("GatherND", "ScatterND") and _indexes_rows(node, places[0]):
        raise Hindrance(node, "takes rows by their numbers")
    if any(place in _contracted(node, position) for position, place in enumerate(places) if place is not None):
        raise Hindrance(node, "adds up rows")
    along = _along(node)
    if along is None:
        return
    operands = node.inputs if node.op.name == "Concat" else node.inputs[:1]
    for value in operands:
        place = axis(value)
        if value is None or place is None:
            continue
        first = along + value.rank if along < 0 else along
        if place == first or (place > first and node.op.name in _UNTIL_THE_END):
            raise Hindrance(node, "computes along the axis of the rows")


PRODUCTS = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul", "FusedMatMul", "MatMulNBits"})
"""Products of matrices, whose other axes are broadcast."""
_RIGHT = {"QLinearMatMul": 3}
"""Where the right operand of a product stands, if it is not the second."""


def _contracted(node: Node, position: int) -> tuple[int, ...]:
    """The axes of an operand along which a product adds up."""
    value = node.inputs[position]
    if value is None or not isinstance(value.type, TensorType) or value.type.shape is None:
        return ()
    rank, name = value.rank, node.op.name
    if name in ("Gemm", "FusedGemm") and position < 2:
        return (0 if node.op.transA else 1,) if position == 0 else (1 if node.op.transB else 0,)
    if name == "Einsum":
        return _summed_labels(node, position)
    if name not in PRODUCTS or position not in (0, _RIGHT.get(name, 1)):
        return ()
    is_left = position == 0
    is_turned = bool(getattr(node.op, "transA" if is_left else "transB", 0))
    return (rank - 1 if is_left != is_turned else max(0, rank - 2),)


def _summed_labels(node: Node, position: int) -> tuple[int, ...]:
    """The axes of an operand of Einsum whose labels the result does not have, or another operand has elsewhere."""
    ranks = [value.rank for value in node.inputs if value is not None]
    equation = parse_equation(node.op.equation, ranks)
    labels = equation.operands[position]
    return tuple(axis for axis, label in enumerate(labels) if label not in equation.output or labels.count(label) > 1)


def _indexes_rows(node: Node, place: int | None) -> bool:
    """Whether indices say which rows are meant."""
    depth, shared = node.needed(1).shape[-1], getattr(node.op, "batch_dims", 0)
    return place is not None and not (place < shared or (isinstance(depth, int) and place >= shared + depth))


def _along(node: Node) -> int | None:
    """The axis along which a node computes."""
    if node.op.name in ("CumSum", "CumProd"):
        contents = node.needed(1).contents
        if contents is None:
            raise Hindrance(node, "computes along an axis that depends on data")
        return int(contents.item())
    along = getattr(node.op, "axis", None)
    return along if isinstance(along, int) and node.op.name not in _ANY_AXIS else None


def paired_axes(node: Node, axis: Axis) -> Iterator[tuple[int, int, Dim]]:
    """The operands without rows that need as many as others have: position, axis, and the size that it must have."""
    carrying = next((value for value in data_operands(node) if axis(value) is not None), None)
    if carrying is None:
        return
    place = axis(carrying)
    assert place is not None
    dim = carrying.shape[place]
    for position, value in enumerate(data_operands(node)):
        if value is not None and axis(value) is None:
            own = _paired_axis(node, position, value, carrying, place)
            if own is not None:
                yield position, own, dim


def _paired_axis(node: Node, position: int, value: Value, carrying: Value, place: int) -> int | None:
    if node.op.name == "Concat":
        return place
    if node.op.keeps_rows is Rows.RECURRENT:
        state = 0 if node.op.layout else 1
        return {4: 0, 5: state, 6: state if node.op.name == "LSTM" else None}.get(position)
    behind = carrying.rank - place
    is_paired = node.op.is_elementwise or (node.op.name == "MatMul" and behind > 2)
    if not is_paired or value.rank < behind or value.shape[value.rank - behind] == 1:
        return None
    return value.rank - behind


def row_places(after: Sequence[Dim], lead: Dim, size: int) -> list[int]:
    """The axes of a reshaped tensor that can hold the rows which come behind `lead` elements, the likelier ones first.

    >>> row_places([20, 8], 5, 4), row_places([5, 8], 5, 1)
    ([0], [1, 0])
    """
    found = list[int]()
    for place, dim in enumerate(after):
        outer = dims.product(after[:place])
        if outer == 0:
            break
        inner = dims.floordiv(lead, outer)
        whole = inner * size
        if inner != 0 and inner * outer == lead and dims.floordiv(dim, whole) * whole == dim:
            found.append(place)
    exact = [place for place in found if dims.product(after[:place]) == lead]
    return [*exact[:1], *(place for place in found if place not in exact)]


class Choices:
    """Which of the possible axes of rows is taken of reshapes that can be read in several ways; alike ones go alike."""

    def __init__(self) -> None:
        self._taken: dict[Any, int] = {}
        self._counts: dict[Any, int] = {}

    def take(self, key: Any, places: Sequence[int]) -> int:
        """The axis for a reshape."""
        self._counts[key] = len(places)
        return places[self._taken.setdefault(key, 0)]

    def advance(self) -> bool:
        """Choose another way for the last reshape that has one left; False where all were tried."""
        for key in reversed(list(self._taken)):
            if self._taken[key] + 1 < self._counts[key]:
                self._taken[key] += 1
                return True
            del self._taken[key]
        return False
