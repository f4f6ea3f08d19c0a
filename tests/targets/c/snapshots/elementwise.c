/* elementwise as C: run runs it.

   Contents:
     kernel_exp: Exp -> exp: float32[9, 9]
     kernel_sigmoid_mul: Sigmoid + Mul -> mul: float32[9, 9]
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

/* Exp
   buffers: float32 in, float32 out; sizes: columns */
static void kernel_exp(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const float *const x0 = buffer[0];
    float *const x1 = buffer[1];
    const int64_t columns = size[0];
    (void)columns;
    (void)scratch;
    const int64_t chunks = (columns + 16383) / 16384;
    for (int64_t task = begin; task < end; task++) {
        const int64_t from = task % chunks * 16384;
        const int64_t count = columns - from < 16384 ? columns - from : 16384;
        int64_t rest = task / chunks;
        (void)rest;
        const float *p0 = x0;
        float *p1 = x1;
        p0 += from * 1;
        p1 += from * 1;
        int64_t j = 0;
        for (; j + IG_LANES <= count; j += IG_LANES) {
            const ig_f32 v0 = ig_load_f32(p0 + j);
            const ig_f32 v1 = ig_exp_f32(v0);
            ig_store_f32(p1 + j, v1);
        }
        if (j < count) {
            const int64_t left = count - j;
            const ig_f32 v0 = ig_load_n_f32(p0 + j, left);
            const ig_f32 v1 = ig_exp_f32(v0);
            ig_store_n_f32(p1 + j, v1, left);
        }
    }
}

/* Sigmoid, Mul
   buffers: float32 in, float32 in, float32 out; sizes: columns, rows0, row_stride0_0, row_stride1_0, column_stride1_0,
       row_stride2_0 */
static void kernel_sigmoid_mul(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const float *const x0 = buffer[0];
    const float *const x1 = buffer[1];
    float *const x2 = buffer[2];
    const int64_t columns = size[0];
    const int64_t rows0 = size[1];
    const int64_t row_stride0_0 = size[2];
    const int64_t row_stride1_0 = size[3];
    const int64_t column_stride1_0 = size[4];
    const int64_t row_stride2_0 = size[5];
    (void)columns;
    (void)rows0;
    (void)row_stride0_0;
    (void)row_stride1_0;
    (void)column_stride1_0;
    (void)row_stride2_0;
    (void)scratch;
    const int64_t chunks = (columns + 16383) / 16384;
    for (int64_t task = begin; task < end; task++) {
        const int64_t from = task % chunks * 16384;
        const int64_t count = columns - from < 16384 ? columns - from : 16384;
        int64_t rest = task / chunks;
        (void)rest;
        const int64_t i0 = rest;
        (void)i0;
        const float *p0 = x0 + i0 * row_stride0_0;
        const float *p1 = x1 + i0 * row_stride1_0;
        float *p2 = x2 + i0 * row_stride2_0;
        p0 += from * 1;
        p1 += from * column_stride1_0;
        p2 += from * 1;
        int64_t j = 0;
        for (; j + IG_LANES <= count; j += IG_LANES) {
            const ig_f32 v0 = ig_load_f32(p0 + j);
            const ig_f32 v1 = ig_sigmoid_f32(v0);
            const ig_f32 v2 = ig_gather_f32(p1 + j * column_stride1_0, column_stride1_0, IG_LANES);
            const ig_f32 v3 = (v1 * v2);
            ig_store_f32(p2 + j, v3);
        }
        if (j < count) {
            const int64_t left = count - j;
            const ig_f32 v0 = ig_load_n_f32(p0 + j, left);
            const ig_f32 v1 = ig_sigmoid_f32(v0);
            const ig_f32 v2 = ig_gather_f32(p1 + j * column_stride1_0, column_stride1_0, left);
            const ig_f32 v3 = (v1 * v2);
            ig_store_n_f32(p2 + j, v3, left);
        }
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
    /* Exp -> exp: float32[9, 9] */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            (call->arena + call->offset[0]), /* exp */
        };
        const struct { int64_t columns; } size = {.columns = 81};
        const int64_t tasks = 1, cost = 59, scratch = 0;
        if (call->parallel(call, kernel_exp, buffer, (const int64_t *)&size, tasks, cost, scratch, 0))
            return 1;
    }
    /* Sigmoid + Mul -> mul: float32[9, 9] */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            (call->arena + call->offset[0]), /* exp */
            call->output[0], /* mul */
        };
        const struct { int64_t columns, rows0, row_stride0_0, row_stride1_0, column_stride1_0,
            row_stride2_0; } size = {
            .columns = 9, .rows0 = 9, .row_stride0_0 = 9, .row_stride1_0 = 1, .column_stride1_0 = 9,
            .row_stride2_0 = 9
        };
        const int64_t tasks = 9, cost = 8, scratch = 0;
        if (call->parallel(call, kernel_sigmoid_mul, buffer, (const int64_t *)&size, tasks, cost, scratch, 1))
            return 1;
    }
    return 0;
}
