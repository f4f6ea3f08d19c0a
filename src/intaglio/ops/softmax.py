"""Softmax and its relatives.

Softmax and LogSoftmax are what their expansions are, also in narrow floats: each step is computed in single precision
and rounded to the element type. The standard gives them as functions of other operators, and its tests round so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType
from intaglio.ops.elementwise import compute_wide
from intaglio.ops.indices import resolve_axis
from intaglio.ops.indices import wide as widen
from intaglio.ops.operand import known_shape, require_float


class _AlongAxis(Op, abstract=True):
    axis: int = -1

    def infer(self, input: Value) -> TensorType:
        require_float(input)
        shape = known_shape(input)
        if shape:
            resolve_axis(self.axis, len(shape))
        return input.tensor

    def reference(self, input: Array) -> Array:
        x = np.atleast_1d(input)
        axis = resolve_axis(self.axis, x.ndim)
        return (self.along(x, axis) if x.size else x).reshape(input.shape)

    def along(self, x: Array, axis: int) -> Array:
        """The operator on a tensor with at least one element, along one axis."""
        raise NotImplementedError


class Softmax(_AlongAxis):
    """exp(x) divided by its sum along `axis`."""

    def along(self, x: Array, axis: int) -> Array:
        weight = compute_wide(np.exp, _shifted(x, axis))
        return compute_wide(np.divide, weight, _sum(weight, axis))

    def expand(self, b: Builder, input: Value) -> Value:
        weight = b.Exp(input - b.ReduceMax(input, [self.axis]))  # without the shift exp() overflows
        return weight / b.ReduceSum(weight, [self.axis])

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        y, y_bar = outputs[0], output_bars[0]
        return (y * (y_bar - b.ReduceSum(y * y_bar, [self.axis])),)


def _shifted(x: Array, axis: int) -> Array:
    return compute_wide(lambda wide: wide - np.max(wide, axis, keepdims=True), x)


def _sum(x: Array, axis: int) -> Array:
    return compute_wide(lambda wide: np.sum(wide, axis, keepdims=True), x)


class LogSoftmax(_AlongAxis):
    """The logarithm of Softmax along `axis`."""

    def along(self, x: Array, axis: int) -> Array:
        shifted = _shifted(x, axis)
        total = _sum(compute_wide(np.exp, shifted), axis)
        return compute_wide(np.subtract, shifted, compute_wide(np.log, total))

    def expand(self, b: Builder, input: Value) -> Value:
        shifted = input - b.ReduceMax(input, [self.axis])
        return shifted - b.Log(b.ReduceSum(b.Exp(shifted), [self.axis]))

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        y, y_bar = outputs[0], output_bars[0]
        return (y_bar - b.Exp(y) * b.ReduceSum(y_bar, [self.axis]),)


class Hardmax(_AlongAxis):
    """One at the first maximum along `axis`, zero elsewhere."""

    def along(self, x: Array, axis: int) -> Array:
        places = np.expand_dims(np.argmax(widen(x), axis), axis)
        result = np.zeros_like(x)
        np.put_along_axis(result, places, 1, axis)
        return result

    def expand(self, b: Builder, input: Value) -> Value:
        size = b.Gather(b.Shape(input), [self.axis])
        places = b.ArgMax(input, axis=self.axis, keepdims=0)
        zero_one = b.constant([0, 1], input.dtype)
        return b.OneHot(places, size, zero_one, axis=self.axis)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        return (None,)
