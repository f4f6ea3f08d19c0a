#include "transpose.h"
/* A panel of columns that are b_step apart, each with its depth adjacent in memory. It is a function of its own, which
   the compiler merges with that of other products. */
static __attribute__((noinline)) void IG_FUNCTION_pack_columns(const ELEMENT *b, int64_t b_step, int64_t depth,
                                                               int64_t columns, ELEMENT *panel)
{
    for (int64_t c = 0; c < COLUMNS; c += LANES) {
        int64_t k = 0;
        for (; c + LANES <= columns && k + LANES <= depth; k += LANES)
            IG_FUNCTION_transpose(b + c * b_step + k, b_step, panel + k * COLUMNS + c, COLUMNS);
        for (; k < depth; k++)
            for (int64_t l = c; l < c + LANES; l++)
                panel[k * COLUMNS + l] = l < columns ? b[l * b_step + k] : 0;
    }
}
