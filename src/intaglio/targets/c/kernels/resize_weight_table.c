/* The `taps` elements of the input that each place of a resized axis is mixed from, and their weights; the first is -1
   where there is none. A task is a block of places. */
#include "plain.h"
#include "resize.h"
#define NUMBER float
#include "resize_place.h"

#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef IS_CUBIC
#define IS_CUBIC 0
#endif
/* Whether elements outside have no weight. */
#ifndef EXCLUDES
#define EXCLUDES 0
#endif

typedef struct {
    void *numbers, *index, *weights, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t extent, resized, taps;
} IG_FUNCTION_sizes;

static inline double IG_FUNCTION_weight(double t, double a)
{
#if IS_CUBIC
    return t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
#else
    (void)a;
    return t < 1 ? 1 - t : 0;
#endif
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const IG_FUNCTION_numbers *const numbers = BUFFER(numbers);
    int32_t *const index = BUFFER(index);
    ELEMENT *const weights = BUFFER(weights);
    int64_t *const fault = BUFFER(fault);
    const int64_t extent = SIZE(extent), resized = SIZE(resized), taps = SIZE(taps);
    (void)scratch;
    if (extent < 1) {
        *fault = 1;
        return;
    }
    const float scale = numbers->scale > 0 ? (float)numbers->scale : (float)((double)resized / (double)extent);
    const float length = numbers->is_scaled > 0 ? (float)extent * scale : (float)resized;
    const double stretch = numbers->stretch, cubic = numbers->cubic, last = (double)(extent - 1);
    for (int64_t i = begin * BLOCK; i < end * BLOCK && i < resized; i++) {
        const float place = IG_FUNCTION_place((float)i, (float)extent, (float)resized, length, scale,
                                              (float)numbers->start, (float)numbers->end);
        const double first = floor((double)place) - (double)(taps / 2 - 1);
        double total = 0;
        if (CROPS && (place < 0 || place > last)) {
            index[i * taps] = -1;
            continue;
        }
        for (int64_t k = 0; k < taps; k++) {
            const double at = first + (double)k;
            const int is_outside = at < 0 || at > last;
            const double weight =
                EXCLUDES && is_outside ? 0 : IG_FUNCTION_weight(fabs(at - (double)place) / stretch, cubic);
            total += weight;
            index[i * taps + k] = (int32_t)(at < 0 ? 0 : at > last ? last : at);
            weights[i * taps + k] = (ELEMENT)weight;
        }
        for (int64_t k = 0; k < taps; k++)
            weights[i * taps + k] = (ELEMENT)((double)weights[i * taps + k] / (total == 0 ? 1 : total));
    }
}
