"""Arithmetic on values read as a polynomial, so that one rule matches every way of writing a formula."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from intaglio.ir.graph import Node, Value
from intaglio.passes.match import pair, produced, scalar, tolerance_of

Polynomial: TypeAlias = dict[tuple[int, ...], float]
"""Coefficients by the exponents of the unknowns."""

TERM_LIMIT = 8
DEPTH_LIMIT = 8
POWER_LIMIT = 4


def polynomial(value: Value, unknowns: Sequence[Value], depth: int = DEPTH_LIMIT) -> Polynomial | None:
    """The value as a polynomial in the unknowns with constant coefficients, None where it is none or a large one."""
    zero = (0,) * len(unknowns)
    for position, unknown in enumerate(unknowns):
        if value is unknown:
            return {tuple(int(i == position) for i in range(len(unknowns))): 1.0}
    number = scalar(value)
    if number is not None:
        return {zero: number}
    node = produced(value, "Add", "Sub", "Mul", "Div", "Neg", "Pow")
    return None if node is None or depth == 0 else _combine(node, unknowns, depth - 1)


def _combine(node: Node, unknowns: Sequence[Value], depth: int) -> Polynomial | None:
    operands = [polynomial(value, unknowns, depth) for value in node.inputs if value is not None]
    if any(operand is None or len(operand) > TERM_LIMIT for operand in operands):
        return None
    left, right = operands[0] or {}, operands[-1] or {}
    match node.op.name:
        case "Add":
            return _sum(left, right, 1.0)
        case "Sub":
            return _sum(left, right, -1.0)
        case "Mul":
            return _product(left, right)
        case "Neg":
            return _sum({}, left, -1.0)
        case _:
            number = scalar(pair(node)[1])
            if number is None or (node.op.name == "Div" and number == 0):
                return None
            return _sum({}, left, 1 / number) if node.op.name == "Div" else _power(left, number)


def _sum(left: Polynomial, right: Polynomial, factor: float) -> Polynomial:
    result = dict(left)
    for exponents, coefficient in right.items():
        result[exponents] = result.get(exponents, 0.0) + factor * coefficient
    return {exponents: coefficient for exponents, coefficient in result.items() if coefficient}


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for a, p in left.items():
        for b, q in right.items():
            key = tuple(x + y for x, y in zip(a, b, strict=True))
            result[key] = result.get(key, 0.0) + p * q
    return result


def _power(base: Polynomial, exponent: float) -> Polynomial | None:
    if exponent not in range(1, POWER_LIMIT + 1):
        return None
    result = base
    for _ in range(int(exponent) - 1):
        result = _product(result, base)
    return result


def matches(found: Polynomial | None, expected: Mapping[tuple[int, ...], float], value: Value) -> bool:
    """Whether a polynomial, with coefficients of the value's element type, is meant to be the expected one."""
    tolerance = tolerance_of(value)
    if found is None or set(found) != set(expected):
        return False
    return all(math.isclose(found[key], number, rel_tol=tolerance) for key, number in expected.items())


def arithmetic_leaves(value: Value, depth: int = 4) -> list[Value]:
    """Values below a tree of additions and products, the inner ones included, nearest first, constants left out."""
    found: dict[Value, None] = {}
    level = [value]
    for _ in range(depth):
        below: list[Value] = []
        for each in level:
            node = produced(each, "Add", "Sub", "Mul", "Div", "Neg", "Pow")
            below += [v for v in node.inputs if v is not None and v.constant is None] if node is not None else []
        found.update(dict.fromkeys(below))
        level = below
    return list(found)
