"""Quantized operators of ONNX Runtime (domain com.microsoft).

Most of them mean: take the numbers out of their quantized form, compute in single precision, quantize the result.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import FLOAT32, INT32, UINT8
from intaglio.ir.graph import Value
from intaglio.ir.op import Op
from intaglio.ops.contrib import DOMAIN, channels_first, channels_last, needed, unpack_bits
from intaglio.ops.indices import resolve_axis
from intaglio.ops.operand import cast
from intaglio.ops.quantize import per_column, per_row, quantize_value, shifted


class QuantizeLinear(Op):
    """x / y_scale, rounded to even, plus y_zero_point, limited to the range of the output type."""

    domain: ClassVar[str] = DOMAIN
    axis: int | None = None

    def expand(self, b: Any, x: Value, y_scale: Value, y_zero_point: Value | None = None) -> Value:
        return b.QuantizeLinear(x, y_scale, y_zero_point, axis=1 if self.axis is None else self.axis)


class DequantizeLinear(Op):
    """(x - x_zero_point) * x_scale."""

    domain: ClassVar[str] = DOMAIN
    axis: int | None = None

    def expand(self, b: Any, x: Value, x_scale: Value, x_zero_point: Value | None = None) -> Value:
        return b.DequantizeLinear(x, x_scale, x_zero_point, axis=1 if self.axis is None else self.axis)


def requantize(b: Any, quotient: Value, zero_point: Value | None, like: Value) -> Value:
    """Numbers that are divided by the output scale already, as elements of the type of `like`."""
    zero = None if zero_point is None else cast(b, per_column(b, zero_point), FLOAT32)
    return quantize_value(b, quotient, zero, like.dtype)


def difference(b: Any, x: Value, zero_point: Value | None) -> Value:
    """x - zero_point in single precision."""
    return cast(b, shifted(b, x, None if zero_point is None else per_column(b, zero_point)), FLOAT32)


class QLinearBinary(Op, abstract=True):
    """An elementwise function of two quantized operands, quantized again."""

    domain: ClassVar[str] = DOMAIN

    def expand(
        self,
        b: Any,
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
        quotient = self.combine(left, right, scales, per_column(b, needed(C_scale, "C_scale")))
        return requantize(b, quotient, C_zero_point, A)

    def combine(self, left: Value, right: Value, scales: list[Value], scale: Value) -> Value:
        """The result divided by the output scale."""
        raise NotImplementedError


class QLinearAdd(QLinearBinary):
    """The sum of two quantized tensors, quantized again."""

    def combine(self, left: Value, right: Value, scales: list[Value], scale: Value) -> Value:
        return (left * scales[0] + right * scales[1]) / scale


class QLinearMul(QLinearBinary):
    """The product of two quantized tensors, quantized again."""

    def combine(self, left: Value, right: Value, scales: list[Value], scale: Value) -> Value:
        return left * right * (scales[0] * scales[1] / scale)


class QLinearUnary(Op, abstract=True):
    """An elementwise function of a quantized operand, quantized again."""

    domain: ClassVar[str] = DOMAIN

    def expand(
        self,
        b: Any,
        X: Value,
        X_scale: Value,
        X_zero_point: Value | None = None,
        Y_scale: Value | None = None,
        Y_zero_point: Value | None = None,
    ) -> Value:
        x = difference(b, X, X_zero_point) * per_column(b, X_scale)
        return requantize(b, self.apply(b, x) / per_column(b, needed(Y_scale, "Y_scale")), Y_zero_point, X)

    def apply(self, b: Any, x: Value) -> Value:
        """The function of the numbers."""
        raise NotImplementedError


class QLinearSigmoid(QLinearUnary):
    """The sigmoid of a quantized tensor, quantized again."""

    def apply(self, b: Any, x: Value) -> Value:
        return b.Sigmoid(x)


class QLinearLeakyRelu(QLinearUnary):
    """The leaky rectifier of a quantized tensor, quantized again."""

    alpha: float = float(np.float32(0.01))

    def apply(self, b: Any, x: Value) -> Value:
        return b.LeakyRelu(x, alpha=self.alpha)


class QLinearGlobalAveragePool(Op):
    """The mean over all places of each channel of a quantized tensor, quantized again."""

    domain: ClassVar[str] = DOMAIN
    channels_last: int = 0

    def expand(
        self, b: Any, X: Value, x_scale: Value, x_zero_point: Value, y_scale: Value, y_zero_point: Value
    ) -> Value:
        axes = list(range(1, X.rank - 1)) if self.channels_last else list(range(2, X.rank))
        mean = b.ReduceMean(difference(b, X, x_zero_point), axes, keepdims=1)
        factor = per_column(b, x_scale) / per_column(b, y_scale)
        return requantize(b, mean * factor, y_zero_point, X)


class QLinearAveragePool(Op):
    """The mean of each window of a quantized tensor, quantized again."""

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
        b: Any,
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


class QLinearConcat(Op):
    """Quantized tensors joined along an axis; the inputs are triples of tensor, scale and zero point."""

    domain: ClassVar[str] = DOMAIN
    axis: int

    def expand(self, b: Any, Y_scale: Value, Y_zero_point: Value, *inputs: Value) -> Value:
        triples = zip(inputs[0::3], inputs[1::3], inputs[2::3], strict=True)
        scale = per_column(b, Y_scale)
        parts = [difference(b, x, zero) * per_column(b, step) / scale for x, step, zero in triples]
        return b.Concat(*(requantize(b, part, Y_zero_point, Y_zero_point) for part in parts), axis=self.axis)


class QLinearSoftmax(Op):
    """The softmax of a quantized tensor, quantized again; over all axes from `axis` on where `opset` is below 13."""

    domain: ClassVar[str] = DOMAIN
    axis: int = -1
    opset: int

    def expand(
        self,
        b: Any,
        X: Value,
        X_scale: Value,
        x_zero_point: Value | None = None,
        y_scale: Value | None = None,
        y_zero_point: Value | None = None,
    ) -> Value:
        x = difference(b, X, x_zero_point) * per_column(b, X_scale)
        y = b.Softmax(x, axis=self.axis) if self.opset >= 13 else self._flat_softmax(b, x)
        return requantize(b, y / per_column(b, needed(y_scale, "y_scale")), y_zero_point, X)

    def _flat_softmax(self, b: Any, x: Value) -> Value:
        axes = list(range(resolve_axis(self.axis, x.rank), x.rank))
        weight = b.Exp(x - b.ReduceMax(x, axes, keepdims=1))
        return weight / b.ReduceSum(weight, axes, keepdims=1)


class QLinearWhere(Op):
    """The element of X where the condition is true, else that of Y, quantized again."""

    domain: ClassVar[str] = DOMAIN

    def expand(
        self,
        b: Any,
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
    """Gather of data that is quantized in blocks, taken out of its quantized form.

    Bytes hold 8 / `bits` numbers along the last axis, the lowest bits first, with half the range as default zero point.
    An index out of range is an error, as in Gather.
    """

    domain: ClassVar[str] = DOMAIN
    bits: int = 4
    block_size: int = 128
    gather_axis: int = 0
    quantize_axis: int = 1

    def expand(self, b: Any, data: Value, indices: Value, scales: Value, zero_points: Value | None = None) -> Value:
        if data.dtype.is_float or self.bits not in (2, 4, 8) or self.block_size < 1:
            raise UnsupportedError("GatherBlockQuantized is supported for integers of 2, 4 and 8 bits in blocks")
        is_packed = data.dtype == UINT8
        whole = unpack_bits(b, data, self.bits) if is_packed else data
        zeros = zero_points if zero_points is None or not is_packed else unpack_bits(b, zero_points, self.bits)
        if zeros is None and is_packed:
            zeros = b.Expand(b.constant(1 << (self.bits - 1), UINT8), b.Shape(scales))
        elif zeros is not None and is_packed:
            zeros = b.Slice(zeros, [0], b.Shape(scales, start=-1), [-1])
        axis = resolve_axis(self.quantize_axis, data.rank)
        numbers = b.DequantizeLinear(whole, scales, zeros, axis=axis, block_size=self.block_size)
        return b.Gather(numbers, indices, axis=self.gather_axis)


class DynamicQuantizeMatMul(Op):
    """A, quantized to bytes by its own range, times the quantized B, in single precision."""

    domain: ClassVar[str] = DOMAIN

    def expand(
        self,
        b: Any,
        A: Value,
        B: Value,
        b_scale: Value,
        b_zero_point: Value | None = None,
        bias: Value | None = None,
    ) -> Value:
        data, scale, zero_point = b.DynamicQuantizeLinear(A, outputs=3)
        product = cast(b, b.MatMulInteger(data, B, zero_point, b_zero_point), FLOAT32)
        result = product * (scale * per_column(b, b_scale))
        return result if bias is None else result + bias


class MatMulIntegerToFloat(Op):
    """The product of two quantized matrices in floating point, plus a bias."""

    domain: ClassVar[str] = DOMAIN

    def expand(
        self,
        b: Any,
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

    domain: ClassVar[str] = DOMAIN
    alpha: float = 1.0
    transA: int = 0
    transB: int = 0

    def expand(
        self,
        b: Any,
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


class DynamicQuantizeLSTM(Op):
    """An LSTM with quantized weights, which are taken out of their quantized form first.

    ONNX Runtime also quantizes the data of each step, which costs accuracy; here they keep theirs.
    """

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("Y", "Y_h", "Y_c")
    activation_alpha: tuple[float, ...] | None = None
    activation_beta: tuple[float, ...] | None = None
    activations: tuple[str, ...] | None = None
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int | None = None
    input_forget: int = 0

    def expand(
        self,
        b: Any,
        X: Value,
        W: Value,
        R: Value,
        B: Value | None = None,
        sequence_lens: Value | None = None,
        initial_h: Value | None = None,
        initial_c: Value | None = None,
        P: Value | None = None,
        W_scale: Value | None = None,
        W_zero_point: Value | None = None,
        R_scale: Value | None = None,
        R_zero_point: Value | None = None,
    ) -> tuple[Value, ...]:
        weights = _lstm_weights(b, W, needed(W_scale, "W_scale"), needed(W_zero_point, "W_zero_point"))
        recurrence = _lstm_weights(b, R, needed(R_scale, "R_scale"), needed(R_zero_point, "R_zero_point"))
        names = ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size")
        given = {name: getattr(self, name) for name in (*names, "input_forget")}
        inputs = (X, weights, recurrence, B, sequence_lens, initial_h, initial_c, P)
        return b.LSTM(*inputs, **given, outputs=3)


def _lstm_weights(b: Any, weights: Value, scale: Value, zero_point: Value) -> Value:
    """[directions, inputs, gates] with a scale for each direction or gate, as [directions, gates, inputs] of floats."""
    steps, zeros = (_per_gate(b, parameter) for parameter in (scale, zero_point))
    numbers = cast(b, shifted(b, weights, zeros), FLOAT32) * steps
    return b.Transpose(numbers, perm=(0, 2, 1))


def _per_gate(b: Any, parameter: Value) -> Value:
    return b.Reshape(parameter, [-1, 1, 1]) if parameter.rank < 2 else b.Unsqueeze(parameter, [1])
