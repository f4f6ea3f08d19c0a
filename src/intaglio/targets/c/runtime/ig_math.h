/* Vectors of IG_LANES elements and mathematics on them.

   Every type has IG_LANES elements, whatever its width: ig_f32, ig_f64, ig_i8, ig_i16, ig_i32, ig_i64, ig_u8, ig_u16,
   ig_u32, ig_u64. float16 and bfloat16 are kept as their bits in ig_u16. A mask is the signed integer vector of the
   same element width, with all bits set (true) or none: ig_i32 for f32, i32 and u32, ig_i64 for the 64-bit types, and
   so on. The operators + - * / & | ^ ~ << >> of GCC's vector extensions work on all of them; for comparisons use the
   functions below, because the compiler takes `<` on 64-bit types apart into scalars.

   There are no scalar twins: a tail of n < IG_LANES elements goes through load_n, the same function, and store_n, so
   it gives the same bits as a full vector. Lanes past n are zero after load_n.

   For each type T
     ig_load_T(p)  ig_store_T(p, v)  ig_load_n_T(p, n)  ig_store_n_T(p, v, n)      no alignment needed, 0 <= n <= lanes
     ig_set_T(scalar)                                                              the scalar in every lane
     ig_lt_T  ig_le_T  ig_gt_T  ig_ge_T  ig_eq_T  ig_ne_T (a, b)                   masks; IEEE comparison for floats
     ig_select_T(mask, a, b)                                                       a where the mask is set, else b
     ig_min_T  ig_max_T (a, b)                                                     NaN in either gives NaN
     ig_cast_S_T(v)                                                                for every pair of different types
   A cast truncates towards zero; integers wrap. A float beyond the range of a 32- or 64-bit integer gives the integer's
   nearest limit, and NaN gives 0; narrower integers take the low bits of what int32 would be.

   For f32 and f64
     ig_fma  ig_abs  ig_copysign(magnitude, sign)  ig_sqrt  ig_floor  ig_ceil  ig_trunc  ig_round (half to even)
     ig_min_fast  ig_max_fast (a, b)     one instruction; b when either is NaN, so relu is ig_max_fast_f32(zero, x)
     ig_exp ig_expm1 ig_log ig_log1p ig_tanh ig_sigmoid ig_erf ig_sin ig_cos ig_pow ig_tan ig_asin ig_acos ig_atan
     ig_sinh ig_cosh ig_asinh ig_acosh ig_atanh ig_gelu ig_gelu_tanh ig_softplus ig_mish ig_silu
     ig_fmod ig_log2 ig_exp2 ig_cbrt ig_atan2
     ig_reciprocal  ig_is_nan  ig_is_inf
     ig_reduce_add  ig_reduce_max  ig_reduce_min (v)   one scalar, in a fixed order; NaN in any lane gives NaN

   Conversions of 16-bit floats, to nearest even, NaN kept
     ig_f32_from_f16(u16)  ig_f16_from_f32(f32)  ig_f32_from_bf16(u16)  ig_bf16_from_f32(f32)
     ig_odd_f32(f64)                     rounded to odd, so that rounding it once more to 16 bits gives the nearest

   ig_stream_f32(p, v) stores past the caches; p is aligned to the vector. */
#ifndef IG_MATH_H
#define IG_MATH_H

#include "ig.h"

#ifndef IG_LANES
#error "IG_LANES is the number of float32 elements in a vector"
#endif

/* Builtins are used where they beat what the compiler makes of plain vectors; clang spells them differently and needs
   them less. */
#if !defined(IG_PORTABLE) && !defined(__clang__) && defined(__x86_64__)
#if defined(__AVX512F__) && defined(__AVX512DQ__) && IG_LANES == 16
#define IG_AVX512 1
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && IG_LANES == 8
#define IG_AVX2 1
#elif defined(__SSE2__) && IG_LANES == 4
#define IG_SSE2 1
#endif
#endif

#define IG_VECTOR(name, scalar, bytes) typedef scalar name __attribute__((vector_size((bytes) * IG_LANES)))
IG_VECTOR(ig_f32, float, 4);
IG_VECTOR(ig_f64, double, 8);
IG_VECTOR(ig_i8, int8_t, 1);
IG_VECTOR(ig_i16, int16_t, 2);
IG_VECTOR(ig_i32, int32_t, 4);
IG_VECTOR(ig_i64, int64_t, 8);
IG_VECTOR(ig_u8, uint8_t, 1);
IG_VECTOR(ig_u16, uint16_t, 2);
IG_VECTOR(ig_u32, uint32_t, 4);
IG_VECTOR(ig_u64, uint64_t, 8);

/* A 64-bit vector is two registers wide. */
typedef double ig_f64_half __attribute__((vector_size(4 * IG_LANES)));
typedef int64_t ig_i64_half __attribute__((vector_size(4 * IG_LANES)));
typedef uint64_t ig_u64_half __attribute__((vector_size(4 * IG_LANES)));
typedef union { ig_f64 whole; ig_f64_half half[2]; } ig_f64_halves;
typedef union { ig_i64 whole; ig_i64_half half[2]; } ig_i64_halves;
typedef union { ig_u64 whole; ig_u64_half half[2]; } ig_u64_halves;

#define IG_DEFINE_MEMORY(T, scalar)                                                                                    \
    IG_INLINE ig_##T ig_load_##T(const void *p) {                                                                      \
        ig_##T v;                                                                                                      \
        __builtin_memcpy(&v, p, sizeof v);                                                                             \
        return v;                                                                                                      \
    }                                                                                                                  \
    IG_INLINE void ig_store_##T(void *p, ig_##T v) { __builtin_memcpy(p, &v, sizeof v); }

#define IG_DEFINE_TAIL(T, scalar)                                                                                      \
    IG_INLINE ig_##T ig_load_n_##T(const void *p, int64_t n) {                                                         \
        ig_##T v = {0};                                                                                                \
        __builtin_memcpy(&v, p, (unsigned long)n * sizeof(scalar));                                                    \
        return v;                                                                                                      \
    }                                                                                                                  \
    IG_INLINE void ig_store_n_##T(void *p, ig_##T v, int64_t n) {                                                      \
        __builtin_memcpy(p, &v, (unsigned long)n * sizeof(scalar));                                                    \
    }

#define IG_DEFINE_SELECT(T, M)                                                                                         \
    IG_INLINE ig_##T ig_select_##T(ig_##M mask, ig_##T a, ig_##T b) {                                                  \
        return (ig_##T)((mask & (ig_##M)a) | (~mask & (ig_##M)b));                                                     \
    }

#define IG_DEFINE_COMPARE(T, M, name, operator)                                                                        \
    IG_INLINE ig_##M ig_##name##_##T(ig_##T a, ig_##T b) { return (ig_##M)(a operator b); }

