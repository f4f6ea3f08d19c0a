/* Transposed convolution of an NDHWC input. The outputs of one row that are stride_w apart share their taps. */
#include "conv.h"
#define CHANNELS_LAST 1
#include "slab.h"

/* a / b rounded down, for b > 0. */
static inline int64_t IG_FUNCTION_floor(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* The taps of one axis for an output: tap `k` reads the input's index `index` where `rest` is 0, else the strides skip
   it. */
typedef struct {
    int64_t index, rest, step, step_rest, stride;
} IG_FUNCTION_axis;

/* The axis at its first tap. */
static inline IG_FUNCTION_axis IG_FUNCTION_first(int64_t o, int64_t stride, int64_t dilation, int64_t pad)
{
    const int64_t index = IG_FUNCTION_floor(o + pad, stride);
    return (IG_FUNCTION_axis){index, o + pad - index * stride, dilation / stride, dilation % stride, stride};
}

/* The axis at its next tap. */
static inline void IG_FUNCTION_advance(IG_FUNCTION_axis *axis)
{
    axis->index -= axis->step;
    axis->rest -= axis->step_rest;
    if (axis->rest < 0) {
        axis->rest += axis->stride;
        axis->index--;
    }
}

/* The taps that reach output (od, oh, ow); `d0`, `h0`, `w0` are the input's indices of the slab's first value. */
static inline int64_t IG_FUNCTION_taps(const IG_FUNCTION_slab *slab, const int64_t *size, int64_t channels, int64_t od,
                                       int64_t oh, int64_t ow, int64_t d0, int64_t h0, int64_t w0, int64_t *tap)
{
    const int64_t KD = SIZE(KD), KH = SIZE(KH), KW = SIZE(KW);
    IG_FUNCTION_axis of_d = IG_FUNCTION_first(od, SIZE(stride_d), SIZE(dilation_d), SIZE(pad_d));
    const IG_FUNCTION_axis first_h = IG_FUNCTION_first(oh, SIZE(stride_h), SIZE(dilation_h), SIZE(pad_h));
    const IG_FUNCTION_axis first_w = IG_FUNCTION_first(ow, SIZE(stride_w), SIZE(dilation_w), SIZE(pad_w));
    int64_t taps = 0;
    for (int64_t d = 0; d < KD; d++, IG_FUNCTION_advance(&of_d)) {
        if (of_d.rest != 0)
            continue;
        IG_FUNCTION_axis of_h = first_h;
        for (int64_t h = 0; h < KH; h++, IG_FUNCTION_advance(&of_h)) {
            if (of_h.rest != 0)
                continue;
            IG_FUNCTION_axis of_w = first_w;
            const int64_t line = (of_d.index - d0) * slab->plane + (of_h.index - h0) * slab->row;
            for (int64_t w = 0; w < KW; w++, IG_FUNCTION_advance(&of_w)) {
                if (of_w.rest != 0)
                    continue;
                tap[2 * taps] = line + (of_w.index - w0) * slab->pixel;
                tap[2 * taps + 1] = ((d * KH + h) * KW + w) * channels * COLUMNS;
                taps++;
            }
        }
    }
    return taps;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W), OD = SIZE(OD), OH = SIZE(OH), OW = SIZE(OW);
    const int64_t KD = SIZE(KD), KH = SIZE(KH), KW = SIZE(KW), stride_d = SIZE(stride_d), stride_h = SIZE(stride_h);
    const int64_t stride_w = SIZE(stride_w), dilation_d = SIZE(dilation_d), dilation_h = SIZE(dilation_h);
    const int64_t dilation_w = SIZE(dilation_w), pad_d = SIZE(pad_d), pad_h = SIZE(pad_h), pad_w = SIZE(pad_w);
    const int64_t groups = SIZE(groups), OC = SIZE(OC), row_block = SIZE(row_block), col_block = SIZE(col_block);
    const int64_t panel_block = SIZE(panel_block);
    const int64_t channels = C / groups, outputs = OC / groups, panels = (outputs + COLUMNS - 1) / COLUMNS;
    const int64_t row_blocks = (OH + row_block - 1) / row_block, col_blocks = (OW + col_block - 1) / col_block;
    const int64_t panel_blocks = (panels + panel_block - 1) / panel_block, weights = KD * KH * KW * channels * COLUMNS;
    const ELEMENT *x = BUFFER(x), *w = BUFFER(w);
    int64_t *tap = scratch;
    ELEMENT *sum = (ELEMENT *)(tap + (2 * KD * KH * KW * CHANNELS_BEFORE + 7) / 8 * 8);
    ELEMENT *copy = sum + row_block * col_block * COLUMNS;
    IG_FUNCTION_slab slab = {0};
    int64_t previous = -1, d0 = 0, h0 = 0, w0 = 0;
    for (int64_t task = begin; task < end; task++) {
        int64_t place = task / panel_blocks;
        const int64_t col_index = place % col_blocks, row_index = place / col_blocks % row_blocks;
        place /= col_blocks * row_blocks;
        const int64_t od = place % OD, group = place / OD % groups, image = place / OD / groups;
        const int64_t oh = OH * row_index / row_blocks, height = OH * (row_index + 1) / row_blocks - oh;
        const int64_t ow = OW * col_index / col_blocks, width = OW * (col_index + 1) / col_blocks - ow;
        const int64_t row = ((image * OD + od) * OH + oh) * OW + ow, panel_index = task % panel_blocks;
        const ELEMENT *image_x = x + image * C * D * H * W + group * GROUP_STRIDE;
        if (task / panel_blocks != previous) {
            previous = task / panel_blocks;
            d0 = IG_FUNCTION_floor(od + pad_d - (KD - 1) * dilation_d, stride_d);
            h0 = IG_FUNCTION_floor(oh + pad_h - (KH - 1) * dilation_h, stride_h);
            w0 = IG_FUNCTION_floor(ow + pad_w - (KW - 1) * dilation_w, stride_w);
            slab.depth = IG_FUNCTION_floor(od + pad_d, stride_d) - d0 + 1;
            slab.height = IG_FUNCTION_floor(oh + height - 1 + pad_h, stride_h) - h0 + 1;
            slab.width = IG_FUNCTION_floor(ow + width - 1 + pad_w, stride_w) - w0 + 1;
            IG_FUNCTION_fill(&slab, image_x, size, channels, d0, h0, w0, copy);
        }
        for (int64_t h = 0; h < height; h++)
            for (int64_t phase = 0; phase < stride_w && phase < width; phase++) {
                const int64_t taps = IG_FUNCTION_taps(&slab, size, channels, od, oh + h, ow + phase, d0, h0, w0, tap);
                const int64_t pixels = (width - phase + stride_w - 1) / stride_w;
                const int64_t last = panels * (panel_index + 1) / panel_blocks;
                for (int64_t panel = panels * panel_index / panel_blocks; panel < last; panel++) {
                    const int64_t left = outputs - panel * COLUMNS;
                    for (int64_t first = 0, count; first < pixels; first += count) {
                        count = IG_FUNCTION_next(pixels - first);
                        IG_FUNCTION_tile(count, slab.data + first * slab.pixel, slab.pixel,
                                         w + (group * panels + panel) * weights, 0, tap, taps, channels, sum, 1);
                        IG_FUNCTION_finish(buffer, size, row + h * OW + phase + first * stride_w, stride_w, count,
                                           group * outputs + panel * COLUMNS, left < COLUMNS ? left : COLUMNS, sum);
                    }
                }
            }
    }
}
