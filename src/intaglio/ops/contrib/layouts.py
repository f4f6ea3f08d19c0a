"""Operators of files that ONNX Runtime has optimised for one kind of processor: channels last, or in blocks.

A tensor in blocks (com.microsoft.nchwc) lies in memory in another order than its shape says, with as many channels as
fill the last block. Nobody outside of these operators sees that order, so here it is a plain tensor with the same
channels; only kernels are in the file as ONNX Runtime reads them, and are put into ONNX's order.
"""

from __future__ import annotations

from typing import Any, ClassVar

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Value
from intaglio.ir.op import Op
from intaglio.ops.contrib.fused import DOMAIN, FusedConvolution, channels_first, channels_last
from intaglio.ops.quantize import ConvolutionAttributes
from intaglio.ops.shared.operand import known_shape
from intaglio.processor import cpu_features

BLOCKED = "com.microsoft.nchwc"


def block_size() -> int:
    """How many channels ONNX Runtime puts into a block on this machine."""
    return 16 if cpu_features() & {"avx512f", "asimd"} else 8


class NhwcConv(ConvolutionAttributes):
    """The convolution of X with W, both with their channels last."""

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, X: Value, W: Value, B: Value | None = None) -> Value:
        return channels_last(b, b.Conv(channels_first(b, X), channels_first(b, W), B, **self.convolution()))


class NhwcFusedConv(FusedConvolution):
    """An activation of the convolution of X with W, plus Z; X, Z and the result have their channels last."""

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, X: Value, W: Value, B: Value | None = None, Z: Value | None = None) -> Value:
        return self.finish(b, channels_last(b, b.Conv(channels_first(b, X), W, B, **self.convolution())), Z)


class ReorderInput(Op):
    """X in blocks of channels."""

    domain: ClassVar[str] = BLOCKED
    channels_last: int = 0

    def expand(self, b: Builder, X: Value) -> Value:
        return channels_first(b, X) if self.channels_last else b.Identity(X)


class ReorderOutput(Op):
    """The first `channels` channels of X, which is in blocks."""

    domain: ClassVar[str] = BLOCKED
    channels: int = 0
    channels_last: int = 0

    def expand(self, b: Builder, X: Value) -> Value:
        found = known_shape(X, least=2)
        if found is not None and isinstance(found[1], int) and found[1] - self.channels >= block_size():
            raise _foreign(f"{found[1]} channels for {self.channels}")
        y = b.Slice(X, [0], [self.channels], [1])
        return channels_last(b, y) if self.channels_last else y


def _foreign(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}: ONNX Runtime optimised this file on a processor with other blocks of channels than the {block_size()}"
        " of this machine; have it write the file with ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL"
    )


class Conv(FusedConvolution):
    """An activation of the convolution of X with W, plus Sum, in blocks of channels; X may lie in ONNX's order."""

    domain: ClassVar[str] = BLOCKED

    def expand(self, b: Builder, X: Value, W: Value, B: Value | None = None, Sum: Value | None = None) -> Value:
        kernels = self._kernels(b, W)
        attributes = self.convolution()
        if self._is_depthwise(W):
            attributes["group"] = W.shape[0]
        wanted = W.shape[1] * attributes["group"]
        return self.finish(b, b.Conv(_filled(b, X, wanted), kernels, B, **attributes), Sum)

    def _is_depthwise(self, W: Value) -> bool:
        return self.group > 1 and W.shape[1] == 1

    def _kernels(self, b: Builder, W: Value) -> Value:
        """The kernels in ONNX's order: they lie in blocks of output channels, and inside of those of input channels."""
        shape = known_shape(W, rank=4)
        if shape is None or not all(isinstance(size, int) for size in shape):
            raise ShapeError(f"the sizes of {W.name} are not known: expected kernels that are in the file")
        block, (outputs, inputs, height, width) = block_size(), shape
        if outputs % block:
            raise _foreign(f"{outputs} output channels")
        if self._is_depthwise(W) or (self.group == 1 and inputs < block):
            blocked = b.Reshape(W, [outputs // block, inputs, height, width, block])
            return b.Reshape(b.Transpose(blocked, perm=(0, 4, 1, 2, 3)), list(shape))
        if inputs % block:
            raise _foreign(f"{inputs} input channels")
        blocked = b.Reshape(W, [outputs // block, inputs // block, height, width, block, block])
        return b.Reshape(b.Transpose(blocked, perm=(0, 5, 1, 4, 2, 3)), list(shape))


def _filled(b: Builder, X: Value, channels: Any) -> Value:
    """X with channels of zeros behind its own."""
    shape = known_shape(X, rank=4)
    if shape is None or not isinstance(shape[1], int) or shape[1] >= channels:
        return X
    return b.Pad(X, [0, 0, 0, 0, 0, channels - shape[1], 0, 0])


class _Pool(Op, abstract=True):
    """A pool of windows."""

    domain: ClassVar[str] = BLOCKED
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: tuple[int, ...] | None = None
    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def expand(self, b: Builder, X: Value) -> Value:
        given = {each.name: getattr(self, each.name) for each in self.attributes()}
        return getattr(b, self.name)(X, **given)


class MaxPool(_Pool):
    """The maximum of each window, in blocks of channels."""

    storage_order: int = 0


class AveragePool(_Pool):
    """The mean of each window, in blocks of channels."""

    count_include_pad: int = 0


class GlobalMaxPool(Op):
    """The maximum of each channel, in blocks of channels."""

    domain: ClassVar[str] = BLOCKED

    def expand(self, b: Builder, X: Value) -> Value:
        return b.GlobalMaxPool(X)


class GlobalAveragePool(Op):
    """The mean of each channel, in blocks of channels."""

    domain: ClassVar[str] = BLOCKED

    def expand(self, b: Builder, X: Value) -> Value:
        return b.GlobalAveragePool(X)


class Upsample(Op):
    """Each channel enlarged by whole factors, in blocks of channels."""

    domain: ClassVar[str] = BLOCKED
    coordinate_transformation_mode: str = "asymmetric"
    mode: str = "nearest"
    scales: tuple[int, ...] | None = None

    def expand(self, b: Builder, X: Value) -> Value:
        if self.scales is None:
            raise ShapeError("scales are missing")
        factors = b.constant(self.scales, FLOAT32)
        mode = self.coordinate_transformation_mode
        return b.Resize(X, None, factors, mode=self.mode, coordinate_transformation_mode=mode, nearest_mode="floor")
