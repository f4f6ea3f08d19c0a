"""Gradients of sequences and optionals: a gradient has the type of the value that it belongs to."""

from __future__ import annotations

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.ir.op import Tensor
from intaglio.ir.types import OptionalType, SequenceType, TensorType
from intaglio.ops.sequence import map_elements


def zero_bar(b: Builder, value: Value) -> Value:
    """A gradient of zero for a value: zeros of its shape, or of the shapes of its elements."""
    if isinstance(value.type, SequenceType):
        return map_elements(b, zero_bar, value)
    if isinstance(value.type, OptionalType):
        return b.Optional(zero_bar(b, b.OptionalGetElement(value)))
    dtype = value.dtype.numpy if value.dtype.kind == "float" else np.dtype(np.float32)
    return b.ConstantOfShape(b.Shape(value), value=Tensor(np.zeros(1, dtype)))


def add_bars(b: Builder, left: Value, right: Value) -> Value:
    """The sum of two gradients of one value."""
    if isinstance(left.type, SequenceType):
        return map_elements(b, add_bars, left, right)
    if isinstance(left.type, OptionalType):
        return b.Optional(add_bars(b, b.OptionalGetElement(left), b.OptionalGetElement(right)))
    assert isinstance(left.type, TensorType)
    return b.Add(left, right)
