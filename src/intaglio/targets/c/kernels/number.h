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
#define READ(p) JOIN(ig_load_n_, SUFFIX)(p, 1)[0]
#define WRITE(p, x) JOIN(ig_store_n_, SUFFIX)(p, ig_set_f32(x), 1)
#else
#define READ(p) *(p)
#define WRITE(p, x) *(p) = x
#endif
