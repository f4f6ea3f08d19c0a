/* Rows of bytes by weights of four or eight bits, both in blocks along the depth: products of bytes are summed in int32
   and each block's sum is scaled. A task is one panel of COLUMNS columns.
   tasks: ceil(N / COLUMNS) */
#include "kernel.h"

typedef struct {
    void *a, *a_scales, *a_sums, *w, *scales, *zeros; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t M, N, K, block;
} IG_FUNCTION_sizes;

/* How bytes are multiplied: 0 as pairs of 16-bit numbers, 1 as pairs of bytes in 16 bits, which hold sums of 8 pairs
   with weights of four bits, 2 as fours of bytes. */
#ifndef FORM
#define FORM 0
#endif
#ifndef BITS
#define BITS 4
#endif
/* Words of 32 bits of a column that are read at once: a block has a whole number of such steps. */
#ifndef WORDS
#define WORDS 2
#endif
/* Whether blocks have zero points; else all have the middle of the weights' range. */
#ifndef HAS_ZERO
#define HAS_ZERO 0
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#define COLUMNS (IG_LANES * VECTORS)
#define MIDDLE (1 << (BITS - 1))
/* Fours of weights in a word, and the left operand as it is kept. */
#define FOURS (8 / BITS)
#if FORM == 0
#define LEFT int16_t
#else
#define LEFT int8_t
#endif
#define RESULT ig_f32
#include "epilogue.h"

typedef struct {
    const LEFT *a;
    const float *a_scale;
    const int32_t *a_sum;
    const uint32_t *w;
    const float *scale, *zero;
    int64_t blocks, block;
} IG_FUNCTION_panel;

#if FORM == 2
#define UNSIGNED weight
#define SIGNED value
#include "quad_dot.h"
#elif FORM == 0
#include "pair_dot.h"
#else
#include "byte_pair_dot.h"
#endif

IG_INLINE ig_u32 IG_FUNCTION_value(const void *a)
{
    uint32_t bits;
    __builtin_memcpy(&bits, a, sizeof bits);
    return ig_set_u32(bits);
}

/* sum + four neighbours of a row by four weights of each column. */
IG_INLINE ig_u32 IG_FUNCTION_four(ig_u32 sum, const LEFT *a, ig_u32 weight)
{
#if FORM == 0
    sum = IG_FUNCTION_dot(sum, IG_FUNCTION_value(a), weight & 0x00ff00ff);
    return IG_FUNCTION_dot(sum, IG_FUNCTION_value(a + 2), (weight >> 8) & 0x00ff00ff);
#else
    return IG_FUNCTION_dot(sum, IG_FUNCTION_value(a), weight);
#endif
}

