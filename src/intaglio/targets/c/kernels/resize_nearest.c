/* Resizing of up to two neighbouring axes with tables of the nearest elements. Rows `a` have columns `b` of `inner`
   elements each. A task is one row of the result. */
#include "plain.h"

/* A type as wide as an element, which is only moved. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif
/* Whether places outside of the input, whose index is negative, are filled. */
#ifndef CROPS
#define CROPS 0
#endif

typedef struct {
    void *x, *out, *index_a, *index_b, *fill;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t in_a, out_a, in_b, out_b, inner;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const x = BUFFER(x);
    ELEMENT *const out = BUFFER(out);
    const int32_t *const index_a = BUFFER(index_a);
    const int32_t *const index_b = BUFFER(index_b);
    const ELEMENT *const fill = BUFFER(fill);
    const int64_t in_a = SIZE(in_a), out_a = SIZE(out_a), in_b = SIZE(in_b), out_b = SIZE(out_b), inner = SIZE(inner);
    (void)scratch, (void)fill;
    for (int64_t task = begin; task < end; task++) {
        const int64_t a = task % out_a, from = index_a[a];
        ELEMENT *to = out + task * out_b * inner;
        if (CROPS && from < 0) {
            for (int64_t j = 0; j < out_b * inner; j++)
                to[j] = *fill;
            continue;
        }
        if (task > begin && a > 0 && index_a[a - 1] == from) {
            memcpy(to, to - out_b * inner, (uint64_t)(out_b * inner) * sizeof *to);
            continue;
        }
        const ELEMENT *const line = x + (task / out_a * in_a + from) * in_b * inner;
        if (inner == 1 && !CROPS) {
            for (int64_t b = 0; b < out_b; b++)
                to[b] = line[index_b[b]];
            continue;
        }
        for (int64_t b = 0; b < out_b; b++, to += inner) {
            if (CROPS && index_b[b] < 0)
                for (int64_t j = 0; j < inner; j++)
                    to[j] = *fill;
            else
                memcpy(to, line + index_b[b] * inner, (uint64_t)inner * sizeof *to);
        }
    }
}
