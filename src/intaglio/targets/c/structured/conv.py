"""Direct convolution and transposed convolution of one to three spatial axes, channels last in the result."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import THREADS, Dim, at_most, floordiv, maximum, minimum, pieces, product, select
from intaglio.memory.constants import allocated
from intaglio.targets.c.kernel_file import Instance, Value, kernel
from intaglio.targets.c.structured.pack import pack_b
from intaglio.targets.c.structured.source import (
    Element,
    Formula,
    Sizes,
    StructuredKernel,
    Tile,
    VectorTarget,
    register_tile,
)

Layout = Literal["nhwc", "nchw"]

WINDOW_SIZES = (
    "images", "C", "D", "H", "W", "OD", "OH", "OW", "KD", "KH", "KW",
    "stride_d", "stride_h", "stride_w", "dilation_d", "dilation_h", "dilation_w", "pad_d", "pad_h", "pad_w",
)  # fmt: skip
"""Extents that convolution and pooling share. Axes that a model lacks have extent, kernel and stride 1 and pad 0;
pads are those before the first value, what is missing behind the last one follows from the output's extents."""


def conv(
    target: VectorTarget, input_layout: Layout = "nhwc", element: Element = "float32", *, narrow: bool = False
) -> StructuredKernel:
    """Convolution of an NDHWC (or, for few channels, NCDHW) input with weights from `pack_conv`.

    The epilogue gets the row (image * OD + od) * OH * OW + oh * OW + ow and the output channel. A 1x1 convolution with
    stride 1 and without pads and groups is `pointwise` instead. With `narrow`, tiles and panels are one vector wide.
    """
    tile = register_tile(target, element, narrow=narrow)
    limit = max(64, target.l1 * 2 // 3 // (tile.columns * tile.bytes))
    instance = kernel("conv", _parameters(tile), CHANNELS_LAST=input_layout == "nhwc", LIMIT=limit)
    return _kernel("conv", target, tile, input_layout, instance, _slab_elements(_window_extent))


def conv_by_taps(target: VectorTarget, element: Element = "float32", *, narrow: bool = False) -> StructuredKernel:
    """Convolution of an NDHWC input as by `conv`, one tap after the other, each for the outputs that it reaches.

    For taps that lie far apart: nothing is copied, and nothing computed of what lies outside.
    """
    tile = register_tile(target, element, narrow=narrow)
    return _kernel("conv_by_taps", target, tile, "nhwc", kernel("conv_by_taps", _parameters(tile)), lambda size: 0)


def conv_transpose(target: VectorTarget, element: Element = "float32", *, narrow: bool = False) -> StructuredKernel:
    """Transposed convolution of an NDHWC input with weights from `pack_conv_transpose`.

    Every output gathers its inputs, so that nothing is added twice; rows and columns of the epilogue as for `conv`.
    With `narrow`, tiles and panels are one vector wide.
    """
    tile = register_tile(target, element, narrow=narrow)
    instance = kernel("conv_transpose", _parameters(tile))
    return _kernel("conv_transpose", target, tile, "nhwc", instance, _slab_elements(_gather_extent))


def pack_conv(
    weights: npt.NDArray[Any],
    groups: int,
    target: VectorTarget,
    input_layout: Layout = "nhwc",
    element: Element = "float32",
    *,
    narrow: bool = False,
) -> npt.NDArray[Any]:
    """Weights (OC, C / groups, *kernel) as (groups, panels, taps, C / groups, columns), or channels before taps."""
    outputs, channels, *kernel = weights.shape
    grouped = weights.reshape(groups, outputs // groups, channels, prod(kernel))
    order = (0, 3, 2, 1) if input_layout == "nhwc" else (0, 2, 3, 1)
    turned = grouped.transpose(order)
    ordered = allocated(turned.shape, turned.dtype)
    ordered[...] = turned
    packed = pack_b(ordered.reshape(groups, prod(kernel) * channels, outputs // groups), target, element, narrow=narrow)
    return packed.reshape(groups, packed.shape[1], *ordered.shape[1:3], packed.shape[-1])


def pack_conv_transpose(
    weights: npt.NDArray[Any],
    groups: int,
    target: VectorTarget,
    element: Element = "float32",
    *,
    narrow: bool = False,
) -> npt.NDArray[Any]:
    """Weights (C, OC / groups, *kernel) in the order of `pack_conv`."""
    channels, outputs, *kernel = weights.shape
    grouped = np.swapaxes(weights.reshape(groups, channels // groups, outputs, *kernel), 1, 2)
    turned = grouped.reshape(groups * outputs, channels // groups, *kernel)
    return pack_conv(turned, groups, target, element=element, narrow=narrow)


def _parameters(tile: Tile) -> dict[str, Value]:
    return tile.parameters | {"ROWS_ADJACENT": 0, "WEIGHTS_STRIDE": 0}


def _kernel(hint: str, target: VectorTarget, tile: Tile, layout: Layout, instance: Instance,
            slab: Formula) -> StructuredKernel:  # fmt: skip
    def scratch(size: Sizes) -> Dim:
        taps = _taps(size) * (1 if layout == "nhwc" else _channels(size))
        sums = size["row_block"] * size["col_block"] * tile.columns
        return (taps + 4) * 16 + (sums + slab(size)) * tile.bytes

    return StructuredKernel(
        hint=hint,
        instance=instance,
        tasks=lambda size: _spatial_tasks(size) * pieces(_panels(tile, size), size["panel_block"]),
        cost=partial(_cost, target, tile),
        scratch=scratch,
        tile=f"{tile.rows}x{tile.columns}",
        defaults=partial(_blocks, tile),
    )


def _channels(size: Sizes) -> Dim:
    """Input channels of a group."""
    return floordiv(size["C"], size["groups"])


def _panels(tile: Tile, size: Sizes) -> Dim:
    return pieces(floordiv(size["OC"], size["groups"]), tile.columns)


def _taps(size: Sizes) -> Dim:
    return size["KD"] * size["KH"] * size["KW"]


def _spatial_tasks(size: Sizes) -> Dim:
    """How many blocks of rows and columns of pixels there are, for each image, group and depth."""
    rows, columns = pieces(size["OH"], size["row_block"]), pieces(size["OW"], size["col_block"])
    return size["images"] * size["groups"] * size["OD"] * rows * columns


def _cost(target: VectorTarget, tile: Tile, size: Sizes) -> Dim:
    sums = size["row_block"] * size["col_block"] * size["panel_block"] * (2 * tile.columns)
    return 1 + floordiv(sums * _taps(size) * _channels(size), target.vector_bytes * 2)


def _blocks(tile: Tile, size: Sizes) -> dict[str, Dim]:
    most, panels = 8 * tile.rows, _panels(tile, size)
    col_block = maximum(1, minimum(size["OW"], most))
    row_block = maximum(1, minimum(size["OH"], floordiv(most, col_block)))
    tasks = _spatial_tasks({**size, "col_block": col_block, "row_block": row_block})
    share = select(at_most(4 * THREADS, tasks), panels, floordiv(panels * tasks, 4 * THREADS))
    return {"col_block": col_block, "row_block": row_block, "panel_block": maximum(1, share)}


def _slab_elements(extent: Callable[[Sizes, Dim, str], Dim]) -> Formula:
    def elements(size: Sizes) -> Dim:
        sides = extent(size, 1, "d"), extent(size, size["row_block"], "h"), extent(size, size["col_block"], "w")
        return _channels(size) * product(sides)

    return elements


def _window_extent(size: Sizes, block: Dim, axis: str) -> Dim:
    reach = (size[f"K{axis.upper()}"] - 1) * size[f"dilation_{axis}"]
    return (block - 1) * size[f"stride_{axis}"] + reach + 1


def _gather_extent(size: Sizes, block: Dim, axis: str) -> Dim:
    reach = (size[f"K{axis.upper()}"] - 1) * size[f"dilation_{axis}"]
    return floordiv(block - 1 + reach, size[f"stride_{axis}"]) + 2
