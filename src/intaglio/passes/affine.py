"""Constant factors and summands folded into the weights of the convolution or product beside them.

For whoever writes a graph for others: our own kernels apply both while they write their results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array
from intaglio.passes.driver import Result, rule
from intaglio.passes.match import pair, produced, rank_of, same_type

LINEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators with weights that can be scaled."""


@rule("Mul", "Div", changes_rounding=True, fuses=True)
def scaled_result(b: Builder, node: Node) -> Result:
    """conv(x, w, c) * s -> conv(x, w * s, c * s); so for transposed convolutions and products"""
    found = _with_constant(node, node.op.name == "Mul")
    if found is None:
        return None
    inner, scale = found
    weight, bias = _weights(inner)
    along = _along_results(inner, scale)
    if weight is None or along is None or (inner.optional(2) is not None and bias is None):
        return None
    if node.op.name == "Div":
        with np.errstate(divide="ignore"):
            along = 1 / along
    operands = [_narrowed(b, inner.needed(1), weight * _over_weight(inner, along))]
    if bias is not None:
        operands.append(_narrowed(b, inner.needed(2), bias * along))
    return b.add(inner.op, [inner.input, *operands])[0] if _are_finite(operands) else None


@rule("Add", "Sub", changes_rounding=True, fuses=True)
def shifted_result(b: Builder, node: Node) -> Result:
    """conv(x, w, c) + t -> conv(x, w, c + t); so for transposed convolutions, and for Gemm"""
    found = _with_constant(node, node.op.name == "Add")
    if found is None:
        return None
    inner, shift = found
    weight, bias = _weights(inner)
    if inner.op.name == "MatMul" or weight is None or (inner.optional(2) is not None and bias is None):
        return None
    along = _along_results(inner, shift)
    if along is None:
        return None
    signed = -along if node.op.name == "Sub" else along
    if inner.op.name == "Gemm":
        if inner.op.beta == 0:
            return None
        total = (np.zeros(1) if bias is None else bias) + signed / inner.op.beta
    else:
        total = np.zeros(_channels(inner)) + (0.0 if bias is None else bias) + signed
    operands = [inner.needed(1), b.constant(total, inner.needed(1).dtype, name="bias")]
    return b.add(inner.op, [inner.input, *operands])[0] if _are_finite(operands[1:]) else None


@rule("Mul", "Add", changes_rounding=True, fuses=True)
def scaled_normalization(b: Builder, node: Node) -> Result:
    """bn(x, g, c) * s + t -> bn(x, g * s, c * s + t)"""
    x, constant = _operands(node, commutes=True)
    inner = produced(x, "BatchNormalization")
    if inner is None or constant is None or x is None or rank_of(x) is None or not same_type(x, node.output):
        return None
    along = _by_channel(constant, x.rank, x.shape[1])
    scale, shift = inner.needed(1).constant, inner.needed(2).constant
    if along is None or scale is None or shift is None or inner.op.training_mode or len(inner.outputs) > 1:
        return None
    is_factor = node.op.name == "Mul"
    factors = scale.astype(np.float64) * along if is_factor else scale.astype(np.float64)
    shifted = shift.astype(np.float64) * along if is_factor else shift.astype(np.float64) + along
    operands = [_narrowed(b, inner.needed(1), factors), _narrowed(b, inner.needed(2), shifted)]
    return b.add(inner.op, [inner.input, *operands, *inner.inputs[3:]])[0] if _are_finite(operands) else None


