/* transpose as C: run runs it.

   Contents:
     kernel_transpose4: transposed copy of transpose
     run: runs the kernels of a segment in order */

#ifdef __GNUC__
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wpragmas"
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("arch=x86-64-v3")
#endif
#define IG_LANES 8

/* ig.h */

/* ig_math.h */

/* ig_loop.h */

static inline void kernel_transpose4_edge(const uint32_t *x, int64_t in_step, uint32_t *y, int64_t out_step,
    int64_t height,
                                    int64_t width)
{
    if (width < height) {
        for (int64_t c = 0; c < width; c++)
            for (int64_t r = 0; r < height; r++)
                y[r * out_step + c] = x[r + c * in_step];
    } else {
        for (int64_t r = 0; r < height; r++)
            for (int64_t c = 0; c < width; c++)
                y[r * out_step + c] = x[r + c * in_step];
    }
}
typedef uint32_t kernel_transpose4_vector
    __attribute__((vector_size(32), aligned(4), may_alias));
static inline void kernel_transpose4_square(const uint32_t *x, int64_t in_step,
                                      uint32_t *y, int64_t out_step)
{
    const kernel_transpose4_vector v0 = *(const kernel_transpose4_vector *)(x + 0 * in_step);
    const kernel_transpose4_vector v1 = *(const kernel_transpose4_vector *)(x + 1 * in_step);
    const kernel_transpose4_vector v2 = *(const kernel_transpose4_vector *)(x + 2 * in_step);
    const kernel_transpose4_vector v3 = *(const kernel_transpose4_vector *)(x + 3 * in_step);
    const kernel_transpose4_vector v4 = *(const kernel_transpose4_vector *)(x + 4 * in_step);
    const kernel_transpose4_vector v5 = *(const kernel_transpose4_vector *)(x + 5 * in_step);
    const kernel_transpose4_vector v6 = *(const kernel_transpose4_vector *)(x + 6 * in_step);
    const kernel_transpose4_vector v7 = *(const kernel_transpose4_vector *)(x + 7 * in_step);
    const kernel_transpose4_vector w13_0 = __builtin_shufflevector(v0, v1, 0, 8, 1, 9, 4, 12, 5, 13);
    const kernel_transpose4_vector w13_1 = __builtin_shufflevector(v0, v1, 2, 10, 3, 11, 6, 14, 7, 15);
    const kernel_transpose4_vector w15_0 = __builtin_shufflevector(v2, v3, 0, 8, 1, 9, 4, 12, 5, 13);
    const kernel_transpose4_vector w15_1 = __builtin_shufflevector(v2, v3, 2, 10, 3, 11, 6, 14, 7, 15);
    const kernel_transpose4_vector w17_0 = __builtin_shufflevector(v4, v5, 0, 8, 1, 9, 4, 12, 5, 13);
    const kernel_transpose4_vector w17_1 = __builtin_shufflevector(v4, v5, 2, 10, 3, 11, 6, 14, 7, 15);
    const kernel_transpose4_vector w19_0 = __builtin_shufflevector(v6, v7, 0, 8, 1, 9, 4, 12, 5, 13);
    const kernel_transpose4_vector w19_1 = __builtin_shufflevector(v6, v7, 2, 10, 3, 11, 6, 14, 7, 15);
    const kernel_transpose4_vector w21_0 = __builtin_shufflevector(w13_0, w15_0, 0, 1, 8, 9, 4, 5, 12, 13);
    const kernel_transpose4_vector w21_1 = __builtin_shufflevector(w13_0, w15_0, 2, 3, 10, 11, 6, 7, 14, 15);
    const kernel_transpose4_vector w23_0 = __builtin_shufflevector(w13_1, w15_1, 0, 1, 8, 9, 4, 5, 12, 13);
    const kernel_transpose4_vector w23_1 = __builtin_shufflevector(w13_1, w15_1, 2, 3, 10, 11, 6, 7, 14, 15);
    const kernel_transpose4_vector w25_0 = __builtin_shufflevector(w17_0, w19_0, 0, 1, 8, 9, 4, 5, 12, 13);
    const kernel_transpose4_vector w25_1 = __builtin_shufflevector(w17_0, w19_0, 2, 3, 10, 11, 6, 7, 14, 15);
    const kernel_transpose4_vector w27_0 = __builtin_shufflevector(w17_1, w19_1, 0, 1, 8, 9, 4, 5, 12, 13);
    const kernel_transpose4_vector w27_1 = __builtin_shufflevector(w17_1, w19_1, 2, 3, 10, 11, 6, 7, 14, 15);
    const kernel_transpose4_vector w29_0 = __builtin_shufflevector(w21_0, w25_0, 0, 1, 2, 3, 8, 9, 10, 11);
    const kernel_transpose4_vector w29_1 = __builtin_shufflevector(w21_0, w25_0, 4, 5, 6, 7, 12, 13, 14, 15);
    const kernel_transpose4_vector w31_0 = __builtin_shufflevector(w23_0, w27_0, 0, 1, 2, 3, 8, 9, 10, 11);
    const kernel_transpose4_vector w31_1 = __builtin_shufflevector(w23_0, w27_0, 4, 5, 6, 7, 12, 13, 14, 15);
    const kernel_transpose4_vector w33_0 = __builtin_shufflevector(w21_1, w25_1, 0, 1, 2, 3, 8, 9, 10, 11);
    const kernel_transpose4_vector w33_1 = __builtin_shufflevector(w21_1, w25_1, 4, 5, 6, 7, 12, 13, 14, 15);
    const kernel_transpose4_vector w35_0 = __builtin_shufflevector(w23_1, w27_1, 0, 1, 2, 3, 8, 9, 10, 11);
    const kernel_transpose4_vector w35_1 = __builtin_shufflevector(w23_1, w27_1, 4, 5, 6, 7, 12, 13, 14, 15);
    *(kernel_transpose4_vector *)(y + 0 * out_step) = w29_0;
    *(kernel_transpose4_vector *)(y + 1 * out_step) = w33_0;
    *(kernel_transpose4_vector *)(y + 2 * out_step) = w31_0;
    *(kernel_transpose4_vector *)(y + 3 * out_step) = w35_0;
    *(kernel_transpose4_vector *)(y + 4 * out_step) = w29_1;
    *(kernel_transpose4_vector *)(y + 5 * out_step) = w33_1;
    *(kernel_transpose4_vector *)(y + 6 * out_step) = w31_1;
    *(kernel_transpose4_vector *)(y + 7 * out_step) = w35_1;
}
/* transposed copy
   buffers: in, out; sizes: columns, rows, in_step, out_step, tile_height, tile_width, row_tiles, column_tiles */