#define IG_DEFINE_COMPARE_HALVES(T, M, name, operator)                                                                 \
    IG_INLINE ig_##M ig_##name##_##T(ig_##T a, ig_##T b) {                                                             \
        ig_##T##_halves x = {a}, y = {b};                                                                              \
        ig_##M##_halves r;                                                                                             \
        r.half[0] = (ig_##M##_half)(x.half[0] operator y.half[0]);                                                     \
        r.half[1] = (ig_##M##_half)(x.half[1] operator y.half[1]);                                                     \
        return r.whole;                                                                                                \
    }

#define IG_DEFINE_COMPARES(T, M, kind)                                                                                 \
    kind(T, M, lt, <) kind(T, M, le, <=) kind(T, M, gt, >) kind(T, M, ge, >=) kind(T, M, eq, ==) kind(T, M, ne, !=)

#define IG_DEFINE_INTEGER(T, scalar, M, kind)                                                                          \
    IG_DEFINE_MEMORY(T, scalar)                                                                                        \
    IG_DEFINE_SELECT(T, M)                                                                                             \
    IG_DEFINE_COMPARES(T, M, kind)                                                                                     \
    IG_INLINE ig_##T ig_set_##T(scalar x) { return x + (ig_##T){0}; }                                                  \
    IG_INLINE ig_##T ig_min_##T(ig_##T a, ig_##T b) { return ig_select_##T(ig_lt_##T(a, b), a, b); }                   \
    IG_INLINE ig_##T ig_max_##T(ig_##T a, ig_##T b) { return ig_select_##T(ig_gt_##T(a, b), a, b); }

/* x - 0 and not x + 0, which would lose the sign of -0 */
#define IG_DEFINE_FLOAT(T, scalar, M, kind)                                                                            \
    IG_DEFINE_MEMORY(T, scalar)                                                                                        \
    IG_DEFINE_SELECT(T, M)                                                                                             \
    IG_DEFINE_COMPARES(T, M, kind)                                                                                     \
    IG_INLINE ig_##T ig_set_##T(scalar x) { return x - (ig_##T){0}; }

IG_DEFINE_INTEGER(i8, int8_t, i8, IG_DEFINE_COMPARE)
IG_DEFINE_INTEGER(i16, int16_t, i16, IG_DEFINE_COMPARE)
IG_DEFINE_INTEGER(i32, int32_t, i32, IG_DEFINE_COMPARE)
IG_DEFINE_INTEGER(i64, int64_t, i64, IG_DEFINE_COMPARE_HALVES)
IG_DEFINE_INTEGER(u8, uint8_t, i8, IG_DEFINE_COMPARE)
IG_DEFINE_INTEGER(u16, uint16_t, i16, IG_DEFINE_COMPARE)
IG_DEFINE_INTEGER(u32, uint32_t, i32, IG_DEFINE_COMPARE)
IG_DEFINE_INTEGER(u64, uint64_t, i64, IG_DEFINE_COMPARE_HALVES)
IG_DEFINE_FLOAT(f32, float, i32, IG_DEFINE_COMPARE)
IG_DEFINE_FLOAT(f64, double, i64, IG_DEFINE_COMPARE_HALVES)

IG_DEFINE_TAIL(i8, int8_t)
IG_DEFINE_TAIL(u8, uint8_t)
IG_DEFINE_TAIL(i16, int16_t)
IG_DEFINE_TAIL(u16, uint16_t)
IG_DEFINE_TAIL(i64, int64_t)
IG_DEFINE_TAIL(u64, uint64_t)
IG_DEFINE_TAIL(f64, double)

#if IG_AVX512
IG_INLINE ig_f32 ig_load_n_f32(const void *p, int64_t n) {
    return __builtin_ia32_loadups512_mask((const float *)p, (ig_f32){0}, (uint16_t)((1u << n) - 1));
}
IG_INLINE void ig_store_n_f32(void *p, ig_f32 v, int64_t n) {
    __builtin_ia32_storeups512_mask((float *)p, v, (uint16_t)((1u << n) - 1));
}
#elif IG_AVX2
IG_INLINE ig_i32 ig_tail_mask(int64_t n) {
    return (ig_i32)((ig_i32){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)n);
}
IG_INLINE ig_f32 ig_load_n_f32(const void *p, int64_t n) {
    return __builtin_ia32_maskloadps256((const ig_f32 *)p, ig_tail_mask(n));
}
IG_INLINE void ig_store_n_f32(void *p, ig_f32 v, int64_t n) {
    __builtin_ia32_maskstoreps256((ig_f32 *)p, ig_tail_mask(n), v);
}
#else
IG_DEFINE_TAIL(f32, float)
#endif
IG_INLINE ig_i32 ig_load_n_i32(const void *p, int64_t n) { return (ig_i32)ig_load_n_f32(p, n); }
IG_INLINE ig_u32 ig_load_n_u32(const void *p, int64_t n) { return (ig_u32)ig_load_n_f32(p, n); }
IG_INLINE void ig_store_n_i32(void *p, ig_i32 v, int64_t n) { ig_store_n_f32(p, (ig_f32)v, n); }
IG_INLINE void ig_store_n_u32(void *p, ig_u32 v, int64_t n) { ig_store_n_f32(p, (ig_f32)v, n); }

/* One register's worth of minimum, maximum, square root and rounding, f32 and half an f64. */
#if IG_AVX512
#define IG_MIN_F32(a, b) __builtin_ia32_minps512_mask(a, b, (ig_f32){0}, (uint16_t)-1, 4)
#define IG_MAX_F32(a, b) __builtin_ia32_maxps512_mask(a, b, (ig_f32){0}, (uint16_t)-1, 4)
#define IG_SQRT_F32(a) __builtin_ia32_sqrtps512_mask(a, (ig_f32){0}, (uint16_t)-1, 4)
#define IG_ROUND_F32(a, mode) __builtin_ia32_rndscaleps_mask(a, (mode) | 8, (ig_f32){0}, (uint16_t)-1, 4)
#define IG_MIN_F64(a, b) __builtin_ia32_minpd512_mask(a, b, (ig_f64_half){0}, (uint8_t)-1, 4)
#define IG_MAX_F64(a, b) __builtin_ia32_maxpd512_mask(a, b, (ig_f64_half){0}, (uint8_t)-1, 4)
#define IG_SQRT_F64(a) __builtin_ia32_sqrtpd512_mask(a, (ig_f64_half){0}, (uint8_t)-1, 4)
#define IG_ROUND_F64(a, mode) __builtin_ia32_rndscalepd_mask(a, (mode) | 8, (ig_f64_half){0}, (uint8_t)-1, 4)
#elif IG_AVX2
#define IG_MIN_F32 __builtin_ia32_minps256
#define IG_MAX_F32 __builtin_ia32_maxps256
#define IG_SQRT_F32 __builtin_ia32_sqrtps256
#define IG_ROUND_F32(a, mode) __builtin_ia32_roundps256(a, (mode) | 8)
#define IG_MIN_F64 __builtin_ia32_minpd256
#define IG_MAX_F64 __builtin_ia32_maxpd256
#define IG_SQRT_F64 __builtin_ia32_sqrtpd256
#define IG_ROUND_F64(a, mode) __builtin_ia32_roundpd256(a, (mode) | 8)
#elif IG_SSE2
#define IG_MIN_F32 __builtin_ia32_minps
#define IG_MAX_F32 __builtin_ia32_maxps
#define IG_SQRT_F32 __builtin_ia32_sqrtps
#define IG_MIN_F64 __builtin_ia32_minpd
#define IG_MAX_F64 __builtin_ia32_maxpd
#define IG_SQRT_F64 __builtin_ia32_sqrtpd
#endif

#define IG_DEFINE_HALVES_1(name, expression)                                                                           \
    IG_INLINE ig_f64 name(ig_f64 a) {                                                                                  \
        ig_f64_halves x = {a};                                                                                         \
        for (int i = 0; i < 2; i++) {                                                                                  \
            ig_f64_half v = x.half[i];                                                                                 \
            x.half[i] = expression;                                                                                    \
        }                                                                                                              \
        return x.whole;                                                                                                \
    }
#define IG_DEFINE_HALVES_2(name, expression)                                                                           \
    IG_INLINE ig_f64 name(ig_f64 a, ig_f64 b) {                                                                        \
        ig_f64_halves x = {a}, y = {b};                                                                                \
        for (int i = 0; i < 2; i++) {                                                                                  \
            ig_f64_half v = x.half[i], w = y.half[i];                                                                  \
            x.half[i] = expression;                                                                                    \
        }                                                                                                              \
        return x.whole;                                                                                                \
    }

#ifdef IG_MIN_F32
IG_INLINE ig_f32 ig_min_fast_f32(ig_f32 a, ig_f32 b) { return IG_MIN_F32(a, b); }
IG_INLINE ig_f32 ig_max_fast_f32(ig_f32 a, ig_f32 b) { return IG_MAX_F32(a, b); }
IG_INLINE ig_f32 ig_sqrt_f32(ig_f32 a) { return IG_SQRT_F32(a); }
IG_DEFINE_HALVES_2(ig_min_fast_f64, IG_MIN_F64(v, w))
IG_DEFINE_HALVES_2(ig_max_fast_f64, IG_MAX_F64(v, w))
IG_DEFINE_HALVES_1(ig_sqrt_f64, IG_SQRT_F64(v))
#else
IG_INLINE ig_f32 ig_min_fast_f32(ig_f32 a, ig_f32 b) { return ig_select_f32(ig_lt_f32(a, b), a, b); }
IG_INLINE ig_f32 ig_max_fast_f32(ig_f32 a, ig_f32 b) { return ig_select_f32(ig_gt_f32(a, b), a, b); }
IG_INLINE ig_f64 ig_min_fast_f64(ig_f64 a, ig_f64 b) { return ig_select_f64(ig_lt_f64(a, b), a, b); }
IG_INLINE ig_f64 ig_max_fast_f64(ig_f64 a, ig_f64 b) { return ig_select_f64(ig_gt_f64(a, b), a, b); }
IG_INLINE ig_f32 ig_sqrt_f32(ig_f32 a) {
    for (int i = 0; i < IG_LANES; i++)
        a[i] = __builtin_sqrtf(a[i]);
    return a;
}
IG_INLINE ig_f64 ig_sqrt_f64(ig_f64 a) {
    for (int i = 0; i < IG_LANES; i++)
        a[i] = __builtin_sqrt(a[i]);
    return a;
}
#endif

#define IG_DEFINE_SIGNS(T, M, sign)                                                                                    \
    IG_INLINE ig_##T ig_abs_##T(ig_##T x) { return (ig_##T)((ig_##M)x & ~(sign)); }                                    \
    IG_INLINE ig_##T ig_copysign_##T(ig_##T magnitude, ig_##T x) {                                                     \
        return (ig_##T)(((ig_##M)magnitude & ~(sign)) | ((ig_##M)x & (sign)));                                         \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_fma_##T(ig_##T a, ig_##T b, ig_##T c) { return a * b + c; }                                    \
    IG_INLINE ig_##T ig_reciprocal_##T(ig_##T x) { return 1 / x; }                                                     \
    IG_INLINE ig_##M ig_is_nan_##T(ig_##T x) { return ig_ne_##T(x, x); }                                               \
    IG_INLINE ig_##M ig_is_inf_##T(ig_##T x) {                                                                         \
        return ig_eq_##T(ig_abs_##T(x), ig_set_##T(__builtin_inff()));                                                 \
    }

IG_DEFINE_SIGNS(f32, i32, (int32_t)0x80000000)
IG_DEFINE_SIGNS(f64, i64, (int64_t)0x8000000000000000)

/* The fast operation keeps a NaN in b; one in a is kept beside it, so that only the fast one waits for b. */
#if IG_AVX512
#define IG_IS_NUMBER_F32(a) __builtin_ia32_cmpps512_mask(a, a, 7, (uint16_t)-1, 4)
#define IG_IS_NUMBER_F64(a) __builtin_ia32_cmppd512_mask(a, a, 7, (uint8_t)-1, 4)
IG_INLINE ig_f32 ig_min_f32(ig_f32 a, ig_f32 b) {
    return __builtin_ia32_minps512_mask(a, b, a, IG_IS_NUMBER_F32(a), 4);
}
IG_INLINE ig_f32 ig_max_f32(ig_f32 a, ig_f32 b) {
    return __builtin_ia32_maxps512_mask(a, b, a, IG_IS_NUMBER_F32(a), 4);
}
IG_DEFINE_HALVES_2(ig_min_f64, __builtin_ia32_minpd512_mask(v, w, v, IG_IS_NUMBER_F64(v), 4))
IG_DEFINE_HALVES_2(ig_max_f64, __builtin_ia32_maxpd512_mask(v, w, v, IG_IS_NUMBER_F64(v), 4))
#else
#define IG_DEFINE_EXTREMES(T)                                                                                          \
    IG_INLINE ig_##T ig_min_##T(ig_##T a, ig_##T b) {                                                                  \
        return ig_select_##T(ig_is_nan_##T(a), a, ig_min_fast_##T(a, b));                                              \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_max_##T(ig_##T a, ig_##T b) {                                                                  \
        return ig_select_##T(ig_is_nan_##T(a), a, ig_max_fast_##T(a, b));                                              \
    }
