"""Sequences (lists of tensors at run time) and optionals (a value or None)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder, Runner
from intaglio.ir.dtype import BOOL, FLOAT32, INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Array, Op, output_count
from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type
from intaglio.ops.control import outside, retype, seen
from intaglio.ops.shared.indices import (
    integers,
    join_types,
    known_integers,
    need_single,
    numbered_dtype,
    resolve_axis,
    zeros_like,
)


def sequence_type(value: Value) -> SequenceType:
    """The type of a value that must be a sequence."""
    if not isinstance(value.type, SequenceType):
        raise ShapeError(f"{value.name} is {value.type}, expected a sequence")
    return value.type


def element_of(value: Value) -> Type:
    """The type of one element of a sequence; each element may have other sizes where they aren't plain numbers."""
    element = sequence_type(value).element
    if isinstance(element, TensorType) and element.shape is not None:
        return element.with_shape(tuple(size if isinstance(size, int) else dims.fresh() for size in element.shape))
    return element


def resolve_position(position: Array | None, count: int, last: int) -> int:
    """A position in a sequence counted from the front; raises where it is not within -count to last."""
    if position is not None and position.size != 1:
        raise OperatorError(f"position has {position.size} elements, expected 1")
    place = last if position is None else integers(position)[0]
    if not -count <= place <= last:
        raise OperatorError(f"position {place} is out of range for {count} elements: expected {-count} to {last}")
    return place + count if place < 0 else place


class SequenceAt(Op):
    """The element at `position`; a negative one counts from the end."""

    def infer(self, input_sequence: Value, position: Value) -> Type:
        need_single(position)
        return element_of(input_sequence)

    def reference(self, input_sequence: list[Any], position: Array) -> Any:
        return input_sequence[resolve_position(position, len(input_sequence), len(input_sequence) - 1)]

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        """Zeros, with the gradient in the place of one of them."""
        sequence, position = inputs
        place = _counted(b, position, sequence)
        others = b.SequenceErase(zero_elements(b, sequence), place)
        return b.SequenceInsert(others, output_bars[0], place), None


class SequenceConstruct(Op):
    """A sequence of the inputs."""

    def infer(self, *inputs: Value) -> SequenceType:
        return SequenceType(reduce(join_types, (value.type for value in inputs)))

    def reference(self, *inputs: Any) -> list[Any]:
        return list(inputs)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        return tuple(b.SequenceAt(output_bars[0], b.constant(i)) for i in range(len(inputs)))


class SequenceEmpty(Op):
    """A sequence without elements, for tensors of type `dtype` (float32 by default)."""

    no_gradient = "it has no input that changes smoothly"
    dtype: int | None = None

    def infer(self) -> SequenceType:
        return SequenceType(TensorType(FLOAT32 if self.dtype is None else numbered_dtype(self.dtype), None))

    def reference(self) -> list[Any]:
        return []


class SequenceErase(Op):
    """The sequence without the element at `position`, by default the last."""

    def infer(self, input_sequence: Value, position: Value | None = None) -> SequenceType:
        need_single(position)
        return sequence_type(input_sequence)

    def reference(self, input_sequence: list[Any], position: Array | None = None) -> list[Any]:
        place = resolve_position(position, len(input_sequence), len(input_sequence) - 1)
        return input_sequence[:place] + input_sequence[place + 1 :]

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        """The element that was left out has the gradient zero."""
        sequence = inputs[0]
        place = _counted(b, b.constant(-1) if len(inputs) < 2 else inputs[1], sequence)
        erased = zeros_like(b, b.SequenceAt(sequence, place))
        return b.SequenceInsert(output_bars[0], erased, place), *[None] * (len(inputs) - 1)


class SequenceInsert(Op):
    """The sequence with `tensor` put in before `position`, by default at the end."""

    def infer(self, input_sequence: Value, tensor: Value, position: Value | None = None) -> SequenceType:
        need_single(position)
        return SequenceType(join_types(sequence_type(input_sequence).element, tensor.type))

    def reference(self, input_sequence: list[Any], tensor: Any, position: Array | None = None) -> list[Any]:
        place = resolve_position(position, len(input_sequence), len(input_sequence))
        return [*input_sequence[:place], tensor, *input_sequence[place:]]

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        sequence, bar = inputs[0], output_bars[0]
        place = b.SequenceLength(sequence) if len(inputs) < 3 else _counted(b, inputs[2], sequence)
        return b.SequenceErase(bar, place), b.SequenceAt(bar, place), *[None] * (len(inputs) - 2)


