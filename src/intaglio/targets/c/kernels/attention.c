/* Attention: for some queries of a head the scores with all keys, their softmax, and its product with V. The scores
   stay in scratch memory that a core's cache holds. A task is row_block queries of one head of one batch. */
#include "kernel.h"

typedef struct {
    void *q, *k, *v, *mask, *parameter, *y;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t heads, group, S, T, D, E, past;
    int64_t q_batch, q_head, q_row;
    int64_t k_batch, k_head, k_row;
    int64_t v_batch, v_head, v_row;
    int64_t y_batch, y_head, y_row;
    int64_t mask_batch, mask_head, mask_row;
    int64_t row_block;
} IG_FUNCTION_sizes;

/* Whether keys behind a query are hidden from it. */
#ifndef IS_CAUSAL
#define IS_CAUSAL 0
#endif
/* Whether a hyperbolic tangent keeps scores below a cap. */
#ifndef HAS_CAP
#define HAS_CAP 0
#endif
/* How many keys a block of queries sees, and the query in row r of it. */
#if IS_CAUSAL
#define VISIBLE past + first + rows < T ? past + first + rows : T
#define LIMIT past + first + r + 1 < T ? past + first + r + 1 : T
#else
#define VISIBLE T
#define LIMIT visible
#endif
#include "attention_mask.h"
#include "tile.h"
#include "pack_columns.h"
#include "dots.h"
#include "pack_rows.h"

