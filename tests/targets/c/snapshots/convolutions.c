/* convolutions as C: run runs it.

   Contents:
     kernel_conv: Conv + Relu as conv -> conv.last: float32[n, 12, 12, 16]
     kernel_winograd2: Conv + Relu as winograd2 -> conv_1.last: float32[n, 12, 12, 16]
     kernel_depthwise: Conv + Add as depthwise -> conv_2.last: float32[n, 12, 12, 16]
     kernel_reducemean_columns: ReduceMean -> reducemean_1: float32[n, 1, 1, 16]
     kernel_gemm: MatMul + Add n x 10 x 16 -> matmul
     kernel_reducemax_sub_exp_reducesum_and_1_more: ReduceMax + Sub + Exp + ReduceSum + Div -> div: float32[n, 10]
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

/* sizes: images, C, D, H, W, OD, OH, OW, KD, KH, KW, stride_d, stride_h, stride_w, dilation_d, dilation_h, dilation_w,
    pad_d, pad_h, pad_w, groups, OC, row_block, col_block, panel_block, epilogue_stride0 */
static inline void kernel_conv_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col, ig_f32 acc)
{
    const ig_f32 v1 = ig_load_f32((const float *)buffer[2] + col);
    const ig_f32 v2 = (acc + v1);
    const ig_f32 v3 = ig_max_fast_f32(ig_set_f32(0x0.0p+0f), v2);
    ig_store_f32((float *)buffer[3] + row * size[25] + col, v3);
    (void)size, (void)row, (void)col;
}
static inline void kernel_conv_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc, int64_t n)
{
    const ig_f32 v1 = ig_load_n_f32((const float *)buffer[2] + col, n);
    const ig_f32 v2 = (acc + v1);
    const ig_f32 v3 = ig_max_fast_f32(ig_set_f32(0x0.0p+0f), v2);
    ig_store_n_f32((float *)buffer[3] + row * size[25] + col, v3, n);
    (void)size, (void)row, (void)col;
}
/* Direct convolution of an NDHWC or, for few channels, NCDHW input. */
/* What direct convolutions share. A task is row_block rows by col_block columns of output pixels by panel_block panels
   of COLUMNS output channels.
   tasks: images * groups * OD * ceil(OH / row_block) * ceil(OW / col_block) *
          ceil(ceil(OC / groups / COLUMNS) / panel_block) */
/* the text of a file of kernels/ */

/* sizes: images, C, H, W, OH, OW, pad_h, pad_w, OC, tile_block, panel_block, epilogue_stride0 */
static inline void kernel_winograd2_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc)
{
    const ig_f32 v1 = ig_load_f32((const float *)buffer[2] + col);
    const ig_f32 v2 = (acc + v1);
    const ig_f32 v3 = ig_max_fast_f32(ig_set_f32(0x0.0p+0f), v2);
    ig_store_f32((float *)buffer[3] + row * size[11] + col, v3);
    (void)size, (void)row, (void)col;
}
static inline void kernel_winograd2_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc, int64_t n)
{
    const ig_f32 v1 = ig_load_n_f32((const float *)buffer[2] + col, n);
    const ig_f32 v2 = (acc + v1);
    const ig_f32 v3 = ig_max_fast_f32(ig_set_f32(0x0.0p+0f), v2);
    ig_store_n_f32((float *)buffer[3] + row * size[11] + col, v3, n);
    (void)size, (void)row, (void)col;
}
/* Winograd's convolution for 3x3 filters, OUTPUT x OUTPUT outputs a tile. A task is tile_block tiles, all images in one
   row, by panel_block panels of COLUMNS output channels.
   tasks: ceil(images * ceil(OH / OUTPUT) * ceil(OW / OUTPUT) / tile_block) * ceil(ceil(OC / COLUMNS) / panel_block) */
/* the text of a file of kernels/ */

/* sizes: images, C, D, H, W, OD, OH, OW, KD, KH, stride_d, stride_h, dilation_d, dilation_h, pad_d, pad_h, pad_w,
    row_block, epilogue_stride0, epilogue_stride1 */
