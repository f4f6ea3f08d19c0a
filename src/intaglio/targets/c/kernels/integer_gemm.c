/* Matrix product of bytes. A task is row_block rows by panel_block panels of COLUMNS columns of one product.
   tasks: outer * inner * ceil(M / row_block) * ceil(ceil(N / COLUMNS) / panel_block) */
#include "kernel.h"

typedef struct {
    void *a, *b, *zero_point; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t M, N, K, outer, inner;
    int64_t a_step, a_outer, a_inner, b_outer, b_inner, zero_step;
    int64_t row_block, panel_block;
} IG_FUNCTION_sizes;

#include "integer_tile.h"
/* The rows that all panels of a task are read for. */
#if MATRICES
#define CHUNK BLOCK_ROWS
#else
#define CHUNK rows
#endif
#if ROW_ZERO
#define ROW_ZERO_POINT zero_point[(row + r) * zero_step]
#else
#define ROW_ZERO_POINT zero_point[0]
#endif

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    enum { sum_bytes = BLOCK_ROWS * COLUMNS * 4 };
    const int64_t M = SIZE(M), N = SIZE(N), K = SIZE(K), inner = SIZE(inner), a_step = SIZE(a_step);
    const int64_t a_outer = SIZE(a_outer), a_inner = SIZE(a_inner), b_outer = SIZE(b_outer), b_inner = SIZE(b_inner);
    const int64_t zero_step = SIZE(zero_step), row_block = SIZE(row_block), panel_block = SIZE(panel_block);
    const RAW *const a = BUFFER(a), *const zero_point = BUFFER(zero_point);
    const uint8_t *const b = BUFFER(b);
    uint32_t *const sum = scratch, *const row_sum = (uint32_t *)((char *)scratch + sum_bytes);
    const int64_t panels = (N + COLUMNS - 1) / COLUMNS, row_blocks = (M + row_block - 1) / row_block;
    const int64_t panel_blocks = (panels + panel_block - 1) / panel_block;
    const int64_t panel_size = (K + GROUP - 1) / GROUP * (GROUP * COLUMNS) + HEADER;
    IG_FUNCTION_begin();
    for (int64_t task = begin; task < end; task++) {
        const int64_t batch = task / (row_blocks * panel_blocks), in_batch = task % (row_blocks * panel_blocks);
        const int64_t block = in_batch % row_blocks, panel_index = in_batch / row_blocks;
        const int64_t row = M * block / row_blocks, rows = M * (block + 1) / row_blocks - row;
        const RAW *const a_rows = a + batch / inner * a_outer + batch % inner * a_inner + row * a_step;
        const uint8_t *const b_batch = b + batch / inner * b_outer + batch % inner * b_inner;
#if QUADS
        const int64_t step = a_step;
        const RAW *x = a_rows;
#else
        const int64_t step = (K + (GROUP - 1)) / GROUP * GROUP;
        int16_t *const x = (int16_t *)((char *)scratch + sum_bytes + (row_block * 4 + 63) / 64 * 64);
        for (int64_t r = 0; r < rows; r++)
            IG_FUNCTION_widen(a_rows + r * a_step, K, ROW_ZERO_POINT, x + r * step);
#endif
        if (HAS_ZERO)
            for (int64_t r = 0; r < rows; r++)
                row_sum[r] = IG_FUNCTION_row_sum(x + r * step, K);
        const int64_t last = panels * (panel_index + 1) / panel_blocks;
        for (int64_t first = 0; first < rows; first += CHUNK)
            for (int64_t panel = panels * panel_index / panel_blocks; panel < last; panel++) {
                const int64_t col = panel * COLUMNS, at = row + first;
                IG_FUNCTION_panel(buffer, size, x + first * step, step, b_batch + panel * panel_size,
                                  rows - first < CHUNK ? rows - first : CHUNK, K, zero_point + at * zero_step,
                                  zero_step, row_sum + first, batch * M + at, col,
                                  N - col < COLUMNS ? N - col : COLUMNS, sum);
            }
    }
    IG_FUNCTION_end();
}
