/* Matrix product. A task is row_block rows by panel_block panels of COLUMNS columns of one product.
   tasks: outer * inner * ceil(M / row_block) * ceil(ceil(N / COLUMNS) / panel_block) */
#include "kernel.h"

typedef struct {
    void *a, *b; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t M, N, K, outer, inner;
    int64_t a_step, a_outer, a_inner, b_step, b_outer, b_inner;
    int64_t row_block, panel_block, depth_block;
} IG_FUNCTION_sizes;

/* How the right operand stands in memory: in panels, with its rows contiguous, or with its columns contiguous. */
#ifndef B_PACKED
#define B_PACKED 1
#endif
#ifndef B_IN_ROWS
#define B_IN_ROWS 0
#endif
#ifndef B_IN_COLUMNS
#define B_IN_COLUMNS 0
#endif
/* Products of so few columns are made of dot products where the depth is at least so many times the columns. */
#ifndef THIN
#define THIN 4
#endif
#ifndef THIN_DEPTH
#define THIN_DEPTH 32
#endif
/* The same for so few rows. */
#ifndef FEW
#define FEW 16
#endif
#ifndef FEW_DEPTH
#define FEW_DEPTH 16
#endif
/* How it is computed where the sizes are known: 1 thin, 2 few, 3 dots, 4 row, 5 tiles; 0: the run decides. */
#ifndef WAY
#define WAY 0
#endif
#define ROWS_ADJACENT 0
#define WEIGHTS_STRIDE B_IN_ROWS
#include "tile.h"
#include "finish.h"
#include "row.h"
/* Where a panel of the right operand begins, and what makes a packed one of it. */
#if B_PACKED
#define PANEL_OFFSET panel * K * COLUMNS
#elif B_IN_ROWS
#include "pack_rows.h"
#define PACK IG_FUNCTION_pack_rows
#define PANEL_OFFSET (panel * COLUMNS)
#else
#include "pack_columns.h"
#define PACK IG_FUNCTION_pack_columns
#define PANEL_OFFSET (panel * COLUMNS) * b_step
#endif
#if B_IN_COLUMNS && WAY < 4
#include "dots.h"
#endif

/* `rows` rows by one panel, in parts of the depth; `sum` holds all of them where there are several. */
static inline void IG_FUNCTION_panel(void *const *buffer, const int64_t *size, const ELEMENT *a, int64_t a_step,
                                     const ELEMENT *b, int64_t b_step, int64_t rows, int64_t depth, int64_t depth_block,
                                     int64_t row, int64_t col, int64_t columns, ELEMENT *sum)
{
    static const int64_t here[2] = {0, 0};
    const int64_t sum_step = depth > depth_block ? COLUMNS : 0;
    for (int64_t k = 0; k == 0 || k < depth; k += depth_block) {
        const int64_t part = depth - k < depth_block ? depth - k : depth_block;
        for (int64_t first = 0, count; first < rows; first += count) {
            count = IG_FUNCTION_next(rows - first);
            ELEMENT *tile_sum = sum + first * sum_step;
            IG_FUNCTION_tile(count, a + first * A_ROW + k * A_DEPTH, a_step, b + k * B_STEP, b_step, here, 1, part,
                             tile_sum, k == 0);
            if (k + part == depth)
                IG_FUNCTION_finish(buffer, size, row + first, 1, count, col, columns, tile_sum);
        }
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t M = SIZE(M), N = SIZE(N), K = SIZE(K), inner = SIZE(inner);
    const int64_t a_step = SIZE(a_step), a_outer = SIZE(a_outer), a_inner = SIZE(a_inner);
    const int64_t b_step = SIZE(b_step), b_outer = SIZE(b_outer), b_inner = SIZE(b_inner);
    const int64_t row_block = SIZE(row_block), panel_block = SIZE(panel_block), depth_block = SIZE(depth_block);
    const ELEMENT *a = BUFFER(a), *b = BUFFER(b);
    ELEMENT *sum = scratch;
    const int64_t panels = (N + COLUMNS - 1) / COLUMNS, row_blocks = (M + row_block - 1) / row_block;
    const int64_t panel_blocks = (panels + panel_block - 1) / panel_block;
    for (int64_t task = begin; task < end; task++) {
        const int64_t batch = task / (row_blocks * panel_blocks), in_batch = task % (row_blocks * panel_blocks);
        const int64_t block = in_batch % row_blocks, panel_index = in_batch / row_blocks;
        const int64_t row = M * block / row_blocks, rows = M * (block + 1) / row_blocks - row;
        const ELEMENT *a_rows = a + batch / inner * a_outer + batch % inner * a_inner + row * A_ROW;
        const ELEMENT *b_batch = b + batch / inner * b_outer + batch % inner * b_inner;
        const int64_t last = panels * (panel_index + 1) / panel_blocks;
        for (int64_t panel = panels * panel_index / panel_blocks; panel < last; panel++) {
            const ELEMENT *b_panel = b_batch + PANEL_OFFSET;
            int64_t b_row = b_step;
            const int64_t col = panel * COLUMNS, columns = N - col < COLUMNS ? N - col : COLUMNS;
#if B_IN_COLUMNS && WAY < 2
            if (WAY == 1 || (N <= THIN && K >= THIN_DEPTH * N)) {
                IG_FUNCTION_thin(a_rows, a_step, b_panel, b_step, rows, K, columns, sum);
                IG_FUNCTION_finish(buffer, size, batch * M + row, 1, rows, col, columns, sum);
                continue;
            }
#endif
#if B_IN_COLUMNS && WAY != 1 && WAY < 3
            if (WAY == 2 || (M > 1 && M <= FEW && K >= FEW_DEPTH * M)) {
                IG_FUNCTION_few(a_rows, a_step, b_panel, b_step, rows, K, columns, sum);
                IG_FUNCTION_finish(buffer, size, batch * M + row, 1, rows, col, columns, sum);
                continue;
            }
#endif
#if B_IN_COLUMNS && WAY != 1 && WAY != 2 && WAY < 4
            if (WAY == 3 || M <= 2) {
                IG_FUNCTION_dots(a_rows, a_step, b_panel, b_step, rows, K, columns, sum);
                IG_FUNCTION_finish(buffer, size, batch * M + row, 1, rows, col, columns, sum);
                continue;
            }
#endif
#if WAY < 1 || WAY > 3
#if !B_PACKED
            if (B_IN_COLUMNS || columns < COLUMNS || rows > ROWS) {
                ELEMENT *packed = sum + row_block * COLUMNS;
                PACK(b_panel, b_step, K, columns, packed);
                b_panel = packed;
                b_row = COLUMNS;
            }
#endif
            (void)b_row;
            if (WAY == 4 || (WAY == 0 && M == 1)) {
                IG_FUNCTION_row(a_rows, a_step, b_panel, b_row, K, sum);
                IG_FUNCTION_finish(buffer, size, batch, 1, 1, col, columns, sum);
            } else {
                IG_FUNCTION_panel(buffer, size, a_rows, a_step, b_panel, b_row, rows, K, depth_block, batch * M + row,
                                  col, columns, sum);
            }
#endif
        }
    }
}
