"""Fused operators of ONNX Runtime (domain com.microsoft): activations, normalization, products.

Each is an expansion into standard operators; ONNX Runtime is the judge of what it means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT32, INT64, UINT8, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Op, Rows
from intaglio.ops.quantize import ConvolutionAttributes
from intaglio.ops.shared.operand import EPSILON, cast, wide_dtype

DOMAIN = "com.microsoft"
TINY = float(np.float32(1e-12))


def needed(value: Value | None, name: str) -> Value:
    """An input that is required although it stands behind optional ones."""
    if value is None:
        raise ShapeError(f"the input {name!r} is missing")
    return value


class Gelu(Op):
    """x times the normal distribution function of x."""

    keeps_rows = Rows.BY_AXES

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, X: Value) -> Value:
        return b.Gelu(X)


class BiasGelu(Op):
    """Gelu of the sum of A and the bias B."""

    keeps_rows = Rows.BY_AXES

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, A: Value, B: Value) -> Value:
        return b.Gelu(A + B)


class FastGelu(Op):
    """Gelu in its tanh approximation, of the sum of X and the bias."""

    keeps_rows = Rows.BY_AXES

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, X: Value, bias: Value | None = None) -> Value:
        return b.Gelu(X if bias is None else X + bias, approximate="tanh")


class QuickGelu(Op):
    """x * sigmoid(alpha * x)."""

    keeps_rows = Rows.BY_AXES

    domain: ClassVar[str] = DOMAIN
    alpha: float = float(np.float32(1.702))

    def expand(self, b: Builder, X: Value) -> Value:
        return b.Swish(X, alpha=self.alpha)


class SimplifiedLayerNormalization(Op):
    """X divided by its root mean square over the axes from `axis` on, then scaled; ONNX Runtime's, in ONNX's domain."""

    keeps_rows = Rows.BY_AXES

    output_names: ClassVar[tuple[str, ...]] = ("Y", "inv_std_var")
    axis: int = -1
    epsilon: float = EPSILON
    stash_type: int = 1

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return given["X"].dtype, FLOAT32

    def expand(self, b: Builder, X: Value, scale: Value) -> tuple[Value, ...]:
        y = b.RMSNormalization(X, scale, axis=self.axis, epsilon=self.epsilon, stash_type=self.stash_type)
        axis = self.axis + X.rank if self.axis < 0 else self.axis
        return y, inverse_root_mean_square(b, X, list(range(axis, X.rank)), self.epsilon)


def inverse_root_mean_square(b: Builder, x: Value, axes: list[int], epsilon: float) -> Value:
    """1 / sqrt(mean(x * x) + epsilon) in single precision."""
    wide = cast(b, x, FLOAT32)
    return b.Reciprocal(b.Sqrt(b.ReduceMean(wide * wide, axes, keepdims=1) + epsilon))


class SkipLayerNormalization(Op):
    """Layer normalization of the sum of input, skip and bias over the last axis; also the sum itself."""

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("output", "mean", "inv_std_var", "input_skip_bias_sum")
    epsilon: float = TINY

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return given["input"].dtype, FLOAT32, FLOAT32, given["input"].dtype

    def expand(
        self, b: Builder, input: Value, skip: Value, gamma: Value, beta: Value | None = None, bias: Value | None = None
    ) -> tuple[Value, ...]:
        total = input + skip if bias is None else input + skip + bias
        y, mean, inverse = b.LayerNormalization(total, gamma, beta, axis=-1, epsilon=self.epsilon, outputs=3)
        return y, mean, inverse, total


class SkipSimplifiedLayerNormalization(Op):
    """The sum of input, skip and bias divided by its root mean square over the last axis; also the sum itself."""

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("output", "mean", "inv_std_var", "input_skip_bias_sum")
    epsilon: float = TINY

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return given["input"].dtype, FLOAT32, FLOAT32, given["input"].dtype

    def expand(
        self, b: Builder, input: Value, skip: Value, gamma: Value, bias: Value | None = None
    ) -> tuple[Value, ...]:
        total = input + skip if bias is None else input + skip + bias
        y = b.RMSNormalization(total, gamma, axis=-1, epsilon=self.epsilon)
        inverse = inverse_root_mean_square(b, total, [total.rank - 1], self.epsilon)
        mean = b.ReduceMean(cast(b, total, FLOAT32), [total.rank - 1], keepdims=1)
        return y, mean, inverse, total


class EmbedLayerNormalization(Op):
    """Layer normalization of the sum of word, position and segment embeddings; also the number of words per row."""

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("output", "mask_index", "embedding_sum")
    epsilon: float = TINY
    mask_index_type: int | None = None

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return given["word_embedding"].dtype, INT32, given["word_embedding"].dtype

    def expand(
        self,
        b: Builder,
        input_ids: Value,
        segment_ids: Value | None = None,
        word_embedding: Value | None = None,
        position_embedding: Value | None = None,
        segment_embedding: Value | None = None,
        gamma: Value | None = None,
        beta: Value | None = None,
        mask: Value | None = None,
        position_ids: Value | None = None,
    ) -> tuple[Value, ...]:
        table = needed(position_embedding, "position_embedding")
        if position_ids is None:
            position = b.Slice(table, [0], b.Shape(input_ids, start=1, end=2), [0])
        else:
            position = b.Gather(table, position_ids, axis=0)
        total = b.Gather(needed(word_embedding, "word_embedding"), input_ids, axis=0) + position
        if segment_ids is not None and segment_embedding is not None:
            total = total + b.Gather(segment_embedding, segment_ids, axis=0)
        y = b.LayerNormalization(total, needed(gamma, "gamma"), beta, axis=-1, epsilon=self.epsilon)
        return y, _word_counts(b, input_ids, mask), total


def _word_counts(b: Builder, input_ids: Value, mask: Value | None) -> Value:
    if mask is None:
        return b.Expand(b.constant(0, INT32), b.Shape(input_ids, start=0, end=1))
    return b.ReduceSum(cast(b, b.Equal(mask, 1), INT32), [1], keepdims=0)


class FusedMatMul(Op):
    """alpha times the matrix product of A and B, each transposed on demand."""

    keeps_rows = Rows.BY_AXES

    domain: ClassVar[str] = DOMAIN
    alpha: float = 1.0
    transA: int = 0
    transB: int = 0
    transBatchA: int = 0
    transBatchB: int = 0

    def expand(self, b: Builder, A: Value, B: Value) -> Value:
        left = _turned(b, A, self.transA, self.transBatchA)
        product = b.MatMul(left, _turned(b, B, self.transB, self.transBatchB))
        return product if self.alpha == 1 else product * self.alpha


class TransposeMatMul(Op):
    """The older name of FusedMatMul."""

    domain: ClassVar[str] = DOMAIN
    alpha: float = 1.0
    transA: int = 0
    transB: int = 0

    def expand(self, b: Builder, A: Value, B: Value) -> Value:
        return b.apply(FusedMatMul, A, B, alpha=self.alpha, transA=self.transA, transB=self.transB)


def _turned(b: Builder, x: Value, transpose: int, batch: int) -> Value:
    """The matrices transposed, and before that the first axis moved behind the batch axes, as asked for."""
    if x.rank < 2 or not (transpose or batch):
        return x
    order = list(range(x.rank))
    if batch and x.rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if transpose:
        order = [*order[:-2], order[-1], order[-2]]
    return b.Transpose(x, perm=tuple(order))


ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "Celu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "HardSwish": (),
    "Gelu": (),
}
"""The activations that can be fused, each with its parameters in order."""


def activate(b: Builder, x: Value, activation: str | None, parameters: dict[str, float]) -> Value:
    """The fused activation of x; x itself where none is named."""
    if not activation:
        return x
    if activation == "Clip":
        return b.Clip(x, parameters.get("alpha"), parameters.get("beta"))
    if activation not in ACTIVATIONS:
        raise UnsupportedError(f"the fused activation {activation!r} is not one of {', '.join(ACTIVATIONS)}, Clip")
    wanted = {name: parameters[name] for name in ACTIVATIONS[activation] if name in parameters}
    return getattr(b, activation)(x, **wanted)


class FusedGemm(Op):
    """An activation of alpha * A' @ B' + beta * C."""

    keeps_rows = Rows.BY_AXES

    domain: ClassVar[str] = DOMAIN
    activation: str | None = None
    activation_alpha: float | None = None
    activation_beta: float | None = None
    activation_gamma: float | None = None
    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0

    def expand(self, b: Builder, A: Value, B: Value, C: Value | None = None) -> Value:
        product = b.Gemm(A, B, C, alpha=self.alpha, beta=self.beta, transA=self.transA, transB=self.transB)
        given = {
            "alpha": self.activation_alpha,
            "beta": self.activation_beta,
            "gamma": self.activation_gamma,
        }
        return activate(b, product, self.activation, {name: n for name, n in given.items() if n is not None})


class FusedConvolution(ConvolutionAttributes, abstract=True):
    """A convolution with a sum and an activation behind it."""

    activation: str | None = None
    activation_params: tuple[float, ...] | None = None

    def finish(self, b: Builder, y: Value, addend: Value | None) -> Value:
        """The activation of the sum of what was computed and of what is added."""
        names = ACTIVATIONS.get(self.activation or "", ("alpha", "beta"))
        parameters = dict(zip(names, self.activation_params or (), strict=False))
        return activate(b, y if addend is None else y + addend, self.activation, parameters)


class FusedConv(FusedConvolution):
    """An activation of the convolution of X with W, plus Z."""

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, X: Value, W: Value, B: Value | None = None, Z: Value | None = None) -> Value:
        return self.finish(b, b.Conv(X, W, B, **self.convolution()), Z)


class MatMulNBits(Op):
    """A times the transpose of weights of few bits, which have a scale and a zero point for each block of a row."""

    keeps_rows = Rows.BY_AXES

    domain: ClassVar[str] = DOMAIN
    K: int
    N: int
    accuracy_level: int = 0
    bits: int = 4
    block_size: int
    weight_prepacked: int = 0

    def expand(
        self,
        b: Builder,
        A: Value,
        B: Value,
        scales: Value,
        zero_points: Value | None = None,
        g_idx: Value | None = None,
        bias: Value | None = None,
    ) -> Value:
        if self.bits not in (2, 4, 8) or self.weight_prepacked:
            raise UnsupportedError(
                f"MatMulNBits with bits={self.bits} and weight_prepacked={self.weight_prepacked}: ONNX Runtime's CPU "
                "kernel, too, takes weights of 2, 4 and 8 bits only, and none that are prepacked for a GPU"
            )
        if min(self.K, self.N, self.block_size) < 1:
            raise ShapeError(f"K={self.K}, N={self.N} and block_size={self.block_size} must be at least 1")
        dtype = wide_dtype(A.dtype)
        op = BlockMatMul(
            K=self.K, N=self.N, bits=self.bits, block_size=self.block_size, accuracy_level=self.accuracy_level
        )
        (product,) = b.add(op, [cast(b, A, dtype), B, scales, zero_points, g_idx])
        return cast(b, product if bias is None else product + cast(b, bias, dtype), A.dtype)


class BlockMatMul(Op):
    """What is left of MatMulNBits without its bias, in a type as wide as single precision.

    With an `accuracy_level` of 4 a compiled product may round A to bytes in blocks; the meaning stays the float one.
    """

    domain: ClassVar[str] = "intaglio"
    K: int
    N: int
    bits: int
    block_size: int
    accuracy_level: int = 0

    def expand(
        self,
        b: Builder,
        A: Value,
        B: Value,
        scales: Value,
        zero_points: Value | None = None,
        g_idx: Value | None = None,
    ) -> Value:
        blocks = -(-self.K // self.block_size)
        packed = b.Reshape(B, [self.N, blocks, self.block_size * self.bits // 8])
        numbers = cast(b, unpack_bits(b, packed, self.bits), A.dtype)
        steps = cast(b, b.Reshape(scales, [self.N, blocks]), A.dtype)
        weights = self._scaled(b, numbers, steps, self._zeros(b, A.dtype, zero_points, blocks), g_idx)
        return b.MatMul(A, b.Transpose(weights, perm=(1, 0)))

    def _zeros(self, b: Builder, dtype: DType, zero_points: Value | None, blocks: int) -> Value:
        """The zero points of all blocks, or one for all."""
        if zero_points is None:
            return b.constant(np.full((1, 1), 1 << (self.bits - 1)), dtype)
        if zero_points.dtype != UINT8:
            return cast(b, b.Reshape(zero_points, [self.N, blocks]), dtype)
        packed = b.Reshape(zero_points, [self.N, -1])
        return cast(b, b.Slice(unpack_bits(b, packed, self.bits), [0], [blocks], [1]), dtype)

    def _scaled(self, b: Builder, numbers: Value, steps: Value, zeros: Value, g_idx: Value | None) -> Value:
        """The weights [N, K]; `g_idx` names the block whose scale and zero point each of the K columns has."""
        if g_idx is None:
            weights = (numbers - b.Unsqueeze(zeros, [2])) * b.Unsqueeze(steps, [2])
            return b.Slice(b.Reshape(weights, [self.N, -1]), [0], [self.K], [1])
        columns = b.Slice(b.Reshape(numbers, [self.N, -1]), [0], [self.K], [1])
        block = b.Slice(g_idx, [0], [self.K], [0])
        own = zeros if zeros.shape[1] == 1 else b.Gather(zeros, block, axis=1)
        return (columns - own) * b.Gather(steps, block, axis=1)


def unpack_bits(b: Builder, packed: Value, bits: int) -> Value:
    """Bytes split into numbers of 2, 4 or 8 bits along the last axis, the lowest bits first."""
    if bits == 8:
        return packed
    shifts = b.constant(np.arange(0, 8, bits, dtype=np.uint8))
    parts = b.BitwiseAnd(b.BitShift(b.Unsqueeze(packed, [packed.rank]), shifts, direction="RIGHT"), (1 << bits) - 1)
    return b.Reshape(parts, [*([0] * (packed.rank - 1)), -1])


_FLOAT4 = (0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
_NORMAL4 = (
    -1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0,
    0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1,
)  # fmt: skip
FOUR_BITS = {0: (*_FLOAT4, *(-number for number in _FLOAT4)), 1: _NORMAL4}
"""What four bits mean, by `quant_type`: a small floating-point number, or a quantile of the normal distribution."""


class MatMulBnb4(Op):
    """A times weights of four bits that index a table, each block of them with the largest number it was scaled by.

    Bytes hold two weights, the first in the high bits. The weights are a matrix [N, K], transposed if `transB`.
    """

    domain: ClassVar[str] = DOMAIN
    K: int
    N: int
    block_size: int
    quant_type: int
    training_mode: int = 0
    transB: int = 1

    def expand(self, b: Builder, A: Value, B: Value, absmax: Value) -> Value:
        if self.quant_type not in FOUR_BITS or min(self.K, self.N, self.block_size) < 1:
            raise ShapeError(f"quant_type={self.quant_type}, K={self.K}, N={self.N}, block_size={self.block_size}")
        dtype, count = wide_dtype(A.dtype), self.N * self.K
        shifts = b.constant(np.array([4, 0], np.uint8))
        pairs = b.BitwiseAnd(b.BitShift(b.Reshape(B, [-1, 1]), shifts, direction="RIGHT"), 15)
        index = cast(b, b.Slice(b.Reshape(pairs, [-1]), [0], [count], [0]), INT64)
        table = b.constant(np.array(FOUR_BITS[self.quant_type], np.float32), dtype)
        block = b.constant(np.arange(count) // self.block_size)
        flat = b.Gather(table, index, axis=0) * b.Gather(cast(b, b.Reshape(absmax, [-1]), dtype), block, axis=0)
        weights = b.Reshape(flat, [self.N, self.K])
        weights = b.Transpose(weights, perm=(1, 0)) if self.transB else weights
        return cast(b, b.MatMul(cast(b, A, dtype), weights), A.dtype)


class MatMulInteger16(Op):
    """The matrix product of 16-bit integers in int32."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return (INT32,)

    def expand(self, b: Builder, A: Value, B: Value) -> Value:
        return b.MatMul(cast(b, A, INT32), cast(b, B, INT32))


