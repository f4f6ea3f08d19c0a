"""Recognition of activation functions that are written out in simpler operators."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.passes.driver import Refusal, Result, rule
from intaglio.passes.match import (
    TOO_SHORT,
    either,
    is_attribute,
    is_close,
    pair,
    produced,
    same_type,
    scalar,
    with_scalar,
)
from intaglio.passes.polynomial import arithmetic_leaves, matches, polynomial


@rule("Div", "Reciprocal", changes_rounding=True, fuses=True)
def sigmoid(b: Builder, node: Node) -> Result:
    """1 / (1 + exp(-x)) -> sigmoid(x)"""
    if node.op.name == "Div" and scalar(pair(node)[0]) != 1:
        return None
    add = produced(node.inputs[-1], "Add")
    found = with_scalar(add) if add is not None else None
    exponential = produced(found[0], "Exp") if found is not None and found[1] == 1 else None
    negated = produced(exponential.input, "Neg") if exponential is not None else None
    if negated is None or not same_type(negated.input, node.output):
        return None
    return b.Sigmoid(negated.input)


@rule("Mul", changes_rounding=True, fuses=True)
def swish(b: Builder, node: Node) -> Result:
    """x * sigmoid(alpha * x) -> swish(x, alpha)"""
    for gate, x in either(node, "Sigmoid"):
        inner = polynomial(gate.input, [x])
        if inner is not None and set(inner) == {(1,)} and same_type(x, node.output):
            return b.Swish(x, alpha=inner[(1,)]) if is_attribute(inner[(1,)], x) else Refusal(TOO_SHORT)
    return None


@rule("Mul", changes_rounding=True, fuses=True)
def mish(b: Builder, node: Node) -> Result:
    """x * tanh(softplus(x)) -> mish(x)"""
    for gate, x in either(node, "Tanh"):
        softplus = produced(gate.input, "Softplus")
        if softplus is not None and softplus.input is x:
            return b.Mish(x)
    return None


@rule("Log", changes_rounding=True, fuses=True)
def softplus(b: Builder, node: Node) -> Result:
    """log(1 + exp(x)) -> softplus(x), which does not overflow"""
    add = produced(node.input, "Add")
    found = with_scalar(add) if add is not None else None
    exponential = produced(found[0], "Exp") if found is not None and found[1] == 1 else None
    if exponential is None or not same_type(exponential.input, node.output):
        return None
    return b.Softplus(exponential.input)


@rule("Div", "Mul", changes_rounding=True, fuses=True)
def hard_sigmoid(b: Builder, node: Node) -> Result:
    """clip(x + 3, 0, 6) / 6 -> hard_sigmoid(x, alpha=1/6, beta=0.5)"""
    for clip in _producers(node, "Clip"):
        x = _shifted_clip(clip)
        is_sixth = matches(polynomial(node.output, [clip.output]), {(1,): 1 / 6}, node.output)
        if is_sixth and x is not None and same_type(x, node.output):
            return b.HardSigmoid(x, alpha=1 / 6, beta=0.5) if is_attribute(1 / 6, x) else Refusal(TOO_SHORT)
    return None


@rule("Mul", changes_rounding=True, fuses=True)
def hard_swish(b: Builder, node: Node) -> Result:
    """x * hard_sigmoid(x, alpha=1/6, beta=0.5) -> hard_swish(x)"""
    for gate, x in either(node, "HardSigmoid"):
        alpha, beta = getattr(gate.op, "alpha", 0.0), getattr(gate.op, "beta", 0.0)
        if gate.input is x and is_close(alpha, 1 / 6, x) and is_close(beta, 0.5, x):
            return b.HardSwish(x)
    return None


@rule("Div", "Mul", changes_rounding=True, fuses=True)
def hard_swish_of_clip(b: Builder, node: Node) -> Result:
    """x * clip(x + 3, 0, 6) / 6 -> hard_swish(x)"""
    for clip in _producers(node, "Clip"):
        x = _shifted_clip(clip)
        if x is None or not same_type(x, node.output):
            continue
        if matches(polynomial(node.output, [x, clip.output]), {(1, 1): 1 / 6}, x):
            return b.HardSwish(x)
    return None


def _producers(node: Node, operator: str) -> list[Node]:
    """The nodes of an operator that feed the arithmetic above this node."""
    found = [produced(value, operator) for value in arithmetic_leaves(node.output, 3)]
    return [each for each in found if each is not None]


def _shifted_clip(clip: Node) -> Value | None:
    """The x of clip(x + 3, 0, 6)."""
    add = produced(clip.input, "Add")
    found = with_scalar(add) if add is not None else None
    if found is None or found[1] != 3 or scalar(clip.optional(1)) != 0 or scalar(clip.optional(2)) != 6:
        return None
    return found[0]


@rule("Clip")
def relu_of_clip(b: Builder, node: Node) -> Result:
    """clip(x, 0, none) -> relu(x)"""
    if node.optional(2) is not None or scalar(node.optional(1)) != 0:
        return None
    return b.Relu(node.input) if node.output.dtype.is_float else None


@rule("Max")
def relu_of_max(b: Builder, node: Node) -> Result:
    """max(x, 0) -> relu(x)"""
    found = with_scalar(node) if len(node.inputs) == 2 else None
    if found is None or found[1] != 0 or not node.output.dtype.is_float:
        return None
    return b.Relu(found[0]) if same_type(found[0], node.output) else None


@rule("Min", "Clip", fuses=True)
def clip_of_relu(b: Builder, node: Node) -> Result:
    """min(relu(x), c) -> clip(x, 0, c), for c of at least 0"""
    value, high = node.input, scalar(node.optional(2 if node.op.name == "Clip" else 1))
    low = scalar(node.optional(1)) if node.op.name == "Clip" else None
    relu = produced(value, "Relu")
    if relu is None or high is None or high < 0 or len(node.inputs) > 3 or not same_type(value, node.output):
        return None
    if node.op.name == "Clip" and node.optional(1) is not None and (low is None or low > 0):
        return None
    return b.Clip(relu.input, b.constant(0.0, node.output.dtype), b.constant(high, node.output.dtype))