IG_DEFINE_EXTREMES(f32)
IG_DEFINE_EXTREMES(f64)
#endif

#ifdef IG_ROUND_F32
IG_INLINE ig_f32 ig_round_f32(ig_f32 a) { return IG_ROUND_F32(a, 0); }
IG_INLINE ig_f32 ig_floor_f32(ig_f32 a) { return IG_ROUND_F32(a, 1); }
IG_INLINE ig_f32 ig_ceil_f32(ig_f32 a) { return IG_ROUND_F32(a, 2); }
IG_INLINE ig_f32 ig_trunc_f32(ig_f32 a) { return IG_ROUND_F32(a, 3); }
IG_DEFINE_HALVES_1(ig_round_f64, IG_ROUND_F64(v, 0))
IG_DEFINE_HALVES_1(ig_floor_f64, IG_ROUND_F64(v, 1))
IG_DEFINE_HALVES_1(ig_ceil_f64, IG_ROUND_F64(v, 2))
IG_DEFINE_HALVES_1(ig_trunc_f64, IG_ROUND_F64(v, 3))
#else
/* Adding and taking away the least number whose neighbours are one apart rounds to an integer; above it all are. */
#define IG_DEFINE_ROUNDING(T, M, magic)                                                                                \
    IG_INLINE ig_##T ig_round_##T(ig_##T x) {                                                                          \
        ig_##T size = ig_abs_##T(x), limit = ig_set_##T(magic);                                                        \
        ig_##T whole = ig_copysign_##T((size + limit) - limit, x);                                                     \
        return ig_select_##T(ig_lt_##T(size, limit), whole, x);                                                        \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_floor_##T(ig_##T x) {                                                                          \
        ig_##T whole = ig_round_##T(x), one = (ig_##T)(ig_gt_##T(whole, x) & (ig_##M)ig_set_##T(1));                   \
        return ig_copysign_##T(whole - one, x);                                                                        \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_ceil_##T(ig_##T x) {                                                                           \
        ig_##T whole = ig_round_##T(x), one = (ig_##T)(ig_lt_##T(whole, x) & (ig_##M)ig_set_##T(1));                   \
        return ig_copysign_##T(whole + one, x);                                                                        \
    }                                                                                                                  \
    IG_INLINE ig_##T ig_trunc_##T(ig_##T x) { return ig_copysign_##T(ig_floor_##T(ig_abs_##T(x)), x); }
