/* Depthwise convolution, convolution in small groups, and pooling: few channels by themselves, of an NDHWC input. A
   task is row_block rows of output pixels.
   tasks: images * OD * ceil(OH / row_block) */
#include "kernel.h"

/* What happens to the values under a window: they are multiplied by weights and added up... */
#ifndef HAS_WEIGHTS
#define HAS_WEIGHTS 1
#endif
/* ...each output channel reads all channels of its group, which is at most a vector... */
#ifndef IS_GROUPED
#define IS_GROUPED 0
#endif
/* ...the greatest is taken... */
#ifndef IS_MAXIMUM
#define IS_MAXIMUM 0
#endif
/* ...or they are averaged. */
#ifndef IS_AVERAGE
#define IS_AVERAGE 0
#endif
/* Output pixels at a time. */
#ifndef PIXELS
#define PIXELS 6
#endif
#define HALF (PIXELS / 2)

typedef struct {
    void *x;
#if HAS_WEIGHTS
    void *w;
#endif
    /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
#include "window_sizes.h"
    int64_t end_d, end_h, end_w;
    int64_t OC, row_block;
#if IS_GROUPED
    int64_t groups;
#endif
} IG_FUNCTION_sizes;

#define RESULT ig_f32
#include "epilogue.h"
#include "fill.h"
#include "range.h"
#if IS_MAXIMUM
#define START -__builtin_inff() - (ig_f32){0}
#else
#define START (ig_f32){0}
#endif

#if IS_MAXIMUM
/* The greater value of each lane; once NaN, always NaN. */
static inline ig_f32 IG_FUNCTION_maximum(ig_f32 a, ig_f32 b)
{
    typedef int32_t mask __attribute__((vector_size(4 * IG_LANES)));
    const mask keeps = (mask)(a >= b) | (mask)(a != a);
    return (ig_f32)(((mask)a & keeps) | ((mask)b & ~keeps));
}
#endif

#include "some_lanes.h"
#if !IS_GROUPED
/* Adjacent output pixels whose windows are cut alike: taps range[0] <= d < range[1] and so on. `origin` is the place of
   tap (0, 0, 0) of the first pixel, and may lie before the input. */
IG_INLINE void IG_FUNCTION_pixels(const int pixels, const int is_whole, void *const *buffer, const int64_t *size,
                                  const int64_t *range, int64_t origin, int64_t count, int64_t row, int64_t col,
                                  int64_t n, const int32_t *places)
{
    const int64_t C = SIZE(C), H = SIZE(H), W = SIZE(W), KH = SIZE(KH), KW = SIZE(KW), OC = SIZE(OC);
    const int64_t step_d = SIZE(dilation_d) * H * W * C, step_h = SIZE(dilation_h) * W * C;
    const int64_t step_w = SIZE(dilation_w) * C, pixel = SIZE(stride_w) * C;
    const float *x = BUFFER(x);
#if HAS_WEIGHTS
    const float *weights = BUFFER(w);
#endif
    (void)KH, (void)KW, (void)OC, (void)count, (void)places;
    ig_f32 sums[PIXELS];
    IG_UNROLL for (int p = 0; p < pixels; p++) {
        sums[p] = START;
    }
    for (int64_t d = range[0]; d < range[1]; d++)
        for (int64_t h = range[2]; h < range[3]; h++)
            for (int64_t w = range[4]; w < range[5]; w++) {
                const float *from = x + (origin + d * step_d + h * step_h + w * step_w + col);
#if HAS_WEIGHTS
                const ig_f32 weight = IG_FUNCTION_load(is_whole, weights + ((d * KH + h) * KW + w) * OC + col, n);
#endif
                IG_UNROLL for (int p = 0; p < pixels; p++) {
                    const ig_f32 value = IG_FUNCTION_load(is_whole, from + p * pixel, n);
#if HAS_WEIGHTS
                    sums[p] += value * weight;
#elif IS_MAXIMUM
                    sums[p] = IG_FUNCTION_maximum(sums[p], value);
#else
                    sums[p] += value;
#endif
                }
            }
    IG_UNROLL for (int p = 0; p < pixels; p++) {
        ig_f32 acc = sums[p];
#if IS_AVERAGE
        acc /= (float)count - (ig_f32){0};
#endif
        if (is_whole)
            ig_epilogue(buffer, size, row + p, col, acc);
        else
            ig_epilogue_n(buffer, size, row + p, col, acc, n);
    }
}
#else
typedef int32_t IG_FUNCTION_lanes __attribute__((vector_size(4 * IG_LANES)));

