/* Floats of four to eight bits, each in a byte of its own, and integers of two and four bits.

   Registers hold the bytes (ig_u8). Bits above the type's width are zero in what is made here; where they are not, they
   count as the sign of a float, as in ml_dtypes, and not at all in integers.
   For each float type T of e4m3fn e4m3fnuz e5m2 e5m2fnuz e2m3 e3m2 e2m1
     ig_f32_from_T(u8)                exact
     ig_T_from_f32(f32, saturate)     to nearest even; beyond the greatest number that one, or infinity or NaN where
                                      `saturate` is 0 and the type has them
   e8m0, which has powers of two only, is rounded as `add` says: IG_UP, IG_NEAREST or IG_DOWN. Its least number is a
   denormal float32, and those are flushed while a model runs: so all of this is done on bits.
     ig_f32_from_e8m0(u8)  ig_f64_from_e8m0(u8)  ig_e8m0_from_f32(f32, add, saturate)  ig_e8m0_from_f64(...)
   ig_i8_from_int4(u8)  ig_i8_from_int2(u8)     the signed integers; unsigned ones only need their low bits */
#ifndef IG_NARROW_H
#define IG_NARROW_H

#include "ig_loop.h"

/* A sign, `exponent` bits with a bias, `mantissa` bits: what all but e8m0 are made of. */
IG_INLINE ig_u32 ig_narrow_magnitude(ig_u8 x, int width) { return ig_cast_u8_u32(x) & ((1u << width) - 1); }
IG_INLINE ig_u32 ig_narrow_sign(ig_u8 x, int width) {
    return (ig_u32)ig_gt_i32((ig_i32)ig_cast_u8_u32(x), ig_set_i32((1 << width) - 1)) << 31;
}

IG_INLINE ig_u32 ig_narrow_decode(ig_u32 magnitude, int mantissa, int bias) {
    const ig_u32 normal = (magnitude << (23 - mantissa)) + ((uint32_t)(127 - bias) << 23);
    const ig_f32 step = (ig_f32)((ig_u32){0} + ((uint32_t)(128 - bias - mantissa) << 23));
    const ig_u32 small = (ig_u32)(ig_cast_i32_f32((ig_i32)magnitude) * step);
    return ig_select_u32(ig_lt_i32((ig_i32)magnitude, ig_set_i32(1 << mantissa)), small, normal);
}

/* The code of |x| if `top` is the greatest finite one, else `over`. Adding the least float32 whose neighbours are as far
   apart as those of small numbers rounds these; larger ones are rounded by adding half of what is cut off. */
IG_INLINE ig_u32 ig_narrow_encode(ig_f32 x, int mantissa, int bias, int32_t top, uint32_t over) {
    const ig_u32 bits = (ig_u32)x & 0x7fffffff;
    const ig_u32 magic = (ig_u32){0} + ((uint32_t)(151 - bias - mantissa) << 23);
    const ig_u32 small = (ig_u32)((ig_f32)bits + (ig_f32)magic) - magic;
    const ig_u32 half = ((1u << (22 - mantissa)) - 1) + (bits >> (23 - mantissa) & 1);
    const ig_u32 normal = ((bits + half) >> (23 - mantissa)) - ((uint32_t)(127 - bias) << mantissa);
    const ig_i32 is_small = ig_lt_i32((ig_i32)bits, ig_set_i32((128 - bias) << 23));
    const ig_u32 code = ig_select_u32(is_small, small, normal);
    return ig_select_u32(ig_gt_i32((ig_i32)code, ig_set_i32(top)), (ig_u32){0} + over, code);
}

IG_INLINE ig_u32 ig_narrow_sign_of(ig_f32 x, int width) { return (ig_u32)x >> 31 << width; }

