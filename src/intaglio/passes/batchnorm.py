"""Batch normalisation folded into the weights of the convolution or product before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array
from intaglio.passes.driver import Refusal, Result, rule
from intaglio.passes.match import first, operand, produced


class Affine(NamedTuple):
    """scale * x + shift for each channel, in float64."""

    scale: Array
    shift: Array


@rule("BatchNormalization", changes_rounding=True, fuses=True)
def batch_normalization(b: Builder, node: Node) -> Result:
    """bn(conv(x, w, c)) -> conv(x, w * s, c * s + t), with s = scale / sqrt(var + e) and t = bias - mean * s"""
    inner = produced(first(node), "Conv", "ConvTranspose", "Gemm")
    if inner is None:
        return None
    if getattr(node.op, "training_mode", 0) or len(node.outputs) > 1:
        return Refusal("the normalisation is in training mode")
    affine = _affine(node)
    weight, bias = operand(inner, 1), operand(inner, 2)
    if affine is None or weight is None or weight.constant is None or (bias is not None and bias.constant is None):
        return Refusal("the weights are not constants")
    old = np.zeros(1) if bias is None else bias.constant.astype(np.float64) * getattr(inner.op, "beta", 1.0)
    op = replace(inner.op, beta=1.0) if inner.op.name == "Gemm" else inner.op
    operands = [weight.constant.astype(np.float64) * _along_outputs(inner, weight, affine.scale)]
    operands.append(old * affine.scale + affine.shift)
    constants = [b.constant(array, weight.dtype, name=weight.name) for array in operands]
    return b.add(op, [first(inner), *constants])[0]


def _affine(node: Node) -> Affine | None:
    parameters = [None if value is None else value.constant for value in node.inputs[1:]]
    if any(array is None for array in parameters):
        return None
    scale, bias, mean, variance = (np.asarray(array, dtype=np.float64) for array in parameters)
    factor = scale / np.sqrt(variance + getattr(node.op, "epsilon", 1e-5))
    return Affine(factor, bias - mean * factor)


def _along_outputs(node: Node, weight: Value, scale: Array) -> Array:
    """The scale of each output channel in a shape that broadcasts over the weight."""
    op: Any = node.op
    if op.name == "Gemm":
        return scale[:, None] if op.transB else scale[None, :]
    kernel = (1,) * (weight.rank - 2)
    if op.name == "Conv":
        return scale.reshape(-1, 1, *kernel)
    channels = int(weight.shape[0]) // op.group
    return np.repeat(scale.reshape(op.group, -1), channels, axis=0).reshape(int(weight.shape[0]), -1, *kernel)
