/* encoder as C: run runs it.

   Contents:
     kernel_gemm: MatMul length*n x 16 x 16 -> matmul; MatMul length*n x 16 x 16 -> matmul_1; MatMul length*n x 16
         x 16 -> matmul_2
     kernel_gemm_2: MatMul length x length x 16 -> matmul_3
     kernel_reducemax_sub_exp_reducesum_and_1_more: ReduceMax + Sub + Exp + ReduceSum + Div -> div: float32[n,
         length, length]
     kernel_gemm_3: MatMul + Add length x 16 x length -> matmul_4
     kernel_reducemean_sub_mul_reducemean_and_6_more: ReduceMean + Sub + Mul + Add + Sqrt + Reciprocal -> add_2:
         float32[n, length, 16]
     kernel_gemm_4: MatMul + Mul + Mul + Erf + Add + Mul length*n x 24 x 16 -> matmul_5
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

/* sizes: M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner, row_block, panel_block,
    depth_block, epilogue_stride0 */
static inline void kernel_gemm_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col, ig_f32 acc)
{
    ig_store_f32((float *)buffer[2] + row * size[14] + col, acc);
    (void)size, (void)row, (void)col;
}
static inline void kernel_gemm_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc, int64_t n)
{
    ig_store_n_f32((float *)buffer[2] + row * size[14] + col, acc, n);
    (void)size, (void)row, (void)col;
}
/* Matrix product. A task is row_block rows by panel_block panels of COLUMNS columns of one product.
   tasks: outer * inner * ceil(M / row_block) * ceil(ceil(N / COLUMNS) / panel_block) */
/* the text of a file of kernels/ */

/* sizes: M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner, row_block, panel_block,
    depth_block, epilogue_stride0 */
static inline void kernel_gemm_2_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc)
{
    ig_store_f32((float *)buffer[2] + row * size[14] + col, acc);
    (void)size, (void)row, (void)col;
}
static inline void kernel_gemm_2_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc, int64_t n)
{
    ig_store_n_f32((float *)buffer[2] + row * size[14] + col, acc, n);
    (void)size, (void)row, (void)col;
}
/* Matrix product. A task is row_block rows by panel_block panels of COLUMNS columns of one product.
   tasks: outer * inner * ceil(M / row_block) * ceil(ceil(N / COLUMNS) / panel_block) */
/* the text of a file of kernels/ */

/* ReduceMax, Sub, Exp, ReduceSum, Div
   buffers: float32 in, float32 out; sizes: columns, rows0, row_stride0_0, row_stride1_0 */
