/* Copies each step of each sequence from its mirrored place. A task is `block` rows; a row is what lies behind the two
   leading axes, batch and time. */
#include "plain.h"

/* The bits of an element. */
#ifndef ELEMENT
#define ELEMENT uint32_t
#endif
#ifndef LENGTH
#define LENGTH int64_t
#endif
#ifndef IS_BATCH_FIRST
#define IS_BATCH_FIRST 0
#endif

typedef struct {
    void *data, *length, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch;             /* whether there are more or fewer lengths than sequences */
    int64_t steps, batch, second; /* the extents of time, of the batch, and of whichever of them comes second */
    int64_t inner, rows, block;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    const LENGTH *const length = BUFFER(length);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t steps = SIZE(steps), second = SIZE(second), inner = SIZE(inner);
    const int64_t rows = SIZE(rows), block = SIZE(block);
    (void)scratch;
    if (SIZE(mismatch)) {
        *fault = 1;
        return;
    }
    for (int64_t i = 0; !rows && i < SIZE(batch); i++)
        if (length[i] < 0 || (int64_t)length[i] > steps)
            *fault = 1;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
#if IS_BATCH_FIRST
        const int64_t sequence = row / second, step = row % second;
#else
        const int64_t sequence = row % second, step = row / second;
#endif
        const int64_t count = (int64_t)length[sequence];
        if (count < 0 || count > steps) {
            *fault = 1;
            continue;
        }
        const int64_t mirrored = step < count ? count - 1 - step : step;
        const int64_t from = IS_BATCH_FIRST ? sequence * second + mirrored : mirrored * second + sequence;
        memcpy(out + row * inner, data + from * inner, (size_t)inner * sizeof *out);
    }
}
