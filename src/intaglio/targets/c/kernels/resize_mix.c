/* Resizing of up to two neighbouring axes with tables of weights: rows `a` of `in_b` times `inner` elements are mixed
   first, then the elements `b` of such a row. A task is one row of the result. */
#include "kernel.h"
#include "kind.h"

/* Which of the two axes are resized, and from how many elements each of their places is mixed. */
#ifndef HAS_ROWS
#define HAS_ROWS 1
#endif
#ifndef TAPS_A
#define TAPS_A 2
#endif
#ifndef HAS_COLUMNS
#define HAS_COLUMNS 1
#endif
#ifndef TAPS_B
#define TAPS_B 2
#endif
/* Whether places outside of the input, whose index is negative, are filled. */
#ifndef CROPS
#define CROPS 0
#endif
/* The numbers of an element: a complex one has two. */
#ifndef PARTS
#define PARTS 1
#endif
#if TAPS_A > TAPS_B
#define MOST_TAPS TAPS_A
#else
#define MOST_TAPS TAPS_B
#endif

typedef struct {
    void *x, *out;
#if HAS_ROWS
    void *index_a, *weights_a;
#endif
#if HAS_COLUMNS
    void *index_b, *weights_b;
#endif
    void *fill;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t in_a, out_a, in_b, out_b, inner;
} IG_FUNCTION_sizes;

/* out[j] = over taps: weight x row[j]. */
IG_INLINE void IG_FUNCTION_mix_all(const ELEMENT *const *row, const ELEMENT *weight, const int64_t taps, int64_t count,
                                   ELEMENT *out)
{
    int64_t j = 0;
    for (; j + IG_LANES <= count; j += IG_LANES) {
        VECTOR sum = LOAD(row[0] + j) * SET(weight[0]);
        for (int64_t k = 1; k < taps; k++)
            sum += LOAD(row[k] + j) * SET(weight[k]);
        STORE(out + j, sum);
    }
    if (j < count) {
        VECTOR sum = LOAD_N(row[0] + j, count - j) * SET(weight[0]);
        for (int64_t k = 1; k < taps; k++)
            sum += LOAD_N(row[k] + j, count - j) * SET(weight[k]);
        STORE_N(out + j, sum, count - j);
    }
}

/* The same; an element with weight 0 adds nothing, whatever it is. */
IG_INLINE void IG_FUNCTION_mix(const ELEMENT *const *row, const ELEMENT *weight, const int64_t taps, int64_t count,
                               ELEMENT *out)
{
    const ELEMENT *kept[MOST_TAPS];
    ELEMENT weights[MOST_TAPS];
    int64_t used = 0;
    kept[0] = row[0];
    weights[0] = 0;
    for (int64_t k = 0; k < taps; k++)
        if (weight[k] != 0) {
            kept[used] = row[k];
            weights[used++] = weight[k];
        }
    if (used == taps)
        IG_FUNCTION_mix_all(row, weight, taps, count, out);
    else
        IG_FUNCTION_mix_all(kept, weights, used > 0 ? used : 1, count, out);
}

static inline void IG_FUNCTION_fill(ELEMENT *out, int64_t count, const ELEMENT *value)
{
    for (int64_t j = 0; j < count; j++)
        out[j] = value[j % PARTS];
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const x = BUFFER(x);
    ELEMENT *const out = BUFFER(out);
    const ELEMENT *const fill = BUFFER(fill);
    const int64_t in_a = SIZE(in_a), out_a = SIZE(out_a), in_b = SIZE(in_b), out_b = SIZE(out_b), inner = SIZE(inner);
    const int64_t row_size = in_b * inner;
#if HAS_ROWS
    const int32_t *const index_a = BUFFER(index_a);
    const ELEMENT *const weights_a = BUFFER(weights_a);
#endif
#if HAS_COLUMNS
    const int32_t *const index_b = BUFFER(index_b);
    const ELEMENT *const weights_b = BUFFER(weights_b);
#endif
    (void)scratch, (void)fill;
    for (int64_t task = begin; task < end; task++) {
        const int64_t a = task % out_a;
        const ELEMENT *const image = x + task / out_a * in_a * row_size;
        ELEMENT *to = out + task * out_b * inner;
#if HAS_ROWS
        if (CROPS && index_a[a * TAPS_A] < 0) {
            IG_FUNCTION_fill(to, out_b * inner, fill);
            continue;
        }
        const ELEMENT *rows[TAPS_A] = {image};
        ELEMENT *const line = HAS_COLUMNS ? (ELEMENT *)scratch : to;
        for (int64_t k = 0; k < TAPS_A; k++)
            rows[k] = image + index_a[a * TAPS_A + k] * row_size;
        IG_FUNCTION_mix(rows, weights_a + a * TAPS_A, TAPS_A, row_size, line);
#else
        const ELEMENT *const line = image + a * row_size;
#endif
#if HAS_COLUMNS
        const ELEMENT *pixels[TAPS_B] = {line};
        for (int64_t b = 0; b < out_b; b++, to += inner) {
            const int32_t *const index = index_b + b * TAPS_B;
            const ELEMENT *const weight = weights_b + b * TAPS_B;
            if (CROPS && index[0] < 0) {
                IG_FUNCTION_fill(to, inner, fill);
                continue;
            }
            if (inner == 1) {
                ELEMENT sum = 0;
                for (int64_t k = 0; k < TAPS_B; k++)
                    sum += line[index[k]] * weight[k];
                if (__builtin_expect(!(sum - sum == 0), 0)) { /* not finite, perhaps by elements of weight 0 */
                    sum = 0;
                    for (int64_t k = 0; k < TAPS_B; k++)
                        sum += weight[k] == 0 ? 0 : line[index[k]] * weight[k];
                }
                *to = sum;
                continue;
            }
            for (int64_t k = 0; k < TAPS_B; k++)
                pixels[k] = line + index[k] * inner;
            IG_FUNCTION_mix(pixels, weight, TAPS_B, inner, to);
        }
#endif
    }
}
