/* The epilogue that only stores a kernel's result, with a bias for each column added to it where there is one. */
#include "ig_loop.h"

#ifndef ELEMENT
#define ELEMENT float
#endif
/* A register full of them. */
#ifndef RESULT
#define RESULT ig_f32
#endif
/* Which buffer is written, and which size tells how many elements its rows are apart. The bias is the next buffer. */
#ifndef OUT
#define OUT 2
#endif
#ifndef STEP
#define STEP 3
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0
#endif

static inline void ig_epilogue(void *const *buffer, const int64_t *size, int64_t row, int64_t col, RESULT acc)
{
#if HAS_BIAS
    RESULT bias = {0};
    __builtin_memcpy(&bias, (const ELEMENT *)buffer[OUT + 1] + col, sizeof bias);
    acc += bias;
#endif
    __builtin_memcpy((ELEMENT *)buffer[OUT] + row * size[STEP] + col, &acc, sizeof acc);
}

/* The same for the first n lanes. */
static inline void ig_epilogue_n(void *const *buffer, const int64_t *size, int64_t row, int64_t col, RESULT acc,
                                 int64_t n)
{
#if HAS_BIAS
    RESULT bias = {0};
    __builtin_memcpy(&bias, (const ELEMENT *)buffer[OUT + 1] + col, (uint64_t)n * sizeof(ELEMENT));
    acc += bias;
#endif
    __builtin_memcpy((ELEMENT *)buffer[OUT] + row * size[STEP] + col, &acc, (uint64_t)n * sizeof(ELEMENT));
}
