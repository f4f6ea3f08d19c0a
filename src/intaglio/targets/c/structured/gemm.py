"""Matrix products: C = A x B for floats and integers, batched, with a fused epilogue."""

from functools import partial
from typing import Literal

from intaglio.ir.dim import THREADS, Dim, at_most, floordiv, maximum, minimum, pieces, select
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.source import (
    Element,
    Sizes,
    StructuredKernel,
    Tile,
    VectorTarget,
    register_tile,
)

THIN = 4
"""Products of so few columns are made of dot products..."""

THIN_DEPTH = 32
"""...where the depth is at least so many times the columns."""

FEW = 16
"""The same for so few rows..."""

FEW_DEPTH = 16
"""...and a depth of at least so many times the rows."""

Extents = tuple[Dim, Dim, Dim]
"""M, N and K of a product."""

Left = Literal["rows", "columns"]
Right = Literal["packed", "rows", "columns"]


def gemm(
    target: VectorTarget,
    element: Element = "float32",
    a: Left = "rows",
    b: Right = "packed",
    *,
    narrow: bool = False,
    extents: Extents | None = None,
) -> StructuredKernel:
    """outer x inner products of M x K by K x N matrices; result row (batch * M + m) goes to the epilogue.

    A value of the left operand stands at a_outer * o + a_inner * i + a_step * m + k for a="rows" and at ... + m +
    a_step * k for a="columns"; of the right one at b_outer * o + b_inner * i + b_step * k + n for b="rows", at ... +
    b_step * n + k for b="columns", and in panels as `pack_b` makes them for b="packed" (b_step is not read). A stride
    of 0 repeats the matrix. The order in which a sum is made depends on M, N and K alone. With `narrow`, tiles and
    panels are one vector wide. Where `extents` tell how these sizes are computed, the code has no other way in it.
    """
    tile = register_tile(target, element, narrow=narrow)
    if a == "columns":
        return _gemm_columns(target, tile, b)
    instance = kernel(
        "gemm",
        tile.parameters,
        B_PACKED=b == "packed",
        B_IN_ROWS=b == "rows",
        B_IN_COLUMNS=b == "columns",
        THIN=THIN,
        THIN_DEPTH=THIN_DEPTH,
        FEW=FEW,
        FEW_DEPTH=FEW_DEPTH,
        WAY=_way(b, extents),
    )
    packed = 0 if b == "packed" else 1
    return StructuredKernel(
        hint="gemm",
        instance=instance,
        tasks=partial(matrix_tasks, tile.columns),
        cost=partial(_cost, target, tile),
        scratch=lambda size: (size["row_block"] + size["K"] * packed) * (tile.columns * tile.bytes),
        defaults=partial(_packed_blocks if b == "packed" else _unpacked_blocks, target, tile),
        tile=f"{tile.rows}x{tile.columns}",
    )


def _way(b: Right, extents: Extents | None) -> int:
    """The number that `kernels/gemm.c` has for the way these sizes are computed; 0 where only the run knows.

    >>> _way("columns", (8, 64, 512)), _way("columns", (800, 64, 512)), _way("packed", (1, 64, 512))
    (2, 5, 4)
    """
    m, n, k = extents or (None, None, None)
    if not isinstance(m, int):
        return 0
    if b != "columns":
        return 4 if m == 1 else 5
    if not isinstance(n, int) or not isinstance(k, int):
        return 0
    if n <= THIN and k >= THIN_DEPTH * n:
        return 1
    if 1 < m <= FEW and k >= FEW_DEPTH * m:
        return 2
    return 3 if m <= 2 else 5


STRIP = 24
"""Register tiles of rows that a product with contiguous columns on the left packs at once..."""

STRIP_PANELS = 8
"""...and at most so many panels that use them..."""

STRIP_DEPTH = 256
"""...in parts of about so much of the depth: what a tile reads of the right operand stays in the first cache."""


def _gemm_columns(target: VectorTarget, tile: Tile, b: Right) -> StructuredKernel:
    instance = kernel("gemm_columns", tile.parameters, B_PACKED=b == "packed", B_IN_ROWS=b == "rows")

    def scratch(size: Sizes) -> Dim:
        sums = size["row_block"] * size["panel_block"] * tile.columns
        return (sums + (size["row_block"] + tile.columns) * size["depth_block"]) * tile.bytes

    return StructuredKernel(
        hint="gemm_columns",
        instance=instance,
        tasks=partial(matrix_tasks, tile.columns),
        cost=partial(_cost, target, tile),
        scratch=scratch,
        defaults=partial(_strip_blocks, tile),
        tile=f"{tile.rows}x{tile.columns}",
    )


