"""Checks of operands that many operators share: axes, ranks, element types, and the precision to compute in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Array
from intaglio.ir.requirements import need_equal
from intaglio.ir.types import Shape
from intaglio.ops.shared.indices import numbered_dtype

EPSILON = float(np.float32(1e-5))
"""The default of every `epsilon` attribute: ONNX stores it in single precision."""


def float_type(number: int, attribute: str) -> DType:
    """The floating-point type that an attribute such as `stash_type` names by its ONNX number."""
    dtype = numbered_dtype(number)
    if dtype not in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64):
        raise ShapeError(f"{attribute} is {number} ({dtype}), it must be a floating-point type of 16 to 64 bits")
    return dtype


def known_shape(value: Value, rank: int | None = None, least: int = 0) -> Shape | None:
    """The shape where the rank is known; raises ShapeError where it is not `rank` or is below `least`."""
    shape = value.tensor.shape
    if shape is None:
        return None
    if rank is not None and len(shape) != rank:
        raise ShapeError(f"{value.name} has rank {len(shape)}, rank {rank} is needed")
    if len(shape) < least:
        raise ShapeError(f"{value.name} has rank {len(shape)}, at least {least} is needed")
    return shape


def require_float(*values: Value | None) -> None:
    """Raise ShapeError where an operand is not of a floating-point type."""
    for value in values:
        if value is not None and not value.dtype.is_float:
            raise ShapeError(f"{value.name} is {value.dtype}, a floating-point type is needed")


def require_equal(left: Dim, right: Dim, what: str) -> None:
    """Two dimensions must be equal: raises ShapeError where they certainly differ."""
    need_equal(left, right, f"{what}: {left} and {right} differ")


def require_shape(value: Value | None, expected: Sequence[Dim]) -> None:
    """An operand must have a shape, where it is given and its rank is known."""
    shape = None if value is None else known_shape(value, rank=len(expected))
    for axis, (size, wanted) in enumerate(zip(shape or (), expected, strict=False)):
        require_equal(size, wanted, f"axis {axis} of {value and value.name} and what the other operands have")


def like(result: Array, operand: Array) -> Array:
    """The result rounded to the operand's element type."""
    return np.asarray(result).astype(operand.dtype, copy=False)


def cast(b: Builder, x: Value, dtype: DType) -> Value:
    """The value in another element type; the value itself where it has that type already."""
    return x if x.dtype == dtype else b.Cast(x, to=dtype.number)


def wide_dtype(dtype: DType) -> DType:
    """The element type that an expansion computes in: single precision for narrower floats."""
    return FLOAT32 if dtype.is_float and dtype.bits < 32 else dtype


def wide(b: Builder, x: Value) -> Value:
    """The value in the type that an expansion computes in."""
    return cast(b, x, wide_dtype(x.dtype))


def spatial_axes(x: Value) -> list[int]:
    """The axes behind batch and channel."""
    return list(range(2, x.rank))


def per_channel(b: Builder, vector: Value, rank: int, axis: int = 1) -> Value:
    """A vector of one element per channel in a shape that broadcasts along `axis` of a tensor of that rank."""
    return b.Reshape(vector, [-1 if i == axis else 1 for i in range(rank)]) if rank > 1 else vector


def along(vector: Array, rank: int, axis: int = 1) -> Array:
    """Like `per_channel`, for an array."""
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)]) if rank > 1 else vector


def ints(values: Sequence[int] | None, count: int, default: int, name: str) -> tuple[int, ...]:
    """An attribute with one number for each of `count` axes, with its default.

    Raises ShapeError for a wrong length, and for numbers of more than 32 bits: sizes that are computed with them, by
    whatever engine, would not fit 64.
    """
    if not values:
        return (default,) * count
    if len(values) != count:
        raise ShapeError(f"{name} is {list(values)}, it needs {count} numbers")
    if any(abs(value) > MOST_OF_ATTRIBUTE for value in values):
        raise ShapeError(f"{name} is {list(values)}, no number may be over {MOST_OF_ATTRIBUTE}")
    return tuple(values)


MOST_OF_ATTRIBUTE = 2**31 - 1
"""How large strides, dilations, pads and their like may be."""
