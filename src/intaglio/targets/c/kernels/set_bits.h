/* An element as bits, and whether it is not zero: subnormal numbers count, a negative zero does not. */
#ifndef BITS
#define BITS uint32_t
#endif
#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif
/* Whether an element is two floats. */
#ifndef IS_COMPLEX
#define IS_COMPLEX 0
#endif
#if IS_COMPLEX
#define SIGN(parts) ((BITS)1 << (8 * (int)sizeof(BITS) / 2 * parts - 1))
#define IS_SET(x) ((x & ~(SIGN(2) | SIGN(1))) != 0)
#elif IS_FLOAT
#define IS_SET(x) ((BITS)(x << 1) != 0)
#else
#define IS_SET(x) (x != 0)
#endif
