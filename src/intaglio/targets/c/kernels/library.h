/* What kernels use of C's library, declared here: its headers take longer to compile than a kernel. */
#define INFINITY __builtin_inff()
typedef __SIZE_TYPE__ size_t;
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
double ceil(double x), cos(double x), exp(double x), fabs(double x), floor(double x), fmod(double x, double y);
double frexp(double x, int *exponent), ldexp(double x, int exponent), log10(double x), pow(double x, double y);
double rint(double x), sin(double x), sqrt(double x);
float ceilf(float x), fabsf(float x), floorf(float x), fmodf(float x, float y), frexpf(float x, int *exponent);
float ldexpf(float x, int exponent), powf(float x, float y), rintf(float x), sqrtf(float x);