static void kernel_reducemax_sub_exp_reducesum_and_1_more(void *const *buffer, const int64_t *size, int64_t begin,
    int64_t end, void *scratch)
{
    const float *const x0 = buffer[0];
    float *const x1 = buffer[1];
    const int64_t columns = size[0];
    const int64_t rows0 = size[1];
    const int64_t row_stride0_0 = size[2];
    const int64_t row_stride1_0 = size[3];
    (void)columns;
    (void)rows0;
    (void)row_stride0_0;
    (void)row_stride1_0;
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        int64_t rest = task;
        (void)rest;
        const int64_t i0 = rest;
        (void)i0;
        const float *p0 = x0 + i0 * row_stride0_0;
        float *p1 = x1 + i0 * row_stride1_0;
        const int64_t span = (columns * 8 + 63) / 64 * 64;
        ig_f32 sum_v0 = ig_set_f32(ig_lowest_f32);
        ig_f32 sum_v0_1 = ig_set_f32(ig_lowest_f32);
        ig_f32 sum_v0_2 = ig_set_f32(ig_lowest_f32);
        ig_f32 sum_v0_3 = ig_set_f32(ig_lowest_f32);
        {
            const int64_t base = (0) * columns;
            int64_t start = 0;
            for (; start + 4 * IG_LANES <= columns; start += 4 * IG_LANES) {
                {
                    const int64_t j = start + 0 * IG_LANES;
                    const ig_f32 v1 = ig_load_f32(p0 + j);
                    sum_v0 = ig_max_f32(v1, sum_v0);
                }
                {
                    const int64_t j = start + 1 * IG_LANES;
                    const ig_f32 v1 = ig_load_f32(p0 + j);
                    sum_v0_1 = ig_max_f32(v1, sum_v0_1);
                }
                {
                    const int64_t j = start + 2 * IG_LANES;
                    const ig_f32 v1 = ig_load_f32(p0 + j);
                    sum_v0_2 = ig_max_f32(v1, sum_v0_2);
                }
                {
                    const int64_t j = start + 3 * IG_LANES;
                    const ig_f32 v1 = ig_load_f32(p0 + j);
                    sum_v0_3 = ig_max_f32(v1, sum_v0_3);
                }
            }
            int64_t j = start;
            for (; j + IG_LANES <= columns; j += IG_LANES) {
                const ig_f32 v1 = ig_load_f32(p0 + j);
                sum_v0 = ig_max_f32(v1, sum_v0);
            }
            if (j < columns) {
                const int64_t left = columns - j;
                const ig_f32 v1 = ig_load_n_f32(p0 + j, left);
                sum_v0 = ig_max_f32(ig_keep_f32(v1, ig_set_f32(ig_lowest_f32), left), sum_v0);
            }
        }
        sum_v0 = ig_max_f32(sum_v0, sum_v0_2);
        sum_v0_1 = ig_max_f32(sum_v0_1, sum_v0_3);
        sum_v0 = ig_max_f32(sum_v0, sum_v0_1);
        const ig_f32 v0 = ig_set_f32(ig_reduce_max_f32(sum_v0));
        ig_f32 sum_v2 = ig_set_f32(0x0.0p+0f);
        {
            const int64_t base = (0) * columns;
            int64_t j = 0;
            for (; j + IG_LANES <= columns; j += IG_LANES) {
                const ig_f32 v1 = ig_load_f32(p0 + j);
                const ig_f32 v3 = (v1 - v0);
                const ig_f32 v4 = ig_exp_f32(v3);
                sum_v2 = (v4 + sum_v2);
                ig_store_f32((ig_f32_element *)((char *)scratch + 0 * span) + base + j, v4);
            }
            if (j < columns) {
                const int64_t left = columns - j;
                const ig_f32 v1 = ig_load_n_f32(p0 + j, left);
                const ig_f32 v3 = (v1 - v0);
                const ig_f32 v4 = ig_exp_f32(v3);
                sum_v2 = (ig_keep_f32(v4, ig_set_f32(0x0.0p+0f), left) + sum_v2);
                ig_store_n_f32((ig_f32_element *)((char *)scratch + 0 * span) + base + j, v4, left);
            }
        }
        const ig_f32 v2 = ig_set_f32(ig_reduce_add_f32(sum_v2));
        {
            const int64_t base = (0) * columns;
            int64_t j = 0;
            for (; j + IG_LANES <= columns; j += IG_LANES) {
                const ig_f32 v4 = ig_load_f32((ig_f32_element *)((char *)scratch + 0 * span) + base + j);
                const ig_f32 v5 = (v4 / v2);
                ig_store_f32(p1 + j, v5);
            }
            if (j < columns) {
                const int64_t left = columns - j;
                const ig_f32 v4 = ig_load_n_f32((ig_f32_element *)((char *)scratch + 0 * span) + base + j, left);
                const ig_f32 v5 = (v4 / v2);
                ig_store_n_f32(p1 + j, v5, left);
            }
        }
    }
}

/* sizes: M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner, row_block, panel_block,
    depth_block, epilogue_stride0, epilogue_stride1 */
