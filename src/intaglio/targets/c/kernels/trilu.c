/* Copies the part of each matrix above or below a diagonal, and clears the rest. A task is `block` rows. */
#include "plain.h"

/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif
#ifndef IS_UPPER
#define IS_UPPER 1
#endif
/* Whether the column of the diagonal in the first row is given; else it is the first. */
#ifndef HAS_OFFSET
#define HAS_OFFSET 1
#endif
#ifndef OFFSET
#define OFFSET int64_t
#endif

typedef struct {
    void *data;
#if HAS_OFFSET
    void *offset;
#endif
    void *out;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t height, columns, rows, block; /* of a matrix, and the rows of all */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    ELEMENT *const out = BUFFER(out);
    const int64_t height = SIZE(height), columns = SIZE(columns), rows = SIZE(rows), block = SIZE(block);
    (void)scratch;
#if HAS_OFFSET
    const int64_t given = (int64_t)*(const OFFSET *)BUFFER(offset);
    const int64_t diagonal = given > columns ? columns : given < -height - 1 ? -height - 1 : given;
#else
    const int64_t diagonal = 0;
#endif
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const int64_t place = row % height + diagonal, edge = IS_UPPER ? place : place + 1;
        const int64_t cut = edge < 0 ? 0 : edge > columns ? columns : edge;
        const int64_t from = IS_UPPER ? cut : 0, to = IS_UPPER ? columns : cut;
        const ELEMENT *const x = data + row * columns;
        ELEMENT *const y = out + row * columns;
        memset(y, 0, (size_t)from * sizeof *y);
        memcpy(y + from, x + from, (size_t)(to - from) * sizeof *y);
        memset(y + to, 0, (size_t)(columns - to) * sizeof *y);
    }
}
