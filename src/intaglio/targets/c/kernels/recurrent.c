/* Recurrent layers: the steps of a sequence behind the projection of all its inputs. A task is one direction of `block`
   sequences of the batch. Gates stand interleaved: for each block of a vector's lanes of hidden units one vector a
   gate, in the projected inputs and in the recurrence weights, so that the activations follow the sums in registers.
   `extra` is laid out like the gates that it belongs to. */
#include "kernel.h"

/* The cell: one of these, or none for an RNN. A linear GRU applies its reset gate behind the product. */
#ifndef IS_LSTM
#define IS_LSTM 0
#endif
#ifndef IS_GRU
#define IS_GRU 0
#endif
#ifndef IS_GRU_LINEAR
#define IS_GRU_LINEAR 1
#endif
/* Whether sequences have lengths of their own. */
#ifndef HAS_LENGTHS
#define HAS_LENGTHS 0
#endif
/* Whether the only direction is from the end to the start. */
#ifndef IS_REVERSE
#define IS_REVERSE 0
#endif
/* Whether the gates of an LSTM see its cell, and whether it forgets what it does not take in. */
#ifndef HAS_PEEPHOLES
#define HAS_PEEPHOLES 0
#endif
#ifndef IS_COUPLED
#define IS_COUPLED 0
#endif
/* Vectors of a block in `extra`. */
#ifndef EXTRAS
#define EXTRAS 1
#endif
/* Rows of a batch that share one pass over the recurrence weights. */
#ifndef TILE
#define TILE 3
#endif
/* Activations of the gates: name, alpha, beta, whether there is a clip, and the clip; of both directions, or of the
   first and of the last one where they differ. */
#ifndef DIRECTIONS_DIFFER
#define DIRECTIONS_DIFFER 0
#endif
#ifndef ACTIVATION0
#define ACTIVATION0 SIGMOID, 0, 0, 0, 0
#endif
#ifndef ACTIVATION1
#define ACTIVATION1 TANH, 0, 0, 0, 0
#endif
#ifndef ACTIVATION2
#define ACTIVATION2 TANH, 0, 0, 0, 0
#endif
#ifndef LAST_ACTIVATION0
#define LAST_ACTIVATION0 TANH, 0, 0, 0, 0
#endif
#ifndef LAST_ACTIVATION1
#define LAST_ACTIVATION1 TANH, 0, 0, 0, 0
#endif
#ifndef LAST_ACTIVATION2
#define LAST_ACTIVATION2 TANH, 0, 0, 0, 0
#endif
#include "kind.h"

typedef struct {
    void *projected, *weights;
#if IS_GRU
    void *reset_weights;
#endif
    void *extra, *start_h, *start_c;
#if HAS_LENGTHS
    void *lengths;
#endif
    void *y, *y_h, *y_c;
#if HAS_LENGTHS
    void *fault;
#endif
} IG_FUNCTION_buffers;

typedef struct {
    int64_t T, N, H, block; /* steps, sequences, hidden units, sequences of a task */
    int64_t x_time, x_batch, start_direction, start_batch;
    int64_t y_time, y_direction, y_batch, end_direction, end_batch;
    int64_t has_h, has_c, has_end_c;
} IG_FUNCTION_sizes;

/* All gates, those of the last product of a step, and the most of any product. */
#if IS_LSTM
#define ALL_GATES 4
#define LAST_GATES 4
#define MOST_GATES 4
#elif IS_GRU
#define ALL_GATES 3
#define LAST_GATES 1
#define MOST_GATES 2
#elif IS_GRU_LINEAR
#define ALL_GATES 3
#define LAST_GATES 3
#define MOST_GATES 3
#else
#define ALL_GATES 1
#define LAST_GATES 1
#define MOST_GATES 1
#endif
/* What the last product of a step reads, and whether a sequence goes on at step t. */
#if IS_GRU
#define SOURCE kept
#else
#define SOURCE h
#endif
#if HAS_LENGTHS
#define ACTIVE t < lengths[first + r]
#else
#define ACTIVE 1
#endif

