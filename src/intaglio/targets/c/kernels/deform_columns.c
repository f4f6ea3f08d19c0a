/* What the windows of a deformed convolution read: [image and window, group, place in the kernel, channel of the
   group]. A pixel is interpolated between its neighbours along each axis. Images have their channels last. A row is one
   window of an image; a task is a block of rows. */
#include "kernel.h"
#include "kind.h"
#include "library.h"
#include "mix_pixels.h"
#include "real.h"

/* The axes of a window. */
#ifndef AXES
#define AXES 2
#endif
/* Whether pixels are multiplied with a mask. */
#ifndef HAS_MASK
#define HAS_MASK 1
#endif
#define CORNERS (1 << AXES)

typedef struct {
    void *x, *offset;
#if HAS_MASK
    void *mask;
#endif
    void *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t mismatch, rows, channels, groups;
    int64_t offsets;      /* groups of channels that move together */
    int64_t taps;         /* places in the kernel */
    int64_t share, moved; /* channels of a group, and of one that moves together */
    int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], dilation[AXES], pad[AXES];
    int64_t windows, block;
} IG_FUNCTION_sizes;

/* The two neighbours of a coordinate and their weights; one outside, or of no number, has none. */
static inline void IG_FUNCTION_neighbours(ELEMENT at, int64_t extent, int64_t *index, ELEMENT *share)
{
    const ELEMENT base = FLOOR(at);
    for (int k = 0; k < 2; k++) {
        const ELEMENT place = base + (ELEMENT)k;
        const int is_inside = place >= 0 && place < (ELEMENT)extent;
        index[k] = is_inside ? (int64_t)place : -1;
        share[k] = 1 - FABS(at - place);
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const x = BUFFER(x);
    const ELEMENT *const offset = BUFFER(offset);
#if HAS_MASK
    const ELEMENT *const mask = BUFFER(mask);
#endif
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t rows = SIZE(rows), channels = SIZE(channels), groups = SIZE(groups), offsets = SIZE(offsets);
    const int64_t taps = SIZE(taps), share = SIZE(share), moved = SIZE(moved);
    const int64_t windows = SIZE(windows), block = SIZE(block);
    const int64_t *const extent = &SIZE(in), *const count_of = &SIZE(out), *const kernel = &SIZE(kernel);
    const int64_t *const stride = &SIZE(stride), *const dilation = &SIZE(dilation), *const pad = &SIZE(pad);
    int64_t volume = 1;
    (void)scratch;
    if (SIZE(mismatch)) {
        *fault = 1;
        return;
    }
    for (int axis = 0; axis < AXES; axis++)
        volume *= extent[axis];
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        int64_t image = row, start[AXES];
        IG_UNROLL for (int axis = AXES - 1; axis >= 0; axis--) {
            start[axis] = image % count_of[axis] * stride[axis] - pad[axis];
            image /= count_of[axis];
        }
        const int64_t window = row - image * windows;
        for (int64_t place = 0; place < offsets * taps; place++) {
            const int64_t tap = place % taps, first = place / taps * moved;
            const ELEMENT *const move = offset + (image * offsets * taps + place) * AXES * windows + window;
            int64_t left = tap, index[AXES][2], offset_of[CORNERS];
            ELEMENT part[AXES][2], weight[CORNERS];
            int count = 0;
#if HAS_MASK
            const ELEMENT factor = mask[(image * offsets * taps + place) * windows + window];
#else
            const ELEMENT factor = 1;
#endif
            IG_UNROLL for (int axis = AXES - 1; axis >= 0; axis--) {
                const int64_t k = axis > 0 ? left % kernel[axis] : left;
                left = axis > 0 ? left / kernel[axis] : 0;
                IG_FUNCTION_neighbours((ELEMENT)(start[axis] + k * dilation[axis]) + move[axis * windows], extent[axis],
                                       index[axis], part[axis]);
            }
            for (int corner = 0; corner < CORNERS; corner++) {
                int64_t at = 0;
                int is_inside = 1;
                ELEMENT product = 1;
                IG_UNROLL for (int axis = 0; axis < AXES; axis++) {
                    const int side = corner >> (AXES - 1 - axis) & 1;
                    at = at * extent[axis] + index[axis][side];
                    is_inside &= index[axis][side] >= 0;
                    product *= part[axis][side];
                }
                offset_of[count] = at * channels;
                weight[count] = product * factor;
                count += is_inside;
            }
            if (count == 0 && factor - factor != 0 && volume > 0) { /* a mask that is not finite makes it NaN */
                offset_of[0] = 0;
                weight[count++] = factor - factor;
            }
            for (int64_t c = first, n; c < first + moved; c += n) {
                n = (c / share + 1) * share < first + moved ? (c / share + 1) * share - c : first + moved - c;
                ELEMENT *const to = out + ((row * groups + c / share) * taps + tap) * share + c % share;
                const ELEMENT *const from = x + image * volume * channels + c;
                if (count == CORNERS)
                    IG_FUNCTION_mix(to, from, offset_of, weight, CORNERS, n);
                else
                    IG_FUNCTION_mix(to, from, offset_of, weight, count, n);
            }
        }
    }
}
