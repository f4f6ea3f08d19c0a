/* An image sampled at the places of a grid: some pixels around each place and their weights, then all channels of their
   sum. Images have their channels last. A row is one place with all its channels; a task is a block of rows. */
#include "kernel.h"
#include "kind.h"
#include "library.h"
#include "mix_pixels.h"
#include "real.h"

/* The type of places in the grid; IS_DOUBLE tells whether it is double. */
#ifndef PLACE
#define PLACE float
#endif
/* The axes of the image. */
#ifndef AXES
#define AXES 2
#endif
#define NEAREST 0
#define LINEAR 1
#define CUBIC 2
#ifndef MODE
#define MODE LINEAR
#endif
/* What lies outside: black, the nearest pixel, or the image in a mirror. */
#define ZEROS 0
#define BORDER 1
#define REFLECTION 2
#ifndef PADDING
#define PADDING ZEROS
#endif
/* Whether the ends of the grid are the middles of the outermost pixels, and not their borders. */
#ifndef ALIGN_CORNERS
#define ALIGN_CORNERS 0
#endif
/* 2 to this power is how many pixels take part along an axis; and the type of their weights. */
#if MODE == NEAREST
#define DOUBLINGS 0
#define SHARE PLACE
#elif MODE == LINEAR
#define DOUBLINGS 1
#define SHARE PLACE
#else
#define DOUBLINGS 2
#define SHARE double
#endif
#define NEAR (1 << DOUBLINGS)
#define TAPS (1 << DOUBLINGS * AXES)

typedef struct {
    void *x, *grid, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch, channels, points, rows;
    int64_t extent[AXES];
    int64_t block;
} IG_FUNCTION_sizes;

/* A coordinate folded back into an image, where the padding wants that. */
static inline PLACE IG_FUNCTION_fold(PLACE at, int64_t extent)
{
#if PADDING == ZEROS
    (void)extent;
    return at;
#elif PADDING == BORDER
    const PLACE top = (PLACE)(extent - 1);
    return at < 0 ? 0 : at > top ? top : at;
#else
    const PLACE low = ALIGN_CORNERS ? 0 : (PLACE)-0.5, span = (PLACE)(extent - ALIGN_CORNERS);
    if (span <= 0)
        return low;
    PLACE rest = at - low;
    if (!(rest >= 0 && rest < 2 * span)) {
        rest = FMOD(rest, 2 * span);
        rest = rest < 0 ? rest + 2 * span : rest;
    }
    return low + (rest > span ? 2 * span - rest : rest);
#endif
}

#if MODE == CUBIC
/* The weight of cubic convolution with its free parameter at -0.75; that of a distance which is NaN is NaN. */
static inline double IG_FUNCTION_cubic(double t)
{
    const double a = -0.75;
    return t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : t >= 2 ? 0 : ((t - 5) * t + 8) * t * a - 4 * a;
}
#endif

/* The pixels along one axis that take part at a position of the grid, and their weights. */
static inline void IG_FUNCTION_neighbours(PLACE position, int64_t extent, int64_t *index, SHARE *share)
{
#if ALIGN_CORNERS
    PLACE at = (position + 1) / 2 * (PLACE)(extent - 1);
#else
    const volatile PLACE scaled = (position + 1) * (PLACE)extent; /* not fused: the rounding decides at ties */
    PLACE at = (scaled - 1) / 2;
#endif
#if MODE == NEAREST
    at = IG_FUNCTION_fold(at, extent);
    const PLACE base = RINT(at);
    share[0] = 1;
#elif MODE == LINEAR
    at = IG_FUNCTION_fold(at, extent);
    const PLACE base = FLOOR(at), rest = at - base;
    share[0] = 1 - rest;
    share[1] = rest;
#else
    const PLACE base = FLOOR(at) - 1, rest = at - (base + 1);
    for (int k = 0; k < 4; k++)
        share[k] = IG_FUNCTION_cubic(FABS(rest - (PLACE)(k - 1)));
#endif
    for (int k = 0; k < NEAR; k++) {
        const PLACE folded = IG_FUNCTION_fold(base + (PLACE)k, extent);
        const int is_inside = folded >= 0 && folded < (PLACE)extent;
#if PADDING == ZEROS
        index[k] = is_inside ? (int64_t)folded : 0;
        share[k] = is_inside || share[k] != share[k] ? share[k] : 0; /* black has no weight, unless that is NaN */
#else
        index[k] = is_inside ? (int64_t)folded : folded >= 0 ? extent - 1 : 0;
#endif
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const x = BUFFER(x);
    const PLACE *const grid = BUFFER(grid);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t channels = SIZE(channels), points = SIZE(points), rows = SIZE(rows), block = SIZE(block);
    const int64_t *const given = &SIZE(extent);
    int64_t volume = channels, extent[AXES], step[AXES]; /* copies stay in registers */
    int is_empty = 0;
    (void)scratch;
    IG_UNROLL for (int axis = AXES - 1; axis >= 0; axis--) {
        extent[axis] = given[axis];
        is_empty |= extent[axis] < 1;
        step[axis] = volume;
        volume *= extent[axis];
    }
    if (SIZE(mismatch) || is_empty) {
        *fault = 1;
        return;
    }
    int64_t n = points > 0 ? begin * block / points : 0, point = begin * block - n * points;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const ELEMENT *const image = x + n * volume;
        int64_t index[AXES][NEAR], offset[TAPS];
        SHARE share[AXES][NEAR];
        ELEMENT weight[TAPS];
        int count = 0;
        IG_UNROLL for (int axis = 0; axis < AXES; axis++) { /* the innermost axis comes first in the grid */
            IG_FUNCTION_neighbours(grid[row * AXES + AXES - 1 - axis], extent[axis], index[axis], share[axis]);
            for (int k = 0; k < NEAR; k++)
                index[axis][k] *= step[axis];
        }
        IG_UNROLL for (int tap = 0; tap < TAPS; tap++) {
            int64_t at = 0;
            SHARE product = 1;
            IG_UNROLL for (int axis = 0; axis < AXES; axis++) {
                const int k = tap >> DOUBLINGS * (AXES - 1 - axis) & (NEAR - 1);
                at += index[axis][k];
                product *= share[axis][k];
            }
            offset[count] = at;
            weight[count] = (ELEMENT)product;
            count += product != 0; /* one of weight 0 is written over */
        }
        if (count == TAPS)
            IG_FUNCTION_mix(out + row * channels, image, offset, weight, TAPS, channels);
        else
            IG_FUNCTION_mix(out + row * channels, image, offset, weight, count, channels);
        if (++point == points) {
            point = 0;
            n++;
        }
    }
}