IG_DEFINE_ROUNDING(f32, i32, 8388608.0f)
IG_DEFINE_ROUNDING(f64, i64, 4503599627370496.0)
#endif

/* Casts. The compiler converts well between integers of which one is twice as wide, and between integers and floats of
   one width; the others go through types in between, or they would be taken apart into scalars. */
#define IG_DEFINE_CAST(S, T)                                                                                           \
    IG_INLINE ig_##T ig_cast_##S##_##T(ig_##S x) { return __builtin_convertvector(x, ig_##T); }
#define IG_DEFINE_CAST_VIA(S, T, V)                                                                                    \
    IG_INLINE ig_##T ig_cast_##S##_##T(ig_##S x) { return ig_cast_##V##_##T(ig_cast_##S##_##V(x)); }
#define IG_DEFINE_CAST_SIGN(S, T)                                                                                      \
    IG_INLINE ig_##T ig_cast_##S##_##T(ig_##S x) { return (ig_##T)x; }

IG_DEFINE_CAST_SIGN(i8, u8) IG_DEFINE_CAST_SIGN(u8, i8) IG_DEFINE_CAST_SIGN(i16, u16) IG_DEFINE_CAST_SIGN(u16, i16)
IG_DEFINE_CAST_SIGN(i32, u32) IG_DEFINE_CAST_SIGN(u32, i32) IG_DEFINE_CAST_SIGN(i64, u64) IG_DEFINE_CAST_SIGN(u64, i64)

IG_DEFINE_CAST(i8, i16) IG_DEFINE_CAST(u8, u16)
IG_DEFINE_CAST(i16, i32) IG_DEFINE_CAST(u16, u32) IG_DEFINE_CAST(i32, i64) IG_DEFINE_CAST(u32, u64)
IG_DEFINE_CAST(i16, i8) IG_DEFINE_CAST(i32, i16) IG_DEFINE_CAST(i64, i32)
IG_DEFINE_CAST(i32, f32) IG_DEFINE_CAST(i32, f64) IG_DEFINE_CAST(u32, f64) IG_DEFINE_CAST(i64, f64)
IG_DEFINE_CAST(u64, f64) IG_DEFINE_CAST(f32, f64) IG_DEFINE_CAST(f64, f32) IG_DEFINE_CAST(u32, f32)
IG_DEFINE_CAST(i64, f32) IG_DEFINE_CAST(u64, f32)

#if IG_AVX512
typedef char ig_bytes __attribute__((vector_size(16)));
IG_INLINE ig_i32 ig_cast_i8_i32(ig_i8 x) {
    return __builtin_ia32_pmovsxbd512_mask((ig_bytes)x, (ig_i32){0}, (uint16_t)-1);
}
IG_INLINE ig_u32 ig_cast_u8_u32(ig_u8 x) {
    return (ig_u32)__builtin_ia32_pmovzxbd512_mask((ig_bytes)x, (ig_i32){0}, (uint16_t)-1);
}
IG_INLINE ig_i8 ig_cast_i32_i8(ig_i32 x) {
    return (ig_i8)__builtin_ia32_pmovdb512_mask(x, (ig_bytes){0}, (uint16_t)-1);
}
#elif IG_AVX2
typedef char ig_bytes __attribute__((vector_size(16)));
typedef long long ig_two_words __attribute__((vector_size(16)));
IG_INLINE ig_i32 ig_cast_i8_i32(ig_i8 x) {
    return __builtin_ia32_pmovsxbd256((ig_bytes)(ig_two_words){(long long)x, 0});
}
IG_INLINE ig_u32 ig_cast_u8_u32(ig_u8 x) {
    return (ig_u32)__builtin_ia32_pmovzxbd256((ig_bytes)(ig_two_words){(long long)x, 0});
}
IG_DEFINE_CAST_VIA(i32, i8, i16)
#else
IG_DEFINE_CAST_VIA(i8, i32, i16) IG_DEFINE_CAST_VIA(u8, u32, u16) IG_DEFINE_CAST_VIA(i32, i8, i16)
#endif

/* Out of range the compiler's conversions mean nothing, so the float is brought into range first: NaN to zero, the rest
   to the nearest float that fits. Where that is not the integer's own limit, `is_over` sets the bits that are missing. */
#define IG_DEFINE_WITHIN(S, M)                                                                                         \
    IG_INLINE ig_##S ig_within_##S(ig_##S x, ig_##S low, ig_##S high) {                                                \
        ig_##S number = (ig_##S)((ig_##M)x & ig_eq_##S(x, x));                                                         \
        return ig_max_fast_##S(low, ig_min_fast_##S(high, number));                                                    \
    }
