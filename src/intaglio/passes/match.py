"""Questions that rules ask about values and nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from intaglio.ir.graph import Node, Value
from intaglio.ir.types import TensorType


def produced(value: Value | None, *operators: str) -> Node | None:
    """The node that produces the value as its first output, if it is one of these operators of ONNX's own domain."""
    node = value.producer if value is not None else None
    if node is None or node.op.domain or node.op.name not in operators or node.outputs[0] is not value:
        return None
    return node


def operand(node: Node, position: int) -> Value | None:
    """The input at a position, None where it is absent."""
    return node.inputs[position] if position < len(node.inputs) else None


def first(node: Node) -> Value:
    """The first input, which must be there."""
    value = node.inputs[0]
    assert value is not None
    return value


def pair(node: Node) -> tuple[Value, Value]:
    """The two inputs of a binary operator."""
    left, right = node.inputs
    assert left is not None
    assert right is not None
    return left, right


def either(node: Node, *operators: str) -> Iterator[tuple[Node, Value]]:
    """For a commutative node: each input that one of these operators produces, and the other input."""
    left, right = pair(node)
    for one, other in ((left, right), (right, left)):
        found = produced(one, *operators)
        if found is not None:
            yield found, other


def with_scalar(node: Node) -> tuple[Value, float] | None:
    """For a commutative node of which one input is a constant with one element: the other input and that number."""
    left, right = pair(node)
    for value, other in ((left, right), (right, left)):
        number = scalar(other)
        if number is not None and value.constant is None:
            return value, number
    return None


def scalar(value: Value | None) -> float | None:
    """The number in a constant real tensor that has exactly one element."""
    if value is None or value.constant is None or value.constant.size != 1:
        return None
    if not isinstance(value.type, TensorType) or value.dtype.kind not in ("float", "int", "uint"):
        return None
    return float(value.constant.reshape(-1).astype(np.float64)[0])


def is_close(number: float | None, expected: float, tolerance: float = 1e-3) -> bool:
    """Whether a constant of a model is meant to be the expected number; float16 keeps three digits."""
    return number is not None and math.isclose(number, expected, rel_tol=tolerance)


def integers(value: Value | None) -> list[int] | None:
    """The elements of a small integer tensor whose contents are all known."""
    if value is None or value.contents is None:
        return None
    items = value.contents.ravel().tolist()
    return items if all(type(item) is int for item in items) else None


def same_type(left: Value, right: Value) -> bool:
    """Whether two tensors certainly have the same element type and shape."""
    return isinstance(left.type, TensorType) and left.type.shape is not None and left.type == right.type


def rank_of(value: Value) -> int | None:
    """The rank of a tensor, None where it is not known."""
    is_ranked = isinstance(value.type, TensorType) and value.type.shape is not None
    return value.rank if is_ranked else None


def axes_of(node: Node) -> list[int] | None:
    """The axes of a reduction, counted from 0, in order; None where they are not known."""
    rank, axes = rank_of(first(node)), integers(operand(node, 1))
    if rank is None or axes is None or not axes:
        return None
    return sorted(axis % rank for axis in axes)
