/* Fourier transforms of lines: line (o, i) begins at o * outer_step + i * inner_step, and its elements are axis_step
   apart. Two real lines are transformed as one complex line. A task is a batch of lines. */
#include "plain.h"
#include "fourier.h"
#include "read.h"
#include "write.h"

/* The elements in memory, and how they are read and written. */
#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef READ
#define READ *
#endif
#ifndef WRITE
#define WRITE IG_FUNCTION_write_number
#endif
/* Whether elements are pairs of numbers, and whether elements are multiplied with a window. */
#ifndef IS_COMPLEX
#define IS_COMPLEX 0
#endif
#ifndef HAS_WINDOW
#define HAS_WINDOW 0
#endif
#ifndef IS_INVERSE
#define IS_INVERSE 0
#endif
/* Whether only half of a spectrum is written, or read by an inverse transform, since the other half mirrors it. */
#ifndef IS_HALF
#define IS_HALF 0
#endif
/* The transform back is the one forth with real and imaginary parts in each other's place. */
#if IS_INVERSE
#define RE im
#define IM re
#else
#define RE re
#define IM im
#endif
#define NUMBER(p) (REAL) READ(p)
#if HAS_WINDOW
#define WINDOWED(p) NUMBER(p) * NUMBER(window + k)
#else
#define WINDOWED(p) NUMBER(p)
#endif

typedef struct {
    void *table, *data;
#if HAS_WINDOW
    void *window;
#endif
    void *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t length; /* of the transform */
    int64_t extent; /* of what is given of a line; zeros follow */
    int64_t outer, inner;
    int64_t outer_step, inner_step, axis_step;
    int64_t out_outer, out_inner, out_step;
    int64_t bins; /* what is written of a line */
    int64_t mismatch;
    int64_t rows;  /* lines, or pairs of them */
    int64_t space; /* numbers that a line takes while it is transformed */
    int64_t batch, tasks;
} IG_FUNCTION_sizes;

static inline void IG_FUNCTION_write_number(ELEMENT *p, REAL x)
{
    *p = (ELEMENT)x;
}

/* Where a line begins in the data, and in the result. */
static inline int64_t IG_FUNCTION_start(const int64_t *size, int64_t line)
{
    return line / SIZE(inner) * SIZE(outer_step) + line % SIZE(inner) * SIZE(inner_step);
}

static inline int64_t IG_FUNCTION_out_start(const int64_t *size, int64_t line)
{
    return line / SIZE(inner) * SIZE(out_outer) + line % SIZE(inner) * SIZE(out_inner);
}

/* Reads row `first` + b into place b of `count` lines side by side. */
static inline void IG_FUNCTION_load(void *const *buffer, const int64_t *size, int64_t first, int64_t b, int64_t count,
                                    REAL *re, REAL *im)
{
    const ELEMENT *const data = BUFFER(data);
#if HAS_WINDOW
    const ELEMENT *const window = BUFFER(window);
#endif
    const int64_t length = SIZE(length), extent = SIZE(extent), axis_step = SIZE(axis_step);
#if IS_INVERSE && IS_HALF
    const int64_t lines = SIZE(outer) * SIZE(inner), line = 2 * (first + b), next = line + 1 < lines ? line + 1 : line;
    const ELEMENT *const x = data + IG_FUNCTION_start(size, line), *const y = data + IG_FUNCTION_start(size, next);
    for (int64_t k = 0; 2 * k <= length; k++) {
        const int is_there = k < extent, is_real = k == 0 || 2 * k == length;
        const REAL xr = is_there ? NUMBER(x + k * axis_step) : 0;
        const REAL yr = is_there ? NUMBER(y + k * axis_step) : 0;
        const REAL xi = is_there && !is_real ? NUMBER(x + k * axis_step + 1) : 0;
        const REAL yi = is_there && !is_real ? NUMBER(y + k * axis_step + 1) : 0;
        const int64_t mirror = (length - k) % length;
        RE[mirror * count + b] = xr + yi;
        IM[mirror * count + b] = yr - xi;
        RE[k * count + b] = xr - yi;
        IM[k * count + b] = yr + xi;
    }
#elif IS_COMPLEX
    const ELEMENT *const x = data + IG_FUNCTION_start(size, first + b);
    for (int64_t k = 0; k < length; k++) {
        const int is_there = k < extent;
        RE[k * count + b] = is_there ? WINDOWED(x + k * axis_step) : 0;
        IM[k * count + b] = is_there ? WINDOWED(x + k * axis_step + 1) : 0;
    }
#else
    const int64_t lines = SIZE(outer) * SIZE(inner), line = 2 * (first + b), next = line + 1 < lines ? line + 1 : line;
    const ELEMENT *const x = data + IG_FUNCTION_start(size, line), *const y = data + IG_FUNCTION_start(size, next);
    for (int64_t k = 0; k < length; k++) {
        const int is_there = k < extent;
        RE[k * count + b] = is_there ? WINDOWED(x + k * axis_step) : 0;
        IM[k * count + b] = is_there ? WINDOWED(y + k * axis_step) : 0;
    }
#endif
}