IG_DEFINE_WITHIN(f32, i32)
IG_DEFINE_WITHIN(f64, i64)
IG_INLINE ig_i32 ig_cast_f32_i32(ig_f32 x) {
    ig_i32 whole = __builtin_convertvector(ig_within_f32(x, ig_set_f32(-0x1p31f), ig_set_f32(0x1.fffffep30f)), ig_i32);
    ig_i32 is_over = ig_ge_f32(x, ig_set_f32(0x1p31f));
    return whole | (is_over & 0x7fffffff);
}
IG_INLINE ig_i32 ig_cast_f64_i32(ig_f64 x) {
    return __builtin_convertvector(ig_within_f64(x, ig_set_f64(-0x1p31), ig_set_f64(0x1.fffffffcp30)), ig_i32);
}
IG_INLINE ig_u32 ig_cast_f64_u32(ig_f64 x) {
    return __builtin_convertvector(ig_within_f64(x, ig_set_f64(0), ig_set_f64(0x1.fffffffep31)), ig_u32);
}
IG_INLINE ig_i64 ig_cast_f64_i64(ig_f64 x) {
    ig_f64 within = ig_within_f64(x, ig_set_f64(-0x1p63), ig_set_f64(0x1.fffffffffffffp62));
    ig_i64 is_over = ig_ge_f64(x, ig_set_f64(0x1p63));
    return __builtin_convertvector(within, ig_i64) | (is_over & 0x7fffffffffffffff);
}
IG_INLINE ig_u64 ig_cast_f64_u64(ig_f64 x) {
    ig_f64 within = ig_within_f64(x, ig_set_f64(0), ig_set_f64(0x1.fffffffffffffp63)), half = ig_set_f64(0x1p63);
    ig_i64 is_high = ig_ge_f64(within, half), is_over = ig_ge_f64(x, ig_set_f64(0x1p64));
    ig_i64 low_bits = __builtin_convertvector(within - (ig_f64)((ig_i64)half & is_high), ig_i64);
    return (ig_u64)((low_bits ^ (is_high & (int64_t)0x8000000000000000)) | is_over);
}
IG_DEFINE_CAST_VIA(f32, u32, f64) IG_DEFINE_CAST_VIA(f32, i64, f64)
IG_DEFINE_CAST_VIA(f32, u64, f64)

IG_DEFINE_CAST_VIA(i8, u16, i16) IG_DEFINE_CAST_VIA(i8, u32, i32) IG_DEFINE_CAST_VIA(i8, i64, i32)
IG_DEFINE_CAST_VIA(i8, u64, i64) IG_DEFINE_CAST_VIA(i8, f32, i32) IG_DEFINE_CAST_VIA(i8, f64, i32)
IG_DEFINE_CAST_VIA(u8, i16, u16) IG_DEFINE_CAST_VIA(u8, i32, u32) IG_DEFINE_CAST_VIA(u8, u64, u32)
IG_DEFINE_CAST_VIA(u8, i64, u64) IG_DEFINE_CAST_VIA(u8, f32, i32) IG_DEFINE_CAST_VIA(u8, f64, i32)
IG_DEFINE_CAST_VIA(i16, u8, i8) IG_DEFINE_CAST_VIA(i16, u32, i32) IG_DEFINE_CAST_VIA(i16, i64, i32)
IG_DEFINE_CAST_VIA(i16, u64, i64) IG_DEFINE_CAST_VIA(i16, f32, i32) IG_DEFINE_CAST_VIA(i16, f64, i32)
IG_DEFINE_CAST_VIA(u16, i8, i16) IG_DEFINE_CAST_VIA(u16, u8, i8) IG_DEFINE_CAST_VIA(u16, i32, u32)
IG_DEFINE_CAST_VIA(u16, u64, u32) IG_DEFINE_CAST_VIA(u16, i64, u64) IG_DEFINE_CAST_VIA(u16, f32, i32)
IG_DEFINE_CAST_VIA(u16, f64, i32)
IG_DEFINE_CAST_VIA(i32, u8, i8) IG_DEFINE_CAST_VIA(i32, u16, i16) IG_DEFINE_CAST_VIA(i32, u64, i64)
IG_DEFINE_CAST_VIA(u32, i8, i32) IG_DEFINE_CAST_VIA(u32, u8, i32) IG_DEFINE_CAST_VIA(u32, i16, i32)
IG_DEFINE_CAST_VIA(u32, u16, i32) IG_DEFINE_CAST_VIA(u32, i64, u64)
IG_DEFINE_CAST_VIA(i64, i8, i32) IG_DEFINE_CAST_VIA(i64, u8, i32) IG_DEFINE_CAST_VIA(i64, i16, i32)
IG_DEFINE_CAST_VIA(i64, u16, i32) IG_DEFINE_CAST_VIA(i64, u32, i32)
IG_DEFINE_CAST_VIA(u64, i8, i64) IG_DEFINE_CAST_VIA(u64, u8, i64) IG_DEFINE_CAST_VIA(u64, i16, i64)
IG_DEFINE_CAST_VIA(u64, u16, i64) IG_DEFINE_CAST_VIA(u64, i32, i64) IG_DEFINE_CAST_VIA(u64, u32, i64)
IG_DEFINE_CAST_VIA(f32, i8, i32) IG_DEFINE_CAST_VIA(f32, u8, i32) IG_DEFINE_CAST_VIA(f32, i16, i32)
IG_DEFINE_CAST_VIA(f32, u16, i32)
IG_DEFINE_CAST_VIA(f64, i8, i32) IG_DEFINE_CAST_VIA(f64, u8, i32) IG_DEFINE_CAST_VIA(f64, i16, i32)
IG_DEFINE_CAST_VIA(f64, u16, i32)

/* Towards zero, and the last bit set where that is not exact. */
IG_INLINE ig_f32 ig_odd_f32(ig_f64 x) {
    ig_f32 near = __builtin_convertvector(x, ig_f32);
    ig_f64 back = __builtin_convertvector(near, ig_f64);
    ig_i32 is_inexact = ig_cast_i64_i32(ig_ne_f64(back, x));
    ig_i32 is_beyond = ig_cast_i64_i32(ig_gt_f64(ig_abs_f64(back), ig_abs_f64(x)));
    return (ig_f32)(((ig_i32)near + is_beyond) | (is_inexact & 1));
}

/* 16-bit floats. The portable code never makes a denormal float32: they are flushed while a model runs. */
IG_INLINE ig_f32 ig_f32_from_bf16(ig_u16 x) { return (ig_f32)(ig_cast_u16_u32(x) << 16); }

IG_INLINE ig_u16 ig_bf16_from_f32(ig_f32 x) {
    ig_u32 bits = (ig_u32)x, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return ig_cast_u32_u16(ig_select_u32(ig_is_nan_f32(x), (bits >> 16) | 0x40, rounded));
}

