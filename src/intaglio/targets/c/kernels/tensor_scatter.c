/* Writes the rows of an update over those of a cache, from a place along an axis on. A task is all rows of one position
   before the axis. */
#include "plain.h"

/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif
/* Whether the place where a batch begins is given, and the type of such places; else all begin at 0. */
#ifndef HAS_START
#define HAS_START 1
#endif
#ifndef START
#define START int64_t
#endif
/* Whether rows behind the end of the axis go to its begin. */
#ifndef IS_CIRCULAR
#define IS_CIRCULAR 0
#endif
#if HAS_START
#define FIRST(task) (int64_t)start[task / middle]
#else
#define FIRST(task) 0
#endif

typedef struct {
    void *update;
#if HAS_START
    void *start;
#endif
    void *out, *fault; /* `out` holds the cache already */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch;      /* whether cache, update and starts have sizes that do not fit each other */
    int64_t extent, count; /* the rows of the cache and of the update along the axis */
    int64_t inner, middle; /* the elements of a row, and the tasks of a batch */
    int64_t tasks;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const update = BUFFER(update);
#if HAS_START
    const START *const start = BUFFER(start);
#endif
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t extent = SIZE(extent), count = SIZE(count), inner = SIZE(inner), tasks = SIZE(tasks);
    const int64_t middle = SIZE(middle);
    (void)scratch, (void)middle;
    if (SIZE(mismatch) || count > extent) {
        *fault = 1;
        return;
    }
    for (int64_t task = begin; task < end && task < tasks; task++) {
        const int64_t first = FIRST(task);
        if (first < 0 || (!IS_CIRCULAR && first > extent - count)) {
            *fault = 1;
            continue;
        }
        for (int64_t k = 0; k < count; k++) {
            const int64_t place = (first % extent + k) % extent;
            memcpy(out + (task * extent + place) * inner, update + (task * count + k) * inner,
                   (size_t)inner * sizeof *out);
        }
    }
}
