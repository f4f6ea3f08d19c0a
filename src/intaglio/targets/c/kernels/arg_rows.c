/* The place of the greatest or least element of each row. A task is a block of rows. */
#include "arg_extreme.h"

typedef struct {
    void *data, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t outer, extent, inner, rows, block, tasks;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    int64_t *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t extent = SIZE(extent), rows = SIZE(rows), block = SIZE(block);
    (void)scratch;
    if (extent < 1 || (sizeof(INDEX_ELEMENT) == 4 && extent > 2147483647)) {
        *fault = 1;
        return;
    }
    const int64_t width = 4 * IG_LANES;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const ELEMENT *const x = data + row * extent;
        VECTOR top[4] = {{0}};
        INDEX index[4] = {{0}};
        const int64_t steps = extent / width;
        SCALAR best = LOAD_MEMORY_N(x, 1)[0];
        int64_t place = 0;
        if (steps > 0)
            IG_FUNCTION_scan(x, steps, width, 4, IG_LANES, top, index);
        for (int64_t lane = 0; lane < (steps > 0 ? width : 0); lane++) {
            const int64_t v = lane / IG_LANES, l = lane % IG_LANES, other = index[v][l] * width + lane;
            if (IG_FUNCTION_is_better(top[v][l], other, best, place)) {
                best = top[v][l];
                place = other;
            }
        }
        for (int64_t j = steps * width; j < extent; j++) {
            const SCALAR now = LOAD_MEMORY_N(x + j, 1)[0];
            if (IG_FUNCTION_is_better(now, j, best, place)) {
                best = now;
                place = j;
            }
        }
        out[row] = place;
    }
}
