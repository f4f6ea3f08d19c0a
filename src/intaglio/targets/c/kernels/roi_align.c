/* Regions of interest as bins: the mean or the maximum of points that are interpolated in each bin. Images have their
   channels last. A row is one row of bins of a region, with all channels; a task is a block of rows. */
#include "kernel.h"
#include "kind.h"
#include "library.h"
#include "place.h"

/* Whether bins are means of their points, and not maxima. */
#ifndef IS_AVERAGE
#define IS_AVERAGE 1
#endif
/* Whether places count from the middles of pixels. */
#ifndef IS_HALF_PIXEL
#define IS_HALF_PIXEL 1
#endif
/* What a place in the image is to one in the given regions. */
#ifndef SCALE
#define SCALE 1.0
#endif
/* How many points a bin has along an axis; 0 where its size decides. */
#ifndef RATIO
#define RATIO 0
#endif
/* The most points that a bin may have. */
#ifndef LIMIT
#define LIMIT 1048576
#endif
#if IS_HALF_PIXEL
#define OFFSET 0.5
#define AT_LEAST_ONE(size) (size)
#else
#define OFFSET 0
#define AT_LEAST_ONE(size) (size > 1 ? size : 1)
#endif
#if IS_AVERAGE
#define START 0
#define TAKEN(total, pixel) (total + pixel)
#else
#define START -INFINITY
#define TAKEN(total, pixel) OF_KIND(ig_max_)(total, pixel)
#endif

typedef struct {
    void *x, *rois, *batch, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch, images, channels, height, width; /* of the image */
    int64_t lines, columns;                            /* of bins */
    int64_t rows, block;
} IG_FUNCTION_sizes;

/* How many points a bin of some size has along one axis: 0 for a region turned inside out, -1 for far too many. */
static inline int64_t IG_FUNCTION_count(double size)
{
    const double wanted = RATIO > 0 ? RATIO : ceil(size);
    return wanted > LIMIT ? -1 : wanted > 0 ? (int64_t)wanted : 0;
}

/* The two neighbours of a point along one axis and their weights; none beyond one pixel outside. */
static inline void IG_FUNCTION_line(double place, int64_t extent, int64_t *index, double *share)
{
    const double top = (double)(extent - 1), inside = place < 0 ? 0 : place > top ? top : place;
    const double is_near = place >= -1 && place <= (double)extent;
    index[0] = (int64_t)inside;
    index[1] = index[0] + 1 < extent ? index[0] + 1 : index[0];
    share[0] = (1 - (inside - (double)index[0])) * is_near;
    share[1] = (inside - (double)index[0]) * is_near;
}

/* The place of a point, without fused operations: its rounding decides at the border of the image. */
static inline double IG_FUNCTION_point(double first, double step, int64_t bin, int64_t point, int64_t count)
{
    const volatile double start = (double)bin * step, within = ((double)point + 0.5) * step;
    return first + start + within / (double)count;
}

/* Takes four weighted pixels into what there is. */
static inline void IG_FUNCTION_take(ELEMENT *out, const ELEMENT *image, const int64_t *offset, const ELEMENT *weight,
                                    int64_t channels)
{
    int64_t c = 0;
    for (; c + IG_LANES <= channels; c += IG_LANES) {
        VECTOR total = LOAD(out + c);
        for (int t = 0; t < 4; t++)
            total = TAKEN(total, SET(weight[t]) * LOAD(image + offset[t] + c));
        STORE(out + c, total);
    }
    if (c < channels) {
        VECTOR total = LOAD_N(out + c, channels - c);
        for (int t = 0; t < 4; t++)
            total = TAKEN(total, SET(weight[t]) * LOAD_N(image + offset[t] + c, channels - c));
        STORE_N(out + c, total, channels - c);
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const x = BUFFER(x);
    const ELEMENT *const rois = BUFFER(rois);
    const int64_t *const batch = BUFFER(batch);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t images = SIZE(images), channels = SIZE(channels), height = SIZE(height), width = SIZE(width);
    const int64_t lines = SIZE(lines), columns = SIZE(columns), rows = SIZE(rows), block = SIZE(block);
    (void)scratch;
    if (SIZE(mismatch)) {
        *fault = 1;
        return;
    }
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const int64_t region = row / lines, line = row % lines, place = IG_FUNCTION_place(batch[region], images);
        double corner[4], step[2];
        int64_t points[2];
        int is_finite = 1;
        for (int k = 0; k < 4; k++) {
            const volatile ELEMENT scaled = rois[region * 4 + k] * (ELEMENT)SCALE;
            corner[k] = (double)(scaled - (ELEMENT)OFFSET);
        }
        for (int axis = 0; axis < 2; axis++) {
            const double given = corner[3 - axis] - corner[1 - axis];
            is_finite &= given - given == 0;
            step[axis] = AT_LEAST_ONE(given) / (double)(axis == 0 ? lines : columns);
            points[axis] = IG_FUNCTION_count(is_finite ? step[axis] : 0);
        }
        const int is_fitting = points[0] >= 0 && points[1] >= 0 && points[0] * points[1] <= LIMIT;
        if (place < 0 || !is_finite || !is_fitting || height < 1 || width < 1) {
            *fault = 1;
            continue;
        }
        const ELEMENT *const image = x + place * height * width * channels;
        for (int64_t column = 0; column < columns; column++) {
            ELEMENT *const to = out + (row * columns + column) * channels;
            const int is_empty = points[0] * points[1] == 0;
            for (int64_t c = 0; c < channels; c++)
                to[c] = is_empty ? 0 : (ELEMENT)START;
            if (is_empty)
                continue;
            for (int64_t i = 0; i < points[0] * points[1]; i++) {
                int64_t index[2][2], offset[4];
                double share[2][2];
                ELEMENT weight[4];
                const double down = IG_FUNCTION_point(corner[1], step[0], line, i / points[1], points[0]);
                const double along = IG_FUNCTION_point(corner[0], step[1], column, i % points[1], points[1]);
                IG_FUNCTION_line(down, height, index[0], share[0]);
                IG_FUNCTION_line(along, width, index[1], share[1]);
                for (int t = 0; t < 4; t++) {
                    offset[t] = (index[0][t / 2] * width + index[1][t % 2]) * channels;
                    weight[t] = (ELEMENT)(share[0][t / 2] * share[1][t % 2]);
                }
                IG_FUNCTION_take(to, image, offset, weight, channels);
            }
#if IS_AVERAGE
            for (int64_t c = 0; c < channels; c++)
                to[c] /= (ELEMENT)(points[0] * points[1]);
#endif
        }
    }
}
