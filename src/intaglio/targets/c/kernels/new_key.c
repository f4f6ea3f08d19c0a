/* A key for random numbers that nobody can foretell. There is one task. */
#include "kernel.h"

typedef struct {
    void *key, *fault;
} IG_FUNCTION_buffers;

extern int getentropy(void *buffer, __SIZE_TYPE__ length);

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    int64_t *const fault = BUFFER(fault);
    (void)size, (void)begin, (void)end, (void)scratch;
    if (getentropy(BUFFER(key), 2 * sizeof(uint64_t)))
        *fault = 1;
}