static inline void kernel_depthwise_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc)
{
    const ig_f32 v1 = ig_load_f32((const float *)buffer[2] + row * size[18] + col);
    const ig_f32 v2 = (acc + v1);
    ig_store_f32((float *)buffer[3] + row * size[19] + col, v2);
    (void)size, (void)row, (void)col;
}
static inline void kernel_depthwise_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc, int64_t n)
{
    const ig_f32 v1 = ig_load_n_f32((const float *)buffer[2] + row * size[18] + col, n);
    const ig_f32 v2 = (acc + v1);
    ig_store_n_f32((float *)buffer[3] + row * size[19] + col, v2, n);
    (void)size, (void)row, (void)col;
}
/* Depthwise convolution of an NDHWC input by kernels of few taps along a row, whose number and step are known: each
   value is loaded once for all of its taps. A task is row_block rows of output pixels.
   tasks: images * OD * ceil(OH / row_block) */
/* the text of a file of kernels/ */

IG_INLINE void kernel_reducemean_columns_block(const int64_t *size, int vectors, int64_t left, const float *p0,
    float *p1)
{
    const int64_t columns = size[0];
    const int64_t strips = size[1];
    const int64_t rows0 = size[2];
    const int64_t walk0 = size[3];
    const int64_t row_stride0_0 = size[4];
    const int64_t walk_stride0_0 = size[5];
    const int64_t row_stride1_0 = size[6];
    (void)columns;
    (void)strips;
    (void)rows0;
    (void)walk0;
    (void)row_stride0_0;
    (void)walk_stride0_0;
    (void)row_stride1_0;
    ig_f32 total0[8];
    IG_UNROLL
    for (int v = 0; v < vectors; v++) {
        total0[v] = ig_set_f32(0x0.0p+0f);
    }
    for (int64_t first = 0; first < walk0; first += 256) {
        const int64_t stop = first + 256 < walk0 ? first + 256 : walk0;
        ig_f32 part_total0[8];
        IG_UNROLL
        for (int v = 0; v < vectors; v++) {
            part_total0[v] = ig_set_f32(0x0.0p+0f);
        }
        for (int64_t w0 = first; w0 < stop; w0++) {
            IG_UNROLL
            for (int v = 0; v < vectors; v++) {
                const ig_f32 v0 = vectors == 1 ? ig_load_n_f32(p0 + w0 * walk_stride0_0,
                    left) : ig_load_f32(p0 + w0 * walk_stride0_0 + v * IG_LANES);
                part_total0[v] = (part_total0[v] + v0);
            }
        }
        IG_UNROLL
        for (int v = 0; v < vectors; v++) {
            total0[v] = (total0[v] + part_total0[v]);
        }
    }
    IG_UNROLL
    for (int v = 0; v < vectors; v++) {
        const ig_f32 v0 = total0[v] / ig_set_f32((ig_f32_element)(walk0));
        if (vectors == 1) ig_store_n_f32(p1, v0, left);
        else ig_store_f32(p1 + v * IG_LANES, v0);
    }
}
/* ReduceMean, column by column
   sizes: columns, strips, rows0, walk0, row_stride0_0, walk_stride0_0, row_stride1_0 */
static void kernel_reducemean_columns(void *const *buffer, const int64_t *size, int64_t begin, int64_t end,
    void *scratch)
{
    const int64_t columns = size[0];
    const int64_t strips = size[1];
    const int64_t rows0 = size[2];
    const int64_t walk0 = size[3];
    const int64_t row_stride0_0 = size[4];
    const int64_t walk_stride0_0 = size[5];
    const int64_t row_stride1_0 = size[6];
    (void)columns;
    (void)strips;
    (void)rows0;
    (void)walk0;
    (void)row_stride0_0;
    (void)walk_stride0_0;
    (void)row_stride1_0;
    for (int64_t task = begin; task < end; task++) {
        int64_t rest = task / strips, c = task % strips * 128;
        const int64_t last = c + 128 < columns ? c + 128 : columns;
        const float *p0 = buffer[0];
        float *p1 = buffer[1];
        p0 += rest % rows0 * row_stride0_0;
        p1 += rest % rows0 * row_stride1_0;
        rest /= rows0;
        for (; c + 8 * IG_LANES <= last; c += 8 * IG_LANES)
            kernel_reducemean_columns_block(size, 8, IG_LANES, p0 + c, p1 + c);
        for (; c + 2 * IG_LANES <= last; c += 2 * IG_LANES)
            kernel_reducemean_columns_block(size, 2, IG_LANES, p0 + c, p1 + c);
        for (; c < last; c += IG_LANES)
            kernel_reducemean_columns_block(size, 1, last - c < IG_LANES ? last - c : IG_LANES, p0 + c, p1 + c);
    }
}

