/* The functions of C's library for float or double. */
#ifndef IS_DOUBLE
#define IS_DOUBLE 0
#endif
#if IS_DOUBLE
#define FABS fabs
#define FLOOR floor
#define FMOD fmod
#define POW pow
#define RINT rint
#define SQRT sqrt
#else
#define FABS fabsf
#define FLOOR floorf
#define FMOD fmodf
#define POW powf
#define RINT rintf
#define SQRT sqrtf
#endif
