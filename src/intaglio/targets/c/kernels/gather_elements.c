/* Copies one element for each index, from the same position along all axes but one. A task is `block` lines along that
   axis. */
#include "plain.h"
#include "lines.h"
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
    int64_t mismatch;                 /* whether the indices are larger than the data along another axis */
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
    const ELEMENT *const data = BUFFER(data);
    const INDEX *const index = BUFFER(index);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t rows = SIZE(rows), count = SIZE(count), extent = SIZE(extent), block = SIZE(block);
    const int64_t index_step = SIZE(index_step), axis_step = SIZE(axis_step);
    (void)scratch;
    if (SIZE(mismatch) && rows * count > 0) {
        *fault = 1;
        return;
    }
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        int64_t from, base;
        IG_FUNCTION_line(row, &SIZE(other_count), &SIZE(other_index_step), &SIZE(other_step), &from, &base);
        for (int64_t k = 0; k < count; k++, from += index_step) {
            const int64_t place = IG_FUNCTION_place((int64_t)index[from], extent);
            if (place < 0)
                *fault = 1;
            else
                out[from] = data[base + place * axis_step];
        }
    }
}
