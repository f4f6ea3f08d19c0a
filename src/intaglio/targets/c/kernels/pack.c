/* Packs matrices into panels of COLUMNS columns.
   tasks: batch * ceil(N / COLUMNS) */
#include "kernel.h"

typedef struct {
    void *b, *packed;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t N, K, batch, b_step, b_batch;
} IG_FUNCTION_sizes;

/* Whether the columns of the matrices are contiguous, and not the rows. */
#ifndef B_IN_COLUMNS
#define B_IN_COLUMNS 0
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#include "vector.h"
#define COLUMNS (LANES * VECTORS)
#if B_IN_COLUMNS
#include "pack_columns.h"
#define PACK IG_FUNCTION_pack_columns
#define OFFSET (panel * COLUMNS) * b_step
#else
#include "pack_rows.h"
#define PACK IG_FUNCTION_pack_rows
#define OFFSET (panel * COLUMNS)
#endif

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t N = SIZE(N), K = SIZE(K), b_step = SIZE(b_step), b_batch = SIZE(b_batch);
    const int64_t panels = (N + COLUMNS - 1) / COLUMNS;
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t panel = task % panels, col = panel * COLUMNS;
        const ELEMENT *b = (const ELEMENT *)BUFFER(b) + task / panels * b_batch + OFFSET;
        PACK(b, b_step, K, N - col < COLUMNS ? N - col : COLUMNS, (ELEMENT *)BUFFER(packed) + task * K * COLUMNS);
    }
}
