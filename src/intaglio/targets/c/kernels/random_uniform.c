/* Uniform random numbers: element i comes from word i. A row is a vector of them; a task is a block of rows. */
#include "kernel.h"
#include "philox.h"
#include "random_result.h"
/* The random bits of an element. */
#ifndef BITS
#define BITS 53
#endif

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const uint64_t *const key = BUFFER(key);
    ELEMENT *const out = BUFFER(out);
    const int64_t count = SIZE(count), rows = SIZE(rows), block = SIZE(block);
    (void)scratch;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const int64_t first = row * IG_LANES, left = count - first;
        double u[IG_LANES] = {0};
        for (int64_t place = 0; place < IG_LANES && place < left; place += 4) {
            uint64_t word[4];
            IG_FUNCTION_philox((uint64_t)(first + place) / 4, key, word);
            for (int l = 0; l < 4; l++)
                u[place + l] = (double)(int64_t)(word[l] >> (64 - BITS)) / (double)((uint64_t)1 << BITS);
        }
        const ig_f64 v = IG_FUNCTION_scaled(ig_load_f64(u));
        STORE_N(out + first, NARROWED(v), left < IG_LANES ? left : IG_LANES);
    }
}
