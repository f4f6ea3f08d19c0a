/* Copies what stands at each index along an axis: rows of `inner` elements, which lie side by side. A task is `block`
   rows of the result. */
#include "plain.h"
#include "place.h"

/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif
#ifndef INDEX
#define INDEX int64_t
#endif

typedef struct {
    void *data, *index, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows, count, extent, inner; /* all rows, the indices, the axis, and what lies behind it */
    int64_t outer_step, axis_step;      /* of the data, before the axis and along it */
    int64_t block;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    const INDEX *const index = BUFFER(index);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t rows = SIZE(rows), count = SIZE(count), extent = SIZE(extent), inner = SIZE(inner);
    const int64_t outer_step = SIZE(outer_step), axis_step = SIZE(axis_step), block = SIZE(block);
    (void)scratch;
    int64_t o = begin * block / (count > 0 ? count : 1), i = begin * block - o * count;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const int64_t place = IG_FUNCTION_place((int64_t)index[i], extent), at = o * outer_step + place * axis_step;
        if (place < 0)
            *fault = 1;
        else if (inner == 1)
            out[row] = data[at];
        else
            memcpy(out + row * inner, data + at, (size_t)inner * sizeof *out);
        if (++i == count) {
            i = 0;
            o++;
        }
    }
}
