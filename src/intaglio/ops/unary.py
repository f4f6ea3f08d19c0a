"""Elementwise mathematics of one operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Work
from intaglio.ir.types import Type
from intaglio.ops.shared.elementwise import INTEGERS, NUMBERS, Predicate, UnaryInput, UnaryX

Gradients = Sequence[Value | None]


class Abs(UnaryX):
    """The absolute value; that of the least signed integer is itself, as in two's complement."""

    is_exact = True
    is_cheap = True
    never_fails = True
    work = Work.SHORT
    kinds: ClassVar[tuple[str, ...]] = NUMBERS
    symbolic: ClassVar[bool] = True

    def compute(self, X: Array) -> Any:
        return np.abs(X)

    def size(self, X: Any) -> Any:
        return -X if dims.decide_less(X, 0) else X

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * b.Sign(inputs[0])]


class Neg(UnaryX):
    """The negated value; that of the least signed integer is itself, as in two's complement."""

    is_exact = True
    is_cheap = True
    never_fails = True
    work = Work.SHORT
    kinds: ClassVar[tuple[str, ...]] = NUMBERS
    symbolic: ClassVar[bool] = True

    def compute(self, X: Array) -> Any:
        return np.negative(X)

    def size(self, X: Any) -> Any:
        return -X

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [-bar]


class Ceil(UnaryX):
    """The least integer that is not smaller."""

    is_exact = True
    never_fails = True
    work = Work.SHORT
    no_gradient = "it is constant between steps, so its gradient is zero"

    def compute(self, X: Array) -> Any:
        return np.ceil(X)


class Floor(UnaryX):
    """The greatest integer that is not larger."""

    is_exact = True
    never_fails = True
    work = Work.SHORT
    no_gradient = "it is constant between steps, so its gradient is zero"

    def compute(self, X: Array) -> Any:
        return np.floor(X)


class Round(UnaryX):
    """The nearest integer, halves to the even one."""

    is_exact = True
    never_fails = True
    work = Work.LINEAR
    no_gradient = "it is constant between steps, so its gradient is zero"

    def compute(self, X: Array) -> Any:
        return np.rint(X)


class Sign(UnaryInput):
    """-1, 0 or 1, as the value is less than, equal to or greater than zero; NaN stays NaN."""

    is_exact = True
    never_fails = True
    work = Work.SHORT
    no_gradient = "it is constant between steps, so its gradient is zero"
    kinds: ClassVar[tuple[str, ...]] = NUMBERS

    def compute(self, input: Array) -> Any:
        return np.sign(input)


class Reciprocal(UnaryX):
    """One divided by the value."""

    never_fails = True
    work = Work.SHORT

    def compute(self, X: Array) -> Any:
        return np.reciprocal(X)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [-bar * output * output]


class Sqrt(UnaryX):
    """The square root; NaN below zero."""

    never_fails = True
    work = Work.SHORT

    def compute(self, X: Array) -> Any:
        return np.sqrt(X)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * 0.5 / output]


class Exp(UnaryInput):
    """The exponential function."""

    never_fails = True
    work = Work.SHORT

    def compute(self, input: Array) -> Any:
        return np.exp(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * output]


class Log(UnaryInput):
    """The natural logarithm; minus infinity at zero, NaN below."""

    never_fails = True
    work = Work.SHORT

    def compute(self, input: Array) -> Any:
        return np.log(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar / inputs[0]]


class Sin(UnaryInput):
    """The sine of an angle in radians."""

    never_fails = True
    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.sin(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * b.Cos(inputs[0])]


class Cos(UnaryInput):
    """The cosine of an angle in radians."""

    never_fails = True
    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.cos(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [-bar * b.Sin(inputs[0])]


class Tan(UnaryInput):
    """The tangent of an angle in radians."""

    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.tan(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * (output * output + 1)]


class Asin(UnaryInput):
    """The angle whose sine is the value."""

    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.arcsin(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar / b.Sqrt(1 - inputs[0] * inputs[0])]


class Acos(UnaryInput):
    """The angle whose cosine is the value."""

    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.arccos(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [-bar / b.Sqrt(1 - inputs[0] * inputs[0])]


class Atan(UnaryInput):
    """The angle whose tangent is the value."""

    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.arctan(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar / (inputs[0] * inputs[0] + 1)]


class Sinh(UnaryInput):
    """The hyperbolic sine."""

    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.sinh(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * b.Cosh(inputs[0])]


class Cosh(UnaryInput):
    """The hyperbolic cosine."""

    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.cosh(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * b.Sinh(inputs[0])]


class Tanh(UnaryInput):
    """The hyperbolic tangent."""

    never_fails = True
    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.tanh(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * (1 - output * output)]


class Asinh(UnaryInput):
    """The inverse of the hyperbolic sine."""

    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.arcsinh(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar / b.Sqrt(inputs[0] * inputs[0] + 1)]


class Acosh(UnaryInput):
    """The inverse of the hyperbolic cosine; NaN below one."""

    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.arccosh(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar / b.Sqrt(inputs[0] * inputs[0] - 1)]


class Atanh(UnaryInput):
    """The inverse of the hyperbolic tangent; NaN outside of -1 to 1."""

    work = Work.LINEAR

    def compute(self, input: Array) -> Any:
        return np.arctanh(input)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar / (1 - inputs[0] * inputs[0])]


class Erf(UnaryInput):
    """The Gauss error function."""

    never_fails = True
    work = Work.LINEAR
    kinds: ClassVar[tuple[str, ...]] = NUMBERS

    def compute(self, input: Array) -> Any:
        return np.asarray(np.frompyfunc(math.erf, 1, 1)(input.astype(np.float64)), dtype=np.float64)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * (b.Exp(-inputs[0] * inputs[0]) * (2 / math.sqrt(math.pi)))]


class BitwiseNot(UnaryX):
    """All bits flipped."""

    work = Work.SHORT
    no_gradient = "its results are integers"
    kinds: ClassVar[tuple[str, ...]] = INTEGERS

    def compute(self, X: Array) -> Any:
        return np.invert(X)


class IsNaN(Predicate):
    """Whether the value is not a number."""

    takes_narrow_apart = True
    never_fails = True
    work = Work.LINEAR
    no_gradient = "its results are truth values"
    kinds: ClassVar[tuple[str, ...]] = ("float",)

    def infer(self, X: Value) -> Type:
        return super().infer(X)

    def compute(self, X: Array) -> Any:
        return np.isnan(X)


class IsInf(Predicate):
    """Whether the value is infinite, of the signs that are asked for."""

    takes_narrow_apart = True
    work = Work.LINEAR
    no_gradient = "its results are truth values"
    kinds: ClassVar[tuple[str, ...]] = ("float",)
    detect_negative: int = 1
    detect_positive: int = 1

    def infer(self, X: Value) -> Type:
        return super().infer(X)

    def compute(self, X: Array) -> Any:
        return (np.isposinf(X) & bool(self.detect_positive)) | (np.isneginf(X) & bool(self.detect_negative))
