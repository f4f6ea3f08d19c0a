/* sizes of data as C: run runs it.

   Contents:
     kernel_greater: Greater -> greater: bool[7*n]
     kernel_count_nonzero: NonZero -> nonzero: int64[1, 'nonzero.0']
     kernel_reducesum: sum of counts
     kernel_nonzero: NonZero -> nonzero: int64[1, 'nonzero.0']
     kernel_gather: Gather -> gather: float32['nonzero.0']
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

/* Greater
   buffers: float32 in, bool out; sizes: columns */
static void kernel_greater(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const float *const x0 = buffer[0];
    uint8_t *const x1 = buffer[1];
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
        uint8_t *p1 = x1;
        p0 += from * 1;
        p1 += from * 1;
        int64_t j = 0;
        for (; j + IG_LANES <= count; j += IG_LANES) {
            const ig_f32 v0 = ig_load_f32(p0 + j);
            const ig_u8 v1 = (ig_cast_i32_u8(ig_gt_f32(v0, ig_set_f32(0x1.0000000000000p-1f))) & 1);
            ig_store_u8(p1 + j, v1);
        }
        if (j < count) {
            const int64_t left = count - j;
            const ig_f32 v0 = ig_load_n_f32(p0 + j, left);
            const ig_u8 v1 = (ig_cast_i32_u8(ig_gt_f32(v0, ig_set_f32(0x1.0000000000000p-1f))) & 1);
            ig_store_n_u8(p1 + j, v1, left);
        }
    }
}

/* Counts what is not zero. A task is BLOCK elements, and has a count of its own. */
/* What plain kernels use: those that include this file are C11 and use C's library by its own names. */
/* the text of a file of kernels/ */

/* ReduceSum
   buffers: int64 in, int64 out; sizes: columns */
static void kernel_reducesum(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const x0 = buffer[0];
    int64_t *const x1 = buffer[1];
    const int64_t columns = size[0];
    (void)columns;
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        int64_t rest = task;
        (void)rest;
        const int64_t *p0 = x0;
        int64_t *p1 = x1;
        ig_i64 sum_v0 = ig_set_i64((ig_i64_element)0LL);
        ig_i64 sum_v0_1 = ig_set_i64((ig_i64_element)0LL);
        ig_i64 sum_v0_2 = ig_set_i64((ig_i64_element)0LL);
        ig_i64 sum_v0_3 = ig_set_i64((ig_i64_element)0LL);
        {
            int64_t start = 0;
            for (; start + 4 * IG_LANES <= columns; start += 4 * IG_LANES) {
                {
                    const int64_t j = start + 0 * IG_LANES;
                    const ig_i64 v1 = ig_load_i64(p0 + j);
                    sum_v0 = ig_add_i64(v1, sum_v0);
                }
                {
                    const int64_t j = start + 1 * IG_LANES;
                    const ig_i64 v1 = ig_load_i64(p0 + j);
                    sum_v0_1 = ig_add_i64(v1, sum_v0_1);
                }
                {
                    const int64_t j = start + 2 * IG_LANES;
                    const ig_i64 v1 = ig_load_i64(p0 + j);
                    sum_v0_2 = ig_add_i64(v1, sum_v0_2);
                }
                {
                    const int64_t j = start + 3 * IG_LANES;
                    const ig_i64 v1 = ig_load_i64(p0 + j);
                    sum_v0_3 = ig_add_i64(v1, sum_v0_3);
                }
            }
            int64_t j = start;
            for (; j + IG_LANES <= columns; j += IG_LANES) {
                const ig_i64 v1 = ig_load_i64(p0 + j);
                sum_v0 = ig_add_i64(v1, sum_v0);
            }
            if (j < columns) {
                const int64_t left = columns - j;
                const ig_i64 v1 = ig_load_n_i64(p0 + j, left);
                sum_v0 = ig_add_i64(ig_keep_i64(v1, ig_set_i64((ig_i64_element)0LL), left), sum_v0);
            }
        }
        sum_v0 = ig_add_i64(sum_v0, sum_v0_2);
        sum_v0_1 = ig_add_i64(sum_v0_1, sum_v0_3);
        sum_v0 = ig_add_i64(sum_v0, sum_v0_1);
        const ig_i64 v0 = ig_set_i64(ig_reduce_add_i64(sum_v0));
        ig_store_n_i64(p1, v0, 1);
    }
}

