/* recurrent as C: run runs it.

   Contents:
     kernel_gemm: LSTM inputs 5*n x 32 x 6
     kernel_lstm: LSTM -> lstm: float32[5, 1, n, 8]
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

/* Recurrent layers: the steps of a sequence behind the projection of all its inputs. A task is one direction of `block`
   sequences of the batch. Gates stand interleaved: for each block of a vector's lanes of hidden units one vector a
   gate, in the projected inputs and in the recurrence weights, so that the activations follow the sums in registers.
   `extra` is laid out like the gates that it belongs to. */
/* the text of a file of kernels/ */
/* What activations are called. */
#define AFFINE 0
#define ELU 1
#define HARDSIGMOID 2
#define LEAKYRELU 3
#define RELU 4
#define SCALEDTANH 5
#define SIGMOID 6
#define SOFTPLUS 7
#define SOFTSIGN 8
#define TANH 9
#define THRESHOLDEDRELU 10

/* An activation with its parameters; its input is bounded where it has a clip. */
IG_INLINE VECTOR kernel_lstm_activate(VECTOR x, const int name, const ELEMENT first, const ELEMENT second,
                                      const int has_clip, const ELEMENT clip)
{
    const VECTOR zero = {0}, alpha = SET(first), beta = SET(second);
    if (has_clip)
        x = OF_KIND(ig_max_)(OF_KIND(ig_min_)(x, SET(clip)), SET(-clip));
    switch (name) {
    case AFFINE: return alpha * x + beta;
    case ELU: return OF_KIND(ig_select_)(OF_KIND(ig_ge_)(x, zero), x, alpha * OF_KIND(ig_expm1_)(x));
    case HARDSIGMOID: return OF_KIND(ig_max_)(OF_KIND(ig_min_)(alpha * x + beta, zero + 1), zero);
    case LEAKYRELU: return OF_KIND(ig_select_)(OF_KIND(ig_ge_)(x, zero), x, alpha * x);
    case RELU: return OF_KIND(ig_max_)(x, zero);
    case SCALEDTANH: return alpha * OF_KIND(ig_tanh_)(beta * x);
    case SIGMOID: return OF_KIND(ig_sigmoid_)(x);
    case SOFTPLUS: return OF_KIND(ig_softplus_)(x);
    case SOFTSIGN: return x / (zero + 1 + OF_KIND(ig_abs_)(x));
    case TANH: return OF_KIND(ig_tanh_)(x);
    case THRESHOLDEDRELU: return OF_KIND(ig_select_)(OF_KIND(ig_ge_)(x, alpha), x, zero);
    default: return x;
    }
}

static inline VECTOR kernel_lstm_act0(VECTOR x, int64_t direction)
{
    (void)direction;
    return kernel_lstm_activate(x, ACTIVATION0);
}

static inline VECTOR kernel_lstm_act1(VECTOR x, int64_t direction)
{
    (void)direction;
    return kernel_lstm_activate(x, ACTIVATION1);
}

static inline VECTOR kernel_lstm_act2(VECTOR x, int64_t direction)
{
    (void)direction;
    return kernel_lstm_activate(x, ACTIVATION2);
}

/* The new hidden units of one block; `state` is its cell, `extra` the peepholes of input, output and forget gate. */
static inline VECTOR kernel_lstm_step(const ELEMENT *x, const ELEMENT *sum, VECTOR h, const ELEMENT *extra,
                                      ELEMENT *state, int64_t direction)
{
    const VECTOR c = LOAD(state);
    VECTOR gate[4];
    (void)h, (void)extra;
    IG_UNROLL for (int g = 0; g < 4; g++)
        gate[g] = LOAD(x + g * IG_LANES) + LOAD(sum + g * IG_LANES);
    const VECTOR enter = kernel_lstm_act0(gate[0], direction);
    const VECTOR forget = kernel_lstm_act0(gate[2], direction);
    const VECTOR cell = forget * c + enter * kernel_lstm_act1(gate[3], direction);
    STORE(state, cell);
    return kernel_lstm_act0(gate[1], direction) * kernel_lstm_act2(cell, direction);
}

