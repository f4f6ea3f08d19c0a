/* Transforms 3x3 kernels for `winograd`, in panels: [panels][SIDE * SIDE][C][COLUMNS]. Behind them stands a number for
   each panel, which is not zero where a weight is too large for sums of its transform, or no number. A task is a panel.
   tasks: ceil(OC / COLUMNS) */
#include "kernel.h"

typedef struct {
    void *given, *packed;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t OC, C;
    int64_t first, output_step, channel_step, tap_step; /* where a weight stands */
} IG_FUNCTION_sizes;

/* The results of one axis that a tile gives: 2 or 4. */
#ifndef OUTPUT
#define OUTPUT 4
#endif
/* The largest weight that is transformed. */
#ifndef LARGEST
#define LARGEST 1e20f
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#include "vector.h"
#include "transpose.h"
#define SIDE (OUTPUT + 2)
#define COLUMNS (LANES * VECTORS)

IG_INLINE void IG_FUNCTION_transform(const VECTOR *i, VECTOR *o)
{
#if OUTPUT == 2
    const VECTOR a = (i[0] + i[2]) * 0.5f, b = i[1] * 0.5f;
    o[0] = i[0];
    o[1] = a + b;
    o[2] = a - b;
    o[3] = i[2];
#else
    const VECTOR a = (i[0] + i[2]) * (-1 / 6.0f), b = i[1] * (1 / 6.0f);
    const VECTOR c = i[0] * (1 / 24.0f) + i[2] * (1 / 6.0f), d = i[1] * (1 / 12.0f);
    o[0] = i[0] * 0.25f;
    o[1] = a - b;
    o[2] = a + b;
    o[3] = c + d;
    o[4] = c - d;
    o[5] = i[2];
#endif
}

/* The nine taps of LANES neighbouring outputs, of which `outputs` are there; taps stand forwards or backwards. */
static inline void IG_FUNCTION_gather(const ELEMENT *from, int64_t output_step, int64_t tap_step, int64_t outputs,
                                      VECTOR *tap)
{
#if LANES == 8
    if (outputs >= LANES) {
        ELEMENT at[9 * LANES];
        const ELEMENT *const low = tap_step < 0 ? from + 8 * tap_step : from;
        IG_FUNCTION_transpose(low, output_step, at, LANES);
        for (int l = 0; l < LANES; l++)
            at[8 * LANES + l] = low[l * output_step + 8];
        IG_UNROLL for (int k = 0; k < 9; k++)
            tap[k] = *(const VECTOR_AT *)(at + (tap_step < 0 ? 8 - k : k) * LANES);
        return;
    }
#endif
    for (int k = 0; k < 9; k++)
        for (int l = 0; l < LANES; l++)
            tap[k][l] = l < outputs ? from[l * output_step + k * tap_step] : 0;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t OC = SIZE(OC), C = SIZE(C), output_step = SIZE(output_step);
    const int64_t panels = (OC + COLUMNS - 1) / COLUMNS, position = C * COLUMNS;
    (void)scratch;
    for (int64_t panel = begin; panel < end; panel++) {
        ELEMENT *const to = (ELEMENT *)BUFFER(packed) + panel * (SIDE * SIDE) * position;
        __typeof__((VECTOR){0} < (VECTOR){0}) is_small = (VECTOR){0} == (VECTOR){0};
        for (int64_t c = 0; c < C; c++)
            for (int v = 0; v < VECTORS; v++) {
                const int64_t output = panel * COLUMNS + v * LANES;
                VECTOR tap[9], lines[3][SIDE];
                IG_FUNCTION_gather((const ELEMENT *)BUFFER(given) + SIZE(first) + output * output_step +
                                       c * SIZE(channel_step),
                                   output_step, SIZE(tap_step), OC - output, tap);
                for (int k = 0; k < 9; k++)
                    is_small &= (tap[k] <= LARGEST - (VECTOR){0}) & (tap[k] >= -LARGEST - (VECTOR){0});
                IG_UNROLL for (int j = 0; j < 3; j++) {
                    const VECTOR in[3] = {tap[j], tap[3 + j], tap[6 + j]};
                    IG_FUNCTION_transform(in, lines[j]);
                }
                IG_UNROLL for (int i = 0; i < SIDE; i++) {
                    const VECTOR in[3] = {lines[0][i], lines[1][i], lines[2][i]};
                    VECTOR out[SIDE];
                    IG_FUNCTION_transform(in, out);
                    IG_UNROLL for (int j = 0; j < SIDE; j++)
                        *(VECTOR_AT *)(to + (i * SIDE + j) * position + c * COLUMNS + v * LANES) = out[j];
                }
            }
        int is_large = 0;
        for (int l = 0; l < LANES; l++)
            is_large |= !is_small[l];
        ((ELEMENT *)BUFFER(packed))[panels * (SIDE * SIDE) * position + panel] = (ELEMENT)is_large;
    }
}
