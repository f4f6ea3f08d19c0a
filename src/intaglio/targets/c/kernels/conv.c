/* Direct convolution of an NDHWC or, for few channels, NCDHW input. */
#include "conv.h"
#include "slab.h"
/* The depth whose weights stay in the first cache. */
#ifndef LIMIT
#define LIMIT 341
#endif

/* The slab in place where it lies inside the input, else a copy with zeros around it. */
static inline void IG_FUNCTION_view(IG_FUNCTION_slab *slab, const ELEMENT *x, const int64_t *size, int64_t channels,
                                    int64_t d0, int64_t h0, int64_t w0, ELEMENT *to)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W);
    if (d0 < 0 || h0 < 0 || w0 < 0 || d0 + slab->depth > D || h0 + slab->height > H || w0 + slab->width > W) {
        IG_FUNCTION_fill(slab, x, size, channels, d0, h0, w0, to);
        return;
    }
    (void)C;
    slab->pixel = PIXEL_STRIDE;
    slab->row = W * slab->pixel;
    slab->plane = H * slab->row;
    slab->channel = D * slab->plane;
    slab->data = x + d0 * slab->plane + h0 * slab->row + w0 * slab->pixel;
}

/* Offsets of the filter's taps in the slab and in the panel. A filter row is one tap of `depth` KW times as large where
   it is one run in memory and short enough for the cache. */
static inline int64_t IG_FUNCTION_taps(const IG_FUNCTION_slab *slab, const int64_t *size, int64_t channels,
                                       int64_t *tap, int64_t *depth)
{
    const int64_t KD = SIZE(KD), KH = SIZE(KH), KW = SIZE(KW);
    const int64_t dilation_d = SIZE(dilation_d), dilation_h = SIZE(dilation_h), dilation_w = SIZE(dilation_w);
    const int64_t run = CHANNELS_BEHIND;
    const int is_run = dilation_w == 1 && slab->pixel == run && KW * run <= LIMIT;
    const int64_t columns = is_run ? 1 : KW;
    int64_t taps = 0;
    *depth = is_run ? KW * run : run;
    for (int64_t c = 0; c < CHANNELS_BEFORE; c++)
        for (int64_t d = 0; d < KD; d++)
            for (int64_t h = 0; h < KH; h++)
                for (int64_t w = 0; w < columns; w++, taps++) {
                    tap[2 * taps] = c * slab->channel + d * dilation_d * slab->plane + h * dilation_h * slab->row +
                                    w * dilation_w * slab->pixel;
                    tap[2 * taps + 1] = taps * *depth * COLUMNS;
                }
    (void)channels;
    return taps;
}

/* One panel of `height` by `width` output pixels, of which the first is `row` of the result. */
static inline void IG_FUNCTION_panel(void *const *buffer, const int64_t *size, const IG_FUNCTION_slab *slab,
                                     const ELEMENT *w, const int64_t *tap, int64_t taps, int64_t depth, int64_t height,
                                     int64_t width, int64_t row, int64_t col, int64_t columns, ELEMENT *sum)
{
    const int64_t OW = SIZE(OW), stride_h = SIZE(stride_h), pixel = SIZE(stride_w) * slab->pixel;
    const int64_t tiles = (width + ROWS - 1) / ROWS;
    const int64_t part = height * tiles <= 2 ? taps : depth >= LIMIT || depth == 0 ? 1 : LIMIT / depth;
    const int64_t sum_step = part < taps ? COLUMNS : 0;
    for (int64_t t = 0; t < taps; t += part) {
        const int64_t count = taps - t < part ? taps - t : part;
        for (int64_t h = 0; h < height; h++)
            for (int64_t first = 0, pixels; first < width; first += pixels) {
                pixels = IG_FUNCTION_next(width - first);
                const ELEMENT *x = slab->data + h * stride_h * slab->row + first * pixel;
                ELEMENT *tile_sum = sum + (h * width + first) * sum_step;
                IG_FUNCTION_tile(pixels, x, pixel, w, 0, tap + 2 * t, count, depth, tile_sum, t == 0);
                if (t + count == taps)
                    IG_FUNCTION_finish(buffer, size, row + h * OW + first, 1, pixels, col, columns, tile_sum);
            }
    }
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
    IG_FUNCTION_slab slab = {.depth = (KD - 1) * dilation_d + 1};
    int64_t taps = 0, depth = 0, previous = -1;
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
            slab.height = (height - 1) * stride_h + (KH - 1) * dilation_h + 1;
            slab.width = (width - 1) * stride_w + (KW - 1) * dilation_w + 1;
            IG_FUNCTION_view(&slab, image_x, size, channels, od * stride_d - pad_d, oh * stride_h - pad_h,
                             ow * stride_w - pad_w, copy);
            taps = IG_FUNCTION_taps(&slab, size, channels, tap, &depth);
        }
        const int64_t last = panels * (panel_index + 1) / panel_blocks;
        for (int64_t panel = panels * panel_index / panel_blocks; panel < last; panel++) {
            const int64_t left = outputs - panel * COLUMNS;
            IG_FUNCTION_panel(buffer, size, &slab, w + (group * panels + panel) * weights, tap, taps, depth, height,
                              width, row, group * outputs + panel * COLUMNS, left < COLUMNS ? left : COLUMNS, sum);
        }
    }
}
