/* A tile of sums in registers: up to ROWS rows by one panel of VECTORS vectors. */
#include "vector.h"
#ifndef ROWS
#define ROWS 6
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
/* Row r at depth k of the left operand is a[r * a_step + k], or a[r + k * a_step] where rows are adjacent. */
#ifndef ROWS_ADJACENT
#define ROWS_ADJACENT 0
#endif
/* Whether rows of the weights are b_step elements apart, and not one panel. */
#ifndef WEIGHTS_STRIDE
#define WEIGHTS_STRIDE 0
#endif
#define COLUMNS (LANES * VECTORS)
#if ROWS_ADJACENT
#define A_ROW 1
#define A_DEPTH a_step
#else
#define A_ROW a_step
#define A_DEPTH 1
#endif
#if WEIGHTS_STRIDE
#define B_STEP b_step
#else
#define B_STEP COLUMNS
#endif
/* A tile of many rows and one vector is read through three pointers and two steps: the compiler would make a pointer
   for each row, and there are more rows than registers. */
#if ROWS > 6 && VECTORS == 1 && !ROWS_ADJACENT
#define A_VALUE                                                                                                        \
    *(const ELEMENT *)((r < 5 ? near : r < 10 ? middle : far) + (r % 5 == 3 ? three_rows : r % 5 * row_bytes))
#else
#define A_VALUE x[r * A_ROW + k * A_DEPTH]
#endif
/* How many rows of weights ahead are fetched: without it, loads from the second cache stall a tenth of the time. */
#define AHEAD 16
/* The depth whose weights two tiles read one after the other. */
#define CHUNK (16384 / (COLUMNS * (int)sizeof(ELEMENT)) > 32 ? 16384 / (COLUMNS * (int)sizeof(ELEMENT)) : 32)

/* sum[r][c] (+)= over taps t and depth k: row r of the left operand from tap t's place x weights from tap t's place.
   `tap` holds pairs of offsets into a and b. */
IG_INLINE void IG_FUNCTION_sum(const int rows, const ELEMENT *a, int64_t a_step, const ELEMENT *b, int64_t b_step,
                               const int64_t *tap, int64_t taps, int64_t depth, ELEMENT *sum, int is_first)
{
    VECTOR c[ROWS][VECTORS];
#if ROWS > 6 && VECTORS == 1 && !ROWS_ADJACENT
    const int64_t row_bytes = a_step * (int64_t)sizeof(ELEMENT), three_rows = 3 * row_bytes;
#endif
    IG_UNROLL for (int r = 0; r < rows; r++) {
        IG_UNROLL for (int v = 0; v < VECTORS; v++)
            c[r][v] = (VECTOR){0};
    }
    if (!is_first) {
        IG_UNROLL for (int r = 0; r < rows; r++) {
            IG_UNROLL for (int v = 0; v < VECTORS; v++)
                c[r][v] = *(const VECTOR_AT *)(sum + r * COLUMNS + v * LANES);
        }
    }
    for (int64_t t = 0; t < taps; t++) {
        const ELEMENT *x = a + tap[2 * t], *w = b + tap[2 * t + 1];
#if ROWS > 6 && VECTORS == 1 && !ROWS_ADJACENT
        const char *near = (const char *)x, *middle = near + 5 * row_bytes, *far = near + 10 * row_bytes;
#endif
        for (int64_t k = 0; k < depth; k++, w += B_STEP) {
            VECTOR weight[VECTORS];
            IG_UNROLL for (int v = 0; v < VECTORS; v++) {
                weight[v] = *(const VECTOR_AT *)(w + v * LANES);
                __builtin_prefetch(w + AHEAD * B_STEP + v * LANES);
            }
            IG_UNROLL for (int r = 0; r < rows; r++) {
                VECTOR value = A_VALUE - (VECTOR){0};
                IG_UNROLL for (int v = 0; v < VECTORS; v++)
                    c[r][v] += value * weight[v];
            }
#if ROWS > 6 && VECTORS == 1 && !ROWS_ADJACENT
            near += sizeof(ELEMENT), middle += sizeof(ELEMENT), far += sizeof(ELEMENT);
            __asm__("" : "+r"(near), "+r"(middle), "+r"(far));
#endif
        }
    }
    (void)b_step;
    IG_UNROLL for (int r = 0; r < rows; r++) {
        IG_UNROLL for (int v = 0; v < VECTORS; v++)
            *(VECTOR_AT *)(sum + r * COLUMNS + v * LANES) = c[r][v];
    }
}

