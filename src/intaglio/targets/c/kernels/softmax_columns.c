/* Softmax along an axis with few columns behind it, which lie side by side: a vector holds several rows. A task is all
   that is along the axis.
   tasks: the elements in front of the axis */
#include "kernel.h"

typedef struct {
    void *x, *y;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t length;
} IG_FUNCTION_sizes;

#ifndef COLUMNS
#define COLUMNS 4
#endif
/* Whether the logarithm is wanted. */
#ifndef LOGARITHM
#define LOGARITHM 0
#endif
/* The first lane of a vector has another column than that of the vector before it, and the same again after PHASES. */
#define EVEN (COLUMNS & -COLUMNS)
#define PHASES (EVEN < IG_LANES ? COLUMNS / EVEN : COLUMNS / IG_LANES)
#define PERIOD ((int64_t)PHASES * IG_LANES)
/* Periods that are summed before the sum is added to the total. */
#define RUN 64

/* The next vector of `count` elements; `rest` stands in the lanes behind the last. */
IG_INLINE ig_f32 IG_FUNCTION_next(const float *x, int64_t count, float rest)
{
    if (count >= IG_LANES)
        return ig_load_f32(x);
    float some[IG_LANES];
    for (int l = 0; l < IG_LANES; l++)
        some[l] = l < count ? x[l] : rest;
    return ig_load_f32(some);
}

/* What the lanes of each column have together, in all lanes of the column. */
IG_INLINE void IG_FUNCTION_merge(const int is_sum, ig_f32 *part)
{
    float lane[PERIOD], column[COLUMNS];
    IG_UNROLL for (int p = 0; p < PHASES; p++)
        ig_store_f32(lane + p * IG_LANES, part[p]);
    for (int c = 0; c < COLUMNS; c++)
        column[c] = lane[c];
    for (int64_t from = COLUMNS; from < PERIOD; from += COLUMNS) {
        for (int c = 0; c < COLUMNS; c++) {
            const float a = column[c], b = lane[from + c];
            column[c] = is_sum ? a + b : a != a || a > b ? a : b;
        }
    }
    for (int64_t from = 0; from < PERIOD; from += COLUMNS) {
        for (int c = 0; c < COLUMNS; c++)
            lane[from + c] = column[c];
    }
    IG_UNROLL for (int p = 0; p < PHASES; p++)
        part[p] = ig_load_f32(lane + p * IG_LANES);
}

static inline void IG_FUNCTION_slice(const float *x, float *y, int64_t count)
{
    ig_f32 most[PHASES], total[PHASES];
    const int64_t even = count / PERIOD * PERIOD;
    IG_UNROLL for (int p = 0; p < PHASES; p++) {
        most[p] = ig_set_f32(-__builtin_inff());
        total[p] = (ig_f32){0};
    }
    for (int64_t at = 0; at < even; at += PERIOD) {
        IG_UNROLL for (int p = 0; p < PHASES; p++)
            most[p] = ig_max_f32(most[p], ig_load_f32(x + at + p * IG_LANES));
    }
    IG_UNROLL for (int p = 0; p < PHASES; p++) {
        const int64_t at = even + p * IG_LANES;
        if (at < count)
            most[p] = ig_max_f32(most[p], IG_FUNCTION_next(x + at, count - at, -__builtin_inff()));
    }
    IG_FUNCTION_merge(0, most);
    for (int64_t first = 0; first < even; first += RUN * PERIOD) {
        const int64_t last = first + RUN * PERIOD < even ? first + RUN * PERIOD : even;
        ig_f32 part[PHASES];
        IG_UNROLL for (int p = 0; p < PHASES; p++)
            part[p] = (ig_f32){0};
        for (int64_t at = first; at < last; at += PERIOD) {
            IG_UNROLL for (int p = 0; p < PHASES; p++) {
                const ig_f32 shifted = ig_load_f32(x + at + p * IG_LANES) - most[p], power = ig_exp_f32(shifted);
                part[p] += power;
                ig_store_f32(y + at + p * IG_LANES, LOGARITHM ? shifted : power);
            }
        }
        IG_UNROLL for (int p = 0; p < PHASES; p++)
            total[p] += part[p];
    }
    IG_UNROLL for (int p = 0; p < PHASES; p++) {
        const int64_t at = even + p * IG_LANES, left = count - at < IG_LANES ? count - at : IG_LANES;
        if (left > 0) {
            const ig_f32 some = IG_FUNCTION_next(x + at, left, -__builtin_inff());
            const ig_f32 shifted = some - most[p], power = ig_exp_f32(shifted);
            float own[IG_LANES];
            ig_store_f32(own, power);
            total[p] += IG_FUNCTION_next(own, left, 0);
            ig_store_n_f32(y + at, LOGARITHM ? shifted : power, left);
        }
    }
    IG_FUNCTION_merge(1, total);
    IG_UNROLL for (int p = 0; p < PHASES; p++)
        total[p] = LOGARITHM ? ig_log_f32(total[p]) : total[p];
    for (int64_t at = 0; at < even; at += PERIOD) {
        IG_UNROLL for (int p = 0; p < PHASES; p++) {
            const ig_f32 some = ig_load_f32(y + at + p * IG_LANES);
            ig_store_f32(y + at + p * IG_LANES, LOGARITHM ? some - total[p] : some / total[p]);
        }
    }
    IG_UNROLL for (int p = 0; p < PHASES; p++) {
        const int64_t at = even + p * IG_LANES, left = count - at < IG_LANES ? count - at : IG_LANES;
        if (left > 0) {
            const ig_f32 some = ig_load_n_f32(y + at, left);
            ig_store_n_f32(y + at, LOGARITHM ? some - total[p] : some / total[p], left);
        }
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t count = SIZE(length) * COLUMNS;
    const float *const x = BUFFER(x);
    float *const y = BUFFER(y);
    (void)scratch;
    for (int64_t task = begin; task < end; task++)
        IG_FUNCTION_slice(x + task * count, y + task * count, count);
}
