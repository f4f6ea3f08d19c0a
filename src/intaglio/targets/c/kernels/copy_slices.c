/* Copies the slices at a list of places along an axis. A task is `block` rows; a row is what lies behind the axis. */
#include "plain.h"

/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif

typedef struct {
    void *data, *places, *out;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t extent, kept, inner; /* of the axis, the places in the list, and the elements of a row */
    int64_t rows, block;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    const int64_t *const places = BUFFER(places);
    ELEMENT *const out = BUFFER(out);
    const int64_t extent = SIZE(extent), kept = SIZE(kept), inner = SIZE(inner);
    const int64_t rows = SIZE(rows), block = SIZE(block);
    (void)scratch;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const int64_t from = row / kept * extent + places[row % kept];
        memcpy(out + row * inner, data + from * inner, (size_t)inner * sizeof *out);
    }
}
