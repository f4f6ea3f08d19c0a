/* Regions of interest as bins: the maximum of the whole pixels of each bin. Images have their channels last. A row is
   one row of bins of a region, with all channels; a task is a block of rows. */
#include "kernel.h"
#include "kind.h"
#include "library.h"
#include "place.h"
#include "real.h"

/* What a place in the image is to one in the given regions. */
#ifndef SCALE
#define SCALE 1.0
#endif
/* Corners must be nearer than this. */
#ifndef LIMIT
#define LIMIT 1048576.0
#endif

typedef struct {
    void *x, *rois, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch, images, channels, height, width; /* of the image */
    int64_t lines, columns;                            /* of bins */
    int64_t rows, block;
} IG_FUNCTION_sizes;

/* The pixels of a bin along one axis, cut to the image. */
static inline void IG_FUNCTION_bin(int64_t first, int64_t last, int64_t bin, int64_t bins, int64_t extent,
                                   int64_t *range)
{
    const float width = (float)(last - first + 1 > 1 ? last - first + 1 : 1) / (float)bins;
    const int64_t from = (int64_t)floorf((float)bin * width) + first;
    const int64_t to = (int64_t)ceilf((float)(bin + 1) * width) + first;
    range[0] = from < 0 ? 0 : from < extent ? from : extent;
    range[1] = to < 0 ? 0 : to < extent ? to : extent;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const x = BUFFER(x);
    const ELEMENT *const rois = BUFFER(rois);
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
        const int64_t region = row / lines, line = row % lines;
        int64_t corner[4], range[2][2];
        int is_near = 1;
        for (int k = 0; k < 4; k++) {
            const volatile ELEMENT scaled = rois[region * 5 + 1 + k] * (ELEMENT)SCALE;
            const ELEMENT distance = FLOOR(FABS(scaled) + (ELEMENT)0.5);
            is_near &= distance < (ELEMENT)LIMIT;
            corner[k] = distance < (ELEMENT)LIMIT ? (scaled < 0 ? -(int64_t)distance : (int64_t)distance) : 0;
        }
        const ELEMENT given = rois[region * 5];
        const int is_number = given > (ELEMENT)-LIMIT && given < (ELEMENT)LIMIT;
        const int64_t place = IG_FUNCTION_place(is_number ? (int64_t)given : images, images);
        if (place < 0 || !is_near) {
            *fault = 1;
            continue;
        }
        const ELEMENT *const image = x + place * height * width * channels;
        IG_FUNCTION_bin(corner[1], corner[3], line, lines, height, range[0]);
        for (int64_t column = 0; column < columns; column++) {
            ELEMENT *const to = out + (row * columns + column) * channels;
            IG_FUNCTION_bin(corner[0], corner[2], column, columns, width, range[1]);
            const int is_empty = range[0][0] >= range[0][1] || range[1][0] >= range[1][1];
            for (int64_t c = 0; c < channels; c += IG_LANES) {
                const int64_t n = channels - c < IG_LANES ? channels - c : IG_LANES;
                VECTOR best = SET(is_empty ? 0 : (ELEMENT)-INFINITY);
                for (int64_t i = range[0][0]; i < range[0][1]; i++)
                    for (int64_t j = range[1][0]; j < range[1][1]; j++) {
                        const ELEMENT *const from = image + (i * width + j) * channels + c;
                        best = OF_KIND(ig_max_)(best, n == IG_LANES ? LOAD(from) : LOAD_N(from, n));
                    }
                STORE_N(to + c, best, n);
            }
        }
    }
}
