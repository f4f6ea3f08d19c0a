/* Convolution of an NDHWC input, one tap after the other, each for the outputs that it reaches. For taps that lie far
   apart: nothing is copied, and nothing computed of what lies outside. */
#include "conv.h"
#define GROUP_STRIDE channels

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
    static const int64_t here[2] = {0, 0};
    ELEMENT *sum = scratch;
    for (int64_t task = begin; task < end; task++) {
        int64_t place = task / panel_blocks;
        const int64_t col_index = place % col_blocks, row_index = place / col_blocks % row_blocks;
        place /= col_blocks * row_blocks;
        const int64_t od = place % OD, group = place / OD % groups, image = place / OD / groups;
        const int64_t oh = OH * row_index / row_blocks, height = OH * (row_index + 1) / row_blocks - oh;
        const int64_t ow = OW * col_index / col_blocks, width = OW * (col_index + 1) / col_blocks - ow;
        const int64_t row = ((image * OD + od) * OH + oh) * OW + ow, panel_index = task % panel_blocks;
        const ELEMENT *image_x = x + image * C * D * H * W + group * GROUP_STRIDE;
        const int64_t last = panels * (panel_index + 1) / panel_blocks;
        for (int64_t panel = panels * panel_index / panel_blocks; panel < last; panel++) {
            const int64_t left = outputs - panel * COLUMNS;
            const ELEMENT *tap_w = w + (group * panels + panel) * weights;
            __builtin_memset(sum, 0, (uint64_t)(height * width * COLUMNS) * sizeof *sum);
            for (int64_t tap = 0; tap < KD * KH * KW; tap++, tap_w += channels * COLUMNS) {
                const int64_t d = od * stride_d - pad_d + tap / KW / KH * dilation_d;
                const int64_t top = oh * stride_h - pad_h + tap / KW % KH * dilation_h;
                const int64_t left_w = ow * stride_w - pad_w + tap % KW * dilation_w;
                const int64_t before = left_w < 0 ? (stride_w - 1 - left_w) / stride_w : 0;
                int64_t behind = left_w < W ? (W - left_w + stride_w - 1) / stride_w : 0;
                behind = behind < width ? behind : width;
                for (int64_t i = 0; d >= 0 && d < D && i < height; i++) {
                    const int64_t h = top + i * stride_h;
                    for (int64_t j = before, pixels; h >= 0 && h < H && j < behind; j += pixels) {
                        pixels = IG_FUNCTION_next(behind - j);
                        IG_FUNCTION_tile(pixels, image_x + ((d * H + h) * W + left_w + j * stride_w) * C, stride_w * C,
                                         tap_w, 0, here, 1, channels, sum + (i * width + j) * COLUMNS, 0);
                    }
                }
            }
            for (int64_t i = 0; i < height; i++)
                IG_FUNCTION_finish(buffer, size, row + i * OW, 1, width, group * outputs + panel * COLUMNS,
                                   left < COLUMNS ? left : COLUMNS, sum + i * width * COLUMNS);
        }
    }
}
