/* What loop kernels need beyond ig_math.h: strided access, 16-bit floats in memory, reductions of a vector, and the
   integer operations whose C twins can trap. */
#ifndef IG_LOOP_H
#define IG_LOOP_H

#include "ig_math.h"

typedef float ig_f32_element;
typedef double ig_f64_element;
typedef int8_t ig_i8_element;
typedef int16_t ig_i16_element;
typedef int32_t ig_i32_element;
typedef int64_t ig_i64_element;
typedef uint8_t ig_u8_element;
typedef uint16_t ig_u16_element;
typedef uint32_t ig_u32_element;
typedef uint64_t ig_u64_element;

/* The same vectors at any address. */
typedef float ig_f32_at __attribute__((vector_size(4 * IG_LANES), aligned(4), may_alias));
typedef double ig_f64_half_at __attribute__((vector_size(4 * IG_LANES), aligned(8), may_alias));

#ifdef __clang__
#define IG_UNROLL _Pragma("unroll")
#else
#define IG_UNROLL _Pragma("GCC unroll 32")
#endif

#define ig_lowest_f32 (-__builtin_inff())
#define ig_highest_f32 __builtin_inff()
#define ig_lowest_f64 (-__builtin_inf())
#define ig_highest_f64 __builtin_inf()
#define ig_lowest_i8 ((int8_t)-128)
#define ig_highest_i8 ((int8_t)127)
#define ig_lowest_i16 ((int16_t)-32768)
#define ig_highest_i16 ((int16_t)32767)
#define ig_lowest_i32 (-2147483647 - 1)
#define ig_highest_i32 2147483647
#define ig_lowest_i64 (-9223372036854775807LL - 1)
#define ig_highest_i64 9223372036854775807LL
#define ig_lowest_u8 ((uint8_t)0)
#define ig_highest_u8 ((uint8_t)255)
#define ig_lowest_u16 ((uint16_t)0)
#define ig_highest_u16 ((uint16_t)65535)
#define ig_lowest_u32 0u
#define ig_highest_u32 0xffffffffu
#define ig_lowest_u64 0ull
#define ig_highest_u64 0xffffffffffffffffull

/* Access with a stride of `step` elements; lanes from n on are zero. */
#define IG_DEFINE_STRIDED(T, scalar)                                                                                   \
    IG_INLINE ig_##T ig_broadcast_##T(const scalar *p) { return ig_set_##T(*p); }                                      \
    IG_INLINE ig_##T ig_gather_##T(const scalar *p, int64_t step, int64_t n) {                                         \
        ig_##T v = {0};                                                                                                \
        for (int64_t lane = 0; lane < n; lane++)                                                                       \
            v[lane] = p[lane * step];                                                                                  \
        return v;                                                                                                      \
    }                                                                                                                  \
    IG_INLINE void ig_scatter_##T(scalar *p, int64_t step, ig_##T v, int64_t n) {                                      \
        for (int64_t lane = 0; lane < n; lane++)                                                                       \
            p[lane * step] = v[lane];                                                                                  \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_keep_##T(ig_##T v, ig_##T other, int64_t n) {                                                  \
        for (int64_t lane = n; lane < IG_LANES; lane++)                                                                \
            v[lane] = other[lane];                                                                                     \
        return v;                                                                                                      \
    }

/* Lanes combined in a fixed order, so that the result depends on nothing else. */
#define IG_DEFINE_FOLD(T, scalar, name, expression)                                                                  \
    IG_INLINE scalar ig_reduce_##name##_##T(ig_##T v) {                                                                \
        scalar a = v[0];                                                                                               \
        for (int lane = 1; lane < IG_LANES; lane++) {                                                                  \
            const scalar b = v[lane];                                                                                  \
            a = (scalar)(expression);                                                                                  \
        }                                                                                                              \
        return a;                                                                                                      \
    }

/* Written so that it is no comparison which is always false for unsigned types. */
#define IG_NEGATIVE(x) (!((x) >= 1 || (x) == 0))

