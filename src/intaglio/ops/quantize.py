"""Linear quantization: numbers of few bits with a scale and a zero point, and products of them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT8E8M0, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT8, DType, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows, Work
from intaglio.ir.requirements import need_stretch
from intaglio.ir.types import Shape, TensorType, Type
from intaglio.ops.cast import convert, integer_limits
from intaglio.ops.convolution import Conv
from intaglio.ops.linear import matmul_shape
from intaglio.ops.shared.indices import numbered_dtype, resolve_axis
from intaglio.ops.shared.operand import cast, known_shape, require_equal, wide_dtype


class Granular(Op, abstract=True):
    """What quantization and its inverse share: a scale for the whole tensor, one along an axis, or one per block."""

    axis: int = 1
    block_size: int = 0

    def check_scale(self, x: Value, scale: Value, zero_point: Value | None) -> None:
        """Raise ShapeError where the scale or the zero point does not fit x."""
        shape, steps = x.tensor.shape, scale.tensor.shape
        if self.block_size < 0:
            raise ShapeError(f"block_size is {self.block_size}, it must be at least 0")
        if zero_point is not None and zero_point.tensor.shape not in (steps, None) and steps is not None:
            self._check_zero_point(scale, zero_point)
        if shape is None or steps is None or self.is_uniform(steps):
            return
        axis = resolve_axis(self.axis, len(shape))
        if len(steps) == 1 and not self.block_size:
            require_equal(steps[0], shape[axis], f"the scale and axis {axis}")
        elif self.block_size <= 0 or len(steps) != len(shape):
            raise ShapeError(f"a scale of shape {list(steps)} with block_size {self.block_size} does not fit {x.type}")
        else:
            for position, size in enumerate(shape):
                count = dims.ceildiv(size, self.block_size) if position == axis else size
                require_equal(steps[position], count, f"the scale and axis {position}")

    def _check_zero_point(self, scale: Value, zero_point: Value) -> None:
        for left, right in zip(scale.shape, zero_point.shape, strict=False):
            require_equal(left, right, "the scale and the zero point")

    @staticmethod
    def is_uniform(shape: tuple[Any, ...]) -> bool:
        """Whether a scale of this shape serves the whole tensor."""
        return shape in ((), (1,))

    @staticmethod
    def exact_dtype(scale: Value, dtype: DType) -> DType:
        """The type to scale in: powers of two beyond single precision's normal numbers need double precision."""
        return FLOAT64 if scale.dtype == FLOAT8E8M0 else wide_dtype(dtype)

    def spread(self, parameter: Array, shape: tuple[int, ...]) -> Array:
        """A scale or zero point in a shape that broadcasts to that of the tensor."""
        if self.is_uniform(parameter.shape):
            return parameter.reshape(())
        axis = resolve_axis(self.axis, len(shape))
        if not self.block_size:
            return parameter.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        return np.take(parameter, np.arange(shape[axis]) // self.block_size, axis=axis)

    def spread_value(self, b: Builder, parameter: Value, x: Value) -> Value:
        """Like `spread`, in operators."""
        if parameter.shape == ():
            return parameter
        if self.is_uniform(parameter.shape):
            return b.Reshape(parameter, b.constant(np.zeros(0, np.int64)))
        axis = resolve_axis(self.axis, parameter.rank if self.block_size else x.rank)
        if not self.block_size:
            return b.Reshape(parameter, [-1 if i == axis else 1 for i in range(x.rank)])
        if x.rank > parameter.rank:
            return b.Unsqueeze(parameter, [axis + 1])
        length = b.Reshape(b.Shape(x, start=axis, end=axis + 1), b.constant(np.zeros(0, np.int64)))
        block = b.Div(b.Range(b.constant(np.int64(0)), length, b.constant(np.int64(1))), self.block_size)
        return b.Gather(parameter, block, axis=axis)

    def cut(self, b: Builder, x: Value, scale: Value) -> Value:
        """x with an axis of its own for what is within a block, where whole blocks make up its axis."""
        if self.is_uniform(scale.shape) or not self.block_size:
            return x
        axis = resolve_axis(self.axis, x.rank)
        size = x.shape[axis]
        if not isinstance(size, int) or size % self.block_size:
            return x
        blocks = b.constant(np.array([size // self.block_size, self.block_size], np.int64))
        return b.Reshape(x, b.Concat(b.Shape(x, end=axis), blocks, b.Shape(x, start=axis + 1), axis=0), allowzero=1)

    @staticmethod
    def joined(b: Builder, result: Value, x: Value) -> Value:
        """A result of `cut` data in the shape of the data."""
        return result if result.rank == x.rank else b.Reshape(result, b.Shape(x), allowzero=1)


class QuantizeLinear(Granular):
    """x / y_scale, rounded to even, plus y_zero_point, limited to the range of the output type; NaN becomes the latter.

    The division is rounded to the type of the scale, or to `precision`.
    """

    is_elementwise = True
    is_cheap = True
    work = Work.LINEAR
    no_gradient = "it rounds; with `straight_through` it counts as if it did not"
    output_dtype: int = 0
    precision: int = 0
    saturate: int = 1

    def infer(self, x: Value, y_scale: Value, y_zero_point: Value | None = None) -> Type:
        self.check_scale(x, y_scale, y_zero_point)
        if not y_scale.dtype.is_float and y_scale.dtype != INT32:
            raise ShapeError(f"y_scale must be a float or int32, got {y_scale.dtype}")
        if y_zero_point is not None and self.output_dtype:
            wanted = numbered_dtype(self.output_dtype)
            if wanted != y_zero_point.dtype:
                raise ShapeError(f"output_dtype is {wanted} but y_zero_point is {y_zero_point.dtype}")
        return x.tensor.with_dtype(self.target(None if y_zero_point is None else y_zero_point.dtype))

    def target(self, zero_point: DType | None) -> DType:
        """The element type of the output."""
        if self.output_dtype:
            return numbered_dtype(self.output_dtype)
        return UINT8 if zero_point is None else zero_point

    def division_type(self, scale: DType) -> DType:
        """The element type that the quotient is rounded to."""
        if self.precision:
            return numbered_dtype(self.precision)
        return FLOAT32 if scale in (FLOAT8E8M0, INT32) else scale

    def reference(self, x: Array, y_scale: Array, y_zero_point: Array | None = None) -> Array:
        precision = self.division_type(from_numpy(y_scale.dtype))
        target = self.target(None if y_zero_point is None else from_numpy(y_zero_point.dtype))
        wide = wide_dtype(precision).numpy
        with np.errstate(all="ignore"):
            quotient = x.astype(wide) / self.spread(y_scale, x.shape).astype(wide)
            quotient = convert(np.asarray(quotient), precision).astype(wide)
        zero = np.zeros((), wide) if y_zero_point is None else self.spread(y_zero_point, x.shape).astype(wide)
        return quantize(quotient, zero, target, bool(self.saturate))

    def expand(self, b: Builder, x: Value, y_scale: Value, y_zero_point: Value | None = None) -> Value:
        precision = self.division_type(y_scale.dtype)
        wide, exact = wide_dtype(precision), self.exact_dtype(y_scale, precision)
        given, x = x, self.cut(b, x, y_scale)
        quotient = cast(b, x, exact)
        if y_scale.constant is None or np.any(y_scale.constant.astype(np.float64) != 1):
            quotient = quotient / cast(b, self.spread_value(b, y_scale, x), exact)
        quotient = cast(b, cast(b, quotient, precision), wide)
        target = self.target(None if y_zero_point is None else y_zero_point.dtype)
        zero = None if y_zero_point is None else cast(b, self.spread_value(b, y_zero_point, x), wide)
        return self.joined(b, quantize_value(b, quotient, zero, target, self.saturate), given)

    def straight_through(self, b: Builder, x: Value, y_scale: Value, y_zero_point: Value | None = None) -> Value:
        """What would be rounded, within the range of the output type."""
        target = self.target(None if y_zero_point is None else y_zero_point.dtype)
        parts = self.cut(b, x, y_scale)
        quotient = parts / cast(b, self.spread_value(b, y_scale, parts), x.dtype)
        if y_zero_point is not None:
            quotient = quotient + cast(b, self.spread_value(b, y_zero_point, parts), x.dtype)
        low, high = integer_limits(target)
        return self.joined(b, b.Clip(quotient, low, high), x)


def quantize(quotient: Array, zero: Array, target: DType, saturate: bool = True) -> Array:
    """round(quotient) + zero in the target type; NaN becomes the zero point. To floats there is no rounding first."""
    with np.errstate(all="ignore"):
        if target.is_float:
            return convert(np.asarray(quotient + zero), target, saturate)
        low, high = integer_limits(target)
        rounded = np.where(np.isnan(quotient), 0, np.rint(quotient)).astype(np.float64) + zero
        return convert(np.clip(rounded, low, high), target)


def quantize_value(b: Builder, quotient: Value, zero: Value | None, target: DType, saturate: int = 1) -> Value:
    """Like `quantize`, in operators."""
    if target.is_float:
        return b.Cast(quotient if zero is None else quotient + zero, to=target.number, saturate=saturate)
    low, high = integer_limits(target)
    rounded = b.Round(b.Where(b.IsNaN(quotient), b.constant(0, quotient.dtype), quotient))
    shifted = rounded if zero is None else rounded + zero
    return cast(b, b.Clip(shifted, low, high), target)


def requantize(b: Builder, quotient: Value, zero_point: Value | None, target: DType) -> Value:
    """Numbers of single precision that are divided by the output's scale already, in the target type."""
    if target in (INT8, UINT8) and (zero_point is None or zero_point.shape in ((), (1,))):
        zero = b.constant(0, target) if zero_point is None else per_column(b, zero_point)
        return b.QuantizeLinear(quotient, b.constant(1, FLOAT32), zero)
    return quantize_value(b, quotient, None if zero_point is None else cast(b, zero_point, FLOAT32), target)


class DequantizeLinear(Granular):
    """(x - x_zero_point) * x_scale, in the type of the scale or in `output_dtype`."""

    keeps_rows = Rows.BY_AXES

    work = Work.SHORT
    output_dtype: int = 0

    def infer(self, x: Value, x_scale: Value, x_zero_point: Value | None = None) -> Type:
        self.check_scale(x, x_scale, x_zero_point)
        if not x_scale.dtype.is_float:
            raise ShapeError(f"x_scale must be a float, got {x_scale.dtype}")
        if x_zero_point is not None and x_zero_point.dtype != x.dtype:
            raise ShapeError(f"x is {x.dtype} but x_zero_point is {x_zero_point.dtype}")
        return x.tensor.with_dtype(self.target(x_scale.dtype))

    def target(self, scale: DType) -> DType:
        """The element type of the output."""
        return numbered_dtype(self.output_dtype) if self.output_dtype else scale

    def reference(self, x: Array, x_scale: Array, x_zero_point: Array | None = None) -> Array:
        target = self.target(from_numpy(x_scale.dtype))
        wide = wide_dtype(target).numpy
        difference = convert(x, INT64) if from_numpy(x.dtype).is_integer else x.astype(wide)
        if x_zero_point is not None:
            difference = difference - self.spread(x_zero_point, x.shape).astype(difference.dtype)
        with np.errstate(all="ignore"):
            product = difference.astype(wide) * self.spread(x_scale, x.shape).astype(wide)
        return convert(np.asarray(product), target)

    def expand(self, b: Builder, x: Value, x_scale: Value, x_zero_point: Value | None = None) -> Value:
        target = self.target(x_scale.dtype)
        wide = self.exact_dtype(x_scale, target)
        given, x = x, self.cut(b, x, x_scale)
        difference = cast(b, x, wide)
        if x_zero_point is not None and x.dtype.bits < 32:
            difference = difference - cast(b, self.spread_value(b, x_zero_point, x), wide)
        elif x_zero_point is not None:
            difference = cast(b, x - self.spread_value(b, x_zero_point, x), wide)
        product = difference * cast(b, self.spread_value(b, x_scale, x), wide)
        return self.joined(b, cast(b, product, target), given)

    def straight_through(self, b: Builder, x: Value, x_scale: Value, x_zero_point: Value | None = None) -> Value:
        """The same for numbers that are not rounded."""
        parts = self.cut(b, x, x_scale)
        difference = parts if parts.dtype.is_float else cast(b, parts, x_scale.dtype)
        if x_zero_point is not None:
            difference = difference - cast(b, self.spread_value(b, x_zero_point, parts), difference.dtype)
        product = difference * cast(b, self.spread_value(b, x_scale, parts), difference.dtype)
        return self.joined(b, cast(b, product, self.target(x_scale.dtype)), x)


class DynamicQuantizeLinear(Op):
    """x as uint8, with the scale and zero point that its range needs; the scale is 1 where all of x is zero."""

    no_gradient = "it rounds; with `straight_through` it counts as if it did not"
    output_names: ClassVar[tuple[str, ...]] = ("y", "y_scale", "y_zero_point")

    def infer(self, x: Value) -> tuple[Type, ...]:
        if x.dtype != FLOAT32:
            raise ShapeError(f"x must be float32, got {x.dtype}")
        return x.tensor.with_dtype(UINT8), TensorType(FLOAT32, ()), TensorType(UINT8, ())

    def reference(self, x: Array) -> tuple[Array, ...]:
        low, high = np.float32(min(x.min(initial=0), 0)), np.float32(max(x.max(initial=0), 0))
        scale = np.asarray((high - low) / np.float32(255) if high != low else np.float32(1), np.float32)
        with np.errstate(all="ignore"):
            zero_point = quantize(np.asarray(-low / scale), np.zeros((), np.float32), UINT8)
        return QuantizeLinear().reference(x, scale, zero_point), scale, zero_point

    def expand(self, b: Builder, x: Value) -> tuple[Value, ...]:
        low, high = b.Min(b.ReduceMin(x, keepdims=0), 0), b.Max(b.ReduceMax(x, keepdims=0), 0)
        span = (high - low) / 255
        scale = b.Where(b.Equal(high, low), b.constant(1, FLOAT32), span)
        zero_point = quantize_value(b, -low / scale, None, UINT8)
        return b.QuantizeLinear(x, scale, zero_point), scale, zero_point

    def straight_through(self, b: Builder, x: Value) -> tuple[Value | None, ...]:
        """What would be rounded; the zero point stands for an integer, whose rounding does not matter to the rest."""
        low, high = b.Min(b.ReduceMin(x, keepdims=0), 0), b.Max(b.ReduceMax(x, keepdims=0), 0)
        scale = b.Where(b.Equal(high, low), b.constant(1, FLOAT32), (high - low) / 255)
        zero_point = b.Clip(b.Round(-low / scale), 0, 255)
        return b.Clip(x / scale + zero_point, 0, 255), scale, None


def shifted(b: Builder, x: Value, zero_point: Value | None) -> Value:
    """x - zero_point in int32, where the zero point already has a shape that broadcasts."""
    wide = cast(b, x, INT32)
    return wide if zero_point is None else wide - cast(b, zero_point, INT32)


def _less_zero(b: Builder, x: Value, zero_point: Value | None) -> Value:
    """x - zero_point as floats."""
    numbers = x if x.dtype.is_float else cast(b, x, FLOAT32)
    return numbers if zero_point is None else numbers - cast(b, zero_point, numbers.dtype)


def per_row(b: Builder, parameter: Value, matrix: Value) -> Value:
    """A scale or zero point of the rows of a matrix: a vector becomes a column."""
    is_column = parameter.rank == 1 and parameter.shape != (1,) and matrix.rank > 1
    return b.Unsqueeze(parameter, [1]) if is_column else per_column(b, parameter)


def per_column(b: Builder, parameter: Value) -> Value:
    """A scale or zero point of the columns of a matrix: a vector of one element becomes a scalar."""
    return b.Reshape(parameter, b.constant(np.zeros(0, np.int64))) if parameter.shape == (1,) else parameter


def _check_byte(value: Value, zero_point: Value | None) -> None:
    """Raise ShapeError where an operand is not of bytes or its zero point of another type."""
    if value.dtype not in (INT8, UINT8):
        raise ShapeError(f"{value.name} is {value.dtype}, int8 or uint8 is needed")
    if zero_point is not None and zero_point.dtype != value.dtype:
        raise ShapeError(f"{value.name} is {value.dtype} but its zero point is {zero_point.dtype}")


def product_shape(left: Value, right: Value) -> Shape | None:
    """The shape of a matrix product; None where the rank of an operand is not known."""
    rows, columns = known_shape(left, least=1), known_shape(right, least=1)
    return None if rows is None or columns is None else matmul_shape(rows, columns)


class MatMulInteger(Op):
    """The matrix product of A - a_zero_point and B - b_zero_point in int32."""

    keeps_rows = Rows.BY_AXES

    no_gradient = "it computes with quantized integers"

    def infer(
        self, A: Value, B: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None
    ) -> TensorType:
        for value, zero_point in ((A, a_zero_point), (B, b_zero_point)):
            _check_byte(value, zero_point)
        return TensorType(INT32, product_shape(A, B))

    def expand(
        self, b: Builder, A: Value, B: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None
    ) -> Value:
        left = shifted(b, A, None if a_zero_point is None else per_row(b, a_zero_point, A))
        right = shifted(b, B, None if b_zero_point is None else per_column(b, b_zero_point))
        return b.MatMul(left, right)

    def straight_through(
        self, b: Builder, A: Value, B: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None
    ) -> Value:
        """The product of numbers that are not rounded."""
        left = _less_zero(b, A, None if a_zero_point is None else per_row(b, a_zero_point, A))
        return left @ _less_zero(b, B, None if b_zero_point is None else per_column(b, b_zero_point))


class QLinearMatMul(Op):
    """The matrix product of two quantized matrices, quantized again."""

    keeps_rows = Rows.BY_AXES

    no_gradient = "it computes with quantized integers"

    def infer(
        self,
        a: Value,
        a_scale: Value,
        a_zero_point: Value,
        b: Value,
        b_scale: Value,
        b_zero_point: Value,
        y_scale: Value,
        y_zero_point: Value,
    ) -> Type:
        return TensorType(y_zero_point.dtype, product_shape(a, b))

    def expand(self, b: Builder, *inputs: Value) -> Value:
        left, left_scale, left_zero, right, right_scale, right_zero, scale, zero = inputs
        if left.dtype.is_float:
            product = b.MatMul(cast(b, left, FLOAT32), cast(b, right, FLOAT32))
        else:
            product = cast(b, b.MatMulInteger(left, right, left_zero, right_zero), FLOAT32)
        row_scale = cast(b, per_row(b, left_scale, left), FLOAT32)
        column_scale = cast(b, per_column(b, right_scale), FLOAT32)
        factor = row_scale * column_scale / cast(b, per_row(b, scale, left), FLOAT32)
        return requantize(
            b, product * factor, zero if scale.shape in ((), (1,)) else per_row(b, zero, left), zero.dtype
        )


class ConvolutionAttributes(Op, abstract=True):
    """The attributes of a convolution."""

    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def convolution(self) -> dict[str, Any]:
        """The attributes by name."""
        names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
        return {name: getattr(self, name) for name in names}


def per_output_channel(b: Builder, parameter: Value, rank: int) -> Value:
    """A scale or zero point of the output channels of kernels of that rank."""
    if parameter.shape in ((), (1,)):
        return b.Reshape(parameter, b.constant(np.zeros(0, np.int64))) if parameter.rank else parameter
    return b.Reshape(parameter, [-1, *([1] * (rank - 1))])


def need_output_channels(parameter: Value | None, w: Value) -> None:
    """A scale or zero point of kernels is one number, or as many as there are output channels."""
    shape, kernels = None if parameter is None else known_shape(parameter), known_shape(w)
    if shape and kernels:
        message = f"{parameter and parameter.name} has {shape[0]} elements, expected 1 or {kernels[0]} as in {w.name}"
        need_stretch(shape[0], kernels[0], message)


class ConvInteger(ConvolutionAttributes):
    """The convolution of x - x_zero_point with w - w_zero_point in int32; padding counts as zero."""

    keeps_rows = Rows.FIRST

    no_gradient = "it computes with quantized integers"

    def infer(
        self, x: Value, w: Value, x_zero_point: Value | None = None, w_zero_point: Value | None = None
    ) -> TensorType:
        for value, zero_point in ((x, x_zero_point), (w, w_zero_point)):
            _check_byte(value, zero_point)
        need_output_channels(w_zero_point, w)
        floats = [Value(value.name, value.tensor.with_dtype(FLOAT64)) for value in (x, w)]
        return Conv(**self.convolution()).infer(*floats).with_dtype(INT32)

    def expand(
        self, b: Builder, x: Value, w: Value, x_zero_point: Value | None = None, w_zero_point: Value | None = None
    ) -> Value:
        data = shifted(b, x, None if x_zero_point is None else per_column(b, x_zero_point))
        kernels = shifted(b, w, None if w_zero_point is None else per_output_channel(b, w_zero_point, w.rank))
        # Sums of products of bytes are exact in double precision.
        result = b.Conv(cast(b, data, FLOAT64), cast(b, kernels, FLOAT64), **self.convolution())
        return cast(b, cast(b, result, INT64), INT32)

    def straight_through(
        self, b: Builder, x: Value, w: Value, x_zero_point: Value | None = None, w_zero_point: Value | None = None
    ) -> Value:
        """The convolution of numbers that are not rounded."""
        data = _less_zero(b, x, None if x_zero_point is None else per_column(b, x_zero_point))
        zero = None if w_zero_point is None else per_output_channel(b, w_zero_point, w.rank)
        return b.Conv(data, _less_zero(b, w, zero), **self.convolution())


class QLinearConv(ConvolutionAttributes):
    """The convolution of quantized data with quantized kernels, quantized again; the bias has the product's scale."""

    keeps_rows = Rows.FIRST

    no_gradient = "it computes with quantized integers"

    def infer(
        self,
        x: Value,
        x_scale: Value,
        x_zero_point: Value,
        w: Value,
        w_scale: Value,
        w_zero_point: Value,
        y_scale: Value,
        y_zero_point: Value,
        B: Value | None = None,
    ) -> Type:
        need_output_channels(w_scale, w)
        integer = ConvInteger(**self.convolution()).infer(x, w, x_zero_point, w_zero_point)
        return integer.with_dtype(y_zero_point.dtype)

    def expand(self, b: Builder, *inputs: Value) -> Value:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = inputs
        product = b.ConvInteger(x, w, x_zero, w_zero, **self.convolution())
        if bias:
            product = product + b.Reshape(bias[0], [-1, *([1] * (x.rank - 2))])
        channel_scale = w_scale if w_scale.rank == 0 else b.Reshape(w_scale, [-1, *([1] * (x.rank - 2))])
        factor = per_column(b, x_scale) * channel_scale / per_column(b, y_scale)
        return requantize(b, cast(b, product, FLOAT32) * factor, y_zero, y_zero.dtype)