/* Lane l of the result is lane place[l] of the values. */
IG_INLINE ig_f32 IG_FUNCTION_spread(ig_f32 value, IG_FUNCTION_lanes place)
{
#ifndef __clang__
    return __builtin_shuffle(value, place);
#elif defined __AVX512F__ && IG_LANES == 16
    return __builtin_ia32_permvarsf512(value, place);
#elif defined __AVX2__ && IG_LANES == 8
    return __builtin_ia32_permvarsf256(value, place);
#else
    ig_f32 result;
    for (int l = 0; l < IG_LANES; l++)
        result[l] = value[place[l]];
    return result;
#endif
}

/* Adjacent output pixels whose windows are cut alike, for the n output channels from `col` on: whole groups, whose
   input channels fit one vector. */
IG_INLINE void IG_FUNCTION_pixels(const int pixels, const int is_whole, void *const *buffer, const int64_t *size,
                                  const int64_t *range, int64_t origin, int64_t count, int64_t row, int64_t col,
                                  int64_t n, const int32_t *places)
{
    const int64_t C = SIZE(C), H = SIZE(H), W = SIZE(W), KH = SIZE(KH), KW = SIZE(KW);
    const int64_t OC = SIZE(OC), groups = SIZE(groups);
    const int64_t step_d = SIZE(dilation_d) * H * W * C, step_h = SIZE(dilation_h) * W * C;
    const int64_t step_w = SIZE(dilation_w) * C, pixel = SIZE(stride_w) * C;
    const int64_t inputs = C / groups, outputs = OC / groups, used = n / outputs * inputs;
    const float *x = (const float *)BUFFER(x) + col / outputs * inputs;
    IG_FUNCTION_lanes first;
    __builtin_memcpy(&first, places, sizeof first);
    (void)count;
    ig_f32 sums[PIXELS];
    IG_UNROLL for (int p = 0; p < pixels; p++)
        sums[p] = (ig_f32){0};
    for (int64_t d = range[0]; d < range[1]; d++)
        for (int64_t h = range[2]; h < range[3]; h++)
            for (int64_t w = range[4]; w < range[5]; w++) {
                const float *from = x + (origin + d * step_d + h * step_h + w * step_w);
                const float *weights = (const float *)BUFFER(w) + ((d * KH + h) * KW + w) * inputs * OC + col;
                ig_f32 values[PIXELS];
                IG_UNROLL for (int p = 0; p < pixels; p++)
                    values[p] = IG_FUNCTION_load(0, from + p * pixel, used);
                for (int64_t i = 0; i < inputs; i++, weights += OC) {
                    const ig_f32 weight = IG_FUNCTION_load(is_whole, weights, n);
                    IG_UNROLL for (int p = 0; p < pixels; p++)
                        sums[p] += IG_FUNCTION_spread(values[p], first + (int32_t)i) * weight;
                }
            }
    IG_UNROLL for (int p = 0; p < pixels; p++)
        if (is_whole)
            ig_epilogue(buffer, size, row + p, col, sums[p]);
        else
            ig_epilogue_n(buffer, size, row + p, col, sums[p], n);
}
#endif

