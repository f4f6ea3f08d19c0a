/* The gradients of attention by queries, keys and values. A task is one head of keys of one batch, with all heads of
   queries that share it, in blocks of row_block queries. The scores of a block and their gradients stay in scratch
   memory; the sums over queries are made in their order. */
#include "kernel.h"

typedef struct {
    void *q, *k, *v, *bar, *mask, *parameter, *q_bar, *k_bar, *v_bar;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t heads, group, S, T, D, E; /* heads of keys, and of queries for each; queries, keys, sizes of a head */
    int64_t q_batch, q_head, q_row;
    int64_t k_batch, k_head, k_row;
    int64_t v_batch, v_head, v_row;
    int64_t bar_batch, bar_head, bar_row;
    int64_t mask_batch, mask_head, mask_row;
    int64_t q_bar_batch, q_bar_head, q_bar_row;
    int64_t k_bar_batch, k_bar_head, k_bar_row;
    int64_t v_bar_batch, v_bar_head, v_bar_row;
    int64_t row_block;
} IG_FUNCTION_sizes;

/* Whether keys behind a query are hidden from it. */
#ifndef IS_CAUSAL
#define IS_CAUSAL 0
#endif
#if IS_CAUSAL
#define VISIBLE first + rows < T ? first + rows : T
#define LIMIT first + r + 1 < T ? first + r + 1 : T
#else
#define VISIBLE T
#define LIMIT visible
#endif
#define ROWS_ADJACENT 0
#define WEIGHTS_STRIDE 0
#include "attention_mask.h"
#include "tile.h"
#include "pack_columns.h"
#include "pack_rows.h"

/* The products of `rows` rows with `count` rows of b, both of `depth` elements, times a factor. */
static inline void IG_FUNCTION_products(const float *a, int64_t a_row, int64_t rows, const float *b, int64_t b_row,
                                        int64_t count, int64_t depth, float factor, float *out, int64_t out_row,
                                        float *packed, float *sum)
{
    static const int64_t here[2] = {0, 0};
    for (int64_t col = 0; col < count; col += COLUMNS) {
        IG_FUNCTION_pack_columns(b + col * b_row, b_row, depth, count - col < COLUMNS ? count - col : COLUMNS, packed);
        for (int64_t from = 0, size; from < rows; from += size) {
            size = IG_FUNCTION_next(rows - from);
            IG_FUNCTION_tile(size, a + from * a_row, a_row, packed, 0, here, 1, depth, sum, 1);
            for (int64_t r = 0; r < size; r++) {
                IG_UNROLL for (int c = 0; c < COLUMNS; c += LANES)
                    ig_store_f32(out + (from + r) * out_row + col + c, ig_load_f32(sum + r * COLUMNS + c) * factor);
            }
        }
    }
}

/* The product of `rows` rows of `depth` elements with b, whose rows have `columns`; in panels of COLUMNS columns, each
   panel_step behind the one before, to which the result is added. */
static inline void IG_FUNCTION_add(const float *a, int64_t a_row, int64_t rows, const float *b, int64_t b_row,
                                   int64_t columns, int64_t depth, float *sum, int64_t panel_step, float *packed)
{
    static const int64_t here[2] = {0, 0};
    for (int64_t col = 0; col < columns; col += COLUMNS, sum += panel_step) {
        IG_FUNCTION_pack_rows(b + col, b_row, depth, columns - col < COLUMNS ? columns - col : COLUMNS, packed);
        for (int64_t from = 0, size; from < rows; from += size) {
            size = IG_FUNCTION_next(rows - from);
            IG_FUNCTION_tile(size, a + from * a_row, a_row, packed, 0, here, 1, depth, sum + from * COLUMNS, 0);
        }
    }
}

/* Writes such panels as rows of `columns` elements. */
static inline void IG_FUNCTION_give(const float *sum, int64_t panel_step, int64_t rows, int64_t columns, float *to,
                                    int64_t to_row)
{
    for (int64_t col = 0; col < columns; col += COLUMNS, sum += panel_step)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < COLUMNS && col + c < columns; c += LANES) {
                const int64_t left = columns - col - c;
                if (left >= LANES)
                    ig_store_f32(to + r * to_row + col + c, ig_load_f32(sum + r * COLUMNS + c));
                else
                    ig_store_n_f32(to + r * to_row + col + c, ig_load_f32(sum + r * COLUMNS + c), left);
            }
}

