"""Orthogonal polynomials by their recurrences, up to the greatest degree that the data ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ops.control import Loop
from intaglio.torch.aten.call import TO_FLOAT, AtenCall
from intaglio.torch.aten.table import Rule, aten

Recurrence = Callable[[Any, Any, Any, Any], Any]
"""The polynomial of degree k + 1, of x, k, and the polynomials of degrees k - 1 and k."""

LIMIT = {32: 128, 64: 512}
"""From which degree on PyTorch gives NaN for Hermite's polynomials, by the width of the type."""


def _twice(x: Any, k: Any, before: Any, here: Any) -> Any:
    return (x + x) * here - before


def _shifted(x: Any, k: Any, before: Any, here: Any) -> Any:
    return ((x + x - 1) * 2) * here - before


_POLYNOMIALS: dict[str, tuple[Callable[[Any], Any], Recurrence]] = {
    "chebyshev_polynomial_t": (lambda x: x, _twice),
    "chebyshev_polynomial_u": (lambda x: x + x, _twice),
    "chebyshev_polynomial_v": (lambda x: x + x - 1, _twice),
    "chebyshev_polynomial_w": (lambda x: x + x + 1, _twice),
    "shifted_chebyshev_polynomial_t": (lambda x: x + x - 1, _shifted),
    "shifted_chebyshev_polynomial_u": (lambda x: (x + x - 1) * 2, _shifted),
    "shifted_chebyshev_polynomial_v": (lambda x: (x + x - 1) * 2 - 1, _shifted),
    "shifted_chebyshev_polynomial_w": (lambda x: (x + x - 1) * 2 + 1, _shifted),
    "hermite_polynomial_h": (lambda x: x + x, lambda x, k, before, here: (x + x) * here - (k + k) * before),
    "hermite_polynomial_he": (lambda x: x, lambda x, k, before, here: x * here - k * before),
    "laguerre_polynomial_l": (
        lambda x: -x + 1,
        lambda x, k, before, here: ((k + k + 1 - x) * here - k * before) / (k + 1),
    ),
    "legendre_polynomial_p": (
        lambda x: x,
        lambda x, k, before, here: ((k + k + 1) * x * here - k * before) / (k + 1),
    ),
}
"""The polynomial of degree 1 (that of degree 0 is 1), and the recurrence."""


def _rule(first: Callable[[Any], Any], step: Recurrence, has_limit: bool) -> Rule:
    def rule(c: AtenCall, x: Any, n: Any) -> Value:
        """The polynomial of degree n at x; zero for a degree below zero."""
        value, given = c.promoted(x, n, kind=TO_FLOAT)
        degree = c.cast(given, INT64)
        b, dtype = c.b, value.dtype
        spread = c.expand(value, c.shape())
        found = _raised(c, spread, degree, first(spread), step)
        found = b.Where(b.Less(degree, c.number(1, INT64)), c.number(1, dtype), found)
        if has_limit:
            is_high = b.Greater(degree, c.number(LIMIT[dtype.bits], INT64))
            found = b.Where(is_high, c.number(float("nan"), dtype), found)
        return c.cast(b.Where(b.Less(degree, c.number(0, INT64)), c.number(0, dtype), found))

    return rule


def _raised(c: AtenCall, x: Value, degree: Value, first: Value, step: Recurrence) -> Value:
    """The polynomial of each degree, from that of degree 1 on, by as many rounds as the greatest degree takes."""
    b = c.b
    body = Graph("next degree", outer=b.graph)
    number = body.add_input("number", TensorType(INT64, ()))
    goes_on = body.add_input("goes_on", TensorType(BOOL, ()))
    before, here = (body.add_input(name, first.type) for name in ("before", "here"))
    inner = Builder(body, origin=b.origin)
    with inner.active():
        k = inner.Add(number, inner.constant(1, INT64))
        is_below = inner.Greater(degree, k)
        after = step(x, inner.Cast(k, to=x.dtype.number), before, here)
        kept = [inner.Where(is_below, here, before), inner.Where(is_below, after, here)]
        body.set_outputs([inner.Identity(goes_on), *kept])
    one = c.number(1, INT64)
    rounds = b.Sub(b.Max(b.ReduceMax(b.Reshape(degree, [-1]), [0], keepdims=0), one), one)
    ones = c.expand(c.number(1, x.dtype), first.shape)
    return b.add(Loop(body=body, output_count=2), [rounds, c.number(True, BOOL), ones, first], 2)[1]


for _name, (_first, _step) in _POLYNOMIALS.items():
    aten(f"special_{_name}", f"special_{_name}.x_scalar", f"special_{_name}.n_scalar")(
        _rule(_first, _step, _name.startswith("hermite"))
    )
