/* selection as C: run runs it.

   Contents:
     kernel_top_k: TopK -> topk: float32[n, 3]
     kernel_cumsum: CumSum -> cumsum: float32[n, 3]
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

/* The greatest or least `count` elements along an axis, in order: a heap of the best so far. A key is an element's rank
   and then its place, so that keys differ and their order is total. A task is a block of rows. */
/* the text of a file of kernels/ */

/* CumSum
   buffers: float32 in, float32 out; sizes: steps, rows0, row_stride0_0, row_stride1_0 */
static void kernel_cumsum(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const float *const x0 = buffer[0];
    float *const x1 = buffer[1];
    const int64_t steps = size[0];
    const int64_t rows0 = size[1];
    const int64_t row_stride0_0 = size[2];
    const int64_t row_stride1_0 = size[3];
    (void)steps;
    (void)rows0;
    (void)row_stride0_0;
    (void)row_stride1_0;
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        const int64_t i0 = task;
        const float *const p0 = x0 + i0 * row_stride0_0;
        float *const p1 = x1 + i0 * row_stride1_0;
        ig_f32_element total_v1 = 0;
        for (int64_t k = 0; k < steps; k++) {
            const ig_f32 v0 = ig_broadcast_f32(p0 + k);
            const ig_f32_element next_v1 = (ig_f32_element)(total_v1 + v0[0]);
            const ig_f32 v1 = ig_set_f32(next_v1);
            ig_scatter_f32(p1 + k, 0, v1, 1);
            total_v1 = next_v1;
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
    const int64_t calc0 = run_floordiv((n0 + 202LL), 203);
    /* TopK -> topk: float32[n, 3] */
    {
        int64_t fault = 0;
        void *const buffer[] = {
            call->input[0], /* x */
            (call->arena + call->offset[0]), /* topk */
            (call->arena + call->offset[1]), /* temporary */
            &fault,
        };
        const struct { int64_t extent, count, inner, outer, rows, block; } size = {
            .extent = 8, .count = 3, .inner = 1, .outer = n0, .rows = n0, .block = 203
        };
        const int64_t tasks = calc0, cost = 19489, scratch = 24;
        if (call->parallel(call, kernel_top_k, buffer, (const int64_t *)&size, tasks, cost, scratch, 0))
            return 1;
        if (fault)
            return 16;
    }
    /* CumSum -> cumsum: float32[n, 3] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[0]), /* topk */
            call->output[0], /* cumsum */
        };
        const struct { int64_t steps, rows0, row_stride0_0, row_stride1_0; } size = {
            .steps = 3, .rows0 = n0, .row_stride0_0 = 3, .row_stride1_0 = 3
        };
        const int64_t tasks = n0, cost = 11, scratch = 0;
        if (call->parallel(call, kernel_cumsum, buffer, (const int64_t *)&size, tasks, cost, scratch, 1))
            return 1;
    }
    return 0;
}
