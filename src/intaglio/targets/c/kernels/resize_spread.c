/* Resizing of one axis from a number of elements that only the run tells. A task is one of the resized places. */
#include "kernel.h"
#include "kind.h"

/* Whether places outside of the input, whose index is negative, are filled. */
#ifndef CROPS
#define CROPS 0
#endif
/* The numbers of an element: a complex one has two. */
#ifndef PARTS
#define PARTS 1
#endif

typedef struct {
    void *x, *out, *index_a, *weights_a, *fill;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t in_a, out_a, in_b, out_b, inner, taps_a;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const x = BUFFER(x);
    ELEMENT *const out = BUFFER(out);
    const int32_t *const index_a = BUFFER(index_a);
    const ELEMENT *const weights_a = BUFFER(weights_a);
    const ELEMENT *const fill = BUFFER(fill);
    const int64_t in_a = SIZE(in_a), out_a = SIZE(out_a), inner = SIZE(inner), taps_a = SIZE(taps_a);
    (void)scratch, (void)fill;
    for (int64_t task = begin; task < end; task++) {
        const int64_t a = task % out_a;
        const ELEMENT *const image = x + task / out_a * in_a * inner, *const weight = weights_a + a * taps_a;
        const int32_t *const index = index_a + a * taps_a;
        ELEMENT *const to = out + task * inner;
        if (CROPS && index[0] < 0) {
            for (int64_t j = 0; j < inner; j++)
                to[j] = fill[j % PARTS];
            continue;
        }
        if (inner == 1) {
            ELEMENT sum = 0;
            for (int64_t k = 0; k < taps_a; k++)
                sum += weight[k] == 0 ? 0 : image[index[k]] * weight[k];
            *to = sum;
        }
        for (int64_t j = 0; inner > 1 && j < inner; j += IG_LANES) {
            const int64_t left = inner - j < IG_LANES ? inner - j : IG_LANES;
            VECTOR sum = SET(0);
            for (int64_t k = 0; k < taps_a; k++)
                if (weight[k] != 0)
                    sum += LOAD_N(image + index[k] * inner + j, left) * SET(weight[k]);
            STORE_N(to + j, sum, left);
        }
    }
}