#if IS_GRU
#define GATES 2
#include "recurrent_products.h"
#undef GATES
#endif
#define GATES LAST_GATES
#include "recurrent_products.h"
#undef GATES
#include "activation.h"

static inline VECTOR IG_FUNCTION_act0(VECTOR x, int64_t direction)
{
    (void)direction;
#if DIRECTIONS_DIFFER
    if (direction)
        return IG_FUNCTION_activate(x, LAST_ACTIVATION0);
#endif
    return IG_FUNCTION_activate(x, ACTIVATION0);
}

#if IS_LSTM || IS_GRU || IS_GRU_LINEAR
static inline VECTOR IG_FUNCTION_act1(VECTOR x, int64_t direction)
{
    (void)direction;
#if DIRECTIONS_DIFFER
    if (direction)
        return IG_FUNCTION_activate(x, LAST_ACTIVATION1);
#endif
    return IG_FUNCTION_activate(x, ACTIVATION1);
}
#endif

#if IS_LSTM
static inline VECTOR IG_FUNCTION_act2(VECTOR x, int64_t direction)
{
    (void)direction;
#if DIRECTIONS_DIFFER
    if (direction)
        return IG_FUNCTION_activate(x, LAST_ACTIVATION2);
#endif
    return IG_FUNCTION_activate(x, ACTIVATION2);
}

/* The new hidden units of one block; `state` is its cell, `extra` the peepholes of input, output and forget gate. */
static inline VECTOR IG_FUNCTION_step(const ELEMENT *x, const ELEMENT *sum, VECTOR h, const ELEMENT *extra,
                                      ELEMENT *state, int64_t direction)
{
    const VECTOR c = LOAD(state);
    VECTOR gate[4];
    (void)h, (void)extra;
    IG_UNROLL for (int g = 0; g < 4; g++)
        gate[g] = LOAD(x + g * IG_LANES) + LOAD(sum + g * IG_LANES);
#if HAS_PEEPHOLES
    gate[0] += LOAD(extra) * c;
#endif
    const VECTOR enter = IG_FUNCTION_act0(gate[0], direction);
#if IS_COUPLED
    const VECTOR forget = 1 - enter;
#elif HAS_PEEPHOLES
    const VECTOR forget = IG_FUNCTION_act0(gate[2] + LOAD(extra + 2 * IG_LANES) * c, direction);
#else
    const VECTOR forget = IG_FUNCTION_act0(gate[2], direction);
#endif
    const VECTOR cell = forget * c + enter * IG_FUNCTION_act1(gate[3], direction);
    STORE(state, cell);
#if HAS_PEEPHOLES
    gate[1] += LOAD(extra + IG_LANES) * cell;
#endif
    return IG_FUNCTION_act0(gate[1], direction) * IG_FUNCTION_act2(cell, direction);
}
#elif IS_GRU
/* The update gate of one block goes to `state`; the result is the part of h that the reset gate lets through. */
static inline VECTOR IG_FUNCTION_reset(const ELEMENT *x, const ELEMENT *sum, VECTOR h, ELEMENT *state,
                                       int64_t direction)
{
    STORE(state, IG_FUNCTION_act0(LOAD(x) + LOAD(sum), direction));
    return h * IG_FUNCTION_act0(LOAD(x + IG_LANES) + LOAD(sum + IG_LANES), direction);
}

