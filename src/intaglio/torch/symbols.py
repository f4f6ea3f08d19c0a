"""PyTorch's symbolic sizes as our dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim


def to_dim(size: Any, known: Mapping[str, Dim] | None = None) -> Dim:
    """A size of PyTorch, a number or a SymInt, as a dimension; `known` are symbols that have another name here.

    Raises UnsupportedError for expressions that dimensions do not have.
    """
    if isinstance(size, int):
        return size
    expression = getattr(getattr(size, "node", None), "expr", None)
    if expression is None:
        raise UnsupportedError(f"a size that is {type(size).__name__}, expected an integer")
    return convert(expression, known or {})


def convert(expression: Any, known: Mapping[str, Dim]) -> Dim:
    """An expression of SymPy as a dimension."""
    if expression.is_Integer:
        return int(expression)
    if expression.is_Symbol:
        name = str(expression)
        return known[name] if name in known else dims.symbol(name)
    make = _MAKERS.get(type(expression).__name__)
    if make is None:
        raise UnsupportedError(f"the size {expression} is no polynomial, quotient, remainder, minimum or maximum")
    return make([convert(each, known) for each in expression.args])


def _power(parts: list[Dim]) -> Dim:
    base, exponent = parts
    if not isinstance(exponent, int) or exponent < 0:
        raise UnsupportedError(f"the size ({base})**({exponent})")
    return dims.product([base] * exponent)


def _sum(parts: list[Dim]) -> Dim:
    return reduce(lambda left, right: left + right, parts)


def _binary(function: Callable[[Dim, Dim], Dim]) -> Callable[[list[Dim]], Dim]:
    return lambda parts: reduce(function, parts)


_MAKERS: dict[str, Callable[[list[Dim]], Dim]] = {
    "Add": _sum,
    "Mul": dims.product,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": _binary(dims.floordiv),
    "CleanDiv": _binary(dims.floordiv),
    "CeilDiv": _binary(dims.ceildiv),
    "Mod": _binary(dims.mod),
    "PythonMod": _binary(dims.mod),
    "Min": _binary(dims.minimum),
    "Max": _binary(dims.maximum),
}
