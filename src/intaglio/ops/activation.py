"""Activation functions.

Sigmoid, Softplus and Relu are primitive; the others are compositions, with a reference of their own that rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, FLOAT64, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows, Work
from intaglio.ir.requirements import need_stretch
from intaglio.ir.types import Type
from intaglio.ops.cast import convert
from intaglio.ops.shared.elementwise import (
    FLOATS,
    NUMBERS,
    UnaryX,
    broadcast_shape,
    check_kind,
    compute_wide,
)
from intaglio.ops.shared.gradient import unbroadcast
from intaglio.ops.shared.indices import same_dtype
from intaglio.ops.shared.operand import cast, wide

Gradients = Sequence[Value | None]


class Relu(UnaryX):
    """The value where it is above zero, else zero; NaN stays NaN."""

    is_exact = True
    is_cheap = True
    never_fails = True
    work = Work.SHORT
    kinds: ClassVar[tuple[str, ...]] = NUMBERS

    def compute(self, X: Array) -> Any:
        return np.maximum(X, np.zeros((), X.dtype))

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [b.Where(inputs[0] > 0, bar, b.constant(0, bar.dtype))]


class Sigmoid(UnaryX):
    """1 / (1 + exp(-x)), without overflow."""

    never_fails = True
    work = Work.LINEAR

    def compute(self, X: Array) -> Any:
        small = np.exp(-np.abs(X))
        return np.where(X >= 0, np.ones((), X.dtype), small) / (small + 1)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * output * (1 - output)]


class Softplus(UnaryX):
    """log(1 + exp(x)), without overflow."""

    never_fails = True
    work = Work.LINEAR

    def compute(self, X: Array) -> Any:
        return np.maximum(X, np.zeros((), X.dtype)) + np.log1p(np.exp(-np.abs(X)))

    def expand(self, b: Builder, X: Value) -> Value:
        small = b.Exp(-b.Abs(X))
        whole = small + 1
        lost = small - (whole - 1)  # what the sum has rounded away, which is all where X is far below 0
        return b.Relu(X) + (b.Log(whole) + lost / whole)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * b.Sigmoid(inputs[0])]


class Activation(Op, abstract=True):
    """A composite function of the float X: a subclass gives `compute` on wide arrays, and `expand`."""

    is_elementwise = True

    def infer(self, X: Value) -> Type:
        check_kind(self.name, X.dtype, FLOATS)
        return X.type

    def reference(self, X: Array) -> Array:
        return compute_wide(self.compute, X)

    def compute(self, X: Array) -> Any:
        """The result for an array of a type that NumPy computes in."""
        raise NotImplementedError


class Kinked(Activation, abstract=True):
    """An activation with a kink, whose gradient there is PyTorch's: a subclass gives `pulled_back`."""

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        (x,), (bar,) = inputs, output_bars
        return (cast(b, self.pulled_back(b, wide(b, x), wide(b, bar)), x.dtype),)

    def pulled_back(self, b: Builder, x: Value, bar: Value) -> Value:
        """The gradient of X; both operands are in a type that expansions compute in."""
        raise NotImplementedError


def _below_zero(b: Builder, x: Value) -> Value:
    """min(x, 0) with the slope 0 at 0: what is not chosen behind it must not overflow, or its gradient becomes NaN."""
    return b.Where(x >= 0, b.constant(0, x.dtype), x)


class LeakyRelu(Kinked):
    """The value, times `alpha` where it is below zero."""

    never_fails = True
    work = Work.LINEAR
    alpha: float = float(np.float32(0.01))

    def compute(self, X: Array) -> Any:
        return np.where(X < 0, X * self.alpha, X)

    def expand(self, b: Builder, X: Value) -> Value:
        return b.Where(X < 0, X * self.alpha, X)

    def pulled_back(self, b: Builder, x: Value, bar: Value) -> Value:
        return b.Where(x > 0, bar, bar * self.alpha)


class Elu(Kinked):
    """The value, or alpha * (exp(x) - 1) where it is below zero."""

    never_fails = True
    work = Work.LINEAR
    alpha: float = 1.0

    def compute(self, X: Array) -> Any:
        return np.where(X < 0, self.alpha * np.expm1(X), X)

    def expand(self, b: Builder, X: Value) -> Value:
        return b.Where(X < 0, (_exp_below_zero(b, X) - 1) * self.alpha, X)

    def pulled_back(self, b: Builder, x: Value, bar: Value) -> Value:
        return b.Where(x > 0, bar, bar * (b.Exp(_below_zero(b, x)) * self.alpha))


def _exp_below_zero(b: Builder, X: Value) -> Value:
    """exp(min(x, 0)): where it is not chosen it must not overflow either, or the gradient becomes NaN."""
    return b.Exp(b.Min(X, 0))


