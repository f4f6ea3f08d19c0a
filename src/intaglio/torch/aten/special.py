"""Special functions, computed in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, FLOAT64, INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ops.control import Loop
from intaglio.torch.aten.call import TO_FLOAT, AtenCall
from intaglio.torch.aten.table import aten

INF, NAN = math.inf, math.nan


class _Double:
    """Shorthand for double precision: numbers become constants of it."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def n(self, number: float) -> Value:
        return self.b.constant(number, FLOAT64)

    def where(self, condition: Value, left: Any, right: Any) -> Value:
        return self.b.Where(condition, *(each if isinstance(each, Value) else self.n(each) for each in (left, right)))

    def less(self, x: Value, number: Any) -> Value:
        return self.b.Less(x, number if isinstance(number, Value) else self.n(number))

    def equal(self, x: Value, number: Any) -> Value:
        return self.b.Equal(x, number if isinstance(number, Value) else self.n(number))

    def horner(self, x: Value, coefficients: Sequence[float]) -> Value:
        """The polynomial with these coefficients, the highest first."""
        total = self.n(coefficients[0])
        for each in coefficients[1:]:
            total = total * x + each
        return total


def _double(*names: str) -> Callable[[Callable[[_Double, Value], Value]], Any]:
    """Enter a function of one number in double precision."""

    def enter(function: Callable[[_Double, Value], Value]) -> Any:
        def rule(c: AtenCall, x: Value) -> Value:
            (value,) = c.promoted(x, kind=TO_FLOAT)
            return c.cast(function(_Double(c.b), c.cast(value, FLOAT64)))

        aten(*names)(rule)
        return function

    return enter


_LANCZOS = (
    *(0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059),
    *(12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7),
)


@_double("lgamma", "special_gammaln")
def lgamma(d: _Double, x: Value) -> Value:
    """log |gamma(x)| by Lanczos's approximation, left of 1/2 by reflection."""
    b = d.b
    is_left = d.less(x, 0.5)
    z = d.where(is_left, -x, x - 1)
    total = d.n(_LANCZOS[0])
    for place, each in enumerate(_LANCZOS[1:], 1):
        total = total + b.Div(d.n(each), z + place)
    t = z + 7.5
    right = (z + 0.5) * b.Log(t) - t + b.Log(total) + math.log(math.sqrt(2 * math.pi))
    sine = b.Abs(b.Sin((x - b.Round(x)) * math.pi))  # of the distance to the nearest pole, which is not rounded
    found = d.where(is_left, b.Log(d.n(math.pi) / d.where(d.equal(sine, 0), 1, sine)) - right, right)
    is_pole = b.And(d.less(x, 0.5), d.equal(b.Floor(x), x))
    found = d.where(b.Or(d.equal(x, 1), d.equal(x, 2)), 0, found)
    found = d.where(b.Or(is_pole, b.IsInf(x)), INF, found)
    return b.Where(b.IsNaN(x), x, found)


_DIGAMMA = tuple(
    reversed((1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12))
)  # of powers of 1 / x**2


@_double("digamma")
def digamma(d: _Double, x: Value) -> Value:
    """The derivative of log gamma(x): by its recurrence up to 10, then by its asymptotic series."""
    b = d.b
    is_left = d.less(x, 0)
    z = d.where(is_left, -x + 1, x)
    total = z * 0
    for _ in range(10):
        is_small = d.less(z, 10)
        total = d.where(is_small, total - b.Reciprocal(d.where(is_small, z, 1)), total)
        z = d.where(is_small, z + 1, z)
    inverse = b.Reciprocal(z * z)
    right = total + b.Log(z) - b.Div(d.n(0.5), z) - inverse * d.horner(inverse, _DIGAMMA)
    right = d.where(b.IsInf(z), z, right)
    rest = x - _towards_zero(d, x)
    angle = d.where(d.equal(rest, 0), 0.5, rest) * math.pi
    left = d.where(d.equal(rest, 0), NAN, right - b.Div(d.n(math.pi), b.Tan(angle)))
    found = d.where(is_left, left, right)
    return d.where(d.equal(x, 0), -b.Reciprocal(x), found)


def _towards_zero(d: _Double, x: Value) -> Value:
    return d.where(d.less(x, 0), d.b.Ceil(x), d.b.Floor(x))


