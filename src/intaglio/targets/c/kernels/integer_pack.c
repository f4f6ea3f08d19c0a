/* Packs matrices of bytes into panels of COLUMNS columns, each behind its header.
   tasks: outer * inner * ceil(N / COLUMNS) */
#include "kernel.h"

typedef struct {
    void *b, *zero_point, *packed;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t N, K, outer, inner;
    int64_t k_step, n_step, b_outer, b_inner, zero_step;
} IG_FUNCTION_sizes;

/* The bytes of the matrices, and as what they are kept. */
#ifndef RIGHT
#define RIGHT int8_t
#endif
#ifndef STORED
#define STORED int8_t
#endif
/* What turns the sign of a byte where it is kept with the other. */
#ifndef FLIP
#define FLIP 0
#endif
/* Neighbours along the depth that stand side by side. */
#ifndef GROUP
#define GROUP 2
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#define COLUMNS (IG_LANES * VECTORS)
#define HEADER (8 * COLUMNS)

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t N = SIZE(N), K = SIZE(K), inner = SIZE(inner), k_step = SIZE(k_step), n_step = SIZE(n_step);
    const int64_t b_outer = SIZE(b_outer), b_inner = SIZE(b_inner), zero_step = SIZE(zero_step);
    const int64_t panels = (N + COLUMNS - 1) / COLUMNS;
    const int64_t panel_size = (K + GROUP - 1) / GROUP * (GROUP * COLUMNS) + HEADER;
    const RIGHT *const zero_point = BUFFER(zero_point);
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t panel = task % panels, batch = task / panels, col = panel * COLUMNS;
        const int64_t columns = N - col < COLUMNS ? N - col : COLUMNS;
        const RIGHT *const from =
            (const RIGHT *)BUFFER(b) + batch / inner * b_outer + batch % inner * b_inner + col * n_step;
        uint8_t *const to = (uint8_t *)BUFFER(packed) + task * panel_size;
        uint32_t column[COLUMNS] = {0}, zero[COLUMNS] = {0};
        __builtin_memset(to, 0, (unsigned long)panel_size);
        for (int64_t k = 0; k < K; k++) {
            uint8_t *const group = to + HEADER + k / GROUP * (GROUP * COLUMNS) + k % GROUP;
            for (int64_t c = 0; c < columns; c++) {
                const uint8_t stored = (uint8_t)from[k * k_step + c * n_step] ^ FLIP;
                group[c * GROUP] = stored;
                column[c] += (uint32_t)(STORED)stored;
            }
        }
        for (int64_t c = 0; c < columns; c++) {
            zero[c] = (uint32_t)(STORED)((uint8_t)zero_point[(col + c) * zero_step] ^ FLIP);
            column[c] -= (uint32_t)K * zero[c];
        }
        __builtin_memcpy(to, column, sizeof column);
        __builtin_memcpy(to + sizeof column, zero, sizeof zero);
    }
}
