"""Mixtures of experts of ONNX Runtime (domain com.microsoft): every word goes through a few of many small networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import ClassVar, TypeAlias

import numpy as np

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import UINT8, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Op
from intaglio.ops.contrib.fused import DOMAIN, unpack_bits
from intaglio.ops.shared.operand import cast, wide

Product: TypeAlias = Callable[[Builder, Value, Value, int], Value]
"""Rows, each as often as the last argument says, times the weights of the experts in a list: see `ExpertMatMul`."""

Layer: TypeAlias = tuple[Product | None, Value | None]
"""The product with a layer of all experts, and their biases."""

Chosen: TypeAlias = tuple[Value, Value]
"""The shares of each word's experts, and the numbers of these, both [words, k]."""


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

    def mix(self, b: Builder, input: Value, chosen: Chosen, layers: Sequence[Layer]) -> Value:
        """The sum over a word's experts of their output times their share; `layers` are the three with their biases."""
        x = b.Reshape(wide(b, input), b.Concat(b.constant([-1]), b.Shape(input, start=-1), axis=0))
        shares, index = chosen[0], b.Reshape(chosen[1], [-1])
        first, second, third = layers
        y = _layer(b, self._activated(b, x, index, first, third), index, second)
        parts = b.Reshape(y, b.Concat(b.constant([-1, self.k]), b.Shape(y, start=1), axis=0))
        total = _total(b, parts, b.Unsqueeze(shares, [2]), self.k)
        return b.Reshape(cast(b, total, input.dtype), b.Shape(input))

    def chosen(self, b: Builder, router_probs: Value) -> Chosen:
        """The `k` best experts of each word, and how much of each it gets."""
        logits = wide(b, router_probs)
        best, index = b.TopK(logits, b.constant([self.k]), outputs=2)
        if self.normalize_routing_weights:
            return b.Softmax(best, axis=1), index
        return b.GatherElements(b.Softmax(logits, axis=1), index, axis=1), index

    def _activated(self, b: Builder, x: Value, index: Value, first: Layer, third: Layer) -> Value:
        """The hidden layers of all words' experts, [words * k, size]."""
        y = _layer(b, x, index, first, self.k)
        if self.activation_type == "swiglu":
            gate, linear = self._halves(b, y) if third[0] is None else (y, _layer(b, x, index, third, self.k))
            return self._gated(b, gate, linear)
        functions = {
            "relu": b.Relu, "gelu": partial(b.Gelu, approximate="tanh"), "silu": b.Swish, "identity": b.Identity
        }  # fmt: skip
        if self.activation_type not in functions:
            raise ShapeError(f"activation_type is {self.activation_type!r}, expected swiglu or {', '.join(functions)}")
        y = functions[self.activation_type](y)
        return y if third[0] is None else y * _layer(b, x, index, third, self.k)

    def _halves(self, b: Builder, y: Value) -> tuple[Value, Value]:
        """What is gated by what, where both come from one layer: side by side, or one by one in turn."""
        if self.swiglu_fusion == 2:
            return b.Split(y, num_outputs=2, axis=1, outputs=2)
        end = np.iinfo(np.int64).max
        return b.Slice(y, [0], [end], [1], [2]), b.Slice(y, [1], [end], [1], [2])

    def _gated(self, b: Builder, gate: Value, linear: Value) -> Value:
        if self.swiglu_limit is not None:
            gate = b.Clip(gate, None, self.swiglu_limit)
            linear = b.Clip(linear, -self.swiglu_limit, self.swiglu_limit)
        return b.Swish(gate, alpha=self.activation_alpha) * (linear + self.activation_beta)


def _layer(b: Builder, x: Value, index: Value, layer: Layer, repeats: int = 1) -> Value:
    """Words times the weights of their experts, plus the bias of these."""
    product, bias = layer
    if product is None:
        raise ShapeError("the input 'fc2_experts_weights' is missing")
    y = product(b, x, index, repeats)
    return y if bias is None else y + b.Gather(wide(b, bias), index, axis=0)


ADDED_ONE_BY_ONE = 8
"""So few experts of a word are added one after the other, which is one pass over memory."""


def _total(b: Builder, parts: Value, shares: Value, count: int) -> Value:
    """The sum of [words, count, size] times [words, count, 1] over the middle axis."""
    if not 1 <= count <= ADDED_ONE_BY_ONE:
        return b.ReduceSum(parts * shares, [1], keepdims=0)
    pairs = [[b.Slice(value, [i], [i + 1], [1]) for value in (parts, shares)] for i in range(count)]
    return reduce(lambda total, pair: total + pair, [part * share for part, share in pairs])


