/* resize as C: run runs it.

   Contents:
     kernel_resize_linear_table: Resize table of axis 2; Resize table of axis 3
     kernel_resize_mixed: Resize -> resize: float32[1, 2, 2*h, 2*w]
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

/* The `taps` elements of the input that each place of a resized axis is mixed from, and their weights; the first is -1
   where there is none. A task is a block of places. */
/* What plain kernels use: those that include this file are C11 and use C's library by its own names. */
/* the text of a file of kernels/ */

/* Resizing of up to two neighbouring axes with tables of weights: rows `a` of `in_b` times `inner` elements are mixed
   first, then the elements `b` of such a row. A task is one row of the result. */
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
    const int64_t n0 = call->dim[0]; /* h */
    (void)n0;
    const int64_t n1 = call->dim[1]; /* w */
    (void)n1;
    const int64_t calc0 = run_floordiv((2LL * n0 + 255LL), 256);
    const int64_t calc1 = run_floordiv((2LL * n1 + 255LL), 256);
    /* Resize table of axis 2 */
    {
        int64_t fault = 0;
        void *const buffer[] = {
            call->constant[0], /* constant */
            (call->arena + call->offset[0]), /* places */
            (call->arena + call->offset[1]), /* weights */
            &fault,
        };
        const struct { int64_t extent, resized, taps; } size = {.extent = n0, .resized = (2LL * n0), .taps = 2};
        const int64_t tasks = calc0, cost = 2000, scratch = 0;
        if (call->parallel(call, kernel_resize_linear_table, buffer, (const int64_t *)&size, tasks, cost, scratch, 0))
            return 1;
        if (fault)
            return 16;
    }
    /* Resize table of axis 3 */
    {
        int64_t fault = 0;
        void *const buffer[] = {
            call->constant[1], /* constant */
            (call->arena + call->offset[2]), /* places */
            (call->arena + call->offset[3]), /* weights */
            &fault,
        };
        const struct { int64_t extent, resized, taps; } size = {.extent = n1, .resized = (2LL * n1), .taps = 2};
        const int64_t tasks = calc1, cost = 2000, scratch = 0;
        if (call->parallel(call, kernel_resize_linear_table, buffer, (const int64_t *)&size, tasks, cost, scratch, 1))
            return 1;
        if (fault)
            return 17;
    }
    /* Resize -> resize: float32[1, 2, 2*h, 2*w] */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            call->output[0], /* resize */
            (call->arena + call->offset[0]), /* places */
            (call->arena + call->offset[1]), /* weights */
            (call->arena + call->offset[2]), /* places */
            (call->arena + call->offset[3]), /* weights */
            call->constant[2], /* constant */
        };
        const struct { int64_t in_a, out_a, in_b, out_b, inner; } size = {
            .in_a = n0, .out_a = (2LL * n0), .in_b = n1, .out_b = (2LL * n1), .inner = 1
        };
        const int64_t tasks = (4LL * n0), cost = run_cost(((6.0 * (double)n1) / (4.0)) + 1.0), scratch = (4LL * n1);
        if (call->parallel(call, kernel_resize_mixed, buffer, (const int64_t *)&size, tasks, cost, scratch, 2))
            return 1;
    }
    return 0;
}