/* sum[r][c] = row r x column c of a panel. */
IG_INLINE void IG_FUNCTION_sum(const int rows, const IG_FUNCTION_panel *panel, float *sum)
{
    const int64_t blocks = panel->blocks, block = panel->block, a_step = blocks * block;
    const LEFT *a = panel->a;
    const uint32_t *w = panel->w;
    const float *scale = panel->scale, *zero = panel->zero;
    ig_f32 total[ROWS][VECTORS];
    IG_UNROLL for (int r = 0; r < rows; r++) {
        IG_UNROLL for (int v = 0; v < VECTORS; v++)
            total[r][v] = (ig_f32){0};
    }
    for (int64_t b = 0; b < blocks; b++, scale += COLUMNS, zero += COLUMNS) {
        ig_u32 c[ROWS][VECTORS];
        IG_UNROLL for (int r = 0; r < rows; r++) {
            IG_UNROLL for (int v = 0; v < VECTORS; v++)
                c[r][v] = ig_set_u32(HAS_ZERO ? 0 : (uint32_t)(-MIDDLE * panel->a_sum[r * blocks + b]));
        }
        for (int64_t k = 0; k < block; k += 4 * FOURS * WORDS) {
            ig_u32 part[ROWS][VECTORS];
            IG_UNROLL for (int r = 0; r < rows; r++) {
                IG_UNROLL for (int v = 0; v < VECTORS; v++)
                    part[r][v] = FORM == 1 ? (ig_u32){0} : c[r][v];
            }
            IG_UNROLL for (int u = 0; u < WORDS; u++, w += COLUMNS) {
                ig_u32 bits[VECTORS];
                IG_UNROLL for (int v = 0; v < VECTORS; v++) {
                    bits[v] = ig_load_u32(w + v * IG_LANES);
                    __builtin_prefetch(w + 16 * COLUMNS + v * IG_LANES);
                }
                IG_UNROLL for (int four = 0; four < FOURS; four++, a += 4) {
                    ig_u32 weight[VECTORS];
                    IG_UNROLL for (int v = 0; v < VECTORS; v++)
                        weight[v] = BITS == 8 ? bits[v] : (bits[v] >> (4 * four)) & 0x0f0f0f0f;
                    IG_UNROLL for (int r = 0; r < rows; r++) {
                        IG_UNROLL for (int v = 0; v < VECTORS; v++)
                            part[r][v] = IG_FUNCTION_four(part[r][v], a + r * a_step, weight[v]);
                    }
                }
            }
            IG_UNROLL for (int r = 0; r < rows; r++) {
                IG_UNROLL for (int v = 0; v < VECTORS; v++)
#if FORM == 1
                    c[r][v] += IG_FUNCTION_both(part[r][v]);
#else
                    c[r][v] = part[r][v];
#endif
            }
        }
        IG_UNROLL for (int v = 0; v < VECTORS; v++) {
            const ig_f32 step = ig_load_f32(scale + v * IG_LANES);
            const ig_f32 shift = HAS_ZERO ? ig_load_f32(zero + v * IG_LANES) : (ig_f32){0};
            IG_UNROLL for (int r = 0; r < rows; r++) {
                ig_f32 number = __builtin_convertvector((ig_i32)c[r][v], ig_f32);
                if (HAS_ZERO)
                    number -= shift * ig_set_f32((float)panel->a_sum[r * blocks + b]);
                total[r][v] += number * (step * ig_set_f32(panel->a_scale[r * blocks + b]));
            }
        }
    }
    IG_UNROLL for (int r = 0; r < rows; r++) {
        IG_UNROLL for (int v = 0; v < VECTORS; v++)
            ig_store_f32(sum + r * COLUMNS + v * IG_LANES, total[r][v]);
    }
}

static __attribute__((noinline)) void IG_FUNCTION_tile(int64_t rows, const IG_FUNCTION_panel *panel, float *sum)
{
    switch (rows) {
    case 1: IG_FUNCTION_sum(1, panel, sum); break;
    case 2: IG_FUNCTION_sum(2, panel, sum); break;
    case 3: IG_FUNCTION_sum(3, panel, sum); break;
    case 4: IG_FUNCTION_sum(4, panel, sum); break;
#if ROWS > 4
    case 5: IG_FUNCTION_sum(5, panel, sum); break;
    case 6: IG_FUNCTION_sum(6, panel, sum); break;
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

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t M = SIZE(M), N = SIZE(N), K = SIZE(K), block = SIZE(block);
    const int64_t blocks = (K + block - 1) / block, words = blocks * block / (4 * FOURS);
    float *const sum = scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t col = task * COLUMNS, columns = N - col < COLUMNS ? N - col : COLUMNS;
        IG_FUNCTION_panel panel = {0};
        panel.blocks = blocks, panel.block = block;
        panel.w = (const uint32_t *)BUFFER(w) + task * words * COLUMNS;
        panel.scale = (const float *)BUFFER(scales) + task * blocks * COLUMNS;
        panel.zero = HAS_ZERO ? (const float *)BUFFER(zeros) + task * blocks * COLUMNS : panel.scale;
        for (int64_t row = 0, count; row < M; row += count) {
            const int64_t left = M - row;
            count = left <= ROWS ? left : left >= 2 * ROWS ? ROWS : (left + 1) / 2;
            panel.a = (const LEFT *)BUFFER(a) + row * blocks * block;
            panel.a_scale = (const float *)BUFFER(a_scales) + row * blocks;
            panel.a_sum = (const int32_t *)BUFFER(a_sums) + row * blocks;
            IG_FUNCTION_tile(count, &panel, sum);
            for (int64_t r = 0; r < count; r++)
                IG_FUNCTION_finish(buffer, size, row + r, col, columns, sum + r * COLUMNS);
        }
    }
}
