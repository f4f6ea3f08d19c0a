"""Elementwise arithmetic of several operands, and running totals.

Integers wrap around. The quotient of an integer by zero is 0 and so is its remainder: both are defined here because
ONNX leaves them open and the hardware would trap.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import IntaglioError, OperatorError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dtype import from_numpy
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Array, Op, Rows, Work
from intaglio.ir.types import TensorType, Type
from intaglio.ops.cast import convert
from intaglio.ops.control import Scan, scan_slice
from intaglio.ops.shared.elementwise import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    Binary,
    Elementwise,
    Variadic,
    broadcast_shape,
    check_kind,
    compute_wide,
    map_sizes,
)
from intaglio.ops.shared.indices import known_integers, need_single, resolve_axis, zeros_like

Gradients = Sequence[Value | None]


class Add(Binary):
    """A + B."""

    is_cheap = True
    carries_quantized = True
    never_fails = True
    work = Work.SHORT
    symbolic: ClassVar[bool] = True

    def compute(self, A: Array, B: Array) -> Any:
        return np.add(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return A + B

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar, bar]


class Sub(Binary):
    """A - B."""

    is_cheap = True
    carries_quantized = True
    never_fails = True
    work = Work.SHORT
    symbolic: ClassVar[bool] = True

    def compute(self, A: Array, B: Array) -> Any:
        return np.subtract(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return A - B

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar, -bar]


class Mul(Binary):
    """A * B."""

    is_cheap = True
    never_fails = True
    work = Work.SHORT
    symbolic: ClassVar[bool] = True

    def compute(self, A: Array, B: Array) -> Any:
        return np.multiply(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return A * B

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar * inputs[1], bar * inputs[0]]


class Div(Binary):
    """A / B; of integers the quotient rounded towards zero, and 0 where B is 0."""

    never_fails = True
    work = Work.SHORT
    symbolic: ClassVar[bool] = True

    def compute(self, A: Array, B: Array) -> Any:
        return truncated_quotient(A, B) if A.dtype.kind in "iu" else np.divide(A, B)

    def size(self, A: Any, B: Any) -> Any:
        if B == 0:
            return 0
        if dims.compare(B, 0) == 1:
            return dims.floordiv(dims.maximum(A, 0), B) - dims.floordiv(dims.maximum(-A, 0), B)
        is_negative = dims.decide_less(A, 0) != dims.decide_less(B, 0)
        return -dims.floordiv(-A, B) if is_negative else dims.floordiv(A, B)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar / inputs[1], -bar * output / inputs[1]]


def truncated_quotient(A: Array, B: Array) -> Array:
    """The quotient of integers rounded towards zero, and 0 where B is 0."""
    quotient = np.asarray(np.floor_divide(A, B))  # NumPy gives 0 for a zero divisor
    is_rounded_down = (quotient * B != A) & ((A < 0) != (B < 0)) & (B != 0)
    return quotient + is_rounded_down.astype(quotient.dtype)


class Mod(Binary):
    """The remainder of A / B with the sign of B, or with that of A where `fmod` is 1; 0 for an integer B of 0."""

    work = Work.LINEAR
    fmod: int = 0
    symbolic: ClassVar[bool] = True

    def compute(self, A: Array, B: Array) -> Any:
        return np.fmod(A, B) if self.fmod else np.mod(A, B)

    def size(self, A: Any, B: Any) -> Any:
        if B == 0:
            return 0
        if self.fmod and dims.decide_less(A, 0):
            return -dims.mod(-A, -B if dims.decide_less(B, 0) else B)
        return dims.mod(A, -B if self.fmod and dims.decide_less(B, 0) else B)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        quotient = (inputs[0] - output) / inputs[1]
        return [bar, -bar * b.Round(quotient)]


class Pow(Op):
    """X to the power of Y, in the type of X.

    Powers of integers with integer exponents are exact and wrap around; a negative exponent gives the reciprocal
    rounded towards zero, and 0 for the base 0.
    """

    is_elementwise = True
    never_fails = True
    work = Work.LINEAR
    symbolic: ClassVar[bool] = True

    def dims(self, X: Value, Y: Value) -> Any:
        return map_sizes(_power_of_size, X.dtype, X, Y)

    def infer(self, X: Value, Y: Value) -> Type:
        check_kind("Pow", X.dtype, NUMBERS)
        check_kind("Pow", Y.dtype, NUMBERS)
        return TensorType(X.dtype, broadcast_shape(X, Y))

    def reference(self, X: Array, Y: Array) -> Array:
        base, exponent = from_numpy(X.dtype), from_numpy(Y.dtype)
        if base.is_integer and exponent.is_integer:
            return _integer_power(X, Y)
        with np.errstate(all="ignore"):
            return convert(np.asarray(_float_power(X.astype(np.float64), Y.astype(np.float64))), base)

    def pullback(self, b: Builder, inputs: Sequence[Any], outputs: Sequence[Value], output_bars: Sequence[Any]) -> Any:
        from intaglio.ops.shared.gradient import unbroadcast

        (X, Y), Z, bar = inputs, outputs[0], output_bars[0]
        X_bar = unbroadcast(b, bar * _power_slope(b, X, Y), X)
        if not Y.dtype.is_float:
            return X_bar, None
        zero, one = (b.constant(number, X.dtype) for number in (0, 1))
        # the logarithm of the base exists, or is infinite like the power itself
        is_defined = b.Or(X > 0, b.And(b.Equal(X, zero), Y < 0))
        slope = b.Where(is_defined, b.Log(b.Where(is_defined, X, one)), zero)
        return X_bar, unbroadcast(b, b.CastLike(bar * Z * slope, Y), Y)


def _power_slope(b: Builder, X: Value, Y: Value) -> Value:
    """Y X^(Y - 1); zero where Y is zero, although the power is infinite where X is zero too."""
    exponent = b.CastLike(Y, X)
    if Y.constant is not None and np.all(Y.constant):
        return exponent * b.Pow(X, exponent - 1)
    is_zero = b.Equal(exponent, b.constant(0, X.dtype))
    return exponent * b.Pow(X, b.Where(is_zero, b.constant(1, X.dtype), exponent - 1))


def _float_power(X: Array, Y: Array) -> Any:
    """The power; NumPy takes the root for a single exponent of one half, which differs at -0 and minus infinity."""
    power = np.power(X, Y)
    return np.where(Y == 0.5, np.where(np.isneginf(X), np.inf, power + 0), power)


LARGEST_EXPONENT = 8
"""Powers of sizes up to this one are written as products."""


def _power_of_size(base: Any, exponent: Any) -> Any:
    if not isinstance(exponent, int) or not 0 <= exponent <= LARGEST_EXPONENT:
        raise dims.UndecidableError(f"the power of a size by {exponent}")
    return dims.product([base] * exponent)


def _integer_power(X: Array, Y: Array) -> Array:
    """The power modulo 2**64, cut to the base's width."""
    is_negative = Y < 0
    exponent = np.where(is_negative, 0, Y).astype(np.uint64)
    power = np.power(X.astype(np.int64).astype(np.uint64), exponent).astype(X.dtype)
    is_odd = (Y & 1).astype(bool)
    reciprocal = np.where((X == 1) | ((X == -1) & ~is_odd), 1, np.where(X == -1, -1, 0))
    return np.asarray(np.where(is_negative, reciprocal.astype(X.dtype), power))


