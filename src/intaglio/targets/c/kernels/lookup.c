/* Values by their keys, found by the hash of a key's bits; NaN, which equals nothing, has a value of its own. A task is
   a block of elements. */
#include "plain.h"
#include "golden.h"

/* A key, and a type as wide. */
#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef KEY_BITS
#define KEY_BITS uint32_t
#endif
#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif
/* A type as wide as a value, which is only moved. */
#ifndef VALUE
#define VALUE uint32_t
#endif

typedef struct {
    void *data;
    void *slot; /* by hash: the number of a key plus one, or 0 */
    void *key, *value;
    void *other; /* the values of what has no key, and of NaN */
    void *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows;
    int64_t mask; /* slots less one: a power of two less one */
    int64_t has_default, has_nan, block;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    const int32_t *const slot = BUFFER(slot);
    const ELEMENT *const key = BUFFER(key);
    const VALUE *const value = BUFFER(value);
    const VALUE *const other = BUFFER(other);
    VALUE *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t rows = SIZE(rows), mask = SIZE(mask), block = SIZE(block);
    const int64_t has_default = SIZE(has_default), has_nan = SIZE(has_nan);
    (void)scratch, (void)has_nan;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        ELEMENT x = data[row];
#if IS_FLOAT
        const int is_nan = x != x && has_nan;
        if (x == 0)
            x = 0; /* zeros of both signs are one key */
#else
        const int is_nan = 0;
#endif
        KEY_BITS bits;
        memcpy(&bits, &x, sizeof bits);
        int64_t at = (int64_t)(((uint64_t)bits * GOLDEN) >> 32) & mask;
        while (slot[at] && key[slot[at] - 1] != x)
            at = (at + 1) & mask;
        const int is_found = slot[at] != 0;
        if (!is_found && !is_nan && !has_default) {
            *fault = 1;
            continue;
        }
        out[row] = is_found ? value[slot[at] - 1] : other[is_nan];
    }
}
