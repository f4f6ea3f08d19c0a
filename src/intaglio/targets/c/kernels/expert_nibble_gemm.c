/* Rows by the weights of four bits of one of several experts each. A task is panel_block panels of one expert: it finds
   the rows of that expert, and multiplies ROWS of them at a time.
   tasks: experts * ceil(ceil(N / COLUMNS) / panel_block) */
#include "kernel.h"

typedef struct {
    void *a, *w, *scales, *zeros, *index; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t M, N, K, a_step, repeats, experts; /* M rows of the result; row m is made of row m / repeats */
    int64_t block, panel_block;
} IG_FUNCTION_sizes;

#include "nibble_tile.h"
#include "expert_rows.h"

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t M = SIZE(M), N = SIZE(N), K = SIZE(K), a_step = SIZE(a_step), repeats = SIZE(repeats);
    const int64_t block = SIZE(block), scales = (K + block - 1) / block, words = K / GROUP;
    const int64_t panels = (N + COLUMNS - 1) / COLUMNS, panel_block = SIZE(panel_block);
    const int64_t parts = (panels + panel_block - 1) / panel_block;
    const float *const a = BUFFER(a);
    const int64_t *const index = BUFFER(index);
    float *const sum = scratch, *const rows = sum + ROWS * COLUMNS;
    for (int64_t task = begin; task < end; task++) {
        const int64_t expert = task / parts, part = task % parts, last = panels * (part + 1) / parts;
        int64_t from = 0, count, found[ROWS];
        while ((count = IG_FUNCTION_find(index, expert, M, &from, found)) > 0) {
            for (int64_t r = 0; r < count; r++)
                __builtin_memcpy(rows + r * K, a + found[r] / repeats * a_step, (uint64_t)K * sizeof(float));
            for (int64_t panel = panels * part / parts; panel < last; panel++) {
                const int64_t place = expert * panels + panel;
                const uint32_t *const w = (const uint32_t *)BUFFER(w) + place * words * COLUMNS;
                const float *const scale = (const float *)BUFFER(scales) + place * scales * COLUMNS;
                const float *const zero = HAS_ZERO ? (const float *)BUFFER(zeros) + place * scales * COLUMNS : scale;
                const int64_t col = panel * COLUMNS, columns = N - col < COLUMNS ? N - col : COLUMNS;
                IG_FUNCTION_tile(count, rows, K, w, scale, zero, K, block, sum);
                for (int64_t r = 0; r < count; r++)
                    IG_FUNCTION_finish(buffer, size, found[r], col, columns, sum + r * COLUMNS);
            }
        }
    }
}
