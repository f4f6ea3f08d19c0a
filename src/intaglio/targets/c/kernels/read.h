/* How a number is read: `*` where C has its type, else one of the functions here. */
static inline float IG_FUNCTION_read_bfloat16(const uint16_t *p)
{
    const uint32_t bits = (uint32_t)*p << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float IG_FUNCTION_read_float16(const uint16_t *p)
{
    const uint32_t sign = (uint32_t)(*p & 0x8000) << 16, size = *p & 0x7fff;
    const float subnormal = (float)size * 0x1p-24f;
    uint32_t bits = size >= 0x7c00 ? size << 13 | 0x7f800000 : (size << 13) + (112u << 23);
    float x;
    if (size < 0x400)
        memcpy(&bits, &subnormal, sizeof bits);
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}
