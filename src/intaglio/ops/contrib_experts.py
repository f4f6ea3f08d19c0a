"""Mixtures of experts of ONNX Runtime (domain com.microsoft): every word goes through a few of many small networks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import UINT8, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Op
from intaglio.ops.contrib import DOMAIN, needed, unpack_bits
from intaglio.ops.operand import cast, wide, wide_dtype

Layer: TypeAlias = tuple[Value | None, Value | None]
"""The weights of a layer of all experts, [experts, outputs, inputs], and their biases."""


class Experts(Op, abstract=True):
    """What plain and quantized mixtures share: the choice of experts, and the networks once their weights are known.

    `use_sparse_mixer` has no effect, as in ONNX Runtime's CPU kernel.
    """

    domain: ClassVar[str] = DOMAIN
    activation_alpha: float = 1.0
    activation_beta: float = 0.0
    activation_type: str = "relu"
    k: int = 1
    normalize_routing_weights: int = 0
    swiglu_fusion: int = 0
    swiglu_limit: float | None = None
    use_sparse_mixer: int = 0

    def mix(self, b: Builder, input: Value, shares: Value, layers: Sequence[Layer]) -> Value:
        """The sum over the experts of their output times their share; `layers` are the three with their biases."""
        x = b.Reshape(wide(b, input), b.Concat(b.constant([-1]), b.Shape(input, start=-1), axis=0))
        first, second, third = layers
        y = _layer(b, self._activated(b, x, first, third), second)
        total = b.ReduceSum(y * b.Unsqueeze(b.Transpose(shares, perm=(1, 0)), [2]), [0], keepdims=0)
        return b.Reshape(cast(b, total, input.dtype), b.Shape(input))

    def shares(self, b: Builder, router_probs: Value) -> Value:
        """How much of each expert each word gets, [words, experts]: those of the `k` best, zeros elsewhere."""
        logits = wide(b, router_probs)
        best, index = b.TopK(logits, b.constant([self.k]), outputs=2)
        if self.normalize_routing_weights:
            return scattered(b, logits, index, b.Softmax(best, axis=1))
        return scattered(b, logits, index, b.GatherElements(b.Softmax(logits, axis=1), index, axis=1))

    def _activated(self, b: Builder, x: Value, first: Layer, third: Layer) -> Value:
        """The hidden layer of all experts, [experts, words, size]."""
        y = _layer(b, x, first)
        if self.activation_type == "swiglu":
            gate, linear = self._halves(b, y) if third[0] is None else (y, _layer(b, x, third))
            return self._gated(b, gate, linear)
        functions = {
            "relu": b.Relu, "gelu": partial(b.Gelu, approximate="tanh"), "silu": b.Swish, "identity": b.Identity
        }  # fmt: skip
        if self.activation_type not in functions:
            raise ShapeError(f"activation_type is {self.activation_type!r}, expected swiglu or {', '.join(functions)}")
        y = functions[self.activation_type](y)
        return y if third[0] is None else y * _layer(b, x, third)

    def _halves(self, b: Builder, y: Value) -> tuple[Value, Value]:
        """What is gated by what, where both come from one layer: side by side, or one by one in turn."""
        if self.swiglu_fusion == 2:
            return b.Split(y, num_outputs=2, axis=2, outputs=2)
        end = np.iinfo(np.int64).max
        return b.Slice(y, [0], [end], [2], [2]), b.Slice(y, [1], [end], [2], [2])

    def _gated(self, b: Builder, gate: Value, linear: Value) -> Value:
        if self.swiglu_limit is not None:
            gate = b.Clip(gate, None, self.swiglu_limit)
            linear = b.Clip(linear, -self.swiglu_limit, self.swiglu_limit)
        return b.Swish(gate, alpha=self.activation_alpha) * (linear + self.activation_beta)


def scattered(b: Builder, like: Value, index: Value, numbers: Value) -> Value:
    """Zeros in the shape of `like`, with numbers at some columns of each row."""
    return b.ScatterElements(b.Expand(b.constant(0, like.dtype), b.Shape(like)), index, numbers, axis=1)


def _layer(b: Builder, x: Value, layer: Layer) -> Value:
    """Words times the weights of each expert, plus its bias."""
    weights, bias = layer
    y = b.MatMul(x, b.Transpose(needed(weights, "fc2_experts_weights"), perm=(0, 2, 1)))
    return y if bias is None else y + b.Unsqueeze(wide(b, bias), [1])


class MoE(Experts):
    """A mixture of experts with two or three layers each; only the `k` best by the router's scores count."""

    def expand(
        self,
        b: Builder,
        input: Value,
        router_probs: Value,
        fc1_experts_weights: Value,
        fc1_experts_bias: Value | None = None,
        fc2_experts_weights: Value | None = None,
        fc2_experts_bias: Value | None = None,
        fc3_experts_weights: Value | None = None,
        fc3_experts_bias: Value | None = None,
    ) -> Value:
        weights = (fc1_experts_weights, fc2_experts_weights, fc3_experts_weights)
        biases = (fc1_experts_bias, fc2_experts_bias, fc3_experts_bias)
        layers = [(None if w is None else wide(b, w), bias) for w, bias in zip(weights, biases, strict=True)]
        return self.mix(b, input, self.shares(b, router_probs), layers)


