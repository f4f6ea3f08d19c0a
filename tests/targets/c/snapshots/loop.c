/* loop as C: run runs it.

   Contents:
     kernel_copy: copy of x
     kernel_cast: Cast -> cast: float32[]
     kernel_gemm: MatMul + Add + Tanh n x 4 x 4 -> matmul
     kernel_exp: Exp -> exp: float32[n, 4]
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

/* copy
   buffers: float32 in, float32 out; sizes: columns */
static void kernel_copy(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
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
            ig_store_f32(p1 + j, v0);
        }
        if (j < count) {
            const int64_t left = count - j;
            const ig_f32 v0 = ig_load_n_f32(p0 + j, left);
            ig_store_n_f32(p1 + j, v0, left);
        }
    }
}

/* Cast
   buffers: int64 in, float32 out; sizes: columns */
static void kernel_cast(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const x0 = buffer[0];
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
        const int64_t *p0 = x0;
        float *p1 = x1;
        p0 += from * 1;
        p1 += from * 1;
        int64_t j = 0;
        for (; j + IG_LANES <= count; j += IG_LANES) {
            const ig_i64 v0 = ig_load_i64(p0 + j);
            const ig_f32 v1 = ig_cast_i64_f32(v0);
            ig_store_f32(p1 + j, v1);
        }
        if (j < count) {
            const int64_t left = count - j;
            const ig_i64 v0 = ig_load_n_i64(p0 + j, left);
            const ig_f32 v1 = ig_cast_i64_f32(v0);
            ig_store_n_f32(p1 + j, v1, left);
        }
    }
}

/* sizes: M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner, row_block, panel_block,
    depth_block, epilogue_stride0 */
static inline void kernel_gemm_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col, ig_f32 acc)
{
    const ig_f32 v1 = ig_broadcast_f32((const float *)buffer[2]);
    const ig_f32 v2 = (acc + v1);
    const ig_f32 v3 = ig_tanh_f32(v2);
    ig_store_f32((float *)buffer[3] + row * size[14] + col, v3);
    (void)size, (void)row, (void)col;
}
static inline void kernel_gemm_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc, int64_t n)
{
    const ig_f32 v1 = ig_broadcast_f32((const float *)buffer[2]);
    const ig_f32 v2 = (acc + v1);
    const ig_f32 v3 = ig_tanh_f32(v2);
    ig_store_n_f32((float *)buffer[3] + row * size[14] + col, v3, n);
    (void)size, (void)row, (void)col;
}
/* Matrix product. A task is row_block rows by panel_block panels of COLUMNS columns of one product.
   tasks: outer * inner * ceil(M / row_block) * ceil(ceil(N / COLUMNS) / panel_block) */
/* the text of a file of kernels/ */

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
    const int64_t n0 = call->dim[0]; /* n */
    (void)n0;
    int64_t n1 = 0; /* loop:rounds */
    (void)n1;
    void *p0 = 0; /* state */
    void *p1 = 0; /* tanh */
    const int64_t calc0 = run_floordiv((4LL * n0 + 16383LL), 16384);
    const int64_t calc1 = run_min(16384, (4LL * n0));
    const int64_t threads = call->threads;
    const int64_t calc3 = run_ceildiv(n0, (4LL * threads));
    const int64_t calc4 = run_min(96, calc3);
    const int64_t calc5 = run_max(12, calc4);
    const int64_t calc6 = run_ceildiv(n0, calc5);
    p0 = (call->arena + call->offset[3]);
    p1 = (call->arena + call->offset[4]);
    /* copy of x */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            p0, /* state */
        };
        const struct { int64_t columns; } size = {.columns = (4LL * n0)};
        const int64_t tasks = calc0, cost = run_cost(((120.0 * (double)calc1) / (1000.0)) + 1.0), scratch = 0;
        if (call->parallel(call, kernel_copy, buffer, (const int64_t *)&size, tasks, cost, scratch, 1))
            return 1;
    }
    { /* Loop -> loop */
        const int64_t limit = *(const int64_t *)(call->constant[0]);
        int32_t goes_on = *(const uint8_t *)(call->constant[1]);
        for (n1 = 0; goes_on && n1 < limit; n1++) {
            const int32_t stop = call->round(call, n1);
            if (stop)
                return stop;
            { /* i */
                int64_t *out = (void *)(call->arena + call->offset[0]);
                out[0] = (int64_t)(n1);
                (void)out;
            }
            if (call->mark)
                call->mark(call, 3);
            { /* go */
                uint8_t *out = (void *)(call->arena + call->offset[1]);
                out[0] = (uint8_t)(1);
                (void)out;
            }
            if (call->mark)
                call->mark(call, 4);
            /* Cast -> cast: float32[] */
            {
                void *const buffer[] = {
                    (call->arena + call->offset[0]), /* i */
                    (call->arena + call->offset[2]), /* cast */
                };
                const struct { int64_t columns; } size = {.columns = 1};
                const int64_t tasks = 1, cost = 1, scratch = 0;
                if (call->parallel(call, kernel_cast, buffer, (const int64_t *)&size, tasks, cost, scratch, 5))
                    return 1;
            }
            /* MatMul + Add + Tanh n x 4 x 4 -> matmul */
            {
                void *const buffer[] = {
                    p0, /* state */
                    call->constant[2], /* packed */
                    (call->arena + call->offset[2]), /* cast */
                    p1, /* tanh */
                };
                const struct { int64_t M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner,
                    row_block, panel_block, depth_block, epilogue_stride0; } size = {
                    .M = n0, .N = 4, .K = 4, .outer = 1, .inner = 1, .a_step = 4, .a_outer = 0, .a_inner = 0,
                    .b_step = 0, .b_outer = 0, .b_inner = 0, .row_block = calc5, .panel_block = 1, .depth_block = 4,
                    .epilogue_stride0 = 4
                };
                const int64_t tasks = calc6, cost = run_cost((double)calc5 + 7.0), scratch = (32LL * calc5);
                if (call->parallel(call, kernel_gemm, buffer, (const int64_t *)&size, tasks, cost, scratch, 6))
                    return 1;
            }
            {
                void *const other = p0;
                p0 = p1;
                p1 = other;
            }
            goes_on = *(const uint8_t *)((call->arena + call->offset[1]));
        }
    }
    if (p0 != (void *)((call->arena + call->offset[3])))
        __builtin_memcpy((call->arena + call->offset[3]), p0, (unsigned long)(16LL * n0));
    /* Exp -> exp: float32[n, 4] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[3]), /* state */
            call->output[0], /* exp */
        };
        const struct { int64_t columns; } size = {.columns = (4LL * n0)};
        const int64_t tasks = calc0, cost = run_cost(((720.0 * (double)calc1) / (1000.0)) + 1.0), scratch = 0;
        if (call->parallel(call, kernel_exp, buffer, (const int64_t *)&size, tasks, cost, scratch, 9))
            return 1;
    }
    return 0;
}
