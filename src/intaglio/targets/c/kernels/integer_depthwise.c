/* Depthwise convolution of bytes, channels last. A task is one row of output pixels.
   tasks: images * OD * OH
   A lane is a channel. GROUP taps that stand above each other are multiplied at once: for each vector of channels, that
   many lines of the input are woven together in scratch memory, a word for each lane, and all windows of the row read
   them there. What lies outside counts as the zero point. */
#include "kernel.h"

typedef struct {
    void *x, *w, *zero_point; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
#include "window_sizes.h"
    int64_t OC;
    int64_t col_block;
} IG_FUNCTION_sizes;

/* Whether one instruction multiplies four unsigned by four signed bytes. Otherwise data are widened to 16 bits less
   their zero point. */
#ifndef QUADS
#define QUADS 0
#endif
#ifndef LEFT_SIGNED
#define LEFT_SIGNED 0
#endif
/* Output pixels at a time. */
#ifndef PIXELS
#define PIXELS 6
#endif
#if LEFT_SIGNED
#define RAW int8_t
#define FLIP 0x80
#else
#define RAW uint8_t
#define FLIP 0
#endif
/* Neighbours in a lane, and one of them before it gets its place: signed bytes become unsigned ones, 128 more. */
#if QUADS
#define GROUP 4
#define UNSIGNED value
#define SIGNED weight
#define LOAD ig_load_u8
#define LOAD_N ig_load_n_u8
#define PART(i, raw) ig_cast_u8_u32(raw)
#define WORD (word ^ FLIP * 0x01010101u)
#include "quad_dot.h"
#else
#define GROUP 2
#if LEFT_SIGNED
#define LOAD ig_load_i8
#define LOAD_N ig_load_n_i8
#define WIDEN ig_cast_i8_u32
#else
#define LOAD ig_load_u8
#define LOAD_N ig_load_n_u8
#define WIDEN ig_cast_u8_u32
#endif
#define PART(i, raw) (i ? WIDEN(raw) - zero : (WIDEN(raw) - zero) & 0xffff)
#define WORD word
#include "pair_dot.h"
#endif
#define RESULT ig_i32
#include "epilogue.h"

/* GROUP lines of the input at some channels, each with the step from column to column: 0 for a line outside. */
typedef struct {
    const RAW *at[GROUP];
    int64_t step[GROUP];
} IG_FUNCTION_lines;

/* One column of the lines; n channels where that many are left. */
IG_INLINE ig_u32 IG_FUNCTION_word(const int is_whole, const IG_FUNCTION_lines *lines, int64_t column, ig_u32 zero,
                                  int64_t n)
{
    ig_u32 word = {0};
    (void)zero, (void)n;
    IG_UNROLL for (int i = 0; i < GROUP; i++) {
        const RAW *const at = lines->at[i] + column * lines->step[i];
        const ig_u32 part = is_whole ? PART(i, LOAD(at)) : PART(i, LOAD_N(at, n));
        word |= part << (32 / GROUP * i);
    }
    return WORD;
}

/* `width` columns from `first` on, of which those from 0 to W are inside, and whole vectors may be loaded of those
   before `safe`. */
static inline void IG_FUNCTION_weave(const IG_FUNCTION_lines *lines, int64_t first, int64_t width, int64_t W,
                                     int64_t safe, ig_u32 zero, ig_u32 outside, int64_t n, uint32_t *to)
{
    const int64_t end = first + width;
    int64_t column = first;
    for (; column < end && column < 0; column++, to += IG_LANES)
        ig_store_u32(to, outside);
    for (; column < end && column < safe; column++, to += IG_LANES)
        ig_store_u32(to, IG_FUNCTION_word(1, lines, column, zero, n));
    for (; column < end && column < W; column++, to += IG_LANES)
        ig_store_u32(to, IG_FUNCTION_word(0, lines, column, zero, n));
    for (; column < end; column++, to += IG_LANES)
        ig_store_u32(to, outside);
}

/* Adjacent output pixels, for the n channels from `col` on. */
IG_INLINE void IG_FUNCTION_pixels(const int pixels, void *const *buffer, const int64_t *size, const uint32_t *words,
                                  int64_t span, const uint32_t *weights, int64_t groups, ig_u32 start, int64_t row,
                                  int64_t col, int64_t n)
{
    const int64_t KW = SIZE(KW), pixel = SIZE(stride_w) * IG_LANES, tap = SIZE(dilation_w) * IG_LANES;
    ig_u32 sum[PIXELS];
    IG_UNROLL for (int p = 0; p < pixels; p++)
        sum[p] = start;
    for (int64_t group = 0; group < groups; group++, words += span * IG_LANES) {
        const uint32_t *at = words;
        for (int64_t kw = 0; kw < KW; kw++, at += tap, weights += IG_LANES) {
            const ig_u32 weight = ig_load_u32(weights);
            IG_UNROLL for (int p = 0; p < pixels; p++)
                sum[p] = IG_FUNCTION_dot(sum[p], ig_load_u32(at + p * pixel), weight);
        }
    }
    IG_UNROLL for (int p = 0; p < pixels; p++)
        if (n == IG_LANES)
            ig_epilogue(buffer, size, row + p, col, (ig_i32)sum[p]);
        else
            ig_epilogue_n(buffer, size, row + p, col, (ig_i32)sum[p], n);
}

