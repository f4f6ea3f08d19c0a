/* What Pad does to each axis: elements cut off and added, before and behind, and the sizes of the result. There is one
   task. */
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
/* More than any memory holds. */
#define FAR ((int64_t)1 << 60)

typedef struct {
    void *pads;
#if HAS_AXES
    void *axes;
#endif
    void *found; /* four numbers for each axis, and behind them the sizes */
    void *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count; /* of axes that are padded */
    int64_t given[PLACES];
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const pads = BUFFER(pads), *const given = &SIZE(given);
#if HAS_AXES
    const int64_t *const axes = BUFFER(axes);
#endif
    int64_t *const found = BUFFER(found), *const shape = found + 4 * RANK, *const fault = BUFFER(fault);
    const int64_t count = SIZE(count);
    int64_t is_padded[PLACES] = {0};
    (void)begin, (void)end, (void)scratch;
    for (int64_t i = 0; i < 4 * RANK; i++)
        found[i] = 0;
    for (int64_t i = 0; i < RANK; i++)
        shape[i] = given[i];
    for (int64_t i = 0; i < count; i++) {
#if HAS_AXES
        const int64_t axis = axes[i] < 0 ? axes[i] + RANK : axes[i];
#else
        const int64_t axis = i;
#endif
        const int64_t before = pads[i], behind = pads[count + i];
        const int64_t is_far = before > FAR || before < -FAR || behind > FAR || behind < -FAR;
        if (axis < 0 || axis >= RANK || is_far || is_padded[axis]) {
            *fault = 1;
            return;
        }
        is_padded[axis] = 1;
        int64_t *const frame = found + 4 * axis;
        frame[0] = before < 0 ? -before : 0;
        frame[1] = behind < 0 ? -behind : 0;
        frame[2] = before > 0 ? before : 0;
        frame[3] = behind > 0 ? behind : 0;
        *fault |= given[axis] - frame[0] - frame[1] < 0;
        shape[axis] = given[axis] + before + behind;
    }
}