/* Rows and columns exchanged; up to LANES - 1 more of both are read and written. */
static inline void IG_FUNCTION_turn(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to,
                                    int64_t to_row)
{
    for (int64_t r = 0; r < rows; r += LANES)
        for (int64_t c = 0; c < columns; c += LANES)
            IG_FUNCTION_transpose(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
}

/* The softmax of the first `limit` of `visible` scores with their mask; the others are zero, as are those of a row that
   sees nothing. */
static inline void IG_FUNCTION_softmax(float *row, int64_t limit, int64_t visible, const MASK *bias)
{
    const ig_f32 lowest = ig_set_f32(-__builtin_inff());
    ig_f32 top = lowest, total = {0};
    (void)bias;
    for (int64_t j = 0; j < visible; j += LANES) {
        ig_f32 x = ig_load_f32(row + j);
        const int64_t n = limit - j;
#if HAS_MASK
        if (n >= LANES)
            x = MASKED(x, LOAD(bias + j));
        else if (n > 0)
            x = MASKED(x, LOAD_N(bias + j, n));
#endif
        if (n < LANES)
            x = n > 0 ? ig_keep_f32(x, lowest, n) : lowest;
        top = ig_max_f32(top, x);
        ig_store_f32(row + j, x);
    }
    const float most = ig_reduce_max_f32(top);
    const int is_hidden = most == -__builtin_inff();
    const ig_f32 shift = ig_set_f32(is_hidden ? 0 : most);
    for (int64_t j = 0; j < visible; j += LANES) {
        const ig_f32 weight = ig_exp_f32(ig_load_f32(row + j) - shift);
        total += weight;
        ig_store_f32(row + j, weight);
    }
    const float scale = is_hidden ? 0 : 1 / ig_reduce_add_f32(total);
    for (int64_t j = 0; j < visible; j += LANES)
        ig_store_f32(row + j, ig_load_f32(row + j) * scale);
}

/* bar = weight * (bar - sum(weight * bar)) * factor */
static inline void IG_FUNCTION_pull_back(const float *weight, float *bar, int64_t count, float factor)
{
    ig_f32 total = {0};
    for (int64_t j = 0; j < count; j += LANES)
        total += ig_load_f32(weight + j) * ig_load_f32(bar + j);
    const ig_f32 mean = ig_set_f32(ig_reduce_add_f32(total));
    for (int64_t j = 0; j < count; j += LANES)
        ig_store_f32(bar + j, ig_load_f32(weight + j) * (ig_load_f32(bar + j) - mean) * factor);
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t heads = SIZE(heads), group = SIZE(group), S = SIZE(S), T = SIZE(T), D = SIZE(D), E = SIZE(E);
    const int64_t q_row = SIZE(q_row), k_row = SIZE(k_row), v_row = SIZE(v_row), bar_row = SIZE(bar_row);
    const int64_t row_block = SIZE(row_block), row_blocks = (S + row_block - 1) / row_block;
    const int64_t turned_row = (row_block + LANES - 1) / LANES * LANES, width = (T + COLUMNS - 1) / COLUMNS * COLUMNS;
    const int64_t panel = T * COLUMNS, D_panels = (D + COLUMNS - 1) / COLUMNS, E_panels = (E + COLUMNS - 1) / COLUMNS;
    const float factor = *(const float *)BUFFER(parameter);
    const int64_t area = turned_row * width;
    float *const weights = scratch, *const bars = weights + area, *const turned = bars + area;
    float *const k_sum = turned + area, *const v_sum = k_sum + D_panels * panel;
    float *const sum = v_sum + E_panels * panel, *const q_sum = sum + ROWS * COLUMNS;
    float *const packed = q_sum + D_panels * row_block * COLUMNS;
    for (int64_t task = begin; task < end; task++) {
        const int64_t b = task / heads, h = task % heads;
        const float *const keys = (const float *)BUFFER(k) + b * SIZE(k_batch) + h * SIZE(k_head);
        const float *const values = (const float *)BUFFER(v) + b * SIZE(v_batch) + h * SIZE(v_head);
        __builtin_memset(k_sum, 0, (uint64_t)((D_panels + E_panels) * panel) * sizeof(float));
        for (int64_t place = 0; place < group * row_blocks; place++) {
            const int64_t head = h * group + place / row_blocks, block = place % row_blocks;
            const int64_t first = S * block / row_blocks, rows = S * (block + 1) / row_blocks - first;
            const int64_t visible = VISIBLE;
            const float *const queries =
                (const float *)BUFFER(q) + b * SIZE(q_batch) + head * SIZE(q_head) + first * q_row;
            const float *const bar =
                (const float *)BUFFER(bar) + b * SIZE(bar_batch) + head * SIZE(bar_head) + first * bar_row;
            IG_FUNCTION_products(queries, q_row, rows, keys, k_row, visible, D, factor, weights, width, packed, sum);
            IG_FUNCTION_products(bar, bar_row, rows, values, v_row, visible, E, 1, bars, width, packed, sum);
            for (int64_t r = 0; r < rows; r++) {
                const int64_t limit = LIMIT;
                const MASK *bias = 0;
#if HAS_MASK
                bias = (const MASK *)BUFFER(mask) + b * SIZE(mask_batch) + head * SIZE(mask_head) +
                       (first + r) * SIZE(mask_row);
#endif
                IG_FUNCTION_softmax(weights + r * width, limit, visible, bias);
                IG_FUNCTION_pull_back(weights + r * width, bars + r * width, visible, factor);
            }
            IG_FUNCTION_turn(weights, width, rows, visible, turned, turned_row);
            IG_FUNCTION_add(turned, turned_row, visible, bar, bar_row, E, rows, v_sum, panel, packed);
            IG_FUNCTION_turn(bars, width, rows, visible, turned, turned_row);
            IG_FUNCTION_add(turned, turned_row, visible, queries, q_row, D, rows, k_sum, panel, packed);
            __builtin_memset(q_sum, 0, (uint64_t)(D_panels * row_block * COLUMNS) * sizeof(float));
            IG_FUNCTION_add(bars, width, rows, keys, k_row, D, visible, q_sum, row_block * COLUMNS, packed);
            IG_FUNCTION_give(q_sum, row_block * COLUMNS, rows, D,
                             (float *)BUFFER(q_bar) + b * SIZE(q_bar_batch) + head * SIZE(q_bar_head) +
                                 first * SIZE(q_bar_row),
                             SIZE(q_bar_row));
        }
        IG_FUNCTION_give(k_sum, panel, T, D, (float *)BUFFER(k_bar) + b * SIZE(k_bar_batch) + h * SIZE(k_bar_head),
                         SIZE(k_bar_row));
        IG_FUNCTION_give(v_sum, panel, T, E, (float *)BUFFER(v_bar) + b * SIZE(v_bar_batch) + h * SIZE(v_bar_head),
                         SIZE(v_bar_row));
    }
}
