"""Quantized operators of ONNX Runtime (domain com.microsoft).

Most of them mean: take the numbers out of their quantized form, compute in single precision, quantize the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT32, UINT8, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Op, Rows
from intaglio.ops import quantize
from intaglio.ops.contrib.fused import (
    DOMAIN,
    TINY,
    EmbedLayerNormalization,
    channels_first,
    channels_last,
    needed,
    unpack_bits,
)
from intaglio.ops.quantize import ConvolutionAttributes, per_column, per_row, shifted
from intaglio.ops.shared.indices import resolve_axis
from intaglio.ops.shared.operand import cast, wide_dtype


class QuantizeLinear(Op):
    """x / y_scale, rounded to even, plus y_zero_point, limited to the range of the output type."""

    no_gradient = "it rounds; with `straight_through` it counts as if it did not"
    domain: ClassVar[str] = DOMAIN
    axis: int | None = None

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return (given["y_zero_point"].dtype if "y_zero_point" in given else UINT8,)

    def expand(self, b: Builder, x: Value, y_scale: Value, y_zero_point: Value | None = None) -> Value:
        return b.QuantizeLinear(x, y_scale, y_zero_point, axis=1 if self.axis is None else self.axis)


class DequantizeLinear(Op):
    """(x - x_zero_point) * x_scale."""

    keeps_rows = Rows.BY_AXES

    domain: ClassVar[str] = DOMAIN
    axis: int | None = None

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return (given["x_scale"].dtype,)

    def expand(self, b: Builder, x: Value, x_scale: Value, x_zero_point: Value | None = None) -> Value:
        return b.DequantizeLinear(x, x_scale, x_zero_point, axis=1 if self.axis is None else self.axis)


def requantize(b: Builder, quotient: Value, zero_point: Value | None, like: Value) -> Value:
    """Numbers that are divided by the output scale already, as elements of the type of `like`."""
    return quantize.requantize(b, quotient, None if zero_point is None else per_column(b, zero_point), like.dtype)


def difference(b: Builder, x: Value, zero_point: Value | None) -> Value:
    """x - zero_point in single precision."""
    return cast(b, shifted(b, x, None if zero_point is None else per_column(b, zero_point)), FLOAT32)


class QLinearBinary(Op, abstract=True):
    """An elementwise function of two quantized operands, quantized again."""

    domain: ClassVar[str] = DOMAIN

    def expand(
        self,
        b: Builder,
        A: Value,
        A_scale: Value,
        A_zero_point: Value | None = None,
        B: Value | None = None,
        B_scale: Value | None = None,
        B_zero_point: Value | None = None,
        C_scale: Value | None = None,
        C_zero_point: Value | None = None,
    ) -> Value:
        left, right = difference(b, A, A_zero_point), difference(b, needed(B, "B"), B_zero_point)
        scales = [per_column(b, needed(x, name)) for x, name in ((A_scale, "A_scale"), (B_scale, "B_scale"))]
        quotient = self.combine(b, left, right, scales, per_column(b, needed(C_scale, "C_scale")))
        return requantize(b, quotient, C_zero_point, A)

    def combine(self, b: Builder, left: Value, right: Value, scales: list[Value], scale: Value) -> Value:
        """The result divided by the output scale."""
        raise NotImplementedError


class QLinearAdd(QLinearBinary):
    """The sum of two quantized tensors, quantized again; the ratios of the scales are rounded to single precision."""

    no_gradient = "it computes with quantized integers"

    def combine(self, b: Builder, left: Value, right: Value, scales: list[Value], scale: Value) -> Value:
        # The maximum changes nothing, but keeps a compiler from fusing a product to the sum, which would round it less.
        lowest = b.constant(np.finfo(np.float32).min, FLOAT32)
        return b.Max(left * (scales[0] / scale), lowest) + b.Max(right * (scales[1] / scale), lowest)


class QLinearMul(QLinearBinary):
    """The product of two quantized tensors, quantized again."""

    no_gradient = "it computes with quantized integers"

    def combine(self, b: Builder, left: Value, right: Value, scales: list[Value], scale: Value) -> Value:
        return left * right * (scales[0] * scales[1] / scale)


class QLinearUnary(Op, abstract=True):
    """An elementwise function of a quantized operand, quantized again."""

    domain: ClassVar[str] = DOMAIN

    def expand(
        self,
        b: Builder,
        X: Value,
        X_scale: Value,
        X_zero_point: Value | None = None,
        Y_scale: Value | None = None,
        Y_zero_point: Value | None = None,
    ) -> Value:
        x = difference(b, X, X_zero_point) * per_column(b, X_scale)
        return requantize(b, self.apply(b, x) / per_column(b, needed(Y_scale, "Y_scale")), Y_zero_point, X)

    def apply(self, b: Builder, x: Value) -> Value:
        """The function of the numbers."""
        raise NotImplementedError


class QLinearSigmoid(QLinearUnary):
    """The sigmoid of a quantized tensor, quantized again."""

    no_gradient = "it computes with quantized integers"

    def apply(self, b: Builder, x: Value) -> Value:
        return b.Sigmoid(x)


class QLinearLeakyRelu(QLinearUnary):
    """The leaky rectifier of a quantized tensor, quantized again."""

    no_gradient = "it computes with quantized integers"
    alpha: float = float(np.float32(0.01))

    def apply(self, b: Builder, x: Value) -> Value:
        return b.LeakyRelu(x, alpha=self.alpha)


class QLinearGlobalAveragePool(Op):
    """The mean over all places of each channel of a quantized tensor, quantized again."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN
    channels_last: int = 0

    def expand(
        self, b: Builder, X: Value, x_scale: Value, x_zero_point: Value, y_scale: Value, y_zero_point: Value
    ) -> Value:
        axes = list(range(1, X.rank - 1)) if self.channels_last else list(range(2, X.rank))
        mean = b.ReduceMean(difference(b, X, x_zero_point), axes, keepdims=1)
        factor = per_column(b, x_scale) / per_column(b, y_scale)
        return requantize(b, mean * factor, y_zero_point, X)


