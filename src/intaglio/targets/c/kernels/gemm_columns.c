/* Matrix product whose left operand has its columns contiguous. A task is row_block rows by panel_block panels of
   COLUMNS columns of one product. It packs what it needs of both operands, in parts of the depth that stay in cache.
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
#define ROWS_ADJACENT 1
#define WEIGHTS_STRIDE 0
#include "tile.h"
#include "finish.h"
/* Where the part from depth k on of a panel begins, and what makes a packed one of it. */
#if B_PACKED
#define PANEL_OFFSET (panel * K + k) * COLUMNS
#elif B_IN_ROWS
#include "pack_rows.h"
#define PACK IG_FUNCTION_pack_rows
/* clang-format off */
#define PANEL_OFFSET panel * COLUMNS + k * b_step
/* clang-format on */
#else
#include "pack_columns.h"
#define PACK IG_FUNCTION_pack_columns
#define PANEL_OFFSET panel * COLUMNS * b_step + k
#endif

/* `depth` rows of the left operand in memory, of which `rows` neighbours each, side by side. */
static inline void IG_FUNCTION_strip(const ELEMENT *a, int64_t a_step, int64_t rows, int64_t depth, ELEMENT *strip)
{
    for (int64_t k = 0; k < depth; k++, a += a_step, strip += rows) {
        int64_t r = 0;
        for (; r + LANES <= rows; r += LANES)
            *(VECTOR_AT *)(strip + r) = *(const VECTOR_AT *)(a + r);
        for (; r < rows; r++)
            strip[r] = a[r];
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    static const int64_t here[2] = {0, 0};
    const int64_t M = SIZE(M), N = SIZE(N), K = SIZE(K), inner = SIZE(inner), a_step = SIZE(a_step);
    const int64_t b_step = SIZE(b_step), row_block = SIZE(row_block), panel_block = SIZE(panel_block);
    const int64_t depth_block = SIZE(depth_block);
    const int64_t panels = (N + COLUMNS - 1) / COLUMNS, row_blocks = (M + row_block - 1) / row_block;
    const int64_t panel_blocks = (panels + panel_block - 1) / panel_block;
    ELEMENT *const sums = scratch, *const strip = sums + row_block * panel_block * COLUMNS;
    (void)b_step;
    for (int64_t task = begin; task < end; task++) {
        const int64_t batch = task / (row_blocks * panel_blocks), in_batch = task % (row_blocks * panel_blocks);
        const int64_t block = in_batch % row_blocks, panel_index = in_batch / row_blocks;
        const int64_t row = M * block / row_blocks, rows = M * (block + 1) / row_blocks - row;
        const int64_t first_panel = panels * panel_index / panel_blocks;
        const int64_t last_panel = panels * (panel_index + 1) / panel_blocks;
        const ELEMENT *a = (const ELEMENT *)BUFFER(a) + batch / inner * SIZE(a_outer) + batch % inner * SIZE(a_inner);
        const ELEMENT *b = (const ELEMENT *)BUFFER(b) + batch / inner * SIZE(b_outer) + batch % inner * SIZE(b_inner);
        for (int64_t k = 0; k == 0 || k < K; k += depth_block) {
            const int64_t part = K - k < depth_block ? K - k : depth_block;
            IG_FUNCTION_strip(a + row + k * a_step, a_step, rows, part, strip);
            for (int64_t panel = first_panel; panel < last_panel; panel++) {
                const int64_t col = panel * COLUMNS, columns = N - col < COLUMNS ? N - col : COLUMNS;
                ELEMENT *const sum = sums + (panel - first_panel) * rows * COLUMNS;
                const ELEMENT *from = b + PANEL_OFFSET;
#if !B_PACKED
                ELEMENT *const packed = strip + row_block * depth_block;
                PACK(from, b_step, part, columns, packed);
                from = packed;
#endif
                for (int64_t first = 0, count; first < rows; first += count) {
                    count = IG_FUNCTION_next(rows - first);
                    IG_FUNCTION_tile(count, strip + first, rows, from, 0, here, 1, part, sum + first * COLUMNS, k == 0);
                }
                if (k + part == K)
                    IG_FUNCTION_finish(buffer, size, batch * M + row, 1, rows, col, columns, sum);
            }
        }
    }
}
