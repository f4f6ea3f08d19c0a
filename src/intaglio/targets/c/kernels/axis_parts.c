/* The elements before an axis, along it and behind it, and the axis counted from 0. There is one task. */
#include "plain.h"

/* How many axes there are, and at least one; how many there are for an axis that is counted from behind. */
#ifndef RANK
#define RANK 3
#endif
#ifndef FULL_RANK
#define FULL_RANK 3
#endif
#ifndef PLACES
#define PLACES 3
#endif

typedef struct {
    void *axis, *found, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t given[PLACES];
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const axis = BUFFER(axis), *const given = &SIZE(given);
    int64_t *const found = BUFFER(found), *const fault = BUFFER(fault);
    const int64_t at = *axis < 0 ? *axis + FULL_RANK : *axis;
    (void)begin, (void)end, (void)scratch;
    *fault = at < 0 || at >= RANK;
    found[0] = found[1] = found[2] = 1;
    found[3] = at;
    for (int64_t i = 0; i < RANK; i++)
        found[i < at ? 0 : i == at ? 1 : 2] *= given[i];
}
