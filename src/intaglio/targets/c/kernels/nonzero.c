/* Writes the indices of what is not zero along each axis. A task is BLOCK elements, whose indices stand behind those of
   the tasks before it. */
#include "plain.h"
#include "set_bits.h"

#ifndef BLOCK
#define BLOCK 16384
#endif
/* The axes, and their places among the sizes: one at least. */
#ifndef AXES
#define AXES 2
#endif
#ifndef PLACES
#define PLACES 2
#endif

typedef struct {
    void *data, *counts, *out; /* `counts` has what each task finds */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t total, found; /* elements, and those that are not zero */
    int64_t extent[PLACES];
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const BITS *const data = BUFFER(data);
    const int64_t *const counts = BUFFER(counts);
    int64_t *const out = BUFFER(out);
    const int64_t total = SIZE(total), found = SIZE(found);
    int64_t extent[PLACES];
    memcpy(extent, &SIZE(extent), sizeof extent);
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t stop = (task + 1) * BLOCK < total ? (task + 1) * BLOCK : total;
        int64_t place = 0;
        for (int64_t before = 0; before < task; before++)
            place += counts[before];
        for (int64_t i = task * BLOCK; i < stop; i++) {
            if (!IS_SET(data[i]))
                continue;
            int64_t rest = i;
            for (int64_t axis = AXES - 1; axis >= 0; axis--) {
                out[axis * found + place] = rest % extent[axis];
                rest /= extent[axis];
            }
            place++;
        }
    }
}