/* A divisor of zero gives zero, and the least value divided by -1 gives itself: there is no trap. */
#define IG_DEFINE_DIVISION(T, scalar)                                                                                  \
    IG_INLINE scalar ig_quotient_##T(scalar a, scalar b) {                                                             \
        if (b == 0)                                                                                                    \
            return 0;                                                                                                  \
        return (scalar)((scalar)-1 < (scalar)1 && b == (scalar)-1 ? (scalar)(0 - (uint64_t)a) : (scalar)(a / b));      \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_div_##T(ig_##T a, ig_##T b) {                                                                  \
        for (int lane = 0; lane < IG_LANES; lane++)                                                                    \
            a[lane] = ig_quotient_##T(a[lane], b[lane]);                                                               \
        return a;                                                                                                      \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_fmod_##T(ig_##T a, ig_##T b) {                                                                 \
        for (int lane = 0; lane < IG_LANES; lane++)                                                                    \
            a[lane] = (scalar)(b[lane] == 0 ? 0 : a[lane] - (uint64_t)ig_quotient_##T(a[lane], b[lane]) * (uint64_t)b[lane]); \
        return a;                                                                                                      \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_mod_##T(ig_##T a, ig_##T b) {                                                                  \
        ig_##T r = ig_fmod_##T(a, b);                                                                                  \
        for (int lane = 0; lane < IG_LANES; lane++)                                                                    \
            if (r[lane] != 0 && IG_NEGATIVE(r[lane]) != IG_NEGATIVE(b[lane]))                                          \
                r[lane] = (scalar)(r[lane] + b[lane]);                                                                 \
        return r;                                                                                                      \
    }                                                                                                                  \
    IG_INLINE scalar ig_mean_##T(scalar total, int64_t count) { return ig_quotient_##T(total, (scalar)count); }        \
    IG_INLINE ig_##T ig_shift_left_##T(ig_##T a, ig_##T b) {                                                           \
        for (int lane = 0; lane < IG_LANES; lane++)                                                                    \
            a[lane] = (uint64_t)b[lane] >= 8 * sizeof(scalar) ? 0 : (scalar)((uint64_t)a[lane] << b[lane]);            \
        return a;                                                                                                      \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_shift_right_##T(ig_##T a, ig_##T b) {                                                          \
        for (int lane = 0; lane < IG_LANES; lane++) {                                                                  \
            const int is_over = (uint64_t)b[lane] >= 8 * sizeof(scalar);                                               \
            a[lane] = is_over ? (IG_NEGATIVE(a[lane]) ? (scalar)-1 : 0) : (scalar)(a[lane] >> b[lane]);                \
        }                                                                                                              \
        return a;                                                                                                      \
    }

/* Signed integers wrap around, which C promises for unsigned ones alone. */
#define IG_DEFINE_WRAPPING(T, U)                                                                                       \
    IG_INLINE ig_##T ig_add_##T(ig_##T a, ig_##T b) { return (ig_##T)((ig_##U)a + (ig_##U)b); }                        \
    IG_INLINE ig_##T ig_sub_##T(ig_##T a, ig_##T b) { return (ig_##T)((ig_##U)a - (ig_##U)b); }                        \
    IG_INLINE ig_##T ig_mul_##T(ig_##T a, ig_##T b) { return (ig_##T)((ig_##U)a * (ig_##U)b); }                        \
    IG_INLINE ig_##T ig_neg_##T(ig_##T a) { return (ig_##T)(0 - (ig_##U)a); }

/* Modulo 2^64, one lane after another. */
static inline ig_u64 ig_power_u64(ig_u64 base, ig_u64 exponent) {
    ig_u64 result = {0};
    for (int lane = 0; lane < IG_LANES; lane++) {
        uint64_t power = 1, square = base[lane];
        for (uint64_t left = exponent[lane]; left; left >>= 1, square *= square)
            power = left & 1 ? power * square : power;
        result[lane] = power;
    }
    return result;
}
IG_INLINE ig_u64 ig_magnitude_i64(ig_i64 x) {
    const ig_u64 bits = (ig_u64)x;
    return ig_select_u64(ig_lt_i64(x, (ig_i64){0}), 0 - bits, bits);
}

#define IG_DEFINE_INTEGER_LOOP(T, U, scalar)                                                                           \
    IG_DEFINE_STRIDED(T, scalar)                                                                                       \
    IG_DEFINE_DIVISION(T, scalar)                                                                                      \
    IG_DEFINE_WRAPPING(T, U)                                                                                           \
    IG_DEFINE_FOLD(T, scalar, add, (uint64_t)a + (uint64_t)b)                                                        \
    IG_DEFINE_FOLD(T, scalar, mul, (uint64_t)a *(uint64_t)b)                                                         \
    IG_DEFINE_FOLD(T, scalar, min, a < b ? a : b)                                                                    \
    IG_DEFINE_FOLD(T, scalar, max, a > b ? a : b)                                                                    \
    IG_INLINE ig_##T ig_abs_##T(ig_##T a) { return ig_select_##T(ig_lt_##T(a, (ig_##T){0}), ig_neg_##T(a), a); }        \
    IG_INLINE ig_##T ig_sign_##T(ig_##T a) {                                                                           \
        const ig_##T zero = {0}, one = zero + 1;                                                                       \
        return ig_select_##T(ig_gt_##T(a, zero), one, ig_select_##T(ig_lt_##T(a, zero), zero - one, zero));            \
    }

