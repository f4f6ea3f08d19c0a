"""Recognition of Gelu in its two decomposed forms."""

from __future__ import annotations

import math

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.passes.driver import Result, rule
from intaglio.passes.match import produced, same_type
from intaglio.passes.polynomial import arithmetic_leaves, matches, polynomial

GATE = {(1, 0): 0.5, (1, 1): 0.5}
"""0.5 * x + 0.5 * x * t, in x and t."""
EXACT = {(1,): math.sqrt(0.5)}
TANH = {(1,): math.sqrt(2 / math.pi), (3,): 0.044715 * math.sqrt(2 / math.pi)}


@rule("Mul", "Add", changes_rounding=True, fuses=True)
def gelu_erf(b: Builder, node: Node) -> Result:
    """0.5 * x * (1 + erf(x / sqrt(2))) -> gelu(x)"""
    x = _gated(node, "Erf", EXACT)
    return None if x is None else b.Gelu(x)


@rule("Mul", "Add", changes_rounding=True, fuses=True)
def gelu_tanh(b: Builder, node: Node) -> Result:
    """0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) -> gelu(x, approximate="tanh")"""
    x = _gated(node, "Tanh", TANH)
    return None if x is None else b.Gelu(x, approximate="tanh")


def _gated(node: Node, gate: str, argument: dict[tuple[int, ...], float]) -> Value | None:
    """The x for which the node is 0.5 * x * (1 + gate(argument(x)))."""
    if not node.output.dtype.is_float:
        return None
    for value in arithmetic_leaves(node.output):
        found = produced(value, gate)
        for x in arithmetic_leaves(found.input, 5) if found is not None else ():
            is_argument = found is not None and matches(polynomial(found.input, [x]), argument, x)
            if is_argument and same_type(x, node.output) and matches(polynomial(node.output, [x, value]), GATE, x):
                return x
    return None