static inline void kernel_gemm_3_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc)
{
    const ig_f32 v1 = ig_load_f32((const float *)buffer[2] + row * size[14] + col);
    const ig_f32 v2 = (v1 + acc);
    ig_store_f32((float *)buffer[3] + row * size[15] + col, v2);
    (void)size, (void)row, (void)col;
}
static inline void kernel_gemm_3_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc, int64_t n)
{
    const ig_f32 v1 = ig_load_n_f32((const float *)buffer[2] + row * size[14] + col, n);
    const ig_f32 v2 = (v1 + acc);
    ig_store_n_f32((float *)buffer[3] + row * size[15] + col, v2, n);
    (void)size, (void)row, (void)col;
}
/* Matrix product. A task is row_block rows by panel_block panels of COLUMNS columns of one product.
   tasks: outer * inner * ceil(M / row_block) * ceil(ceil(N / COLUMNS) / panel_block) */
/* the text of a file of kernels/ */

/* ReduceMean, Sub, Mul, ReduceMean, Add, Sqrt, Reciprocal, Mul, Mul, Add
   buffers: float32 in, float32 in, float32 in, float32 in, float32 out; sizes: columns, rows0, row_stride0_0,
       row_stride4_0 */
static void kernel_reducemean_sub_mul_reducemean_and_6_more(void *const *buffer, const int64_t *size, int64_t begin,
    int64_t end, void *scratch)
{
    const float *const x0 = buffer[0];
    const float *const x1 = buffer[1];
    const float *const x2 = buffer[2];
    const float *const x3 = buffer[3];
    float *const x4 = buffer[4];
    const int64_t columns = size[0];
    const int64_t rows0 = size[1];
    const int64_t row_stride0_0 = size[2];
    const int64_t row_stride4_0 = size[3];
    (void)columns;
    (void)rows0;
    (void)row_stride0_0;
    (void)row_stride4_0;
    (void)scratch;
    for (int64_t task = begin; task < end; task++) {
        int64_t rest = task;
        (void)rest;
        const int64_t i0 = rest;
        (void)i0;
        const float *p0 = x0 + i0 * row_stride0_0;
        const float *p1 = x1;
        const float *p2 = x2;
        const float *p3 = x3;
        float *p4 = x4 + i0 * row_stride4_0;
        const ig_f32 v0 = ig_broadcast_f32(p1);
        ig_f32 sum_v1 = ig_set_f32(0x0.0p+0f);
        ig_f32 sum_v1_1 = ig_set_f32(0x0.0p+0f);
        ig_f32 sum_v1_2 = ig_set_f32(0x0.0p+0f);
        ig_f32 sum_v1_3 = ig_set_f32(0x0.0p+0f);
        {
            int64_t start = 0;
            for (; start + 4 * IG_LANES <= columns; start += 4 * IG_LANES) {
                {
                    const int64_t j = start + 0 * IG_LANES;
                    const ig_f32 v2 = ig_load_f32(p0 + j);
                    sum_v1 = (v2 + sum_v1);
                }
                {
                    const int64_t j = start + 1 * IG_LANES;
                    const ig_f32 v2 = ig_load_f32(p0 + j);
                    sum_v1_1 = (v2 + sum_v1_1);
                }
                {
                    const int64_t j = start + 2 * IG_LANES;
                    const ig_f32 v2 = ig_load_f32(p0 + j);
                    sum_v1_2 = (v2 + sum_v1_2);
                }
                {
                    const int64_t j = start + 3 * IG_LANES;
                    const ig_f32 v2 = ig_load_f32(p0 + j);
                    sum_v1_3 = (v2 + sum_v1_3);
                }
            }
            int64_t j = start;
            for (; j + IG_LANES <= columns; j += IG_LANES) {
                const ig_f32 v2 = ig_load_f32(p0 + j);
                sum_v1 = (v2 + sum_v1);
            }
            if (j < columns) {
                const int64_t left = columns - j;
                const ig_f32 v2 = ig_load_n_f32(p0 + j, left);
                sum_v1 = (ig_keep_f32(v2, ig_set_f32(0x0.0p+0f), left) + sum_v1);
            }
        }
        sum_v1 = (sum_v1 + sum_v1_2);
        sum_v1_1 = (sum_v1_1 + sum_v1_3);
        sum_v1 = (sum_v1 + sum_v1_1);
        const ig_f32 v1 = ig_set_f32(ig_mean_f32(ig_reduce_add_f32(sum_v1), columns));
        ig_f32 sum_v3 = ig_set_f32(0x0.0p+0f);
        ig_f32 sum_v3_1 = ig_set_f32(0x0.0p+0f);
        ig_f32 sum_v3_2 = ig_set_f32(0x0.0p+0f);
        ig_f32 sum_v3_3 = ig_set_f32(0x0.0p+0f);
        {
            int64_t start = 0;
            for (; start + 4 * IG_LANES <= columns; start += 4 * IG_LANES) {
                {
                    const int64_t j = start + 0 * IG_LANES;
                    const ig_f32 v2 = ig_load_f32(p0 + j);
                    const ig_f32 v4 = (v2 - v1);
                    const ig_f32 v5 = (v4 * v4);
                    sum_v3 = (v5 + sum_v3);
                }
                {
                    const int64_t j = start + 1 * IG_LANES;
                    const ig_f32 v2 = ig_load_f32(p0 + j);
                    const ig_f32 v4 = (v2 - v1);
                    const ig_f32 v5 = (v4 * v4);
                    sum_v3_1 = (v5 + sum_v3_1);
                }
                {
                    const int64_t j = start + 2 * IG_LANES;
                    const ig_f32 v2 = ig_load_f32(p0 + j);
                    const ig_f32 v4 = (v2 - v1);
                    const ig_f32 v5 = (v4 * v4);
                    sum_v3_2 = (v5 + sum_v3_2);
                }
                {
                    const int64_t j = start + 3 * IG_LANES;
                    const ig_f32 v2 = ig_load_f32(p0 + j);
                    const ig_f32 v4 = (v2 - v1);
                    const ig_f32 v5 = (v4 * v4);
                    sum_v3_3 = (v5 + sum_v3_3);
                }
            }
            int64_t j = start;
            for (; j + IG_LANES <= columns; j += IG_LANES) {
                const ig_f32 v2 = ig_load_f32(p0 + j);
                const ig_f32 v4 = (v2 - v1);
                const ig_f32 v5 = (v4 * v4);
                sum_v3 = (v5 + sum_v3);
            }
            if (j < columns) {
                const int64_t left = columns - j;
                const ig_f32 v2 = ig_load_n_f32(p0 + j, left);
                const ig_f32 v4 = (v2 - v1);
                const ig_f32 v5 = (v4 * v4);
                sum_v3 = (ig_keep_f32(v5, ig_set_f32(0x0.0p+0f), left) + sum_v3);
            }
        }
        sum_v3 = (sum_v3 + sum_v3_2);
        sum_v3_1 = (sum_v3_1 + sum_v3_3);
        sum_v3 = (sum_v3 + sum_v3_1);
        const ig_f32 v3 = ig_set_f32(ig_mean_f32(ig_reduce_add_f32(sum_v3), columns));
        const ig_f32 v6 = (v3 + v0);
        const ig_f32 v7 = ig_sqrt_f32(v6);
        const ig_f32 v8 = (ig_set_f32(0x1.0000000000000p+0f) / v7);
        {
            int64_t j = 0;
            for (; j + IG_LANES <= columns; j += IG_LANES) {
                const ig_f32 v2 = ig_load_f32(p0 + j);
                const ig_f32 v4 = (v2 - v1);
                const ig_f32 v9 = (v4 * v8);
                const ig_f32 v10 = ig_load_f32(p2 + j);
                const ig_f32 v11 = (v9 * v10);
                const ig_f32 v12 = ig_load_f32(p3 + j);
                const ig_f32 v13 = (v11 + v12);
                ig_store_f32(p4 + j, v13);
            }
            if (j < columns) {
                const int64_t left = columns - j;
                const ig_f32 v2 = ig_load_n_f32(p0 + j, left);
                const ig_f32 v4 = (v2 - v1);
                const ig_f32 v9 = (v4 * v8);
                const ig_f32 v10 = ig_load_n_f32(p2 + j, left);
                const ig_f32 v11 = (v9 * v10);
                const ig_f32 v12 = ig_load_n_f32(p3 + j, left);
                const ig_f32 v13 = (v11 + v12);
                ig_store_n_f32(p4 + j, v13, left);
            }
        }
    }
}

