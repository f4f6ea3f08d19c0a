"""Einsum: its equation, and its expansion into transposes, products and sums."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir import dim as dims
from intaglio.ir import requirements
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import INT32, INT64
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows, Work
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import check_size, same_dtype
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import cast, like, wide

_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


@dataclass(frozen=True)
class Equation:
    """The labels of each operand and of the output; an ellipsis is a run of labels `.0`, `.1`, ... from the left.

    All ellipses align at the right, so that the shortest lacks the first of those labels.
    """

    operands: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]


def parse_equation(text: str, ranks: list[int]) -> Equation:
    """Check an equation against the ranks of its operands and give every axis a label."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    for term in [*terms, right]:
        if not _TERM.fullmatch(term):
            raise ShapeError(f"{term!r} in the equation {text!r} must be letters with at most one ellipsis")
    if len(terms) != len(ranks):
        raise ShapeError(f"the equation {text!r} has {len(terms)} terms for {len(ranks)} operands")
    hidden = [_hidden_axes(term, rank, text) for term, rank in zip(terms, ranks, strict=True)]
    width = max(hidden)
    operands = tuple(_labels(term, count, width) for term, count in zip(terms, hidden, strict=True))
    output = _labels(right, width, width) if arrow else _implicit_output(operands, width)
    _check_output(text, operands, output)
    return Equation(operands, output)


def _hidden_axes(term: str, rank: int, text: str) -> int:
    """The number of axes that a term's ellipsis stands for."""
    letters = len(term.replace("...", ""))
    if letters > rank or ("..." not in term and letters != rank):
        raise ShapeError(f"the term {term!r} of the equation {text!r} names {letters} axes, the operand has {rank}")
    return rank - letters


def _labels(term: str, count: int, width: int) -> tuple[str, ...]:
    before, dots, after = term.partition("...")
    run = [f".{i}" for i in range(width - count, width)] if dots else []
    return (*before, *run, *after)


def _implicit_output(operands: tuple[tuple[str, ...], ...], width: int) -> tuple[str, ...]:
    found = [label for labels in operands for label in labels if not label.startswith(".")]
    return (*(f".{i}" for i in range(width)), *sorted(label for label in set(found) if found.count(label) == 1))


def _check_output(text: str, operands: tuple[tuple[str, ...], ...], output: tuple[str, ...]) -> None:
    known = {label for labels in operands for label in labels}
    if len(set(output)) != len(output):
        raise ShapeError(f"the equation {text!r} names an axis of the output twice")
    missing = [label for label in output if label not in known]
    if missing:
        raise ShapeError(f"the equation {text!r} has an output axis {missing[0]!r} that no operand has")


class Einsum(Op):
    """The sum of products that the equation tells."""

    keeps_rows = Rows.BY_AXES

    work = Work.UNBOUNDED
    equation: str

    def infer(self, *Inputs: Value) -> TensorType:
        dtype = same_dtype(*Inputs)
        if any(value.tensor.shape is None for value in Inputs):
            return TensorType(dtype, None)
        equation = parse_equation(self.equation, [value.rank for value in Inputs])
        sizes = _sizes(equation, [value.shape for value in Inputs])
        return TensorType(dtype, tuple(sizes[label] for label in equation.output))

    def reference(self, *Inputs: Array) -> Array:
        equation = parse_equation(self.equation, [array.ndim for array in Inputs])
        sizes = _sizes(equation, [array.shape for array in Inputs])
        check_size([sizes[label] for label in equation.output], Inputs[0].dtype)
        names = {label: i for i, label in enumerate(dict.fromkeys(l for labels in equation.operands for l in labels))}
        operands: list[Array | list[int]] = []
        for array, labels in zip(Inputs, equation.operands, strict=True):
            operands += [widen(array), [names[label] for label in labels]]
        return like(np.einsum(*operands, [names[label] for label in equation.output]), Inputs[0])  # pyright: ignore[reportCallIssue, reportArgumentType]

    def expand(self, b: Builder, *Inputs: Value) -> Value:
        equation = parse_equation(self.equation, [value.rank for value in Inputs])
        pairs = zip(Inputs, equation.operands, strict=True)
        operands = [_diagonal(b, (_wide(b, value), labels)) for value, labels in pairs]
        result, labels = operands.pop(0)
        while operands:
            later = {label for _, rest in operands[1:] for label in rest} | set(equation.output)
            result, labels = _contract(b, (result, labels), operands.pop(0), later)
        summed = [i for i, label in enumerate(labels) if label not in equation.output]
        result = b.ReduceSum(result, summed, keepdims=0) if summed else result
        left = [label for label in labels if label in equation.output]
        order = tuple(left.index(label) for label in equation.output)
        result = result if order == tuple(range(len(order))) else b.Transpose(result, perm=order)
        return cast(b, result, Inputs[0].dtype)


def _wide(b: Builder, x: Value) -> Value:
    """The operand in a type that has matrix products: sums of small integers wrap around when they are cast back."""
    return cast(b, x, INT32) if x.dtype.is_integer and x.dtype.bits < 32 else wide(b, x)


def _sizes(equation: Equation, shapes: list[tuple[Dim, ...]]) -> dict[str, Dim]:
    """The size of each labelled axis; raises ShapeError where operands disagree."""
    sizes: dict[str, Dim] = {}
    for labels, shape in zip(equation.operands, shapes, strict=True):
        own = dict(zip(labels, shape, strict=True))
        for label, size in zip(labels, shape, strict=True):
            message = f"axis {label!r} of the equation has the sizes {size} and {own[label]} in one operand"
            requirements.need_equal(size, own[label], message)
            try:
                sizes[label] = requirements.broadcast(sizes.get(label, 1), size)
            except ShapeError as error:
                raise ShapeError(f"axis {label!r} of the equation: {error}") from None
    return sizes


