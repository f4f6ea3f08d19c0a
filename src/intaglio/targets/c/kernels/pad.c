/* Copies a tensor into a larger one whose frame repeats its elements: the nearest one, or those of the mirrored or the
   next copy of it. A task is `block` rows of the result, which lie along its last axis. */
#include "plain.h"

#ifndef AXES
#define AXES 2
#endif
/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif
/* Which elements the frame repeats; the mirrored ones where it is neither. */
#ifndef IS_EDGE
#define IS_EDGE 0
#endif
#ifndef IS_WRAPPED
#define IS_WRAPPED 0
#endif

typedef struct {
    void *data, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows;
    int64_t extent[AXES], step[AXES];  /* of the tensor; the last step is 1 */
    int64_t before[AXES], count[AXES]; /* of the result: what the frame has in front, and its extents */
    int64_t block;
} IG_FUNCTION_sizes;

/* The place that is copied to the place `at`, which may lie outside. */
static inline int64_t IG_FUNCTION_source(int64_t at, int64_t extent)
{
#if IS_EDGE
    return at < 0 ? 0 : at < extent ? at : extent - 1;
#elif IS_WRAPPED
    return (at % extent + extent) % extent;
#else
    const int64_t period = extent > 1 ? 2 * (extent - 1) : 1, within = (at % period + period) % period;
    return within < extent ? within : period - within;
#endif
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t rows = SIZE(rows), block = SIZE(block);
    int64_t extent[AXES], step[AXES], before[AXES], count[AXES];
    memcpy(extent, &SIZE(extent), sizeof extent);
    memcpy(step, &SIZE(step), sizeof step);
    memcpy(before, &SIZE(before), sizeof before);
    memcpy(count, &SIZE(count), sizeof count);
    (void)scratch;
    for (int64_t axis = 0; axis < AXES; axis++)
        if (extent[axis] < 1) {
            *fault = 1;
            return;
        }
    const int64_t columns = count[AXES - 1], middle = extent[AXES - 1], first = before[AXES - 1];
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        int64_t rest = row, from = 0;
        for (int64_t axis = AXES - 2; axis >= 0; axis--) {
            from += IG_FUNCTION_source(rest % count[axis] - before[axis], extent[axis]) * step[axis];
            rest /= count[axis];
        }
        ELEMENT *const to = out + row * columns;
        for (int64_t j = 0; j < first; j++)
            to[j] = data[from + IG_FUNCTION_source(j - first, middle)];
        memcpy(to + first, data + from, (size_t)middle * sizeof *to);
        for (int64_t j = first + middle; j < columns; j++)
            to[j] = data[from + IG_FUNCTION_source(j - first, middle)];
    }
}
