"""Softmax and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dtype import INT32
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows, Work
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import resolve_axis
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import cast, known_shape, like, require_float, wide


class _AlongAxis(Op, abstract=True):
    axis: int = -1

    def infer(self, input: Value) -> TensorType:
        require_float(input)
        shape = known_shape(input)
        if shape:
            resolve_axis(self.axis, len(shape))
        return input.tensor

    def reference(self, input: Array) -> Array:
        x = np.atleast_1d(widen(input))
        axis = resolve_axis(self.axis, x.ndim)
        return like(self.along(x, axis) if x.size else x, input).reshape(input.shape)

    def along(self, x: Array, axis: int) -> Array:
        """The operator on a tensor with at least one element, along one axis."""
        raise NotImplementedError


class Softmax(_AlongAxis):
    """exp(x) divided by its sum along `axis`."""

    keeps_rows = Rows.BY_AXES

    never_fails = True
    work = Work.LINEAR

    def along(self, x: Array, axis: int) -> Array:
        weight = np.exp(x - np.max(x, axis, keepdims=True))
        return weight / np.sum(weight, axis, keepdims=True)

    def expand(self, b: Builder, input: Value) -> Value:
        x = wide(b, input)
        weight = b.Exp(x - b.ReduceMax(x, [self.axis]))  # without the shift exp() overflows
        return cast(b, weight / b.ReduceSum(weight, [self.axis]), input.dtype)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        y, y_bar = outputs[0], output_bars[0]
        return (y * (y_bar - b.ReduceSum(y * y_bar, [self.axis])),)


class LogSoftmax(_AlongAxis):
    """The logarithm of Softmax along `axis`."""

    keeps_rows = Rows.BY_AXES

    never_fails = True
    work = Work.LINEAR

    def along(self, x: Array, axis: int) -> Array:
        shifted = x - np.max(x, axis, keepdims=True)
        return shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True))

    def expand(self, b: Builder, input: Value) -> Value:
        x = wide(b, input)
        shifted = x - b.ReduceMax(x, [self.axis])
        return cast(b, shifted - b.Log(b.ReduceSum(b.Exp(shifted), [self.axis])), input.dtype)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        y, y_bar = outputs[0], output_bars[0]
        return (y_bar - b.Exp(y) * b.ReduceSum(y_bar, [self.axis]),)


class Hardmax(_AlongAxis):
    """One at the first maximum along `axis`, zero elsewhere."""

    keeps_rows = Rows.BY_AXES

    no_gradient = "it is constant between steps, so its gradient is zero"

    def along(self, x: Array, axis: int) -> Array:
        places = np.expand_dims(np.argmax(x, axis), axis)
        result = np.zeros_like(x)
        np.put_along_axis(result, places, 1, axis)
        return result

    def expand(self, b: Builder, input: Value) -> Value:
        # ArgMax would refuse an axis of size 0.
        is_top = b.Or(b.Equal(input, b.ReduceMax(input, [self.axis])), b.IsNaN(input))
        count = b.CumSum(b.Cast(is_top, to=INT32.number), b.constant(self.axis))
        return b.Cast(b.And(is_top, b.Equal(count, 1)), to=input.dtype.number)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        return (None,)
