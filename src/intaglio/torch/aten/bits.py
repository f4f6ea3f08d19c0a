"""Signs, shifts, neighbours and common divisors of numbers."""

from __future__ import annotations

from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, DTYPES, INT64, DType
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ops.control import Loop
from intaglio.torch.aten.call import NO_OPMATH, TO_FLOAT, AtenCall
from intaglio.torch.aten.table import Rule, aten


def _bits_of(c: AtenCall, x: Value) -> Value:
    """The bits of floating-point numbers as signed integers."""
    return c.b.BitCast(x, to=DTYPES[f"int{x.dtype.bits}"].number)


def _has_minus(c: AtenCall, x: Value) -> Value:
    """Whether numbers have a minus sign; zero and NaN may have one."""
    whole = _bits_of(c, x) if x.dtype.is_float else x
    return c.b.Less(whole, c.number(0, whole.dtype))


@aten("signbit")
def signbit(c: AtenCall, x: Value) -> Value:
    """Whether numbers have a minus sign."""
    return c.full(c.shape(), False, BOOL) if x.dtype.kind in ("uint", "bool") else _has_minus(c, x)


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(c: AtenCall, x: Any, y: Any) -> Value:
    """x with the sign of y."""
    value, sign = c.promoted(x, y, kind=TO_FLOAT)
    size = c.b.Abs(value)
    return c.cast(c.b.Where(_has_minus(c, sign), c.b.Neg(size), size))


@aten("nextafter")
def nextafter(c: AtenCall, x: Value, y: Value) -> Value:
    """The next number from x on towards y."""
    start, target = c.promoted(x, y, kind=NO_OPMATH)
    b, dtype = c.b, start.dtype
    bits = _bits_of(c, start)
    one, zero = c.number(1, bits.dtype), c.number(0, dtype)
    is_outwards = b.Equal(b.Greater(target, start), b.Greater(start, zero))
    moved = b.BitCast(b.Where(is_outwards, b.Add(bits, one), b.Sub(bits, one)), to=dtype.number)
    least = b.BitCast(one, to=dtype.number)
    near_zero = b.Where(b.Less(target, zero), b.Neg(least), least)
    found = b.Where(b.Equal(start, zero), near_zero, moved)
    found = b.Where(b.Equal(start, target), target, found)
    return c.cast(b.Where(b.IsNaN(start), start, b.Where(b.IsNaN(target), target, found)))


def _shift(direction: str) -> Rule:
    def rule(c: AtenCall, x: Any, y: Any) -> Value:
        """The bits of x moved by y places; by all of them where y is negative or too large."""
        value, places = c.promoted(x, y, kind=NO_OPMATH)
        if value.dtype.is_float or value.dtype == BOOL:
            raise UnsupportedError(f"shifts of {value.dtype}")
        return c.cast(c.b.BitShift(value, places, direction=direction))

    return rule


for _name, _direction in (("left", "LEFT"), ("right", "RIGHT")):
    _names = [f"bitwise_{_name}_shift.{each}" for each in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")]
    aten(*_names, *(f"__{_name[0]}shift__.{each}" for each in ("Tensor", "Scalar")))(_shift(_direction))


def _common_divisor(c: AtenCall, x: Value, y: Value) -> Value:
    """The greatest common divisor, by remainders until all are zero."""
    b, zero = c.b, c.number(0, x.dtype)
    body = Graph("remainders", outer=b.graph)
    body.add_input("number", TensorType(INT64, ()))
    body.add_input("goes_on", TensorType(BOOL, ()))
    large, small = (body.add_input(name, x.type) for name in ("large", "small"))
    inner = Builder(body, origin=b.origin)
    with inner.active():
        is_done = inner.Equal(small, zero)
        rest = inner.Where(is_done, zero, inner.Mod(large, inner.Where(is_done, inner.constant(1, x.dtype), small)))
        found = inner.Where(is_done, large, small)
        body.set_outputs([_is_any(inner, rest, zero), found, rest])
    start = _is_any(b, y, zero)
    rounds = c.number(2 * x.dtype.bits, INT64)
    return b.add(Loop(body=body, output_count=2), [rounds, start, x, y], 2)[0]


def _is_any(b: Builder, value: Value, zero: Value) -> Value:
    is_other = b.Cast(b.Not(b.Equal(b.Reshape(value, [-1]), zero)), to=INT64.number)
    return b.Greater(b.ReduceSum(is_other, [0], keepdims=0), b.constant(0, INT64))


def _sizes(c: AtenCall, x: Value, y: Value) -> tuple[Value, Value, DType]:
    """Both numbers without their signs, in one shape."""
    left, right = (c.expand(value, c.shape()) for value in c.promoted(x, y, kind=NO_OPMATH))
    if left.dtype.kind == "uint":
        return left, right, left.dtype
    return c.b.Abs(left), c.b.Abs(right), left.dtype


@aten("gcd")
def gcd(c: AtenCall, x: Value, y: Value) -> Value:
    """The greatest common divisor."""
    left, right, _ = _sizes(c, x, y)
    return c.cast(_common_divisor(c, left, right))


@aten("lcm")
def lcm(c: AtenCall, x: Value, y: Value) -> Value:
    """The least common multiple; zero where both are zero."""
    left, right, dtype = _sizes(c, x, y)
    divisor = _common_divisor(c, left, right)
    is_none = c.b.Equal(divisor, c.number(0, dtype))
    multiple = c.b.Mul(c.b.Div(left, c.b.Where(is_none, c.number(1, dtype), divisor)), right)
    return c.cast(c.b.Where(is_none, c.number(0, dtype), multiple if dtype.kind == "uint" else c.b.Abs(multiple)))
