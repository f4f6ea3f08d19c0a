/* How places of the result become places of the input. */
#define HALF_PIXEL 0
#define ASYMMETRIC 1
#define ALIGN_CORNERS 2
#define PYTORCH_HALF_PIXEL 3
#define HALF_PIXEL_SYMMETRIC 4
#define TF_CROP_AND_RESIZE 5
#ifndef COORDINATES
#define COORDINATES HALF_PIXEL
#endif
/* Whether places outside of the input take another value than the nearest. */
#define CROPS (COORDINATES == TF_CROP_AND_RESIZE)
/* The places of the result for which a task makes the table. */
#define BLOCK 256
#define HALF ((NUMBER)0.5)

/* A length of the result as one of the input; without a scale by the ratio of the sizes, rounded once. */
static inline NUMBER IG_FUNCTION_back(NUMBER x, NUMBER size, NUMBER resized, NUMBER scale)
{
    return scale > 0 ? x / scale : x * size / resized;
}

/* Where an element lies, without fused operations: the rounding decides at ties. `length` is the resized size before it
   is rounded down. */
static inline NUMBER IG_FUNCTION_place(NUMBER x, NUMBER size, NUMBER resized, NUMBER length, NUMBER scale, NUMBER from,
                                       NUMBER to)
{
    (void)size, (void)resized, (void)length, (void)scale, (void)from, (void)to;
#if COORDINATES == HALF_PIXEL
    return IG_FUNCTION_back(x + HALF, size, resized, scale) - HALF;
#elif COORDINATES == ASYMMETRIC
    return IG_FUNCTION_back(x, size, resized, scale);
#elif COORDINATES == ALIGN_CORNERS
    return resized > 1 ? x * (size - 1) / (length - 1) : 0;
#elif COORDINATES == PYTORCH_HALF_PIXEL
    return resized > 1 ? IG_FUNCTION_back(x + HALF, size, resized, scale) - HALF : 0;
#elif COORDINATES == HALF_PIXEL_SYMMETRIC
    const volatile NUMBER moved = scale > 0 ? size / 2 * (1 - resized / (scale * size)) : 0;
    return moved + (IG_FUNCTION_back(x + HALF, size, resized, scale) - HALF);
#else
    const volatile NUMBER begin = from * (size - 1), middle = HALF * (from + to) * (size - 1);
    const volatile NUMBER way = x * (to - from) * (size - 1) / (resized - 1);
    return resized > 1 ? begin + way : middle;
#endif
}
