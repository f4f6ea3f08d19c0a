"""Elementwise operators: types are promoted as PyTorch does it, and half precision is computed in single."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, FLOAT32, FLOAT64, INT32
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import (
    BOOL_TO_LONG,
    COMPLEX_TO_FLOAT,
    DEFAULT,
    NO_OPMATH,
    TO_FLOAT,
    AtenCall,
)
from intaglio.torch.aten.table import COMPLEX, Rule, aten, refuse
from intaglio.torch.types import to_dtype


def _unary(kind: Any, make: Callable[[Builder, Value], Value]) -> Rule:
    def rule(c: AtenCall, x: Value) -> Value:
        (value,) = c.promoted(x, kind=kind)
        return c.cast(make(c.b, value))

    return rule


def _named(operator: str) -> Callable[[Builder, Value], Value]:
    return lambda b, x: getattr(b, operator)(x)


_TO_FLOAT = {
    **{name: name.capitalize() for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan")},
    **{name: name.capitalize() for name in ("asinh", "acosh", "atanh", "exp", "log", "sqrt", "erf", "reciprocal")},
    "sigmoid": "Sigmoid",
}
for _name, _operator in _TO_FLOAT.items():
    aten(_name)(_unary(TO_FLOAT, _named(_operator)))


def _float_only(make: Callable[[Builder, Value], Value]) -> Callable[[Builder, Value], Value]:
    """Of integers the operator is the identity."""
    return lambda b, x: make(b, x) if x.dtype.is_float else x


for _name in ("ceil", "floor", "round"):
    aten(_name)(_unary(DEFAULT, _float_only(_named(_name.capitalize()))))
aten("neg")(_unary(DEFAULT, _named("Neg")))


@aten("abs")
def absolute(c: AtenCall, x: Value) -> Value:
    """The absolute value; that of an unsigned number or truth value is itself."""
    (value,) = c.promoted(x, kind=COMPLEX_TO_FLOAT)
    return c.cast(value if value.dtype.kind in ("uint", "bool") else c.b.Abs(value))


@aten("sign", "sgn")
def sign(c: AtenCall, x: Value) -> Value:
    """-1, 0 or 1; 0 for NaN."""
    (value,) = c.promoted(x)
    if not value.dtype.is_float:
        return c.cast(value if value.dtype == BOOL else c.b.Sign(value))
    return c.cast(c.b.Where(c.b.IsNaN(value), c.number(0, value.dtype), c.b.Sign(value)))


def _rsqrt(b: Builder, x: Value) -> Value:
    return b.Reciprocal(b.Sqrt(x))


def _log1p(b: Builder, x: Value) -> Value:
    """log(u) x / (u - 1) with u = 1 + x rounded, which is exact where log(1 + x) loses all digits."""
    one = b.constant(1, x.dtype)
    u = b.Add(x, one)
    below = b.Sub(u, one)
    is_small = b.Equal(below, b.constant(0, x.dtype))
    rest = b.Mul(b.Log(u), b.Div(x, b.Where(is_small, one, below)))
    return b.Where(is_small, x, b.Where(b.IsInf(x), b.Log(u), rest))


def _expm1(b: Builder, x: Value) -> Value:
    """(u - 1) x / log(u) with u = exp(x) rounded, for small x; exp(x) - 1 else."""
    one, zero = b.constant(1, x.dtype), b.constant(0, x.dtype)
    u = b.Exp(x)
    plain = b.Sub(u, one)
    is_near = b.Less(b.Abs(x), one)
    logarithm = b.Log(b.Where(is_near, u, b.constant(2, x.dtype)))
    is_one = b.Equal(logarithm, zero)
    fine = b.Where(is_one, x, b.Div(b.Mul(plain, x), b.Where(is_one, one, logarithm)))
    return b.Where(is_near, fine, plain)


def _trunc(b: Builder, x: Value) -> Value:
    return b.Where(b.Less(x, b.constant(0, x.dtype)), b.Ceil(x), b.Floor(x))


def _scaled_log(base: float) -> Callable[[Builder, Value], Value]:
    return lambda b, x: b.Div(b.Log(x), b.constant(math.log(base), x.dtype))


aten("rsqrt")(_unary(TO_FLOAT, _rsqrt))
aten("log1p")(_unary(TO_FLOAT, _log1p))
aten("expm1")(_unary(TO_FLOAT, _expm1))
aten("log2")(_unary(TO_FLOAT, _scaled_log(2)))
aten("log10")(_unary(TO_FLOAT, _scaled_log(10)))
aten("exp2")(_unary(TO_FLOAT, lambda b, x: b.Pow(b.constant(2, x.dtype), x)))
aten("trunc")(_unary(DEFAULT, _float_only(_trunc)))
aten("relu")(_unary(DEFAULT, _named("Relu")))
aten("silu")(_unary(DEFAULT, lambda b, x: b.Mul(x, b.Sigmoid(x))))
aten("mish")(_unary(DEFAULT, _named("Mish")))


@aten("gelu")
def gelu(c: AtenCall, x: Value, *, approximate: str = "none") -> Value:
    """The Gaussian error linear unit."""
    (value,) = c.promoted(x)
    return c.cast(c.b.Gelu(value, approximate=approximate))


@aten("softplus")
def softplus(c: AtenCall, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """log(1 + exp(beta x)) / beta; x itself where beta x is over the threshold."""
    (value,) = c.promoted(x)
    b = c.b
    scaled = value if beta == 1 else b.Mul(value, c.number(beta, value.dtype))
    smooth = b.Softplus(scaled)
    if beta != 1:
        smooth = b.Div(smooth, c.number(beta, value.dtype))
    return c.cast(b.Where(b.Greater(scaled, c.number(threshold, value.dtype)), value, smooth))


@aten("elu")
def elu(c: AtenCall, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """scale x where x is at least zero, scale alpha (exp(input_scale x) - 1) else."""
    (value,) = c.promoted(x)
    b = c.b
    zero = c.number(0, value.dtype)
    low = b.Mul(_expm1(b, b.Mul(value, c.number(input_scale, value.dtype))), c.number(alpha * scale, value.dtype))
    high = b.Mul(value, c.number(scale, value.dtype))
    return c.cast(b.Where(b.Less(value, zero), low, high))


@aten("leaky_relu")
def leaky_relu(c: AtenCall, x: Value, negative_slope: float = 0.01) -> Value:
    """x where it is over zero, a fraction of it else."""
    (value,) = c.promoted(x)
    low = c.b.Mul(value, c.number(negative_slope, value.dtype))
    return c.cast(c.b.Where(c.b.Greater(value, c.number(0, value.dtype)), value, low))


@aten("hardtanh")
def hardtanh(c: AtenCall, x: Value, min_val: float = -1, max_val: float = 1) -> Value:
    """x between two numbers."""
    return _clamp(c, x, min_val, max_val)


@aten("clamp", "clip", "clamp.Tensor", "clip.Tensor")
def clamp(c: AtenCall, x: Value, min: Any = None, max: Any = None) -> Value:
    """x between bounds; NaN stays NaN."""
    return _clamp(c, x, min, max)


def _clamp(c: AtenCall, x: Value, low: Any, high: Any) -> Value:
    bounds = [bound for bound in (low, high) if bound is not None]
    dtype = c.compute_dtype(x, *bounds)
    result = c.operand(x, INT32 if dtype == BOOL else dtype)
    if low is not None:
        result = c.b.Max(result, c.operand(low, result.dtype))
    if high is not None:
        result = c.b.Min(result, c.operand(high, result.dtype))
    return c.cast(result)


@aten("clamp_min", "clamp_min.Tensor")
def clamp_min(c: AtenCall, x: Value, min: Any) -> Value:
    """x, at least a bound."""
    return _clamp(c, x, min, None)


@aten("clamp_max", "clamp_max.Tensor")
def clamp_max(c: AtenCall, x: Value, max: Any) -> Value:
    """x, at most a bound."""
    return _clamp(c, x, None, max)


@aten("hardswish")
def hardswish(c: AtenCall, x: Value) -> Value:
    """x min(max(x + 3, 0), 6) / 6."""
    (value,) = c.promoted(x)
    b, n = c.b, lambda number: c.number(number, value.dtype)
    return c.cast(b.Div(b.Mul(value, b.Min(b.Max(b.Add(value, n(3)), n(0)), n(6))), n(6)))


@aten("hardsigmoid")
def hardsigmoid(c: AtenCall, x: Value) -> Value:
    """min(max(x + 3, 0), 6) / 6."""
    (value,) = c.promoted(x)
    b, n = c.b, lambda number: c.number(number, value.dtype)
    return c.cast(b.Div(b.Min(b.Max(b.Add(value, n(3)), n(0)), n(6)), n(6)))


@aten("_prelu_kernel")
def prelu(c: AtenCall, x: Value, weight: Value) -> Value:
    """x where it is over zero, x times a weight else."""
    value, slope = c.promoted(x, weight)
    return c.cast(c.b.Where(c.b.Greater(value, c.number(0, value.dtype)), value, c.b.Mul(value, slope)))


def _logic_or_sum(c: AtenCall, x: Any, y: Any, alpha: Any, operator: str) -> Value:
    left, right = c.promoted(x, y)
    if left.dtype == BOOL:
        if operator != "Add" or not isinstance(alpha, (bool, int)):
            raise UnsupportedError("arithmetic on truth values")
        return c.cast(c.b.Or(left, right)) if alpha else c.expand(left, c.shape())
    if isinstance(alpha, (int, float)) and alpha == 1:
        return c.cast(getattr(c.b, operator)(left, right))
    factor = c.operand(alpha, right.dtype)
    if left.dtype == FLOAT32 and not _is_power_of_two(alpha):  # eager rounds product and sum once
        left, right, factor = (c.cast(each, FLOAT64) for each in (left, right, factor))
    return c.cast(getattr(c.b, operator)(left, c.b.Mul(right, factor)))


def _is_power_of_two(number: Any) -> bool:
    """Whether products with a number are exact."""
    return isinstance(number, (int, float)) and math.isfinite(number) and abs(math.frexp(number)[0]) in (0.0, 0.5)


@aten("add.Tensor", "add.Scalar")
def add(c: AtenCall, x: Any, y: Any, alpha: Any = 1) -> Value:
    """x + alpha y."""
    return _logic_or_sum(c, x, y, alpha, "Add")


@aten("sub.Tensor", "sub.Scalar")
def sub(c: AtenCall, x: Any, y: Any, alpha: Any = 1) -> Value:
    """x - alpha y."""
    return _logic_or_sum(c, x, y, alpha, "Sub")


@aten("mul.Tensor", "mul.Scalar")
def mul(c: AtenCall, x: Any, y: Any) -> Value:
    """x y."""
    left, right = c.promoted(x, y)
    return c.cast(c.b.And(left, right) if left.dtype == BOOL else c.b.Mul(left, right))


@aten("addcmul")
def addcmul(c: AtenCall, x: Value, first: Value, second: Value, *, value: Any = 1) -> Value:
    """x + value first second; of integers, the value is one too."""
    start, left, right = c.promoted(x, first, second)
    if not (isinstance(value, (int, float)) and value == 1):
        left = c.b.Mul(c.operand(value, left.dtype), left)
    return c.cast(c.b.Add(start, c.b.Mul(left, right)))


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(c: AtenCall, x: Any, y: Any) -> Value:
    """x / y, a floating-point number always."""
    return c.cast(c.b.Div(*c.promoted(x, y, kind=TO_FLOAT)))


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(c: AtenCall, x: Any, y: Any, *, rounding_mode: str | None = None) -> Value:
    """x / y, rounded down or towards zero where that is wanted."""
    if rounding_mode is None:
        return div(c, x, y)
    left, right = c.promoted(x, y)
    if rounding_mode == "floor":
        return c.cast(floor_quotient(c, left, right))
    quotient = c.b.Div(left, right)
    return c.cast(_trunc(c.b, quotient) if left.dtype.is_float else quotient)


@aten("floor_divide", "floor_divide.Scalar")
def floor_divide(c: AtenCall, x: Any, y: Any) -> Value:
    """x / y rounded down."""
    return c.cast(floor_quotient(c, *c.promoted(x, y)))


def floor_quotient(c: AtenCall, x: Value, y: Value) -> Value:
    """The quotient rounded down; of floating-point numbers from the exact remainder, as Python has it."""
    b = c.b
    if x.dtype == BOOL:
        raise UnsupportedError("division of truth values")
    zero = c.number(0, x.dtype)
    if not x.dtype.is_float:
        whole = b.Div(x, y)
        if x.dtype.kind == "uint":
            return whole
        rest = b.Sub(x, b.Mul(whole, y))
        is_below = b.And(b.Not(b.Equal(rest, zero)), b.Xor(b.Less(rest, zero), b.Less(y, zero)))
        return b.Sub(whole, b.Cast(is_below, to=x.dtype.number))
    rest = b.Mod(x, y, fmod=1)
    quotient = b.Div(b.Sub(x, rest), y)
    is_below = b.And(b.Not(b.Equal(rest, zero)), b.Xor(b.Less(rest, zero), b.Less(y, zero)))
    quotient = b.Where(is_below, b.Sub(quotient, c.number(1, x.dtype)), quotient)
    floor = b.Floor(quotient)
    floor = b.Where(
        b.Greater(b.Sub(quotient, floor), c.number(0.5, x.dtype)), b.Add(floor, c.number(1, x.dtype)), floor
    )
    plain = b.Div(x, y)
    floor = b.Where(b.Equal(quotient, zero), b.Mul(zero, plain), floor)
    return b.Where(b.Equal(y, zero), plain, floor)


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(c: AtenCall, x: Any, y: Any) -> Value:
    """The remainder with the sign of the divisor."""
    left, right = c.promoted(x, y)
    b = c.b
    if not left.dtype.is_float:
        return c.cast(b.Mod(left, right))
    rest = b.Mod(left, right, fmod=1)
    zero = c.number(0, left.dtype)
    is_other = b.And(b.Not(b.Equal(rest, zero)), b.Xor(b.Less(rest, zero), b.Less(right, zero)))
    return c.cast(b.Where(is_other, b.Add(rest, right), rest))


@aten("fmod.Tensor", "fmod.Scalar")
def fmod(c: AtenCall, x: Any, y: Any) -> Value:
    """The remainder with the sign of the dividend."""
    return c.cast(c.b.Mod(*c.promoted(x, y), fmod=1))


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(c: AtenCall, x: Any, y: Any) -> Value:
    """x to the power of y."""
    base, exponent = c.promoted(x, y)
    if isinstance(y, (int, float)) and base.dtype.is_float and y in _POWERS:
        return c.cast(_POWERS[y](c.b, base))
    if base.dtype == BOOL:
        return c.cast(c.b.Or(base, c.b.Not(exponent)))
    return c.cast(c.b.Pow(base, exponent))


_POWERS: dict[float, Callable[[Builder, Value], Value]] = {
    1: lambda b, x: x,
    2: lambda b, x: b.Mul(x, x),
    3: lambda b, x: b.Mul(b.Mul(x, x), x),
    -1: lambda b, x: b.Reciprocal(x),
    -2: lambda b, x: b.Reciprocal(b.Mul(x, x)),
    0.5: lambda b, x: b.Sqrt(x),
    -0.5: _rsqrt,
}


@aten("maximum")
def maximum(c: AtenCall, x: Value, y: Value) -> Value:
    """The larger one; NaN where one is NaN."""
    left, right = c.promoted(x, y, kind=NO_OPMATH)
    return c.cast(c.b.Or(left, right) if left.dtype == BOOL else c.b.Max(left, right))


@aten("minimum")
def minimum(c: AtenCall, x: Value, y: Value) -> Value:
    """The smaller one; NaN where one is NaN."""
    left, right = c.promoted(x, y, kind=NO_OPMATH)
    return c.cast(c.b.And(left, right) if left.dtype == BOOL else c.b.Min(left, right))


def _numbers_first(operator: str) -> Rule:
    def rule(c: AtenCall, x: Value, y: Value) -> Value:
        """The extreme of two numbers; where one is NaN, the other."""
        dtype = c.compute_dtype(x, y)
        left, right = (c.operand(each, INT32 if dtype == BOOL else dtype) for each in (x, y))
        if not left.dtype.is_float:
            return c.cast(getattr(c.b, operator)(left, right))
        extreme = getattr(c.b, operator)(left, right)
        return c.cast(c.b.Where(c.b.IsNaN(left), right, c.b.Where(c.b.IsNaN(right), left, extreme)))

    return rule


@aten("prims.hypot.default")
def hypot(c: AtenCall, x: Value, y: Value) -> Value:
    """The square root of x**2 + y**2, also where the squares are too large; infinite where one is."""
    left, right = (c.b.Abs(value) for value in c.promoted(x, y))
    b, dtype = c.b, left.dtype
    large, small = b.Max(left, right), b.Min(left, right)
    ratio = b.Div(small, b.Where(b.Equal(large, c.number(0, dtype)), c.number(1, dtype), large))
    size = b.Mul(large, b.Sqrt(b.Add(b.Mul(ratio, ratio), c.number(1, dtype))))
    is_infinite = b.Or(b.IsInf(left), b.IsInf(right))
    return c.cast(b.Where(is_infinite, c.number(math.inf, dtype), size))


@aten("round.decimals")
def round_decimals(c: AtenCall, x: Value, *, decimals: int) -> Value:
    """x to so many digits behind the point."""
    (value,) = c.promoted(x)
    if not value.dtype.is_float:
        return c.cast(value)
    scale = c.number(10.0 ** abs(decimals), value.dtype)
    there, back = (c.b.Mul, c.b.Div) if decimals > 0 else (c.b.Div, c.b.Mul)
    return c.cast(back(c.b.Round(there(value, scale)), scale))


aten("fmax")(_numbers_first("Max"))
aten("fmin")(_numbers_first("Min"))


@aten("atan2")
def atan2(c: AtenCall, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), signs of zeros aside."""
    top, right = c.promoted(y, x, kind=TO_FLOAT)
    b, dtype = c.b, top.dtype
    n = lambda number: c.number(number, dtype)  # noqa: E731
    size_y, size_x = b.Abs(top), b.Abs(right)
    is_steep = b.Greater(size_y, size_x)
    small, large = b.Where(is_steep, size_x, size_y), b.Where(is_steep, size_y, size_x)
    is_both_infinite = b.And(b.IsInf(small), b.IsInf(large))
    ratio = b.Div(small, b.Where(b.Equal(large, n(0)), n(1), large))
    angle = b.Atan(b.Where(is_both_infinite, n(1), ratio))
    angle = b.Where(is_steep, b.Sub(n(math.pi / 2), angle), angle)
    is_left = b.Less(b.Where(b.Equal(right, n(0)), b.Reciprocal(right), right), n(0))
    angle = b.Where(is_left, b.Sub(n(math.pi), angle), angle)
    is_below = b.Less(b.Where(b.Equal(top, n(0)), b.Reciprocal(top), top), n(0))
    return c.cast(b.Where(is_below, b.Neg(angle), angle))


