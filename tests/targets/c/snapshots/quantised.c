/* quantised as C: run runs it.

   Contents:
     kernel_quantizelinear: QuantizeLinear -> quantizelinear: uint8[n, 16]
     kernel_integer_gemm: MatMulInteger + Cast + Mul n x 12 x 16 -> matmulinteger
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

/* QuantizeLinear
   buffers: float32 in, float32 in, uint8 in, uint8 out; sizes: columns */
static void kernel_quantizelinear(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const float *const x0 = buffer[0];
    const float *const x1 = buffer[1];
    const uint8_t *const x2 = buffer[2];
    uint8_t *const x3 = buffer[3];
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
        const float *p1 = x1;
        const uint8_t *p2 = x2;
        uint8_t *p3 = x3;
        p0 += from * 1;
        p3 += from * 1;
        const ig_f32 v0 = ig_broadcast_f32(p1);
        const ig_u8 v1 = ig_broadcast_u8(p2);
        int64_t j = 0;
        for (; j + IG_LANES <= count; j += IG_LANES) {
            const ig_f32 v2 = ig_load_f32(p0 + j);
            const ig_u8 v3 = ig_quantize_u8((v2 / v0), v1);
            ig_store_u8(p3 + j, v3);
        }
        if (j < count) {
            const int64_t left = count - j;
            const ig_f32 v2 = ig_load_n_f32(p0 + j, left);
            const ig_u8 v3 = ig_quantize_u8((v2 / v0), v1);
            ig_store_n_u8(p3 + j, v3, left);
        }
    }
}

/* sizes: M, N, K, outer, inner, a_step, a_outer, a_inner, b_outer, b_inner, zero_step, row_block, panel_block,
    epilogue_stride0 */
static inline void kernel_integer_gemm_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_i32 acc)
{
    const ig_f32 v1 = ig_broadcast_f32((const float *)buffer[3]);
    const ig_f32 v2 = ig_cast_i32_f32(acc);
    const ig_f32 v3 = (v2 * v1);
    ig_store_f32((float *)buffer[4] + row * size[13] + col, v3);
    (void)size, (void)row, (void)col;
}
static inline void kernel_integer_gemm_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_i32 acc, int64_t n)
{
    const ig_f32 v1 = ig_broadcast_f32((const float *)buffer[3]);
    const ig_f32 v2 = ig_cast_i32_f32(acc);
    const ig_f32 v3 = (v2 * v1);
    ig_store_n_f32((float *)buffer[4] + row * size[13] + col, v3, n);
    (void)size, (void)row, (void)col;
}
/* Matrix product of bytes. A task is row_block rows by panel_block panels of COLUMNS columns of one product.
   tasks: outer * inner * ceil(M / row_block) * ceil(ceil(N / COLUMNS) / panel_block) */
/* the text of a file of kernels/ */

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
    const int64_t calc0 = run_floordiv((16LL * n0 + 16383LL), 16384);
    const int64_t calc1 = run_min((16LL * n0), 16384);
    const int64_t threads = call->threads;
    const int64_t calc3 = run_ceildiv(n0, (4LL * threads));
    const int64_t calc4 = run_min(48, calc3);
    const int64_t calc5 = run_max(6, calc4);
    const int64_t calc6 = run_ceildiv(n0, calc5);
    const int64_t calc7 = run_floordiv((4LL * calc5 + 63LL), 64);
    /* QuantizeLinear -> quantizelinear: uint8[n, 16] */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            call->constant[0], /* constant */
            call->constant[1], /* constant */
            (call->arena + call->offset[0]), /* quantizelinear */
        };
        const struct { int64_t columns; } size = {.columns = (16LL * n0)};
        const int64_t tasks = calc0, cost = run_cost(((320.0 * (double)calc1) / (1000.0)) + 1.0), scratch = 0;
        if (call->parallel(call, kernel_quantizelinear, buffer, (const int64_t *)&size, tasks, cost, scratch, 0))
            return 1;
    }
    /* MatMulInteger + Cast + Mul n x 12 x 16 -> matmulinteger */
    {
        void *const buffer[] = {
            (call->arena + call->offset[0]), /* quantizelinear */
            call->constant[3], /* packed */
            call->constant[1], /* constant */
            call->constant[2], /* constant */
            call->output[0], /* mul */
        };
        const struct { int64_t M, N, K, outer, inner, a_step, a_outer, a_inner, b_outer, b_inner, zero_step,
            row_block, panel_block, epilogue_stride0; } size = {
            .M = n0, .N = 12, .K = 16, .outer = 1, .inner = 1, .a_step = 16, .a_outer = 0, .a_inner = 0,
            .b_outer = 0, .b_inner = 0, .zero_step = 0, .row_block = calc5, .panel_block = 1,
            .epilogue_stride0 = 12
        };
        const int64_t tasks = calc6, cost = run_cost(4.0 * (double)calc5 + 1.0), scratch = (64LL * calc7 + 32LL * calc5
            + 384LL);
        if (call->parallel(call, kernel_integer_gemm, buffer, (const int64_t *)&size, tasks, cost, scratch, 1))
            return 1;
    }
    return 0;
}