#if IG_AVX512
typedef int16_t ig_half_bits __attribute__((vector_size(32)));
IG_INLINE ig_f32 ig_f32_from_f16(ig_u16 x) {
    return __builtin_ia32_vcvtph2ps512_mask((ig_half_bits)x, (ig_f32){0}, (uint16_t)-1, 4);
}
IG_INLINE ig_u16 ig_f16_from_f32(ig_f32 x) {
    return (ig_u16)__builtin_ia32_vcvtps2ph512_mask(x, 0, (ig_half_bits){0}, (uint16_t)-1);
}
#elif IG_AVX2
typedef int16_t ig_half_bits __attribute__((vector_size(16)));
IG_INLINE ig_f32 ig_f32_from_f16(ig_u16 x) { return __builtin_ia32_vcvtph2ps256((ig_half_bits)x); }
IG_INLINE ig_u16 ig_f16_from_f32(ig_f32 x) { return (ig_u16)__builtin_ia32_vcvtps2ph256(x, 0); }
#else
IG_INLINE ig_f32 ig_f32_from_f16(ig_u16 x) {
    ig_u32 bits = ig_cast_u16_u32(x), sign = (bits & 0x8000) << 16, exponent = bits & 0x7c00, mantissa = bits & 0x3ff;
    ig_u32 normal = ((bits & 0x7fff) << 13) + (112u << 23);
    ig_u32 small = (ig_u32)(__builtin_convertvector((ig_i32)mantissa, ig_f32) * 0x1p-24f);
    ig_u32 special = ((bits & 0x7fff) << 13) | 0x7f800000;
    special |= (ig_u32)ig_ne_u32(mantissa, (ig_u32){0}) & 0x400000; /* a signalling NaN becomes quiet */
    ig_u32 result = ig_select_u32(ig_eq_u32(exponent, (ig_u32){0}), small, normal);
    result = ig_select_u32(ig_eq_u32(exponent, (ig_u32){0} + 0x7c00), special, result);
    return (ig_f32)(result | sign);
}
IG_INLINE ig_u16 ig_f16_from_f32(ig_f32 x) {
    ig_u32 bits = (ig_u32)x & 0x7fffffff, sign = ((ig_u32)x >> 16) & 0x8000;
    ig_f32 magic = ig_set_f32(0.5f);
    ig_u32 small = (ig_u32)((ig_f32)bits + magic) - (ig_u32)magic;
    ig_u32 normal = (bits - (112u << 23) + 0xfff + ((bits >> 13) & 1)) >> 13;
    ig_u32 nan = 0x7e00 | ((bits >> 13) & 0x3ff);
    ig_u32 result = ig_select_u32(ig_lt_u32(bits, (ig_u32){0} + (113u << 23)), small, normal);
    result = ig_select_u32(ig_ge_u32(bits, (ig_u32){0} + 0x47800000), (ig_u32){0} + 0x7c00, result);
    result = ig_select_u32(ig_gt_u32(bits, (ig_u32){0} + 0x7f800000), nan, result);
    return ig_cast_u32_u16(result | sign);
}
#endif

IG_INLINE void ig_stream_f32(void *p, ig_f32 v) {
#if IG_AVX512
    __builtin_ia32_movntps512((float *)p, v);
#elif IG_AVX2
    __builtin_ia32_movntps256((float *)p, v);
#elif IG_SSE2
    __builtin_ia32_movntps((float *)p, v);
#else
    ig_store_f32(p, v);
#endif
}

#if IG_LANES == 16
#define IG_FOLD(v, operation)                                                                                          \
    v = operation(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));             \
    v = operation(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));             \
    v = operation(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));             \
    v = operation(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14))
#elif IG_LANES == 8
#define IG_FOLD(v, operation)                                                                                          \
    v = operation(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));                                           \
    v = operation(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));                                           \
    v = operation(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6))
#else
#define IG_FOLD(v, operation)                                                                                          \
    v = operation(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));                                                       \
    v = operation(v, __builtin_shufflevector(v, v, 1, 0, 3, 2))
#endif
#define IG_ADD(a, b) ((a) + (b))
#define IG_DEFINE_REDUCE(T, scalar, name, operation)                                                                   \
    IG_INLINE scalar ig_reduce_##name##_##T(ig_##T v) {                                                                \
        IG_FOLD(v, operation);                                                                                         \
        return v[0];                                                                                                   \
    }
#define IG_OR(a, b) ((a) | (b))
/* NaN is looked for beside the fast operation, which may lose it: then no step waits for a comparison. */
#define IG_DEFINE_REDUCE_EXTREME(T, M, scalar, name, NAN)                                                              \
    IG_INLINE scalar ig_reduce_##name##_##T(ig_##T v) {                                                                \
        ig_##M is_nan = ig_is_nan_##T(v);                                                                              \
        IG_FOLD(is_nan, IG_OR);                                                                                        \
        IG_FOLD(v, ig_##name##_fast_##T);                                                                              \
        return is_nan[0] ? NAN : v[0];                                                                                 \
    }
IG_DEFINE_REDUCE(f32, float, add, IG_ADD)
IG_DEFINE_REDUCE_EXTREME(f32, i32, float, max, __builtin_nanf(""))
IG_DEFINE_REDUCE_EXTREME(f32, i32, float, min, __builtin_nanf(""))
IG_DEFINE_REDUCE(f64, double, add, IG_ADD)
IG_DEFINE_REDUCE_EXTREME(f64, i64, double, max, __builtin_nan(""))
IG_DEFINE_REDUCE_EXTREME(f64, i64, double, min, __builtin_nan(""))

/* Functions of the C library, one lane after another. */
#define IG_DEFINE_LIBRARY_1(name)                                                                                      \
    float name##f(float);                                                                                              \
    double name(double);                                                                                               \
    static inline ig_f64 ig_##name##_f64(ig_f64 x) {                                                                   \
        for (int i = 0; i < IG_LANES; i++)                                                                             \
            x[i] = name(x[i]);                                                                                         \
        return x;                                                                                                      \
    }
#define IG_DEFINE_LIBRARY_1_F32(name)                                                                                  \
    static inline ig_f32 ig_##name##_f32(ig_f32 x) {                                                                   \
        for (int i = 0; i < IG_LANES; i++)                                                                             \
            x[i] = name##f(x[i]);                                                                                      \
        return x;                                                                                                      \
    }
