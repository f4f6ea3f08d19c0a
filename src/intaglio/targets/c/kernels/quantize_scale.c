/* The scale and the zero point of bytes that hold the numbers of all ranges. There is one task. */
#include "kernel.h"

typedef struct {
    void *ranges, *scale, *zero_point;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t blocks;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const float *const ranges = BUFFER(ranges);
    float *const scale = BUFFER(scale);
    uint8_t *const zero_point = BUFFER(zero_point);
    const int64_t blocks = SIZE(blocks);
    ig_f32 low = {0}, high = {0};
    (void)begin, (void)end, (void)scratch;
    for (int64_t block = 0; block < blocks; block++) {
        low = ig_min_f32(low, ig_set_f32(ranges[2 * block]));
        high = ig_max_f32(high, ig_set_f32(ranges[2 * block + 1]));
    }
    *scale = high[0] == low[0] ? 1.0f : (high[0] - low[0]) / 255.0f;
    *zero_point = ig_quantize_u8(-low / ig_set_f32(*scale), (ig_u8){0})[0];
}
