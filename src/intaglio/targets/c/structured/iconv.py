"""Convolutions of bytes with exact sums in int32, channels last: windows gathered into rows, and depthwise ones."""

from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import THREADS, Dim, floordiv, maximum, minimum, pieces
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.integer_tile import (
    Byte,
    IntegerTarget,
    IntegerTile,
    integer_tile,
    pack_integer,
)
from intaglio.targets.c.structured.source import Sizes, StructuredKernel


def integer_conv(target: IntegerTarget, left: Byte = "uint8", *, has_zero: bool = False) -> StructuredKernel:
    """Convolution of an NDHWC input of bytes, which has one zero point, with weights from `pack_integer_conv`.

    The epilogue gets the output pixel as its row, and the output channel. What lies outside counts as the zero point.
    """
    tile = integer_tile(target, left)
    instance = kernel("integer_conv", tile.parameters(has_zero))
    speed = target.vector_bytes * (4 if tile.quads else 2)
    return StructuredKernel(
        hint="integer_conv",
        source=instance.text,
        buffers=instance.buffers,
        sizes=instance.sizes,
        tasks=lambda size: size["groups"] * pieces(_pixels(size), size["row_block"]),
        cost=lambda size: (
            1
            + floordiv(
                size["row_block"] * _depth(tile, size) * (floordiv(size["OC"], size["groups"]) + tile.columns), speed
            )
        ),
        scratch=partial(_scratch, tile),
        defaults=partial(_row_block, target, tile),
    )


def _pixels(size: Sizes) -> Dim:
    return size["images"] * size["OD"] * size["OH"] * size["OW"]


def _depth(tile: IntegerTile, size: Sizes) -> Dim:
    """Values of a window, filled up to what one instruction multiplies."""
    channels = floordiv(size["C"], size["groups"])
    return pieces(size["KD"] * size["KH"] * size["KW"] * channels, tile.group) * tile.group


def _scratch(tile: IntegerTile, size: Sizes) -> Dim:
    rows = size["row_block"]
    sums = tile.block_rows * tile.columns * 4
    return sums + pieces(rows * 4, 64) * 64 + rows * _depth(tile, size) * tile.left_bytes + 64


def _row_block(target: IntegerTarget, tile: IntegerTile, size: Sizes) -> dict[str, Dim]:
    """Whole tiles of windows that stay in the second cache, and enough of them for all threads."""
    rows, depth = tile.block_rows, _depth(tile, size)
    resident = floordiv(target.l2 // 4 // tile.left_bytes, (depth + 1) * rows) * rows
    share = pieces(_pixels(size), 4 * rows * THREADS) * rows
    return {"row_block": maximum(rows, minimum(8 * rows, minimum(resident, share)))}


def pack_integer_conv(weights: npt.NDArray[Any], zero: Any, groups: int, tile: IntegerTile) -> npt.NDArray[np.uint8]:
    """Weights (OC, C / groups, *kernel) as panels for each group; the depth runs over the kernel, then the channels."""
    outputs = weights.shape[0] // groups
    zeros = np.broadcast_to(np.asarray(zero).reshape(-1), (weights.shape[0],))
    parts = [
        pack_integer(_as_matrix(weights[first : first + outputs]), zeros[first : first + outputs], tile)
        for first in (group * outputs for group in range(groups))
    ]
    return np.stack(parts)


def _as_matrix(weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    taps = prod(weights.shape[2:])
    moved = np.moveaxis(weights.reshape(*weights.shape[:2], taps), (2, 1, 0), (0, 1, 2))
    return np.ascontiguousarray(moved).reshape(taps * weights.shape[1], weights.shape[0])


def integer_depthwise(target: IntegerTarget, left: Byte = "uint8") -> StructuredKernel:
    """Convolution with as many groups as input and output channels, with weights from `pack_integer_depthwise`."""
    return _window_kernel(target, left, "integer_depthwise", is_maximum=False)


def integer_max_pool(target: IntegerTarget, element: Byte = "uint8") -> StructuredKernel:
    """The greatest byte under each window of an NDHWC input, as it is, to the epilogue."""
    return _window_kernel(target, element, "integer_max_pool", is_maximum=True)


def _window_kernel(target: IntegerTarget, element: Byte, hint: str, *, is_maximum: bool) -> StructuredKernel:
    """A kernel that moves a window over each channel by itself."""
    instance = kernel("integer_window", IS_MAXIMUM=is_maximum, LEFT_SIGNED=element == "int8")
    lanes = target.vector_bytes // 4
    return StructuredKernel(
        hint=hint,
        source=instance.text,
        buffers=instance.buffers,
        sizes=instance.sizes,
        tasks=lambda size: size["images"] * size["OD"] * size["OH"],
        cost=lambda size: 1 + floordiv(size["OW"] * size["C"] * size["KD"] * size["KH"] * size["KW"], 2 * lanes),
    )


def pack_integer_depthwise(weights: npt.NDArray[Any], zero: Any) -> npt.NDArray[np.uint32]:
    """Weights (C, 1, *kernel) less their zero points as (taps, C), each the lower half of 32 bits."""
    zeros = np.broadcast_to(np.asarray(zero).astype(np.int32).reshape(-1), (weights.shape[0],))
    shifted = weights.reshape(weights.shape[0], prod(weights.shape[1:])).astype(np.int32) - zeros[:, None]
    return np.ascontiguousarray(shifted.T & 0xFFFF).astype(np.uint32)
