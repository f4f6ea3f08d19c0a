/* Rows of one value with another at each index. A task is `block` rows; a row is all places before the new axis. */
#include "plain.h"

/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif
#ifndef INDEX
#define INDEX int64_t
#endif
/* Whether indices are floats, of which those are out of range that no integer has. */
#ifndef IS_FLOAT
#define IS_FLOAT 0
#endif
#if IS_FLOAT
#define WHOLE(x) (x > -9e18 && x < 9e18 ? (int64_t)x : -1 - depth)
#else
#define WHOLE(x) (int64_t)x
#endif

typedef struct {
    void *index, *value, *out; /* `value` has those for off and on */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows, depth, inner, block; /* the extent of the new axis, and the indices behind it */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const INDEX *const index = BUFFER(index);
    const ELEMENT *const value = BUFFER(value);
    ELEMENT *const out = BUFFER(out);
    const int64_t rows = SIZE(rows), depth = SIZE(depth), inner = SIZE(inner), block = SIZE(block);
    (void)scratch;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        for (int64_t j = 0; j < depth * inner; j++)
            out[row * depth * inner + j] = value[0];
        for (int64_t j = 0; j < inner; j++) {
            const INDEX x = index[row * inner + j];
            const int64_t given = WHOLE(x), place = given < 0 ? given + depth : given;
            if ((uint64_t)place < (uint64_t)depth)
                out[(row * depth + place) * inner + j] = value[1];
        }
    }
}