#define IG_DEFINE_LIBRARY_2(name)                                                                                      \
    float name##f(float, float);                                                                                       \
    double name(double, double);                                                                                       \
    static inline ig_f64 ig_##name##_f64(ig_f64 x, ig_f64 y) {                                                         \
        ig_f64 r = {0};                                                                                                \
        for (int i = 0; i < IG_LANES; i++)                                                                             \
            r[i] = name(x[i], y[i]);                                                                                   \
        return r;                                                                                                      \
    }                                                                                                                  \
    static inline ig_f32 ig_##name##_f32(ig_f32 x, ig_f32 y) {                                                         \
        ig_f32 r = {0};                                                                                                \
        for (int i = 0; i < IG_LANES; i++)                                                                             \
            r[i] = name##f(x[i], y[i]);                                                                                \
        return r;                                                                                                      \
    }
/* The library takes a logarithm apart by its bits: the sum with 0 makes a denormal the zero that it counts as. */
float logf(float);
double log(double);
static inline ig_f64 ig_log_f64(ig_f64 x) {
    ig_f64 r = x + 0;
    for (int i = 0; i < IG_LANES; i++)
        r[i] = log(r[i]);
    return r;
}
IG_DEFINE_LIBRARY_1(exp) IG_DEFINE_LIBRARY_1(expm1) IG_DEFINE_LIBRARY_1(log1p)
IG_DEFINE_LIBRARY_1(tanh) IG_DEFINE_LIBRARY_1(erf) IG_DEFINE_LIBRARY_1(sin) IG_DEFINE_LIBRARY_1(cos)
IG_DEFINE_LIBRARY_1(tan) IG_DEFINE_LIBRARY_1(asin) IG_DEFINE_LIBRARY_1(acos) IG_DEFINE_LIBRARY_1(atan)
IG_DEFINE_LIBRARY_1(sinh) IG_DEFINE_LIBRARY_1(cosh) IG_DEFINE_LIBRARY_1(asinh) IG_DEFINE_LIBRARY_1(acosh)
IG_DEFINE_LIBRARY_1(atanh) IG_DEFINE_LIBRARY_1(log2) IG_DEFINE_LIBRARY_1(exp2) IG_DEFINE_LIBRARY_1(cbrt)
IG_DEFINE_LIBRARY_1_F32(tan) IG_DEFINE_LIBRARY_1_F32(asin) IG_DEFINE_LIBRARY_1_F32(acos) IG_DEFINE_LIBRARY_1_F32(atan)
IG_DEFINE_LIBRARY_1_F32(sinh) IG_DEFINE_LIBRARY_1_F32(cosh) IG_DEFINE_LIBRARY_1_F32(asinh)
IG_DEFINE_LIBRARY_1_F32(acosh) IG_DEFINE_LIBRARY_1_F32(atanh) IG_DEFINE_LIBRARY_1_F32(log2)
IG_DEFINE_LIBRARY_1_F32(exp2) IG_DEFINE_LIBRARY_1_F32(cbrt)
IG_DEFINE_LIBRARY_2(pow) IG_DEFINE_LIBRARY_2(fmod) IG_DEFINE_LIBRARY_2(atan2)

/* 2^n for integral -252 <= n <= 254, times x: two factors, because one would overflow or vanish too early. */
IG_INLINE ig_f32 ig_scale_f32(ig_f32 x, ig_f32 n) {
#if IG_AVX512
    return __builtin_ia32_scalefps512_mask(x, n, (ig_f32){0}, (uint16_t)-1, 4);
#else
    ig_i32 whole = __builtin_convertvector(n, ig_i32), half = whole >> 1;
    return x * (ig_f32)((half + 127) << 23) * (ig_f32)((whole - half + 127) << 23);
#endif
}

/* Splits x into n * ln 2 + r with |r| <= ln 2 / 2; returns r. */
IG_INLINE ig_f32 ig_reduce_exponent_f32(ig_f32 x, ig_f32 *n) {
    ig_f32 magic = ig_set_f32(12582912.0f);
    *n = (x * 1.44269504088896341f + magic) - magic;
    return (x - *n * 0.693359375f) - *n * -2.12194440e-4f;
}

/* (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2 */
IG_INLINE ig_f32 ig_exponential_tail_f32(ig_f32 r) {
    ig_f32 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    return p * r + 5.0000001201e-1f;
}

IG_INLINE ig_f32 ig_exp_f32(ig_f32 x) {
    ig_f32 n;
    x = ig_max_fast_f32(ig_set_f32(-104.0f), ig_min_fast_f32(ig_set_f32(89.0f), x));
    ig_f32 r = ig_reduce_exponent_f32(x, &n);
    return ig_scale_f32((ig_exponential_tail_f32(r) * (r * r) + r) + 1, n);
}

IG_INLINE ig_f32 ig_expm1_f32(ig_f32 x) {
    ig_f32 n, clamped = ig_max_fast_f32(ig_set_f32(-20.0f), ig_min_fast_f32(ig_set_f32(89.0f), x));
    ig_f32 r = ig_reduce_exponent_f32(clamped, &n);
    ig_f32 scale = (ig_f32)((__builtin_convertvector(n, ig_i32) + 126) << 23);
    ig_f32 result = 2 * (scale * (ig_exponential_tail_f32(r) * (r * r) + r) + (scale - 0.5f));
    return ig_select_f32(ig_lt_f32(ig_abs_f32(x), ig_set_f32(1e-7f)), x, result); /* keeps -0 and NaN of x */
}

IG_INLINE ig_f32 ig_log_f32(ig_f32 x) {
    ig_i32 bits = (ig_i32)x - 0x3f3504f3; /* sqrt(1/2) */
    ig_f32 e = __builtin_convertvector(bits >> 23, ig_f32);
    ig_f32 f = (ig_f32)((bits & 0x7fffff) + 0x3f3504f3) - 1;
    ig_f32 z = f * f, p = f * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    ig_f32 y = (f * z) * p + e * -2.12194440e-4f;
    ig_f32 result = (f + (y - 0.5f * z)) + e * 0.693359375f;
    ig_f32 zero = ig_set_f32(0), infinity = ig_set_f32(__builtin_inff());
    ig_f32 improper = ig_select_f32(ig_lt_f32(x, zero), ig_set_f32(__builtin_nanf("")), x);
    result = ig_select_f32(ig_gt_f32(x, zero) & ig_lt_f32(x, infinity), result, improper);
    return ig_select_f32(ig_eq_f32(x, zero), -infinity, result);
}

IG_INLINE ig_f32 ig_log1p_f32(ig_f32 x) {
    ig_f32 u = 1 + x, correction = (x - (u - 1)) / u;
    ig_i32 proper = ig_gt_f32(u, ig_set_f32(0)) & ig_lt_f32(u, ig_set_f32(__builtin_inff()));
    ig_f32 result = ig_log_f32(u) + (ig_f32)((ig_i32)correction & proper);
    return ig_select_f32(ig_lt_f32(ig_abs_f32(x), ig_set_f32(1e-7f)), x, result);
}

