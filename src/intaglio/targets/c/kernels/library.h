/* What kernels use of C's library, declared here: its headers take longer to compile than a kernel. */
#define INFINITY __builtin_inff()
void *memcpy(void *restrict to, const void *restrict from, __SIZE_TYPE__ bytes);
double ceil(double x), cos(double x), exp(double x), fabs(double x), floor(double x), fmod(double x, double y);
double log10(double x), pow(double x, double y), rint(double x), sin(double x), sqrt(double x);
float ceilf(float x), fabsf(float x), floorf(float x), fmodf(float x, float y), powf(float x, float y);
float rintf(float x), sqrtf(float x);