/* Writes the indices of what is not zero along each axis. A task is BLOCK elements, whose indices stand behind those of
   the tasks before it. */
/* What plain kernels use: those that include this file are C11 and use C's library by its own names. */
/* the text of a file of kernels/ */

/* Copies what stands at each index along an axis: rows of `inner` elements, which lie side by side. A task is `block`
   rows of the result. */
/* What plain kernels use: those that include this file are C11 and use C's library by its own names. */
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
    int64_t n1 = 0; /* nonzero.0 */
    (void)n1;
    void *b0 = 0; /* nonzero */
    void *r0 = 0; /* gather */
    const int64_t calc0 = run_floordiv((7LL * n0 + 16383LL), 16384);
    const int64_t calc1 = run_min(16384, (7LL * n0));
    int64_t calc2 = 0;
    /* Greater -> greater: bool[7*n] */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            (call->arena + call->offset[0]), /* greater */
        };
        const struct { int64_t columns; } size = {.columns = (7LL * n0)};
        const int64_t tasks = calc0, cost = run_cost(((170.0 * (double)calc1) / (1000.0)) + 1.0), scratch = 0;
        if (call->parallel(call, kernel_greater, buffer, (const int64_t *)&size, tasks, cost, scratch, 0))
            return 1;
    }
    /* NonZero -> nonzero: int64[1, 'nonzero.0'] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[0]), /* greater */
            (call->arena + call->offset[1]), /* counts */
        };
        const struct { int64_t total; } size = {.total = (7LL * n0)};
        const int64_t tasks = calc0, cost = 4096, scratch = 0;
        if (call->parallel(call, kernel_count_nonzero, buffer, (const int64_t *)&size, tasks, cost, scratch, 1))
            return 1;
    }
    /* sum of counts */
    {
        void *const buffer[] = {
            (call->arena + call->offset[1]), /* counts */
            (call->arena + call->offset[2]), /* total */
        };
        const struct { int64_t columns; } size = {.columns = calc0};
        const int64_t tasks = 1, cost = run_cost(((720.0 * ((7.0 * (double)n0 + 16383.0) / (16384.0))) /
            (1000.0)) + 1.0), scratch = 0;
        if (call->parallel(call, kernel_reducesum, buffer, (const int64_t *)&size, tasks, cost, scratch, 2))
            return 1;
    }
    /* sizes of NonZero -> nonzero */
    {
        const int64_t *const number = (const void *)(call->arena + call->offset[2]);
        n1 = number[0];
    }
    calc2 = run_floordiv(run_sum(n1, 3276LL, &overflow), 3277);
    if (overflow)
        return 5;
    if (call->mark)
        call->mark(call, 3);
    call->release(call, b0);
    b0 = call->allocate(call, (run_times(8LL, n1)));
    if (!b0)
        return 20;
    /* NonZero -> nonzero: int64[1, 'nonzero.0'] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[0]), /* greater */
            (call->arena + call->offset[1]), /* counts */
            b0, /* nonzero */
        };
        const struct { int64_t total, found, extent0; } size = {
            .total = (7LL * n0), .found = n1, .extent0 = (7LL * n0)
        };
        const int64_t tasks = calc0, cost = 8192, scratch = 0;
        if (call->parallel(call, kernel_nonzero, buffer, (const int64_t *)&size, tasks, cost, scratch, 5))
            return 1;
    }
    {
        const int64_t shape[] = {n1};
        r0 = call->result(call, 0, 1, shape);
    }
    if (!r0)
        return 22;
    /* Gather -> gather: float32['nonzero.0'] */
    {
        int64_t fault = 0;
        void *const buffer[] = {
            call->input[0], /* x */
            b0, /* nonzero */
            r0, /* gather */
            &fault,
        };
        const struct { int64_t rows, count, extent, inner, outer_step, axis_step, block; } size = {
            .rows = n1, .count = n1, .extent = (7LL * n0), .inner = 1, .outer_step = 0, .axis_step = 1,
            .block = 3277
        };
        const int64_t tasks = calc2, cost = 13109, scratch = 0;
        if (call->parallel(call, kernel_gather, buffer, (const int64_t *)&size, tasks, cost, scratch, 7))
            return 1;
        if (fault)
            return 23;
    }
    call->release(call, b0);
    b0 = 0;
    return 0;
}