/* out = over t: weight t x row t of v, a row of `columns` elements. */
static inline void IG_FUNCTION_mix(const float *weight, const float *v, int64_t v_row, int64_t depth, int64_t columns,
                                   float scale, float *out)
{
    for (int64_t c = 0; c < columns; c += 4 * IG_LANES) {
        ig_f32 sum[4] = {{0}, {0}, {0}, {0}};
        const int64_t left = columns - c;
        if (left >= 4 * IG_LANES) {
            for (int64_t t = 0; t < depth; t++) {
                IG_UNROLL for (int u = 0; u < 4; u++)
                    sum[u] += ig_set_f32(weight[t]) * ig_load_f32(v + t * v_row + c + u * IG_LANES);
            }
            IG_UNROLL for (int u = 0; u < 4; u++)
                ig_store_f32(out + c + u * IG_LANES, sum[u] * scale);
            continue;
        }
        for (int64_t l = c; l < columns; l += IG_LANES) {
            const int64_t n = columns - l < IG_LANES ? columns - l : IG_LANES;
            ig_f32 total = {0};
            for (int64_t t = 0; t < depth; t++)
                total += ig_set_f32(weight[t]) * ig_load_n_f32(v + t * v_row + l, n);
            ig_store_n_f32(out + l, total * scale, n);
        }
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const float *const q = BUFFER(q), *const k = BUFFER(k), *const v = BUFFER(v);
#if HAS_MASK
    const MASK *const mask = BUFFER(mask);
#endif
    const float *const parameter = BUFFER(parameter);
    float *const y = BUFFER(y);
    const int64_t heads = SIZE(heads), group = SIZE(group), S = SIZE(S), T = SIZE(T), D = SIZE(D), E = SIZE(E);
    const int64_t past = SIZE(past), q_batch = SIZE(q_batch), q_head = SIZE(q_head), q_row = SIZE(q_row);
    const int64_t k_batch = SIZE(k_batch), k_head = SIZE(k_head), k_row = SIZE(k_row), v_batch = SIZE(v_batch);
    const int64_t v_head = SIZE(v_head), v_row = SIZE(v_row), y_batch = SIZE(y_batch), y_head = SIZE(y_head);
    const int64_t y_row = SIZE(y_row);
#if HAS_MASK
    const int64_t mask_batch = SIZE(mask_batch), mask_head = SIZE(mask_head), mask_row = SIZE(mask_row);
#endif
    const int64_t row_block = SIZE(row_block);
    static const int64_t here[2] = {0, 0};
    const int64_t row_blocks = (S + row_block - 1) / row_block, width = (T + COLUMNS - 1) / COLUMNS * COLUMNS;
    float *scores = scratch, *sum = scores + row_block * width, *packed = sum + row_block * COLUMNS;
    float *scales = packed + (T > D ? T : D) * COLUMNS;
    const float factor = parameter[0], cap = parameter[1];
    const ig_f32 lowest = ig_set_f32(-__builtin_inff());
    (void)past, (void)cap;
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task % row_blocks, b = task / row_blocks / heads, h = task / row_blocks % heads;
        const int64_t first = S * block / row_blocks, rows = S * (block + 1) / row_blocks - first;
        const int64_t visible = VISIBLE;
        const float *q_rows = q + b * q_batch + h * q_head + first * q_row;
        const float *keys = k + b * k_batch + h / group * k_head, *values = v + b * v_batch + h / group * v_head;
        float *out = y + b * y_batch + h * y_head + first * y_row;
        for (int64_t key = 0; key < visible; key += COLUMNS) {
            const int64_t count = visible - key < COLUMNS ? visible - key : COLUMNS;
            if (rows <= 2) {
                IG_FUNCTION_dots(q_rows, q_row, keys + key * k_row, k_row, rows, D, count, sum);
            } else {
                IG_FUNCTION_pack_columns(keys + key * k_row, k_row, D, count, packed);
                for (int64_t from = 0, size; from < rows; from += size) {
                    size = IG_FUNCTION_next(rows - from);
                    IG_FUNCTION_tile(size, q_rows + from * q_row, q_row, packed, 0, here, 1, D, sum + from * COLUMNS,
                                     1);
                }
            }
            for (int64_t r = 0; r < rows; r++) {
                IG_UNROLL for (int c = 0; c < COLUMNS; c += IG_LANES)
                    ig_store_f32(scores + r * width + key + c, ig_load_f32(sum + r * COLUMNS + c) * factor);
            }
        }
        for (int64_t r = 0; r < rows; r++) {
            const int64_t limit = LIMIT;
            float *row = scores + r * width;
            ig_f32 top = lowest, total = {0};
            int64_t j = 0;
#if HAS_MASK
            const MASK *bias = mask + b * mask_batch + h * mask_head + (first + r) * mask_row;
#endif
            for (; j + IG_LANES <= limit; j += IG_LANES) {
                ig_f32 x = ig_load_f32(row + j);
#if HAS_CAP
                x = cap * ig_tanh_f32(x / cap);
#endif
#if HAS_MASK
                x = MASKED(x, LOAD(bias + j));
#endif
                top = ig_max_f32(top, x);
                ig_store_f32(row + j, x);
            }
            if (j < limit) {
                const int64_t n = limit - j;
                ig_f32 x = ig_load_f32(row + j);
#if HAS_CAP
                x = cap * ig_tanh_f32(x / cap);
#endif
#if HAS_MASK
                x = MASKED(x, LOAD_N(bias + j, n));
#endif
                x = ig_keep_f32(x, lowest, n);
                top = ig_max_f32(top, x);
                ig_store_f32(row + j, x);
            }
            for (j = (limit + IG_LANES - 1) / IG_LANES * IG_LANES; j < visible; j += IG_LANES)
                ig_store_f32(row + j, lowest);
            const float most = ig_reduce_max_f32(top);
            const int is_hidden = most == -__builtin_inff();
            const ig_f32 shift = ig_set_f32(is_hidden ? 0 : most);
            for (j = 0; j < visible; j += IG_LANES) {
                const ig_f32 weight = ig_exp_f32(ig_load_f32(row + j) - shift);
                total += weight;
                ig_store_f32(row + j, weight);
            }
            scales[r] = is_hidden ? 0 : 1 / ig_reduce_add_f32(total);
        }
        if (rows <= 2) {
            for (int64_t r = 0; r < rows; r++)
                IG_FUNCTION_mix(scores + r * width, values, v_row, visible, E, scales[r], out + r * y_row);
            continue;
        }
        for (int64_t col = 0; col < E; col += COLUMNS) {
            const int64_t count = E - col < COLUMNS ? E - col : COLUMNS;
            IG_FUNCTION_pack_rows(values + col, v_row, visible, count, packed);
            for (int64_t from = 0, size; from < rows; from += size) {
                size = IG_FUNCTION_next(rows - from);
                IG_FUNCTION_tile(size, scores + from * width, width, packed, 0, here, 1, visible, sum, 1);
                for (int64_t r = 0; r < size; r++) {
                    float *to = out + (from + r) * y_row + col;
                    for (int64_t c = 0; c < count; c += IG_LANES) {
                        const ig_f32 mixed = ig_load_f32(sum + r * COLUMNS + c) * scales[from + r];
                        if (count - c >= IG_LANES)
                            ig_store_f32(to + c, mixed);
                        else
                            ig_store_n_f32(to + c, mixed, count - c);
                    }
                }
            }
        }
    }
}
