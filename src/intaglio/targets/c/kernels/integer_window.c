/* Depthwise convolution and maximum pooling of bytes: a window moves over each channel by itself. A task is one row of
   output pixels.
   tasks: images * OD * OH */
#include "kernel.h"

/* Whether the greatest byte is taken, and not the sum of products with weights. */
#ifndef IS_MAXIMUM
#define IS_MAXIMUM 0
#endif
#ifndef LEFT_SIGNED
#define LEFT_SIGNED 0
#endif

typedef struct {
    void *x;
#if !IS_MAXIMUM
    void *w, *zero_point;
#endif
    /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
#include "window_sizes.h"
    int64_t groups, OC;
} IG_FUNCTION_sizes;

#if LEFT_SIGNED
#define RAW int8_t
#define BYTES ig_i8
#define LOAD ig_load_i8
#define LOAD_N ig_load_n_i8
#define SET ig_set_i8
#define MAXIMUM ig_max_i8
#define WIDEN ig_cast_i8_u32
#define LOWEST -128
#else
#define RAW uint8_t
#define BYTES ig_u8
#define LOAD ig_load_u8
#define LOAD_N ig_load_n_u8
#define SET ig_set_u8
#define MAXIMUM ig_max_u8
#define WIDEN ig_cast_u8_u32
#define LOWEST 0
#endif
#if IS_MAXIMUM
#define RESULT BYTES
#else
#define RESULT ig_i32
#include "pair_dot.h"
#endif
#include "epilogue.h"

/* The first and one past the last tap of a window that lie within an extent. */
static inline void IG_FUNCTION_taps(int64_t at, int64_t kernel, int64_t dilation, int64_t extent, int64_t *first,
                                    int64_t *last)
{
    *first = at < 0 ? (-at + dilation - 1) / dilation : 0;
    *last = at >= extent ? 0 : (extent - 1 - at) / dilation + 1;
    if (*last > kernel)
        *last = kernel;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W), OD = SIZE(OD), OH = SIZE(OH), OW = SIZE(OW);
    const int64_t KD = SIZE(KD), KH = SIZE(KH), KW = SIZE(KW), stride_d = SIZE(stride_d), stride_h = SIZE(stride_h);
    const int64_t stride_w = SIZE(stride_w), dilation_d = SIZE(dilation_d), dilation_h = SIZE(dilation_h);
    const int64_t dilation_w = SIZE(dilation_w), pad_d = SIZE(pad_d), pad_h = SIZE(pad_h), pad_w = SIZE(pad_w);
    const RAW *const x = BUFFER(x);
#if IS_MAXIMUM
    const uint32_t *const w = 0;
#else
    const uint32_t *const w = BUFFER(w);
    const ig_u32 zero = ig_set_u32((uint32_t)*(const RAW *)BUFFER(zero_point));
#endif
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t plane = task / OH, image = plane / OD;
        const int64_t d = plane % OD * stride_d - pad_d, h = task % OH * stride_h - pad_h;
        int64_t d_first, d_last, h_first, h_last, w_first, w_last;
        IG_FUNCTION_taps(d, KD, dilation_d, D, &d_first, &d_last);
        IG_FUNCTION_taps(h, KH, dilation_h, H, &h_first, &h_last);
        for (int64_t ow = 0; ow < OW; ow++) {
            const int64_t left = ow * stride_w - pad_w;
            IG_FUNCTION_taps(left, KW, dilation_w, W, &w_first, &w_last);
            for (int64_t c = 0; c < C; c += IG_LANES) {
                const int64_t count = C - c < IG_LANES ? C - c : IG_LANES;
#if IS_MAXIMUM
                BYTES acc = SET(LOWEST);
#else
                ig_u32 acc = {0};
#endif
                for (int64_t kd = d_first; kd < d_last; kd++)
                    for (int64_t kh = h_first; kh < h_last; kh++) {
                        const int64_t line = (image * D + d + kd * dilation_d) * H + h + kh * dilation_h;
                        const RAW *at = x + (line * W + left + w_first * dilation_w) * C + c;
                        const uint32_t *weight = w + ((kd * KH + kh) * KW + w_first) * C + c;
                        (void)weight;
                        if (count == IG_LANES)
                            for (int64_t kw = w_first; kw < w_last; kw++, at += dilation_w * C, weight += C) {
                                const BYTES value = LOAD(at);
#if IS_MAXIMUM
                                acc = MAXIMUM(acc, value);
#else
                                acc = IG_FUNCTION_dot(acc, WIDEN(value) - zero, ig_load_u32(weight));
#endif
                            }
                        else
                            for (int64_t kw = w_first; kw < w_last; kw++, at += dilation_w * C, weight += C) {
                                const BYTES value = LOAD_N(at, count);
#if IS_MAXIMUM
                                acc = MAXIMUM(acc, value);
#else
                                acc = IG_FUNCTION_dot(acc, WIDEN(value) - zero, ig_load_n_u32(weight, count));
#endif
                            }
                    }
                if (count == IG_LANES)
                    ig_epilogue(buffer, size, task * OW + ow, c, (RESULT)acc);
                else
                    ig_epilogue_n(buffer, size, task * OW + ow, c, (RESULT)acc, count);
            }
        }
    }
}