static inline VECTOR IG_FUNCTION_step(const ELEMENT *x, const ELEMENT *sum, VECTOR h, const ELEMENT *extra,
                                      ELEMENT *state, int64_t direction)
{
    const VECTOR update = LOAD(state);
    (void)extra;
    const VECTOR fresh = IG_FUNCTION_act1(LOAD(x + 2 * IG_LANES) + LOAD(sum), direction);
    return (1 - update) * fresh + update * h;
}
#elif IS_GRU_LINEAR
/* The new hidden units of one block; `extra` is the bias inside the reset gate. */
static inline VECTOR IG_FUNCTION_step(const ELEMENT *x, const ELEMENT *sum, VECTOR h, const ELEMENT *extra,
                                      ELEMENT *state, int64_t direction)
{
    const VECTOR update = IG_FUNCTION_act0(LOAD(x) + LOAD(sum), direction);
    const VECTOR reset = IG_FUNCTION_act0(LOAD(x + IG_LANES) + LOAD(sum + IG_LANES), direction);
    const VECTOR past = reset * (LOAD(sum + 2 * IG_LANES) + LOAD(extra));
    const VECTOR fresh = IG_FUNCTION_act1(LOAD(x + 2 * IG_LANES) + past, direction);
    (void)state;
    return (1 - update) * fresh + update * h;
}
#else
/* The new hidden units of one block. */
static inline VECTOR IG_FUNCTION_step(const ELEMENT *x, const ELEMENT *sum, VECTOR h, const ELEMENT *extra,
                                      ELEMENT *state, int64_t direction)
{
    (void)h, (void)extra, (void)state;
    return IG_FUNCTION_act0(LOAD(x) + LOAD(sum), direction);
}
#endif

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const projected = BUFFER(projected);
    const ELEMENT *const weights = BUFFER(weights);
#if IS_GRU
    const ELEMENT *const reset_weights = BUFFER(reset_weights);
#endif
    const ELEMENT *const extra = BUFFER(extra);
    const ELEMENT *const start_h = BUFFER(start_h);
    const ELEMENT *const start_c = BUFFER(start_c);
#if HAS_LENGTHS
    const int32_t *const lengths = BUFFER(lengths);
#endif
    ELEMENT *const y = BUFFER(y);
    ELEMENT *const y_h = BUFFER(y_h);
    ELEMENT *const y_c = BUFFER(y_c);
#if HAS_LENGTHS
    int64_t *const fault = BUFFER(fault);
#endif
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
#if HAS_LENGTHS
        for (int64_t r = 0; r < rows; r++)
            if (lengths[first + r] < 0 || lengths[first + r] > T)
                *fault = 1;
#endif
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
#if IS_GRU
            for (int64_t b = 0; b < blocks; b++)
                for (int64_t row = 0; row < rows; row += TILE) {
                    const int64_t count = rows - row < TILE ? rows - row : TILE;
                    IG_FUNCTION_products2(N > 1 ? count : 0, h + row * width, width,
                                          reset_weights + (d * blocks + b) * H * 2 * IG_LANES, H, sum);
                    for (int64_t r = row; r < row + count; r++) {
                        const ELEMENT *x = projected + t * x_time + (first + r) * x_batch + (d * blocks + b) * step;
                        const int64_t at = r * width + b * IG_LANES;
                        const VECTOR old = LOAD(h + at);
                        const ELEMENT *gates = sum + (r - row) * 2 * IG_LANES;
                        STORE(kept + at, IG_FUNCTION_reset(x, gates, old, state + at, d));
                    }
                }
#endif
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t left = H - b * IG_LANES < IG_LANES ? H - b * IG_LANES : IG_LANES;
                for (int64_t row = 0; row < rows; row += TILE) {
                    const int64_t count = rows - row < TILE ? rows - row : TILE;
                    JOIN(IG_FUNCTION_products, LAST_GATES)(N > 1 ? count : 0, SOURCE + row * width, width,
                                                           weights + (d * blocks + b) * H * LAST_GATES * IG_LANES, H,
                                                           sum);
                    for (int64_t r = row; r < row + count; r++) {
                        const ELEMENT *x = projected + t * x_time + (first + r) * x_batch + (d * blocks + b) * step;
                        const int64_t at = r * width + b * IG_LANES;
                        const VECTOR old = LOAD(h + at);
                        const int is_active = ACTIVE;
                        const VECTOR new =
                            is_active ? IG_FUNCTION_step(x, sum + (r - row) * LAST_GATES * IG_LANES, old,
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
