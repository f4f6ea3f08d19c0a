/* Sums of floats by weights of four or eight bits, which are taken out of their form in registers. */
#ifndef BITS
#define BITS 4
#endif
/* Whether blocks have zero points; else all are the middle of the weights' range. */
#ifndef HAS_ZERO
#define HAS_ZERO 0
#endif
/* Rows of sums in registers: 4 or 8. */
#ifndef ROWS
#define ROWS 4
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#define COLUMNS (IG_LANES * VECTORS)
/* Weights of one column in 32 bits. */
#define GROUP (32 / BITS)
#define MIDDLE (1 << (BITS - 1))
#define RESULT ig_f32
#include "epilogue.h"

/* Lane by lane, the number in the lowest bits less the middle (or as it is where zero points follow). */
IG_INLINE ig_f32 IG_FUNCTION_number(ig_u32 bits)
{
#if IG_AVX512 && BITS == 4
    const ig_f32 table = HAS_ZERO ? (ig_f32){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
                                  : (ig_f32){-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return __builtin_ia32_permvarsf512_mask(table, (ig_i32)bits, table, (uint16_t)-1);
#else
    return ig_cast_i32_f32((ig_i32)(bits & ((1 << BITS) - 1)) - (HAS_ZERO ? 0 : MIDDLE));
#endif
}

/* sum[r][c] = row r x column c of a panel. Few rows have several sums a column, to hide the latency, and scale those of
   a block instead of its weights. */
IG_INLINE void IG_FUNCTION_sum(const int rows, const int unroll, const float *a, int64_t a_step, const uint32_t *w,
                               const float *scale, const float *zero, int64_t depth, int64_t block, float *sum)
{
    ig_f32 c[ROWS][VECTORS], total[2][VECTORS] = {0};
    const int scales_sums = unroll > 1;
    IG_UNROLL for (int r = 0; r < rows * unroll; r++) {
        IG_UNROLL for (int v = 0; v < VECTORS; v++)
            c[r][v] = (ig_f32){0};
    }
    for (int64_t first = 0; first < depth; first += block, scale += COLUMNS, zero += COLUMNS) {
        const int64_t last = depth - first < block ? depth : first + block;
        ig_f32 step[VECTORS], shift[VECTORS];
        IG_UNROLL for (int v = 0; v < VECTORS; v++) {
            step[v] = ig_load_f32(scale + v * IG_LANES);
            shift[v] = HAS_ZERO ? ig_load_f32(zero + v * IG_LANES) : (ig_f32){0};
        }
        int64_t k = first;
        for (; k + GROUP <= last; k += GROUP, w += COLUMNS) {
            ig_u32 bits[VECTORS];
            IG_UNROLL for (int v = 0; v < VECTORS; v++) {
                bits[v] = ig_load_u32(w + v * IG_LANES);
                __builtin_prefetch(w + 16 * COLUMNS + v * IG_LANES);
            }
            IG_UNROLL for (int j = 0; j < GROUP; j++) {
                ig_f32 weight[VECTORS];
                IG_UNROLL for (int v = 0; v < VECTORS; v++) {
                    weight[v] = IG_FUNCTION_number(bits[v] >> (BITS * j));
                    weight[v] = HAS_ZERO ? weight[v] - shift[v] : weight[v];
                    weight[v] = scales_sums ? weight[v] : weight[v] * step[v];
                }
                IG_UNROLL for (int r = 0; r < rows; r++) {
                    const ig_f32 value = ig_set_f32(a[r * a_step + k + j]);
                    IG_UNROLL for (int v = 0; v < VECTORS; v++)
                        c[j % unroll * rows + r][v] += value * weight[v];
                }
            }
        }
        for (int64_t j = 0; k < last; k++, j++) {
            IG_UNROLL for (int v = 0; v < VECTORS; v++) {
                const ig_f32 number = IG_FUNCTION_number(ig_load_u32(w + v * IG_LANES) >> (uint32_t)(BITS * j));
                const ig_f32 shifted = HAS_ZERO ? number - shift[v] : number;
                const ig_f32 weight = scales_sums ? shifted : shifted * step[v];
                IG_UNROLL for (int r = 0; r < rows; r++)
                    c[r][v] += ig_set_f32(a[r * a_step + k]) * weight;
            }
        }
        if (scales_sums) {
            IG_UNROLL for (int r = 0; r < rows; r++) {
                IG_UNROLL for (int v = 0; v < VECTORS; v++) {
                    IG_UNROLL for (int u = 1; u < unroll; u++) {
                        c[r][v] += c[u * rows + r][v];
                        c[u * rows + r][v] = (ig_f32){0};
                    }
                    total[r][v] += c[r][v] * step[v];
                    c[r][v] = (ig_f32){0};
                }
            }
        }
    }
    IG_UNROLL for (int r = 0; r < rows; r++) {
        IG_UNROLL for (int v = 0; v < VECTORS; v++)
            ig_store_f32(sum + r * COLUMNS + v * IG_LANES, scales_sums ? total[r][v] : c[r][v]);
    }
}

static __attribute__((noinline)) void IG_FUNCTION_tile(int64_t rows, const float *a, int64_t a_step, const uint32_t *w,
                                                       const float *scale, const float *zero, int64_t depth,
                                                       int64_t block, float *sum)
{
    switch (rows) {
    case 1: IG_FUNCTION_sum(1, 4, a, a_step, w, scale, zero, depth, block, sum); break;
    case 2: IG_FUNCTION_sum(2, 2, a, a_step, w, scale, zero, depth, block, sum); break;
    case 3: IG_FUNCTION_sum(3, 1, a, a_step, w, scale, zero, depth, block, sum); break;
    case 4: IG_FUNCTION_sum(4, 1, a, a_step, w, scale, zero, depth, block, sum); break;
#if ROWS > 4
    case 5: IG_FUNCTION_sum(5, 1, a, a_step, w, scale, zero, depth, block, sum); break;
    case 6: IG_FUNCTION_sum(6, 1, a, a_step, w, scale, zero, depth, block, sum); break;
    case 7: IG_FUNCTION_sum(7, 1, a, a_step, w, scale, zero, depth, block, sum); break;
    case 8: IG_FUNCTION_sum(8, 1, a, a_step, w, scale, zero, depth, block, sum); break;
#endif
    }
}

/* Hands one row of sums to the epilogue. */
static inline void IG_FUNCTION_finish(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
                                      int64_t columns, const float *sum)
{
    for (int64_t c = 0; c < columns; c += IG_LANES) {
        const ig_f32 total = ig_load_f32(sum + c);
        if (c + IG_LANES <= columns)
            ig_epilogue(buffer, size, row, col + c, total);
        else
            ig_epilogue_n(buffer, size, row, col + c, total, columns - c);
    }
}
