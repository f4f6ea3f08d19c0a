"""Products of rows by the weights of one of several experts each."""

from intaglio.ir.dim import THREADS, Dim, floordiv, maximum, pieces
from intaglio.targets.c.kernel_file import Instance, kernel
from intaglio.targets.c.structured.nibbles import NIBBLE_VECTORS, nibble_columns, nibble_rows
from intaglio.targets.c.structured.source import Sizes, StructuredKernel, VectorTarget, register_tile


def expert_gemm(target: VectorTarget) -> StructuredKernel:
    """M rows, of which `repeats` are made of one row of the left operand, by matrices K x N as `pack_b` makes them.

    `index` has the number of each row's matrix. A value of the left operand stands at a_step * row + k.
    """
    tile = register_tile(target)
    return _experts(target, kernel("expert_gemm", tile.parameters), "expert_gemm", tile.rows, tile.columns)


def expert_nibble_gemm(target: VectorTarget, *, has_zero: bool) -> StructuredKernel:
    """The same by weights as `pack_nibbles` makes them, with scales and zero points of blocks; see `nibble_gemm`."""
    rows, columns = nibble_rows(target), nibble_columns(target)
    instance = kernel("expert_nibble_gemm", HAS_ZERO=has_zero, BITS=4, ROWS=rows, VECTORS=NIBBLE_VECTORS)
    return _experts(target, instance, "expert_nibble_gemm", rows, columns)


def _experts(target: VectorTarget, instance: Instance, hint: str, rows: int, columns: int) -> StructuredKernel:
    def cost(size: Sizes) -> Dim:
        """Nanoseconds of a task, where each expert has as many rows as any other."""
        flops = size["panel_block"] * size["K"] * columns * (floordiv(2 * size["M"], size["experts"]) + 2)
        return 1 + floordiv(flops, target.vector_bytes * 2)

    return StructuredKernel(
        hint=hint,
        instance=instance,
        tasks=lambda size: size["experts"] * pieces(pieces(size["N"], columns), size["panel_block"]),
        cost=cost,
        scratch=lambda size: rows * (columns + size["K"]) * 4,
        defaults=lambda size: {"panel_block": maximum(1, floordiv(pieces(size["N"], columns), 2 * THREADS))},
        tile=f"{rows}x{columns}",
    )
