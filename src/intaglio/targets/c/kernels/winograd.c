/* Winograd's convolution for 3x3 filters, OUTPUT x OUTPUT outputs a tile. A task is tile_block tiles, all images in one
   row, by panel_block panels of COLUMNS output channels.
   tasks: ceil(images * ceil(OH / OUTPUT) * ceil(OW / OUTPUT) / tile_block) * ceil(ceil(OC / COLUMNS) / panel_block) */
#include "kernel.h"

/* Whether the weights are packed by `winograd_pack` in each run, and at hand as they were. */
#ifndef HAS_GIVEN
#define HAS_GIVEN 0
#endif

typedef struct {
    void *x, *w;
#if HAS_GIVEN
    void *given;
#endif
    /* the epilogue's are behind them */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t images, C, H, W, OH, OW;
    int64_t pad_h, pad_w, OC;
    int64_t tile_block, panel_block;
#if HAS_GIVEN
    int64_t first, output_step, channel_step, tap_step; /* where a weight stands in `given` */
#endif
} IG_FUNCTION_sizes;

/* The results of one axis that a tile gives: 2 or 4. */
#ifndef OUTPUT
#define OUTPUT 4
#endif
/* A tile whose squares add up to so much is computed directly. */
#ifndef LIMIT
#define LIMIT 0x1p40f
#endif
#define SIDE (OUTPUT + 2)
/* Channels whose weights are made again at once where a tile is computed directly. */
#define CHANNELS 8
/* How the taps of one axis come out of the transform: FACTOR * (o[PLUS] - o[MINUS]), nothing taken off for -1. */
#if OUTPUT == 2
#define PLUS 0, 1, 3
#define MINUS -1, 2, -1
#define FACTOR 1, 1, 1
#else
#define PLUS 0, 2, 5
#define MINUS -1, 1, -1
#define FACTOR 4, 3, 1
#endif
#include "tile.h"
#include "finish.h"

IG_INLINE void IG_FUNCTION_to_product(const ig_f32 *i, ig_f32 *o)
{
#if OUTPUT == 2
    o[0] = i[0] - i[2];
    o[1] = i[1] + i[2];
    o[2] = i[2] - i[1];
    o[3] = i[1] - i[3];
#else
    const ig_f32 a = i[4] - 4 * i[2], b = i[3] - 4 * i[1], c = i[4] - i[2], d = 2 * (i[3] - i[1]);
    o[0] = 4 * i[0] - 5 * i[2] + i[4];
    o[1] = a + b;
    o[2] = a - b;
    o[3] = c + d;
    o[4] = c - d;
    o[5] = 4 * i[1] - 5 * i[3] + i[5];
#endif
}

/* `n` channels of the pixel at (h, w); zero outside of the image. */
static inline ig_f32 IG_FUNCTION_pixel(const float *x, const int64_t *size, int64_t h, int64_t w, int64_t n)
{
    ig_f32 value = {0};
    if (h < 0 || h >= SIZE(H) || w < 0 || w >= SIZE(W))
        return value;
    const float *from = x + (h * SIZE(W) + w) * SIZE(C);
    if (n == LANES)
        return *(const ig_f32_at *)from;
    __builtin_memcpy(&value, from, (uint64_t)n * sizeof *from);
    return value;
}

/* Transforms the SIDE x SIDE pixels from (h, w) on, for every channel; position p goes to to[p * step]. Tells whether
   the sum of the squares of one channel is out of bounds or not a number. */