class QLinearAveragePool(Op):
    """The mean of each window of a quantized tensor, quantized again."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    channels_last: int = 0
    count_include_pad: int = 0
    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def expand(
        self,
        b: Builder,
        X: Value,
        x_scale: Value,
        x_zero_point: Value | None = None,
        y_scale: Value | None = None,
        y_zero_point: Value | None = None,
    ) -> Value:
        names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
        x = difference(b, X, x_zero_point) * per_column(b, x_scale)
        y = b.AveragePool(channels_first(b, x) if self.channels_last else x, **{n: getattr(self, n) for n in names})
        y = channels_last(b, y) if self.channels_last else y
        return requantize(b, y / per_column(b, needed(y_scale, "y_scale")), y_zero_point, X)


class QLinearReduceMean(Op):
    """The mean of a quantized tensor over some axes, quantized again."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN
    axes: tuple[int, ...]
    keepdims: int

    def expand(
        self,
        b: Builder,
        data: Value,
        data_scale: Value,
        data_zero_point: Value | None = None,
        reduced_scale: Value | None = None,
        reduced_zero_point: Value | None = None,
    ) -> Value:
        mean = b.ReduceMean(difference(b, data, data_zero_point), list(self.axes), keepdims=self.keepdims)
        factor = per_column(b, data_scale) / per_column(b, needed(reduced_scale, "reduced_scale"))
        return requantize(b, mean * factor, reduced_zero_point, data)


class QLinearConv(ConvolutionAttributes):
    """ONNX's QLinearConv, whose images may have their channels last."""

    keeps_rows = Rows.FIRST

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN
    channels_last: int = 0

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return (given["y_zero_point"].dtype,)

    def expand(
        self,
        b: Builder,
        x: Value,
        x_scale: Value,
        x_zero_point: Value,
        w: Value,
        w_scale: Value,
        w_zero_point: Value,
        y_scale: Value,
        y_zero_point: Value,
        B: Value | None = None,
    ) -> Value:
        first = channels_first(b, x) if self.channels_last else x
        rest = (x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B)
        y = b.QLinearConv(first, *rest, **self.convolution())
        return channels_last(b, y) if self.channels_last else y


