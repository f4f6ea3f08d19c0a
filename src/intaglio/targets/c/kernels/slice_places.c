/* What Slice takes along each axis: how many elements, the first one, and the step. There is one task. */
#include "plain.h"

/* The axes of the input, and at least one. */
#ifndef RANK
#define RANK 2
#endif
#ifndef PLACES
#define PLACES 2
#endif
#ifndef HAS_AXES
#define HAS_AXES 1
#endif
#ifndef HAS_STEPS
#define HAS_STEPS 1
#endif

typedef struct {
    void *starts, *ends;
#if HAS_AXES
    void *axes;
#endif
#if HAS_STEPS
    void *steps;
#endif
    void *found; /* the lengths, then the first elements, then the steps of all axes */
    void *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count; /* of axes that are cut */
    int64_t given[PLACES];
} IG_FUNCTION_sizes;

static int64_t IG_FUNCTION_within(int64_t number, int64_t least, int64_t most)
{
    return number < least ? least : number > most ? most : number;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const starts = BUFFER(starts), *const ends = BUFFER(ends), *const given = &SIZE(given);
#if HAS_AXES
    const int64_t *const axes = BUFFER(axes);
#endif
#if HAS_STEPS
    const int64_t *const steps = BUFFER(steps);
#endif
    int64_t *const length = BUFFER(found), *const first = length + RANK, *const by = first + RANK;
    int64_t *const fault = BUFFER(fault);
    int64_t is_cut[PLACES] = {0};
    (void)begin, (void)end, (void)scratch;
    for (int64_t i = 0; i < RANK; i++) {
        length[i] = given[i];
        first[i] = 0;
        by[i] = 1;
    }
    for (int64_t i = 0; i < SIZE(count); i++) {
#if HAS_AXES
        const int64_t axis = axes[i] < 0 ? axes[i] + RANK : axes[i];
#else
        const int64_t axis = i;
#endif
#if HAS_STEPS
        const int64_t step = steps[i];
#else
        const int64_t step = 1;
#endif
        if (axis < 0 || axis >= RANK || step == 0 || is_cut[axis]) {
            *fault = 1;
            return;
        }
        is_cut[axis] = 1;
        const int64_t extent = given[axis];
        int64_t from = starts[i] + (starts[i] < 0 ? extent : 0), to = ends[i] + (ends[i] < 0 ? extent : 0);
        if (step > 0) {
            from = IG_FUNCTION_within(from, 0, extent);
            to = IG_FUNCTION_within(to, 0, extent);
            length[axis] = to > from ? (to - from - 1) / step + 1 : 0;
        } else {
            from = extent > 0 ? IG_FUNCTION_within(from, 0, extent - 1) : -1;
            to = IG_FUNCTION_within(to, -1, extent - 1);
            const int64_t back = step < -extent ? extent : -step;
            length[axis] = from > to ? (from - to - 1) / back + 1 : 0;
        }
        first[axis] = length[axis] > 0 ? from : 0;
        by[axis] = length[axis] > 1 ? step : 1;
    }
}
