"""Matrix products of bytes with exact sums in int32, and the packing of right operands at run time."""

from functools import partial
from string import Template

from intaglio.ir.dim import THREADS, Dim, floordiv, maximum, minimum, pieces
from intaglio.targets.c.structured.gemm import matrix_tasks, packed_blocks
from intaglio.targets.c.structured.integer_tile import (
    Byte,
    IntegerTarget,
    IntegerTile,
    has_shift,
    integer_tile,
    integer_tile_source,
)
from intaglio.targets.c.structured.source import Sizes, StructuredKernel, unpack_sizes

_SIZES = ("M", "N", "K", "outer", "inner", "a_step", "a_outer", "a_inner", "b_outer", "b_inner", "zero_step")
_PACK_SIZES = ("N", "K", "outer", "inner", "k_step", "n_step", "b_outer", "b_inner", "zero_step")


def integer_gemm(
    target: IntegerTarget, left: Byte = "uint8", *, has_zero: bool = False, row_zero: bool = False
) -> StructuredKernel:
    """outer x inner products of M x K by K x N bytes; the int32 sums of row (batch * M + m) go to the epilogue.

    The left operand stands at a_outer * o + a_inner * i + a_step * m + k, its zero point at zero_step * m. The right
    one is packed as `pack_integer` does, batches b_outer and b_inner bytes apart. `has_zero`: packed columns may have
    zero points; `row_zero`: the left operand has one for each row.
    """
    tile = integer_tile(target, left)
    sizes = (*_SIZES, "row_block", "panel_block")
    source = integer_tile_source(tile, has_zero=has_zero, row_zero=row_zero) + _KERNEL.substitute(
        tile.names,
        rows=tile.block_rows,
        sizes=unpack_sizes(sizes),
        prepare=_prepare_source(tile, row_zero),
        takes_sums="1" if has_zero else "0",
        chunk=str(tile.block_rows) if tile.matrices else "rows",
    )
    speed = target.vector_bytes * (4 if tile.quads else 2)
    return StructuredKernel(
        hint="integer_gemm",
        source=source,
        buffers=("a", "b", "zero_point"),
        sizes=sizes,
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


def _prepare_source(tile: IntegerTile, row_zero: bool) -> str:
    """C that makes `rows` rows of the left operand readable by the tile."""
    if tile.quads:
        return "        const int64_t step = a_step;\n        const $type *x = a_rows;".replace("$type", tile.left_type)
    zero = "zero_point[(row + r) * zero_step]" if row_zero else "zero_point[0]"
    return _WIDEN.substitute(zero=zero, group=tile.group, rest=tile.group - 1)


def integer_pack_kernel(target: IntegerTarget, left: Byte, right: Byte) -> StructuredKernel:
    """Packs outer x inner matrices of K x N bytes as `pack_integer` does, for a left operand of that type.

    A value stands at b_outer * o + b_inner * i + k_step * k + n_step * n, its zero point at zero_step * n.
    """
    tile = integer_tile(target, left)
    flip = "0x80" if has_shift(tile, right) else "0"
    source = _PACK.substitute(
        tile.names,
        right=f"{right}_t",
        stored="int8_t" if tile.stored_signed else "uint8_t",
        flip=flip,
        sizes=unpack_sizes(_PACK_SIZES),
    )
    return StructuredKernel(
        hint="integer_pack",
        source=source,
        buffers=("b", "zero_point", "packed"),
        sizes=_PACK_SIZES,
        tasks=lambda size: size["outer"] * size["inner"] * pieces(size["N"], tile.columns),
        cost=lambda size: 1 + size["K"] * tile.columns,
    )


_WIDEN = Template("""\
        const int64_t step = (K + $rest) / $group * $group;
        int16_t *const x = (int16_t *)((char *)scratch + sum_bytes + (row_block * 4 + 63) / 64 * 64);
        for (int64_t r = 0; r < rows; r++)
            IG_FUNCTION_widen(a_rows + r * a_step, K, $zero, x + r * step);""")

_KERNEL = Template("""\

/* Matrix product of bytes. A task is row_block rows by panel_block panels of $columns columns of one product.
   buffer: a, b, zero_point, the epilogue's
   size: M, N, K, outer, inner, a_step, a_outer, a_inner, b_outer, b_inner, zero_step, row_block, panel_block,
         the epilogue's
   tasks: outer * inner * ceil(M / row_block) * ceil(ceil(N / $columns) / panel_block) */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    enum { sum_bytes = $rows * $columns * 4 };
    $sizes
    const $raw *const a = buffer[0], *const zero_point = buffer[2];
    const uint8_t *const b = buffer[1];
    uint32_t *const sum = scratch, *const row_sum = (uint32_t *)((char *)scratch + sum_bytes);
    const int64_t panels = (N + $columns - 1) / $columns, row_blocks = (M + row_block - 1) / row_block;
    const int64_t panel_blocks = (panels + panel_block - 1) / panel_block;
    const int64_t panel_size = (K + $group - 1) / $group * ($group * $columns) + $header;
    (void)outer;
    IG_FUNCTION_begin();
    for (int64_t task = begin; task < end; task++) {
        const int64_t batch = task / (row_blocks * panel_blocks), in_batch = task % (row_blocks * panel_blocks);
        const int64_t block = in_batch % row_blocks, panel_index = in_batch / row_blocks;
        const int64_t row = M * block / row_blocks, rows = M * (block + 1) / row_blocks - row;
        const $raw *const a_rows = a + batch / inner * a_outer + batch % inner * a_inner + row * a_step;
        const uint8_t *const b_batch = b + batch / inner * b_outer + batch % inner * b_inner;
$prepare
        if ($takes_sums)
            for (int64_t r = 0; r < rows; r++)
                row_sum[r] = IG_FUNCTION_row_sum(x + r * step, K);
        const int64_t last = panels * (panel_index + 1) / panel_blocks;
        for (int64_t first = 0; first < rows; first += $chunk)
            for (int64_t panel = panels * panel_index / panel_blocks; panel < last; panel++) {
                const int64_t col = panel * $columns, at = row + first;
                IG_FUNCTION_panel(buffer, size, x + first * step, step, b_batch + panel * panel_size,
                                  rows - first < $chunk ? rows - first : $chunk, K, zero_point + at * zero_step,
                                  zero_step, row_sum + first, batch * M + at, col,
                                  N - col < $columns ? N - col : $columns, sum);
            }
    }
    IG_FUNCTION_end();
}
""")

_PACK = Template("""\
/* Packs matrices of bytes into panels of $columns columns, each behind its header.
   buffer: b, zero_point, packed
   size: N, K, outer, inner, k_step, n_step, b_outer, b_inner, zero_step
   tasks: outer * inner * ceil(N / $columns) */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    $sizes
    const int64_t panels = (N + $columns - 1) / $columns;
    const int64_t panel_size = (K + $group - 1) / $group * ($group * $columns) + $header;
    const $right *const zero_point = buffer[1];
    (void)scratch, (void)outer;
    for (int64_t task = begin; task < end; task++) {
        const int64_t panel = task % panels, batch = task / panels, col = panel * $columns;
        const int64_t columns = N - col < $columns ? N - col : $columns;
        const $right *const from =
            (const $right *)buffer[0] + batch / inner * b_outer + batch % inner * b_inner + col * n_step;
        uint8_t *const to = (uint8_t *)buffer[2] + task * panel_size;
        uint32_t column[$columns] = {0}, zero[$columns] = {0};
        __builtin_memset(to, 0, (unsigned long)panel_size);
        for (int64_t k = 0; k < K; k++) {
            uint8_t *const group = to + $header + k / $group * ($group * $columns) + k % $group;
            for (int64_t c = 0; c < columns; c++) {
                const uint8_t stored = (uint8_t)from[k * k_step + c * n_step] ^ $flip;
                group[c * $group] = stored;
                column[c] += (uint32_t)($stored)stored;
            }
        }
        for (int64_t c = 0; c < columns; c++) {
            zero[c] = (uint32_t)($stored)((uint8_t)zero_point[(col + c) * zero_step] ^ $flip);
            column[c] -= (uint32_t)K * zero[c];
        }
        __builtin_memcpy(to, column, sizeof column);
        __builtin_memcpy(to + sizeof column, zero, sizeof zero);
    }
}
""")