class QMoE(Experts):
    """A mixture of experts whose weights are integers of 2, 4 or 8 bits, with a scale for each row or block of it."""

    accuracy_level: int = 0
    block_size: int | None = None
    expert_weight_bits: int = 4
    fc1_expert_weight_bits: int | None = None
    fc2_expert_weight_bits: int | None = None
    fc3_expert_weight_bits: int | None = None
    quant_type: str = "int"
    weights_prepacked: int = -1

    def expand(
        self,
        b: Builder,
        input: Value,
        router_probs: Value,
        fc1_experts_weights: Value,
        fc1_scales: Value | None = None,
        fc1_experts_bias: Value | None = None,
        fc2_experts_weights: Value | None = None,
        fc2_scales: Value | None = None,
        fc2_experts_bias: Value | None = None,
        fc3_experts_weights: Value | None = None,
        fc3_scales: Value | None = None,
        fc3_experts_bias: Value | None = None,
        fc1_zero_points: Value | None = None,
        fc2_zero_points: Value | None = None,
        fc3_zero_points: Value | None = None,
        router_weights: Value | None = None,
        fc1_global_scale: Value | None = None,
        fc2_global_scale: Value | None = None,
        fc1_act_scale: Value | None = None,
        fc2_act_scale: Value | None = None,
        fc1_act_block_scale: Value | None = None,
        fc2_act_block_scale: Value | None = None,
    ) -> Value:
        if self.quant_type != "int" or self.weights_prepacked == 1:
            raise UnsupportedError(
                f"QMoE with quant_type={self.quant_type!r} and weights_prepacked={self.weights_prepacked}: ONNX "
                "Runtime's CPU kernel, too, takes integers only, and none that are prepacked for a GPU"
            )
        groups = (
            (fc1_experts_weights, fc1_scales, fc1_zero_points, self.fc1_expert_weight_bits, fc1_experts_bias),
            (fc2_experts_weights, fc2_scales, fc2_zero_points, self.fc2_expert_weight_bits, fc2_experts_bias),
            (fc3_experts_weights, fc3_scales, fc3_zero_points, self.fc3_expert_weight_bits, fc3_experts_bias),
        )
        dtype = wide_dtype(input.dtype)
        layers = [
            (None, None) if w is None or step is None else (self._weights(b, w, step, zero, bits, dtype), bias)
            for w, step, zero, bits, bias in groups
        ]
        return self.mix(b, input, self._shares(b, router_probs, router_weights), layers)

    def _shares(self, b: Builder, router_probs: Value, router_weights: Value | None) -> Value:
        """The shares of the best experts: relative to each other by their scores, or taken from other weights."""
        logits = wide(b, router_probs)
        best, index = b.TopK(logits, b.constant([self.k]), outputs=2)
        if router_weights is None:
            return scattered(b, logits, index, b.Softmax(best, axis=1))
        best = b.GatherElements(wide(b, router_weights), index, axis=1)
        if self.normalize_routing_weights:
            best = best / b.ReduceSum(best, [1], keepdims=1)
        return scattered(b, logits, index, best)

    def _weights(
        self, b: Builder, packed: Value, scales: Value, zero_points: Value | None, own_bits: int | None, dtype: DType
    ) -> Value:
        """The weights [experts, outputs, inputs]; the inputs are packed, and so are the zero points."""
        bits = own_bits or self.expert_weight_bits
        if bits not in (2, 4, 8) or packed.dtype != UINT8:
            raise ShapeError(f"weights of {bits} bits in {packed.dtype}, expected 2, 4 or 8 bits in uint8")
        numbers, steps = cast(b, unpack_bits(b, packed, bits), dtype), cast(b, scales, dtype)
        zeros = b.constant(1 << (bits - 1), dtype)
        if zero_points is not None:
            whole = unpack_bits(b, zero_points, bits)
            zeros = cast(b, b.Slice(whole, [0], b.Shape(scales, start=-1), [-1]), dtype)
        return (numbers - self._spread(b, zeros, numbers)) * self._spread(b, steps, numbers)

    def _spread(self, b: Builder, parameter: Value, numbers: Value) -> Value:
        """What belongs to rows or to blocks of rows, for each number."""
        if parameter.rank < 3:
            return b.Unsqueeze(parameter, [2]) if parameter.rank == 2 else parameter
        place = b.Range(b.constant(np.int64(0)), b.Squeeze(b.Shape(numbers, start=2), [0]), b.constant(np.int64(1)))
        count, blocks = b.Shape(numbers, start=2), b.Shape(parameter, start=2)
        return b.Gather(parameter, b.Div(place, b.Div(count, blocks)), axis=2)
