/* The gradient of a convolution by its kernels, of an NDHWC input and gradient. A task is a block of the input channels
   of one group by panel_block panels of COLUMNS output channels, summed over all pixels of all images.
   tasks: groups * ceil(C / groups / channel_block) * ceil(ceil(OC / groups / COLUMNS) / panel_block) */
#include "kernel.h"

typedef struct {
    void *x, *y, *w;
} IG_FUNCTION_buffers;

typedef struct {
#include "window_sizes.h"
    int64_t groups, OC;
    int64_t channel_block, panel_block, image_block, row_block, col_block;
} IG_FUNCTION_sizes;

#define ROWS_ADJACENT 1
#define WEIGHTS_STRIDE 0
#include "tile.h"
#include "pack_rows.h"

/* A block of output pixels of some images, all at one depth, and the channels that a task works on. */
typedef struct {
    int64_t image, images, od, oh, height, ow, width;
    int64_t slab_height, slab_width; /* of the input that they read */
    int64_t channel, channels;       /* of the input, `channel` counted over all groups */
} IG_FUNCTION_block;

/* Copies `channels` channels of `width` pixels from column `first` on; columns outside of the input are zero. */
static inline void IG_FUNCTION_copy(const ELEMENT *row, int64_t step, int64_t first, int64_t width, int64_t limit,
                                    int64_t channels, ELEMENT *to)
{
    for (int64_t i = first; i < first + width; i++, to += channels) {
        if (i < 0 || i >= limit) {
            __builtin_memset(to, 0, (uint64_t)channels * sizeof *to);
            continue;
        }
        const ELEMENT *from = row + i * step;
        int64_t c = 0;
        for (; c + LANES <= channels; c += LANES)
            *(VECTOR_AT *)(to + c) = *(const VECTOR_AT *)(from + c);
        for (; c < channels; c++)
            to[c] = from[c];
    }
}

/* The input under tap `kd` of a block, with zeros around the image; tells whether there is any. */
static inline int IG_FUNCTION_slab(const int64_t *size, const ELEMENT *x, const IG_FUNCTION_block *block, int64_t kd,
                                   ELEMENT *to)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W);
    const int64_t d = block->od * SIZE(stride_d) + kd * SIZE(dilation_d) - SIZE(pad_d);
    const int64_t h0 = block->oh * SIZE(stride_h) - SIZE(pad_h), w0 = block->ow * SIZE(stride_w) - SIZE(pad_w);
    const int64_t row = block->slab_width * block->channels;
    if (d < 0 || d >= D)
        return 0;
    for (int64_t image = block->image; image < block->image + block->images; image++)
        for (int64_t h = h0; h < h0 + block->slab_height; h++, to += row) {
            if (h < 0 || h >= H)
                __builtin_memset(to, 0, (uint64_t)row * sizeof *to);
            else
                IG_FUNCTION_copy(x + ((image * D + d) * H + h) * W * C + block->channel, C, w0, block->slab_width, W,
                                 block->channels, to);
        }
    return 1;
}

/* Adds one panel of a block to the sums of one depth of the kernel: [KH][KW][channels][COLUMNS]. */
static inline void IG_FUNCTION_add(const int64_t *size, const IG_FUNCTION_block *block, const ELEMENT *slab,
                                   const ELEMENT *panel, const int64_t *tap, ELEMENT *sum)
{
    const int64_t channels = block->channels, KH = SIZE(KH), KW = SIZE(KW), dilation_w = SIZE(dilation_w);
    const int64_t runs = dilation_w == 1 ? 1 : KW, rows = KW / runs * channels;
    for (int64_t h = 0; h < KH; h++)
        for (int64_t run = 0; run < runs; run++, sum += rows * COLUMNS) {
            const ELEMENT *from = slab + (h * SIZE(dilation_h) * block->slab_width + run * dilation_w) * channels;
            for (int64_t first = 0, count; first < rows; first += count) {
                count = IG_FUNCTION_next(rows - first);
                IG_FUNCTION_tile(count, from + first, SIZE(stride_w) * channels, panel, 0, tap,
                                 block->images * block->height, block->width, sum + first * COLUMNS, 0);
            }
        }
}