/* One row of output pixels for the n channels from `col` on. */
static inline void IG_FUNCTION_columns(const int is_whole, void *const *buffer, const int64_t *size, int64_t *range,
                                       int64_t origin, int64_t count, int64_t row, int64_t col, int64_t n,
                                       const int32_t *places)
{
    const int64_t C = SIZE(C), W = SIZE(W), OW = SIZE(OW), KW = SIZE(KW);
    const int64_t stride = SIZE(stride_w), dilation = SIZE(dilation_w), pad = SIZE(pad_w), end = SIZE(end_w);
    for (int64_t ow = 0; ow < OW;) {
        const int64_t start = ow * stride - pad, here = origin + start * C, room = W - 1 - (KW - 1) * dilation - start;
        const int64_t counted = count * IG_FUNCTION_range(start, KW, dilation, W, end, range + 4);
        int64_t alike = start < 0 || room < 0 ? 1 : room / stride + 1;
        alike = alike < OW - ow ? alike : OW - ow;
        if (alike >= PIXELS) {
            IG_FUNCTION_pixels(PIXELS, is_whole, buffer, size, range, here, counted, row + ow, col, n, places);
            ow += PIXELS;
        } else if (alike >= HALF) {
            IG_FUNCTION_pixels(HALF, is_whole, buffer, size, range, here, counted, row + ow, col, n, places);
            ow += HALF;
        } else {
            IG_FUNCTION_pixels(1, is_whole, buffer, size, range, here, counted, row + ow, col, n, places);
            ow++;
        }
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W), OD = SIZE(OD), OH = SIZE(OH), OW = SIZE(OW);
    const int64_t KD = SIZE(KD), KH = SIZE(KH), stride_d = SIZE(stride_d), stride_h = SIZE(stride_h);
    const int64_t dilation_d = SIZE(dilation_d), dilation_h = SIZE(dilation_h), pad_d = SIZE(pad_d);
    const int64_t pad_h = SIZE(pad_h), end_d = SIZE(end_d), end_h = SIZE(end_h), OC = SIZE(OC);
    const int64_t row_block = SIZE(row_block);
#if IS_GROUPED
    const int64_t groups = SIZE(groups);
#endif
    const int64_t row_blocks = (OH + row_block - 1) / row_block;
    (void)scratch;
#if IS_GROUPED
    /* As many groups at a time as a vector holds, and where the first input of each of their outputs stands. */
    const int64_t larger = C > OC ? C / groups : OC / groups, most = larger ? IG_LANES / larger * (OC / groups) : 0;
    int32_t places[IG_LANES];
    for (int64_t l = 0; l < IG_LANES; l++)
        places[l] = (int32_t)(l < most ? l / (OC / groups) * (C / groups) : 0);
#endif
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task % row_blocks, od = task / row_blocks % OD, image = task / row_blocks / OD;
        for (int64_t oh = OH * block / row_blocks; oh < OH * (block + 1) / row_blocks; oh++) {
            const int64_t d = od * stride_d - pad_d, h = oh * stride_h - pad_h;
            const int64_t origin = ((image * D + d) * H + h) * W * C, row = ((image * OD + od) * OH + oh) * OW;
            int64_t range[6];
            const int64_t count = IG_FUNCTION_range(d, KD, dilation_d, D, end_d, range) *
                                  IG_FUNCTION_range(h, KH, dilation_h, H, end_h, range + 2);
#if IS_GROUPED
            for (int64_t col = 0; col < OC; col += most)
                if (most == IG_LANES && OC - col >= most)
                    IG_FUNCTION_columns(1, buffer, size, range, origin, count, row, col, IG_LANES, places);
                else
                    IG_FUNCTION_columns(0, buffer, size, range, origin, count, row, col,
                                        OC - col < most ? OC - col : most, places);
#else
            int64_t col = 0;
            for (; HAS_WHOLE && col + IG_LANES <= OC; col += IG_LANES)
                IG_FUNCTION_columns(1, buffer, size, range, origin, count, row, col, IG_LANES, 0);
            if (HAS_PART && col < OC)
                IG_FUNCTION_columns(0, buffer, size, range, origin, count, row, col, OC - col, 0);
#endif
        }
    }
}