class SequenceLength(Op):
    """The number of elements."""

    no_gradient = "its results are integers"

    def infer(self, input_sequence: Value) -> TensorType:
        sequence_type(input_sequence)
        return TensorType(INT64, ())

    def reference(self, input_sequence: list[Any]) -> Array:
        return np.asarray(len(input_sequence), np.int64)


class SplitToSequence(Op):
    """The parts of a tensor along `axis`: of the sizes `split`, of one size, or single slices by default."""

    axis: int = 0
    keepdims: int = 1

    def infer(self, input: Value, split: Value | None = None) -> SequenceType:
        if input.tensor.shape is None:
            return SequenceType(input.tensor)
        axis, shape = resolve_axis(self.axis, input.rank), input.shape
        if split is None:
            middle = (1,) if self.keepdims else ()
        else:
            sizes = set(known_integers(split) or ())
            is_even = len(sizes) == 1 and split.tensor.shape != ()
            middle = (sizes.pop() if is_even else dims.fresh(),)
        return SequenceType(input.tensor.with_shape((*shape[:axis], *middle, *shape[axis + 1 :])))

    def reference(self, input: Array, split: Array | None = None) -> list[Any]:
        axis = resolve_axis(self.axis, input.ndim)
        total = input.shape[axis]
        sizes = self._sizes(total, split)
        if sum(sizes) != total or any(size < 0 for size in sizes):
            raise OperatorError(f"the parts {sizes} do not make up the size {total} of axis {axis}")
        parts = np.split(input, np.cumsum(sizes)[:-1], axis=axis) if sizes else []
        return [part.squeeze(axis) if split is None and not self.keepdims else part for part in parts]

    @staticmethod
    def _sizes(total: int, split: Array | None) -> list[int]:
        if split is not None and split.ndim:
            return integers(split)
        size = 1 if split is None else integers(split)[0]
        if size <= 0:
            raise OperatorError(f"parts of size {size}, expected at least 1")
        return [min(size, total - start) for start in range(0, total, size)]

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        is_new = len(inputs) == 1 and not self.keepdims
        bar = b.ConcatFromSequence(output_bars[0], axis=self.axis, new_axis=int(is_new))
        return b.Reshape(bar, b.Shape(inputs[0]), allowzero=1), *[None] * (len(inputs) - 1)


class ConcatFromSequence(Op):
    """The elements of a sequence joined along `axis`, or stacked along a new one."""

    axis: int
    new_axis: int = 0

    def infer(self, input_sequence: Value) -> TensorType:
        element = element_of(input_sequence)
        if not isinstance(element, TensorType):
            raise ShapeError(f"the elements are {element}, expected tensors")
        if element.shape is None:
            return element
        axis = resolve_axis(self.axis, len(element.shape) + bool(self.new_axis))
        rest = element.shape[axis if self.new_axis else axis + 1 :]
        return element.with_shape((*element.shape[:axis], dims.fresh(), *rest))

    def reference(self, input_sequence: list[Any]) -> Array:
        if not input_sequence:
            raise OperatorError("the sequence is empty, there is nothing to concatenate")
        join = np.stack if self.new_axis else np.concatenate
        axis = resolve_axis(self.axis, input_sequence[0].ndim + bool(self.new_axis), OperatorError)
        return join(input_sequence, axis=axis)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        bar = output_bars[0]
        if self.new_axis:
            return (b.SplitToSequence(bar, axis=self.axis, keepdims=0),)
        axis = self.axis if self.axis >= 0 else resolve_axis(self.axis, bar.rank)
        lengths = map_elements(b, lambda inner, x: inner.Shape(x, start=axis, end=axis + 1), inputs[0])
        return (b.SplitToSequence(bar, b.ConcatFromSequence(lengths, axis=0), axis=axis),)


