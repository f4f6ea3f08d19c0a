"""Layers of quantized networks: integers of few bits, with scales and zero points as buffers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def quantize(x: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """x / scale, rounded to even, plus the zero point, within the range of its type; NaN becomes the zero point."""
    quotient = x / scale
    limits = torch.iinfo(zero_point.dtype)
    steps = torch.where(quotient.isnan(), 0.0, quotient).round() + zero_point.to(x.dtype)
    return steps.clamp(limits.min, limits.max).to(zero_point.dtype)


def dequantize(x: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """(x - zero_point) * scale."""
    return (x.to(scale.dtype) - zero_point.to(scale.dtype)) * scale


def dynamic_quantize(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x in steps of a scale that its range needs, the scale, and the zero point."""
    zero = torch.zeros((), dtype=x.dtype, device=x.device)
    low, high = (torch.minimum(x.amin(), zero), torch.maximum(x.amax(), zero)) if x.numel() else (zero, zero)
    scale = torch.where(high == low, 1.0, (high - low) / 255.0)
    zero_point = quantize(-low, scale, torch.zeros((), dtype=torch.uint8, device=x.device))
    return quantize(x, scale, zero_point), scale, zero_point


def integer_product(x: Tensor, weight: Tensor) -> Tensor:
    """x times the transpose of integer weights, exact in double precision, as int32."""
    return functional.linear(x.to(torch.float64), weight.to(torch.float64)).to(torch.int64).to(torch.int32)


