/* Rows of zeros with a one where a diagonal crosses them. A task is `block` rows. */
#include "plain.h"

/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif

typedef struct {
    void *one, *out;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows, columns, diagonal, block; /* the column of the diagonal in the first row */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const one = BUFFER(one);
    ELEMENT *const out = BUFFER(out);
    const int64_t rows = SIZE(rows), columns = SIZE(columns), diagonal = SIZE(diagonal), block = SIZE(block);
    (void)scratch;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const int64_t place = row + diagonal;
        memset(out + row * columns, 0, (size_t)columns * sizeof *out);
        if (place >= 0 && place < columns)
            out[row * columns + place] = *one;
    }
}