IG_DEFINE_INTEGER_LOOP(i8, u8, int8_t)
IG_DEFINE_INTEGER_LOOP(i16, u16, int16_t)
IG_DEFINE_INTEGER_LOOP(i32, u32, int32_t)
IG_DEFINE_INTEGER_LOOP(i64, u64, int64_t)
IG_DEFINE_INTEGER_LOOP(u8, u8, uint8_t)
IG_DEFINE_INTEGER_LOOP(u16, u16, uint16_t)
IG_DEFINE_INTEGER_LOOP(u32, u32, uint32_t)
IG_DEFINE_INTEGER_LOOP(u64, u64, uint64_t)

#define IG_DEFINE_FLOAT_LOOP(T, scalar)                                                                                \
    IG_DEFINE_STRIDED(T, scalar)                                                                                       \
    IG_DEFINE_FOLD(T, scalar, mul, a *b)                                                                             \
    IG_INLINE scalar ig_mean_##T(scalar total, int64_t count) { return total / (scalar)count; }                        \
    IG_INLINE ig_##T ig_mod_##T(ig_##T a, ig_##T b) {                                                                  \
        const ig_##T r = ig_fmod_##T(a, b), zero = {0};                                                                \
        const ig_##T moved = ig_select_##T(ig_lt_##T(r, zero) ^ ig_lt_##T(b, zero), r + b, r);                         \
        return ig_select_##T(ig_eq_##T(r, zero), ig_copysign_##T(zero, b), moved);                                     \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_sign_##T(ig_##T a) {                                                                           \
        const ig_##T zero = {0}, one = zero + 1;                                                                       \
        const ig_##T negative = ig_select_##T(ig_lt_##T(a, zero), zero - one, a + zero);                               \
        return ig_select_##T(ig_gt_##T(a, zero), one, negative);                                                       \
    }

IG_DEFINE_FLOAT_LOOP(f32, float)
IG_DEFINE_FLOAT_LOOP(f64, double)

/* float16 and bfloat16 in memory, float32 in registers. */
#define IG_DEFINE_HALF(T)                                                                                              \
    IG_INLINE ig_f32 ig_load_##T(const void *p) { return ig_f32_from_##T(ig_load_u16(p)); }                            \
    IG_INLINE ig_f32 ig_load_n_##T(const void *p, int64_t n) { return ig_f32_from_##T(ig_load_n_u16(p, n)); }          \
    IG_INLINE void ig_store_##T(void *p, ig_f32 v) { ig_store_u16(p, ig_##T##_from_f32(v)); }                          \
    IG_INLINE void ig_store_n_##T(void *p, ig_f32 v, int64_t n) { ig_store_n_u16(p, ig_##T##_from_f32(v), n); }        \
    IG_INLINE ig_f32 ig_broadcast_##T(const uint16_t *p) { return ig_f32_from_##T(ig_broadcast_u16(p)); }              \
    IG_INLINE ig_f32 ig_gather_##T(const uint16_t *p, int64_t step, int64_t n) {                                       \
        return ig_f32_from_##T(ig_gather_u16(p, step, n));                                                             \
    }                                                                                                                  \
    IG_INLINE void ig_scatter_##T(uint16_t *p, int64_t step, ig_f32 v, int64_t n) {                                    \
        ig_scatter_u16(p, step, ig_##T##_from_f32(v), n);                                                              \
    }                                                                                                                  \
    IG_INLINE ig_f32 ig_round_##T(ig_f32 v) { return ig_f32_from_##T(ig_##T##_from_f32(v)); }

IG_DEFINE_HALF(f16)
IG_DEFINE_HALF(bf16)

/* round(x) + zero, half to even, within the bytes; NaN gives the zero point. */
#if IG_AVX512
#define IG_NEAREST_I32(x) __builtin_ia32_cvtps2dq512_mask(x, (ig_i32){0}, (uint16_t)-1, 4)
#elif IG_AVX2
#define IG_NEAREST_I32(x) __builtin_ia32_cvtps2dq256(x)
#elif IG_SSE2
#define IG_NEAREST_I32(x) __builtin_ia32_cvtps2dq(x)
#else
#define IG_NEAREST_I32(x) ig_cast_f32_i32(ig_round_f32(x))
#endif
#define IG_DEFINE_QUANTIZE(T, low, high)                                                                               \
    IG_INLINE ig_##T ig_quantize_##T(ig_f32 x, ig_##T zero) {                                                          \
        const ig_i32 shift = ig_cast_##T##_i32(zero);                                                                  \
        const ig_f32 offset = ig_cast_i32_f32(shift), number = (ig_f32)((ig_i32)x & ig_eq_f32(x, x));                  \
        const ig_f32 least = ig_set_f32(low) - offset, most = ig_set_f32(high) - offset;                               \
        const ig_f32 within = ig_max_fast_f32(least, ig_min_fast_f32(most, number));                                   \
        return ig_cast_i32_##T(IG_NEAREST_I32(within) + shift);                                                        \
    }
IG_DEFINE_QUANTIZE(u8, 0.0f, 255.0f)
IG_DEFINE_QUANTIZE(i8, -128.0f, 127.0f)

#endif
