/* Writes each element to its place; the rest is zero already. A task is one plane of the input. Where an element goes
   to another plane than its own, `strays` is set, and all are written once more in order, since the last one wins. */
#include "plain.h"

/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif
/* Whether this is the second time, which is one task. */
#ifndef IS_AGAIN
#define IS_AGAIN 0
#endif
/* Whether places count in another shape than that of the output, which has so many axes. */
#ifndef IS_MOVED
#define IS_MOVED 1
#endif
#ifndef AXES
#define AXES 4
#endif

typedef struct {
    void *data, *index, *strays, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch;             /* whether elements and places differ in number, or the output is too small */
    int64_t planes, inner, plane; /* the planes, and the elements of one in the input and where places count */
#if IS_MOVED
    int64_t extent[AXES], step[AXES]; /* of the shape that places count in, and of the output */
#endif
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    const int64_t *const index = BUFFER(index);
    int64_t *const strays = BUFFER(strays), *const fault = BUFFER(fault);
    ELEMENT *const out = BUFFER(out);
    const int64_t planes = SIZE(planes), inner = SIZE(inner), plane = SIZE(plane);
    (void)scratch;
#if IS_AGAIN
    const int64_t first = 0, last = *strays != 0, count = planes * inner;
    (void)begin, (void)end;
#else
    const int64_t first = begin, last = end < planes ? end : planes, count = inner;
    if (SIZE(mismatch)) {
        *fault = 1;
        return;
    }
#endif
    for (int64_t task = first; task < last; task++)
        for (int64_t i = task * count; i < (task + 1) * count; i++) {
            const int64_t place = index[i];
            if (place < 0 || place >= planes * plane) {
                *fault = 1;
                continue;
            }
#if !IS_AGAIN
            if (place / plane != task) {
                *strays = 1;
                continue;
            }
#endif
#if IS_MOVED
            const int64_t *const extent = &SIZE(extent), *const step = &SIZE(step);
            int64_t rest = place, to = 0;
            for (int64_t axis = AXES - 1; axis >= 0; axis--) {
                to += rest % extent[axis] * step[axis];
                rest /= extent[axis];
            }
            out[to] = data[i];
#else
            out[place] = data[i];
#endif
        }
}
