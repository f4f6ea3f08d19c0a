/* True where a random number is not below the share that is dropped. A row is the four elements of a block of random
   words; a task is a block of rows. */
#include "kernel.h"
#include "library.h"
#include "dropout.h"
#include "philox.h"

typedef struct {
    void *key;
#if HAS_MODE
    void *mode;
#endif
#if HAS_RATIO
    void *ratio;
#endif
    void *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count, rows, block, tasks;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const uint64_t *const key = BUFFER(key);
    uint8_t *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t count = SIZE(count), rows = SIZE(rows), block = SIZE(block);
    const double share = SHARE;
    (void)scratch;
    if (!(share >= 0 && share < 1)) {
        *fault = 1;
        return;
    }
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        uint64_t word[4];
        IG_FUNCTION_philox((uint64_t)row, key, word);
        for (int64_t l = 0; l < 4 && 4 * row + l < count; l++)
            out[4 * row + l] = UNIT(word[l]) >= share;
    }
}
