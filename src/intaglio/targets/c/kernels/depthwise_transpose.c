/* Depthwise transposed convolution of an NDHWC float32 input; every output gathers its inputs. A task is row_block rows
   of output pixels.
   tasks: images * OD * ceil(OH / row_block) */
#include "kernel.h"

typedef struct {
    void *x, *w; /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
#include "window_sizes.h"
    int64_t row_block;
} IG_FUNCTION_sizes;

#define RESULT ig_f32
#include "epilogue.h"
#include "fill.h"
#include "some_lanes.h"

/* The taps of one axis that reach output `o`: pairs of the input's index and the tap; returns how many. */
static inline int64_t IG_FUNCTION_reach(int64_t o, int64_t taps, int64_t stride, int64_t dilation, int64_t pad,
                                        int64_t extent, int64_t *pair)
{
    int64_t count = 0;
    for (int64_t k = 0; k < taps; k++) {
        const int64_t place = o + pad - k * dilation;
        if (place < 0 || place % stride || place / stride >= extent)
            continue;
        pair[2 * count] = place / stride;
        pair[2 * count + 1] = k;
        count++;
    }
    return count;
}

/* One output pixel for the n channels from `col` on: `rows` and `columns` are pairs of offsets into x and w. */
IG_INLINE ig_f32 IG_FUNCTION_pixel(const int is_whole, const float *x, const float *w, const int64_t *rows,
                                   int64_t row_count, const int64_t *columns, int64_t column_count, int64_t n)
{
    ig_f32 sum = {0};
    for (int64_t r = 0; r < row_count; r++)
        for (int64_t c = 0; c < column_count; c++)
            sum += IG_FUNCTION_load(is_whole, x + rows[2 * r] + columns[2 * c], n) *
                   IG_FUNCTION_load(is_whole, w + rows[2 * r + 1] + columns[2 * c + 1], n);
    return sum;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W), OD = SIZE(OD), OH = SIZE(OH), OW = SIZE(OW);
    const int64_t KD = SIZE(KD), KH = SIZE(KH), KW = SIZE(KW);
    const int64_t row_blocks = (OH + SIZE(row_block) - 1) / SIZE(row_block);
    const float *x = BUFFER(x), *w = BUFFER(w);
    int64_t *const depths = scratch, *const heights = depths + 2 * KD, *const rows = heights + 2 * KH;
    int64_t *const counts = rows + 2 * KD * KH, *const columns = counts + OW;
    for (int64_t ow = 0; ow < OW; ow++) {
        int64_t *const pair = columns + ow * 2 * KW;
        counts[ow] = IG_FUNCTION_reach(ow, KW, SIZE(stride_w), SIZE(dilation_w), SIZE(pad_w), W, pair);
        for (int64_t i = 0; i < 2 * counts[ow]; i++)
            pair[i] *= C;
    }
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task % row_blocks, od = task / row_blocks % OD, image = task / row_blocks / OD;
        const int64_t deep = IG_FUNCTION_reach(od, KD, SIZE(stride_d), SIZE(dilation_d), SIZE(pad_d), D, depths);
        for (int64_t oh = OH * block / row_blocks; oh < OH * (block + 1) / row_blocks; oh++) {
            const int64_t high = IG_FUNCTION_reach(oh, KH, SIZE(stride_h), SIZE(dilation_h), SIZE(pad_h), H, heights);
            for (int64_t i = 0; i < deep * high; i++) {
                const int64_t *const d = depths + i / high * 2, *const h = heights + i % high * 2;
                rows[2 * i] = ((image * D + d[0]) * H + h[0]) * W * C;
                rows[2 * i + 1] = (d[1] * KH + h[1]) * KW * C;
            }
            for (int64_t ow = 0; ow < OW; ow++) {
                const int64_t row = ((image * OD + od) * OH + oh) * OW + ow;
                int64_t c = 0;
                for (; HAS_WHOLE && c + IG_LANES <= C; c += IG_LANES)
                    ig_epilogue(buffer, size, row, c,
                                IG_FUNCTION_pixel(1, x + c, w + c, rows, deep * high, columns + ow * 2 * KW, counts[ow],
                                                  IG_LANES));
                if (HAS_PART && c < C)
                    ig_epilogue_n(
                        buffer, size, row, c,
                        IG_FUNCTION_pixel(0, x + c, w + c, rows, deep * high, columns + ow * 2 * KW, counts[ow], C - c),
                        C - c);
            }
        }
    }
}
