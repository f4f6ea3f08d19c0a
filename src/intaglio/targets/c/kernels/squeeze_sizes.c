/* The sizes of a tensor without the axes that are named, or with a 1 at each of them. There is one task. */
#include "plain.h"

/* Whether axes of 1 come in or go. */
#ifndef IS_LONGER
#define IS_LONGER 0
#endif
/* The axes of the longer of both tensors; those of the input, at least one. */
#ifndef AXES
#define AXES 3
#endif
#ifndef PLACES
#define PLACES 3
#endif
#include "named_axes.h"

typedef struct {
    void *axes, *shape, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count; /* of axes that are named */
    int64_t given[PLACES];
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const axes = BUFFER(axes), *const given = &SIZE(given);
    int64_t *const shape = BUFFER(shape), *const fault = BUFFER(fault);
    int64_t is_named[AXES + 1] = {0};
    (void)begin, (void)end, (void)scratch;
    *fault = IG_FUNCTION_mark(axes, SIZE(count), is_named);
    for (int64_t axis = 0, place = 0; axis < AXES && !*fault; axis++) {
#if IS_LONGER
        shape[axis] = is_named[axis] ? 1 : given[place++];
#else
        *fault |= is_named[axis] && given[axis] != 1;
        if (!is_named[axis])
            shape[place++] = given[axis];
#endif
    }
}
