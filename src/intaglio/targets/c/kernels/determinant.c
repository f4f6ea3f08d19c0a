/* Determinants: the product of the pivots, of a copy of the matrix that is eliminated in scratch memory. A task is one
   matrix. */
#include "plain.h"
#include "elimination.h"

#if IS_DOUBLE
#define FRACTION frexp
#define SCALED ldexp
#else
#define FRACTION frexpf
#define SCALED ldexpf
#endif

typedef struct {
    void *x, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch, side; /* whether matrices are not square, and their rows */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const x = BUFFER(x);
    ELEMENT *const out = BUFFER(out), *const a = scratch;
    int64_t *const fault = BUFFER(fault);
    const int64_t side = SIZE(side);
    if (SIZE(mismatch)) {
        *fault = 1;
        return;
    }
    for (int64_t task = begin; task < end; task++) {
        ELEMENT total = 1; /* its exponent apart, so that only the result can be too large or too small */
        int64_t exponent = 0;
        memcpy(a, x + task * side * side, (size_t)(side * side) * sizeof *a);
        for (int64_t k = 0; k < side && total != 0; k++) {
            const int64_t best = IG_FUNCTION_pivot(a, side, k);
            for (int64_t j = k; j < side && best != k; j++) {
                const ELEMENT kept = a[k * side + j];
                a[k * side + j] = a[best * side + j];
                a[best * side + j] = kept;
            }
            const ELEMENT pivot = a[k * side + k];
            int power = 0;
            total = FRACTION(total * (best == k ? pivot : -pivot), &power);
            exponent += power;
            for (int64_t i = k + 1; i < side; i++)
                IG_FUNCTION_reduce(a + i * side, a + k * side, a[i * side + k] / pivot, k + 1, side);
        }
        exponent = exponent < -10000 ? -10000 : exponent > 10000 ? 10000 : exponent;
        out[task] = SCALED(total, (int)exponent);
    }
}
