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


def integer_conv(
    target: IntegerTarget, left: Byte = "uint8", *, columns: object = None, has_zero: bool = False
) -> StructuredKernel:
    """Convolution of an NDHWC input of bytes, which has one zero point, with weights from `pack_integer_conv`.

    The epilogue gets the output pixel as its row, and the output channel. What lies outside counts as the zero point.
    `columns`, output channels of a group, chooses the tile, as `integer_tile` tells.
    """
    tile = integer_tile(target, left, columns)
    instance = kernel("integer_conv", tile.parameters(has_zero))
    speed = target.vector_bytes * (4 if tile.quads else 2)
    return StructuredKernel(
        hint="integer_conv",
        instance=instance,
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


COLUMN_BLOCK = 64
"""Output pixels of a row whose inputs are woven together at a time, so that they stay in the first cache."""


def integer_depthwise(target: IntegerTarget, left: Byte = "uint8", *, quads: bool = False) -> StructuredKernel:
    """Convolution with as many groups as input and output channels, with weights from `pack_integer_depthwise`.

    `quads`: those weights are bytes, and the processor multiplies four of them at once.
    """
    pixels = 8 if target.vector_registers >= 32 else 6
    instance = kernel("integer_depthwise", QUADS=quads, LEFT_SIGNED=left == "int8", PIXELS=pixels)
    lanes, group = target.vector_bytes // 4, 4 if quads else 2

    def groups(size: Sizes) -> Dim:
        return pieces(size["KD"] * size["KH"], group)

    def scratch(size: Sizes) -> Dim:
        reach = (size["col_block"] - 1) * size["stride_w"] + (size["KW"] - 1) * size["dilation_w"] + 1
        return groups(size) * reach * (4 * lanes)

    return StructuredKernel(
        hint="integer_depthwise",
        instance=instance,
        tasks=lambda size: size["images"] * size["OD"] * size["OH"],
        cost=lambda size: (
            1 + floordiv(size["OW"] * size["C"] * (groups(size) * (size["KW"] + 2 * size["stride_w"]) + 4), 2 * lanes)
        ),
        scratch=scratch,
        defaults=lambda size: {"col_block": maximum(1, minimum(size["OW"], COLUMN_BLOCK))},
    )


def integer_far_depthwise(target: IntegerTarget, left: Byte = "uint8") -> StructuredKernel:
    """The same for windows whose taps lie, or which themselves lie, far apart: nothing is woven together.

    Its weights are from `pack_integer_taps`.
    """
    return _window_kernel(target, left, "integer_far_depthwise", is_maximum=False)


def integer_max_pool(target: IntegerTarget, element: Byte = "uint8") -> StructuredKernel:
    """The greatest byte under each window of an NDHWC input, as it is, to the epilogue."""
    return _window_kernel(target, element, "integer_max_pool", is_maximum=True)


def _window_kernel(target: IntegerTarget, element: Byte, hint: str, *, is_maximum: bool) -> StructuredKernel:
    """A kernel that moves a window over each channel by itself."""
    instance = kernel("integer_window", IS_MAXIMUM=is_maximum, LEFT_SIGNED=element == "int8")
    lanes = target.vector_bytes // 4
    return StructuredKernel(
        hint=hint,
        instance=instance,
        tasks=lambda size: size["images"] * size["OD"] * size["OH"],
        cost=lambda size: 1 + floordiv(size["OW"] * size["C"] * size["KD"] * size["KH"] * size["KW"], 2 * lanes),
    )


def pack_integer_taps(weights: npt.NDArray[Any], zero: Any) -> npt.NDArray[np.uint32]:
    """Weights (C, 1, *kernel) less their zero points as (taps, C), each the lower half of 32 bits."""
    return np.ascontiguousarray(less_zero(weights, zero).T & 0xFFFF).astype(np.uint32)


def less_zero(weights: npt.NDArray[Any], zero: Any) -> npt.NDArray[np.int32]:
    """Weights (C, 1, *kernel) less their zero points as (C, taps)."""
    zeros = np.broadcast_to(np.asarray(zero).astype(np.int32).reshape(-1), (weights.shape[0],))
    return weights.reshape(weights.shape[0], prod(weights.shape[1:])).astype(np.int32) - zeros[:, None]


def are_bytes(numbers: npt.NDArray[np.int32]) -> bool:
    """Whether all numbers fit signed bytes."""
    return bool(numbers.size == 0 or (numbers.min() >= -128 and numbers.max() <= 127))


def pack_integer_depthwise(
    taps: npt.NDArray[np.int32], width: int, lanes: int, *, quads: bool
) -> npt.NDArray[np.uint32]:
    """Weights (C, taps) from `less_zero` as (vectors of channels, 1 + groups of lines * width, lanes).

    `width` taps stand side by side. Four (`quads`) or two that stand above each other share 32 bits. The sums of all
    taps, by which a zero point is multiplied, come first.
    """
    channels, lines = taps.shape[0], taps.shape[1] // width
    group, bits = (4, 8) if quads else (2, 16)
    vectors, groups = -(-channels // lanes), -(-lines // group)
    padded = np.zeros((vectors * lanes, groups * group, width), np.int32)
    padded[:channels, :lines] = taps.reshape(channels, lines, width)
    parts = padded.reshape(vectors, lanes, groups, group, width).astype(np.uint32) & ((1 << bits) - 1)
    words = np.bitwise_or.reduce([parts[:, :, :, place] << np.uint32(bits * place) for place in range(group)])
    sums = padded.sum((1, 2)).astype(np.uint32).reshape(vectors, 1, lanes)
    moved = words.reshape(vectors, lanes, groups * width).swapaxes(1, 2)
    return np.ascontiguousarray(np.concatenate([sums, moved], axis=1))
