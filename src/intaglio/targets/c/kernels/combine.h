/* How an element so far and an update of it make a new one. */
#include "number.h"

/* The reduction; the update replaces the element where it is none of them. */
#ifndef IS_SUM
#define IS_SUM 1
#endif
#ifndef IS_PRODUCT
#define IS_PRODUCT 0
#endif
#ifndef IS_MAXIMUM
#define IS_MAXIMUM 0
#endif
#ifndef IS_MINIMUM
#define IS_MINIMUM 0
#endif
/* What elements are; integers where they are none of these. Complex numbers are bits with two parts. */
#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif
#ifndef IS_BOOL
#define IS_BOOL 0
#endif
#ifndef IS_COMPLEX
#define IS_COMPLEX 0
#endif
#ifndef PART
#define PART float
#endif
#if !IS_SUM && !IS_PRODUCT && !IS_MAXIMUM && !IS_MINIMUM
#define COMBINED(a, b) b
#elif IS_BOOL && IS_SUM || IS_BOOL && IS_MAXIMUM
#define COMBINED(a, b) a | b
#elif IS_BOOL
#define COMBINED(a, b) (a & b)
#elif IS_MAXIMUM && IS_FLOAT
#define COMBINED(a, b) a != a ? a : b != b ? b : a > b ? a : b
#elif IS_MAXIMUM
#define COMBINED(a, b) a > b ? a : b
#elif IS_MINIMUM && IS_FLOAT
#define COMBINED(a, b) a != a ? a : b != b ? b : a < b ? a : b
#elif IS_MINIMUM
#define COMBINED(a, b) a < b ? a : b
#elif IS_SUM && IS_FLOAT
#define COMBINED(a, b) a + b
#elif IS_SUM
#define COMBINED(a, b) (uint64_t)a + (uint64_t)b
#elif IS_FLOAT
#define COMBINED(a, b) (a * b)
#else
#define COMBINED(a, b) ((uint64_t)a * (uint64_t)b)
#endif

static inline ELEMENT IG_FUNCTION_combine(ELEMENT x, ELEMENT y)
{
#if IS_COMPLEX
    PART a[2], b[2];
    memcpy(a, &x, sizeof x);
    memcpy(b, &y, sizeof y);
#if IS_SUM
    const PART result[2] = {a[0] + b[0], a[1] + b[1]};
#else
    const PART result[2] = {a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]};
#endif
    memcpy(&x, result, sizeof x);
#else
    const NUMBER a = READ(&x), b = READ(&y);
    (void)a;
    WRITE(&x, (NUMBER)(COMBINED(a, b)));
#endif
    return x;
}
