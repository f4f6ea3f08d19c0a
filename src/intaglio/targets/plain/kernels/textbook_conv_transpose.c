/* Transposed convolution over AXES axes: each input times the kernel is added to the output. */
#include "axes.h"
#include "group.h"

#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif
#if HAS_BIAS
#define START bias[o]
#else
#define START 0
#endif
#if IS_GROUPED
#define PLANE (from * share + o % share)
#else
#define PLANE (c * outputs + o)
#endif

void IG_FUNCTION(const ELEMENT *x, const ELEMENT *w,
#if HAS_BIAS
                 const ELEMENT *bias,
#endif
                 ELEMENT *y, int64_t batch, int64_t channels, int64_t outputs,
#if IS_GROUPED
                 int64_t depth, int64_t share,
#endif
#include "axis_sizes.h"
)
{
    for (int64_t n = 0; n < batch; n++) {
        for (int64_t o = 0; o < outputs; o++) {
#define INDEX p
#define EXTENT out
#include "begin_axes.h"
            y[PLACE((n * outputs + o), p, out)] = START;
#include "end_axes.h"
#include "begin_group.h"
#define INDEX i
#define EXTENT in
#include "begin_axes.h"
#define EXTENT out
#include "begin_taps.h"
            y[PLACE((n * outputs + o), p, out)] += x[PLACE((n * channels + FROM), i, in)] * w[PLACE(PLANE, k, kernel)];
#include "end_axes.h"
#include "end_axes.h"
            }
        }
    }
}
