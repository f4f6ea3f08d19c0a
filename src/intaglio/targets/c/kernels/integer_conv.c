/* Convolution of bytes, channels last: windows gathered into rows. A task is row_block output pixels by all output
   channels of one group. What lies outside counts as the zero point.
   tasks: groups * ceil(images * OD * OH * OW / row_block) */
#include "kernel.h"

typedef struct {
    void *x, *w, *zero_point; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
#include "window_sizes.h"
    int64_t groups, OC;
    int64_t row_block;
} IG_FUNCTION_sizes;

#define ROW_ZERO 0
#include "integer_tile.h"

#if QUADS
/* Copies a run of bytes, which may be short. */
static inline void IG_FUNCTION_take(LEFT *to, const RAW *from, int64_t count, int32_t zero)
{
    (void)zero;
    if (count >= 16) {
        for (int64_t k = 0; k + 16 <= count; k += 16)
            __builtin_memcpy(to + k, from + k, 16);
        __builtin_memcpy(to + count - 16, from + count - 16, 16);
    } else if (count >= 4) {
        if (count >= 8) {
            __builtin_memcpy(to, from, 8);
            __builtin_memcpy(to + count - 8, from + count - 8, 8);
        } else {
            __builtin_memcpy(to, from, 4);
            __builtin_memcpy(to + count - 4, from + count - 4, 4);
        }
    } else {
        for (int64_t k = 0; k < count; k++)
            to[k] = from[k];
    }
}

static inline void IG_FUNCTION_fill(LEFT *to, int64_t count, int32_t zero)
{
    __builtin_memset(to, zero, (unsigned long)count);
}
#else
/* Takes a run of bytes less their zero point. */
static inline void IG_FUNCTION_take(LEFT *to, const RAW *from, int64_t count, int32_t zero)
{
    typedef RAW narrow __attribute__((vector_size(8)));
    typedef int16_t wide __attribute__((vector_size(16)));
    int64_t k = 0;
    for (; k + 8 <= count; k += 8) {
        narrow raw;
        __builtin_memcpy(&raw, from + k, sizeof raw);
        const wide words = __builtin_convertvector(raw, wide) - (int16_t)zero;
        __builtin_memcpy(to + k, &words, sizeof words);
    }
    for (; k < count; k++)
        to[k] = (int16_t)(from[k] - zero);
}

static inline void IG_FUNCTION_fill(LEFT *to, int64_t count, int32_t zero)
{
    (void)zero;
    __builtin_memset(to, 0, (unsigned long)count * sizeof *to);
}
#endif

/* The window of one output pixel as a row: kernel rows one after the other, `count` channels from `x` on a tap. */
static inline void IG_FUNCTION_gather(const int64_t *size, const RAW *x, int64_t count, int64_t image, int64_t od,
                                      int64_t oh, int64_t ow, int32_t zero, LEFT *row)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W), KD = SIZE(KD), KH = SIZE(KH), KW = SIZE(KW);
    const int64_t stride_d = SIZE(stride_d), stride_h = SIZE(stride_h), stride_w = SIZE(stride_w);
    const int64_t dilation_d = SIZE(dilation_d), dilation_h = SIZE(dilation_h), dilation_w = SIZE(dilation_w);
    const int64_t pad_d = SIZE(pad_d), pad_h = SIZE(pad_h), pad_w = SIZE(pad_w);
    const int64_t left = ow * stride_w - pad_w;
    for (int64_t kd = 0; kd < KD; kd++)
        for (int64_t kh = 0; kh < KH; kh++, row += KW * count) {
            const int64_t d = od * stride_d - pad_d + kd * dilation_d, h = oh * stride_h - pad_h + kh * dilation_h;
            if (d < 0 || d >= D || h < 0 || h >= H) {
                IG_FUNCTION_fill(row, KW * count, zero);
                continue;
            }
            const RAW *line = x + ((image * D + d) * H + h) * W * C;
            if (dilation_w == 1 && count == C) {
                const int64_t before = left < 0 ? (-left < KW ? -left : KW) : 0;
                const int64_t end = W - left < 0 ? 0 : W - left < KW ? W - left : KW;
                const int64_t taps = end > before ? end - before : 0;
                if (before)
                    IG_FUNCTION_fill(row, before * C, zero);
                if (taps)
                    IG_FUNCTION_take(row + before * C, line + (left + before) * C, taps * C, zero);
                if (before + taps < KW)
                    IG_FUNCTION_fill(row + (before + taps) * C, (KW - before - taps) * C, zero);
                continue;
            }
            for (int64_t kw = 0; kw < KW; kw++) {
                const int64_t w = left + kw * dilation_w;
                if (w < 0 || w >= W)
                    IG_FUNCTION_fill(row + kw * count, count, zero);
                else
                    IG_FUNCTION_take(row + kw * count, line + w * C, count, zero);
            }
        }
}

