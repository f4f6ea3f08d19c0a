/* Floats by weights of four or eight bits, which are taken out of their form in registers. A task is one panel of
   COLUMNS columns.
   tasks: ceil(N / COLUMNS) */
#include "kernel.h"

typedef struct {
    void *a, *w, *scales, *zeros; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t M, N, K, a_step, block;
} IG_FUNCTION_sizes;

#include "nibble_tile.h"

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t M = SIZE(M), N = SIZE(N), K = SIZE(K), a_step = SIZE(a_step), block = SIZE(block);
    const float *const a = BUFFER(a);
    float *const sum = scratch;
    const int64_t blocks = (K + block - 1) / block, words = blocks * block / GROUP;
    for (int64_t panel = begin; panel < end; panel++) {
        const uint32_t *const w = (const uint32_t *)BUFFER(w) + panel * words * COLUMNS;
        const float *const scale = (const float *)BUFFER(scales) + panel * blocks * COLUMNS;
        const float *const zero = HAS_ZERO ? (const float *)BUFFER(zeros) + panel * blocks * COLUMNS : scale;
        const int64_t col = panel * COLUMNS, columns = N - col < COLUMNS ? N - col : COLUMNS;
        for (int64_t row = 0, count; row < M; row += count) {
            const int64_t left = M - row;
            count = left <= ROWS ? left : left >= 2 * ROWS ? ROWS : (left + 1) / 2;
            IG_FUNCTION_tile(count, a + row * a_step, a_step, w, scale, zero, K, block, sum);
            for (int64_t r = 0; r < count; r++)
                IG_FUNCTION_finish(buffer, size, row + r, col, columns, sum + r * COLUMNS);
        }
    }
}
