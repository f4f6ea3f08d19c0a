"""Depthwise convolution, and convolution in small groups: few channels make few channels."""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import Dim, floordiv, pieces
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.source import StructuredKernel, VectorTarget, fill
from intaglio.targets.c.structured.window import row_block, window_kernel


def depthwise(target: VectorTarget, channels: Dim | None = None) -> StructuredKernel:
    """Convolution with as many groups as input and output channels, of an NDHWC float32 input.

    Weights from `pack_depthwise`.
    """
    return window_kernel("depthwise", target, has_weights=True, channels=channels)


def depthwise_rows(target: VectorTarget, taps: int, stride: int, channels: Dim | None = None) -> StructuredKernel:
    """`depthwise` for windows of so many adjacent taps along a row that move by `stride`."""
    pixels = 8 if target.vector_registers >= 32 else 6
    instance = kernel("depthwise", TAPS=taps, STRIDE=stride, PIXELS=pixels, FILL=fill(target, channels))
    return StructuredKernel(
        hint="depthwise",
        instance=instance,
        tasks=lambda size: size["images"] * size["OD"] * pieces(size["OH"], size["row_block"]),
        cost=lambda size: (
            1
            + floordiv(size["row_block"] * size["OW"] * size["C"] * size["KD"] * size["KH"] * taps, target.vector_bytes)
        ),
        defaults=row_block,
        tile=f"{pixels}x{target.vector_bytes // 4}",
    )


def fits_rows(target: VectorTarget, taps: object, stride: int, dilation: int) -> bool:
    """Whether `depthwise_rows` serves such windows along a row: sums, weights and a value fit the registers."""
    most = 11 if target.vector_registers >= 32 else 7
    return isinstance(taps, int) and 1 < taps <= most and stride in (1, 2) and dilation == 1


def grouped(target: VectorTarget) -> StructuredKernel:
    """Convolution in groups of at most a vector of input and of output channels, of an NDHWC float32 input.

    Weights from `pack_depthwise`. A vector holds the outputs of several groups; each of its lanes gets the input
    channels of its group one after the other.
    """
    return window_kernel("grouped", target, has_weights=True, is_grouped=True)


def depthwise_transpose(target: VectorTarget, channels: Dim | None = None) -> StructuredKernel:
    """Transposed convolution with as many groups as input and output channels, of an NDHWC float32 input.

    Weights as from `pack_depthwise`.
    """
    instance = kernel("depthwise_transpose", FILL=fill(target, channels))
    return StructuredKernel(
        hint="depthwise_transpose",
        instance=instance,
        tasks=lambda size: size["images"] * size["OD"] * pieces(size["OH"], size["row_block"]),
        cost=lambda size: 1 + floordiv(size["row_block"] * size["OW"] * size["C"] * 4, target.vector_bytes),
        scratch=lambda size: (
            (size["OW"] * (2 * size["KW"] + 1) + 2 * (size["KD"] + size["KH"] + size["KD"] * size["KH"])) * 8
        ),
        defaults=row_block,
    )


def pack_depthwise(weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Weights (OC, C / groups, *kernel) as (taps, C / groups, OC)."""
    return np.ascontiguousarray(
        weights.reshape(*weights.shape[:2], prod(weights.shape[2:])).transpose(2, 1, 0).astype(np.float32)
    )