static void kernel_lstm(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const projected = BUFFER(projected);
    const ELEMENT *const weights = BUFFER(weights);
    const ELEMENT *const extra = BUFFER(extra);
    const ELEMENT *const start_h = BUFFER(start_h);
    const ELEMENT *const start_c = BUFFER(start_c);
    ELEMENT *const y = BUFFER(y);
    ELEMENT *const y_h = BUFFER(y_h);
    ELEMENT *const y_c = BUFFER(y_c);
    const int64_t T = SIZE(T), N = SIZE(N), H = SIZE(H), block = SIZE(block), x_time = SIZE(x_time);
    const int64_t x_batch = SIZE(x_batch), start_direction = SIZE(start_direction), start_batch = SIZE(start_batch);
    const int64_t y_time = SIZE(y_time), y_direction = SIZE(y_direction), y_batch = SIZE(y_batch);
    const int64_t end_direction = SIZE(end_direction), end_batch = SIZE(end_batch), has_h = SIZE(has_h);
    const int64_t has_c = SIZE(has_c), has_end_c = SIZE(has_end_c);
    const int64_t blocks = (H + IG_LANES - 1) / IG_LANES, width = blocks * IG_LANES, parts = (N + block - 1) / block;
    enum { step = ALL_GATES * IG_LANES };
    ELEMENT sum[TILE * MOST_GATES * IG_LANES];
    ELEMENT *h = scratch, *next = h + block * width, *state = next + block * width, *kept = state + block * width;
    for (int64_t task = begin; task < end; task++) {
        const int64_t d = task / parts, part = task % parts;
        const int64_t first = N * part / parts, rows = N * (part + 1) / parts - first;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t left = H - b * IG_LANES < IG_LANES ? H - b * IG_LANES : IG_LANES;
                const int64_t from = d * start_direction + (first + r) * start_batch + b * IG_LANES;
                const VECTOR hidden = has_h ? LOAD_N(start_h + from, left) : (VECTOR){0};
                STORE(h + r * width + b * IG_LANES, hidden);
                const VECTOR cell = has_c ? LOAD_N(start_c + from, left) : (VECTOR){0};
                STORE(state + r * width + b * IG_LANES, cell);
            }
        for (int64_t s = 0; s < T; s++) {
            const int64_t t = IS_REVERSE || d ? T - 1 - s : s;
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t left = H - b * IG_LANES < IG_LANES ? H - b * IG_LANES : IG_LANES;
                for (int64_t row = 0; row < rows; row += TILE) {
                    const int64_t count = rows - row < TILE ? rows - row : TILE;
                    JOIN(kernel_lstm_products, LAST_GATES)(N > 1 ? count : 0, SOURCE + row * width, width,
                                                           weights + (d * blocks + b) * H * LAST_GATES * IG_LANES, H,
                                                           sum);
                    for (int64_t r = row; r < row + count; r++) {
                        const ELEMENT *x = projected + t * x_time + (first + r) * x_batch + (d * blocks + b) * step;
                        const int64_t at = r * width + b * IG_LANES;
                        const VECTOR old = LOAD(h + at);
                        const int is_active = ACTIVE;
                        const VECTOR new =
                            is_active ? kernel_lstm_step(x, sum + (r - row) * LAST_GATES * IG_LANES, old,
                                                         extra + (d * blocks + b) * EXTRAS * IG_LANES, state + at, d)
                                      : old;
                        ELEMENT *out = y + t * y_time + d * y_direction + (first + r) * y_batch + b * IG_LANES;
                        STORE(next + at, new);
                        if (left == IG_LANES)
                            STORE(out, is_active ? new : (VECTOR){0});
                        else
                            STORE_N(out, is_active ? new : (VECTOR){0}, left);
                    }
                }
            }
            ELEMENT *swapped = h;
            h = next;
            next = swapped;
        }
        for (int64_t r = 0; r < rows; r++) {
            const int64_t to = d * end_direction + (first + r) * end_batch;
            __builtin_memcpy(y_h + to, h + r * width, (uint64_t)H * sizeof *h);
            if (has_end_c)
                __builtin_memcpy(y_c + to, state + r * width, (uint64_t)H * sizeof *h);
        }
    }
    (void)kept;
}
#undef SIZE
#undef BUFFER
#undef IS_LSTM
#undef IS_GRU
#undef IS_GRU_LINEAR
#undef HAS_LENGTHS
#undef IS_REVERSE
#undef HAS_PEEPHOLES
#undef IS_COUPLED
#undef EXTRAS
#undef TILE
#undef DIRECTIONS_DIFFER
#undef ACTIVATION0
#undef ACTIVATION1
#undef ACTIVATION2
#undef LAST_ACTIVATION0
#undef LAST_ACTIVATION1
#undef LAST_ACTIVATION2
#undef KIND
#undef ELEMENT
#undef JOINED
#undef JOIN
#undef OF_KIND
#undef VECTOR
#undef LOAD
#undef LOAD_N
#undef STORE
#undef STORE_N
#undef SET
#undef ALL_GATES
#undef LAST_GATES
#undef MOST_GATES
#undef SOURCE
#undef ACTIVE
#undef GATES
#undef SUM
#undef SINGLE
#undef PRODUCTS
#undef UNROLL
#undef AFFINE
#undef ELU
#undef HARDSIGMOID
#undef LEAKYRELU
#undef RELU
#undef SCALEDTANH
#undef SIGMOID
#undef SOFTPLUS
#undef SOFTSIGN
#undef TANH
#undef THRESHOLDEDRELU

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
    const int64_t calc1 = run_ceildiv((5LL * n0), (4LL * threads));
    const int64_t calc2 = run_min(48, calc1);
    const int64_t calc3 = run_max(6, calc2);
    const int64_t calc4 = run_ceildiv((5LL * n0), calc3);
    const int64_t calc5 = ((4LL * threads) < (calc4 + 1LL));
    const int64_t calc6 = (calc5 != 0 ? 2 : 1);
    const int64_t calc7 = run_ceildiv(2, calc6);
    const int64_t calc8 = run_ceildiv(n0, threads);
    const int64_t calc9 = run_min(32, calc8);
    const int64_t calc10 = run_max(3, calc9);
    const int64_t calc11 = run_ceildiv(n0, calc10);
    /* LSTM inputs 5*n x 32 x 6 */
    {
        void *const buffer[] = {
            call->input[0], /* x */
            call->constant[0], /* packed */
            call->constant[3], /* constant */
            (call->arena + call->offset[0]), /* projected */
        };
        const struct { int64_t M, N, K, outer, inner, a_step, a_outer, a_inner, b_step, b_outer, b_inner,
            row_block, panel_block, depth_block, epilogue_stride0; } size = {
            .M = (5LL * n0), .N = 32, .K = 6, .outer = 1, .inner = 1, .a_step = 6, .a_outer = 0, .a_inner = 0,
            .b_step = 0, .b_outer = 0, .b_inner = 0, .row_block = calc3, .panel_block = calc6, .depth_block = 6,
            .epilogue_stride0 = 32
        };
        const int64_t tasks = (calc7 * calc4), cost = run_cost(3.0 * (double)calc3 * (double)calc6 + 18.0 *
            (double)calc6 + 1.0), scratch = (64LL * calc3);
        if (call->parallel(call, kernel_gemm, buffer, (const int64_t *)&size, tasks, cost, scratch, 0))
            return 1;
    }
    /* LSTM -> lstm: float32[5, 1, n, 8] */
    {
        void *const buffer[] = {
            (call->arena + call->offset[0]), /* projected */
            call->constant[5], /* packed */
            call->constant[4], /* constant */
            call->constant[4], /* constant */
            call->constant[4], /* constant */
            call->output[0], /* lstm */
            (call->arena + call->offset[1]), /* temporary */
            (call->arena + call->offset[2]), /* temporary */
        };
        const struct { int64_t T, N, H, block, x_time, x_batch, start_direction, start_batch, y_time,
            y_direction, y_batch, end_direction, end_batch, has_h, has_c, has_end_c; } size = {
            .T = 5, .N = n0, .H = 8, .block = calc10, .x_time = (32LL * n0), .x_batch = 32,
            .start_direction = (8LL * n0), .start_batch = 8, .y_time = (8LL * n0), .y_direction = (8LL * n0),
            .y_batch = 8, .end_direction = (8LL * n0), .end_batch = 8, .has_h = 0, .has_c = 0, .has_end_c = 1
        };
        const int64_t tasks = calc11, cost = run_cost(80.0 * (double)calc10 + 1.0), scratch = (128LL * calc10);
        if (call->parallel(call, kernel_lstm, buffer, (const int64_t *)&size, tasks, cost, scratch, 1))
            return 1;
    }
    return 0;
}
