/* How often each n-gram of a pool is in a row, found in a hash table of the pool, times its scale. A task is a block of
   rows. */
#include "plain.h"
#include "golden.h"

#ifndef ELEMENT
#define ELEMENT int64_t
#endif
/* Whether it only counts that a gram is there. */
#ifndef IS_ONCE
#define IS_ONCE 0
#endif

typedef struct {
    void *data;
    void *slot; /* by hash: the number of a gram plus one, or 0 */
    void *pool;
    void *gram; /* where each begins in the pool, and its length */
    void *column, *scale, *out;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows, width; /* of the data */
    int64_t columns;     /* of the result */
    int64_t mask;        /* slots less one: a power of two less one */
    int64_t shortest, longest, skips, block;
} IG_FUNCTION_sizes;

/* The column of the gram of `length` elements from x on, `step` apart, or -1. */
static inline int64_t IG_FUNCTION_find(const ELEMENT *x, int64_t length, int64_t step, const int32_t *slot,
                                       int64_t mask, const int64_t *pool, const int32_t *gram, const int32_t *column)
{
    uint64_t hash = (uint64_t)length;
    for (int64_t i = 0; i < length; i++) {
        hash = (hash ^ (uint64_t)(int64_t)x[i * step]) * GOLDEN;
        hash ^= hash >> 29;
    }
    for (int64_t at = (int64_t)(hash & (uint64_t)mask); slot[at]; at = (at + 1) & mask) {
        const int64_t number = slot[at] - 1;
        const int64_t *const items = pool + gram[2 * number];
        int64_t same = gram[2 * number + 1] == length ? 0 : -1;
        while (same >= 0 && same < length && items[same] == (int64_t)x[same * step])
            same++;
        if (same == length)
            return column[number];
    }
    return -1;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    const int32_t *const slot = BUFFER(slot);
    const int64_t *const pool = BUFFER(pool);
    const int32_t *const gram = BUFFER(gram);
    const int32_t *const column = BUFFER(column);
    const float *const scale = BUFFER(scale);
    float *const out = BUFFER(out);
    const int64_t rows = SIZE(rows), width = SIZE(width), columns = SIZE(columns), mask = SIZE(mask);
    const int64_t shortest = SIZE(shortest), longest = SIZE(longest), skips = SIZE(skips), block = SIZE(block);
    (void)scratch;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const ELEMENT *const x = data + row * width;
        float *const counts = out + row * columns;
        for (int64_t i = 0; i < columns; i++)
            counts[i] = 0;
        for (int64_t length = shortest > 0 ? shortest : 1; length <= longest; length++) {
            const int64_t last = length > 1 ? skips + 1 : 1;
            for (int64_t step = 1; step <= last && (length - 1) * step < width; step++) {
                for (int64_t start = 0; start < width - (length - 1) * step; start++) {
                    const int64_t found = IG_FUNCTION_find(x + start, length, step, slot, mask, pool, gram, column);
                    if (found >= 0)
                        counts[found] = IS_ONCE ? 1.0f : counts[found] + 1.0f;
                }
            }
        }
        for (int64_t i = 0; i < columns; i++)
            counts[i] *= scale[i];
    }
}
