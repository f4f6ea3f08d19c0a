"""Questions that rules ask about values and nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from intaglio.ir import dim as dims
from intaglio.ir import substitution
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.ir.types import TensorType


def produced(value: Value | None, *operators: str) -> Node | None:
    """The node that produces the value as its first output, if it is one of these operators of ONNX's own domain."""
    node = value.producer if value is not None else None
    if node is None or node.op.domain or node.op.name not in operators or node.outputs[0] is not value:
        return None
    return node


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


_MEANT = {"float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-14}


def tolerance_of(value: Value) -> float:
    """How far a constant may be from the number that it is meant to be, by the value's element type.

    Narrow types keep two or three digits; in float32 people write five, as in 1.4142.
    """
    return _MEANT.get(value.dtype.name, 2e-5)


def is_close(number: float | None, expected: float, value: Value) -> bool:
    """Whether a constant, of the value's element type, is meant to be the expected number."""
    return number is not None and math.isclose(number, expected, rel_tol=tolerance_of(value))


TOO_SHORT = "attributes are float32, which is less than the number in float64 that would become one"


def is_attribute(number: float, value: Value) -> bool:
    """Whether a number can be an attribute of an operator on the value: it must be exact where that is float64."""
    return value.dtype.name != "float64" or float(np.float32(number)) == number


def integers(value: Value | None) -> list[int] | None:
    """The elements of a small integer tensor whose contents are all known."""
    if value is None or value.contents is None:
        return None
    items = value.contents.ravel().tolist()
    return items if all(type(item) is int for item in items) else None


def same_type(left: Value, right: Value) -> bool:
    """Whether two tensors certainly have the same element type and shape."""
    return isinstance(left.type, TensorType) and left.type.shape is not None and left.type == right.type


def rank_of(value: Value | None) -> int | None:
    """The rank of a tensor, None where it is not known or there is no value."""
    if value is None or not isinstance(value.type, TensorType) or value.type.shape is None:
        return None
    return value.rank


def axes_of(node: Node) -> list[int] | None:
    """The axes of a reduction, counted from 0, in order; None where they are not known."""
    rank, axes = rank_of(node.input), integers(node.optional(1))
    if rank is None or axes is None or not axes:
        return None
    return sorted(axis % rank for axis in axes)


def equal_if_broadcast(left: Dim, right: Dim) -> bool:
    """Whether two dimensions that are broadcast together are equal in every run that does not fail for it.

    A table that was cut to the first min(512, n) rows must have n of them to be broadcast with n.
    """
    left, right = settled(left), settled(right)
    return left == right or (left != 1 and right != 1 and right == settled(dims.broadcast(left, right)))


def settled(dim: Dim) -> Dim:
    """The dimension with broadcast(min(c, n), n) replaced by n, which it is in every run that does not fail for it."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, factor in dim.terms:
        total = dims.product(_settled_atom(atom) for atom in monomial) * factor + total
    return total


def _settled_atom(atom: dims.Atom) -> Dim:
    if isinstance(atom, dims.Symbol):
        return dims.symbol(atom.name)
    operands = tuple(map(settled, atom.operands))
    if atom.function == "broadcast":
        for cut, whole in (operands, operands[::-1]):
            if any(cut == dims.minimum(bound, whole) for bound in _cuts(cut)):
                return whole
    return substitution.substitute(dims.Expr((((dims.DimFunction(atom.function, operands),), 1),)), {})


def _cuts(dim: Dim) -> list[int]:
    """The c of at least 1 where the dimension is min(c, n)."""
    atoms = dim.terms[0][0] if isinstance(dim, dims.Expr) and len(dim.terms) == 1 else ()
    calls = [atom for atom in atoms if isinstance(atom, dims.DimFunction) and atom.function == "min"]
    return [side for call in calls for side in (call.left, call.right) if isinstance(side, int) and side >= 1]
