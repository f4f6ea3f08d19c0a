/* The products of the state with recurrence weights of GATES gates. Included once for each number of gates. */
#define SUM JOIN(IG_FUNCTION_sum, GATES)
#define SINGLE JOIN(IG_FUNCTION_single, GATES)
#define PRODUCTS JOIN(IG_FUNCTION_products, GATES)
#define UNROLL (8 / GATES)

/* sum[r][g] = over k: state k of row r x weights of GATES gates at depth k. */
IG_INLINE void SUM(const int rows, const ELEMENT *h, int64_t h_step, const ELEMENT *w, int64_t depth, ELEMENT *sum)
{
    VECTOR c[TILE][GATES];
    IG_UNROLL for (int r = 0; r < rows; r++) {
        IG_UNROLL for (int g = 0; g < GATES; g++)
            c[r][g] = (VECTOR){0};
    }
    for (int64_t k = 0; k < depth; k++, w += GATES * IG_LANES) {
        VECTOR weight[GATES];
        IG_UNROLL for (int g = 0; g < GATES; g++)
            weight[g] = LOAD(w + g * IG_LANES);
        IG_UNROLL for (int r = 0; r < rows; r++) {
            const VECTOR value = SET(h[r * h_step + k]);
            IG_UNROLL for (int g = 0; g < GATES; g++)
                c[r][g] += value * weight[g];
        }
    }
    IG_UNROLL for (int r = 0; r < rows; r++) {
        IG_UNROLL for (int g = 0; g < GATES; g++)
            STORE(sum + (r * GATES + g) * IG_LANES, c[r][g]);
    }
}

/* The same for a batch of one, with enough independent sums to keep the multipliers busy. */
IG_INLINE void SINGLE(const ELEMENT *h, const ELEMENT *w, int64_t depth, ELEMENT *sum)
{
    VECTOR c[UNROLL][GATES];
    IG_UNROLL for (int u = 0; u < UNROLL; u++) {
        IG_UNROLL for (int g = 0; g < GATES; g++)
            c[u][g] = (VECTOR){0};
    }
    int64_t k = 0;
    for (; k + UNROLL <= depth; k += UNROLL) {
        IG_UNROLL for (int u = 0; u < UNROLL; u++, w += GATES * IG_LANES) {
            const VECTOR value = SET(h[k + u]);
            IG_UNROLL for (int g = 0; g < GATES; g++)
                c[u][g] += value * LOAD(w + g * IG_LANES);
        }
    }
    for (; k < depth; k++, w += GATES * IG_LANES) {
        IG_UNROLL for (int g = 0; g < GATES; g++)
            c[0][g] += SET(h[k]) * LOAD(w + g * IG_LANES);
    }
    IG_UNROLL for (int g = 0; g < GATES; g++) {
        VECTOR total = c[0][g];
        IG_UNROLL for (int u = 1; u < UNROLL; u++)
            total += c[u][g];
        STORE(sum + g * IG_LANES, total);
    }
}

/* No rows stand for a batch of one: the order of a sum follows from sizes, never from the split into tasks. */
static __attribute__((noinline)) void PRODUCTS(int64_t rows, const ELEMENT *h, int64_t h_step, const ELEMENT *w,
                                               int64_t depth, ELEMENT *sum)
{
    switch (rows) {
    case 1: SUM(1, h, h_step, w, depth, sum); break;
    case 2: SUM(2, h, h_step, w, depth, sum); break;
    case 3: SUM(3, h, h_step, w, depth, sum); break;
#if TILE > 3
    case 4: SUM(4, h, h_step, w, depth, sum); break;
#endif
    default: SINGLE(h, w, depth, sum);
    }
}

#undef SUM
#undef SINGLE
#undef PRODUCTS
#undef UNROLL
