/* Extents and steps of a tensor for a reduction whose axes only the run tells, in two orders of its elements, and the
   sizes of the result. There is one task. */
#include "plain.h"

/* The axes of the input, and at least one; how many runs of neighbours are kept, and as many are reduced. */
#ifndef AXES
#define AXES 4
#endif
#ifndef PLACES
#define PLACES 4
#endif
#ifndef RUNS
#define RUNS 2
#endif
/* Whether all axes are reduced where none is named; and whether the result has a 1 in the place of each axis. */
#ifndef NONE_MEANS_ALL
#define NONE_MEANS_ALL 1
#endif
#ifndef KEEPS_AXES
#define KEEPS_AXES 1
#endif
#include "named_axes.h"

typedef struct {
    void *axes;
    void *found; /* extents where what is reduced lies side by side, or where what is kept does; steps; sizes */
    void *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count; /* of axes that are named */
    int64_t given[PLACES];
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const axes = BUFFER(axes), *const given = &SIZE(given);
    int64_t *const by_row = BUFFER(found), *const by_column = by_row + 2 * RUNS, *const step = by_column + 2 * RUNS;
    int64_t *const shape = step + 2 * RUNS, *const fault = BUFFER(fault);
    int64_t is_reduced[AXES + 1] = {0}, extent[2 * RUNS], stride = 1, found[2] = {0}, last = -1;
    (void)begin, (void)end, (void)scratch;
    if (IG_FUNCTION_mark(axes, SIZE(count), is_reduced)) {
        *fault = 1;
        return;
    }
    for (int64_t axis = 0; axis < AXES && SIZE(count) == 0; axis++)
        is_reduced[axis] = NONE_MEANS_ALL;
    for (int64_t place = 0; place < 2 * RUNS; place++) {
        extent[place] = 1;
        step[place] = 0;
    }
    /* Neighbours that are both kept or both reduced become one; the last ones come last in each half. */
    for (int64_t axis = AXES - 1, before = -1, run = 0; axis >= 0; axis--) {
        if (given[axis] == 1)
            continue;
        if (is_reduced[axis] != before) {
            before = is_reduced[axis];
            last = last < 0 ? before : last;
            run = (before + 1) * RUNS - ++found[before];
            step[run] = stride;
        }
        extent[run] *= given[axis];
        stride *= given[axis];
    }
    /* What is reduced lies side by side, or what is kept does; the view for the other case is empty. */
    for (int64_t place = 0; place < 2 * RUNS; place++) {
        const int64_t from = place < RUNS - 1 ? place : place < 2 * RUNS - 1 ? place + 1 : RUNS - 1;
        by_row[place] = last ? extent[place] : place >= RUNS;
        by_column[place] = last ? from >= RUNS : extent[from];
    }
    for (int64_t axis = 0, place = 0; axis < AXES; axis++)
        if (KEEPS_AXES || !is_reduced[axis])
            shape[place++] = is_reduced[axis] ? 1 : given[axis];
}
