/* sum + four products of bytes in each lane. */
IG_INLINE ig_u32 IG_FUNCTION_dot(ig_u32 sum, ig_u32 value, ig_u32 weight)
{
#if IG_LANES == 16
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(UNSIGNED), "v"(SIGNED));
#else
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(UNSIGNED), "x"(SIGNED));
#endif
    return sum;
}
