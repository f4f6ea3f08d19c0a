/* Numbers that are evenly spaced, each from its place. A task is `block` of them. */
#include "plain.h"
#include "number.h"

/* Whether numbers are integers, which wrap around. */
#ifndef IS_INTEGER
#define IS_INTEGER 0
#endif
/* Whether places and distances are rounded to elements too; else only the numbers are. */
#ifndef IS_ROUNDED
#define IS_ROUNDED 0
#endif
#if IS_INTEGER
#define WRAP (uint64_t)
#else
#define WRAP
#endif
#if IS_ROUNDED
#include "rounded.h"
#else
#define ROUNDED(x) x
#endif

typedef struct {
    void *start, *delta, *out;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count, block;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const start = BUFFER(start), *const delta = BUFFER(delta);
    ELEMENT *const out = BUFFER(out);
    const int64_t count = SIZE(count), block = SIZE(block);
    const NUMBER first = READ(start), step = READ(delta);
    (void)scratch;
    for (int64_t i = begin * block, stop = end * block < count ? end * block : count; i < stop; i++) {
        const NUMBER place = ROUNDED((NUMBER)i);
        const NUMBER distance = ROUNDED((NUMBER)(WRAP place * WRAP step));
        WRITE(out + i, (NUMBER)(WRAP first + WRAP distance));
    }
}