/* The same for a window inside the input whose rows are runs of `run` bytes from `x` on. */
static inline void IG_FUNCTION_gather_runs(const RAW *x, int64_t planes, int64_t lines, int64_t plane, int64_t line,
                                           int64_t run, int32_t zero, LEFT *row)
{
    for (int64_t kd = 0; kd < planes; kd++)
        for (int64_t kh = 0; kh < lines; kh++, row += run)
            IG_FUNCTION_take(row, x + kd * plane + kh * line, run, zero);
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    enum { sum_bytes = BLOCK_ROWS * COLUMNS * 4 };
    const int64_t images = SIZE(images), C = SIZE(C), OD = SIZE(OD), OH = SIZE(OH), OW = SIZE(OW), KD = SIZE(KD);
    const int64_t KH = SIZE(KH), KW = SIZE(KW), groups = SIZE(groups), OC = SIZE(OC), row_block = SIZE(row_block);
    const int64_t D = SIZE(D), H = SIZE(H), W = SIZE(W), reach_d = (KD - 1) * SIZE(dilation_d);
    const int64_t reach_h = (KH - 1) * SIZE(dilation_h), step_d = SIZE(dilation_d) * H * W * C;
    const int64_t step_h = SIZE(dilation_h) * W * C;
    const int has_runs = SIZE(dilation_w) == 1 && groups == 1;
    const RAW *const x = BUFFER(x), *const zero_point = BUFFER(zero_point);
    const int64_t inputs = C / groups, outputs = OC / groups, panels = (outputs + COLUMNS - 1) / COLUMNS;
    const int64_t depth = KD * KH * KW * inputs, step = (depth + GROUP - 1) / GROUP * GROUP;
    const int64_t panel_size = step * COLUMNS + HEADER;
    const int64_t pixels = images * OD * OH * OW, blocks = (pixels + row_block - 1) / row_block;
    uint32_t *const sum = scratch, *const row_sum = (uint32_t *)((char *)scratch + sum_bytes);
    LEFT *const window = (LEFT *)((char *)scratch + sum_bytes + (row_block * 4 + 63) / 64 * 64);
    IG_FUNCTION_begin();
    for (int64_t task = begin; task < end; task++) {
        const int64_t which = task / blocks, block = task % blocks;
        const int64_t row = pixels * block / blocks, rows = pixels * (block + 1) / blocks - row;
        int64_t ow = row % OW, oh = row / OW % OH, od = row / OW / OH % OD, image = row / OW / OH / OD;
        for (int64_t r = 0; r < rows; r++) {
            LEFT *const to = window + r * step;
            const int64_t d = od * SIZE(stride_d) - SIZE(pad_d), h = oh * SIZE(stride_h) - SIZE(pad_h);
            const int64_t w = ow * SIZE(stride_w) - SIZE(pad_w);
            if (has_runs && d >= 0 && d + reach_d < D && h >= 0 && h + reach_h < H && w >= 0 && w + KW <= W)
                IG_FUNCTION_gather_runs(x + (((image * D + d) * H + h) * W + w) * C, KD, KH, step_d, step_h, KW * C,
                                        zero_point[0], to);
            else
                IG_FUNCTION_gather(size, x + which * inputs, inputs, image, od, oh, ow, zero_point[0], to);
            if (++ow == OW) {
                ow = 0;
                if (++oh == OH) {
                    oh = 0;
                    if (++od == OD)
                        od = 0, image++;
                }
            }
            for (int64_t k = depth; k < step; k++)
                to[k] = 0;
            if (HAS_ZERO)
                row_sum[r] = IG_FUNCTION_row_sum(to, depth);
        }
        const uint8_t *const weights = (const uint8_t *)BUFFER(w) + which * panels * panel_size;
        for (int64_t panel = 0; panel < panels; panel++) {
            const int64_t col = panel * COLUMNS;
            IG_FUNCTION_panel(buffer, size, window, step, weights + panel * panel_size, rows, step, zero_point, 0,
                              row_sum, row, which * outputs + col, outputs - col < COLUMNS ? outputs - col : COLUMNS,
                              sum);
        }
    }
    IG_FUNCTION_end();
}
