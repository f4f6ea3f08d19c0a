/* Depthwise convolution of an NDHWC input by kernels of few taps along a row, whose number and step are known: each
   value is loaded once for all of its taps. A task is row_block rows of output pixels.
   tasks: images * OD * ceil(OH / row_block) */
#include "kernel.h"

typedef struct {
    void *x, *w; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t images, C, D, H, W, OD, OH, OW;
    int64_t KD, KH;
    int64_t stride_d, stride_h;
    int64_t dilation_d, dilation_h;
    int64_t pad_d, pad_h, pad_w;
    int64_t row_block;
} IG_FUNCTION_sizes;

/* Taps along a row, and how far the window moves. */
#ifndef TAPS
#define TAPS 3
#endif
#ifndef STRIDE
#define STRIDE 1
#endif
/* Output pixels at a time. */
#ifndef PIXELS
#define PIXELS 6
#endif

#define RESULT ig_f32
#define COUNTS_PADS 0
#include "epilogue.h"
#include "fill.h"
#include "range.h"
#include "some_lanes.h"

/* The first `count` of PIXELS adjacent output pixels, for the n channels from `col` on. `range` has the planes and
   lines that lie inside, `origin` the place of the first of all taps, which may lie before the input, and `column` its
   column. Without `is_edge` all columns lie inside. */
IG_INLINE void IG_FUNCTION_pixels(const int is_edge, const int is_whole, void *const *buffer, const int64_t *size,
                                  const int64_t *range, int64_t origin, int64_t column, int64_t count, int64_t row,
                                  int64_t col, int64_t n)
{
    const int64_t C = SIZE(C), H = SIZE(H), W = SIZE(W), KH = SIZE(KH);
    const int64_t step_d = SIZE(dilation_d) * H * W * C, step_h = SIZE(dilation_h) * W * C;
    const float *const x = BUFFER(x), *const weights = BUFFER(w);
    ig_f32 sums[PIXELS];
    (void)column, (void)count;
    IG_UNROLL for (int p = 0; p < PIXELS; p++)
        sums[p] = (ig_f32){0};
    for (int64_t d = range[0]; d < range[1]; d++)
        for (int64_t h = range[2]; h < range[3]; h++) {
            const float *const from = x + (origin + d * step_d + h * step_h + col);
            const float *const w = weights + (d * KH + h) * (TAPS * C) + col;
            ig_f32 weight[TAPS];
            IG_UNROLL for (int t = 0; t < TAPS; t++)
                weight[t] = IG_FUNCTION_load(is_whole, w + t * C, n);
            IG_UNROLL for (int i = 0; i < (PIXELS - 1) * STRIDE + TAPS; i++) {
                if (is_edge && (uint64_t)(column + i) >= (uint64_t)W)
                    continue;
                const ig_f32 value = IG_FUNCTION_load(is_whole, from + i * C, n);
                IG_UNROLL for (int t = 0; t < TAPS; t++)
                    if (i >= t && (i - t) % STRIDE == 0 && (i - t) / STRIDE < PIXELS)
                        sums[(i - t) / STRIDE] += value * weight[t];
            }
        }
    IG_UNROLL for (int p = 0; p < PIXELS; p++) {
        if (is_edge && p >= count)
            break;
        if (is_whole)
            ig_epilogue(buffer, size, row + p, col, sums[p]);
        else
            ig_epilogue_n(buffer, size, row + p, col, sums[p], n);
    }
}

/* One row of output pixels for the n channels from `col` on. */
static inline void IG_FUNCTION_row(const int is_whole, void *const *buffer, const int64_t *size, const int64_t *range,
                                   int64_t origin, int64_t row, int64_t col, int64_t n)
{
    const int64_t C = SIZE(C), W = SIZE(W), OW = SIZE(OW), pad = SIZE(pad_w);
    for (int64_t ow = 0; ow < OW; ow += PIXELS) {
        const int64_t column = ow * STRIDE - pad, here = origin + column * C;
        const int64_t count = OW - ow < PIXELS ? OW - ow : PIXELS;
        if (count == PIXELS && column >= 0 && column + (PIXELS - 1) * STRIDE + TAPS <= W)
            IG_FUNCTION_pixels(0, is_whole, buffer, size, range, here, column, count, row + ow, col, n);
        else
            IG_FUNCTION_pixels(1, is_whole, buffer, size, range, here, column, count, row + ow, col, n);
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W), OD = SIZE(OD), OH = SIZE(OH), OW = SIZE(OW);
    const int64_t KD = SIZE(KD), KH = SIZE(KH), stride_d = SIZE(stride_d), stride_h = SIZE(stride_h);
    const int64_t dilation_d = SIZE(dilation_d), dilation_h = SIZE(dilation_h), pad_d = SIZE(pad_d);
    const int64_t pad_h = SIZE(pad_h), row_block = SIZE(row_block), row_blocks = (OH + row_block - 1) / row_block;
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task % row_blocks, od = task / row_blocks % OD, image = task / row_blocks / OD;
        const int64_t d = od * stride_d - pad_d, last = OH * (block + 1) / row_blocks;
        int64_t range[4];
        IG_FUNCTION_range(d, KD, dilation_d, D, 0, range);
        /* Vectors of channels outside, so that rows of the input stay in the first cache for those that read them. */
        for (int64_t col = 0; col < C; col += IG_LANES)
            for (int64_t oh = OH * block / row_blocks; oh < last; oh++) {
                const int64_t h = oh * stride_h - pad_h, origin = ((image * D + d) * H + h) * W * C;
                const int64_t row = ((image * OD + od) * OH + oh) * OW;
                IG_FUNCTION_range(h, KH, dilation_h, H, 0, range + 2);
                if (!HAS_PART || (HAS_WHOLE && C - col >= IG_LANES))
                    IG_FUNCTION_row(1, buffer, size, range, origin, row, col, IG_LANES);
                else
                    IG_FUNCTION_row(0, buffer, size, range, origin, row, col, C - col);
            }
    }
}