IG_INLINE ig_f32 ig_tanh_f32(ig_f32 x) {
    ig_f32 size = ig_abs_f32(x), z = x * x, p = z * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    ig_f32 small = p * z * x + x;
    ig_f32 large = 1 - 2 / (ig_exp_f32(size + size) + 1);
    return ig_copysign_f32(ig_select_f32(ig_lt_f32(size, ig_set_f32(0.625f)), small, large), x);
}

IG_INLINE ig_f32 ig_sigmoid_f32(ig_f32 x) { return 1 / (1 + ig_exp_f32(-x)); }

/* Two polynomials: of x^2 near zero, and of the logarithm of 1 - erf(|x|) elsewhere. */
IG_INLINE ig_f32 ig_erf_f32(ig_f32 x) {
    ig_f32 s = x * x, t = ig_min_fast_f32(ig_abs_f32(x), ig_set_f32(4.0f)), tt = t * t;
    ig_f32 q = (t * -1.72853470e-5f + 3.83197126e-4f) * tt + (t * -3.88396438e-3f + 2.42546219e-2f);
    q = q * t - 1.06777877e-1f;
    q = q * t - 6.34846687e-1f;
    q = q * t - 1.28717512e-1f;
    ig_f32 large = 1 - ig_exp_f32(q * t - t);
    ig_f32 p = s * -5.96761703e-4f + 4.99119423e-3f;
    p = p * s - 2.67681349e-2f;
    p = p * s + 1.12819925e-1f;
    p = p * s - 3.76125336e-1f;
    p = p * s + 1.28379166e-1f;
    ig_i32 is_large = ig_gt_f32(ig_abs_f32(x), ig_set_f32(0.927734375f));
    return ig_select_f32(is_large, ig_copysign_f32(large, x), p * x + x);
}

/* pi / 2 in pieces whose products with a quarter count below 2^13 are exact, or fused. */
IG_INLINE ig_f32 ig_reduce_angle_f32(ig_f32 x, ig_i32 *quarter) {
    ig_f32 magic = ig_set_f32(12582912.0f), shifted = x * 0.636619772367581343f + magic, n = shifted - magic;
    *quarter = (ig_i32)shifted;
#if defined(__FMA__) || defined(__aarch64__)
    ig_f32 r = x - n * 0x1.921fb6p+0f;
    r = r - n * -0x1.777a5cp-25f;
    return r - n * -0x1.ee59dap-50f;
#else
    ig_f32 r = x - n * 0x1.92p+0f;
    r = r - n * 0x1.fb4p-12f;
    ig_f32 third = n * 0x1.444p-24f, rest = r - third, lost = (r - rest) - third;
    return rest + ((lost - n * 0x1.68cp-39f) - n * 0x1.1a6264p-54f);
#endif
}

/* sin(x) for shift 0 and cos(x) for shift 1. */
IG_INLINE ig_f32 ig_sine_f32(ig_f32 x, int32_t shift) {
    ig_i32 quarter;
    ig_f32 r = ig_reduce_angle_f32(x, &quarter), z = r * r;
    quarter += shift;
    ig_f32 sine = ((z * -1.9515295891e-4f + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    ig_f32 cosine = ((z * 2.443315711809948e-5f - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z;
    cosine = (cosine - 0.5f * z) + 1;
    ig_i32 is_odd = ig_ne_i32(quarter & 1, (ig_i32){0});
    return (ig_f32)((ig_i32)ig_select_f32(is_odd, cosine, sine) ^ ((quarter & 2) << 30));
}

IG_INLINE ig_i32 ig_is_far_f32(ig_f32 x) { return ig_gt_f32(ig_abs_f32(x), ig_set_f32(8192.0f)); }

IG_INLINE int32_t ig_any_i32(ig_i32 mask) {
    int32_t any = 0;
    for (int i = 0; i < IG_LANES; i++)
        any |= mask[i];
    return any;
}

#define IG_DEFINE_SINE(name, shift)                                                                                    \
    static inline ig_f32 ig_##name##_f32(ig_f32 x) {                                                                   \
        ig_f32 result = ig_sine_f32(x, shift);                                                                         \
        if (shift == 0) /* keeps -0 */                                                                                 \
            result = ig_select_f32(ig_lt_f32(ig_abs_f32(x), ig_set_f32(0x1p-12f)), x, result);                         \
        ig_i32 far = ig_is_far_f32(x);                                                                                 \
        if (__builtin_expect(ig_any_i32(far) != 0, 0))                                                                 \
            for (int i = 0; i < IG_LANES; i++)                                                                         \
                if (far[i])                                                                                            \
                    result[i] = name##f(x[i]);                                                                         \
        return result;                                                                                                 \
    }
IG_DEFINE_SINE(sin, 0)
IG_DEFINE_SINE(cos, 1)

IG_INLINE ig_f64 ig_sigmoid_f64(ig_f64 x) { return 1 / (1 + ig_exp_f64(-x)); }
IG_INLINE ig_f32 ig_silu_f32(ig_f32 x) { return x / (1 + ig_exp_f32(-x)); }
IG_INLINE ig_f64 ig_silu_f64(ig_f64 x) { return x / (1 + ig_exp_f64(-x)); }
IG_INLINE ig_f32 ig_gelu_f32(ig_f32 x) { return 0.5f * x * (1 + ig_erf_f32(x * 0.70710678118654752f)); }
IG_INLINE ig_f64 ig_gelu_f64(ig_f64 x) { return 0.5 * x * (1 + ig_erf_f64(x * 0.70710678118654752)); }
IG_INLINE ig_f32 ig_gelu_tanh_f32(ig_f32 x) {
    return 0.5f * x * (1 + ig_tanh_f32(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}
IG_INLINE ig_f64 ig_gelu_tanh_f64(ig_f64 x) {
    return 0.5 * x * (1 + ig_tanh_f64(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}
IG_INLINE ig_f32 ig_softplus_f32(ig_f32 x) {
    return ig_max_fast_f32(ig_set_f32(0), x) + ig_log1p_f32(ig_exp_f32(-ig_abs_f32(x)));
}
IG_INLINE ig_f64 ig_softplus_f64(ig_f64 x) {
    return ig_max_fast_f64(ig_set_f64(0), x) + ig_log1p_f64(ig_exp_f64(-ig_abs_f64(x)));
}
/* x tanh(softplus(x)) with one exponential: tanh(log(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2) */
IG_INLINE ig_f32 ig_mish_f32(ig_f32 x) {
    ig_f32 e = ig_exp_f32(ig_min_fast_f32(ig_set_f32(20.0f), x)), n = e * (e + 2);
    return x * (n / (n + 2));
}
IG_INLINE ig_f64 ig_mish_f64(ig_f64 x) {
    ig_f64 e = ig_exp_f64(ig_min_fast_f64(ig_set_f64(40.0), x)), n = e * (e + 2);
    return x * (n / (n + 2));
}

#endif