def _comparison(operator: str, is_negated: bool = False) -> Rule:
    def rule(c: AtenCall, x: Any, y: Any) -> Value:
        left, right = c.promoted(x, y, kind=NO_OPMATH)
        if left.dtype == BOOL and operator != "Equal":
            left, right = c.cast(left, INT32), c.cast(right, INT32)
        found = getattr(c.b, operator)(left, right)
        return c.b.Not(found) if is_negated else found

    return rule


for _name, _operator, _is_negated in (
    *(("eq", "Equal", False), ("ne", "Equal", True), ("lt", "Less", False), ("le", "LessOrEqual", False)),
    *(("gt", "Greater", False), ("ge", "GreaterOrEqual", False)),
):
    aten(f"{_name}.Tensor", f"{_name}.Scalar")(_comparison(_operator, _is_negated))


def _logical(operator: str) -> Rule:
    return lambda c, x, y: getattr(c.b, operator)(c.to_bool(x), c.to_bool(y))


def _bitwise(logical: str, operator: str) -> Rule:
    def rule(c: AtenCall, x: Any, y: Any) -> Value:
        left, right = c.promoted(x, y)
        return c.cast(getattr(c.b, logical if left.dtype == BOOL else operator)(left, right))

    return rule


for _name, _operator in (("and", "And"), ("or", "Or"), ("xor", "Xor")):
    aten(f"logical_{_name}")(_logical(_operator))
    aten(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"bitwise_{_name}.Scalar_Tensor")(
        _bitwise(_operator, f"Bitwise{_operator}")
    )


