/* n values, the rest zero; a whole vector in one load. */
IG_INLINE ig_f32 IG_FUNCTION_load(const int is_whole, const float *from, int64_t n)
{
    if (is_whole)
        return *(const ig_f32_at *)from;
#if defined __AVX512F__ && IG_LANES == 16
    return __builtin_ia32_loadups512_mask(from, (ig_f32){0}, (uint16_t)((1u << n) - 1));
#elif defined __AVX2__ && IG_LANES == 8
    typedef int32_t lanes __attribute__((vector_size(4 * IG_LANES)));
    return __builtin_ia32_maskloadps256((const ig_f32 *)from, (lanes)((lanes){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)n));
#else
    ig_f32 value = {0};
    for (int64_t l = 0; l < n; l++)
        value[l] = from[l];
    return value;
#endif
}
