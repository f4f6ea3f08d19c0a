"""Tensors out of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.table import aten

SMALL = 4096
"""Up to so many numbers, a range is a constant."""


@aten("full", "full_like", "new_full")
def full(c: AtenCall, like: Any, *arguments: Any, **others: Any) -> Value:
    """A tensor of one number."""
    number = arguments[-1] if arguments else others["fill_value"]
    return c.full(c.shape(), number, c.dtype())


@aten("fill.Scalar", "fill.Tensor")
def fill(c: AtenCall, like: Value, number: Any) -> Value:
    """A tensor of one number in the shape of another."""
    return c.full(c.shape(), number, c.dtype())


@aten("zeros", "zeros_like", "new_zeros", "empty.memory_format", "empty_like", "new_empty", "empty_strided")
@aten("new_empty_strided", "empty_permuted")
def zeros(c: AtenCall, *arguments: Any, **others: Any) -> Value:
    """A tensor of zeros."""
    return c.full(c.shape(), 0, c.dtype())


@aten("ones", "ones_like", "new_ones")
def ones(c: AtenCall, *arguments: Any, **others: Any) -> Value:
    """A tensor of ones."""
    return c.full(c.shape(), 1, c.dtype())


@aten("scalar_tensor")
def scalar_tensor(c: AtenCall, number: Any, **others: Any) -> Value:
    """A number as a tensor."""
    return c.operand(number, c.dtype())


@aten("arange.start_step")
def arange(c: AtenCall, start: Any, end: Any, step: Any = 1, **others: Any) -> Value:
    """Evenly spaced numbers."""
    (size,) = c.shape()
    if isinstance(size, int) and size <= SMALL and all(isinstance(n, (int, float)) for n in (start, step)):
        wide = np.float64 if c.dtype().is_float else np.int64
        return c.b.constant((np.arange(size).astype(wide) * wide(step) + wide(start)).astype(c.dtype().numpy))
    return _range(c, size, start, step)


def _range(c: AtenCall, size: Any, start: Any, step: Any) -> Value:
    whole = all(not isinstance(number, float) for number in (start, step))
    counted = c.b.Range(c.number(0, INT64), c.operand(size, INT64), c.number(1, INT64))
    dtype = INT64 if whole else c.dtype() if c.dtype().bits >= 32 else FLOAT32
    values = c.cast(counted, dtype)
    if step != 1:
        values = c.b.Mul(values, c.operand(step, dtype))
    if not (isinstance(start, int) and start == 0):
        values = c.b.Add(values, c.operand(start, dtype))
    return c.cast(values)


@aten("eye", "eye.m")
def eye(c: AtenCall, *arguments: Any, **others: Any) -> Value:
    """Ones on the diagonal."""
    rows, columns = c.shape()
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise UnsupportedError("the unit matrix of an open size")
    return c.b.constant(np.eye(rows, columns).astype(c.dtype().numpy))