/* `count` adjacent output pixels. */
static inline void IG_FUNCTION_row(void *const *buffer, const int64_t *size, const uint32_t *words, int64_t span,
                                   const uint32_t *weights, int64_t groups, ig_u32 start, int64_t count, int64_t row,
                                   int64_t col, int64_t n)
{
    const int64_t step = SIZE(stride_w) * IG_LANES;
    int64_t p = 0;
    for (; p + PIXELS <= count; p += PIXELS)
        IG_FUNCTION_pixels(PIXELS, buffer, size, words + p * step, span, weights, groups, start, row + p, col, n);
    if (p + 4 <= count) {
        IG_FUNCTION_pixels(4, buffer, size, words + p * step, span, weights, groups, start, row + p, col, n);
        p += 4;
    }
    for (; p < count; p++)
        IG_FUNCTION_pixels(1, buffer, size, words + p * step, span, weights, groups, start, row + p, col, n);
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t images = SIZE(images), C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W), OD = SIZE(OD);
    const int64_t OH = SIZE(OH), OW = SIZE(OW), KD = SIZE(KD), KH = SIZE(KH), KW = SIZE(KW);
    const int64_t stride_d = SIZE(stride_d), stride_h = SIZE(stride_h), stride_w = SIZE(stride_w);
    const int64_t dilation_d = SIZE(dilation_d), dilation_h = SIZE(dilation_h), dilation_w = SIZE(dilation_w);
    const int64_t pad_d = SIZE(pad_d), pad_h = SIZE(pad_h), pad_w = SIZE(pad_w), col_block = SIZE(col_block);
    const int64_t groups = (KD * KH + GROUP - 1) / GROUP, total = images * D * H * W * C;
    const RAW *const x = BUFFER(x), point = *(const RAW *)BUFFER(zero_point);
    const ig_u32 zero = ig_set_u32((uint32_t)point);
#if QUADS
    const uint32_t shifted = (uint8_t)point ^ FLIP;
    const ig_u32 outside = ig_set_u32(shifted * 0x01010101);
#else
    const uint32_t shifted = 0;
    const ig_u32 outside = {0};
#endif
    RAW nothing[IG_LANES];
    for (int l = 0; l < IG_LANES; l++)
        nothing[l] = point;
    uint32_t *const words = scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t plane = task / OH, image = plane / OD;
        const int64_t d0 = plane % OD * stride_d - pad_d, h0 = task % OH * stride_h - pad_h;
        const uint32_t *weights = BUFFER(w);
        for (int64_t c = 0; c < C; c += IG_LANES, weights += (1 + groups * KW) * IG_LANES) {
            const int64_t n = C - c < IG_LANES ? C - c : IG_LANES;
            const ig_u32 start = (ig_u32){0} - shifted * ig_load_u32(weights);
            for (int64_t ow = 0; ow < OW; ow += col_block) {
                const int64_t count = OW - ow < col_block ? OW - ow : col_block;
                const int64_t span = (count - 1) * stride_w + (KW - 1) * dilation_w + 1;
                for (int64_t group = 0; group < groups; group++) {
                    IG_FUNCTION_lines lines;
                    int64_t safe = W;
                    for (int64_t i = 0; i < GROUP; i++) {
                        const int64_t line = group * GROUP + i;
                        const int64_t d = d0 + line / KH * dilation_d, h = h0 + line % KH * dilation_h;
                        const int is_inside = line < KD * KH && d >= 0 && d < D && h >= 0 && h < H;
                        const int64_t place = ((image * D + d) * H + h) * W * C + c;
                        lines.at[i] = is_inside ? x + place : nothing;
                        lines.step[i] = is_inside ? C : 0;
                        const int64_t room = is_inside ? total - place - IG_LANES : W * C;
                        const int64_t whole = room < 0 ? 0 : room / C + 1;
                        safe = whole < safe ? whole : safe;
                    }
                    IG_FUNCTION_weave(&lines, ow * stride_w - pad_w, span, W, safe, zero, outside, n,
                                      words + group * span * IG_LANES);
                }
                IG_FUNCTION_row(buffer, size, words, span, weights + IG_LANES, groups, start, count, task * OW + ow, c,
                                n);
            }
        }
    }
}
