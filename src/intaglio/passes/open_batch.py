"""Models with a fixed batch, for batches of any size.

The first axis of the inputs becomes a symbol, and types are inferred anew from node to node. Sizes that the model holds
as numbers (the targets of `Reshape` and `Expand`) follow. A node that would mix rows, or lose some, is refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intaglio.errors import GraphError, InputError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder, infer_node
from intaglio.ir.clone import clone_with_values
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.resize import every_value, own_symbols, rewritten_type
from intaglio.ir.types import TensorType, Type
from intaglio.passes.row_axes import NO_ROWS, Choices, Hindrance, check_axes, paired_axes, row_places
from intaglio.passes.rows import RowWalk, substituted

ATTEMPTS = 64
"""How many ways to read the reshapes of a model are tried."""

ANOTHER = 10007
"""A batch with which types are inferred once more: a prime, which no size of a model is by chance."""


@dataclass(frozen=True)
class OpenRequest:
    """What is to be opened: which axis of which inputs (all, where none are named), and how its size is called.

    `trained` are constants that will change: their rows stay what they are, even where all are equal.
    """

    axis: int = 0
    name: str = "batch"
    inputs: tuple[str, ...] = ()
    trained: Collection[str] = ()

    def opens(self, value: Value) -> bool:
        """Whether an input may have rows."""
        is_wanted = not self.inputs or value.name in self.inputs
        return is_wanted and _has_rows(value) and value.rank > self.axis


def fixed_batch(graph: Graph, request: OpenRequest = OpenRequest()) -> int | None:  # noqa: B008
    """The batch of a graph whose first input has a number for it."""
    first = next((value for value in graph.inputs if request.opens(value)), None)
    size = first.shape[request.axis] if first is not None else None
    return size if isinstance(size, int) and size > 0 else None


def has_other_batch(graph: Graph, feeds: Mapping[str, Any]) -> bool:
    """Whether arrays for some inputs have another number of rows than the fixed batch of the graph."""
    size = fixed_batch(graph)
    fixed = [value for value in graph.inputs if _has_rows(value) and value.shape[0] == size and value.name in feeds]
    shapes = [(value.rank, np.shape(feeds[value.name])) for value in fixed]
    return any(len(shape) == rank and shape[0] != size for rank, shape in shapes)


def open_batch(source: Graph, trained: Collection[str] = ()) -> Graph:
    """A copy of a graph with a fixed batch that takes batches of any size; raises InputError where a node hinders.

    `trained` are constants that will change: their rows stay what they are, even where all are equal.
    """
    size = fixed_batch(source)
    try:
        return opened_graph(source, OpenRequest(trained=trained))[0]
    except Hindrance as hindrance:
        raise InputError(
            f"the model has a fixed batch of {size}, and {hindrance}. Export it with an open batch (of PyTorch, "
            f"dynamic_shapes={{0: 'N'}}), or train with batches of {size}"
        ) from None


def opened_graph(source: Graph, request: OpenRequest) -> tuple[Graph, str]:
    """A copy of a graph in which the size of an axis is open, and its name; raises Hindrance where a node hinders.

    Raises InputError where the axis has no fixed size.
    """
    size = fixed_batch(source, request)
    if size is None:
        raise InputError("the model has no fixed batch")
    choices, told = Choices(), list[Hindrance]()
    for _ in range(ATTEMPTS):
        graph, _ = clone_with_values(source)
        opening = _Opening(graph, size, request, choices)
        try:
            opening.run()
            _check_with_numbers(graph, opening.name)
            return graph, opening.name
        except Hindrance as hindrance:
            told.append(hindrance)
        if not choices.advance():
            break
    raise told[0]


def _has_rows(value: Value) -> bool:
    is_fed = value.default is None and isinstance(value.type, TensorType)
    return is_fed and value.tensor.shape is not None and value.rank > 0


class _Opening(RowWalk):
    """The way through a graph, from node to node."""

    def __init__(self, graph: Graph, size: int, request: OpenRequest, choices: Choices) -> None:
        used, name = set[str]().union(*(own_symbols(value) for value in every_value(graph))), request.name
        while name in used:
            name += "_"
        super().__init__(name)
        self._graph, self._size, self._choices, self._wish = graph, size, choices, request
        self._trained = request.trained
        self._batch = dims.symbol(self.name)
        self._old: dict[Value, tuple[Dim, ...]] = {}

    def run(self) -> None:
        """Open the inputs, and what follows from them."""
        axis, request = self._wish.axis, self._wish
        opened = [value for value in self._graph.inputs if request.opens(value) and value.shape[axis] == self._size]
        self._first = opened[0]
        for value in opened:
            self._old[value] = value.shape
            value.type = value.tensor.with_shape((*value.shape[:axis], self._batch, *value.shape[axis + 1 :]))
        for node in list(self._graph.nodes):
            self._open(node)
        for value in self._graph.outputs:
            axis = self.axis(value)
            if axis is not None and value.rank == 1 and value.shape[axis] != self._batch:
                raise Hindrance(value.producer, f"makes one axis of the rows and of all that they hold: {value!r}")

    def _open(self, node: Node) -> None:
        values = [*node.inputs, *node.captures()]
        if not any(value is not None and self.name in own_symbols(value) for value in values):
            if node.op.is_random:
                raise Hindrance(node, "draws numbers for a fixed number of rows")
            return
        if any(node.op.subgraphs()):
            raise Hindrance(node, "has bodies with fixed sizes")
        before = [value.type for value in node.outputs]
        try:
            self._follow(node, before[0])
            infer_node(node)
        except (ShapeError, GraphError, UnsupportedError) as error:
            raise Hindrance(node, f"does not fit: {error}") from None
        self._remember(node, before)
        self._check(node, before)

    def _remember(self, node: Node, before: Sequence[Type]) -> None:
        for value, type in zip(node.outputs, before, strict=True):
            if isinstance(type, TensorType) and type.shape is not None:
                self._old[value] = type.shape

    def _follow(self, node: Node, before: Type) -> None:
        """Let sizes that are numbers in the graph follow the batch."""
        if not isinstance(before, TensorType) or before.shape is None:
            raise Hindrance(node, "has a result of unknown rank")
        has_rows = self.axis(node.inputs[0]) is not None
        match node.op.name:
            case "Reshape" if has_rows:
                self._follow_reshape(node, before.shape)
            case "Expand" if has_rows:
                self._follow_expand(node)
            case "Expand":
                self._expand_one_row(node)
            case "Resize" if has_rows:
                self._follow_resize(node)
            case _:
                pass
        for position, axis, dim in paired_axes(node, self.axis):
            self._spread(node, position, axis, dim)

    def _follow_reshape(self, node: Node, after: Sequence[Dim]) -> None:
        data, shape = node.needed(0), node.needed(1)
        axis = self.axis(data)
        assert axis is not None
        if shape.contents is None:
            raise Hindrance(node, "has a shape that depends on data")
        lead = dims.product(self._old[data][:axis]) * self.lead.get(data, 1)
        found = row_places(after, lead, self._size)
        if not found:
            raise Hindrance(node, f"mixes rows: {list(self._old[data])} become {list(after)}")
        place = self._choices.take((self._old[data], axis, tuple(after)), found)
        wanted = shape.contents.ravel().tolist()[place]
        is_copied = wanted == 0 and not node.op.allowzero
        if wanted != -1 and not (is_copied and place == axis) and self.name not in dims.symbols(wanted):
            share = self._share(after[place])
            assert share is not None
            node.set_input(1, self._with_rows(node, shape, place, share))

    def _share(self, size: Dim) -> Dim | None:
        """How many elements of an axis are of one row; None where rows do not fill it evenly."""
        if isinstance(size, int):
            return size // self._size if size % self._size == 0 else None
        return size if self._size == 1 else None

    def _follow_expand(self, node: Node) -> None:
        data, shape = node.needed(0), node.needed(1)
        axis = self.axis(data)
        assert axis is not None
        wanted = [] if shape.contents is None else shape.contents.ravel().tolist()
        place = axis - data.rank + len(wanted)
        if place < 0 or wanted[place] == 1 or self.name in dims.symbols(wanted[place]):
            return
        if wanted[place] != self._old[data][axis]:
            raise Hindrance(node, "repeats rows")
        self._let_follow(node, 1, place)

    def _expand_one_row(self, node: Node) -> None:
        """Expand a constant that has as many rows as the file's batch to those of the batch, where all are equal."""
        data, shape = node.needed(0), node.needed(1)
        wanted = [] if shape.contents is None else shape.contents.ravel().tolist()
        for place, size in enumerate(wanted):
            axis = place - len(wanted) + data.rank
            if axis >= 0 and self.name in dims.symbols(size):
                node.set_input(0, self._need_one_row(node, data, axis))

    def _follow_resize(self, node: Node) -> None:
        """Sizes of all axes begin with the batch."""
        data, sizes = node.needed(0), node.optional(3)
        axis = self.axis(data)
        wanted = [] if sizes is None or sizes.contents is None else sizes.contents.ravel().tolist()
        if axis is None or node.op.axes or not wanted or self.name in dims.symbols(wanted[axis]):
            return
        if wanted[axis] != self._old[data][axis]:
            raise Hindrance(node, "has another number of rows in its result")
        self._let_follow(node, 3, axis)

    def _let_follow(self, node: Node, position: int, place: int) -> None:
        """Put the rows of the batch in the place of a number in an operand that is a shape."""
        shape = node.needed(position)
        assert shape.contents is not None
        share = self._share(shape.contents.ravel().tolist()[place])
        if share is None:
            raise Hindrance(node, f"has the number {shape.contents.ravel()[place]} where rows are")
        node.set_input(position, self._with_rows(node, shape, place, share))

    def _with_rows(self, node: Node, shape: Value, place: int, share: Dim) -> Value:
        """A shape with as many rows as the batch has at a place, each of `share` elements."""
        builder = Builder(self._graph, before=node, origin=node.origin)
        if not isinstance(share, int):
            raise Hindrance(node, f"joins the rows with an open size, {share}")
        rows = builder.Shape(self._first, start=0, end=1)
        if share != 1:
            rows = builder.Mul(rows, builder.constant([share]))
        length = len(shape.contents.ravel()) if shape.contents is not None else shape.shape[0]
        assert isinstance(length, int)
        parts = [_part(builder, shape, 0, place), rows, _part(builder, shape, place + 1, length)]
        return builder.Concat(*(part for part in parts if part is not None), axis=0)

    def _spread(self, node: Node, position: int, axis: int, dim: Dim) -> None:
        """Give each row of the batch a copy of an operand that has one row, or one for each row of the file's batch."""
        value = node.needed(position)
        source = value
        if value.shape[axis] != 1 and value.producer is not None and value.producer.op.name == "Expand":
            source = value.producer.needed(0)
        source = self._need_one_row(node, source, axis - value.rank + source.rank)
        share = self._share(substituted(dim, self.name, self._size))
        assert share is not None
        builder = Builder(self._graph, before=node, origin=node.origin)
        shape = self._with_rows(node, builder.Shape(value), axis, share)
        node.set_input(position, builder.Expand(source, shape))

    def _need_one_row(self, node: Node, value: Value, axis: int) -> Value:
        found = self._one_row(value, axis)
        if found is None:
            what = "are trained (`frozen` keeps them equal)" if value.name in self._trained else "may differ"
            raise Hindrance(node, f"reads {value!r}, which holds {value.shape[axis]} rows that {what}")
        return found

    def _one_row(self, value: Value, axis: int) -> Value | None:
        """A value with one row, of which all are copies; None where they are not known to be."""
        if axis < 0 or value.shape[axis] == 1:
            return value
        if value.constant is None or value.name in self._trained:
            return None
        row = value.constant.take([0], axis)
        return self._graph.constant(row, f"{value.name}_row") if (value.constant == row).all() else None

    def _check(self, node: Node, before: Sequence[Type]) -> None:
        check_axes(node, self.axis)
        if node.op.name in NO_ROWS:
            return
        for value, old in zip(node.outputs, before, strict=True):
            self._check_opened(node, value, old)

    def _check_opened(self, node: Node, value: Value, old: Type) -> None:
        """Check a result, which must have the size that it had where the batch is that of the file."""
        if not isinstance(old, TensorType):
            raise Hindrance(node, "has a result that is no tensor of known rank")
        self.check_result(node, value)
        axis = self.axis(value)
        if axis is not None and substituted(value.shape[axis], self.name, self._size) != self._old[value][axis]:
            raise Hindrance(node, f"has rows of other sizes in its result: {value!r}")

    def may_lose(self, node: Node, value: Value) -> bool:
        """Whether a result without rows is allowed: a loss of all rows is."""
        return _is_one_number(node, value)


