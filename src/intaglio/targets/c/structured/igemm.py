"""Matrix products of bytes with exact sums in int32, and the packing of right operands at run time."""

from functools import partial

from intaglio.ir.dim import THREADS, Dim, floordiv, maximum, minimum, pieces
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.gemm import matrix_tasks, packed_blocks
from intaglio.targets.c.structured.integer_tile import (
    Byte,
    IntegerTarget,
    IntegerTile,
    has_shift,
    integer_tile,
)
from intaglio.targets.c.structured.source import Sizes, StructuredKernel


def integer_gemm(
    target: IntegerTarget,
    left: Byte = "uint8",
    *,
    columns: object = None,
    has_zero: bool = False,
    row_zero: bool = False,
) -> StructuredKernel:
    """outer x inner products of M x K by K x N bytes; the int32 sums of row (batch * M + m) go to the epilogue.

    The left operand stands at a_outer * o + a_inner * i + a_step * m + k, its zero point at zero_step * m. The right
    one is packed as `pack_integer` does, batches b_outer and b_inner bytes apart. `has_zero`: packed columns may have
    zero points; `row_zero`: the left operand has one for each row. `columns` chooses the tile, as `integer_tile` tells.
    """
    tile = integer_tile(target, left, columns)
    instance = kernel("integer_gemm", tile.parameters(has_zero), ROW_ZERO=row_zero)
    speed = target.vector_bytes * (4 if tile.quads else 2)
    return StructuredKernel(
        hint="integer_gemm",
        instance=instance,
        tasks=partial(matrix_tasks, tile.columns),
        cost=lambda size: 1 + floordiv(size["row_block"] * size["panel_block"] * size["K"] * tile.columns, speed),
        scratch=partial(_scratch, tile),
        defaults=partial(_matrix_blocks, target, tile)
        if tile.matrices
        else partial(packed_blocks, target, tile.rows, tile.columns, tile.left_bytes),
        tile=f"{tile.block_rows}x{tile.columns}",
    )


def _scratch(tile: IntegerTile, size: Sizes) -> Dim:
    """The sums of a tile, a number for each row, and the rows where they are widened."""
    widened = 0 if tile.quads else size["row_block"] * pieces(size["K"], tile.group) * (tile.group * 2)
    return tile.block_rows * tile.columns * 4 + pieces(size["row_block"] * 4, 64) * 64 + widened


def _matrix_blocks(target: IntegerTarget, tile: IntegerTile, size: Sizes) -> dict[str, Dim]:
    """As many panels as the second cache holds, read in order for each block of rows; enough tasks for all threads."""
    panels, depth = pieces(size["N"], tile.columns), maximum(size["K"], 1)
    resident = floordiv(target.l2 // 2, depth * tile.columns)
    share = pieces(panels, 4 * THREADS)
    rows = maximum(8 * tile.block_rows, floordiv(target.l2 // 4, depth * tile.block_rows) * tile.block_rows)
    return {
        "row_block": maximum(1, minimum(size["M"], rows)),
        "panel_block": maximum(1, minimum(resident, share)),
    }


def integer_pack_kernel(target: IntegerTarget, left: Byte, right: Byte, *, columns: object = None) -> StructuredKernel:
    """Packs outer x inner matrices of K x N bytes as `pack_integer` does, for a left operand of that type.

    A value stands at b_outer * o + b_inner * i + k_step * k + n_step * n, its zero point at zero_step * n.
    """
    tile = integer_tile(target, left, columns)
    instance = kernel(
        "integer_pack",
        RIGHT=f"{right}_t",
        STORED="int8_t" if tile.stored_signed else "uint8_t",
        FLIP="0x80" if has_shift(tile, right) else "0",
        GROUP=tile.group,
        VECTORS=tile.vectors,
    )
    return StructuredKernel(
        hint="integer_pack",
        instance=instance,
        tasks=lambda size: size["outer"] * size["inner"] * pieces(size["N"], tile.columns),
        cost=lambda size: 1 + size["K"] * tile.columns,
    )
