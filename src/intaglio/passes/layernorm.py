"""Recognition of LayerNormalization and RMSNormalization that are written out in simpler operators."""

from __future__ import annotations

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.passes.driver import Refusal, Result, rule
from intaglio.passes.match import axes_of, either, pair, produced, same_type, scalar, with_scalar


@rule("Div", "Mul", changes_rounding=True, fuses=True)
def normalization(b: Builder, node: Node) -> Result:
    """x / sqrt(mean(x**2) + e) -> rms_normalization(x); with x = u - mean(u) -> layer_normalization(u)"""
    found = _root(node)
    mean = produced(found[1], "ReduceMean") if found is not None else None
    square = _squared(mean.input) if mean is not None else None
    if found is None or mean is None or square is None or square is not found[0] or not same_type(square, node.output):
        return None
    if square.dtype.bits > 32:
        return Refusal("the operator computes in float32, which is less than float64")
    axes, rank = axes_of(mean), square.rank
    if not getattr(mean.op, "keepdims", 1) or axes is None or axes != list(range(axes[0], rank)):
        return Refusal(f"the mean is not over the last axes but over {axes}")
    sizes = square.shape[axes[0] :]
    if not all(isinstance(size, int) for size in sizes):
        return Refusal(f"the normalised sizes {sizes} are not known, so that there can be no scale")
    scale = b.constant(np.ones([int(size) for size in sizes]), square.dtype, name="scale")
    centred = _centred(square, axes)
    if centred is not None:
        return b.LayerNormalization(centred, scale, axis=axes[0] - rank, epsilon=found[2])
    return b.RMSNormalization(square, scale, axis=axes[0] - rank, epsilon=found[2])


def _root(node: Node) -> tuple[Value, Value, float] | None:
    """The x, v and e of x / sqrt(v + e), x * (1 / sqrt(v + e)) or x * (v + e) ** -0.5."""
    if node.op.name == "Div":
        x, divisor = pair(node)
        return _shifted_root(x, divisor)
    for inverse, x in either(node, "Reciprocal", "Div", "Pow"):
        if inverse.op.name == "Reciprocal" or (inverse.op.name == "Div" and scalar(inverse.input) == 1):
            return _shifted_root(x, inverse.inputs[-1])
        if inverse.op.name == "Pow" and scalar(pair(inverse)[1]) == -0.5:
            return _shifted(x, inverse.input)
    return None


def _shifted_root(x: Value, divisor: Value | None) -> tuple[Value, Value, float] | None:
    root = produced(divisor, "Sqrt", "Pow")
    if root is None or (root.op.name == "Pow" and scalar(pair(root)[1]) != 0.5):
        return None
    return _shifted(x, root.input)


def _shifted(x: Value, value: Value) -> tuple[Value, Value, float] | None:
    add = produced(value, "Add")
    found = with_scalar(add) if add is not None else None
    return (x, *found) if found is not None else None


def _squared(value: Value) -> Value | None:
    """The x of x * x or x ** 2."""
    node = produced(value, "Mul", "Pow")
    if node is None:
        return None
    left, right = pair(node)
    is_square = left is right if node.op.name == "Mul" else scalar(right) == 2
    return left if is_square else None


def _centred(value: Value, axes: list[int]) -> Value | None:
    """The u of u - mean(u)."""
    node = produced(value, "Sub")
    mean = produced(pair(node)[1], "ReduceMean") if node is not None else None
    if node is None or mean is None or mean.input is not node.input:
        return None
    return node.input if axes_of(mean) == axes and getattr(mean.op, "keepdims", 1) else None


@rule("Mul", changes_rounding=True, fuses=True)
def normalization_scale(b: Builder, node: Node) -> Result:
    """layer_normalization(x, 1) * s -> layer_normalization(x, s); so for rms_normalization"""
    for norm, scale in either(node, "LayerNormalization", "RMSNormalization"):
        ones = norm.optional(1)
        if len(norm.outputs) > 1 or norm.optional(2) is not None or ones is None or not _is_one(ones):
            continue
        if same_type(scale, ones):
            return b.add(norm.op, [norm.input, scale])[0]
    return None


@rule("Add", changes_rounding=True, fuses=True)
def normalization_bias(b: Builder, node: Node) -> Result:
    """layer_normalization(x, s) + t -> layer_normalization(x, s, t)"""
    for norm, bias in either(node, "LayerNormalization"):
        scale = norm.optional(1)
        if len(norm.outputs) == 1 and norm.optional(2) is None and scale is not None and same_type(bias, scale):
            return b.add(norm.op, [norm.input, scale, bias])[0]
    return None


def _is_one(value: Value) -> bool:
    return value.constant is not None and bool((value.constant == np.ones((), value.constant.dtype)).all())
