/* The sums of blocks of memory, which are read as fast as it comes. A task is one block of `length` numbers.
   tasks: the number of blocks */
#include "kernel.h"

typedef struct {
    void *x, *y;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t length; /* a multiple of 8 vectors */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t length = SIZE(length);
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const float *const x = (const float *)BUFFER(x) + task * length;
        ig_f32 sum[8];
        IG_UNROLL for (int s = 0; s < 8; s++)
            sum[s] = (ig_f32){0};
        for (int64_t k = 0; k < length; k += 8 * IG_LANES) {
            IG_UNROLL for (int s = 0; s < 8; s++)
                sum[s] += ig_load_f32(x + k + s * IG_LANES);
        }
        IG_UNROLL for (int s = 1; s < 8; s++)
            sum[0] += sum[s];
        ((float *)BUFFER(y))[task] = ig_reduce_add_f32(sum[0]);
    }
}