static inline int IG_FUNCTION_gather(const float *x, const int64_t *size, int64_t h, int64_t w, float *to, int64_t step)
{
    const int64_t C = SIZE(C), W = SIZE(W);
    const int is_inside = h >= 0 && w >= 0 && h + SIDE <= SIZE(H) && w + SIDE <= W;
    __typeof__((ig_f32){0} < (ig_f32){0}) is_small = (ig_f32){0} == (ig_f32){0};
    for (int64_t c = 0; c < C; c += LANES, to += LANES) {
        const int64_t n = C - c < LANES ? C - c : LANES;
        ig_f32 columns[SIDE][SIDE], copy[SIDE * SIDE], squares[2] = {{0}, {0}};
        const float *from = x + (h * W + w) * C + c;
        int64_t row_step = W * C, pixel_step = C;
        if (!is_inside || n < LANES) {
            for (int64_t i = 0; i < SIDE * SIDE; i++)
                copy[i] = IG_FUNCTION_pixel(x + c, size, h + i / SIDE, w + i % SIDE, n);
            from = (const float *)copy;
            row_step = SIDE * LANES;
            pixel_step = LANES;
        }
        IG_UNROLL for (int j = 0; j < SIDE; j++) {
            ig_f32 in[SIDE], out[SIDE];
            IG_UNROLL for (int i = 0; i < SIDE; i++)
                in[i] = *(const ig_f32_at *)(from + i * row_step + j * pixel_step);
            IG_UNROLL for (int i = 0; i < SIDE; i++)
                squares[j % 2] += in[i] * in[i];
            IG_FUNCTION_to_product(in, out);
            IG_UNROLL for (int i = 0; i < SIDE; i++)
                columns[i][j] = out[i];
        }
        is_small &= squares[0] + squares[1] < LIMIT - (ig_f32){0};
        IG_UNROLL for (int i = 0; i < SIDE; i++) {
            ig_f32 out[SIDE];
            IG_FUNCTION_to_product(columns[i], out);
            IG_UNROLL for (int j = 0; j < SIDE; j++)
                *(ig_f32_at *)(to + (i * SIDE + j) * step) = out[j];
        }
    }
    int is_large = 0;
    for (int l = 0; l < LANES; l++)
        is_large |= !is_small[l];
    return is_large;
}

/* The same pixels as they are. */
static __attribute__((noinline)) void IG_FUNCTION_copy(const float *x, const int64_t *size, int64_t h, int64_t w,
                                                       float *to, int64_t step)
{
    for (int64_t c = 0; c < SIZE(C); c += LANES)
        for (int64_t i = 0; i < SIDE * SIDE; i++)
            *(ig_f32_at *)(to + i * step + c) =
                IG_FUNCTION_pixel(x + c, size, h + i / SIDE, w + i % SIDE, SIZE(C) - c < LANES ? SIZE(C) - c : LANES);
}

IG_INLINE void IG_FUNCTION_from_product(const ig_f32 *i, ig_f32 *o)
{
#if OUTPUT == 2
    o[0] = i[0] + i[1] + i[2];
    o[1] = i[1] - i[2] - i[3];
#else
    const ig_f32 a = i[1] + i[2], b = i[1] - i[2], c = i[3] + i[4], d = i[3] - i[4];
    o[0] = i[0] + a + c;
    o[1] = b + 2 * d;
    o[2] = a + 4 * c;
    o[3] = b + 8 * d + i[5];
#endif
}

/* Transforms one tile's products back: `height` by `width` output pixels from result row `row` on. */
static inline void IG_FUNCTION_scatter(void *const *buffer, const int64_t *size, const float *from, int64_t step,
                                       int64_t row, int64_t height, int64_t width, int64_t col, int64_t columns)
{
    for (int64_t c = 0; c < columns; c += LANES) {
        ig_f32 lines[OUTPUT][SIDE], result[OUTPUT][OUTPUT];
        IG_UNROLL for (int j = 0; j < SIDE; j++) {
            ig_f32 in[SIDE], out[OUTPUT];
            IG_UNROLL for (int i = 0; i < SIDE; i++)
                in[i] = *(const ig_f32_at *)(from + c + (i * SIDE + j) * step);
            IG_FUNCTION_from_product(in, out);
            IG_UNROLL for (int i = 0; i < OUTPUT; i++)
                lines[i][j] = out[i];
        }
        IG_UNROLL for (int i = 0; i < OUTPUT; i++)
            IG_FUNCTION_from_product(lines[i], result[i]);
        for (int64_t i = 0; i < height; i++)
            for (int64_t j = 0; j < width; j++) {
                if (columns - c >= LANES)
                    ig_epilogue(buffer, size, row + i * SIZE(OW) + j, col + c, result[i][j]);
                else
                    ig_epilogue_n(buffer, size, row + i * SIZE(OW) + j, col + c, result[i][j], columns - c);
            }
    }
}

