/* Counts what is not zero. A task is BLOCK elements, and has a count of its own. */
#include "plain.h"
#include "set_bits.h"

#ifndef BLOCK
#define BLOCK 16384
#endif

typedef struct {
    void *data, *counts;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t total;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const BITS *const data = BUFFER(data);
    int64_t *const counts = BUFFER(counts);
    const int64_t total = SIZE(total);
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t stop = (task + 1) * BLOCK < total ? (task + 1) * BLOCK : total;
        int64_t count = 0;
        for (int64_t i = task * BLOCK; i < stop; i++)
            count += IS_SET(data[i]);
        counts[task] = count;
    }
}