@aten("logical_not")
def logical_not(c: AtenCall, x: Value) -> Value:
    """Whether each element is zero."""
    return c.b.Not(c.to_bool(x))


@aten("bitwise_not")
def bitwise_not(c: AtenCall, x: Value) -> Value:
    """Every bit the other way."""
    return c.b.Not(x) if x.dtype == BOOL else c.b.BitwiseNot(x)


@aten("isnan")
def isnan(c: AtenCall, x: Value) -> Value:
    """Whether each element is NaN."""
    return c.b.IsNaN(x) if x.dtype.is_float else c.full(c.shape(), False, BOOL)


@aten("isinf")
def isinf(c: AtenCall, x: Value) -> Value:
    """Whether each element is infinite."""
    if not x.dtype.is_float:
        return c.full(c.shape(), False, BOOL)
    wide = x if x.dtype == FLOAT64 else c.promoted(x)[0]
    return c.b.IsInf(wide)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(c: AtenCall, condition: Value, x: Any, y: Any) -> Value:
    """x where the condition holds, y else."""
    left, right = c.promoted(x, y, kind=NO_OPMATH)
    return c.cast(c.b.Where(c.to_bool(condition), left, right))


@aten("_to_copy")
def to_copy(c: AtenCall, x: Value, *, dtype: Any = None, **others: Any) -> Value:
    """The tensor in another element type."""
    target = x.dtype if dtype is None else to_dtype(dtype)
    if "complex" in (target.kind, x.dtype.kind) and target != x.dtype:
        raise UnsupportedError(COMPLEX)
    return c.cast(x, target)


