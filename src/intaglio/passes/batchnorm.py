"""Batch normalisation folded into the weights of the convolution or product before it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array
from intaglio.passes.driver import Refusal, Result, rule
from intaglio.passes.match import produced


class Affine(NamedTuple):
    """scale * x + shift for each channel, in float64."""

    scale: Array
    shift: Array


@rule("BatchNormalization", changes_rounding=True, fuses=True)
def batch_normalization(b: Builder, node: Node) -> Result:
    """bn(conv(x, w, c)) -> conv(x, w * s, c * s + t), with s = scale / sqrt(var + e) and t = bias - mean * s"""
    inner = produced(node.input, "Conv", "ConvTranspose", "Gemm")
    if inner is None:
        return None
    if getattr(node.op, "training_mode", 0) or len(node.outputs) > 1:
        return Refusal("the normalisation is in training mode")
    affine, weight, bias = affine_of(node), inner.optional(1), _bias(inner)
    if affine is None or weight is None or weight.constant is None or bias is None:
        return Refusal("the weights are not constants")
    scaled = weight.constant.astype(np.float64) * _along_outputs(inner, weight, affine.scale)
    shift = b.constant(bias * affine.scale + affine.shift, weight.dtype, name="bias")
    operands = [b.constant(scaled, weight.dtype, name="weight"), shift]
    if inner.op.name != "Gemm":
        return b.add(inner.op, [inner.input, *operands])[0]
    op: Any = inner.op
    return b.Gemm(inner.input, *operands, alpha=op.alpha, transA=op.transA, transB=op.transB)


def affine_of(node: Node) -> Affine | None:
    """What a normalisation does to each channel; None where its parameters are not constants."""
    parameters = [None if value is None else value.constant for value in node.inputs[1:]]
    if any(array is None for array in parameters):
        return None
    scale, bias, mean, variance = (np.asarray(array, dtype=np.float64) for array in parameters)
    factor = scale / np.sqrt(variance + getattr(node.op, "epsilon", 1e-5))
    return Affine(factor, bias - mean * factor)


def _bias(node: Node) -> Array | None:
    """What is added to the product in float64, zero where there is no bias; None where it is not a constant."""
    bias = node.optional(2)
    if bias is None:
        return np.zeros(1)
    return None if bias.constant is None else bias.constant.astype(np.float64) * getattr(node.op, "beta", 1.0)


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
