typedef int16_t IG_FUNCTION_words __attribute__((vector_size(4 * IG_LANES)));

/* sum + two products of 16-bit numbers in each lane; the numbers are small enough that the products do not wrap. */
IG_INLINE ig_u32 IG_FUNCTION_dot(ig_u32 sum, ig_u32 value, ig_u32 weight)
{
#if !defined(IG_PORTABLE) && defined(__AVX512BW__) && IG_LANES == 16
    ig_u32 products;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(products) : "v"(value), "v"(weight));
    return sum + products;
#elif !defined(IG_PORTABLE) && defined(__AVX2__) && IG_LANES == 8
    return sum + (ig_u32)__builtin_ia32_pmaddwd256((IG_FUNCTION_words)value, (IG_FUNCTION_words)weight);
#elif !defined(IG_PORTABLE) && defined(__SSE2__) && IG_LANES == 4
    return sum + (ig_u32)__builtin_ia32_pmaddwd128((IG_FUNCTION_words)value, (IG_FUNCTION_words)weight);
#else
    const ig_i32 low = ((ig_i32)(value << 16) >> 16) * ((ig_i32)(weight << 16) >> 16);
    return sum + (ig_u32)low + (ig_u32)(((ig_i32)value >> 16) * ((ig_i32)weight >> 16));
#endif
}
