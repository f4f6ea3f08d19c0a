/* Whether the input is NDHWC, and not NCDHW. */
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 1
#endif
/* How many channels of a group lie before the pixels and behind them, and how far apart the parts of the input lie. */
#if CHANNELS_LAST
#define CHANNELS_BEFORE 1
#define CHANNELS_BEHIND channels
#define PIXEL_STRIDE C
#define PLANE_STRIDE 0
#define GROUP_STRIDE channels
#else
#define CHANNELS_BEFORE channels
#define CHANNELS_BEHIND 1
#define PIXEL_STRIDE 1
#define PLANE_STRIDE D * H * W
/* clang-format off */
#define GROUP_STRIDE channels * D * H * W
/* clang-format on */
#endif

/* The part of the input that a block of the result reads. `channels` counts those of one group. */
typedef struct {
    const ELEMENT *data;
    int64_t channel, plane, row, pixel;
    int64_t depth, height, width;
} IG_FUNCTION_slab;

/* Copies `width` pixels from column `first` on; columns outside 0 <= column < limit are zero. A function of its own,
   which the compiler merges with that of other convolutions. */
static __attribute__((noinline)) void IG_FUNCTION_copy_row(const ELEMENT *from, int64_t from_pixel, int64_t first,
                                                           int64_t width, int64_t limit, int64_t run, ELEMENT *to)
{
    int64_t before = first < 0 ? -first : 0, inside = (first + width < limit ? first + width : limit) - first;
    before = before < width ? before : width;
    inside = inside > before ? inside : before;
    __builtin_memset(to, 0, (uint64_t)(before * run) * sizeof *to);
    from += (first + before) * from_pixel;
    ELEMENT *pixel = to + before * run;
    if (from_pixel == run)
        __builtin_memcpy(pixel, from, (uint64_t)((inside - before) * run) * sizeof *to);
    else
        for (int64_t i = before; i < inside; i++, from += from_pixel, pixel += run)
            for (int64_t c = 0; c < run; c++)
                pixel[c] = from[c];
    __builtin_memset(to + inside * run, 0, (uint64_t)((width - inside) * run) * sizeof *to);
}

/* Makes the slab that begins at (d, h, w) of `x`, with zeros outside of the input. */
static inline void IG_FUNCTION_fill(IG_FUNCTION_slab *slab, const ELEMENT *x, const int64_t *size, int64_t channels,
                                    int64_t d0, int64_t h0, int64_t w0, ELEMENT *to)
{
    const int64_t C = SIZE(C), D = SIZE(D), H = SIZE(H), W = SIZE(W);
    const int64_t run = CHANNELS_BEHIND, row = W * PIXEL_STRIDE, row_elements = slab->width * run;
    (void)C;
    slab->data = to;
    slab->pixel = run;
    slab->row = row_elements;
    slab->plane = slab->height * slab->row;
    slab->channel = slab->depth * slab->plane;
    for (int64_t c = 0; c < CHANNELS_BEFORE; c++)
        for (int64_t d = d0; d < d0 + slab->depth; d++)
            for (int64_t h = h0; h < h0 + slab->height; h++, to += row_elements) {
                if (d < 0 || d >= D || h < 0 || h >= H)
                    __builtin_memset(to, 0, (uint64_t)row_elements * sizeof *to);
                else
                    IG_FUNCTION_copy_row(x + c * PLANE_STRIDE + (d * H + h) * row, PIXEL_STRIDE, w0, slab->width, W,
                                         run, to);
            }
}
