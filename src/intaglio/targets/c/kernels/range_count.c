/* How many steps fit between the ends of a range. There is one task. */
#include "plain.h"
#include "number.h"

#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif
/* More steps than any memory holds. */
#define FAR (((int64_t)1 << 60) - 1)

typedef struct {
    void *start, *limit, *delta, *out, *fault;
} IG_FUNCTION_buffers;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const start = BUFFER(start), *const limit = BUFFER(limit), *const delta = BUFFER(delta);
    int64_t *const out = BUFFER(out), *const fault = BUFFER(fault);
    const NUMBER first = READ(start), last = READ(limit), step = READ(delta);
    (void)size, (void)begin, (void)end, (void)scratch;
    *out = 0;
    if (step == 0) {
        *fault = 1;
        return;
    }
#if IS_FLOAT
    const double steps = ((double)last - (double)first) / (double)step;
    if (!(steps > -9e18 && steps < 9e18)) {
        *fault = 1;
        return;
    }
    const int64_t whole = (int64_t)steps, count = whole + ((double)whole < steps);
    *out = count > 0 ? count : 0;
#else
    /* Distances that a signed number may not hold are unsigned. */
    const int is_rising = step > 0;
    if (is_rising ? last <= first : last >= first)
        return;
    const uint64_t distance = is_rising ? (uint64_t)last - (uint64_t)first : (uint64_t)first - (uint64_t)last;
    const uint64_t by = is_rising ? (uint64_t)step : 0 - (uint64_t)step;
    const uint64_t count = distance / by + (distance % by != 0);
    *out = count > (uint64_t)FAR ? FAR : (int64_t)count;
#endif
}