/* sizes: M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner, row_block, panel_block,
    depth_block, epilogue_stride0 */
static inline void kernel_gemm_4_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc)
{
    const ig_f32 v1 = ig_broadcast_f32((const float *)buffer[2]);
    const ig_f32 v2 = (acc * ig_set_f32(0x1.0000000000000p-1f));
    const ig_f32 v3 = (acc * v1);
    const ig_f32 v4 = ig_erf_f32(v3);
    const ig_f32 v5 = (v4 + ig_set_f32(0x1.0000000000000p+0f));
    const ig_f32 v6 = (v2 * v5);
    ig_store_f32((float *)buffer[3] + row * size[14] + col, v6);
    (void)size, (void)row, (void)col;
}
static inline void kernel_gemm_4_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc, int64_t n)
{
    const ig_f32 v1 = ig_broadcast_f32((const float *)buffer[2]);
    const ig_f32 v2 = (acc * ig_set_f32(0x1.0000000000000p-1f));
    const ig_f32 v3 = (acc * v1);
    const ig_f32 v4 = ig_erf_f32(v3);
    const ig_f32 v5 = (v4 + ig_set_f32(0x1.0000000000000p+0f));
    const ig_f32 v6 = (v2 * v5);
    ig_store_n_f32((float *)buffer[3] + row * size[14] + col, v6, n);
    (void)size, (void)row, (void)col;
}
/* Matrix product. A task is row_block rows by panel_block panels of COLUMNS columns of one product.
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
    const int64_t n0 = call->dim[0]; /* length */
    (void)n0;
    const int64_t n1 = call->dim[1]; /* n */
    (void)n1;
    const int64_t threads = call->threads;
    const int64_t calc1 = run_ceildiv((n0 * n1), (4LL * threads));
    const int64_t calc2 = run_min(48, calc1);
    const int64_t calc3 = run_max(6, calc2);
    const int64_t calc4 = run_ceildiv((n0 * n1), calc3);
    const int64_t calc5 = run_floordiv((n0 + 15LL), 16);
    const int64_t calc6 = ((2LL * threads) < (calc5 * n1 + 1LL));
    const int64_t calc7 = run_ceildiv(n0, (4LL * threads));
    const int64_t calc8 = (calc6 != 0 ? n0 : calc7);
    const int64_t calc9 = run_max(12, calc8);
    const int64_t calc10 = run_min(8192, calc9);
    const int64_t calc11 = ((4LL * threads) < (n1 + 1LL));
    const int64_t calc12 = run_max(1, calc5);
    const int64_t calc13 = (calc11 != 0 ? calc12 : 1);
    const int64_t calc14 = run_ceildiv(calc5, calc13);
    const int64_t calc15 = run_ceildiv(n0, calc10);
    const int64_t calc16 = run_floordiv((8LL * n0 + 63LL), 64);
    const int64_t calc17 = ((2LL * threads) < (n1 + 1LL));
    const int64_t calc18 = (calc17 != 0 ? n0 : calc7);
    const int64_t calc19 = run_max(12, calc18);
    const int64_t calc20 = run_max(1, n0);
    const int64_t calc21 = run_floordiv(131072, calc20);
    const int64_t calc22 = run_max(48, calc21);
    const int64_t calc23 = run_min(calc19, calc22);
    const int64_t calc24 = (n0 < 13);
    const int64_t calc25 = (n0 < 6145);
    const int64_t calc26 = run_max(calc24, calc25);
    const int64_t calc27 = run_floordiv((n0 + 4095LL), 4096);
    const int64_t calc28 = run_max(1, calc27);
    const int64_t calc29 = run_ceildiv(n0, calc28);
    const int64_t calc30 = (calc26 != 0 ? calc20 : calc29);
    const int64_t calc31 = run_ceildiv(n0, calc23);
    const int64_t calc32 = ((4LL * threads) < (calc4 + 1LL));
    const int64_t calc33 = (calc32 != 0 ? 2 : 1);
    const int64_t calc34 = run_ceildiv(2, calc33);
    /* MatMul length*n x 16 x 16 -> matmul */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            call->constant[0], /* packed */
            (call->arena + call->offset[0]), /* matmul */
        };
        const struct { int64_t M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner,
            row_block, panel_block, depth_block, epilogue_stride0; } size = {
            .M = (n0 * n1), .N = 16, .K = 16, .outer = 1, .inner = 1, .a_step = 16, .a_outer = 0, .a_inner = 0,
            .b_step = 0, .b_outer = 0, .b_inner = 0, .row_block = calc3, .panel_block = 1, .depth_block = 16,
            .epilogue_stride0 = 16
        };
        const int64_t tasks = calc4, cost = run_cost(8.0 * (double)calc3 + 49.0), scratch = (64LL * calc3);
        if (call->parallel(call, kernel_gemm, buffer, (const int64_t *)&size, tasks, cost, scratch, 0))
            return 1;
    }
    /* MatMul length*n x 16 x 16 -> matmul_1 */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            call->constant[1], /* packed */
            (call->arena + call->offset[1]), /* matmul_1 */
        };
        const struct { int64_t M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner,
            row_block, panel_block, depth_block, epilogue_stride0; } size = {
            .M = (n0 * n1), .N = 16, .K = 16, .outer = 1, .inner = 1, .a_step = 16, .a_outer = 0, .a_inner = 0,
            .b_step = 0, .b_outer = 0, .b_inner = 0, .row_block = calc3, .panel_block = 1, .depth_block = 16,
            .epilogue_stride0 = 16
        };
        const int64_t tasks = calc4, cost = run_cost(8.0 * (double)calc3 + 49.0), scratch = (64LL * calc3);
        if (call->parallel(call, kernel_gemm, buffer, (const int64_t *)&size, tasks, cost, scratch, 1))
            return 1;
    }
    /* MatMul length*n x 16 x 16 -> matmul_2 */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            call->constant[2], /* packed */
            (call->arena + call->offset[2]), /* matmul_2 */
        };
        const struct { int64_t M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner,
            row_block, panel_block, depth_block, epilogue_stride0; } size = {
            .M = (n0 * n1), .N = 16, .K = 16, .outer = 1, .inner = 1, .a_step = 16, .a_outer = 0, .a_inner = 0,
            .b_step = 0, .b_outer = 0, .b_inner = 0, .row_block = calc3, .panel_block = 1, .depth_block = 16,
            .epilogue_stride0 = 16
        };
        const int64_t tasks = calc4, cost = run_cost(8.0 * (double)calc3 + 49.0), scratch = (64LL * calc3);
        if (call->parallel(call, kernel_gemm, buffer, (const int64_t *)&size, tasks, cost, scratch, 2))
            return 1;
    }
    /* MatMul length x length x 16 -> matmul_3 */
    {
        void *const buffer[] = {
            (call->arena + call->offset[0]), /* matmul */
            (call->arena + call->offset[1]), /* matmul_1 */
            (call->arena + call->offset[3]), /* matmul_3 */
        };
        const struct { int64_t M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner,
            row_block, panel_block, depth_block, epilogue_stride0; } size = {
            .M = n0, .N = n0, .K = 16, .outer = 1, .inner = n1, .a_step = 16, .a_outer = 0,
            .a_inner = (16LL * n0), .b_step = 16, .b_outer = 0, .b_inner = (16LL * n0), .row_block = calc10,
            .panel_block = calc13, .depth_block = 16, .epilogue_stride0 = n0
        };
        const int64_t tasks = (calc14 * calc15 * n1), cost = run_cost(8.0 * (double)calc10 * (double)calc13 + 48.0 *
            (double)calc13 + 1.0), scratch = (64LL * calc10 + 1024LL);
        if (call->parallel(call, kernel_gemm_2, buffer, (const int64_t *)&size, tasks, cost, scratch, 3))
            return 1;
    }
    /* ReduceMax + Sub + Exp + ReduceSum + Div -> div: float32[n, length, length] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[3]), /* matmul_3 */
            (call->arena + call->offset[4]), /* div */
        };
        const struct { int64_t columns, rows0, row_stride0_0, row_stride1_0; } size = {
            .columns = n0, .rows0 = (n0 * n1), .row_stride0_0 = n0, .row_stride1_0 = n0
        };
        const int64_t tasks = (n0 * n1), cost = run_cost(((2070.0 * (double)n0) / (1000.0)) + 1.0), scratch = (64LL *
            calc16);
        if (call->parallel(call, kernel_reducemax_sub_exp_reducesum_and_1_more, buffer, (const int64_t *)&size, tasks,
            cost, scratch, 4))
            return 1;
    }
    /* MatMul + Add length x 16 x length -> matmul_4 */
    {
        void *const buffer[] = {
            (call->arena + call->offset[4]), /* div */
            (call->arena + call->offset[2]), /* matmul_2 */
            call->input[0], /* x */
            (call->arena + call->offset[5]), /* add */
        };
        const struct { int64_t M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner,
            row_block, panel_block, depth_block, epilogue_stride0, epilogue_stride1; } size = {
            .M = n0, .N = 16, .K = n0, .outer = 1, .inner = n1, .a_step = n0, .a_outer = 0,
            .a_inner = (n0 * n0), .b_step = 16, .b_outer = 0, .b_inner = (16LL * n0), .row_block = calc23,
            .panel_block = 1, .depth_block = calc30, .epilogue_stride0 = 16, .epilogue_stride1 = 16
        };
        const int64_t tasks = (calc31 * n1), cost = run_cost(((32.0 * (double)n0 * (double)calc23) / (64.0)) + 3.0 *
            (double)n0 + 1.0), scratch = (64LL * n0 + 64LL * calc23);
        if (call->parallel(call, kernel_gemm_3, buffer, (const int64_t *)&size, tasks, cost, scratch, 5))
            return 1;
    }
    /* ReduceMean + Sub + Mul + Add + Sqrt + Reciprocal -> add_2: float32[n, length, 16] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[5]), /* add */
            call->constant[3], /* constant */
            call->constant[4], /* constant */
            call->constant[5], /* constant */
            (call->arena + call->offset[6]), /* add_2 */
        };
        const struct { int64_t columns, rows0, row_stride0_0, row_stride4_0; } size = {
            .columns = 16, .rows0 = (n0 * n1), .row_stride0_0 = 16, .row_stride4_0 = 16
        };
        const int64_t tasks = (n0 * n1), cost = 32, scratch = 0;
        if (call->parallel(call, kernel_reducemean_sub_mul_reducemean_and_6_more, buffer, (const int64_t *)&size, tasks,
            cost, scratch, 6))
            return 1;
    }
    /* MatMul + Mul + Mul + Erf + Add + Mul length*n x 24 x 16 -> matmul_5 */
    {
        void *const buffer[] = {
            (call->arena + call->offset[6]), /* add_2 */
            call->constant[9], /* packed */
            call->constant[7], /* constant */
            call->output[0], /* mul_5 */
        };
        const struct { int64_t M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner,
            row_block, panel_block, depth_block, epilogue_stride0; } size = {
            .M = (n0 * n1), .N = 24, .K = 16, .outer = 1, .inner = 1, .a_step = 16, .a_outer = 0, .a_inner = 0,
            .b_step = 0, .b_outer = 0, .b_inner = 0, .row_block = calc3, .panel_block = calc33,
            .depth_block = 16, .epilogue_stride0 = 24
        };
        const int64_t tasks = (calc34 * calc4), cost = run_cost(8.0 * (double)calc3 * (double)calc33 + 48.0 *
            (double)calc33 + 1.0), scratch = (64LL * calc3);
        if (call->parallel(call, kernel_gemm_4, buffer, (const int64_t *)&size, tasks, cost, scratch, 7))
            return 1;
    }
    return 0;
}