class SequenceMap(Op):
    """The outputs of `body` for each element of a sequence, as sequences; other sequences go along in step."""

    variadic_outputs: ClassVar[bool] = True
    body: Graph
    output_count: int = output_count()

    @staticmethod
    def body_types(name: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> list[Type | None]:
        """The types that the body's inputs take."""
        del name, attributes
        return [None if v is None else element_of(v) if isinstance(v.type, SequenceType) else v.type for v in inputs]

    def infer(self, input_sequence: Value, *additional_inputs: Value) -> tuple[SequenceType, ...]:
        sequence_type(input_sequence)
        inputs = (input_sequence, *additional_inputs)
        if len(self.body.inputs) != len(inputs) or len(self.body.outputs) != self.output_count:
            raise ShapeError(f"a body with {len(self.body.inputs)} inputs and {len(self.body.outputs)} outputs")
        changed = {inner for inner, value in zip(self.body.inputs, inputs, strict=True) if self._retyped(inner, value)}
        retype(self.body, changed)
        shared = seen(self.body, additional_inputs)
        return tuple(SequenceType(outside(value.type, shared)) for value in self.body.outputs)

    @staticmethod
    def _retyped(inner: Value, value: Value) -> bool:
        """Give a body input the type of what it will be fed, where the declared one does not fit; whether it did."""
        wanted = sequence_type(value).element if isinstance(value.type, SequenceType) else value.type
        if isinstance(wanted, TensorType) and isinstance(value.type, SequenceType) and wanted.shape is not None:
            sizes = (s if isinstance(s, int) else dims.symbol(f"{inner.name}.{i}") for i, s in enumerate(wanted.shape))
            wanted = wanted.with_shape(tuple(sizes))
        if inner.type == wanted:
            return False
        inner.type = wanted
        return True

    def interpret(self, run: Runner, input_sequence: list[Any], *additional_inputs: Any) -> tuple[list[Any], ...]:
        results: list[list[Any]] = [[] for _ in self.body.outputs]
        for position in range(len(input_sequence)):
            given = [self._pick(item, position) for item in (input_sequence, *additional_inputs)]
            for result, output in zip(results, run(self.body, given), strict=True):
                result.append(output)
        return tuple(results)

    @staticmethod
    def _pick(item: Any, position: int) -> Any:
        if not isinstance(item, list):
            return item
        if position >= len(item):
            raise OperatorError(f"one sequence has only {len(item)} elements, the first has more")
        return item[position]


class Optional(Op):
    """An optional that holds the input, or nothing of the given type."""

    type: Type | None = None

    def infer(self, input: Value | None = None) -> OptionalType:
        element = self.type if input is None else input.type
        if element is None:
            raise ShapeError("an optional needs an input or a type")
        return OptionalType(element)

    def reference(self, input: Any = None) -> Any:
        return input

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        return tuple(b.OptionalGetElement(output_bars[0]) for _ in inputs)


class OptionalGetElement(Op):
    """The value that an optional holds; a tensor or sequence is its own element."""

    def infer(self, input: Value) -> Type:
        return input.type.element if isinstance(input.type, OptionalType) else input.type

    def reference(self, input: Any) -> Any:
        if input is None:
            raise OperatorError("the optional holds nothing")
        return input

    def expand(self, b: Builder, input: Value) -> Value:
        """Only for tensors and sequences, which are their own elements: an optional has no simpler form."""
        if isinstance(input.type, OptionalType):
            raise UnsupportedError("OptionalGetElement of an optional has no expansion")
        return b.Identity(input)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        is_optional = isinstance(inputs[0].type, OptionalType)
        return (b.Optional(output_bars[0]) if is_optional else output_bars[0],)


class OptionalHasElement(Op):
    """Whether an optional holds a value."""

    no_gradient = "its results are truth values"

    def infer(self, input: Value | None = None) -> TensorType:
        del input
        return TensorType(BOOL, ())

    def reference(self, input: Any = None) -> Array:
        return np.asarray(input is not None)

    def expand(self, b: Builder, input: Value | None = None) -> Value:
        """Only for what is no optional: an optional tells in the run."""
        if input is not None and isinstance(input.type, OptionalType):
            raise UnsupportedError("OptionalHasElement of an optional has no expansion")
        return b.constant(input is not None, BOOL)


def map_elements(b: Builder, function: Callable[..., Value], *sequences: Value) -> Value:
    """The sequence of what a function gives for the elements of others: `function(builder, *elements)`."""
    body = Graph("elements", outer=b.graph)
    types = SequenceMap.body_types("", sequences, {})
    inputs = [body.add_input("element", type) for type in types if type is not None]
    inner = Builder(body, origin=b.origin)
    with inner.active():
        body.set_outputs([function(inner, *inputs)])
    return b.apply(SequenceMap, *sequences, body=body)


def zero_elements(b: Builder, sequence: Value) -> Value:
    """Zeros in the shapes of the elements of a sequence."""
    return map_elements(b, zeros_like, sequence)


def _counted(b: Builder, position: Value, sequence: Value) -> Value:
    """A position in a sequence, counted from the front."""
    place = b.Cast(position, to=7)
    return b.Where(b.Less(place, b.constant(0)), b.Add(place, b.SequenceLength(sequence)), place)