#if HAS_GIVEN
/* The nine taps of the panel from column `col` on, for `channels` channels from `c` on. */
static inline void IG_FUNCTION_taps(void *const *buffer, const int64_t *size, int64_t c, int64_t channels, int64_t col,
                                    float *to)
{
    const float *const given = (const float *)BUFFER(given) + SIZE(first) + c * SIZE(channel_step);
    for (int64_t k = 0; k < 9; k++)
        for (int64_t i = 0; i < channels; i++)
            for (int64_t o = 0; o < COLUMNS; o++)
                to[(k * CHANNELS + i) * COLUMNS + o] =
                    col + o < SIZE(OC)
                        ? given[(col + o) * SIZE(output_step) + i * SIZE(channel_step) + k * SIZE(tap_step)]
                        : 0;
}
#else
/* Makes the nine taps of one panel again, for `channels` channels from the transformed weights `w` on. */
static inline void IG_FUNCTION_taps(const float *w, int64_t position, int64_t channels, float *to)
{
    static const int plus[3] = {PLUS}, minus[3] = {MINUS}, factor[3] = {FACTOR};
    for (int k = 0; k < 9; k++) {
        const int i = k / 3, j = k % 3;
        const float *above = w + plus[i] * SIDE * position;
        for (int64_t c = 0; c < channels * COLUMNS; c += LANES) {
            ig_f32 tap = *(const ig_f32_at *)(above + plus[j] * position + c);
            if (minus[j] >= 0)
                tap -= *(const ig_f32_at *)(above + minus[j] * position + c);
            if (minus[i] >= 0) {
                const float *below = w + minus[i] * SIDE * position;
                ig_f32 other = *(const ig_f32_at *)(below + plus[j] * position + c);
                if (minus[j] >= 0)
                    other -= *(const ig_f32_at *)(below + minus[j] * position + c);
                tap -= other;
            }
            *(ig_f32_at *)(to + k * CHANNELS * COLUMNS + c) = tap * (float)(factor[i] * factor[j]);
        }
    }
}
#endif

