/* Copies a tensor into a larger one along whose axes it is repeated where it has one element. A task is `block` rows of
   the result, which lie along its last axis. */
#include "plain.h"

#ifndef AXES
#define AXES 2
#endif
/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif

typedef struct {
    void *data, *out;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t extent[AXES], given[AXES]; /* of the result, and of the tensor */
    int64_t rows, block;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    ELEMENT *const out = BUFFER(out);
    const int64_t *const extent = &SIZE(extent), *const given = &SIZE(given);
    const int64_t rows = SIZE(rows), block = SIZE(block), columns = extent[AXES - 1], width = given[AXES - 1];
    (void)scratch;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        int64_t rest = row, from = 0, step = width;
        for (int64_t axis = AXES - 2; axis >= 0; axis--) {
            from += given[axis] == 1 ? 0 : rest % extent[axis] * step;
            rest /= extent[axis];
            step *= given[axis];
        }
        if (width == columns)
            memcpy(out + row * columns, data + from, (size_t)columns * sizeof *out);
        else
            for (int64_t j = 0; j < columns; j++)
                out[row * columns + j] = data[from];
    }
}
