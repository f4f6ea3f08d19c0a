"""Axes, sizes and indices that operators read from attributes, from known contents and from data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from intaglio.errors import IntaglioError, OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import NUMBERED, DType, from_numpy
from intaglio.ir.graph import CONTENTS_LIMIT, Value
from intaglio.ir.limits import check_size as check_size
from intaglio.ir.op import Array, Op, Tensor
from intaglio.ir.requirements import need_at_most, need_equal
from intaglio.ir.types import OptionalType, SequenceType, Shape, TensorType, Type

KNOWN_LIMIT = 1 << 16
"""Constants of at most this many integers are read by type rules: split sizes, for one, may be many."""


def numbered_dtype(number: int) -> DType:
    """The element type with ONNX's number.

    >>> numbered_dtype(1)
    float32
    """
    if number not in NUMBERED:
        raise ShapeError(f"{number} is not the number of an ONNX element type (1 to {max(NUMBERED)})")
    return NUMBERED[number]


def resolve_axis(axis: Any, rank: int, error: type[IntaglioError] = ShapeError) -> int:
    """The axis counted from the front; raises where it is out of range.

    >>> resolve_axis(-1, 3)
    2
    """
    position = int(axis)
    if not -rank <= position < rank:
        raise error(f"axis {position} is out of range for rank {rank}: {axis_range(rank)}")
    return position % rank


def axis_range(rank: int) -> str:
    """The valid axes of a rank, for messages."""
    return f"expected {-rank} to {rank - 1}" if rank else "a scalar has no axes"


def resolve_axes(axes: Iterable[Any], rank: int, error: type[IntaglioError] = ShapeError) -> list[int]:
    """Several axes counted from the front; raises where one is out of range or given twice."""
    resolved = [resolve_axis(axis, rank, error) for axis in axes]
    if len(set(resolved)) != len(resolved):
        raise error(f"the axes {[int(axis) for axis in axes]} name one axis twice")
    return resolved


def known(value: Value | None) -> list[Dim] | None:
    """The elements of a small integer tensor as dimensions, where they are known."""
    if value is None:
        return None
    if value.contents is None:
        array = value.constant
        if array is None:
            return [] if _is_empty_list(value) else None
        is_list = array.dtype.kind in "iu" and array.size <= KNOWN_LIMIT
        return [int(item) for item in array.flat] if is_list else None
    return [item if isinstance(item, dims.Expr) else int(item) for item in value.contents.ravel()]


def _is_empty_list(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape == (0,) and value.type.dtype.is_integer


def known_integers(value: Value | None) -> list[int] | None:
    """The elements of a small integer tensor where each is a plain number."""
    items = known(value)
    if items is None:
        return None
    plain = [item for item in items if isinstance(item, int)]
    return plain if len(plain) == len(items) else None


def known_length(value: Value) -> int | None:
    """The number of elements of a one-dimensional tensor, where it is a plain number."""
    shape = value.tensor.shape
    if shape is None:
        return None
    if len(shape) > 1:
        raise ShapeError(f"{value.name} has rank {len(shape)}, expected a list (rank 1)")
    size = dims.product(shape)
    return size if isinstance(size, int) else None


def list_length(value: Value) -> Dim:
    """The number of elements of a one-dimensional tensor."""
    return dims.fresh() if value.tensor.shape is None else dims.product(value.tensor.shape)


def unknown_shape(rank: int | None) -> Shape | None:
    """A shape of so many sizes that are known only at run time."""
    return None if rank is None else tuple(dims.fresh() for _ in range(rank))


def unify(left: Dim, right: Dim, what: str = "dimensions") -> Dim:
    """One of two dimensions that must be equal, the better known one; raises where they cannot be equal."""
    need_equal(left, right, f"{what} must be equal, got {left} and {right}")
    return left if isinstance(left, int) else right if isinstance(right, int) else left


def sizes_of(value: Value | None) -> list[Dim] | None:
    """What `known` tells of a list of sizes, of which none may be negative."""
    sizes = known(value)
    message = f"the sizes {sizes} have a negative one"
    for size in sizes or ():
        need_at_most(0, size, message)
    return sizes


def add_all(sizes: Sequence[Dim]) -> Dim:
    """The sum of dimensions, by halves: one by one, the time for many symbols would grow with their square.

    >>> add_all([1, dims.symbol("N"), 2])
    N + 3
    """
    if len(sizes) > 2 and not all(isinstance(size, int) for size in sizes):
        return add_all(sizes[: len(sizes) // 2]) + add_all(sizes[len(sizes) // 2 :])
    return sum(sizes, 0)


def same_dtype(*values: Value | None) -> DType:
    """The one element type of several values; raises where they differ."""
    types = {value.name: value.dtype for value in values if value is not None}
    if len(set(types.values())) != 1:
        raise ShapeError(f"expected one element type, got {', '.join(f'{n}: {t}' for n, t in types.items())}")
    return next(iter(types.values()))


def need_integers(value: Value) -> None:
    """Raise where a value that is read as indices or sizes is not of an integer type."""
    if not value.dtype.is_integer:
        raise ShapeError(f"{value.name} is {value.dtype}, expected an integer type")


def need_rank(value: Value, low: int, high: int | None = None) -> None:
    """Raise where the rank of a value is known and not within low to high."""
    shape = value.tensor.shape
    if shape is not None and not low <= len(shape) <= (len(shape) if high is None else high):
        expected = f"at least {low}" if high is None else f"{low}" if low == high else f"{low} to {high}"
        raise ShapeError(f"{value.name} has rank {len(shape)}, expected {expected}")


def need_single(*values: Value | None) -> None:
    """Raise where an operand that is read as one number has none or several; where its size is open, the run does."""
    for value in values:
        if value is not None and value.tensor.shape is not None:
            length = list_length(value)
            need_equal(length, 1, f"{value.name} has {length} elements, expected 1")


def integers(array: Array) -> list[int]:
    """The elements of an array of integers as Python numbers, in order."""
    return [int(item) for item in np.ravel(array)]


def check_indices(indices: Array, size: int, what: str = "index") -> Array:
    """Indices counted from the front; raises OperatorError naming the first one that is out of range."""
    positions = np.asarray(indices).astype(np.int64)
    wrong = positions[(positions < -size) | (positions >= size)]
    if wrong.size:
        raise OperatorError(f"{what} {wrong.flat[0]} is out of range for size {size}: expected {-size} to {size - 1}")
    return np.where(positions < 0, positions + size, positions)


def wide(array: Array) -> Array:
    """The array in a type that NumPy computes in: narrow floats as float32, narrow integers as int32."""
    if array.dtype == object:
        return array
    dtype = from_numpy(array.dtype)
    if dtype.is_float and dtype.bits < 32:
        return array.astype(np.float32)
    return array.astype(np.int32) if dtype.is_integer and dtype.bits < 8 else array


def zero(dtype: np.dtype[Any]) -> Any:
    """The zero of a NumPy dtype; the empty string for strings."""
    return "" if dtype.kind == "O" else np.zeros((), dtype)[()]


def zeros_like(b: Builder, value: Value) -> Value:
    """Zeros of a value's shape and type, also where it holds infinities."""
    return b.ConstantOfShape(b.Shape(value), value=Tensor(np.zeros(1, value.dtype.numpy)))