/* One tile by direct sums of the pixels in `from`; the rest as for scatter. */
static __attribute__((noinline)) void IG_FUNCTION_direct(void *const *buffer, const int64_t *size, const float *from,
                                                         int64_t step, const float *w, int64_t row, int64_t height,
                                                         int64_t width, int64_t col, int64_t columns)
{
    float taps[9 * CHANNELS * COLUMNS], sums[OUTPUT][OUTPUT * COLUMNS];
    (void)w;
    const int64_t C = SIZE(C);
    int64_t tap[18];
    for (int64_t k = 0; k < 9; k++) {
        tap[2 * k] = (k / 3 * SIDE + k % 3) * step;
        tap[2 * k + 1] = k * CHANNELS * COLUMNS;
    }
    for (int64_t c = 0; c < C; c += CHANNELS) {
        const int64_t channels = C - c < CHANNELS ? C - c : CHANNELS;
#if HAS_GIVEN
        IG_FUNCTION_taps(buffer, size, c, channels, col, taps);
#else
        IG_FUNCTION_taps(w + c * COLUMNS, C * COLUMNS, channels, taps);
#endif
        for (int64_t i = 0; i < height; i++)
            IG_FUNCTION_tile(width, from + i * SIDE * step + c, step, taps, 0, tap, 9, channels, sums[i], c == 0);
    }
    for (int64_t i = 0; i < height; i++)
        IG_FUNCTION_finish(buffer, size, row + i * SIZE(OW), 1, width, col, columns, sums[i]);
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    static const int64_t here[2] = {0, 0};
    const int64_t images = SIZE(images), C = SIZE(C), H = SIZE(H), W = SIZE(W), OH = SIZE(OH), OW = SIZE(OW);
    const int64_t pad_h = SIZE(pad_h), pad_w = SIZE(pad_w), OC = SIZE(OC), tile_block = SIZE(tile_block);
    const int64_t panel_block = SIZE(panel_block);
    const int64_t across = (OW + OUTPUT - 1) / OUTPUT, down = (OH + OUTPUT - 1) / OUTPUT;
    const int64_t tiles = images * across * down, tile_blocks = (tiles + tile_block - 1) / tile_block;
    const int64_t panels = (OC + COLUMNS - 1) / COLUMNS, panel_blocks = (panels + panel_block - 1) / panel_block;
    const int64_t row_step = (C + LANES - 1) / LANES * LANES + LANES;
    const int64_t value_step = tile_block * row_step + LANES, sum_step = tile_block * COLUMNS + LANES;
    float *value = scratch, *sum = value + (SIDE * SIDE) * value_step;
    int64_t previous = -1;
    uint64_t large = 0; /* the tiles of the block to be computed directly, a bit each */
    int is_large = 0;   /* whether that is all of them */
#if HAS_GIVEN
    for (int64_t panel = 0; panel < panels; panel++)
        is_large |= ((const float *)BUFFER(w))[panels * (SIDE * SIDE) * C * COLUMNS + panel] != 0;
#endif
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task / panel_blocks, panel_index = task % panel_blocks;
        const int64_t first = tiles * block / tile_blocks, count = tiles * (block + 1) / tile_blocks - first;
        large = block == previous ? large : 0;
        for (int64_t t = 0; block != previous && t < count; t++) {
            const int64_t tile = first + t, h = tile / across % down * OUTPUT - pad_h;
            const int64_t w = tile % across * OUTPUT - pad_w;
            const float *image = (const float *)BUFFER(x) + tile / (across * down) * H * W * C;
            if (is_large || IG_FUNCTION_gather(image, size, h, w, value + t * row_step, value_step)) {
                IG_FUNCTION_copy(image, size, h, w, value + t * row_step, value_step);
                large |= (uint64_t)1 << t;
            }
        }
        previous = block;
        const int64_t last = panels * (panel_index + 1) / panel_blocks, parts = (count + ROWS - 1) / ROWS;
        for (int64_t panel = panels * panel_index / panel_blocks; panel < last; panel++) {
            const float *packed = (const float *)BUFFER(w) + panel * (SIDE * SIDE) * C * COLUMNS, *w = packed;
            const int64_t col = panel * COLUMNS, columns = OC - col < COLUMNS ? OC - col : COLUMNS;
            for (int64_t p = 0; p < (SIDE * SIDE); p++, w += C * COLUMNS)
                for (int64_t part = 0; part < parts; part++) {
                    const int64_t t = count * part / parts, rows = count * (part + 1) / parts - t;
                    IG_FUNCTION_tile(rows, value + p * value_step + t * row_step, row_step, w, 0, here, 1, C,
                                     sum + p * sum_step + t * COLUMNS, 1);
                }
            for (int64_t t = 0; t < count; t++) {
                const int64_t tile = first + t, image = tile / (across * down);
                const int64_t oh = tile / across % down * OUTPUT, ow = tile % across * OUTPUT;
                const int64_t row = (image * OH + oh) * OW + ow;
                const int64_t height = OH - oh < OUTPUT ? OH - oh : OUTPUT;
                const int64_t width = OW - ow < OUTPUT ? OW - ow : OUTPUT;
                if (large >> t & 1)
                    IG_FUNCTION_direct(buffer, size, value + t * row_step, value_step, packed, row, height, width, col,
                                       columns);
                else
                    IG_FUNCTION_scatter(buffer, size, sum + t * COLUMNS, sum_step, row, height, width, col, columns);
            }
        }
    }
}
