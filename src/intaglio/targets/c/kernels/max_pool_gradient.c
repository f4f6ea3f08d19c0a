/* The gradient of MaxPool, of NDHWC data: each element of the output's gradient is added to the first tap under its
   window that holds the maximum. A task is row_block rows of the input of one image, at all depths. It goes through all
   windows that reach them, in order, so that sums are the same however rows are shared out.
   tasks: images * ceil(H / row_block) */
#include "kernel.h"

typedef struct {
    void *x, *y, *y_bar, *x_bar;
} IG_FUNCTION_buffers;

typedef struct {
#include "window_sizes.h"
    int64_t row_block;
} IG_FUNCTION_sizes;

#define COUNTS_PADS 0
#include "vector.h"
#include "range.h"

typedef __typeof__((VECTOR){0} == (VECTOR){0}) IG_FUNCTION_mask;

/* A window: the taps of each axis inside of the image, the place of tap (0, 0, 0) and its row of the input. */
typedef struct {
    int64_t range[6], origin, row;
} IG_FUNCTION_window;

/* n elements, the rest zero. */
IG_INLINE VECTOR IG_FUNCTION_take(const int is_whole, const ELEMENT *from, int64_t n)
{
    if (is_whole)
        return *(const VECTOR_AT *)from;
    VECTOR value = {0};
    for (int64_t l = 0; l < n; l++)
        value[l] = from[l];
    return value;
}

IG_INLINE void IG_FUNCTION_give(const int is_whole, ELEMENT *to, VECTOR value, int64_t n)
{
    if (is_whole)
        *(VECTOR_AT *)to = value;
    else
        for (int64_t l = 0; l < n; l++)
            to[l] = value[l];
}

/* The n channels from `col` on of the window of one output pixel; only rows first <= h < last are written. */
IG_INLINE void IG_FUNCTION_spread(const int is_whole, void *const *buffer, const int64_t *size,
                                  const IG_FUNCTION_window *window, int64_t pixel, int64_t first, int64_t last,
                                  int64_t col, int64_t n)
{
    const int64_t C = SIZE(C), H = SIZE(H), W = SIZE(W), *const range = window->range;
    const int64_t step_d = SIZE(dilation_d) * H * W * C, step_h = SIZE(dilation_h) * W * C;
    const int64_t step_w = SIZE(dilation_w) * C;
    const VECTOR top = IG_FUNCTION_take(is_whole, (const ELEMENT *)BUFFER(y) + pixel * C + col, n);
    VECTOR bar = IG_FUNCTION_take(is_whole, (const ELEMENT *)BUFFER(y_bar) + pixel * C + col, n);
    for (int64_t d = range[0]; d < range[1]; d++)
        for (int64_t h = range[2]; h < range[3]; h++) {
            const int64_t row = window->row + h * SIZE(dilation_h), start = window->origin + d * step_d + h * step_h;
            const int is_ours = row >= first && row < last;
            for (int64_t w = range[4]; w < range[5]; w++) {
                const int64_t place = start + w * step_w + col;
                const VECTOR x = IG_FUNCTION_take(is_whole, (const ELEMENT *)BUFFER(x) + place, n);
                const IG_FUNCTION_mask is_top = (x == top) | (x != x);
                if (is_ours) {
                    ELEMENT *const to = (ELEMENT *)BUFFER(x_bar) + place;
                    const VECTOR part = (VECTOR)((IG_FUNCTION_mask)bar & is_top);
                    IG_FUNCTION_give(is_whole, to, IG_FUNCTION_take(is_whole, to, n) + part, n);
                }
                bar = (VECTOR)((IG_FUNCTION_mask)bar & ~is_top);
            }
        }
}

/* One row of output pixels. */
static inline void IG_FUNCTION_row(void *const *buffer, const int64_t *size, IG_FUNCTION_window *window, int64_t pixel,
                                   int64_t first, int64_t last)
{
    const int64_t C = SIZE(C), W = SIZE(W), OW = SIZE(OW), stride = SIZE(stride_w), pad = SIZE(pad_w);
    const int64_t origin = window->origin;
    for (int64_t ow = 0; ow < OW; ow++, pixel++) {
        const int64_t start = ow * stride - pad;
        int64_t col = 0;
        IG_FUNCTION_range(start, SIZE(KW), SIZE(dilation_w), W, 0, window->range + 4);
        window->origin = origin + start * C;
        for (; col + LANES <= C; col += LANES)
            IG_FUNCTION_spread(1, buffer, size, window, pixel, first, last, col, LANES);
        if (col < C)
            IG_FUNCTION_spread(0, buffer, size, window, pixel, first, last, col, C - col);
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W), OD = SIZE(OD), OH = SIZE(OH), OW = SIZE(OW);
    const int64_t KH = SIZE(KH), stride_h = SIZE(stride_h), dilation_h = SIZE(dilation_h), pad_h = SIZE(pad_h);
    const int64_t blocks = (H + SIZE(row_block) - 1) / SIZE(row_block), reach = (KH - 1) * dilation_h;
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task % blocks, image = task / blocks;
        const int64_t first = H * block / blocks, last = H * (block + 1) / blocks;
        const int64_t before = first + pad_h - reach, behind = (last - 1 + pad_h) / stride_h + 1;
        const int64_t from = before > 0 ? (before + stride_h - 1) / stride_h : 0, to = behind < OH ? behind : OH;
        for (int64_t d = 0; d < D; d++)
            __builtin_memset((ELEMENT *)BUFFER(x_bar) + ((image * D + d) * H + first) * W * C, 0,
                             (uint64_t)((last - first) * W * C) * sizeof(ELEMENT));
        for (int64_t od = 0; od < OD; od++)
            for (int64_t oh = from; oh < to; oh++) {
                const int64_t d = od * SIZE(stride_d) - SIZE(pad_d), h = oh * stride_h - pad_h;
                IG_FUNCTION_window window = {.origin = ((image * D + d) * H + h) * W * C, .row = h};
                IG_FUNCTION_range(d, SIZE(KD), SIZE(dilation_d), D, 0, window.range);
                IG_FUNCTION_range(h, KH, dilation_h, H, 0, window.range + 2);
                IG_FUNCTION_row(buffer, size, &window, ((image * OD + od) * OH + oh) * OW, first, last);
            }
    }
}