Labelled = tuple[Value, tuple[str, ...]]


def _diagonal(b: Builder, operand: Labelled) -> Labelled:
    """The operand with each label once: where a label is repeated, only equal indices count."""
    value, labels = operand
    repeated = next((i for i, label in enumerate(labels) if label in labels[:i]), None)
    if repeated is None:
        return operand
    places = [_places(b, value, axis) for axis in (labels.index(labels[repeated]), repeated)]
    chosen = b.Where(b.Equal(*places), value, b.constant(0, value.dtype))
    rest = labels[:repeated] + labels[repeated + 1 :]
    return _diagonal(b, (b.ReduceSum(chosen, [repeated], keepdims=0), rest))


def _places(b: Builder, value: Value, axis: int) -> Value:
    """The indices along one axis, in a shape that broadcasts against the value."""
    count = b.Squeeze(b.Shape(value, start=axis, end=axis + 1))
    places = b.Range(b.constant(0, INT64), count, b.constant(1, INT64))
    return b.Reshape(places, [-1 if i == axis else 1 for i in range(value.rank)])


def _contract(b: Builder, left: Labelled, right: Labelled, later: set[str]) -> Labelled:
    """The product of two operands, summed over the axes that nobody needs later, as one batched matrix product.

    An axis of size 1 that is broadcast against a longer one cannot be part of the matrix, it is multiplied elementwise.
    """
    (x, x_labels), (y, y_labels) = _presummed(b, left, right[1], later), _presummed(b, right, left[1], later)
    shared = [label for label in x_labels if label in y_labels]
    x_sizes, y_sizes = dict(zip(x_labels, x.shape, strict=True)), dict(zip(y_labels, y.shape, strict=True))
    summed = [label for label in shared if label not in later]
    if any(x_sizes[label] != y_sizes[label] for label in shared) or not summed:
        return _multiply(b, (x, x_labels), (y, y_labels))
    batch = [label for label in shared if label in later]
    rows = [label for label in x_labels if label not in shared]
    columns = [label for label in y_labels if label not in shared]
    x = _matrices(b, (x, x_labels), batch, rows, summed)
    y = _matrices(b, (y, y_labels), batch, summed, columns)
    shape = [x_sizes[label] for label in (*batch, *rows)] + [y_sizes[label] for label in columns]
    labels = (*batch, *rows, *columns)
    return b.Reshape(x @ y, _shape_value(b, shape, left, right, labels), allowzero=1), labels


def _presummed(b: Builder, operand: Labelled, other: tuple[str, ...], later: set[str]) -> Labelled:
    """The operand summed over axes that only it has."""
    value, labels = operand
    own = [i for i, label in enumerate(labels) if label not in other and label not in later]
    if not own:
        return operand
    return b.ReduceSum(value, own, keepdims=0), tuple(label for i, label in enumerate(labels) if i not in own)


def _multiply(b: Builder, left: Labelled, right: Labelled) -> Labelled:
    labels = tuple(dict.fromkeys((*left[1], *right[1])))
    return _aligned(b, left, labels) * _aligned(b, right, labels), labels


def _aligned(b: Builder, operand: Labelled, labels: tuple[str, ...]) -> Value:
    value, own = operand
    order = tuple(own.index(label) for label in labels if label in own)
    value = value if order == tuple(range(len(own))) else b.Transpose(value, perm=order)
    missing = [i for i, label in enumerate(labels) if label not in own]
    return b.Unsqueeze(value, missing) if missing else value


def _matrices(b: Builder, operand: Labelled, batch: list[str], rows: list[str], columns: list[str]) -> Value:
    """The operand as [batch..., rows, columns], several labels joined into one axis."""
    value, labels = operand
    order = tuple(labels.index(label) for label in (*batch, *rows, *columns))
    value = value if order == tuple(range(len(order))) else b.Transpose(value, perm=order)
    if len(rows) == len(columns) == 1:
        return value
    shape = list(value.shape)
    split, middle = len(batch), len(batch) + len(rows)
    joined = [*shape[:split], dims.product(shape[split:middle]), dims.product(shape[middle:])]
    return b.Reshape(value, _joined_shape(b, value, joined, split, middle), allowzero=1)


def _joined_shape(b: Builder, value: Value, joined: list[Dim], split: int, middle: int) -> Value:
    if all(isinstance(dim, int) for dim in joined):
        return b.constant(np.array(joined, np.int64))
    parts = [b.Shape(value, start=0, end=split)] if split else []
    for start, end in ((split, middle), (middle, value.rank)):
        parts.append(b.ReduceProd(b.Shape(value, start=start, end=end), [0]) if end > start else b.constant([1]))
    return b.Concat(*parts, axis=0)


def _shape_value(b: Builder, shape: list[Dim], left: Labelled, right: Labelled, labels: tuple[str, ...]) -> Value:
    """A shape as a value; symbolic sizes are read from the operands at run time."""
    if all(isinstance(dim, int) for dim in shape):
        return b.constant(np.array(shape, np.int64).reshape(-1))
    parts: list[Value] = []
    for label in labels:
        value, own = left if label in left[1] else right
        place = own.index(label)
        parts.append(b.Shape(value, start=place, end=place + 1))
    return b.Concat(*parts, axis=0)