def _strip_blocks(tile: Tile, size: Sizes) -> dict[str, Dim]:
    panels, row_block = pieces(size["N"], tile.columns), maximum(1, minimum(size["M"], STRIP * tile.rows))
    share = floordiv(panels * size["outer"] * size["inner"] * pieces(size["M"], row_block), 4 * THREADS)
    return {
        "row_block": row_block,
        "panel_block": maximum(1, minimum(minimum(panels, STRIP_PANELS), share)),
        "depth_block": maximum(1, pieces(size["K"], maximum(1, pieces(size["K"], STRIP_DEPTH)))),
    }


def matrix_tasks(columns: int, size: Sizes) -> Dim:
    """A task is a block of rows by a block of panels of so many columns, of one product."""
    panel_blocks = pieces(pieces(size["N"], columns), size["panel_block"])
    return size["outer"] * size["inner"] * pieces(size["M"], size["row_block"]) * panel_blocks


def _cost(target: VectorTarget, tile: Tile, size: Sizes) -> Dim:
    """Nanoseconds of a task: what is computed, and weights that come out of a far cache at some 20 bytes a nanosecond.

    A core computes, roughly, two fused vector operations in each of 2.5 cycles of a nanosecond.
    """
    flops_per_ns = max(4, target.vector_bytes // tile.bytes * 8)
    flops_per_element = flops_per_ns * tile.bytes // 20
    weights = size["panel_block"] * size["K"] * tile.columns
    return 1 + floordiv(weights * (2 * size["row_block"] + flops_per_element), flops_per_ns)


def _depth_block(target: VectorTarget, tile: Tile, size: Sizes) -> Dim:
    """As much of the depth as leaves a panel's part in the second cache; shorter parts cost more than they save."""
    limit = max(256, target.l2 // 4 // (tile.columns * tile.bytes))
    depth = size["K"]
    is_whole = maximum(at_most(size["M"], 2 * tile.rows), at_most(depth, limit + limit // 2))
    return select(is_whole, maximum(depth, 1), pieces(depth, maximum(pieces(depth, limit), 1)))


def _packed_blocks(target: VectorTarget, tile: Tile, size: Sizes) -> dict[str, Dim]:
    blocks = packed_blocks(target, tile.rows, tile.columns, tile.bytes, size)
    return blocks | {"depth_block": _depth_block(target, tile, size)}


def packed_blocks(target: VectorTarget, rows: int, columns: int, element: int, size: Sizes) -> dict[str, Dim]:
    """Column panels are the tasks when there are enough of them, row blocks when the weights stay in cache.

    `rows` and `columns` are those of the register tile, `element` the bytes of one operand's element.
    """
    half, most = target.l2 // 2 // element, target.l2 * 3 // 4 // element
    height, depth, panels = size["M"], size["K"], pieces(size["N"], columns)
    weights_fit = at_most(depth * size["N"], half)
    resident = maximum(4 * rows, floordiv(most, maximum(depth, 1)))
    share = pieces(height, 4 * THREADS)
    is_wide = at_most(4 * THREADS, panels) * maximum(at_most(height * depth, most), 1 - weights_fit)
    tall_block = maximum(rows, minimum(select(weights_fit, 8 * rows, resident), share))
    row_block = maximum(1, select(is_wide, minimum(height, resident), tall_block))
    is_tall = weights_fit * at_most(4 * THREADS, pieces(height, row_block))
    return {"row_block": row_block, "panel_block": select(is_tall, maximum(panels, 1), 1)}


def resident_rows(target: VectorTarget, tile: Tile, depth: Dim) -> Dim:
    """Rows of the left operand that leave half of the second cache."""
    return maximum(8 * tile.rows, floordiv(target.l2 // 2 // tile.bytes, maximum(depth, 1)))


def _unpacked_blocks(target: VectorTarget, tile: Tile, size: Sizes) -> dict[str, Dim]:
    """Each task packs its panels, so that it should have many rows."""
    height, panels, products = size["M"], pieces(size["N"], tile.columns), size["outer"] * size["inner"]
    resident = resident_rows(target, tile, size["K"])
    share = select(at_most(2 * THREADS, products * panels), height, pieces(height, 4 * THREADS))
    return {
        "row_block": maximum(1, minimum(resident, maximum(2 * tile.rows, share))),
        "panel_block": select(at_most(4 * THREADS, products), maximum(panels, 1), 1),
        "depth_block": _depth_block(target, tile, size),
    }
