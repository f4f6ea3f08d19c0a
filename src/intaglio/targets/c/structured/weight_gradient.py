"""The gradients of convolutions by their kernels."""

from functools import partial

from intaglio.ir.dim import THREADS, Dim, at_most, floordiv, maximum, minimum, pieces, product, select
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.source import (
    Element,
    Sizes,
    StructuredKernel,
    Tile,
    VectorTarget,
    fill,
    register_tile,
)

PIXELS = 168
"""About so many pixels of a block: what they read and their gradients stay in the first cache."""

ROWS = 48
"""About so many rows of the result use what was packed of the gradient."""


def conv_weight_gradient(target: VectorTarget, element: Element = "float32") -> StructuredKernel:
    """The gradient (OC, C / groups, *kernel) of a convolution by its kernels, of an NDHWC input and output gradient.

    The order in which a sum is made depends on the sizes alone.
    """
    tile = register_tile(target, element)
    parameters = tile.parameters
    del parameters["RESULT"]
    instance = kernel("conv_weight_gradient", parameters)
    return StructuredKernel(
        hint="conv_weight_gradient",
        instance=instance,
        tasks=lambda size: (
            size["groups"]
            * pieces(_inputs(size), size["channel_block"])
            * pieces(_panels(tile, size), size["panel_block"])
        ),
        cost=partial(_cost, target, tile),
        scratch=partial(_scratch, tile),
        defaults=partial(_blocks, target, tile),
        tile=f"{tile.rows}x{tile.columns}",
    )


def _inputs(size: Sizes) -> Dim:
    return floordiv(size["C"], size["groups"])


def _panels(tile: Tile, size: Sizes) -> Dim:
    return pieces(floordiv(size["OC"], size["groups"]), tile.columns)


def _taps(size: Sizes) -> Dim:
    return size["KD"] * size["KH"] * size["KW"]


def _extent(size: Sizes, axis: str, block: str) -> Dim:
    reach = (size[f"K{axis.upper()}"] - 1) * size[f"dilation_{axis}"]
    return (size[block] - 1) * size[f"stride_{axis}"] + reach + 1


def _scratch(tile: Tile, size: Sizes) -> Dim:
    lines = size["image_block"] * size["row_block"]
    sums = size["panel_block"] * _taps(size) * size["channel_block"] * tile.columns
    packed = size["panel_block"] * lines * size["col_block"] * tile.columns
    sides = size["image_block"], _extent(size, "h", "row_block"), _extent(size, "w", "col_block")
    return (lines + 4) * 16 + (sums + packed + product(sides) * size["channel_block"]) * tile.bytes


def _cost(target: VectorTarget, tile: Tile, size: Sizes) -> Dim:
    pixels = size["images"] * size["OD"] * size["OH"] * size["OW"]
    sums = size["channel_block"] * size["panel_block"] * _taps(size) * (2 * tile.columns)
    return 1 + floordiv(pixels * sums, target.vector_bytes * 2)


def _blocks(target: VectorTarget, tile: Tile, size: Sizes) -> dict[str, Dim]:
    inputs, panels = _inputs(size), _panels(tile, size)
    channel_block = maximum(1, minimum(inputs, pieces(ROWS, size["KW"])))
    col_block = maximum(1, minimum(size["OW"], PIXELS))
    row_block = maximum(1, minimum(size["OH"], floordiv(PIXELS, col_block)))
    is_whole = at_most(size["OH"], row_block) * at_most(size["OW"], col_block)
    several = minimum(size["images"], floordiv(PIXELS, row_block * col_block))
    most = floordiv(target.l2 // 4, _taps(size) * channel_block * (tile.columns * tile.bytes) + 1)
    share = floordiv(panels * size["groups"] * pieces(inputs, channel_block), 4 * THREADS)
    return {
        "channel_block": channel_block,
        "panel_block": maximum(1, minimum(minimum(panels, share), most)),
        "image_block": maximum(1, select(is_whole, several, 1)),
        "row_block": row_block,
        "col_block": col_block,
    }


def depthwise_weight_gradient(target: VectorTarget, channels: Dim | None = None) -> StructuredKernel:
    """As `conv_weight_gradient`, of a depthwise convolution: as many groups as input and output channels; float32."""
    instance = kernel("depthwise_weight_gradient", FILL=fill(target, channels))
    lanes = target.vector_bytes // 4
    return StructuredKernel(
        hint="depthwise_weight_gradient",
        instance=instance,
        tasks=lambda size: pieces(pieces(size["C"], lanes), size["vector_block"]),
        cost=lambda size: (
            1 + floordiv(size["vector_block"] * size["images"] * size["OD"] * size["OH"] * size["OW"] * _taps(size), 4)
        ),
        scratch=lambda size: size["vector_block"] * _taps(size) * target.vector_bytes,
        defaults=lambda size: {
            "vector_block": maximum(1, minimum(64, floordiv(pieces(size["C"], lanes), 2 * THREADS)))
        },
    )