static void IG_FUNCTION_two_tiles(int64_t rows, const ELEMENT *a, int64_t a_step, const ELEMENT *b, int64_t b_step,
                                  const int64_t *tap, int64_t taps, int64_t depth, ELEMENT *sum, int is_first);

/* Row counts that have code of their own; others are two tiles, which costs no time from four rows on. */
static __attribute__((noinline)) void IG_FUNCTION_tile(int64_t rows, const ELEMENT *a, int64_t a_step, const ELEMENT *b,
                                                       int64_t b_step, const int64_t *tap, int64_t taps, int64_t depth,
                                                       ELEMENT *sum, int is_first)
{
    switch (rows) {
    case 1: IG_FUNCTION_sum(1, a, a_step, b, b_step, tap, taps, depth, sum, is_first); break;
    case 2: IG_FUNCTION_sum(2, a, a_step, b, b_step, tap, taps, depth, sum, is_first); break;
    case 3: IG_FUNCTION_sum(3, a, a_step, b, b_step, tap, taps, depth, sum, is_first); break;
    case 4: IG_FUNCTION_sum(4, a, a_step, b, b_step, tap, taps, depth, sum, is_first); break;
    case 5: IG_FUNCTION_sum(5, a, a_step, b, b_step, tap, taps, depth, sum, is_first); break;
    case 6: IG_FUNCTION_sum(6, a, a_step, b, b_step, tap, taps, depth, sum, is_first); break;
#if ROWS > 6
    case 7: IG_FUNCTION_sum(7, a, a_step, b, b_step, tap, taps, depth, sum, is_first); break;
    case 8: IG_FUNCTION_sum(8, a, a_step, b, b_step, tap, taps, depth, sum, is_first); break;
    case ROWS: IG_FUNCTION_sum(ROWS, a, a_step, b, b_step, tap, taps, depth, sum, is_first); break;
#endif
    default: IG_FUNCTION_two_tiles(rows, a, a_step, b, b_step, tap, taps, depth, sum, is_first);
    }
}

/* The same by two tiles, in parts of the depth whose weights stay in the first cache. */
static void IG_FUNCTION_two_tiles(int64_t rows, const ELEMENT *a, int64_t a_step, const ELEMENT *b, int64_t b_step,
                                  const int64_t *tap, int64_t taps, int64_t depth, ELEMENT *sum, int is_first)
{
    const int64_t half = rows / 2;
    for (int64_t t = 0; t < (taps ? taps : 1); t++)
        for (int64_t k = 0; k == 0 || k < depth; k += CHUNK) {
            const int64_t part = taps == 0 ? 0 : depth - k < CHUNK ? depth - k : CHUNK;
            const int64_t place[2] = {taps ? tap[2 * t] + k * A_DEPTH : 0, taps ? tap[2 * t + 1] + k * B_STEP : 0};
            const int is_start = is_first && t == 0 && k == 0;
            IG_FUNCTION_tile(half, a, a_step, b, b_step, place, 1, part, sum, is_start);
            IG_FUNCTION_tile(rows - half, a + half * A_ROW, a_step, b, b_step, place, 1, part, sum + half * COLUMNS,
                             is_start);
        }
}

/* How many of the rows that are left the next tile takes. Fewer than four would wait for their own sums. */
static inline int64_t IG_FUNCTION_next(int64_t left)
{
    return left <= ROWS ? left : left >= ROWS + 4 ? ROWS : (left + 1) / 2;
}
