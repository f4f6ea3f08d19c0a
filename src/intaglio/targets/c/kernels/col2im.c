/* Sums blocks of columns that cover an image, in the order of the places within a block, its taps. A task is `block`
   rows of the image, which lie along its last axis. */
#include "plain.h"

/* The axes of the image. */
#ifndef AXES
#define AXES 2
#endif
#ifndef ELEMENT
#define ELEMENT float
#endif
/* Whether sums are those of truth values, or of integers that wrap around. */
#ifndef IS_BOOL
#define IS_BOOL 0
#endif
#ifndef IS_INTEGER
#define IS_INTEGER 0
#endif
#if IS_BOOL
#define ADDED(a, b) a | b
#elif IS_INTEGER
#define ADDED(a, b) (uint64_t)a + (uint64_t)b
#else
#define ADDED(a, b) a + b
#endif

typedef struct {
    void *column, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch;                                    /* whether columns and image do not fit each other */
    int64_t rows, taps, volume;                          /* all rows, the taps of a block, and the blocks of a plane */
    int64_t extent[AXES], count[AXES], kernel[AXES];     /* of the image, in blocks and within a block */
    int64_t stride[AXES], dilation[AXES], padding[AXES]; /* between blocks, between taps, and before the image */
    int64_t block;
} IG_FUNCTION_sizes;

/* The first block, and the one behind the last, whose tap lies in a row of so many places; `shift` is the place of the
   tap in the first block. */
static inline void IG_FUNCTION_reach(int64_t shift, int64_t extent, int64_t stride, int64_t count, int64_t *reach)
{
    const int64_t room = extent - shift, most = room > 0 ? (room + stride - 1) / stride : 0;
    reach[0] = shift < 0 ? (stride - 1 - shift) / stride : 0;
    reach[1] = most < count ? most : count;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const column = BUFFER(column);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t *const extent = &SIZE(extent), *const count = &SIZE(count), *const kernel = &SIZE(kernel);
    const int64_t *const stride = &SIZE(stride), *const dilation = &SIZE(dilation), *const padding = &SIZE(padding);
    const int64_t rows = SIZE(rows), taps = SIZE(taps), volume = SIZE(volume), block = SIZE(block);
    const int64_t last = AXES - 1, width = extent[AXES - 1], across = kernel[AXES - 1], by = stride[AXES - 1];
    (void)scratch;
    if (SIZE(mismatch)) {
        *fault = 1;
        return;
    }
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        ELEMENT *const to = out + row * width;
        int64_t y[AXES] = {0}, plane = row;
        for (int64_t axis = last - 1; axis >= 0; axis--) {
            y[axis] = plane % extent[axis];
            plane /= extent[axis];
        }
        for (int64_t j = 0; j < width; j++)
            to[j] = 0;
        for (int64_t outer = 0; outer * across < taps; outer++) {
            /* Along all axes but the last, these taps lie in the row in one block at most: number `first` of them. */
            int64_t rest = outer, first = 0, step = 1, is_inside = 1;
            for (int64_t axis = last - 1; axis >= 0; axis--) {
                const int64_t k = axis > 0 ? rest % kernel[axis] : rest;
                const int64_t from = y[axis] + padding[axis] - k * dilation[axis];
                const int64_t o = from / stride[axis];
                is_inside &= from >= 0 && from % stride[axis] == 0 && o < count[axis];
                first += o * step;
                step *= count[axis];
                rest /= kernel[axis];
            }
            for (int64_t k = 0; is_inside && k < across; k++) {
                const int64_t tap = outer * across + k, shift = k * dilation[last] - padding[last];
                const ELEMENT *const from = column + (plane * taps + tap) * volume + first * count[last];
                int64_t reach[2];
                IG_FUNCTION_reach(shift, width, by, count[last], reach);
                for (int64_t o = reach[0]; o < reach[1]; o++) {
                    const ELEMENT a = to[o * by + shift], b = from[o];
                    to[o * by + shift] = (ELEMENT)(ADDED(a, b));
                }
            }
        }
    }
}
