#define UNROLL 4

/* sum[c] = over k: value k of a single row x row k of the weights, with enough independent sums to keep the multipliers
   busy. */
static __attribute__((noinline)) void IG_FUNCTION_row(const ELEMENT *a, int64_t a_step, const ELEMENT *b,
                                                      int64_t b_step, int64_t depth, ELEMENT *sum)
{
    VECTOR c[UNROLL][VECTORS];
    IG_UNROLL for (int u = 0; u < UNROLL; u++) {
        IG_UNROLL for (int v = 0; v < VECTORS; v++)
            c[u][v] = (VECTOR){0};
    }
    int64_t k = 0;
    for (; k + UNROLL <= depth; k += UNROLL) {
        IG_UNROLL for (int u = 0; u < UNROLL; u++, b += B_STEP) {
            IG_UNROLL for (int v = 0; v < VECTORS; v++)
                c[u][v] += (a[(k + u) * A_DEPTH] - (VECTOR){0}) * *(const VECTOR_AT *)(b + v * LANES);
        }
    }
    for (; k < depth; k++, b += B_STEP) {
        IG_UNROLL for (int v = 0; v < VECTORS; v++)
            c[0][v] += (a[k * A_DEPTH] - (VECTOR){0}) * *(const VECTOR_AT *)(b + v * LANES);
    }
    (void)a_step, (void)b_step;
    IG_UNROLL for (int v = 0; v < VECTORS; v++)
        *(VECTOR_AT *)(sum + v * LANES) = (c[0][v] + c[1][v]) + (c[2][v] + c[3][v]);
}
