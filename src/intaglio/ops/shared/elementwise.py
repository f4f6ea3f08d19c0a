"""What all elementwise operators share: broadcasting types, the precision of narrow floats, sizes as elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir import requirements
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, DType, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import Shape, TensorType, Type
from intaglio.ops.shared.gradient import unbroadcast
from intaglio.ops.shared.indices import same_dtype, wide

FLOATS = ("float",)
INTEGERS = ("int", "uint")
NUMBERS = ("float", "int", "uint")
BOOLS = ("bool",)


def broadcast_shape(*values: Value) -> Shape | None:
    """The shape after broadcasting; None where the rank of an operand is not known."""
    shapes = [value.tensor.shape for value in values]
    known = [shape for shape in shapes if shape is not None]
    return requirements.broadcast_shapes(*known) if len(known) == len(shapes) else None


def check_kind(name: str, dtype: DType, kinds: Sequence[str]) -> None:
    """Raise ShapeError where an operator does not take an element type of this kind."""
    if dtype.kind not in kinds:
        raise ShapeError(f"{name} takes elements of kind {' or '.join(kinds)}, got {dtype}")


def compute_wide(function: Callable[..., Any], *arrays: Array, dtype: Any = None) -> Array:
    """`function` of the widened arrays, rounded once to `dtype` (the first array's if None)."""
    with np.errstate(all="ignore"):
        result = np.asarray(function(*(wide(array) for array in arrays)))
        return result.astype(arrays[0].dtype if dtype is None else dtype, copy=False)


def map_sizes(function: Callable[..., Any], dtype: DType, *values: Value | None) -> Array | None:
    """A function of dimensions over the broadcast contents of several values; None where one is not known.

    Plain integers wrap around in the element type as they do in arrays.
    """
    arrays = [value.contents for value in values if value is not None and value.contents is not None]
    if len(arrays) != len(values):
        return None
    result = np.frompyfunc(lambda *items: wrap(function(*items), dtype), len(arrays), 1)(*arrays)
    return np.asarray(result, dtype=object)


def wrap(value: Any, dtype: DType) -> Any:
    """An integer reduced to the range of an integer type; a symbolic dimension or a truth value as it is."""
    if not isinstance(value, int) or not dtype.is_integer:
        return value
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


class Elementwise(Op, abstract=True):
    """A function of the elements at one place of the broadcast operands, which all have one element type.

    A subclass gives `compute` on arrays that NumPy handles, `size` where it is symbolic, and `gradients` where it has
    any: the gradients of the operands before they are summed back to the operands' shapes.
    """

    is_elementwise = True
    kinds: ClassVar[tuple[str, ...]] = NUMBERS

    def compute(self, *arrays: Array) -> Any:
        """The result for arrays of types that NumPy computes in."""
        raise NotImplementedError

    def size(self, *items: Any) -> Any:
        """The result for elements that are dimensions; may raise UndecidableError."""
        raise NotImplementedError

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Sequence[Value | None]:
        """The gradients of the inputs, each of the output's shape."""
        del b, output, bar
        return [None] * len(inputs)

    def result_dtype(self, dtype: DType) -> DType:
        """The element type of the output."""
        return dtype

    def infer(self, *inputs: Any) -> Type:
        dtype = same_dtype(*inputs)
        check_kind(self.name, dtype, self.kinds)
        return TensorType(self.result_dtype(dtype), broadcast_shape(*inputs))

    def reference(self, *inputs: Any) -> Array:
        return compute_wide(self.compute, *inputs, dtype=self.result_dtype(from_numpy(inputs[0].dtype)).numpy)

    def dims(self, *inputs: Any) -> Any:
        return map_sizes(self.size, self.result_dtype(inputs[0].dtype), *inputs)

    def pullback(
        self, b: Builder, inputs: Sequence[Any], outputs: Sequence[Value], output_bars: Sequence[Any]
    ) -> tuple[Value | None, ...]:
        found = self.gradients(b, inputs, outputs[0], output_bars[0])
        return tuple(
            None if bar is None else unbroadcast(b, bar, value) for value, bar in zip(inputs, found, strict=True)
        )


class UnaryX(Elementwise, abstract=True):
    """A function of one operand that ONNX calls X."""

    kinds: ClassVar[tuple[str, ...]] = FLOATS

    def infer(self, X: Value) -> Type:
        return super().infer(X)


class UnaryInput(Elementwise, abstract=True):
    """A function of one operand that ONNX calls input."""

    kinds: ClassVar[tuple[str, ...]] = FLOATS

    def infer(self, input: Value) -> Type:
        return super().infer(input)


class Binary(Elementwise, abstract=True):
    """A function of two operands that ONNX calls A and B."""

    def infer(self, A: Value, B: Value) -> Type:
        return super().infer(A, B)


class Variadic(Elementwise, abstract=True):
    """A function of any number of operands, at least one."""

    def infer(self, *data_0: Value) -> Type:
        if not data_0:
            raise ShapeError(f"{self.name} needs at least one input")
        return super().infer(*data_0)


class Predicate(Elementwise, abstract=True):
    """A function whose result is a truth value."""

    def result_dtype(self, dtype: DType) -> DType:
        return BOOL
