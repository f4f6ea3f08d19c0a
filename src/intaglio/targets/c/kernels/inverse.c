/* Inverses: rows of the matrix and of the identity are reduced together, in double precision. A task is one matrix; one
   that has no inverse is a fault. */
#include "plain.h"
#define ELEMENT double
#define IS_DOUBLE 1
#include "elimination.h"

/* The elements in memory. */
#ifndef NUMBER
#define NUMBER float
#endif

typedef struct {
    void *x, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch, side; /* whether matrices are not square, and their rows */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const NUMBER *const x = BUFFER(x);
    NUMBER *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t side = SIZE(side);
    double *const a = scratch, *const b = a + side * side;
    if (SIZE(mismatch)) {
        *fault = 1;
        return;
    }
    for (int64_t task = begin; task < end; task++) {
        for (int64_t i = 0; i < side * side; i++) {
            a[i] = (double)x[task * side * side + i];
            b[i] = i / side == i % side;
        }
        for (int64_t k = 0; k < side; k++) {
            const int64_t best = IG_FUNCTION_pivot(a, side, k);
            const double pivot = a[best * side + k];
            if (pivot == 0) {
                *fault = 1;
                return;
            }
            for (int64_t j = 0; j < side; j++) {
                const double left = a[best * side + j], right = b[best * side + j];
                a[best * side + j] = a[k * side + j];
                b[best * side + j] = b[k * side + j];
                a[k * side + j] = left / pivot;
                b[k * side + j] = right / pivot;
            }
            for (int64_t i = 0; i < side; i++) {
                const double factor = a[i * side + k];
                if (i == k || factor == 0)
                    continue;
                IG_FUNCTION_reduce(a + i * side, a + k * side, factor, k, side);
                IG_FUNCTION_reduce(b + i * side, b + k * side, factor, 0, side);
            }
        }
        for (int64_t i = 0; i < side * side; i++)
            out[task * side * side + i] = (NUMBER)b[i];
    }
}