def first_only(gradient: Value, inputs: Sequence[Value | None]) -> tuple[Value | None, ...]:
    """Gradients where only the first input has one."""
    return (gradient, *[None] * (len(inputs) - 1))


class Growing(Op, abstract=True):
    """An operator whose output can be much larger than its inputs: contents are computed only if they are small."""

    def dims(self, *inputs: Any) -> Any:
        type = self.infer(*inputs)
        size = dims.product(type.shape) if type.shape is not None else None
        return super().dims(*inputs) if isinstance(size, int) and size <= CONTENTS_LIMIT else None


def join_types(left: Type, right: Type) -> Type:
    """The type of a value that has one of two types, which differ in sizes only."""
    if isinstance(left, TensorType) and isinstance(right, TensorType) and left.dtype == right.dtype:
        return TensorType(left.dtype, join_shapes(left.shape, right.shape))
    if isinstance(left, SequenceType) and isinstance(right, SequenceType):
        return SequenceType(join_types(left.element, right.element))
    if isinstance(left, OptionalType) or isinstance(right, OptionalType):
        inner = (type.element if isinstance(type, OptionalType) else type for type in (left, right))
        return OptionalType(join_types(*inner))
    if left != right:
        raise ShapeError(f"one value cannot be both {left} and {right}")
    return left


def join_shapes(left: Shape | None, right: Shape | None) -> Shape | None:
    """The shape of a value that has one of two shapes."""
    if left is None or right is None or len(left) != len(right):
        return None
    return tuple(a if a == b else dims.fresh() for a, b in zip(left, right, strict=True))