_ZETA = (
    *(12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10),
    *(-2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15),
    *(1.8152105401943546773e17, -7.1661652561756670113e18),
)
MOST_TERMS = 2**20
"""So many terms of zeta's sum are added at most."""


def _zeta(d: _Double, x: Value, q: Value) -> Value:
    """The sum of (k + q)**-x over k from zero on: terms until k + q is over 9, the rest by Euler and Maclaurin."""
    b = d.b
    whole = d.equal(b.Floor(q), q)
    total, w = _first_terms(d, x, q)
    last = b.Pow(w, -x)
    total = total + last * w / (x - 1) - last * 0.5
    factor, power, k = x * 0 + 1, last, 0
    for each in _ZETA:
        factor = factor * (x + k)
        power = power / w
        total = total + factor * power / each
        factor = factor * (x + (k + 1))
        power = power / w
        k += 2
    is_left = b.Not(d.b.Greater(q, d.n(0)))
    poles = d.where(whole, INF, d.where(d.equal(b.Floor(x), x), total, NAN))
    found = d.where(is_left, poles, total)
    found = d.where(b.Or(b.IsNaN(q), d.less(x, 1)), NAN, found)
    return b.Where(b.IsNaN(x), x, d.where(d.equal(x, 1), INF, found))


def _first_terms(d: _Double, x: Value, q: Value) -> tuple[Value, Value]:
    """The sum of the first terms, and k + q of the last of them."""
    b = d.b
    body = Graph("terms", outer=b.graph)
    number = body.add_input("number", TensorType(INT64, ()))
    body.add_input("goes_on", TensorType(BOOL, ()))
    sum_before, before = (body.add_input(name, q.type) for name in ("total", "place"))
    inner = Builder(body, origin=b.origin)
    e = _Double(inner)
    with inner.active():
        is_early = inner.Less(number, inner.constant(9, INT64))
        is_open = inner.Or(is_early, inner.Not(inner.Greater(before, e.n(9))))
        place = e.where(is_open, before + 1, before)
        term = inner.Pow(place, -x)
        open_count = inner.ReduceSum(inner.Cast(inner.Reshape(is_open, [-1]), to=INT64.number), [0], keepdims=0)
        goes_on = inner.Greater(open_count, inner.constant(0, INT64))
        body.set_outputs([goes_on, e.where(is_open, sum_before + term, sum_before), place])
    start = b.IsNaN(q)
    safe = d.where(b.Or(start, b.IsInf(q)), 1, q)
    limit = b.constant(MOST_TERMS, INT64)
    initial = [b.Pow(safe, -x), safe]
    total, place = b.add(Loop(body=body, output_count=2), [limit, b.constant(True), *initial], 2)
    return total, d.where(b.IsInf(q), q, place)


@aten("special_zeta", "special_zeta.other_scalar", "special_zeta.self_scalar")
def zeta(c: AtenCall, x: Any, q: Any) -> Value:
    """Hurwitz's zeta function."""
    left, right = (c.expand(c.cast(value, FLOAT64), c.shape()) for value in c.promoted(x, q, kind=TO_FLOAT))
    return c.cast(_zeta(_Double(c.b), left, right))


@aten("polygamma")
def polygamma(c: AtenCall, n: int, x: Value) -> Value:
    """The n-th derivative of digamma."""
    (value,) = c.promoted(x, kind=TO_FLOAT)
    wide, d = c.cast(value, FLOAT64), _Double(c.b)
    if n == 0:
        return c.cast(digamma(d, wide))
    if n == 1:
        return c.cast(_trigamma(c, d, value, wide))
    factor = (1 if n % 2 else -1) * math.factorial(n)
    return c.cast(_zeta(d, wide * 0 + (n + 1), wide) * factor)


def _trigamma(c: AtenCall, d: _Double, x: Value, wide: Value) -> Value:
    """The derivative of digamma, left of 1/2 by reflection, with the sine of what PyTorch rounds."""
    b = c.b
    is_left = d.less(wide, 0.5)
    z = d.where(is_left, -wide + 1, wide)
    right = d.where(b.IsInf(z), 0, _zeta(d, z * 0 + 2, z))
    angle = c.cast(b.Mul(x, c.number(math.pi, x.dtype)), FLOAT64)
    sine = b.Sin(angle)
    return d.where(is_left, b.Div(d.n(math.pi**2), sine * sine) - right, right)