class Quantized(nn.Module):
    """What has a scale and a zero point: one each, or `channels` of them along an axis."""

    scale: Tensor
    zero_point: Tensor

    def __init__(self, channels: int | None = None, axis: int = 1, dtype: torch.dtype = torch.int8) -> None:
        super().__init__()
        shape = () if channels is None else (channels,)
        self.axis = axis
        self.register_buffer("scale", torch.ones(shape))
        self.register_buffer("zero_point", torch.zeros(shape, dtype=dtype))

    def parameters_for(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The scale and the zero point in shapes that broadcast to that of x."""
        if self.scale.ndim == 0:
            return self.scale, self.zero_point
        shape = [-1 if axis == self.axis % x.ndim else 1 for axis in range(x.ndim)]
        return self.scale.reshape(shape), self.zero_point.reshape(shape)


class Quantize(Quantized):
    """Floats as integers of few bits."""

    def forward(self, x: Tensor) -> Tensor:
        """Bytes for floats."""
        scale, zero_point = self.parameters_for(x)
        return quantize(x, scale, zero_point)


class Dequantize(Quantized):
    """Integers of few bits as the floats that they stand for."""

    def forward(self, x: Tensor) -> Tensor:
        """Floats for bytes."""
        scale, zero_point = self.parameters_for(x)
        return dequantize(x, scale, zero_point)


class FakeQuantize(Quantized):
    """Floats rounded to what integers of few bits can stand for; gradients pass as if they were not rounded."""

    def forward(self, x: Tensor) -> Tensor:
        """x, rounded."""
        scale, zero_point = self.parameters_for(x)
        rounded = dequantize(quantize(x, scale, zero_point), scale, zero_point)
        if not x.requires_grad:
            return rounded
        limits, offset = torch.iinfo(zero_point.dtype), zero_point.to(x.dtype)
        low, high = (limits.min - offset) * scale, (limits.max - offset) * scale
        within = x.nan_to_num().clamp(torch.minimum(low, high), torch.maximum(low, high))
        return rounded + (within - within.detach())


class QuantizedAdd(nn.Module):
    """The sum of two quantized tensors, quantized again."""

    left_scale: Tensor
    left_zero_point: Tensor
    right_scale: Tensor
    right_zero_point: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(self, dtype: torch.dtype = torch.int8) -> None:
        super().__init__()
        for name in ("left_", "right_", ""):
            self.register_buffer(f"{name}scale", torch.ones(()))
            self.register_buffer(f"{name}zero_point", torch.zeros((), dtype=dtype))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """The sum."""
        first = (left.to(torch.int32) - self.left_zero_point).to(torch.float32)
        second = (right.to(torch.int32) - self.right_zero_point).to(torch.float32)
        total = first * (self.left_scale / self.scale) + second * (self.right_scale / self.scale)
        return quantize(total, torch.ones_like(self.scale), self.zero_point)


class QuantizedLayer(nn.Module):
    """A layer of integers: the numbers of its weights, of what it takes and of what it gives."""

    weight: Tensor
    weight_scale: Tensor
    weight_zero_point: Tensor
    bias: Tensor | None
    input_scale: Tensor
    input_zero_point: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, shape: Any, bias: bool, dtype: torch.dtype, input_dtype: torch.dtype, output_dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(shape, dtype=dtype))
        self.register_buffer("weight_scale", torch.ones(shape[:1]))
        self.register_buffer("weight_zero_point", torch.zeros(shape[:1], dtype=dtype))
        self.register_buffer("bias", torch.zeros(shape[:1], dtype=torch.int32) if bias else None)
        self.register_buffer("input_scale", torch.ones(()))
        self.register_buffer("input_zero_point", torch.zeros((), dtype=input_dtype))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("zero_point", torch.zeros((), dtype=output_dtype))

    def quantized(self, product: Tensor, channels: Any) -> Tensor:
        """Sums of products of integers in steps of the output's scale; `channels` is the shape of one for each."""
        if self.bias is not None:
            product = product + self.bias.reshape(channels)
        factor = self.input_scale * self.weight_scale.reshape(channels) / self.scale
        return quantize(product.to(torch.float32) * factor, torch.ones_like(self.scale), self.zero_point)


class QuantizedLinear(QuantizedLayer):
    """nn.Linear of integers."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: torch.dtype = torch.int8,
        input_dtype: torch.dtype = torch.int8,
        output_dtype: torch.dtype = torch.int8,
    ) -> None:
        super().__init__((out_features, in_features), bias, dtype, input_dtype, output_dtype)

    def forward(self, x: Tensor) -> Tensor:
        """The product with the weights, quantized again."""
        numbers = x.to(torch.int32) - self.input_zero_point
        weight = self.weight.to(torch.int32) - self.weight_zero_point[:, None]
        return self.quantized(integer_product(numbers, weight), (-1,))


class QuantizedConv2d(QuantizedLayer):
    """nn.Conv2d of integers."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: torch.dtype = torch.int8,
        input_dtype: torch.dtype = torch.int8,
        output_dtype: torch.dtype = torch.int8,
    ) -> None:
        kernel = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
        super().__init__((out_channels, in_channels // groups, *kernel), bias, dtype, input_dtype, output_dtype)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def forward(self, x: Tensor) -> Tensor:
        """The convolution with the kernels, quantized again."""
        numbers = (x.to(torch.int32) - self.input_zero_point).to(torch.float64)
        weight = (self.weight.to(torch.int32) - self.weight_zero_point.reshape(-1, 1, 1, 1)).to(torch.float64)
        product = functional.conv2d(numbers, weight, None, self.stride, self.padding, self.dilation, self.groups)
        return self.quantized(product.to(torch.int64).to(torch.int32), (-1, 1, 1))


class DynamicQuantizedLinear(nn.Module):
    """nn.Linear whose weights are integers, and which takes floats in as many steps as their range needs."""

    weight: Tensor
    weight_scale: Tensor
    weight_zero_point: Tensor

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: torch.dtype = torch.int8) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros((out_features, in_features), dtype=dtype))
        self.register_buffer("weight_scale", torch.ones(out_features))
        self.register_buffer("weight_zero_point", torch.zeros(out_features, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """The product with the weights, in floats."""
        numbers, scale, zero_point = dynamic_quantize(x)
        weight = self.weight.to(torch.int32) - self.weight_zero_point[:, None]
        product = integer_product(numbers.to(torch.int32) - zero_point, weight)
        result = product.to(torch.float32) * (scale * self.weight_scale)
        return result if self.bias is None else result + self.bias
