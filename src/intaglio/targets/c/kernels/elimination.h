/* Elimination with partial pivoting. */
#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef IS_DOUBLE
#define IS_DOUBLE 0
#endif
#if IS_DOUBLE
#define MAGNITUDE fabs
#else
#define MAGNITUDE fabsf
#endif

/* The row with the largest element in a column, from the diagonal down; the first NaN is larger than any number. */
static inline int64_t IG_FUNCTION_pivot(const ELEMENT *a, int64_t side, int64_t k)
{
    int64_t best = k;
    for (int64_t i = k + 1; i < side; i++) {
        const ELEMENT largest = MAGNITUDE(a[best * side + k]);
        best = largest != largest || MAGNITUDE(a[i * side + k]) <= largest ? best : i;
    }
    return best;
}

/* One row less a multiple of another, from an element on. */
static inline void IG_FUNCTION_reduce(ELEMENT *restrict row, const ELEMENT *restrict pivot, ELEMENT factor,
                                      int64_t from, int64_t side)
{
    for (int64_t j = from; j < side; j++)
        row[j] -= factor * pivot[j];
}