/* With infinities, or at least NaN of both signs: codes above `last` are NaN, which is written as `nan`. */
#define IG_DEFINE_NARROW_IEEE(T, mantissa, bias, top, beyond, infinity, last, nan)                                     \
    IG_INLINE ig_f32 ig_f32_from_##T(ig_u8 x) {                                                                        \
        const ig_u32 magnitude = ig_narrow_magnitude(x, 7);                                                            \
        ig_u32 bits = ig_narrow_decode(magnitude, mantissa, bias);                                                     \
        bits = ig_select_u32(ig_eq_u32(magnitude, (ig_u32){0} + (infinity)), (ig_u32){0} + 0x7f800000, bits);          \
        bits = ig_select_u32(ig_gt_i32((ig_i32)magnitude, ig_set_i32(last)), (ig_u32){0} + 0x7fc00000, bits);          \
        return (ig_f32)(bits | ig_narrow_sign(x, 7));                                                                  \
    }                                                                                                                  \
    IG_INLINE ig_u8 ig_##T##_from_f32(ig_f32 x, int saturate) {                                                        \
        const ig_u32 code = ig_narrow_encode(x, mantissa, bias, top, saturate ? (top) : (beyond));                     \
        const ig_u32 kept = ig_select_u32(ig_is_nan_f32(x), (ig_u32){0} + (nan), code);                                \
        return ig_cast_u32_u8(kept | ig_narrow_sign_of(x, 7));                                                         \
    }
IG_DEFINE_NARROW_IEEE(e4m3fn, 3, 7, 0x7e, 0x7f, 0x100, 0x7e, 0x7f)
IG_DEFINE_NARROW_IEEE(e5m2, 2, 15, 0x7b, 0x7c, 0x7c, 0x7c, 0x7e)

/* NaN is where minus zero would be, and there is nothing else beside the numbers. */
#define IG_DEFINE_NARROW_FNUZ(T, mantissa, bias)                                                                       \
    IG_INLINE ig_f32 ig_f32_from_##T(ig_u8 x) {                                                                        \
        const ig_u32 bits = ig_narrow_decode(ig_narrow_magnitude(x, 7), mantissa, bias) | ig_narrow_sign(x, 7);        \
        const ig_i32 is_nan = ig_eq_u32(ig_cast_u8_u32(x), (ig_u32){0} + 0x80);                                        \
        return (ig_f32)ig_select_u32(is_nan, (ig_u32){0} + 0xffc00000, bits);                                          \
    }                                                                                                                  \
    IG_INLINE ig_u8 ig_##T##_from_f32(ig_f32 x, int saturate) {                                                        \
        const ig_u32 code = ig_narrow_encode(x, mantissa, bias, 0x7f, saturate ? 0x7f : 0x80), zero = {0};             \
        const ig_u32 kept = ig_select_u32(ig_eq_u32(code, zero), zero, code | ig_narrow_sign_of(x, 7));                \
        return ig_cast_u32_u8(ig_select_u32(ig_is_nan_f32(x), zero + 0x80, kept));                                     \
    }
IG_DEFINE_NARROW_FNUZ(e4m3fnuz, 3, 8)
IG_DEFINE_NARROW_FNUZ(e5m2fnuz, 2, 16)

/* Nothing but numbers: they always saturate, and NaN becomes the zero of the other sign, as in ml_dtypes. */
#define IG_DEFINE_NARROW_FINITE(T, mantissa, bias, width)                                                              \
    IG_INLINE ig_f32 ig_f32_from_##T(ig_u8 x) {                                                                        \
        const ig_u32 bits = ig_narrow_decode(ig_narrow_magnitude(x, width), mantissa, bias);                           \
        return (ig_f32)(bits | ig_narrow_sign(x, width));                                                              \
    }                                                                                                                  \
    IG_INLINE ig_u8 ig_##T##_from_f32(ig_f32 x, int saturate) {                                                        \
        const int32_t top = (1 << (width)) - 1;                                                                        \
        const ig_u32 code = ig_narrow_encode(x, mantissa, bias, top, (uint32_t)top) | ig_narrow_sign_of(x, width);     \
        const ig_u32 nan = ig_narrow_sign_of(x, width) ^ (1u << (width));                                              \
        (void)saturate;                                                                                                \
        return ig_cast_u32_u8(ig_select_u32(ig_is_nan_f32(x), nan, code));                                             \
    }
IG_DEFINE_NARROW_FINITE(e2m3, 3, 1, 5)
IG_DEFINE_NARROW_FINITE(e3m2, 2, 3, 5)
IG_DEFINE_NARROW_FINITE(e2m1, 1, 1, 3)

