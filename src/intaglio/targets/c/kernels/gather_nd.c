/* Copies what each index tuple points at: slices of `inner` elements. Tuples of one batch point into its part of the
   data. A task is `block` tuples. */
#include "plain.h"
#include "index_tuple.h"

/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif

typedef struct {
    void *data, *index, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch;                     /* whether data and indices have other batches */
    int64_t rows, tuples;                 /* all tuples, and those of one batch */
    int64_t batch_step, inner;            /* elements of a batch, and of a slice */
    int64_t extent[PLACES], step[PLACES]; /* of the axes that a tuple points into */
    int64_t block;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    const INDEX *const index = BUFFER(index);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    int64_t extent[PLACES], step[PLACES];
    const int64_t rows = SIZE(rows), tuples = SIZE(tuples), block = SIZE(block);
    const int64_t batch_step = SIZE(batch_step), inner = SIZE(inner);
    (void)scratch;
    memcpy(extent, &SIZE(extent), sizeof extent);
    memcpy(step, &SIZE(step), sizeof step);
    if (SIZE(mismatch)) {
        *fault = 1;
        return;
    }
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const int64_t offset = IG_FUNCTION_offset(index + row * LENGTH, extent, step);
        const int64_t at = row / tuples * batch_step + offset;
        if (offset < 0)
            *fault = 1;
        else if (inner == 1)
            out[row] = data[at];
        else
            memcpy(out + row * inner, data + at, (size_t)inner * sizeof *out);
    }
}
