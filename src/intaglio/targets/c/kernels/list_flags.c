/* Lists the places of flags that are set, in order. There is one task. */
#include "plain.h"

typedef struct {
    void *flags, *places, *count, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t length, extent; /* the flags, and the slices that they are for */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const uint8_t *const flags = BUFFER(flags);
    int64_t *const places = BUFFER(places), *const count = BUFFER(count), *const fault = BUFFER(fault);
    const int64_t length = SIZE(length);
    int64_t found = 0;
    (void)begin, (void)end, (void)scratch;
    for (int64_t i = 0; i < length; i++) {
        places[found] = i;
        found += flags[i] != 0;
    }
    *count = found;
    *fault = length > SIZE(extent);
}
