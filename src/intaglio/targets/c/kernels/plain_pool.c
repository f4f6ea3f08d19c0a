/* Pools of one to three axes with the channels first, value by value: maxima and where they are, means, or norms. A
   task is one row of the output. */
#include "plain.h"
#include "range.h"
#include "real.h"

#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif
/* What is computed: a maximum, a mean, or else the norm of the power P. */
#ifndef IS_MAXIMUM
#define IS_MAXIMUM 1
#endif
#ifndef IS_AVERAGE
#define IS_AVERAGE 0
#endif
#ifndef P
#define P 2
#endif
/* The maximum of a window without values. */
#ifndef LOWEST
#define LOWEST -INFINITY
#endif
#if IS_FLOAT
#define IS_GREATER(x, best) (x > best || (x != x && best == best))
#else
#define IS_GREATER(x, best) (x > best)
#endif
#if IS_MAXIMUM
#define START LOWEST
#else
#define START 0
#endif
#if P == 1
#define POWER(x) FABS(x)
#define ROOT(x) x
#elif P == 2
#define POWER(x) (x * x)
#define ROOT(x) SQRT(x)
#else
#define POWER(x) POW(FABS(x), P)
#define ROOT(x) POW(x, (ELEMENT)(1.0 / P))
#endif

typedef struct {
    void *x, *out, *indices;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t in0, out0, kernel0, stride0, dilation0, pad0, end0;
    int64_t in1, out1, kernel1, stride1, dilation1, pad1, end1;
    int64_t in2, out2, kernel2, stride2, dilation2, pad2, end2;
    int64_t storage;     /* 1: places of maxima count the first axis fastest */
    int64_t has_indices; /* whether places of maxima are written */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const x = BUFFER(x);
    ELEMENT *const out = BUFFER(out);
    int64_t *const indices = BUFFER(indices);
    const int64_t in0 = SIZE(in0), in1 = SIZE(in1), in2 = SIZE(in2);
    const int64_t out0 = SIZE(out0), out1 = SIZE(out1), out2 = SIZE(out2);
    const int64_t kernel0 = SIZE(kernel0), kernel1 = SIZE(kernel1), kernel2 = SIZE(kernel2);
    const int64_t stride0 = SIZE(stride0), stride1 = SIZE(stride1), stride2 = SIZE(stride2);
    const int64_t dilation0 = SIZE(dilation0), dilation1 = SIZE(dilation1), dilation2 = SIZE(dilation2);
    const int64_t pad0 = SIZE(pad0), pad1 = SIZE(pad1), pad2 = SIZE(pad2);
    const int64_t end0 = SIZE(end0), end1 = SIZE(end1), end2 = SIZE(end2);
    const int64_t storage = SIZE(storage), has_indices = SIZE(has_indices);
    (void)scratch, (void)indices, (void)storage, (void)has_indices;
    for (int64_t task = begin; task < end; task++) {
        const int64_t plane = task / (out0 * out1), o0 = task / out1 % out0, o1 = task % out1;
        const int64_t s0 = o0 * stride0 - pad0, s1 = o1 * stride1 - pad1;
        const ELEMENT *const image = x + plane * in0 * in1 * in2;
        int64_t r0[2], r1[2], r2[2];
        const int64_t rows = IG_FUNCTION_range(s0, kernel0, dilation0, in0, end0, r0) *
                             IG_FUNCTION_range(s1, kernel1, dilation1, in1, end1, r1);
        for (int64_t o2 = 0; o2 < out2; o2++) {
            const int64_t s2 = o2 * stride2 - pad2, cell = task * out2 + o2;
            const int64_t count = rows * IG_FUNCTION_range(s2, kernel2, dilation2, in2, end2, r2);
            int64_t place = -1;
            ELEMENT best = START;
            for (int64_t i = r0[0]; i < r0[1]; i++)
                for (int64_t j = r1[0]; j < r1[1]; j++)
                    for (int64_t l = r2[0]; l < r2[1]; l++) {
                        const int64_t at0 = s0 + i * dilation0, at1 = s1 + j * dilation1, at2 = s2 + l * dilation2;
                        const ELEMENT value = image[(at0 * in1 + at1) * in2 + at2];
#if IS_MAXIMUM
                        if (place < 0 || IS_GREATER(value, best)) {
                            best = value;
                            place = storage == 0 ? (at0 * in1 + at1) * in2 + at2 : at0 + in0 * (at1 + in1 * at2);
                        }
#elif IS_AVERAGE
                        best += value;
#else
                        best += POWER(value);
#endif
                    }
            (void)place, (void)count;
#if IS_MAXIMUM
            out[cell] = best;
            if (has_indices)
                indices[cell] = plane * in0 * in1 * in2 + place;
#elif IS_AVERAGE
            out[cell] = best / (ELEMENT)count;
#else
            out[cell] = ROOT(best);
#endif
        }
    }
}
