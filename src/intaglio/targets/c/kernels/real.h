/* The functions of C's library for a floating-point type. */
#ifndef IS_DOUBLE
#define IS_DOUBLE 0
#endif
#if IS_DOUBLE
#define FABS fabs
#define FLOOR floor
#define POW pow
#define SQRT sqrt
#else
#define FABS fabsf
#define FLOOR floorf
#define POW powf
#define SQRT sqrtf
#endif