class Min(Variadic):
    """The least of the operands; NaN where one of them is NaN."""

    is_exact = True
    is_cheap = True
    never_fails = True
    work = Work.LINEAR
    symbolic: ClassVar[bool] = True

    def compute(self, *data_0: Array) -> Any:
        return reduce(np.minimum, data_0)

    def size(self, *data_0: Any) -> Any:
        return reduce(dims.minimum, data_0)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return _shared_by_attaining(b, inputs, output, bar)


class Max(Variadic):
    """The greatest of the operands; NaN where one of them is NaN."""

    is_exact = True
    is_cheap = True
    never_fails = True
    work = Work.LINEAR
    symbolic: ClassVar[bool] = True

    def compute(self, *data_0: Array) -> Any:
        return reduce(np.maximum, data_0)

    def size(self, *data_0: Any) -> Any:
        return reduce(dims.maximum, data_0)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return _shared_by_attaining(b, inputs, output, bar)


def _shared_by_attaining(b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
    """The gradient in equal parts to the operands that are equal to the result."""
    attains = [b.CastLike(b.Equal(value, output), bar) for value in inputs]
    share = bar / reduce(lambda left, right: left + right, attains)
    return [share * attained for attained in attains]


class Sum(Variadic):
    """The sum of the operands."""

    never_fails = True
    work = Work.LINEAR
    kinds: ClassVar[tuple[str, ...]] = FLOATS

    def compute(self, *data_0: Array) -> Any:
        return reduce(np.add, data_0)

    def expand(self, b: Builder, *data_0: Value) -> Value:
        return reduce(b.Add, data_0)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar] * len(inputs)