@aten("prims.convert_element_type.default")
def convert_element_type(c: AtenCall, x: Value, dtype: Any) -> Value:
    """The tensor in another element type."""
    return to_copy(c, x, dtype=dtype)


@aten("square")
def square(c: AtenCall, x: Value) -> Value:
    """x x."""
    (value,) = c.promoted(x, kind=BOOL_TO_LONG)
    return c.cast(c.b.Mul(value, value))


@aten("logit")
def logit(c: AtenCall, x: Value, eps: float | None = None) -> Value:
    """log(x / (1 - x)), with x kept away from 0 and 1 by `eps`."""
    (value,) = c.promoted(x, kind=TO_FLOAT)
    b, one = c.b, c.number(1, value.dtype)
    if eps is not None:
        value = b.Min(b.Max(value, c.number(eps, value.dtype)), c.number(1 - eps, value.dtype))
    return c.cast(b.Log(b.Div(value, b.Sub(one, value))))


refuse("random numbers come from PyTorch's own generator", "rand", "randn", "rand_like", "randn_like", "randint")
refuse("random numbers come from PyTorch's own generator", "randperm", "bernoulli", "bernoulli.p", "native_dropout")
refuse("random numbers come from PyTorch's own generator", "normal_functional", "uniform", "multinomial", "randint.low")
refuse(
    "random numbers come from PyTorch's own generator", "exponential", "cauchy", "geometric", "log_normal", "poisson"
)
refuse("it gives a number to Python", "_local_scalar_dense")
