/* Rows by the weights of one of several experts each. A task is panel_block panels of one expert: it finds the rows of
   that expert, and multiplies ROWS of them at a time.
   tasks: experts * ceil(ceil(N / COLUMNS) / panel_block) */
#include "kernel.h"

typedef struct {
    void *a, *b, *index; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t M, N, K, a_step, repeats, experts; /* M rows of the result; row m is made of row m / repeats */
    int64_t panel_block;
} IG_FUNCTION_sizes;

#define ROWS_ADJACENT 0
#define WEIGHTS_STRIDE 0
#include "tile.h"
#include "finish.h"
#include "row.h"
#include "expert_rows.h"

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    static const int64_t here[2] = {0, 0};
    const int64_t M = SIZE(M), N = SIZE(N), K = SIZE(K), a_step = SIZE(a_step), repeats = SIZE(repeats);
    const int64_t panels = (N + COLUMNS - 1) / COLUMNS, panel_block = SIZE(panel_block);
    const int64_t blocks = (panels + panel_block - 1) / panel_block;
    const ELEMENT *const a = BUFFER(a), *const b = BUFFER(b);
    const int64_t *const index = BUFFER(index);
    ELEMENT *const sum = scratch, *const rows = sum + ROWS * COLUMNS;
    for (int64_t task = begin; task < end; task++) {
        const int64_t expert = task / blocks, block = task % blocks, last = panels * (block + 1) / blocks;
        int64_t from = 0, count, found[ROWS];
        while ((count = IG_FUNCTION_find(index, expert, M, &from, found)) > 0) {
            for (int64_t r = 0; r < count; r++)
                __builtin_memcpy(rows + r * K, a + found[r] / repeats * a_step, (uint64_t)K * sizeof(ELEMENT));
            for (int64_t panel = panels * block / blocks; panel < last; panel++) {
                const ELEMENT *const weights = b + (expert * panels + panel) * K * COLUMNS;
                const int64_t col = panel * COLUMNS, columns = N - col < COLUMNS ? N - col : COLUMNS;
                if (count == 1)
                    IG_FUNCTION_row(rows, K, weights, COLUMNS, K, sum);
                else
                    IG_FUNCTION_tile(count, rows, K, weights, COLUMNS, here, 1, K, sum, 1);
                for (int64_t r = 0; r < count; r++)
                    IG_FUNCTION_finish(buffer, size, found[r], 1, 1, col, columns, sum + r * COLUMNS);
            }
        }
    }
}