STEP = 0.5
"""The step of the sum that is the error function's complement far from zero."""


@_double("special_erfcx")
def erfcx(d: _Double, x: Value) -> Value:
    """exp(x**2) (1 - erf(x)): near and left of zero as written, right of it by a sum of Gaussians."""
    b = d.b
    square = x * x
    plain = b.Exp(square) * (-b.Erf(x) + 1)
    is_far = b.Greater(x, d.n(0.5))
    safe = d.where(is_far, x, 1)
    found = d.where(is_far, _far_complement(d, safe), plain)
    return b.Where(b.IsNaN(x), x, d.where(d.less(x, -27), INF, found))


def _far_complement(d: _Double, x: Value) -> Value:
    b, square = d.b, x * x
    total = b.Div(d.n(0.5), square)
    for k in range(1, 14):
        place = (k * STEP) ** 2
        total = total + b.Div(d.n(math.exp(-place)), square + place)
    is_near = d.less(x, math.pi / STEP)
    near = d.where(is_near, x, 1)
    rest = b.Exp(near * near) * 2 / (-b.Exp(near * (2 * math.pi / STEP)) + 1)
    found = x * total * (2 * STEP / math.pi) + d.where(is_near, rest, 0)
    return d.where(b.IsInf(x), 0, found)


@_double("erfc", "special_erfc")
def erfc(d: _Double, x: Value) -> Value:
    """1 - erf(x), to full precision far from zero too."""
    b = d.b
    is_far = b.Greater(x, d.n(0.5))
    safe = d.where(is_far, x, 1)
    return d.where(is_far, _far_complement(d, safe) * b.Exp(-safe * safe), -b.Erf(x) + 1)


@_double("erfinv")
def erfinv(d: _Double, y: Value) -> Value:
    """The number whose error function is y: a first guess, then Newton's method."""
    b, a = d.b, 0.147
    is_inside = d.less(b.Abs(y), 1)
    safe = d.where(is_inside, y, 0.5)
    logarithm = b.Log((-safe + 1) * (safe + 1))
    middle = logarithm * 0.5 + 2 / (math.pi * a)
    x = b.Sign(safe) * b.Sqrt(b.Sqrt(middle * middle - logarithm / a) - middle)
    for _ in range(4):
        x = x - (b.Erf(x) - safe) / (b.Exp(-x * x) * (2 / math.sqrt(math.pi)))
    edge = d.where(d.equal(b.Abs(y), 1), y * INF, NAN)
    return d.where(is_inside, x, edge)


TERMS = 60
FAR = 20.0


def _bessel(d: _Double, x: Value, order: int, is_scaled: bool) -> Value:
    """The modified Bessel function: by its series up to 20, by its asymptotic one beyond."""
    b = d.b
    size = b.Abs(x)
    is_far = b.Greater(size, d.n(FAR))
    near, far = d.where(is_far, 1, size), d.where(is_far, size, FAR)
    terms = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(TERMS)]
    series = d.horner(near * near * 0.25, terms[::-1]) * (near * 0.5 if order else d.n(1))
    found = d.where(is_far, _far_bessel(d, far, order, is_scaled), series * b.Exp(-near) if is_scaled else series)
    found = b.Where(b.IsNaN(x), x, found)
    return b.Where(d.less(x, 0), -found, found) if order else found


def _far_bessel(d: _Double, x: Value, order: int, is_scaled: bool) -> Value:
    coefficients = [1.0]
    for k in range(1, 20):
        coefficients.append(-coefficients[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (k * 8))
    shape = d.horner(d.b.Reciprocal(x), coefficients[::-1]) / d.b.Sqrt(x * (2 * math.pi))
    if is_scaled:
        return shape
    half = d.b.Exp(x * 0.5)
    return half * shape * half


def _bessel_rule(order: int, is_scaled: bool) -> Callable[[_Double, Value], Value]:
    return lambda d, x: _bessel(d, x, order, is_scaled)


for _name, _order, _is_scaled in (
    *(("i0", 0, False), ("special_i0e", 0, True), ("special_i1", 1, False), ("special_i1e", 1, True)),
    *(("special_modified_bessel_i0", 0, False), ("special_modified_bessel_i1", 1, False)),
):
    _double(_name)(_bessel_rule(_order, _is_scaled))