/* Writes the sums of one panel, [taps][channels][COLUMNS], to kernels of `inputs` channels. */
static inline void IG_FUNCTION_give(const ELEMENT *sum, int64_t taps, int64_t channels, int64_t columns, int64_t inputs,
                                    ELEMENT *to)
{
    for (int64_t column = 0; column < columns; column++, to += inputs * taps)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t tap = 0; tap < taps; tap++)
                to[c * taps + tap] = sum[(tap * channels + c) * COLUMNS + column];
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t images = SIZE(images), OD = SIZE(OD), OH = SIZE(OH), OW = SIZE(OW), OC = SIZE(OC);
    const int64_t KD = SIZE(KD), KH = SIZE(KH), KW = SIZE(KW), groups = SIZE(groups);
    const int64_t inputs = SIZE(C) / groups, outputs = OC / groups, panels = (outputs + COLUMNS - 1) / COLUMNS;
    const int64_t channel_blocks = (inputs + SIZE(channel_block) - 1) / SIZE(channel_block);
    const int64_t panel_blocks = (panels + SIZE(panel_block) - 1) / SIZE(panel_block);
    const int64_t row_blocks = (OH + SIZE(row_block) - 1) / SIZE(row_block);
    const int64_t col_blocks = (OW + SIZE(col_block) - 1) / SIZE(col_block);
    const int64_t image_blocks = (images + SIZE(image_block) - 1) / SIZE(image_block);
    const int64_t blocks = image_blocks * OD * row_blocks * col_blocks, taps = KD * KH * KW;
    const int64_t most = SIZE(image_block) * SIZE(row_block);
    int64_t *tap = scratch;
    ELEMENT *sums = (ELEMENT *)(tap + (2 * most + 7) / 8 * 8);
    ELEMENT *packed = sums + SIZE(panel_block) * taps * SIZE(channel_block) * COLUMNS;
    ELEMENT *slab = packed + SIZE(panel_block) * most * SIZE(col_block) * COLUMNS;
    for (int64_t task = begin; task < end; task++) {
        const int64_t panel_index = task % panel_blocks, channel_index = task / panel_blocks % channel_blocks;
        const int64_t group = task / panel_blocks / channel_blocks;
        const int64_t channel = inputs * channel_index / channel_blocks;
        const int64_t panel = panels * panel_index / panel_blocks;
        const int64_t count = panels * (panel_index + 1) / panel_blocks - panel;
        IG_FUNCTION_block block = {.channel = group * inputs + channel};
        block.channels = inputs * (channel_index + 1) / channel_blocks - channel;
        const int64_t sum_step = taps * block.channels * COLUMNS;
        __builtin_memset(sums, 0, (uint64_t)(count * sum_step) * sizeof *sums);
        for (int64_t place = 0; place < blocks; place++) {
            const int64_t col_index = place % col_blocks, row_index = place / col_blocks % row_blocks;
            const int64_t image_index = place / col_blocks / row_blocks / OD;
            block.od = place / col_blocks / row_blocks % OD;
            block.image = images * image_index / image_blocks;
            block.images = images * (image_index + 1) / image_blocks - block.image;
            block.oh = OH * row_index / row_blocks;
            block.height = OH * (row_index + 1) / row_blocks - block.oh;
            block.ow = OW * col_index / col_blocks;
            block.width = OW * (col_index + 1) / col_blocks - block.ow;
            block.slab_height = (block.height - 1) * SIZE(stride_h) + (KH - 1) * SIZE(dilation_h) + 1;
            block.slab_width = (block.width - 1) * SIZE(stride_w) + (KW - 1) * SIZE(dilation_w) + 1;
            const int64_t pixels = block.images * block.height * block.width;
            for (int64_t i = 0; i < block.images * block.height; i++) {
                const int64_t image = i / block.height, h = i % block.height;
                const int64_t from = (((block.image + image) * OD + block.od) * OH + block.oh + h) * OW + block.ow;
                tap[2 * i] = (image * block.slab_height + h * SIZE(stride_h)) * block.slab_width * block.channels;
                tap[2 * i + 1] = i * block.width * COLUMNS;
                for (int64_t p = 0; p < count; p++) {
                    const int64_t left = outputs - (panel + p) * COLUMNS;
                    IG_FUNCTION_pack_rows((const ELEMENT *)BUFFER(y) + from * OC + group * outputs +
                                              (panel + p) * COLUMNS,
                                          OC, block.width, left < COLUMNS ? left : COLUMNS,
                                          packed + (p * pixels + i * block.width) * COLUMNS);
                }
            }
            for (int64_t kd = 0; kd < KD; kd++)
                if (IG_FUNCTION_slab(size, BUFFER(x), &block, kd, slab))
                    for (int64_t p = 0; p < count; p++)
                        IG_FUNCTION_add(size, &block, slab, packed + p * pixels * COLUMNS, tap,
                                        sums + p * sum_step + kd * KH * KW * block.channels * COLUMNS);
        }
        for (int64_t p = 0; p < count; p++) {
            const int64_t first = (panel + p) * COLUMNS, left = outputs - first;
            IG_FUNCTION_give(sums + p * sum_step, taps, block.channels, left < COLUMNS ? left : COLUMNS, inputs,
                             (ELEMENT *)BUFFER(w) + ((group * outputs + first) * inputs + channel) * taps);
        }
    }
}
