/* What kernel files use, for vectors of one element, which are numbers. It stands in the place of the file of the same
   name beside the kernels. */
#define SIZE(name) size[IG_SIZE_##name]
#define BUFFER(name) buffer[IG_BUFFER_##name]
#define IG_LANES 1
#define IG_INLINE static inline
#define IG_UNROLL
#define __builtin_expect(value, expected) value
#define __builtin_inf() INFINITY
#define __builtin_inff() INFINITY
#define __builtin_memcpy memcpy
#define __builtin_memset memset
#define ig_f32 float
#define ig_load_f32(p) *(p)
#define ig_load_n_f32(p, n) *(p)
#define ig_store_f32(p, x) *(p) = x
#define ig_store_n_f32(p, x, n) *(p) = x
#define ig_set_f32(x) (float)(x)
#define ig_max_f32 max_f32
#define ig_min_f32 min_f32
#define ig_f64 double
#define ig_load_f64(p) *(p)
#define ig_load_n_f64(p, n) *(p)
#define ig_store_f64(p, x) *(p) = x
#define ig_store_n_f64(p, x, n) *(p) = x
#define ig_set_f64(x) (double)(x)
#define ig_max_f64 max_f64
#define ig_min_f64 min_f64
#define ig_load_f16(p) f32_from_f16(*(p))
#define ig_load_n_f16(p, n) f32_from_f16(*(p))
#define ig_store_f16(p, x) *(p) = f16_from_f32(x)
#define ig_store_n_f16(p, x, n) *(p) = f16_from_f32(x)
#define ig_load_bf16(p) f32_from_bf16(*(p))
#define ig_load_n_bf16(p, n) f32_from_bf16(*(p))
#define ig_store_bf16(p, x) *(p) = bf16_from_f32(x)
#define ig_store_n_bf16(p, x, n) *(p) = bf16_from_f32(x)