class Selu(Kinked):
    """gamma * x, or gamma * alpha * (exp(x) - 1) where x is not above zero."""

    never_fails = True
    work = Work.LINEAR
    alpha: float = float(np.float32(1.67326319217681884765625))
    gamma: float = float(np.float32(1.05070102214813232421875))

    def compute(self, X: Array) -> Any:
        return self.gamma * np.where(X <= 0, self.alpha * np.expm1(X), X)

    def expand(self, b: Builder, X: Value) -> Value:
        return b.Where(X <= 0, (_exp_below_zero(b, X) - 1) * self.alpha, X) * self.gamma

    def pulled_back(self, b: Builder, x: Value, bar: Value) -> Value:
        return b.Where(x > 0, bar, bar * (b.Exp(_below_zero(b, x)) * self.alpha)) * self.gamma


class Celu(Kinked):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    work = Work.LINEAR
    alpha: float = 1.0

    def compute(self, X: Array) -> Any:
        zero = np.zeros((), X.dtype)
        return np.maximum(X, zero) + np.minimum(self.alpha * np.expm1(np.minimum(X, zero) / self.alpha), zero)

    def expand(self, b: Builder, X: Value) -> Value:
        return b.Relu(X) + b.Min((b.Exp(b.Min(X, 0) / self.alpha) - 1) * self.alpha, 0)

    def pulled_back(self, b: Builder, x: Value, bar: Value) -> Value:
        return b.Where(x > 0, bar, bar * b.Exp(_below_zero(b, x) / self.alpha))


class ThresholdedRelu(Kinked):
    """The value where it is above `alpha`, else zero."""

    work = Work.LINEAR
    alpha: float = 1.0

    def compute(self, X: Array) -> Any:
        return np.where(np.greater(X, self.alpha), X, 0)

    def expand(self, b: Builder, X: Value) -> Value:
        return b.Where(self._is_above(b, X), X, b.constant(0, X.dtype))

    def _is_above(self, b: Builder, x: Value) -> Value:
        """x > alpha; a narrow type would round alpha, and with it the elements that are equal to it."""
        is_half = x.dtype.is_float and x.dtype.bits <= 16
        return b.Greater(b.Cast(x, to=FLOAT32.number) if is_half else x, self.alpha)

    def pulled_back(self, b: Builder, x: Value, bar: Value) -> Value:
        return b.Where(self._is_above(b, x), bar, b.constant(0, bar.dtype))


class PRelu(Op):
    """The value, times `slope` where it is below zero; the slope is broadcast to the shape of X."""

    is_elementwise = True
    never_fails = True

    def infer(self, X: Value, slope: Value) -> Type:
        check_kind("PRelu", same_dtype(X, slope), NUMBERS)
        shape, given = X.tensor.shape, slope.tensor.shape
        if shape is not None and given is not None:
            message = f"the slope of shape {slope.type} cannot be broadcast to {X.type}"
            if len(given) > len(shape):
                raise ShapeError(message)
            for size, wanted in zip(reversed(given), reversed(shape), strict=False):
                need_stretch(size, wanted, message)
        return X.type

    def reference(self, X: Array, slope: Array) -> Array:
        if np.broadcast_shapes(X.shape, slope.shape) != X.shape:
            raise ValueError(f"a slope of shape {slope.shape} for data of shape {X.shape}")
        return compute_wide(lambda x, factor: np.where(x < 0, x * factor, x), X, slope)

    def expand(self, b: Builder, X: Value, slope: Value) -> Value:
        return b.Where(X < 0, X * slope, X)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        (X, slope), (bar,) = inputs, output_bars
        is_above, zero = X > 0, b.constant(0, X.dtype)
        slope_bar = b.Where(is_above, zero, bar * X)
        return b.Where(is_above, bar, bar * slope), unbroadcast(b, slope_bar, slope)


class HardSigmoid(Kinked):
    """alpha * x + beta, limited to the range from 0 to 1."""

    never_fails = True
    work = Work.LINEAR
    alpha: float = float(np.float32(0.2))
    beta: float = 0.5

    def compute(self, X: Array) -> Any:
        return np.clip(self.alpha * X + self.beta, 0, 1)

    def expand(self, b: Builder, X: Value) -> Value:
        return b.Max(b.Min(X * self.alpha + self.beta, 1), 0)

    def pulled_back(self, b: Builder, x: Value, bar: Value) -> Value:
        line = x * self.alpha + self.beta
        return b.Where(b.And(line > 0, line < 1), bar * self.alpha, b.constant(0, bar.dtype))


class HardSwish(Kinked):
    """x * max(0, min(1, x / 6 + 0.5))."""

    never_fails = True
    work = Work.LINEAR

    def compute(self, X: Array) -> Any:
        return X * np.clip(X / 6 + 0.5, 0, 1)

    def expand(self, b: Builder, X: Value) -> Value:
        return X * b.Clip(X / 6 + 0.5, 0, 1)

    def pulled_back(self, b: Builder, x: Value, bar: Value) -> Value:
        inside = b.Where(x < 3, bar * (x / 3 + 0.5), bar)
        return b.Where(x <= -3, b.constant(0, bar.dtype), inside)


