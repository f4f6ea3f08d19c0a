/* Combines slices with those that index tuples point at. Several tuples may name one slice, so a task takes all tuples
   in order, and COLUMNS elements of their slices. */
#include "plain.h"
#include "combine.h"
#include "index_tuple.h"

#ifndef COLUMNS
#define COLUMNS 4096
#endif

typedef struct {
    void *index, *update, *out, *fault; /* `out` holds the data already */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch;                     /* whether the updates have another shape than the slices */
    int64_t tuples, inner;                /* the tuples, and the elements of a slice */
    int64_t extent[PLACES], step[PLACES]; /* of the axes that a tuple points into */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const INDEX *const index = BUFFER(index);
    const ELEMENT *const update = BUFFER(update);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    int64_t extent[PLACES], step[PLACES];
    const int64_t tuples = SIZE(tuples), inner = SIZE(inner);
    (void)scratch;
    memcpy(extent, &SIZE(extent), sizeof extent);
    memcpy(step, &SIZE(step), sizeof step);
    if (SIZE(mismatch)) {
        *fault = 1;
        return;
    }
    const int64_t from = begin * COLUMNS, to = end * COLUMNS < inner ? end * COLUMNS : inner;
    for (int64_t row = 0; row < tuples; row++) {
        const int64_t at = IG_FUNCTION_offset(index + row * LENGTH, extent, step);
        if (at < 0) {
            *fault = 1;
            continue;
        }
        for (int64_t j = from; j < to; j++)
            out[at + j] = IG_FUNCTION_combine(out[at + j], update[row * inner + j]);
    }
}
