"""Winograd's convolution for 3x3 filters with stride 1: fewer products, more rounding."""

from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import THREADS, Dim, at_most, floordiv, maximum, minimum, pieces, select
from intaglio.memory.constants import allocated
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.source import (
    Sizes,
    StructuredKernel,
    Tile,
    VectorTarget,
    register_tile,
)

Output = Literal[2, 4]

_FILTER: dict[Output, list[list[float]]] = {
    2: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
    4: [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
}

_MIDDLE: dict[Output, tuple[int, int, int]] = {2: (1, 2, 1), 4: (2, 1, 3)}
"""How the middle tap of one axis comes out of the transform: (a, b, f) for f * (o[a] - o[b])."""

LARGE = 2.0**20
"""A tile with a number from here on, or with one that is not finite, is computed directly: what the transforms round
is in proportion to the largest number of the tile, and their sums overflow long before the result does."""

LARGEST_WEIGHT = 1e20
"""With weights up to here no sum of numbers below LARGE overflows."""

_PACKED_AT_ONCE = 2**19
"""So many weights are transformed at once: more would only take memory."""


def winograd(target: VectorTarget, output: Output = 4, *, has_given: bool = False) -> StructuredKernel:
    """3x3 convolution with stride 1 and dilation 1, ungrouped, of an NHWC float32 input.

    Computes output x output pixels from each (output + 2) x (output + 2) of the input. Weights from `pack_winograd`;
    the epilogue's row is the output pixel. Rounds more than `conv`: about as much for 2, tenfold for 4. Tiles that hold
    infinities, NaN or numbers from LARGE on are summed directly, with weights made again from the packed ones. With
    `has_given` the packed ones come from `winograd_pack` and the kernel gets those as they were too.
    """
    tile = register_tile(target)
    assert 4 * tile.rows <= 64, "the kernel keeps a bit for each tile of a block"
    side = output + 2
    parameters = tile.parameters | {"ROWS_ADJACENT": 0, "WEIGHTS_STRIDE": 0}
    instance = kernel("winograd", parameters, OUTPUT=output, LIMIT=f"{LARGE * LARGE!r}f", HAS_GIVEN=has_given)
    return StructuredKernel(
        hint=f"winograd{output}",
        instance=instance,
        tasks=lambda size: (
            pieces(_tiles(output, size), size["tile_block"])
            * pieces(pieces(size["OC"], tile.columns), size["panel_block"])
        ),
        cost=lambda size: (
            1
            + floordiv(
                size["tile_block"] * size["panel_block"] * size["C"] * (2 * tile.columns * side * side),
                target.vector_bytes * 2,
            )
        ),
        scratch=partial(_scratch, tile, side),
        defaults=partial(_blocks, target, tile, output),
        tile=f"{tile.rows}x{tile.columns}, {output}x{output} results of {side}x{side}",
    )


def winograd_pack(target: VectorTarget, output: Output = 4) -> StructuredKernel:
    """Packs weights in a run as `pack_winograd` does, and tells behind them which panels have too large ones.

    Weight (o, c, k), the taps in one row, stands at first + o * output_step + c * channel_step + k * tap_step.
    """
    tile = register_tile(target)
    parameters = {name: tile.parameters[name] for name in ("ELEMENT", "LANES", "VECTORS")}
    instance = kernel("winograd_pack", parameters, OUTPUT=output, LARGEST=f"{LARGEST_WEIGHT!r}f")
    return StructuredKernel(
        hint=f"winograd{output}_pack",
        instance=instance,
        tasks=lambda size: pieces(size["OC"], tile.columns),
        cost=lambda size: 1 + size["C"] * (output + 2) ** 2 * tile.vectors,
    )


def winograd_pack_size(target: VectorTarget, output: Output, outputs: int, channels: int) -> int:
    """How many elements `winograd_pack` writes."""
    columns = register_tile(target).columns
    return -(-outputs // columns) * ((output + 2) ** 2 * channels * columns + 1)


def pack_winograd(weights: npt.NDArray[Any], target: VectorTarget, output: Output = 4) -> npt.NDArray[Any]:
    """Weights (OC, C, 3, 3), transformed, as (panels, positions, C, columns)."""
    matrix = np.array(_FILTER[output])
    outputs, channels = weights.shape[:2]
    columns = register_tile(target).columns
    panels = -(-outputs // columns)
    transform = np.kron(matrix, matrix).astype(np.float32)
    packed = allocated((panels, len(transform), channels, columns), np.float32)
    step = max(1, _PACKED_AT_ONCE // (9 * channels * columns))
    for first in range(0, panels, step):
        part = allocated((min(step, panels - first) * columns, channels, 9), np.float32)
        given = weights[first * columns : first * columns + len(part)]
        part[: len(given)], part[len(given) :] = given.reshape(-1, channels, 9), 0
        transformed = allocated((len(transform), len(part) * channels), np.float32)
        np.matmul(transform, part.reshape(-1, 9).T, out=transformed)
        _keep_zeros(transformed, part.reshape(-1, 9), output)
        packed[first : first + step] = transformed.reshape(-1, len(part) // columns, columns, channels).transpose(
            1, 0, 3, 2
        )
    return packed


def _keep_zeros(transformed: npt.NDArray[Any], filters: npt.NDArray[Any], output: Output) -> None:
    """Change last bits so that taps of zero are found as zero again: an infinity times such a tap is NaN."""
    if filters.all():
        return
    at, (a, b, _) = transformed.reshape(output + 2, output + 2, -1), _MIDDLE[output]
    for place, tap in ((0, 1), (-1, 7)):
        np.copyto(at[place, a], at[place, b], where=filters[:, tap] == 0)
    for place, tap in ((0, 3), (-1, 5)):
        np.copyto(at[a, place], at[b, place], where=filters[:, tap] == 0)
    middle = np.array((a, b))
    places = middle[:, None, None], middle[:, None], np.flatnonzero(filters[:, 4] == 0)
    corners = at[places]
    _, exponent = np.frexp(np.abs(corners).max(axis=(0, 1)))
    corners = np.ldexp(np.rint(np.ldexp(corners, 22 - exponent)), exponent - 22)  # so that sums of four are exact
    corners[0, 0] = corners[0, 1] + (corners[1, 0] - corners[1, 1])
    at[places] = corners


def preferred_output(height: int, width: int, channels: int) -> Output:
    """The faster of the two for an output of height x width pixels.

    Large tiles waste much of a small image and need more of the weights' bandwidth; where both tie, the smaller
    rounds less.
    """
    pixels = height * width
    return 4 if pixels > 14 * 14 or (pixels == 14 * 14 and channels < 256) else 2


def _tiles(output: Output, size: Sizes) -> Dim:
    return size["images"] * pieces(size["OH"], output) * pieces(size["OW"], output)


def _scratch(tile: Tile, side: int, size: Sizes) -> Dim:
    row = (pieces(size["C"], tile.lanes) + 1) * tile.lanes
    return side * side * tile.bytes * (size["tile_block"] * (row + tile.columns) + 2 * tile.lanes)


def _blocks(target: VectorTarget, tile: Tile, output: Output, size: Sizes) -> dict[str, Dim]:
    """As many tiles as leave half of the second cache to their transformed values, in whole register tiles."""
    rows, side, tiles, panels = tile.rows, output + 2, _tiles(output, size), pieces(size["OC"], tile.columns)
    resident = floordiv(target.l2 // 2 // (4 * side * side), (size["C"] + 1) * rows) * rows
    tile_block = maximum(1, minimum(maximum(rows, minimum(4 * rows, resident)), tiles))
    share = floordiv(panels * pieces(tiles, tile_block), 4 * THREADS)
    panel_block = maximum(1, select(at_most(4 * THREADS * tile_block, tiles), panels, share))
    return {"tile_block": tile_block, "panel_block": panel_block}