static void kernel_transpose4(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t columns = size[0];
    const int64_t rows = size[1];
    const int64_t in_step = size[2];
    const int64_t out_step = size[3];
    const int64_t tile_height = size[4];
    const int64_t tile_width = size[5];
    const int64_t row_tiles = size[6];
    const int64_t column_tiles = size[7];
    for (int64_t task = begin; task < end; task++) {
        int64_t rest = task;
        const int64_t r0 = rest % row_tiles * tile_height;
        rest /= row_tiles;
        const int64_t c0 = rest % column_tiles * tile_width;
        rest /= column_tiles;
        const int64_t height = rows - r0 < tile_height ? rows - r0 : tile_height;
        const int64_t width = columns - c0 < tile_width ? columns - c0 : tile_width;
        const uint32_t *x = buffer[0];
        uint32_t *y = buffer[1];

        x += r0 + c0 * in_step;
        y += r0 * out_step + c0;
        int64_t c = 0;
        for (; c + 2 * 8 <= width; c += 2 * 8) {
            int64_t r = 0;
            for (; r + 2 * 8 <= height; r += 2 * 8)
                for (int part = 0; part < 4; part++) {
                    const int64_t down = r + part / 2 * 8, right = c + part % 2 * 8;
                    kernel_transpose4_square(x + down + right * in_step, in_step, y + down * out_step + right,
                        out_step);
                }
            kernel_transpose4_edge(x + r + c * in_step, in_step, y + r * out_step + c, out_step, height - r, 2 * 8);
        }
        for (; c + 8 <= width; c += 8) {
            int64_t r = 0;
            for (; r + 8 <= height; r += 8)
                kernel_transpose4_square(x + r + c * in_step, in_step, y + r * out_step + c, out_step);
            kernel_transpose4_edge(x + r + c * in_step, in_step, y + r * out_step + c, out_step, height - r, 8);
        }
        kernel_transpose4_edge(x + c * in_step, in_step, y + c, out_step, height, width - c);
    }
}

