/* The greatest element under each window. */
#include "axes.h"

#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef LOWEST
#define LOWEST -INFINITY
#endif
/* Whether there is NaN, which is greater than any number. */
#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif
#if IS_FLOAT
#define IS_GREATER value > best || (value != value && best == best)
#else
#define IS_GREATER value > best
#endif

void IG_FUNCTION(const ELEMENT *x, ELEMENT *y, int64_t planes,
#include "axis_sizes.h"
)
{
    for (int64_t n = 0; n < planes; n++) {
#define INDEX i
#define EXTENT out
#include "begin_axes.h"
        ELEMENT best = LOWEST;
#define EXTENT in
#include "begin_taps.h"
        const ELEMENT value = x[PLACE(n, p, in)];
        if (IS_GREATER)
            best = value;
#include "end_axes.h"
        y[PLACE(n, i, out)] = best;
#include "end_axes.h"
    }
}
