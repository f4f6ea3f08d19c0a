/* The gradient of a depthwise convolution by its kernels, of an NDHWC float32 input and gradient. A task is a block of
   channels, summed over all pixels of all images.
   tasks: ceil(ceil(C / LANES) / vector_block) */
#include "kernel.h"

typedef struct {
    void *x, *y, *w;
} IG_FUNCTION_buffers;

typedef struct {
#include "window_sizes.h"
    int64_t vector_block;
} IG_FUNCTION_sizes;

#include "fill.h"
#include "some_lanes.h"
/* Neighbouring taps whose sums are kept in registers. */
#define TAPS 4

/* a / b rounded up, for b > 0. */
static inline int64_t IG_FUNCTION_ceil(int64_t a, int64_t b)
{
    return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

/* Adds `count` pixels to the sums of `taps` neighbouring taps of one row of the kernel. */
IG_INLINE void IG_FUNCTION_pixels(const int taps, const int is_whole, const float *x, int64_t x_step, int64_t tap_step,
                                  const float *y, int64_t y_step, int64_t count, int64_t n, float *sum)
{
    ig_f32 total[TAPS];
    IG_UNROLL for (int t = 0; t < taps; t++)
        total[t] = *(const ig_f32_at *)(sum + t * IG_LANES);
    for (int64_t i = 0; i < count; i++, x += x_step, y += y_step) {
        const ig_f32 bar = IG_FUNCTION_load(is_whole, y, n);
        IG_UNROLL for (int t = 0; t < taps; t++)
            total[t] += bar * IG_FUNCTION_load(is_whole, x + t * tap_step, n);
    }
    IG_UNROLL for (int t = 0; t < taps; t++)
        *(ig_f32_at *)(sum + t * IG_LANES) = total[t];
}

/* The same for any number of taps up to TAPS; `x` is the place of the first tap for the pixel at `y`. */
IG_INLINE void IG_FUNCTION_taps(int64_t taps, const int is_whole, const float *x, int64_t x_step, int64_t tap_step,
                                const float *y, int64_t y_step, int64_t count, int64_t n, float *sum)
{
    switch (taps) {
    case 1: IG_FUNCTION_pixels(1, is_whole, x, x_step, tap_step, y, y_step, count, n, sum); break;
    case 2: IG_FUNCTION_pixels(2, is_whole, x, x_step, tap_step, y, y_step, count, n, sum); break;
    case 3: IG_FUNCTION_pixels(3, is_whole, x, x_step, tap_step, y, y_step, count, n, sum); break;
    default: IG_FUNCTION_pixels(TAPS, is_whole, x, x_step, tap_step, y, y_step, count, n, sum);
    }
}

/* Adds one row of pixels to the sums of one row of the kernel: where all of some taps lie inside at once, then what is
   left of each at both ends. */
static inline void IG_FUNCTION_row(const int is_whole, const int64_t *size, const float *x, const float *y, int64_t n,
                                   float *sum)
{
    const int64_t C = SIZE(C), W = SIZE(W), OW = SIZE(OW), KW = SIZE(KW);
    const int64_t stride = SIZE(stride_w), dilation = SIZE(dilation_w), pad = SIZE(pad_w);
    for (int64_t first = 0; first < KW; first += TAPS, sum += TAPS * IG_LANES) {
        const int64_t taps = KW - first < TAPS ? KW - first : TAPS, last = first + taps - 1;
        int64_t from = IG_FUNCTION_ceil(pad - first * dilation, stride);
        int64_t to = IG_FUNCTION_ceil(W + pad - last * dilation, stride);
        from = from < 0 ? 0 : from > OW ? OW : from;
        to = to < from ? from : to > OW ? OW : to;
        const float *start = x + (first * dilation - pad) * C;
        IG_FUNCTION_taps(taps, is_whole, start + from * stride * C, stride * C, dilation * C, y + from * C, C,
                         to - from, n, sum);
        for (int64_t t = 0; t < taps; t++) {
            int64_t begin = IG_FUNCTION_ceil(pad - (first + t) * dilation, stride);
            int64_t end = IG_FUNCTION_ceil(W + pad - (first + t) * dilation, stride);
            begin = begin < 0 ? 0 : begin > from ? from : begin;
            end = end < to ? to : end > OW ? OW : end;
            const float *place = start + t * dilation * C;
            IG_FUNCTION_taps(1, is_whole, place + begin * stride * C, stride * C, 0, y + begin * C, C, from - begin, n,
                             sum + t * IG_LANES);
            IG_FUNCTION_taps(1, is_whole, place + to * stride * C, stride * C, 0, y + to * C, C, end - to, n,
                             sum + t * IG_LANES);
        }
    }
}

/* Adds one row of output pixels of one image to the sums of the n channels from `col` on. */
static inline void IG_FUNCTION_window(const int is_whole, void *const *buffer, const int64_t *size, int64_t image,
                                      int64_t od, int64_t oh, int64_t col, int64_t n, float *sum)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W), KD = SIZE(KD), KH = SIZE(KH), KW = SIZE(KW);
    const float *y = (const float *)BUFFER(y) + ((image * SIZE(OD) + od) * SIZE(OH) + oh) * SIZE(OW) * C + col;
    for (int64_t kd = 0; kd < KD; kd++)
        for (int64_t kh = 0; kh < KH; kh++, sum += KW * IG_LANES) {
            const int64_t d = od * SIZE(stride_d) + kd * SIZE(dilation_d) - SIZE(pad_d);
            const int64_t h = oh * SIZE(stride_h) + kh * SIZE(dilation_h) - SIZE(pad_h);
            if (d < 0 || d >= D || h < 0 || h >= H)
                continue;
            const float *x = (const float *)BUFFER(x) + ((image * D + d) * H + h) * W * C + col;
            IG_FUNCTION_row(is_whole, size, x, y, n, sum);
        }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t images = SIZE(images), C = SIZE(C), OD = SIZE(OD), OH = SIZE(OH);
    const int64_t taps = SIZE(KD) * SIZE(KH) * SIZE(KW), step = taps * IG_LANES;
    const int64_t vectors = (C + IG_LANES - 1) / IG_LANES;
    const int64_t blocks = (vectors + SIZE(vector_block) - 1) / SIZE(vector_block);
    float *w = BUFFER(w), *sum = scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = vectors * task / blocks, last = vectors * (task + 1) / blocks;
        __builtin_memset(sum, 0, (uint64_t)((last - first) * step) * sizeof *sum);
        for (int64_t row = 0; row < images * OD * OH; row++)
            for (int64_t v = first; v < last; v++) {
                const int64_t col = v * IG_LANES, od = row / OH % OD, image = row / OH / OD;
                float *const sums = sum + (v - first) * step;
                if (!HAS_PART || (HAS_WHOLE && C - col >= IG_LANES))
                    IG_FUNCTION_window(1, buffer, size, image, od, row % OH, col, IG_LANES, sums);
                else
                    IG_FUNCTION_window(0, buffer, size, image, od, row % OH, col, C - col, sums);
            }
        for (int64_t c = first * IG_LANES; c < C && c < last * IG_LANES; c++)
            for (int64_t tap = 0; tap < taps; tap++)
                w[c * taps + tap] = sum[(c / IG_LANES - first) * step + tap * IG_LANES + c % IG_LANES];
    }
}
