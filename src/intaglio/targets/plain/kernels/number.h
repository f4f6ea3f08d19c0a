/* Elements in memory, and the numbers that are computed: 16-bit floats, which are read and written by functions with a
   SUFFIX, are computed in float, all others as they are. */
#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef NUMBER
#define NUMBER float
#endif
#ifndef IS_HALF
#define IS_HALF 0
#endif
#ifndef SUFFIX
#define SUFFIX f32
#endif
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#if IS_HALF
#define READ(p) JOIN(f32_from_, SUFFIX)(*(p))
#define WRITE(p, x) *(p) = JOIN(SUFFIX, _from_f32)(x)
#else
#define READ(p) *(p)
#define WRITE(p, x) *(p) = x
#endif
