/* The place of the greatest or least element of each column. A task is a block of strips of columns. */
#include "arg_extreme.h"

typedef struct {
    void *data, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t outer, extent, inner, strips, rows, block, tasks;
} IG_FUNCTION_sizes;

/* Columns that are reduced together: a whole number of vectors of every target. */
#ifndef STRIP
#define STRIP 64
#endif

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    int64_t *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t extent = SIZE(extent), inner = SIZE(inner), strips = SIZE(strips);
    const int64_t rows = SIZE(rows), block = SIZE(block);
    (void)scratch;
    if (extent < 1 || (sizeof(INDEX_ELEMENT) == 4 && extent > 2147483647)) {
        *fault = 1;
        return;
    }
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const int64_t o = row / strips;
        int64_t c = row % strips * STRIP;
        const int64_t last = c + STRIP < inner ? c + STRIP : inner;
        const ELEMENT *const x = data + o * extent * inner;
        for (; c + 4 * IG_LANES <= last; c += 4 * IG_LANES)
            IG_FUNCTION_columns(x + c, out + o * inner + c, extent, inner, 4, IG_LANES);
        for (; c < last; c += IG_LANES) {
            const int64_t n = last - c < IG_LANES ? last - c : IG_LANES;
            IG_FUNCTION_columns(x + c, out + o * inner + c, extent, inner, 1, n);
        }
    }
}