/* What is added to a mantissa so that the carry rounds the exponent, as parts of 2. */
#define IG_UP 2
#define IG_NEAREST 1
#define IG_DOWN 0

IG_INLINE ig_f32 ig_f32_from_e8m0(ig_u8 x) {
    const ig_u32 code = ig_cast_u8_u32(x), zero = {0};
    const ig_u32 bits = ig_select_u32(ig_eq_u32(code, zero), zero + 0x400000, code << 23);
    return (ig_f32)ig_select_u32(ig_eq_u32(code, zero + 0xff), zero + 0x7fc00000, bits);
}

IG_INLINE ig_f64 ig_f64_from_e8m0(ig_u8 x) {
    const ig_u64 code = ig_cast_u8_u64(x), zero = {0};
    const ig_u64 bits = (code + 896) << 52;
    return (ig_f64)ig_select_u64(ig_eq_u64(code, zero + 0xff), zero + 0x7ff8000000000000ull, bits);
}

IG_INLINE ig_u8 ig_e8m0_limit(ig_i32 code, ig_i32 is_below, ig_i32 is_nan, int saturate) {
    const ig_i32 nan = ig_set_i32(255), is_over = ig_gt_i32(code, ig_set_i32(254));
    code = ig_select_i32(is_over, saturate ? ig_set_i32(254) : nan, code);
    code = ig_select_i32(is_below, saturate ? ig_set_i32(0) : nan, code);
    return ig_cast_i32_u8(ig_select_i32(is_nan, nan, code));
}

/* A denormal float32 is looked at with its bits moved by one, where the least number has the bit of an exponent of 1. */
IG_INLINE ig_u8 ig_e8m0_from_f32(ig_f32 x, int add, int saturate) {
    const int32_t carry = add == IG_UP ? 0x7fffff : add == IG_NEAREST ? 0x400000 : 0;
    const int32_t least = add == IG_UP ? 0x400001 : add == IG_NEAREST ? 0x600000 : 0x800000;
    const ig_i32 bits = (ig_i32)x, zero = {0}, moved = (ig_i32)((ig_u32)x << 1);
    const ig_i32 is_denormal = ig_lt_i32(bits, zero + 0x800000), is_tiny = ig_lt_i32(moved, zero + 0x800000);
    const ig_i32 small = ig_select_i32(is_tiny, zero, (ig_i32)(((ig_u32)moved + (uint32_t)carry) >> 23) - 1);
    const ig_i32 normal = (ig_i32)(((ig_u32)x + (uint32_t)carry) >> 23);
    const ig_i32 is_below = ig_lt_i32(bits, zero) | (is_denormal & ig_lt_i32(moved, zero + least));
    const ig_i32 is_nan = ig_gt_i32(bits & 0x7fffffff, zero + 0x7f800000);
    return ig_e8m0_limit(ig_select_i32(is_denormal, small, normal), is_below, is_nan, saturate);
}

IG_INLINE ig_u8 ig_e8m0_from_f64(ig_f64 x, int add, int saturate) {
    const uint64_t carry = add == IG_UP ? 0xfffffffffffffull : add == IG_NEAREST ? 0x8000000000000ull : 0;
    const ig_u64 size = (ig_u64)x & 0x7fffffffffffffffull;
    const ig_i32 code = ig_cast_i64_i32((ig_i64)((size + carry) >> 52)) - 896;
    const ig_i32 is_negative = ig_cast_i64_i32(ig_lt_i64((ig_i64)x, (ig_i64){0}));
    const ig_i32 is_nan = ig_cast_i64_i32(ig_gt_i64((ig_i64)size, ig_set_i64(0x7ff0000000000000ll)));
    return ig_e8m0_limit(code, is_negative | ig_lt_i32(code, (ig_i32){0}), is_nan, saturate);
}

IG_INLINE ig_i8 ig_i8_from_int4(ig_u8 x) { return (((ig_i8)x & 15) ^ 8) - 8; }
IG_INLINE ig_i8 ig_i8_from_int2(ig_u8 x) { return (((ig_i8)x & 3) ^ 2) - 2; }

#endif
