/* Numbers as bytes. A task is BLOCK elements. */
#include "kernel.h"

#ifndef BLOCK
#define BLOCK 16384
#endif

typedef struct {
    void *x, *scale, *zero_point, *y;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const float *const x = BUFFER(x);
    uint8_t *const y = BUFFER(y);
    const int64_t count = SIZE(count);
    const ig_f32 step = ig_set_f32(*(const float *)BUFFER(scale));
    const ig_u8 zero = ig_set_u8(*(const uint8_t *)BUFFER(zero_point));
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * BLOCK, last = count - first < BLOCK ? count : first + BLOCK;
        int64_t k = first;
        for (; k + IG_LANES <= last; k += IG_LANES)
            ig_store_u8(y + k, ig_quantize_u8(ig_load_f32(x + k) / step, zero));
        if (k < last)
            ig_store_n_u8(y + k, ig_quantize_u8(ig_load_n_f32(x + k, last - k) / step, zero), last - k);
    }
}
