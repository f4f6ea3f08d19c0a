/* Convolution over AXES axes: the sum of kernel times input, where both are. */
#include "axes.h"
#include "group.h"

/* The types of elements, and of their sum. */
#ifndef X
#define X float
#endif
#ifndef W
#define W float
#endif
#ifndef TOTAL
#define TOTAL float
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
/* Whether inputs have a zero point; how weights have: 1 in all, 2 one for each output. */
#ifndef X_ZERO
#define X_ZERO 0
#endif
#ifndef W_ZERO
#define W_ZERO 0
#endif
#if HAS_BIAS
#define START bias[o]
#else
#define START 0
#endif
#define GIVEN x[PLACE((n * channels + FROM), p, in)]
#define WEIGHT w[PLACE((o * DEPTH + c), k, kernel)]
#if X_ZERO
#define LEFT (GIVEN - x_zero[0])
#else
#define LEFT GIVEN
#endif
#if W_ZERO == 1
#define RIGHT (WEIGHT - w_zero[0])
#elif W_ZERO == 2
#define RIGHT (WEIGHT - w_zero[o])
#else
#define RIGHT WEIGHT
#endif

void IG_FUNCTION(const X *x, const W *w,
#if HAS_BIAS
                 const TOTAL *bias,
#endif
#if X_ZERO
                 const X *x_zero,
#endif
#if W_ZERO
                 const W *w_zero,
#endif
                 TOTAL *y, int64_t batch, int64_t channels, int64_t outputs,
#if IS_GROUPED
                 int64_t depth, int64_t share,
#endif
#include "axis_sizes.h"
)
{
    for (int64_t n = 0; n < batch; n++) {
        for (int64_t o = 0; o < outputs; o++) {
#define INDEX i
#define EXTENT out
#include "begin_axes.h"
            TOTAL sum = START;
#include "begin_group.h"
#define EXTENT in
#include "begin_taps.h"
            sum += LEFT * RIGHT;
#include "end_axes.h"
            }
            y[PLACE((n * outputs + o), i, out)] = sum;
#include "end_axes.h"
        }
    }
}