class ExpertMatMul(Op):
    """Row i of the result is row i / `copies` of A by the transposed weights, of [experts, N, K], of expert index[i].

    Every row is multiplied by the weights of every expert here; a target may have a kernel that does only what counts.
    """

    domain: ClassVar[str] = "intaglio"
    copies: int = 1

    def expand(self, b: Builder, A: Value, weights: Value, index: Value) -> Value:
        wide_weights = cast(b, weights, A.dtype)
        products = b.MatMul(A, b.Transpose(wide_weights, perm=(0, 2, 1)))
        return chosen_rows(b, products, index, self.copies)


def chosen_rows(b: Builder, products: Value, index: Value, repeats: int) -> Value:
    """Of products [experts, rows, N], those of the experts that each row has, as [rows * repeats, N]."""
    experts = b.Range(
        b.constant(np.int64(0)), b.Squeeze(b.Shape(products, start=0, end=1), [0]), b.constant(np.int64(1))
    )
    is_chosen = b.Equal(b.Reshape(index, [1, -1, repeats, 1]), b.Reshape(experts, [-1, 1, 1, 1]))
    rows = b.Where(is_chosen, b.Unsqueeze(products, [2]), b.constant(0, products.dtype))
    total = b.ReduceSum(rows, [0], keepdims=0)
    return b.Reshape(total, b.Concat(b.constant([-1]), b.Shape(products, start=2), axis=0))


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
        layers = [(None if w is None else _plain_product(w), bias) for w, bias in zip(weights, biases, strict=True)]
        return self.mix(b, input, self.chosen(b, router_probs), layers)


def _plain_product(weights: Value) -> Product:
    def product(b: Builder, x: Value, index: Value, repeats: int) -> Value:
        return b.add(ExpertMatMul(copies=repeats), [x, weights, index])[0]

    return product


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
        layers = [
            (None, None) if w is None or step is None else (self._product(w, step, zero, bits), bias)
            for w, step, zero, bits, bias in groups
        ]
        return self.mix(b, input, self._chosen(b, router_probs, router_weights), layers)

    def _chosen(self, b: Builder, router_probs: Value, router_weights: Value | None) -> Chosen:
        """The best experts with shares relative to each other by their scores, or taken from other weights."""
        best, index = b.TopK(wide(b, router_probs), b.constant([self.k]), outputs=2)
        if router_weights is None:
            return b.Softmax(best, axis=1), index
        best = b.GatherElements(wide(b, router_weights), index, axis=1)
        return best / b.ReduceSum(best, [1], keepdims=1) if self.normalize_routing_weights else best, index

    def _product(self, packed: Value, scales: Value, zero_points: Value | None, own_bits: int | None) -> Product:
        bits = own_bits or self.expert_weight_bits
        if bits not in (2, 4, 8) or packed.dtype != UINT8:
            raise ShapeError(f"weights of {bits} bits in {packed.dtype}, expected 2, 4 or 8 bits in uint8")

        def product(b: Builder, x: Value, index: Value, repeats: int) -> Value:
            return b.add(BlockExpertMatMul(bits=bits, copies=repeats), [x, packed, index, scales, zero_points])[0]

        return product


class BlockExpertMatMul(Op):
    """`ExpertMatMul` by weights [experts, N, K] of few bits, packed along K, with a scale for each row or block."""

    domain: ClassVar[str] = "intaglio"
    bits: int
    copies: int = 1

    def expand(
        self, b: Builder, A: Value, packed: Value, index: Value, scales: Value, zero_points: Value | None = None
    ) -> Value:
        weights = self.weights(b, packed, scales, zero_points, A.dtype)
        return b.add(ExpertMatMul(copies=self.copies), [A, weights, index])[0]

    def weights(self, b: Builder, packed: Value, scales: Value, zero_points: Value | None, dtype: DType) -> Value:
        """The weights as numbers of a type, [experts, N, K]; zero points are packed as weights are."""
        bits = self.bits
        numbers, steps = cast(b, unpack_bits(b, packed, bits), dtype), cast(b, scales, dtype)
        zeros = b.constant(1 << (bits - 1), dtype)
        if zero_points is not None:
            whole = unpack_bits(b, zero_points, bits)
            zeros = cast(b, b.Slice(whole, [0], b.Shape(scales, start=-1), [-1]), dtype)
        return (numbers - _spread(b, zeros, numbers)) * _spread(b, steps, numbers)


def _spread(b: Builder, parameter: Value, numbers: Value) -> Value:
    """What belongs to rows or to blocks of rows, for each number."""
    if parameter.rank < 3:
        return b.Unsqueeze(parameter, [2]) if parameter.rank == 2 else parameter
    place = b.Range(b.constant(np.int64(0)), b.Squeeze(b.Shape(numbers, start=2), [0]), b.constant(np.int64(1)))
    count, blocks = b.Shape(numbers, start=2), b.Shape(parameter, start=2)
    return b.Gather(parameter, b.Div(place, b.Div(count, blocks)), axis=2)
