"""Sequences that stand for parts of one tensor: what is read of them is read of the tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, Expr, bounds
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Tensor
from intaglio.ir.types import SequenceType, TensorType
from intaglio.ops.shared.indices import known
from intaglio.passes.driver import Refusal, Result, rule
from intaglio.passes.match import integers, produced, rank_of

_ZERO, _ONE = Tensor(np.zeros(1, np.int64)), Tensor(np.ones(1, np.int64))


@rule("SequenceAt")
def part_of_split(b: Builder, node: Node) -> Result:
    """at(split_to_sequence(x, ones), i) -> gather(x, [i])"""
    split = produced(node.needed(0), "SplitToSequence")
    axis = _unit_axis(split)
    if split is None or axis is None:
        return None
    position = b.Cast(node.needed(1), to=INT64.number)
    keeps_axis = split.optional(1) is not None or split.op.keepdims
    return b.Gather(split.input, b.Reshape(position, [1] if keeps_axis else []), axis=axis)


@rule("SequenceLength")
def length_of_split(b: Builder, node: Node) -> Result:
    """length(split_to_sequence(x, ones)) -> shape(x)[axis]"""
    split = produced(node.needed(0), "SplitToSequence")
    axis = _unit_axis(split)
    if split is None or axis is None:
        return None
    return b.Reshape(b.Shape(split.input, start=axis, end=axis + 1), [])


def _unit_axis(split: Node | None) -> int | None:
    """The axis along which a node certainly cuts a tensor into parts of size 1."""
    rank = rank_of(split.input) if split is not None else None
    if split is None or rank is None:
        return None
    axis, sizes = split.op.axis % rank, split.optional(1)
    if sizes is None or (rank_of(sizes) == 0 and integers(sizes) == [1]):
        return axis
    is_unit = rank_of(sizes) == 1 and sizes.shape[0] == split.input.shape[axis] and _is_all(sizes, 1)
    return axis if is_unit else None


def _is_all(value: Value, number: int) -> bool:
    """Whether all elements certainly are this number, however many there are."""
    filled = produced(value, "ConstantOfShape")
    if filled is not None:
        return filled.op.value is not None and bool((filled.op.value.array == number).all())
    found = integers(value)
    return found is not None and all(each == number for each in found)


@rule("ConcatFromSequence")
def repeated_rows(b: Builder, node: Node) -> Result:
    """concat([expand(x[i], counts[i]) for i in range(n)]) -> gather(x, [i repeated counts[i] times])

    Exporters write `torch.repeat_interleave` as such a loop.
    """
    loop = node.needed(0).producer
    if loop is None or loop.op.name != "Loop" or loop.op.domain or node.op.new_axis:
        return None
    element = _appended(loop, loop.outputs.index(node.needed(0)))
    repeated = _repeated(loop.op.body, element) if element is not None else None
    if element is None or repeated is None:
        return None
    if node.op.axis % element.rank != repeated.axis:
        return Refusal("the parts are joined along another axis than they are repeated on")
    if not _rounds_are(loop, repeated):
        return Refusal("the number of rounds is not certainly the number of rows")
    return b.Gather(repeated.data, _indices(b, _built(b, repeated.count)), axis=repeated.axis)


def _appended(loop: Node, place: int) -> Value | None:
    """What each round appends to the sequence that is this output of the loop, an empty one at first."""
    body: Graph = loop.op.body
    if place + 2 >= len(body.inputs) or produced(loop.inputs[place + 2], "SequenceEmpty") is None:
        return None
    state, insert = body.inputs[place + 2], produced(body.outputs[place + 1], "SequenceInsert")
    if insert is None or insert.inputs[0] is not state or insert.optional(2) is not None:
        return None
    element = insert.needed(1)
    is_known = isinstance(state.type, SequenceType) and isinstance(element.type, TensorType)
    return element if is_known and rank_of(element) else None


@dataclass(frozen=True)
class _Picked:
    """The element of an outer tensor of rank 1 at the number of the round."""

    source: Value


@dataclass(frozen=True)
class _Applied:
    """An elementwise operator on numbers of a round."""

    operator: str
    operands: tuple[_Number, ...]


_Number: TypeAlias = "Dim | _Picked | _Applied"


@dataclass(frozen=True)
class _Repeated:
    """A row of `data`, taken along `axis` at the number of the round, `count` times."""

    data: Value
    axis: int
    count: _Number


def _repeated(body: Graph, element: Value) -> _Repeated | None:
    """What a round repeats: reshape(expand(unsqueeze(data[round]), [.., count, ..]))"""
    reshape = produced(element, "Reshape")
    expand = produced(reshape.input, "Expand") if reshape is not None else None
    opened = produced(expand.input, "Unsqueeze", "Reshape") if expand is not None else None
    row = produced(opened.input, "Gather") if opened is not None else None
    if expand is None or opened is None or row is None or not _is_round(body, row.needed(1), rank=1):
        return None
    data, axis = row.input, row.op.axis % row.output.rank
    counts = _numbers(body, expand.needed(1))
    if counts is None or _is_inside(body, data) or not _is_opened(opened.output, data, axis):
        return None
    count = _only_count(counts, opened.output, axis)
    if reshape is None or count is None or not _sources(count):
        return None
    found = _Repeated(data, axis, count)
    return found if _keeps_others(body, reshape, found) else None


def _keeps_others(body: Graph, reshape: Node, repeated: _Repeated) -> bool:
    """Whether a Reshape of repeated rows leaves all sizes but that of the axis, which then is the number of rows."""
    data, axis, sizes = repeated.data, repeated.axis, _numbers(body, reshape.needed(1))
    if sizes is None or len(sizes) != data.rank:
        return False
    if sizes[axis] != -1 and set(_sources(sizes[axis])) != set(_sources(repeated.count)):
        return False
    copied = () if reshape.op.allowzero else [place for place in range(axis) if sizes[place] == 0]
    return all(i in (axis, *copied) or size == data.shape[i] for i, size in enumerate(sizes))


def _is_opened(value: Value, data: Value, axis: int) -> bool:
    """Whether a value has the shape of one row of `data` with another axis of size 1 behind that of the row."""
    return value.tensor.shape == (*data.shape[:axis], 1, 1, *data.shape[axis + 1 :])


def _only_count(counts: list[_Number], opened: Value, axis: int) -> _Number | None:
    """The one number in the shape of an Expand that is not known to leave its axis as it is."""
    places = [i for i, (count, size) in enumerate(zip(counts, opened.shape, strict=False)) if count not in (1, size)]
    if len(counts) != opened.rank or len(places) != 1 or places[0] not in (axis, axis + 1):
        return None
    return counts[places[0]]


def _numbers(body: Graph, value: Value) -> list[_Number] | None:
    """The elements of a list of integers in a body, as what they are in each round."""
    if not isinstance(value.type, TensorType):
        return None
    found = known(value)
    if found is not None:
        return list(found)
    node = value.producer
    if node is None or node.op.domain or value.dtype.kind not in ("int", "bool"):
        return None
    if node.op.name in ("Identity", "Cast", "Reshape", "Unsqueeze", "Squeeze"):
        return _numbers(body, node.input)
    if node.op.name == "Gather":
        return _picked(body, node)
    operands = [None if each is None else _numbers(body, each) for each in node.inputs]
    if any(each is None for each in operands):
        return None
    lists = [each for each in operands if each is not None]
    if node.op.name == "Concat":
        return [number for each in lists for number in each]
    return _elementwise(node.op.name, lists) if node.op.name in _FOLDS else None


def _picked(body: Graph, node: Node) -> list[_Number] | None:
    source = node.input
    is_outer = rank_of(source) == 1 and source.dtype == INT64 and not _is_inside(body, source)
    return [_Picked(source)] if is_outer and _is_round(body, node.needed(1)) else None


_FOLDS: dict[str, Callable[..., int]] = {
    "Equal": lambda left, right: int(left == right),
    "Where": lambda condition, left, right: left if condition else right,
    "Mul": lambda left, right: left * right,
    "Max": max,
}


def _elementwise(operator: str, lists: Sequence[list[_Number]]) -> list[_Number] | None:
    length = max(map(len, lists))
    if any(len(each) not in (1, length) for each in lists):
        return None
    rows = zip(*(each * (length // len(each)) for each in lists), strict=True)
    made = [_folded(operator, row) for row in rows]
    numbers = [each for each in made if each is not None]
    return numbers if len(numbers) == len(made) else None


def _folded(operator: str, operands: tuple[_Number, ...]) -> _Number | None:
    if operator == "Where" and isinstance(operands[0], int):
        return operands[1] if operands[0] else operands[2]
    if operator == "Equal" and _is_never_equal(*operands):
        return 0
    known_operands = [each for each in operands if isinstance(each, int)]
    if len(known_operands) == len(operands):
        return _FOLDS[operator](*known_operands)
    return None if any(isinstance(each, Expr) for each in operands) else _Applied(operator, operands)


def _is_never_equal(left: _Number, right: _Number) -> bool:
    """Whether one is a size and the other a number that no size is."""
    for size, number in ((left, right), (right, left)):
        least = bounds(size)[0] if isinstance(size, Expr) else None
        if least is not None and isinstance(number, int) and number < least:
            return True
    return False


def _built(b: Builder, number: _Number) -> Value:
    """The numbers of all rounds, as a tensor of rank 1."""
    if isinstance(number, _Picked):
        return number.source
    if not isinstance(number, _Applied):
        return b.constant([number])
    return getattr(b, number.operator)(*(_built(b, each) for each in number.operands))


def _sources(number: _Number) -> list[Value]:
    if isinstance(number, _Applied):
        return [value for each in number.operands for value in _sources(each)]
    return [number.source] if isinstance(number, _Picked) else []


def _is_round(body: Graph, index: Value, rank: int | None = None) -> bool:
    """Whether a value is the number of the round, as one element."""
    if rank is not None and rank_of(index) != rank:
        return False
    while (view := produced(index, "Identity", "Cast", "Reshape", "Unsqueeze", "Squeeze")) is not None:
        index = view.input
    return index is body.inputs[0]


def _is_inside(body: Graph, value: Value) -> bool:
    return value in body.inputs or (value.producer is not None and value.producer.graph is body)


def _rounds_are(loop: Node, repeated: _Repeated) -> bool:
    """Whether a loop certainly has a round for each row, and as many counts."""
    body: Graph = loop.op.body
    limit, last = known(loop.inputs[0]), body.outputs[0]
    goes_on = last is body.inputs[1] or (last.constant is not None and bool(last.constant.all()))
    start = loop.inputs[1]
    starts = start is None or (start.constant is not None and bool(start.constant.all()))
    rows = repeated.data.shape[repeated.axis]
    sizes = [limit[0] if limit else None, *(value.shape[0] for value in _sources(repeated.count))]
    return goes_on and starts and all(size == rows for size in sizes)


def _indices(b: Builder, counts: Value) -> Value:
    """The number of each row as often as `counts` has it.

    A row begins where the rows before it end: there one is added for it, and a running sum is the number of the row.
    Negative counts are a negative size, which is an error.
    """
    is_wrong = b.Less(b.ReduceMin(counts, [0], keepdims=1), b.constant([0]))
    total = b.ReduceSum(counts, [0], keepdims=1)
    size = b.Where(is_wrong, b.constant([-1]), b.Add(total, b.constant([1])))
    zeros = b.ConstantOfShape(size, value=_ZERO)
    starts = b.CumSum(counts, b.constant(0), exclusive=1)
    ones = b.ConstantOfShape(b.Shape(counts), value=_ONE)
    marks = b.ScatterElements(zeros, starts, ones, axis=0, reduction="add")
    numbers = b.CumSum(b.Slice(marks, b.constant([0]), total, b.constant([0])), b.constant(0))
    return b.Sub(numbers, b.constant([1]))
