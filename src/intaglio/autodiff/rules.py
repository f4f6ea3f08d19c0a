"""Which rule differentiates a node: a user's own, the operator's, or one of control flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from intaglio.errors import GraphError, InputError
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import OPERATORS, Op
from intaglio.ir.types import TensorType
from intaglio.ops.control import If, Loop, Scan
from intaglio.ops.sequence import SequenceMap

Bars: TypeAlias = Sequence[Value | None]
Rule: TypeAlias = Callable[..., Bars]
"""(op, b, inputs, outputs, output_bars) -> the gradients of the inputs, None where there is none."""

CONTROL = (If, Loop, Scan, SequenceMap)
"""Operators whose bodies are differentiated."""


@dataclass(frozen=True)
class OwnRule:
    """A rule that a user registered, and the check whether it applies to a node."""

    rule: Rule
    applies: Callable[[Node], bool] | None


_own: dict[tuple[str, str], list[OwnRule]] = {}


def pullback(
    operator: str | type[Op], *, domain: str = "", applies: Callable[[Node], bool] | None = None
) -> Callable[[Rule], Rule]:
    """Register the reverse-mode rule of an operator: a decorator.

    The function gets the operator with its attributes, a builder (`b.Exp(x)`; arithmetic on values works too), the
    inputs, the outputs and the gradients of the outputs (None where nothing depends on one). It returns a gradient for
    each input, of that input's type, or None. It comes before the operator's own rule wherever `applies(node)` is true;
    among several rules of a user, the last one registered comes first. The operator is named by its ONNX name and
    `domain`, or given as what `intaglio.op` returned.

    @intaglio.pullback("Softplus")
    def softplus(op, b, inputs, outputs, output_bars):
        return (output_bars[0] * b.Sigmoid(inputs[0]),)
    """
    key = _key(operator, domain)
    if key not in OPERATORS:
        raise InputError(f"there is no operator {key[1]!r} in the domain {key[0] or 'ai.onnx'!r}")

    def register(rule: Rule) -> Rule:
        _own.setdefault(key, []).insert(0, OwnRule(rule, applies))
        return rule

    return register


def forget_pullbacks(operator: str | type[Op], *, domain: str = "") -> None:
    """Take back all rules that were registered for an operator with `pullback`."""
    _own.pop(_key(operator, domain), None)


def _key(operator: str | type[Op], domain: str) -> tuple[str, str]:
    if isinstance(operator, str):
        return domain.removeprefix("ai.onnx") if domain == "ai.onnx" else domain, operator
    cls: Any = getattr(operator, "operator", operator)
    return cls.domain, cls.__name__


def own_rule(node: Node) -> Rule | None:
    """The user's rule for a node, the first that applies."""
    for own in _own.get((node.op.domain, node.op.name), ()):
        if own.applies is None or own.applies(node):
            return own.rule
    return None


GradientKind = Literal["rule", "expansion", "no"]


def gradient_kind(operator: type[Op]) -> tuple[GradientKind, str]:
    """How an operator is differentiated: by its own rule, in simpler operators, or not, and why not.

    Raises GraphError where the operator declares neither.
    """
    if operator.no_gradient:
        return "no", operator.no_gradient
    if issubclass(operator, CONTROL) or operator.has("pullback") or operator.has("smooth_form"):
        return "rule", ""
    if operator.has("expand"):
        return "expansion", ""
    raise GraphError(f"{operator.__name__} has neither a gradient nor a reason why not: `no_gradient`")


def by_expansion(operator: type[Op], straight_through: bool = False) -> bool:
    """Whether an operator without a rule is differentiated in the operators that it expands to."""
    return operator.has("expand") and (straight_through or not operator.no_gradient)


def is_straight(node: Node) -> bool:
    """Whether a node quantizes, or computes with quantized numbers, and can be differentiated as if it did not."""
    values = [value for value in (*node.inputs[:1], *node.outputs[:1]) if value is not None]
    return node.op.has("straight_through") and any(value.dtype.is_integer for value in values)


def has_rule(node: Node, straight_through: bool = False) -> bool:
    """Whether a node can be differentiated as it is, without being expanded."""
    if any(isinstance(v.type, TensorType) and v.type.dtype.kind == "complex" for v in node.outputs):
        return False
    if own_rule(node) is not None or isinstance(node.op, CONTROL):
        return True
    if straight_through and is_straight(node):
        return True
    if node.op.has("pullback"):
        return node.op.takes_pullback(node.inputs, node.outputs)
    return node.op.has("smooth_form")


def reason_without_rule(node: Node) -> str:
    """Why a node has no gradient, as its operator says it."""
    if any(isinstance(v.type, TensorType) and v.type.dtype.kind == "complex" for v in node.outputs):
        return "complex numbers have no gradient here"
    return type(node.op).no_gradient or "it has no reverse-mode rule; register one with `intaglio.pullback`"
