/* Sizes of the result along resized axes and the numbers of their tables, from scales or sizes that only the run tells.
   There is one task. */
#include "plain.h"
#include "read.h"
#include "resize.h"

#ifndef AXES
#define AXES 2
#endif
/* What is given: regions that are cut out, scales, sizes; and how their elements are read. */
#ifndef HAS_ROI
#define HAS_ROI 0
#endif
#ifndef ROI
#define ROI float
#endif
#ifndef READ_ROI
#define READ_ROI *
#endif
#ifndef HAS_SCALES
#define HAS_SCALES 1
#endif
#ifndef SCALE
#define SCALE float
#endif
#ifndef READ_SCALE
#define READ_SCALE *
#endif
#ifndef HAS_SIZES
#define HAS_SIZES 0
#endif
#ifndef EXTENT
#define EXTENT int64_t
#endif
/* Whether all axes have one scale: that of the axis where it is least or greatest. */
#define STRETCH 0
#define NOT_LARGER 1
#define NOT_SMALLER 2
#ifndef POLICY
#define POLICY STRETCH
#endif
#ifndef CUBIC
#define CUBIC -0.75f
#endif
#ifndef IS_CUBIC
#define IS_CUBIC 0
#endif
#ifndef ANTIALIAS
#define ANTIALIAS 0
#endif
#if POLICY == NOT_LARGER
#define IS_FURTHER(a, b) (a < b)
#else
#define IS_FURTHER(a, b) (a > b)
#endif

typedef struct {
#if HAS_ROI
    void *roi;
#endif
#if HAS_SCALES
    void *scales;
#endif
#if HAS_SIZES
    void *sizes;
#endif
    void *numbers;
    void *wanted; /* the sizes, and behind them from how many elements each is mixed */
    void *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t given[AXES];
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
#if HAS_ROI
    const ROI *const roi = BUFFER(roi);
#endif
#if HAS_SCALES
    const SCALE *const scales = BUFFER(scales);
#elif HAS_SIZES
    const EXTENT *const sizes = BUFFER(sizes);
#endif
    IG_FUNCTION_numbers *const numbers = BUFFER(numbers);
    int64_t *const wanted = BUFFER(wanted);
    int64_t *const fault = BUFFER(fault);
    const int64_t *const given = &SIZE(given);
    (void)begin, (void)end, (void)scratch;
#if !HAS_SCALES && POLICY != STRETCH
    double common = 0;
    for (int64_t i = 0; i < AXES; i++) {
        const double ratio = given[i] > 0 ? (double)(int64_t)sizes[i] / (double)given[i] : 0;
        common = i == 0 || IS_FURTHER(ratio, common) ? ratio : common;
    }
#endif
    for (int64_t i = 0; i < AXES; i++) {
        IG_FUNCTION_numbers *const to = numbers + i;
#if HAS_SCALES
        const float scale = (float)READ_SCALE(scales + i);
        const volatile float length = (float)given[i] * scale;
        const double resized = floor((double)length), factor = (double)scale;
        const int is_right = scale > 0 && resized >= 0 && resized < 0x1p62;
#elif POLICY != STRETCH
        const float scale = (float)common;
        const double resized = floor(common * (double)given[i] + 0.5), factor = (double)scale;
        const int is_right = resized >= 0 && resized < 0x1p62;
#else
        const float scale = 0;
        const int64_t resized = (int64_t)sizes[i];
        const double factor = given[i] > 0 ? (double)resized / (double)given[i] : 1;
        const int is_right = resized >= 0;
#endif
        if (!is_right) {
            *fault = 1;
            return;
        }
        to->scale = scale;
        to->start = 0;
        to->end = 1;
#if HAS_ROI
        to->start = (float)READ_ROI(roi + i);
        to->end = (float)READ_ROI(roi + AXES + i);
#endif
        to->cubic = CUBIC;
        to->stretch = ANTIALIAS && factor < 1 ? 1 / factor : 1;
        to->is_scaled = HAS_SCALES;
        const double reach = (IS_CUBIC ? 2 : 1) * to->stretch;
        wanted[i] = (int64_t)resized;
        wanted[AXES + i] = reach < 0x1p40 ? 2 * (int64_t)ceil(reach) : 2;
    }
}