/* Writes place b of `count` lines side by side to row `first` + b. */
static inline void IG_FUNCTION_store(void *const *buffer, const int64_t *size, int64_t first, int64_t b, int64_t count,
                                     const REAL *re, const REAL *im)
{
    const int64_t length = SIZE(length), bins = SIZE(bins), out_step = SIZE(out_step);
    const REAL scale = IS_INVERSE ? 1 / (REAL)length : 1;
    ELEMENT *const out = BUFFER(out);
#if IS_COMPLEX && !IS_INVERSE || IS_COMPLEX && !IS_HALF
    ELEMENT *const z = out + IG_FUNCTION_out_start(size, first + b);
    for (int64_t k = 0; k < bins; k++) {
        WRITE(z + k * out_step, RE[k * count + b] * scale);
        WRITE(z + k * out_step + 1, IM[k * count + b] * scale);
    }
#else
    const int64_t lines = SIZE(outer) * SIZE(inner), line = 2 * (first + b);
    ELEMENT *const z = out + IG_FUNCTION_out_start(size, line), *const w = out + IG_FUNCTION_out_start(size, line + 1);
    for (int64_t k = 0; k < bins; k++) {
#if IS_INVERSE && IS_HALF
        WRITE(z + k * out_step, RE[k * count + b] * scale);
        if (line + 1 < lines)
            WRITE(w + k * out_step, IM[k * count + b] * scale);
#else
        const int64_t q = k * count + b, mirror = (length - k) % length * count + b;
        const REAL xr = RE[q], xi = IM[q], yr = RE[mirror], yi = IM[mirror], half = scale / 2;
        WRITE(z + k * out_step, (xr + yr) * half);
        WRITE(z + k * out_step + 1, (xi - yi) * half);
        if (line + 1 < lines) {
            WRITE(w + k * out_step, (xi + yi) * half);
            WRITE(w + k * out_step + 1, (yr - xr) * half);
        }
#endif
    }
#endif
}

/* Bluestein's method: a transform of any length as a convolution of n numbers, a power of two. */
static inline void IG_FUNCTION_convolve(REAL **re_at, REAL **im_at, REAL **other_re, REAL **other_im, int64_t length,
                                        int64_t n, int64_t count, const REAL *table)
{
    const REAL *const chirp = table + 2 * n, *const taps = chirp + 2 * length;
    REAL *re = *re_at, *im = *im_at;
    for (int64_t k = 0; k < n; k++) {
        for (int64_t q = k * count; q < k * count + count; q++) {
            const REAL x = k < length ? re[q] : 0, y = k < length ? im[q] : 0;
            const REAL c = k < length ? chirp[k] : 0, d = k < length ? chirp[length + k] : 0;
            re[q] = x * c - y * d;
            im[q] = x * d + y * c;
        }
    }
    IG_FUNCTION_fft(&re, &im, other_re, other_im, n, count, table, table + n);
    for (int64_t k = 0; k < n; k++) {
        for (int64_t q = k * count; q < k * count + count; q++) {
            const REAL x = re[q] * taps[k] - im[q] * taps[n + k], y = re[q] * taps[n + k] + im[q] * taps[k];
            re[q] = y; /* real and imaginary parts change places: the transform back is the one forth */
            im[q] = x;
        }
    }
    IG_FUNCTION_fft(&re, &im, other_re, other_im, n, count, table, table + n);
    for (int64_t k = 0; k < length; k++) {
        for (int64_t q = k * count; q < k * count + count; q++) {
            const REAL x = im[q], y = re[q];
            re[q] = x * chirp[k] - y * chirp[length + k];
            im[q] = x * chirp[length + k] + y * chirp[k];
        }
    }
    *re_at = re;
    *im_at = im;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const REAL *const table = BUFFER(table);
    int64_t *const fault = BUFFER(fault);
    const int64_t length = SIZE(length), rows = SIZE(rows), batch = SIZE(batch);
    if (SIZE(mismatch) || length < 1) {
        *fault = 1;
        return;
    }
    const int is_direct = IG_FUNCTION_largest(length) <= LARGEST;
    const int64_t n = is_direct ? length : IG_FUNCTION_smooth(length);
    for (int64_t task = begin; task < end && task * batch < rows; task++) {
        const int64_t first = task * batch, count = rows - first < batch ? rows - first : batch;
        REAL *re = scratch, *im = re + n * count, *other_re = im + n * count, *other_im = other_re + n * count;
        for (int64_t b = 0; b < count; b++)
            IG_FUNCTION_load(buffer, size, first, b, count, re, im);
        if (is_direct)
            IG_FUNCTION_fft(&re, &im, &other_re, &other_im, n, count, table, table + n);
        else
            IG_FUNCTION_convolve(&re, &im, &other_re, &other_im, length, n, count, table);
        for (int64_t b = 0; b < count; b++)
            IG_FUNCTION_store(buffer, size, first, b, count, re, im);
    }
}