static __attribute__((noinline, const)) int64_t run_floordiv(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b == 0 ? 0 : (int64_t)-(uint64_t)a;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static __attribute__((noinline, const)) int64_t run_ceildiv(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b == 0 ? 0 : (int64_t)-(uint64_t)a;
    return a / b + (a % b != 0 && (a < 0) == (b < 0));
}
static __attribute__((noinline, const)) int64_t run_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static inline int64_t run_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t run_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int64_t run_broadcast(int64_t a, int64_t b)
{
    return a == 1 ? b : a;
}
static inline int64_t run_times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > __INT64_MAX__ / 4 ? __INT64_MAX__ / 4 : product;
}
static __attribute__((noinline)) int64_t run_product(int64_t a, int64_t b, int64_t *overflow)
{
    int64_t found;
    *overflow |= __builtin_mul_overflow(a, b, &found);
    return found;
}
static __attribute__((noinline)) int64_t run_sum(int64_t a, int64_t b, int64_t *overflow)
{
    int64_t found;
    *overflow |= __builtin_add_overflow(a, b, &found);
    return found;
}
static inline int64_t run_place(int64_t offset, const int64_t *overflow)
{
    return *overflow ? 0 : offset;
}
static inline int64_t run_cost(double ns)
{
    return ns < 1e15 ? (int64_t)ns : 1000000000000000;
}

int32_t run(const ig_call *call);
int32_t run(const ig_call *call)
{
    int64_t overflow = 0;
    (void)overflow;
    const int64_t n0 = call->dim[0]; /* m */
    (void)n0;
    const int64_t n1 = call->dim[1]; /* n */
    (void)n1;
    const int64_t calc0 = (n1 < 64);
    const int64_t calc1 = run_max(1, n1);
    const int64_t calc2 = run_floordiv(4096, (64LL * calc1));
    const int64_t calc3 = (calc0 != 0 ? (64LL * calc2) : 64);
    const int64_t calc4 = (n0 < 64);
    const int64_t calc5 = run_max(1, n0);
    const int64_t calc6 = run_floordiv(4096, (64LL * calc5));
    const int64_t calc7 = (calc4 != 0 ? (64LL * calc6) : 64);
    const int64_t calc8 = run_ceildiv(n0, calc3);
    const int64_t calc9 = run_ceildiv(n1, calc7);
    const int64_t calc10 = run_min(n0, calc3);
    const int64_t calc11 = run_min(n1, calc7);
    /* transposed copy of transpose */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            call->output[0], /* transpose */
        };
        const struct { int64_t columns, rows, in_step, out_step, tile_height, tile_width, row_tiles,
            column_tiles; } size = {
            .columns = n1, .rows = n0, .in_step = n0, .out_step = n1, .tile_height = calc3, .tile_width = calc7,
            .row_tiles = calc8, .column_tiles = calc9
        };
        const int64_t tasks = (calc8 * calc9), cost = run_cost((((double)calc10 * (double)calc11) / (3.0)) + 1.0),
            scratch = 0;
        if (call->parallel(call, kernel_transpose4, buffer, (const int64_t *)&size, tasks, cost, scratch, 0))
            return 1;
    }
    return 0;
}
