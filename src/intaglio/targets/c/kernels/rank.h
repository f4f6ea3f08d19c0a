/* An element as bits, and how these are read: as a float whose infinity has the bits INFINITY_BITS, or an integer. */
#ifndef BITS
#define BITS uint32_t
#endif
#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif
#ifndef IS_SIGNED
#define IS_SIGNED 1
#endif
#ifndef INFINITY_BITS
#define INFINITY_BITS 0x7f800000u
#endif
#define SIGN_PLACE (8 * (int)sizeof(BITS) - 1)
#define SIGN ((BITS)1 << SIGN_PLACE)
/* An unsigned number that orders elements as NumPy sorts them: NaN is the greatest. */
#if IS_FLOAT
#define RANK(x)                                                                                                        \
    ((x & ~SIGN) > INFINITY_BITS ? (BITS) ~(BITS)0                                                                     \
     : (x & ~SIGN) == 0          ? (BITS)SIGN                                                                          \
     : (x >> SIGN_PLACE)         ? (BITS)~x                                                                            \
                                 : (BITS)(x | SIGN))
#elif IS_SIGNED
#define RANK(x) (x ^ SIGN)
#else
#define RANK(x) x
#endif