class Mean(Variadic):
    """The arithmetic mean of the operands."""

    work = Work.LINEAR
    kinds: ClassVar[tuple[str, ...]] = FLOATS

    def compute(self, *data_0: Array) -> Any:
        return reduce(np.add, data_0) / len(data_0)

    def expand(self, b: Builder, *data_0: Value) -> Value:
        return b.Sum(*data_0) / len(data_0)

    def gradients(self, b: Builder, inputs: Sequence[Any], output: Value, bar: Value) -> Gradients:
        return [bar / len(inputs)] * len(inputs)


class BitShift(Elementwise):
    """X shifted by Y bits; a negative Y or one of at least the width shifts every bit out.

    A right shift fills with copies of the sign bit.
    """

    no_gradient = "its results are integers"
    kinds: ClassVar[tuple[str, ...]] = INTEGERS
    direction: str

    def infer(self, X: Value, Y: Value) -> Type:
        if self.direction not in ("LEFT", "RIGHT"):
            raise ShapeError(f"direction is {self.direction!r}, it must be 'LEFT' or 'RIGHT'")
        return super().infer(X, Y)

    def compute(self, X: Array, Y: Array) -> Any:
        width = X.dtype.itemsize * 8
        is_inside = (Y >= 0) & (width > Y)
        amount = np.where(is_inside, Y, 0).astype(X.dtype)
        if self.direction == "LEFT":
            return np.where(is_inside, np.left_shift(X, amount), 0)
        return np.where(is_inside, np.right_shift(X, amount), np.where(X < 0, -1, 0).astype(X.dtype))


class BitwiseAnd(Binary):
    """The bits that are set in both operands."""

    work = Work.SHORT
    no_gradient = "its results are integers"
    kinds: ClassVar[tuple[str, ...]] = INTEGERS

    def compute(self, A: Array, B: Array) -> Any:
        return np.bitwise_and(A, B)


class BitwiseOr(Binary):
    """The bits that are set in at least one operand."""

    work = Work.SHORT
    no_gradient = "its results are integers"
    kinds: ClassVar[tuple[str, ...]] = INTEGERS

    def compute(self, A: Array, B: Array) -> Any:
        return np.bitwise_or(A, B)


class BitwiseXor(Binary):
    """The bits that are set in exactly one operand."""

    work = Work.SHORT
    no_gradient = "its results are integers"
    kinds: ClassVar[tuple[str, ...]] = INTEGERS

    def compute(self, A: Array, B: Array) -> Any:
        return np.bitwise_xor(A, B)