@rule("Conv", changes_rounding=True, fuses=True)
def scaled_operand(b: Builder, node: Node) -> Result:
    """conv(x * s, w, c) -> conv(x, w * s, c)"""
    inner = produced(node.input, "Mul", "Div")
    weight = node.needed(1).constant
    if inner is None or weight is None or rank_of(node.input) is None:
        return None
    x, scale = _operands(inner, inner.op.name == "Mul")
    if scale is None or x is None or not same_type(x, inner.output):
        return None
    along = _by_channel(scale, node.input.rank, node.input.shape[1])
    if along is None or (inner.op.name == "Div" and not along.all()):
        return None
    along = 1 / along if inner.op.name == "Div" else along
    op: Any = node.op
    outputs, inputs = weight.shape[:2]
    grouped = np.broadcast_to(along, (inputs * op.group,)).reshape(op.group, 1, inputs)
    factors = np.broadcast_to(grouped, (op.group, outputs // op.group, inputs)).reshape(outputs, inputs)
    scaled = weight.astype(np.float64) * factors.reshape(outputs, inputs, *(1,) * (weight.ndim - 2))
    operands = [_narrowed(b, node.needed(1), scaled)]
    return b.add(op, [x, *operands, *node.inputs[2:]])[0] if _are_finite(operands) else None


def _with_constant(node: Node, commutes: bool) -> tuple[Node, Array] | None:
    """The linear node that a node scales or shifts, and by what."""
    x, constant = _operands(node, commutes)
    inner = produced(x, *LINEAR)
    if inner is None or constant is None or x is None or not same_type(x, node.output) or rank_of(x) is None:
        return None
    return inner, constant


def _operands(node: Node, commutes: bool) -> tuple[Value | None, Array | None]:
    """The operand that is not known before the run, and the constant, where there are both."""
    left, right = pair(node)
    if right.constant is not None and left.constant is None and right.dtype.is_float:
        return left, right.constant.astype(np.float64)
    if commutes and left.constant is not None and right.constant is None and left.dtype.is_float:
        return right, left.constant.astype(np.float64)
    return None, None


def _weights(node: Node) -> tuple[Array | None, Array | None]:
    """The constants of a linear node in float64: its weight and its bias."""
    arrays = [None if value is None else value.constant for value in (node.optional(1), node.optional(2))]
    weight, bias = (None if array is None else array.astype(np.float64) for array in arrays)
    return weight, bias


def _along_results(node: Node, constant: Array) -> Array | None:
    """A constant that is the same along all but the axis of the weights' outputs: one number, or one for each."""
    rank = node.output.rank
    if node.op.name in ("Gemm", "MatMul"):
        if node.op.name == "MatMul" and node.needed(1).rank != 2:
            return constant.reshape(-1) if constant.size == 1 else None
        is_row = constant.size == 1 or (constant.size == constant.shape[-1] and constant.size == node.output.shape[-1])
        return constant.reshape(-1) if is_row and constant.ndim <= rank else None
    return _by_channel(constant, rank, node.output.shape[1])


def _by_channel(constant: Array, rank: int, channels: Any) -> Array | None:
    """The numbers of a constant by channel, one where all are equal; None where it differs along other axes."""
    if constant.size == 1:
        return constant.reshape(-1) if constant.ndim <= rank else None
    shape = (1,) * (rank - constant.ndim) + constant.shape
    is_by_channel = len(shape) == rank and shape[1] == constant.size == channels
    return constant.reshape(-1) if is_by_channel else None


def _channels(node: Node) -> int:
    weight = node.needed(1).shape
    return int(weight[0]) if node.op.name == "Conv" else int(weight[1]) * node.op.group


def _over_weight(node: Node, along: Array) -> Array:
    """What scales each result, in a shape that broadcasts over the weight."""
    if along.size == 1 or node.op.name == "MatMul":
        return along
    if node.op.name == "Gemm":
        return along[:, None] if node.op.transB else along
    weight = node.needed(1)
    kernel = (1,) * (weight.rank - 2)
    if node.op.name == "Conv":
        return along.reshape(-1, 1, *kernel)
    inputs, group = int(weight.shape[0]), node.op.group
    return np.repeat(along.reshape(group, -1), inputs // group, axis=0).reshape(inputs, -1, *kernel)


def _narrowed(b: Builder, old: Value, array: Array) -> Value:
    with np.errstate(over="ignore"):
        return b.constant(array, old.dtype, name=old.name)


def _are_finite(values: list[Value]) -> bool:
    arrays = [value.constant for value in values if value.constant is not None]
    return all(bool(np.isfinite(array.astype(np.float64)).all()) for array in arrays)
