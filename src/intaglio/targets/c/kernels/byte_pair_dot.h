typedef int8_t IG_FUNCTION_bytes __attribute__((vector_size(4 * IG_LANES)));
typedef int16_t IG_FUNCTION_words __attribute__((vector_size(4 * IG_LANES)));

/* Two sums of 16 bits in each lane, and four products of bytes added to them; weights are small enough that neither the
   products nor their sums leave 16 bits. */
IG_INLINE ig_u32 IG_FUNCTION_dot(ig_u32 sum, ig_u32 value, ig_u32 weight)
{
    IG_FUNCTION_words products;
#if IG_LANES == 16
    __asm__("vpmaddubsw %2, %1, %0" : "=v"(products) : "v"(weight), "v"(value));
#else
    __asm__("vpmaddubsw %2, %1, %0" : "=x"(products) : "x"(weight), "x"(value));
#endif
    return (ig_u32)((IG_FUNCTION_words)sum + products);
}

/* The sum of both in 32 bits. */
IG_INLINE ig_u32 IG_FUNCTION_both(ig_u32 sums)
{
    ig_u32 total;
    const ig_u32 ones = ig_set_u32(0x00010001);
#if IG_LANES == 16
    __asm__("vpmaddwd %2, %1, %0" : "=v"(total) : "v"(sums), "v"(ones));
#else
    __asm__("vpmaddwd %2, %1, %0" : "=x"(total) : "x"(sums), "x"(ones));
#endif
    return total;
}