class Cumulative(Op, abstract=True):
    """A running total along `axis`, in reverse or without the element itself if asked for."""

    total: ClassVar[np.ufunc] = np.add
    exclusive: int = 0
    reverse: int = 0

    def infer(self, x: Value, axis: Value) -> Type:
        check_kind(self.name, x.dtype, NUMBERS)
        if axis.dtype.name not in ("int32", "int64"):
            raise ShapeError(f"axis must be int32 or int64, got {axis.dtype}")
        need_single(axis)
        if axis.constant is not None and x.tensor.shape is not None:
            _axis_number(axis.constant, x.rank, ShapeError)
        return x.type

    def reference(self, x: Array, axis: Array) -> Array:
        along = _axis_number(axis, x.ndim)
        return compute_wide(lambda wide: self._accumulate(wide, along), x)

    def _accumulate(self, x: Array, axis: int) -> Array:
        x = np.moveaxis(x, axis, 0)
        if self.reverse:
            x = x[::-1]
        if self.exclusive:
            first = np.full_like(x[:1], self.total.identity)
            x = np.concatenate([first, x[:-1]])
        result = self.total.accumulate(x, axis=0, dtype=x.dtype)
        return np.moveaxis(result[::-1] if self.reverse else result, 0, axis)


def _axis_number(axis: Array, rank: int, error: type[IntaglioError] = OperatorError) -> int:
    if axis.size != 1:
        raise error(f"axis must be a single number, got the shape {list(axis.shape)}")
    number = int(axis.reshape(()))
    if not -rank <= number < rank:
        raise error(f"axis is {number}, it must be in [{-rank}, {rank - 1}] for a tensor of rank {rank}")
    return number % rank


class CumSum(Cumulative):
    """The running sum along an axis."""

    keeps_rows = Rows.BY_AXES

    work = Work.LINEAR

    def pullback(self, b: Builder, inputs: Sequence[Any], outputs: Sequence[Value], output_bars: Sequence[Any]) -> Any:
        bar = b.CumSum(output_bars[0], inputs[1], reverse=1 - self.reverse, exclusive=self.exclusive)
        return bar, None


class CumProd(Cumulative):
    """The running product along an axis."""

    keeps_rows = Rows.BY_AXES

    total: ClassVar[np.ufunc] = np.multiply

    def pullback(self, b: Builder, inputs: Sequence[Any], outputs: Sequence[Value], output_bars: Sequence[Any]) -> Any:
        """The product of what stands before an element, times what the products behind it weigh; right at zeros too."""
        x, places = inputs[0], known_integers(inputs[1])
        if places is None or x.tensor.shape is None:
            raise UnsupportedError("its gradient needs an axis and a rank that are known before the run")
        axis = resolve_axis(places[0], x.rank)
        before = b.CumProd(x, inputs[1], exclusive=1, reverse=self.reverse)
        return before * self._weights_behind(b, x, output_bars[0], axis), None

    def _weights_behind(self, b: Builder, x: Value, bar: Value, axis: int) -> Value:
        """s[k] = bar[k] + x[k + 1] s[k + 1]; where the element itself is left out, bar[k + 1] + x[k + 1] s[k + 1]."""
        body = Graph("products behind", outer=b.graph)
        slice_type = scan_slice(x, axis)[1]
        state, here, factor = (body.add_input(name, slice_type) for name in ("behind", "here", "factor"))
        inner = Builder(body, origin=b.origin)
        with inner.active():
            total = here + state
            following = here + factor * state if self.exclusive else factor * total
            body.set_outputs([following, inner.Identity(state) if self.exclusive else total])
        start = b.Squeeze(b.Slice(zeros_like(b, x), [0], [1], [axis]), [axis])
        way = 0 if self.reverse else 1
        scan = Scan(
            body=body,
            num_scan_inputs=2,
            scan_input_axes=(axis, axis),
            scan_input_directions=(way, way),
            scan_output_axes=(axis,),
            scan_output_directions=(way,),
            output_count=2,
        )
        return b.add(scan, [start, bar, x], 2)[1]