class Softsign(Op):
    """x / (1 + |x|)."""

    is_elementwise = True
    work = Work.LINEAR

    def infer(self, input: Value) -> Type:
        check_kind("Softsign", input.dtype, FLOATS)
        return input.type

    def reference(self, input: Array) -> Array:
        return compute_wide(lambda x: x / (1 + np.abs(x)), input)

    def expand(self, b: Builder, input: Value) -> Value:
        return input / (b.Abs(input) + 1)


class Gelu(Activation):
    """x times the normal distribution function of x, exact or with the `tanh` approximation."""

    keeps_rows = Rows.BY_AXES

    never_fails = True
    work = Work.LINEAR
    approximate: str = "none"

    def infer(self, X: Value) -> Type:
        if self.approximate not in ("none", "tanh"):
            raise ShapeError(f"approximate is {self.approximate!r}, it must be 'none' or 'tanh'")
        return super().infer(X)

    def compute(self, X: Array) -> Any:
        if self.approximate == "tanh":
            return 0.5 * X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))
        error = np.frompyfunc(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), 1, 1)(X.astype(np.float64))
        return X * np.asarray(error, dtype=np.float64)

    def expand(self, b: Builder, X: Value) -> Value:
        if self.approximate == "tanh":
            inner = (X + X * X * X * 0.044715) * math.sqrt(2 / math.pi)
            return X * 0.5 * (b.Tanh(inner) + 1)
        return X * 0.5 * (b.Erf(X * math.sqrt(0.5)) + 1)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        """In terms of X alone, so that nothing else is kept."""
        x = wide(b, inputs[0])
        if self.approximate == "tanh":
            gate = b.Tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi))
            slope = (1 - gate * gate) * (x * x * (3 * 0.044715) + 1) * math.sqrt(0.5 / math.pi)
        else:
            gate = b.Erf(x * math.sqrt(0.5))
            slope = b.Exp(x * x * -0.5) * math.sqrt(0.5 / math.pi)
        return (cast(b, wide(b, output_bars[0]) * ((gate + 1) * 0.5 + x * slope), inputs[0].dtype),)


class Mish(Activation):
    """x * tanh(softplus(x))."""

    never_fails = True
    work = Work.LINEAR

    def compute(self, X: Array) -> Any:
        return X * np.tanh(Softplus().compute(X))

    def expand(self, b: Builder, X: Value) -> Value:
        return X * b.Tanh(b.Softplus(X))


class Swish(Activation):
    """x * sigmoid(alpha * x)."""

    never_fails = True
    work = Work.LINEAR
    alpha: float = 1.0

    def compute(self, X: Array) -> Any:
        return X * Sigmoid().compute(X * X.dtype.type(self.alpha))

    def expand(self, b: Builder, X: Value) -> Value:
        return X * b.Sigmoid(X if self.alpha == 1 else X * self.alpha)


class SwiGLU(Op):
    """Swish of the gate A times B, which has the same shape."""

    keeps_rows = Rows.BY_AXES

    alpha: float = 1.0

    def infer(self, A: Value, B: Value) -> Type:
        check_kind("SwiGLU", same_dtype(A, B), FLOATS)
        if broadcast_shape(A, B) is None:
            return A.type if A.tensor.shape is not None else B.type
        if A.rank != B.rank or any(1 in (a, b) and a != b for a, b in zip(A.shape, B.shape, strict=True)):
            raise ShapeError(f"A and B must have one shape, got {A.type} and {B.type}")
        return A.type

    def reference(self, A: Array, B: Array) -> Array:
        return compute_wide(lambda gate, value: Swish(alpha=self.alpha).compute(gate) * value, A, B)

    def expand(self, b: Builder, A: Value, B: Value) -> Value:
        return b.Swish(A, alpha=self.alpha) * B


class Shrink(Op):
    """Values above `lambd` minus `bias`, those below -lambd plus `bias`, and zero for those between.

    Integers are computed as floats and rounded towards zero.
    """

    is_elementwise = True
    bias: float = 0.0
    lambd: float = 0.5

    def infer(self, input: Value) -> Type:
        check_kind("Shrink", input.dtype, NUMBERS)
        return input.type

    def reference(self, input: Array) -> Array:
        x = input.astype(np.float64)
        result = np.where(x > self.lambd, x - self.bias, np.where(x < -self.lambd, x + self.bias, 0))
        return convert(result, from_numpy(input.dtype))

    def expand(self, b: Builder, input: Value) -> Value:
        if not input.dtype.is_float or input.dtype.bits <= 16:
            wide = b.Cast(input, to=(FLOAT32 if input.dtype.is_float else FLOAT64).number)
            return b.CastLike(b.Shrink(wide, bias=self.bias, lambd=self.lambd), input)
        zero = b.constant(0, input.dtype)
        below = b.Where(input < -self.lambd, input + self.bias, zero)
        return b.Where(input > self.lambd, input - self.bias, below)
