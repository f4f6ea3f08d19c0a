/* Rows of floats as bytes from -127 to 127 in blocks, each with a scale of its own: the greatest magnitude over 127.
   Behind the last number of a row are zeros up to a whole block. A block with a number that is not finite has the scale
   NaN; one whose magnitudes are all below LEAST is zero. A task is row_block rows.
   tasks: ceil(M / row_block) */
#include "kernel.h"

typedef struct {
    void *x, *bytes, *scales, *sums;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t M, K, x_step, block, row_block;
} IG_FUNCTION_sizes;

/* Whether four neighbours are kept as 16-bit numbers, the first and third in front of the second and fourth. */
#ifndef PAIRS
#define PAIRS 0
#endif
#define LEAST 1e-35f
#if PAIRS
#define LEFT int16_t
#define PLACE(k) ((k) / 4 * 4 + (k) % 2 * 2 + (k) % 4 / 2)
#else
#define LEFT int8_t
#define PLACE(k) (k)
#endif

/* One block of `count` numbers; returns its scale and writes the sum of its bytes. */
static inline float IG_FUNCTION_block(const float *x, int64_t count, int64_t block, LEFT *to, int32_t *sum)
{
    ig_f32 largest = {0};
    int64_t k = 0;
    for (; k + IG_LANES <= count; k += IG_LANES)
        largest = ig_max_f32(largest, ig_abs_f32(ig_load_f32(x + k)));
    if (k < count)
        largest = ig_max_f32(largest, ig_abs_f32(ig_load_n_f32(x + k, count - k)));
    const float most = ig_reduce_max_f32(largest);
    const int is_finite = most <= __FLT_MAX__;
    const float scale = most / 127, inverse = is_finite && most >= LEAST ? 1 / scale : 0;
    ig_i32 total = {0};
    for (k = 0; k < block; k += IG_LANES) {
        const int64_t left = count - k;
        ig_f32 some = left >= IG_LANES ? ig_load_f32(x + k) : left > 0 ? ig_load_n_f32(x + k, left) : (ig_f32){0};
        some = is_finite ? ig_round_f32(some * inverse) : (ig_f32){0};
        const ig_i32 number = __builtin_convertvector(some, ig_i32);
        total += number;
#if PAIRS
        for (int64_t l = 0; l < IG_LANES && k + l < block; l++)
            to[PLACE(k + l)] = (LEFT)number[l];
#else
        const ig_i8 bytes = __builtin_convertvector(number, ig_i8);
        __builtin_memcpy(to + k, &bytes, (unsigned long)(block - k < IG_LANES ? block - k : IG_LANES));
#endif
    }
    *sum = 0;
    for (int l = 0; l < IG_LANES; l++)
        *sum += total[l];
    return is_finite ? (inverse == 0 ? 0 : scale) : __builtin_nanf("");
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t M = SIZE(M), K = SIZE(K), x_step = SIZE(x_step), block = SIZE(block), row_block = SIZE(row_block);
    const int64_t blocks = (K + block - 1) / block, last = end * row_block < M ? end * row_block : M;
    LEFT *const bytes = BUFFER(bytes);
    float *const scales = BUFFER(scales);
    int32_t *const sums = BUFFER(sums);
    (void)scratch;
    for (int64_t row = begin * row_block; row < last; row++) {
        const float *const x = (const float *)BUFFER(x) + row * x_step;
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t place = row * blocks + b, left = K - b * block;
            scales[place] = IG_FUNCTION_block(x + b * block, left < block ? left : block, block, bytes + place * block,
                                              sums + place);
        }
    }
}