class QEmbedLayerNormalization(Op):
    """EmbedLayerNormalization of quantized tables, scale and bias; without the sum of the embeddings."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("layernorm_out", "mask_index_out")
    epsilon: float = TINY

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return FLOAT32, INT32

    def expand(
        self,
        b: Builder,
        input_ids: Value,
        segment_ids: Value | None = None,
        word_embedding_quant: Value | None = None,
        position_embedding_quant: Value | None = None,
        segment_embedding: Value | None = None,
        gamma_quant: Value | None = None,
        beta_quant: Value | None = None,
        mask: Value | None = None,
        word_embedding_scale: Value | None = None,
        position_embedding_scale: Value | None = None,
        segment_embedding_scale: Value | None = None,
        gamma_scale: Value | None = None,
        beta_scale: Value | None = None,
        word_embedding_zero_point: Value | None = None,
        position_embedding_zero_point: Value | None = None,
        segment_embedding_zero_point: Value | None = None,
        gamma_zero_point: Value | None = None,
        beta_zero_point: Value | None = None,
    ) -> tuple[Value, ...]:
        triples = (
            (word_embedding_quant, word_embedding_scale, word_embedding_zero_point),
            (position_embedding_quant, position_embedding_scale, position_embedding_zero_point),
            (segment_embedding, segment_embedding_scale, segment_embedding_zero_point),
            (gamma_quant, gamma_scale, gamma_zero_point),
            (beta_quant, beta_scale, beta_zero_point),
        )
        tables = [
            None if x is None or step is None else difference(b, x, zero) * per_column(b, step)
            for x, step, zero in triples
        ]
        y, counts, _ = b.apply(
            EmbedLayerNormalization, input_ids, segment_ids, *tables, mask, epsilon=self.epsilon, outputs=3
        )
        return y, counts


class QLinearConcat(Op):
    """Quantized tensors joined along an axis; the inputs are triples of tensor, scale and zero point."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN
    axis: int

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return (given["Y_zero_point"].dtype,)

    def expand(self, b: Builder, Y_scale: Value, Y_zero_point: Value, *inputs: Value) -> Value:
        triples = zip(inputs[0::3], inputs[1::3], inputs[2::3], strict=True)
        scale = per_column(b, Y_scale)
        parts = [difference(b, x, zero) * per_column(b, step) / scale for x, step, zero in triples]
        return b.Concat(*(requantize(b, part, Y_zero_point, Y_zero_point) for part in parts), axis=self.axis)


class QLinearSoftmax(Op):
    """The softmax of a quantized tensor, quantized again; over all axes from `axis` on where `opset` is below 13."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN
    axis: int = -1
    opset: int

    def expand(
        self,
        b: Builder,
        X: Value,
        X_scale: Value,
        x_zero_point: Value | None = None,
        y_scale: Value | None = None,
        y_zero_point: Value | None = None,
    ) -> Value:
        x = difference(b, X, x_zero_point) * per_column(b, X_scale)
        y = b.Softmax(x, axis=self.axis) if self.opset >= 13 else self._flat_softmax(b, x)
        return requantize(b, y / per_column(b, needed(y_scale, "y_scale")), y_zero_point, X)

    def _flat_softmax(self, b: Builder, x: Value) -> Value:
        axes = list(range(resolve_axis(self.axis, x.rank), x.rank))
        weight = b.Exp(x - b.ReduceMax(x, axes, keepdims=1))
        return weight / b.ReduceSum(weight, axes, keepdims=1)


class QLinearWhere(Op):
    """The element of X where the condition is true, else that of Y, quantized again."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return (given["X"].dtype,)

    def expand(
        self,
        b: Builder,
        condition: Value,
        X: Value,
        x_scale: Value,
        x_zero_point: Value,
        Y: Value,
        y_scale: Value,
        y_zero_point: Value,
        z_scale: Value,
        z_zero_point: Value,
    ) -> Value:
        x = difference(b, X, x_zero_point) * per_column(b, x_scale)
        y = difference(b, Y, y_zero_point) * per_column(b, y_scale)
        return requantize(b, b.Where(condition, x, y) / per_column(b, z_scale), z_zero_point, X)


