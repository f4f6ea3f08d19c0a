/* How numbers are written as the floats of 16 bits that C lacks: rounded once to the nearest, of two to the even. */

/* Towards zero, and the last bit set where that is not exact: rounding it once more gives the nearest. */
static inline uint32_t IG_FUNCTION_odd_bits(double x)
{
    const float near = (float)x;
    const double back = (double)near;
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    return (bits - (fabs(back) > fabs(x))) | (back != x);
}

static inline void IG_FUNCTION_write_bfloat16(uint16_t *p, double x)
{
    const uint32_t bits = IG_FUNCTION_odd_bits(x);
    *p = (uint16_t)(x != x ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void IG_FUNCTION_write_float16(uint16_t *p, double x)
{
    const uint32_t bits = IG_FUNCTION_odd_bits(x), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    uint32_t half;
    if (size > 0x7f800000) {
        half = 0x7e00 | (size >> 13 & 0x3ff);
    } else if (size >= 0x47800000) {
        half = 0x7c00;
    } else if (size < 113u << 23) { /* the sum with 0.5 rounds at the last bit of a subnormal number */
        float sum;
        memcpy(&sum, &size, sizeof sum);
        sum += 0.5f;
        memcpy(&half, &sum, sizeof half);
        half -= 0x3f000000;
    } else {
        half = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    }
    *p = (uint16_t)(half | sign);
}
