/* The mean of the elements under each window. */
#include "axes.h"

#ifndef ELEMENT
#define ELEMENT float
#endif
/* Whether pads count as zeros. */
#ifndef COUNTS_PADS
#define COUNTS_PADS 0
#endif

void IG_FUNCTION(const ELEMENT *x, ELEMENT *y, int64_t planes,
#include "axis_sizes.h"
#if COUNTS_PADS
#include "axis_ends.h"
#endif
)
{
    for (int64_t n = 0; n < planes; n++) {
#define INDEX i
#define EXTENT out
#include "begin_axes.h"
        ELEMENT sum = 0;
        int64_t count = 0;
#if COUNTS_PADS
#include "begin_padded_taps.h"
        sum += x[PLACE(n, p, in)];
#else
#define EXTENT in
#include "begin_taps.h"
        sum += x[PLACE(n, p, in)];
        count++;
#endif
#include "end_axes.h"
        y[PLACE(n, i, out)] = sum / (ELEMENT)count;
#include "end_axes.h"
    }
}