/* sizes: M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner, row_block, panel_block,
    depth_block, epilogue_stride0 */
static inline void kernel_gemm_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col, ig_f32 acc)
{
    const ig_f32 v1 = ig_load_f32((const float *)buffer[2] + col);
    const ig_f32 v2 = (acc + v1);
    ig_store_f32((float *)buffer[3] + row * size[14] + col, v2);
    (void)size, (void)row, (void)col;
}
static inline void kernel_gemm_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col,
    ig_f32 acc, int64_t n)
{
    const ig_f32 v1 = ig_load_n_f32((const float *)buffer[2] + col, n);
    const ig_f32 v2 = (acc + v1);
    ig_store_n_f32((float *)buffer[3] + row * size[14] + col, v2, n);
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
    const int64_t threads = call->threads;
    const int64_t calc1 = ((4LL * threads) < (3LL * n0 + 1LL));
    const int64_t calc2 = run_floordiv((3LL * n0), (4LL * threads));
    const int64_t calc3 = (calc1 != 0 ? 1 : calc2);
    const int64_t calc4 = run_max(1, calc3);
    const int64_t calc5 = run_ceildiv(1, calc4);
    const int64_t calc6 = run_min(24, (36LL * n0));
    const int64_t calc7 = run_max(1, calc6);
    const int64_t calc8 = ((4LL * calc7 * threads) < (36LL * n0 + 1LL));
    const int64_t calc9 = run_ceildiv((36LL * n0), calc7);
    const int64_t calc10 = run_floordiv(calc9, (4LL * threads));
    const int64_t calc11 = (calc8 != 0 ? 1 : calc10);
    const int64_t calc12 = run_max(1, calc11);
    const int64_t calc13 = run_ceildiv(1, calc12);
    const int64_t calc14 = run_floordiv((12LL * n0), (8LL * threads));
    const int64_t calc15 = run_min(12, calc14);
    const int64_t calc16 = run_max(1, calc15);
    const int64_t calc17 = run_ceildiv(12, calc16);
    const int64_t calc18 = run_ceildiv(n0, (4LL * threads));
    const int64_t calc19 = run_min(48, calc18);
    const int64_t calc20 = run_max(6, calc19);
    const int64_t calc21 = run_ceildiv(n0, calc20);
    /* Conv + Relu as conv -> conv.last: float32[n, 12, 12, 16] */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            call->constant[0], /* packed */
            call->constant[1], /* constant */
            (call->arena + call->offset[0]), /* relu.last */
        };
        const struct { int64_t images, C, D, H, W, OD, OH, OW, KD, KH, KW, stride_d, stride_h, stride_w,
            dilation_d, dilation_h, dilation_w, pad_d, pad_h, pad_w, groups, OC, row_block, col_block,
            panel_block, epilogue_stride0; } size = {
            .images = n0, .C = 3, .D = 1, .H = 12, .W = 12, .OD = 1, .OH = 12, .OW = 12, .KD = 1, .KH = 3,
            .KW = 3, .stride_d = 1, .stride_h = 1, .stride_w = 1, .dilation_d = 1, .dilation_h = 1,
            .dilation_w = 1, .pad_d = 0, .pad_h = 1, .pad_w = 1, .groups = 1, .OC = 16, .row_block = 4,
            .col_block = 12, .panel_block = calc4, .epilogue_stride0 = 16
        };
        const int64_t tasks = (3LL * calc5 * n0), cost = run_cost(648.0 * (double)calc4 + 1.0), scratch = 4576;
        if (call->parallel(call, kernel_conv, buffer, (const int64_t *)&size, tasks, cost, scratch, 0))
            return 1;
    }
    /* Conv + Relu as winograd2 -> conv_1.last: float32[n, 12, 12, 16] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[0]), /* relu.last */
            call->constant[2], /* packed */
            call->constant[3], /* constant */
            (call->arena + call->offset[1]), /* relu_1.last */
        };
        const struct { int64_t images, C, H, W, OH, OW, pad_h, pad_w, OC, tile_block, panel_block,
            epilogue_stride0; } size = {
            .images = n0, .C = 16, .H = 12, .W = 12, .OH = 12, .OW = 12, .pad_h = 1, .pad_w = 1, .OC = 16,
            .tile_block = calc7, .panel_block = calc12, .epilogue_stride0 = 16
        };
        const int64_t tasks = (calc13 * calc9), cost = run_cost(128.0 * (double)calc7 * (double)calc12 + 1.0), scratch =
            (2560LL * calc7 + 1024LL);
        if (call->parallel(call, kernel_winograd2, buffer, (const int64_t *)&size, tasks, cost, scratch, 1))
            return 1;
    }
    /* Conv + Add as depthwise -> conv_2.last: float32[n, 12, 12, 16] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[1]), /* relu_1.last */
            call->constant[4], /* packed */
            (call->arena + call->offset[0]), /* relu.last */
            (call->arena + call->offset[2]), /* add.last */
        };
        const struct { int64_t images, C, D, H, W, OD, OH, OW, KD, KH, stride_d, stride_h, dilation_d,
            dilation_h, pad_d, pad_h, pad_w, row_block, epilogue_stride0, epilogue_stride1; } size = {
            .images = n0, .C = 16, .D = 1, .H = 12, .W = 12, .OD = 1, .OH = 12, .OW = 12, .KD = 1, .KH = 3,
            .stride_d = 1, .stride_h = 1, .dilation_d = 1, .dilation_h = 1, .pad_d = 0, .pad_h = 1, .pad_w = 1,
            .row_block = calc16, .epilogue_stride0 = 16, .epilogue_stride1 = 16
        };
        const int64_t tasks = (calc17 * n0), cost = run_cost(54.0 * (double)calc16 + 1.0), scratch = 0;
        if (call->parallel(call, kernel_depthwise, buffer, (const int64_t *)&size, tasks, cost, scratch, 2))
            return 1;
    }
    /* ReduceMean -> reducemean_1: float32[n, 1, 1, 16] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[2]), /* add.last */
            (call->arena + call->offset[3]), /* reducemean_1 */
        };
        const struct { int64_t columns, strips, rows0, walk0, row_stride0_0, walk_stride0_0,
            row_stride1_0; } size = {
            .columns = 16, .strips = 1, .rows0 = n0, .walk0 = 144, .row_stride0_0 = 2304, .walk_stride0_0 = 16,
            .row_stride1_0 = 16
        };
        const int64_t tasks = n0, cost = 1544, scratch = 0;
        if (call->parallel(call, kernel_reducemean_columns, buffer, (const int64_t *)&size, tasks, cost, scratch, 3))
            return 1;
    }
    /* MatMul + Add n x 10 x 16 -> matmul */
    {
        void *const buffer[] = {
            (call->arena + call->offset[3]), /* reducemean_1 */
            call->constant[6], /* packed */
            call->constant[5], /* constant */
            (call->arena + call->offset[4]), /* add_1 */
        };
        const struct { int64_t M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner,
            row_block, panel_block, depth_block, epilogue_stride0; } size = {
            .M = n0, .N = 10, .K = 16, .outer = 1, .inner = 1, .a_step = 16, .a_outer = 0, .a_inner = 0,
            .b_step = 0, .b_outer = 0, .b_inner = 0, .row_block = calc20, .panel_block = 1, .depth_block = 16,
            .epilogue_stride0 = 10
        };
        const int64_t tasks = calc21, cost = run_cost(8.0 * (double)calc20 + 49.0), scratch = (64LL * calc20);
        if (call->parallel(call, kernel_gemm, buffer, (const int64_t *)&size, tasks, cost, scratch, 4))
            return 1;
    }
    /* ReduceMax + Sub + Exp + ReduceSum + Div -> div: float32[n, 10] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[4]), /* add_1 */
            call->output[0], /* div */
        };
        const struct { int64_t columns, rows0, row_stride0_0, row_stride1_0; } size = {
            .columns = 10, .rows0 = n0, .row_stride0_0 = 10, .row_stride1_0 = 10
        };
        const int64_t tasks = n0, cost = 21, scratch = 128;
        if (call->parallel(call, kernel_reducemax_sub_exp_reducesum_and_1_more, buffer, (const int64_t *)&size, tasks,
            cost, scratch, 5))
            return 1;
    }
    return 0;
}
