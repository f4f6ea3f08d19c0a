"""Products of floats with weights of four bits, which are taken out of their form in registers."""

from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import floordiv, pieces
from intaglio.targets.c.structured.source import StructuredKernel, VectorTarget, unpack_sizes

_SIZES = ("M", "N", "K", "a_step", "block")
_GROUP = 8
"""Weights of one column in 32 bits."""
_VECTORS = 2


def nibble_gemm(target: VectorTarget, *, has_zero: bool) -> StructuredKernel:
    """M x K floats by K x N weights as `pack_nibbles` makes them; with `has_zero`, blocks have zero points, else all 8.

    The left operand stands at a_step * m + k.
    """
    lanes = target.vector_bytes // 4
    rows = 8 if target.vector_registers >= 32 else 4
    columns = lanes * _VECTORS
    cases = "\n".join(
        f"    case {count}: IG_FUNCTION_sum({count}, {4 if count == 1 else 2 if count == 2 else 1}, a, a_step, w, "
        "scale, zero, depth, block, sum); break;"
        for count in range(1, rows + 1)
    )
    source = _SOURCE.substitute(
        lanes=lanes,
        vectors=_VECTORS,
        columns=columns,
        rows=rows,
        group=_GROUP,
        has_zero="1" if has_zero else "0",
        cases=cases,
        sizes=unpack_sizes(_SIZES),
    )
    return StructuredKernel(
        hint="nibble_gemm",
        source=source,
        buffers=("a", "w", "scales", "zeros"),
        sizes=_SIZES,
        tasks=lambda size: pieces(size["N"], columns),
        cost=lambda size: 1 + floordiv((size["M"] + 2) * size["K"] * columns, target.vector_bytes),
        scratch=lambda size: rows * columns * 4,
    )


def nibble_columns(target: VectorTarget) -> int:
    """Columns of a panel."""
    return target.vector_bytes // 4 * _VECTORS


