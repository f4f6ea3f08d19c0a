/* As many products that are added to sums as the processor can do, on nothing but registers. A task is `rounds` rounds.
   tasks: any number */
#include "kernel.h"

typedef struct {
    void *y;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rounds;
} IG_FUNCTION_sizes;

/* Sums that do not wait for each other. */
#ifndef SUMS
#define SUMS 12
#endif

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t rounds = SIZE(rounds);
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        ig_f32 sum[SUMS];
        const ig_f32 factor = ig_set_f32(0.5f), more = ig_set_f32((float)task);
        IG_UNROLL for (int s = 0; s < SUMS; s++)
            sum[s] = ig_set_f32((float)s);
        for (int64_t round = 0; round < rounds; round++) {
            IG_UNROLL for (int s = 0; s < SUMS; s++)
                sum[s] = ig_fma_f32(sum[s], factor, more);
        }
        IG_UNROLL for (int s = 1; s < SUMS; s++)
            sum[0] += sum[s];
        ((float *)BUFFER(y))[task] = ig_reduce_add_f32(sum[0]);
    }
}
