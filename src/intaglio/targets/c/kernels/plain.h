/* What plain kernels use: those that include this file are C11 and use C's library by its own names. Its headers take
   longer to compile than kernels do, so that its functions are declared here. */
#include "kernel.h"
#define INFINITY __builtin_inff()
void *memcpy(void *restrict to, const void *restrict from, __SIZE_TYPE__ bytes);
double ceil(double x), fabs(double x), floor(double x), pow(double x, double y), sqrt(double x);
float ceilf(float x), fabsf(float x), floorf(float x), powf(float x, float y), sqrtf(float x);