def pack_nibbles(packed: npt.NDArray[Any], target: VectorTarget) -> npt.NDArray[np.uint32]:
    """Bytes (N, blocks, bytes of a block), low bits first, as (panels, depth / 8, columns): eight weights a column."""
    columns = nibble_columns(target)
    rows = packed.reshape(packed.shape[0], -1)
    bytes_of_word = rows.reshape(rows.shape[0], -1, _GROUP // 2).astype(np.uint32)
    words = sum(bytes_of_word[..., place] << np.uint32(8 * place) for place in range(_GROUP // 2))
    return _panels(np.asarray(words), columns)


def pack_blocks(parameters: npt.NDArray[Any], target: VectorTarget) -> npt.NDArray[np.float32]:
    """Scales or zero points (N, blocks) as (panels, blocks, columns)."""
    return _panels(parameters.astype(np.float32), nibble_columns(target))


def _panels(array: npt.NDArray[Any], columns: int) -> npt.NDArray[Any]:
    panels = -(-array.shape[0] // columns)
    padded = np.zeros((panels * columns, array.shape[1]), array.dtype)
    padded[: array.shape[0]] = array
    return np.ascontiguousarray(padded.reshape(panels, columns, -1).swapaxes(1, 2))


_SOURCE = Template("""\
/* Lane by lane, the number in the lowest four bits less 8 (or as it is where zero points follow). */
static inline __attribute__((always_inline)) ig_f32 IG_FUNCTION_number(ig_u32 bits)
{
#if IG_AVX512
    const ig_f32 table = $has_zero ? (ig_f32){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
                                   : (ig_f32){-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return __builtin_ia32_permvarsf512_mask(table, (ig_i32)bits, table, (uint16_t)-1);
#else
    return ig_cast_i32_f32((ig_i32)(bits & 15) - ($has_zero ? 0 : 8));
#endif
}

/* sum[r][c] = row r x column c of a panel. Few rows have several sums a column, to hide the latency, and scale those of
   a block instead of its weights. */
static inline __attribute__((always_inline)) void
IG_FUNCTION_sum(const int rows, const int unroll, const float *a, int64_t a_step, const uint32_t *w, const float *scale,
                const float *zero, int64_t depth, int64_t block, float *sum)
{
    ig_f32 c[$rows][$vectors], total[2][$vectors] = {0};
    const int scales_sums = unroll > 1;
    IG_UNROLL for (int r = 0; r < rows * unroll; r++)
        IG_UNROLL for (int v = 0; v < $vectors; v++)
            c[r][v] = (ig_f32){0};
    for (int64_t first = 0; first < depth; first += block, scale += $columns, zero += $columns) {
        const int64_t last = depth - first < block ? depth : first + block;
        ig_f32 step[$vectors], shift[$vectors];
        IG_UNROLL for (int v = 0; v < $vectors; v++) {
            step[v] = ig_load_f32(scale + v * $lanes);
            shift[v] = $has_zero ? ig_load_f32(zero + v * $lanes) : (ig_f32){0};
        }
        int64_t k = first;
        for (; k + $group <= last; k += $group, w += $columns) {
            ig_u32 bits[$vectors];
            IG_UNROLL for (int v = 0; v < $vectors; v++) {
                bits[v] = ig_load_u32(w + v * $lanes);
                __builtin_prefetch(w + 16 * $columns + v * $lanes);
            }
            IG_UNROLL for (int j = 0; j < $group; j++) {
                ig_f32 weight[$vectors];
                IG_UNROLL for (int v = 0; v < $vectors; v++) {
                    weight[v] = IG_FUNCTION_number(bits[v] >> (4 * j));
                    weight[v] = $has_zero ? weight[v] - shift[v] : weight[v];
                    weight[v] = scales_sums ? weight[v] : weight[v] * step[v];
                }
                IG_UNROLL for (int r = 0; r < rows; r++) {
                    const ig_f32 value = ig_set_f32(a[r * a_step + k + j]);
                    IG_UNROLL for (int v = 0; v < $vectors; v++)
                        c[j % unroll * rows + r][v] += value * weight[v];
                }
            }
        }
        for (int64_t j = 0; k < last; k++, j++)
            IG_UNROLL for (int v = 0; v < $vectors; v++) {
                const ig_f32 number = IG_FUNCTION_number(ig_load_u32(w + v * $lanes) >> (uint32_t)(4 * j));
                const ig_f32 shifted = $has_zero ? number - shift[v] : number;
                const ig_f32 weight = scales_sums ? shifted : shifted * step[v];
                IG_UNROLL for (int r = 0; r < rows; r++)
                    c[r][v] += ig_set_f32(a[r * a_step + k]) * weight;
            }
        if (scales_sums)
            IG_UNROLL for (int r = 0; r < rows; r++)
                IG_UNROLL for (int v = 0; v < $vectors; v++) {
                    IG_UNROLL for (int u = 1; u < unroll; u++) {
                        c[r][v] += c[u * rows + r][v];
                        c[u * rows + r][v] = (ig_f32){0};
                    }
                    total[r][v] += c[r][v] * step[v];
                    c[r][v] = (ig_f32){0};
                }
    }
    IG_UNROLL for (int r = 0; r < rows; r++)
        IG_UNROLL for (int v = 0; v < $vectors; v++)
            ig_store_f32(sum + r * $columns + v * $lanes, scales_sums ? total[r][v] : c[r][v]);
}

static __attribute__((noinline)) void
IG_FUNCTION_tile(int64_t rows, const float *a, int64_t a_step, const uint32_t *w, const float *scale, const float *zero,
                 int64_t depth, int64_t block, float *sum)
{
    switch (rows) {
$cases
    }
}

/* Floats by weights of four bits. A task is one panel of $columns columns.
   buffer: a, w, scales, zeros, the epilogue's
   size: M, N, K, a_step, block, the epilogue's
   tasks: ceil(N / $columns) */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    $sizes
    const float *const a = buffer[0];
    float *const sum = scratch;
    const int64_t blocks = (K + block - 1) / block, words = blocks * block / $group;
    for (int64_t panel = begin; panel < end; panel++) {
        const uint32_t *const w = (const uint32_t *)buffer[1] + panel * words * $columns;
        const float *const scale = (const float *)buffer[2] + panel * blocks * $columns;
        const float *const zero = $has_zero ? (const float *)buffer[3] + panel * blocks * $columns : scale;
        const int64_t col = panel * $columns, columns = N - col < $columns ? N - col : $columns;
        for (int64_t row = 0, count; row < M; row += count) {
            const int64_t left = M - row;
            count = left <= $rows ? left : left >= 2 * $rows ? $rows : (left + 1) / 2;
            IG_FUNCTION_tile(count, a + row * a_step, a_step, w, scale, zero, K, block, sum);
            for (int64_t r = 0; r < count; r++)
                for (int64_t c = 0; c < columns; c += $lanes) {
                    const ig_f32 total = ig_load_f32(sum + r * $columns + c);
                    if (c + $lanes <= columns)
                        ig_epilogue(buffer, size, row + r, col + c, total);
                    else
                        ig_epilogue_n(buffer, size, row + r, col + c, total, columns - c);
                }
        }
    }
}
""")