class GatherBlockQuantized(Op):
    """Gather of data that is quantized in blocks, taken out of its quantized form; zeros for an index out of range.

    Bytes hold 8 / `bits` numbers along the last axis, the lowest bits first, with half the range as default zero point.
    Small floats have no zero points, and a `block_size` of 0 means one block.
    """

    domain: ClassVar[str] = DOMAIN
    bits: int = 4
    block_size: int = 128
    gather_axis: int = 0
    quantize_axis: int = 1

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return (given["scales"].dtype,)

    def expand(self, b: Builder, data: Value, indices: Value, scales: Value, zero_points: Value | None = None) -> Value:
        if self.bits not in (2, 4, 8) or self.block_size < (0 if data.dtype.is_float else 1):
            raise ShapeError(f"bits={self.bits} and block_size={self.block_size} do not fit data of {data.dtype}")
        axis, blocks = (resolve_axis(number, data.rank) for number in (self.gather_axis, self.quantize_axis))
        size = b.Cast(b.Squeeze(b.Shape(data, start=axis, end=axis + 1), [0]), to=indices.dtype.number)
        is_inside = b.And(b.GreaterOrEqual(indices, -size), b.Less(indices, size))
        index = b.Where(is_inside, indices, b.constant(0, indices.dtype))
        if axis == blocks:
            numbers = b.Gather(self._numbers(b, data, scales, zero_points, blocks), index, axis=axis)
        else:
            rows, steps = (self._picked(b, x, index, axis) for x in (data, scales))
            zeros = None if zero_points is None else self._picked(b, zero_points, index, axis)
            numbers = self._numbers(b, rows, steps, zeros, blocks if blocks < axis else blocks + indices.rank - 1)
        behind = list(range(indices.rank, indices.rank + data.rank - 1 - axis))
        mask = b.Unsqueeze(is_inside, behind) if behind else is_inside
        return b.Where(mask, numbers, b.constant(0, scales.dtype))

    def _picked(self, b: Builder, x: Value, index: Value, axis: int) -> Value:
        """What belongs to the rows of each index; a single row belongs to all."""
        return b.Gather(x, index * 0 if x.shape[axis] == 1 else index, axis=axis)

    def _numbers(self, b: Builder, data: Value, scales: Value, zero_points: Value | None, axis: int) -> Value:
        """(data - zero_points) * scales, where the latter two have one element for each block along the axis."""
        dtype, is_packed = wide_dtype(scales.dtype), data.dtype == UINT8
        whole = unpack_bits(b, data, self.bits) if is_packed else data
        number = cast(b, whole, dtype)
        if zero_points is not None:
            zeros = unpack_bits(b, zero_points, self.bits) if is_packed else zero_points
            zeros = b.Slice(zeros, [0], b.Shape(scales, start=-1), [-1]) if is_packed else zeros
            number = number - cast(b, self._spread(b, zeros, whole, axis), dtype)
        elif is_packed:
            number = number - (1 << (self.bits - 1))
        return cast(b, number * cast(b, self._spread(b, scales, whole, axis), dtype), scales.dtype)

    def _spread(self, b: Builder, parameter: Value, x: Value, axis: int) -> Value:
        if self.block_size == 0:
            return parameter
        count = b.Squeeze(b.Shape(x, start=axis, end=axis + 1), [0])
        place = b.Range(b.constant(np.int64(0)), count, b.constant(np.int64(1)))
        return b.Gather(parameter, b.Div(place, self.block_size), axis=axis)


class DynamicQuantizeMatMul(Op):
    """A, quantized to bytes by its own range, times the quantized B, in single precision."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN

    def expand(
        self,
        b: Builder,
        A: Value,
        B: Value,
        b_scale: Value,
        b_zero_point: Value | None = None,
        bias: Value | None = None,
    ) -> Value:
        result = quantized_product(b, A, B, b_scale, b_zero_point)
        return result if bias is None else result + bias


def quantized_product(b: Builder, x: Value, weights: Value, scale: Value, zero_point: Value | None) -> Value:
    """x, quantized to bytes by its own range, times quantized weights, in single precision."""
    data, step, zero = b.DynamicQuantizeLinear(x, outputs=3)
    product = cast(b, b.MatMulInteger(data, weights, zero, zero_point), FLOAT32)
    return product * (step * per_column(b, scale))


class MatMulIntegerToFloat(Op):
    """The product of two quantized matrices in floating point, plus a bias."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return (given["a_scale"].dtype,)

    def expand(
        self,
        b: Builder,
        A: Value,
        B: Value,
        a_scale: Value,
        b_scale: Value,
        a_zero_point: Value | None = None,
        b_zero_point: Value | None = None,
        bias: Value | None = None,
    ) -> Value:
        product = cast(b, b.MatMulInteger(A, B, a_zero_point, b_zero_point), a_scale.dtype)
        result = product * (per_row(b, a_scale, A) * per_column(b, b_scale))
        return result if bias is None else result + bias


class QGemm(Op):
    """alpha * A' @ B' + C of quantized matrices; in single precision where no output scale is given."""

    no_gradient = "it computes with quantized integers"
    domain: ClassVar[str] = DOMAIN
    alpha: float = 1.0
    transA: int = 0
    transB: int = 0

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return (given["y_zero_point"].dtype if "y_zero_point" in given else FLOAT32,)

    def expand(
        self,
        b: Builder,
        A: Value,
        a_scale: Value,
        a_zero_point: Value,
        B: Value,
        b_scale: Value,
        b_zero_point: Value,
        C: Value | None = None,
        y_scale: Value | None = None,
        y_zero_point: Value | None = None,
    ) -> Value:
        left = b.Transpose(A, perm=(1, 0)) if self.transA else A
        right = b.Transpose(B, perm=(1, 0)) if self.transB else B
        total = b.MatMulInteger(left, right, a_zero_point, b_zero_point)
        total = total if C is None else total + cast(b, C, INT32)
        factor = per_column(b, a_scale) * per_column(b, b_scale) * self.alpha
        if y_scale is None:
            return cast(b, total, FLOAT32) * factor
        like = needed(y_zero_point, "y_zero_point")
        return requantize(b, cast(b, total, FLOAT32) * (factor / per_column(b, y_scale)), like, like)
