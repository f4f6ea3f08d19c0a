/* How random numbers become elements: double precision times FACTOR plus OFFSET, rounded once. */
#ifndef ELEMENT
#define ELEMENT float
#endif
/* The function that makes vectors of what is stored, and the suffix of the one that stores them. */
#ifndef NARROWED
#define NARROWED ig_cast_f64_f32
#endif
#ifndef SUFFIX
#define SUFFIX f32
#endif
#ifndef FACTOR
#define FACTOR 1.0
#endif
#ifndef OFFSET
#define OFFSET 0.0
#endif
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define STORE_N JOIN(ig_store_n_, SUFFIX)

/* The product is rounded before it is added to: no compiler may fuse the two. */
IG_INLINE ig_f64 IG_FUNCTION_scaled(ig_f64 x)
{
    ig_f64 product = x * FACTOR;
    __asm__("" : "+m"(product));
    return product + OFFSET;
}

typedef struct {
    void *key, *out;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count, rows, block;
} IG_FUNCTION_sizes;
