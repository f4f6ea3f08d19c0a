"""Algebraic identities; those that may change rounding or the sign of a zero are marked."""

from __future__ import annotations

import math

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.ir.types import TensorType
from intaglio.passes.driver import Result, rule
from intaglio.passes.match import either, pair, produced, same_type, scalar, with_scalar


@rule("Mul")
def multiply_by_one(b: Builder, node: Node) -> Result:
    """x * 1 -> x"""
    del b
    found = with_scalar(node)
    return found[0] if found is not None and found[1] == 1 and same_type(found[0], node.output) else None


@rule("Div", "Pow")
def divide_by_one(b: Builder, node: Node) -> Result:
    """x / 1, x ** 1 -> x"""
    del b
    x, one = pair(node)
    return x if scalar(one) == 1 and same_type(x, node.output) else None


@rule("Sub")
def subtract_zero(b: Builder, node: Node) -> Result:
    """x - 0 -> x"""
    del b
    x, zero = pair(node)
    is_exact = scalar(zero) == 0 and math.copysign(1.0, scalar(zero) or 0.0) > 0
    return x if is_exact and same_type(x, node.output) else None


@rule("Add")
def add_zero(b: Builder, node: Node) -> Result:
    """x + 0 -> x for integers, x + -0.0 -> x for floats"""
    del b
    found = with_scalar(node)
    if found is None or found[1] != 0 or not same_type(found[0], node.output):
        return None
    is_exact = node.output.dtype.is_integer or math.copysign(1.0, found[1]) < 0
    return found[0] if is_exact else None


@rule("Add", changes_rounding=True)
def add_positive_zero(b: Builder, node: Node) -> Result:
    """x + 0.0 -> x; of -0.0 the sum would be 0.0"""
    del b
    found = with_scalar(node)
    return found[0] if found is not None and found[1] == 0 and same_type(found[0], node.output) else None


@rule("Neg", "Not", "BitwiseNot")
def twice_is_nothing(b: Builder, node: Node) -> Result:
    """-(-x), not(not(x)), ~(~x) -> x"""
    del b
    inner = produced(node.input, node.op.name)
    return inner.input if inner is not None else None


@rule("Relu", "Abs", "Ceil", "Floor", "Round", "Sign")
def twice_is_once(b: Builder, node: Node) -> Result:
    """relu(relu(x)) -> relu(x); so for abs, ceil, floor, round and sign"""
    del b
    inner = produced(node.input, node.op.name)
    return inner.output if inner is not None else None


@rule("Sum")
def sum_of_two(b: Builder, node: Node) -> Result:
    """sum(x, y) -> x + y"""
    return b.Add(*pair(node)) if len(node.inputs) == 2 else None


@rule("Transpose", changes_rounding=True)
def transposed_product(b: Builder, node: Node) -> Result:
    """transpose(transpose(x) @ y) -> transpose(y) @ x: the gradient of a matrix that was multiplied transposed"""
    product = produced(node.input, "MatMul")
    if product is None or len(product.output.uses) != 1 or tuple(node.op.perm or (1, 0)) != (1, 0):
        return None
    left, right = pair(product)
    turned = produced(left, "Transpose")
    if turned is None or not all(isinstance(each.type, TensorType) and each.type.shape for each in (left, right)):
        return None
    if left.rank != 2 or right.rank != 2 or tuple(turned.op.perm or (1, 0)) != (1, 0):
        return None
    return b.MatMul(b.Transpose(right, perm=(1, 0)), turned.input)


@rule("Abs")
def abs_of_neg(b: Builder, node: Node) -> Result:
    """abs(-x) -> abs(x)"""
    inner = produced(node.input, "Neg")
    return b.Abs(inner.input) if inner is not None else None


@rule("Add")
def add_negated(b: Builder, node: Node) -> Result:
    """x + -y -> x - y"""
    for negated, x in either(node, "Neg"):
        return x - negated.input
    return None


@rule("Sub")
def subtract_negated(b: Builder, node: Node) -> Result:
    """x - -y -> x + y"""
    x, y = pair(node)
    negated = produced(y, "Neg")
    return x + negated.input if negated is not None else None


@rule("Mul", "Div")
def both_negated(b: Builder, node: Node) -> Result:
    """-x * -y -> x * y, -x / -y -> x / y"""
    left, right = (produced(value, "Neg") for value in pair(node))
    if left is None or right is None or not node.output.dtype.is_float:
        return None
    return b.add(node.op, [left.input, right.input])[0]


@rule("Where")
def where_is_decided(b: Builder, node: Node) -> Result:
    """where(true, x, y) -> x, where(false, x, y) -> y, where(c, x, x) -> x"""
    del b
    condition, x, y = node.inputs
    assert condition is not None
    if x is y or (condition.constant is not None and condition.constant.size and condition.constant.all()):
        chosen = x
    elif condition.constant is not None and condition.constant.size and not condition.constant.any():
        chosen = y
    else:
        return None
    return chosen if chosen is not None and same_type(chosen, node.output) else None


@rule("Div")
def divide_by_power_of_two(b: Builder, node: Node) -> Result:
    """x / 2**n -> x * 2**-n, which is exact"""
    x, divisor = pair(node)
    number = scalar(divisor)
    if number is None or x.constant is not None or node.output.dtype.name not in ("float32", "float64"):
        return None
    fraction, exponent = math.frexp(number)
    if abs(fraction) != 0.5 or not -100 < exponent < 100:
        return None
    return b.Mul(x, b.constant(np.full(divisor.shape, 1 / number), divisor.dtype, name=divisor.name))


@rule("Pow", changes_rounding=True)
def square(b: Builder, node: Node) -> Result:
    """x ** 2 -> x * x"""
    x, exponent = pair(node)
    return x * x if scalar(exponent) == 2 and same_type(x, node.output) else None


@rule("Add", "Mul")
def merge_integer_constants(b: Builder, node: Node) -> Result:
    """(x + c) + d -> x + (c + d), (x * c) * d -> x * (c * d), for integers, which wrap around"""
    return _merged(b, node) if node.output.dtype.is_integer else None


@rule("Add", "Mul", changes_rounding=True)
def merge_float_constants(b: Builder, node: Node) -> Result:
    """(x + c) + d -> x + (c + d), (x * c) * d -> x * (c * d), for floats, where the constant is an ordinary number"""
    return _merged(b, node) if node.output.dtype.is_float else None


def _merged(b: Builder, node: Node) -> Value | None:
    for inner, outer_constant in either(node, node.op.name):
        left, right = pair(inner)
        x, constant = (left, right) if right.constant is not None else (right, left)
        if outer_constant.constant is None or constant.constant is None or x.constant is not None:
            continue
        merged = _combined(node.op.name, constant, outer_constant)
        if merged is not None:
            return b.add(node.op, [x, b.constant(merged, name=outer_constant.name)])[0]
    return None


def _combined(operator: str, left: Value, right: Value) -> np.ndarray | None:
    """The sum or product of two constants, None where it would be large, or zero or infinite where they are not."""
    if left.constant is None or right.constant is None:
        return None
    with np.errstate(all="ignore"):
        result = left.constant + right.constant if operator == "Add" else left.constant * right.constant
    if result.size > max(left.constant.size, right.constant.size) or result.dtype != left.constant.dtype:
        return None
    if left.dtype.is_integer:
        return result
    wide = result.astype(np.float64)
    is_ordinary = bool(np.isfinite(wide).all()) and (operator == "Add" or bool((np.abs(wide) > 1e-30).all()))
    return result if is_ordinary else None
