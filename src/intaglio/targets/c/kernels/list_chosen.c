/* Lists the boxes that were chosen in each pair of batch and class, as batch, class and box. There is one task. */
#include "plain.h"

typedef struct {
    void *chosen, *counts, *out;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t pairs, kinds, count; /* kinds are classes; each pair has room for `count` boxes */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const chosen = BUFFER(chosen), *const counts = BUFFER(counts);
    int64_t *const out = BUFFER(out);
    const int64_t pairs = SIZE(pairs), kinds = SIZE(kinds), count = SIZE(count);
    (void)begin, (void)end, (void)scratch;
    for (int64_t pair = 0, place = 0; pair < pairs; pair++)
        for (int64_t i = 0; i < counts[pair]; i++, place++) {
            out[3 * place] = pair / kinds;
            out[3 * place + 1] = pair % kinds;
            out[3 * place + 2] = chosen[pair * count + i];
        }
}
