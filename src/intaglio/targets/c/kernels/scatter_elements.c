/* Combines one element for each update with the one at its index, at the same position along all axes but one. Lines
   along that axis are independent of each other. A task is `block` lines. */
#include "plain.h"
#include "combine.h"
#include "lines.h"
#include "place.h"

#ifndef INDEX
#define INDEX int64_t
#endif

typedef struct {
    void *index, *update, *out, *fault; /* `out` holds the data already */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t unequal, mismatch;        /* whether updates and indices differ in shape; whether these exceed the data */
    int64_t rows;                     /* all lines */
    int64_t count, extent;            /* the indices of a line, and the elements of the data that they count */
    int64_t index_step, axis_step;    /* along the line, in the indices and in the data */
    int64_t other_count[OTHERS];      /* the indices along the other axes, */
    int64_t other_index_step[OTHERS]; /* and the steps there in the indices */
    int64_t other_step[OTHERS];       /* and in the data */
    int64_t block;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const INDEX *const index = BUFFER(index);
    const ELEMENT *const update = BUFFER(update);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t rows = SIZE(rows), count = SIZE(count), extent = SIZE(extent), block = SIZE(block);
    const int64_t index_step = SIZE(index_step), axis_step = SIZE(axis_step);
    (void)scratch;
    if (SIZE(unequal) || (SIZE(mismatch) && rows * count > 0)) {
        *fault = 1;
        return;
    }
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        int64_t from, base;
        IG_FUNCTION_line(row, &SIZE(other_count), &SIZE(other_index_step), &SIZE(other_step), &from, &base);
        for (int64_t k = 0; k < count; k++, from += index_step) {
            const int64_t place = IG_FUNCTION_place((int64_t)index[from], extent);
            if (place < 0) {
                *fault = 1;
                continue;
            }
            const int64_t at = base + place * axis_step;
            out[at] = IG_FUNCTION_combine(out[at], update[from]);
        }
    }
}