def _part(builder: Builder, shape: Value, start: int, end: int) -> Value | None:
    if start >= end:
        return None
    if shape.constant is not None:
        return builder.constant(shape.constant.reshape(-1)[start:end])
    return builder.Slice(shape, [start], [end], [0])


def _is_one_number(node: Node, value: Value) -> bool:
    """Whether a result is a loss of all rows."""
    is_reduced = node.op.name.startswith("Reduce") or node.op.name.endswith("Loss")
    return is_reduced and all(dim == 1 for dim in value.shape)


def _check_with_numbers(graph: Graph, name: str) -> None:
    """Infer types with a number in the place of the batch: what must be equal and is not shows only then."""
    copy, values = clone_with_values(graph)
    for value in copy.inputs:
        value.type = rewritten_type(value.type, lambda dim: substituted(dim, name, ANOTHER))
    places = {values[value]: value for value in graph.values()}
    for node in copy.nodes:
        try:
            infer_node(node)
        except (ShapeError, GraphError, UnsupportedError) as error:
            raise Hindrance(node, f"does not fit: {error}") from None
        for value in node.outputs:
            wanted = rewritten_type(places[value].type, lambda dim: substituted(dim, name, ANOTHER))
            if _differ(value.type, wanted):
                raise Hindrance(node, f"gives {value.type}, expected {wanted}")


def _differ(left: Type, right: Type) -> bool:
    if (
        not isinstance(left, TensorType)
        or not isinstance(right, TensorType)
        or left.shape is None
        or right.shape is None
    ):
        return False
    if len(left.shape) != len(right.shape):
        return True
    pairs = zip(left.shape, right.shape, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
