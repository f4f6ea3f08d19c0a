/* The least and the greatest number of each block, zero among them. A task is one block of BLOCK elements. */
#include "kernel.h"

#ifndef BLOCK
#define BLOCK 16384
#endif

typedef struct {
    void *x, *ranges;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const float *const x = BUFFER(x);
    float *const ranges = BUFFER(ranges);
    const int64_t count = SIZE(count);
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * BLOCK, last = count - first < BLOCK ? count : first + BLOCK;
        ig_f32 low = {0}, high = {0};
        int64_t k = first;
        for (; k + IG_LANES <= last; k += IG_LANES) {
            const ig_f32 v = ig_load_f32(x + k);
            low = ig_min_f32(low, v);
            high = ig_max_f32(high, v);
        }
        if (k < last) {
            const ig_f32 v = ig_load_n_f32(x + k, last - k);
            low = ig_min_f32(low, v);
            high = ig_max_f32(high, v);
        }
        ranges[2 * task] = ig_reduce_min_f32(low);
        ranges[2 * task + 1] = ig_reduce_max_f32(high);
    }
}