class NhwcMaxPool(Op):
    """The maximum of each window, with the channels last."""

    domain: ClassVar[str] = DOMAIN
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: tuple[int, ...] | None = None
    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def expand(self, b: Builder, x: Value) -> Value:
        names = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
        given = {name: getattr(self, name) for name in names}
        return channels_last(b, b.MaxPool(channels_first(b, x), **given))


def channels_first(b: Builder, x: Value) -> Value:
    """The last axis moved to the place behind the batch."""
    return b.Transpose(x, perm=(0, x.rank - 1, *range(1, x.rank - 1)))


def channels_last(b: Builder, x: Value) -> Value:
    """The axis behind the batch moved to the end."""
    return b.Transpose(x, perm=(0, *range(2, x.rank), 1))


class RotaryEmbedding(Op):
    """Pairs of elements of each head rotated by the angle of their position.

    `scale` has no effect, as in ONNX Runtime, and neither has `is_packed_batching`, which only allows a sequence to be
    longer than the caches.
    """

    keeps_rows = Rows.FIRST

    domain: ClassVar[str] = DOMAIN
    interleaved: int = 0
    is_packed_batching: int = 0
    num_heads: int = 0
    rotary_embedding_dim: int = 0
    scale: float = 1.0

    def expand(self, b: Builder, input: Value, position_ids: Value, cos_cache: Value, sin_cache: Value) -> Value:
        heads = self.num_heads or (None if input.rank == 4 else self._count_heads(input, cos_cache))
        return b.RotaryEmbedding(
            input,
            cos_cache,
            sin_cache,
            self._positions(b, input, position_ids),
            interleaved=self.interleaved,
            num_heads=heads,
            rotary_embedding_dim=self.rotary_embedding_dim,
        )

    def _count_heads(self, input: Value, cos_cache: Value) -> int:
        width, half = input.shape[-1], cos_cache.shape[-1]
        if not isinstance(width, int) or not isinstance(half, int) or half == 0:
            raise ShapeError(f"the number of heads is not known: {input.type} with caches of {cos_cache.type}")
        return width // (2 * half)

    def _positions(self, b: Builder, input: Value, position_ids: Value) -> Value:
        """Positions for each batch and place; a single number is the position of the first place."""
        if position_ids.rank == 2:
            return position_ids
        axis = 2 if input.rank == 4 else 1
        empty = b.constant(np.zeros(0, np.int64))
        length = b.Reshape(b.Shape(input, start=axis, end=axis + 1), empty)
        places = b.Range(b.constant(np.int64(0)), length, b.constant(np.int64(1))) + position_ids
        target = b.Concat(b.Shape(input, start=0, end=1), b.constant([1]), axis=0)
        return b.Expand(b.Unsqueeze(places, [0]), target)
