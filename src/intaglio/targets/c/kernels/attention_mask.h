/* Whether something is added to the scores, or chooses among them. */
#ifndef HAS_MASK
#define HAS_MASK 0
#endif
#ifndef MASK_IS_BOOL
#define MASK_IS_BOOL 0
#endif
/* Whether the mask is the same for all keys. */
#ifndef MASK_REPEATS
#define MASK_REPEATS 0
#endif
#if MASK_IS_BOOL
#define MASK uint8_t
#define MASKED(x, mask) ig_select_f32(-ig_cast_u8_i32(mask), x, lowest)
#else
#define MASK float
#define MASKED(x, mask) (x + mask)
#endif
#if MASK_REPEATS && MASK_IS_BOOL
#define LOAD(place) ig_broadcast_u8(bias)
#define LOAD_N(place, n) ig_broadcast_u8(bias)
#elif MASK_REPEATS
#define LOAD(place) ig_broadcast_f32(bias)
#define LOAD_N(place, n) ig_broadcast_f32(bias)
#elif MASK_IS_BOOL
#define LOAD ig_load_u8
#define LOAD_N ig_load_n_u8
#else
#define LOAD ig_load_f32
#define LOAD_N ig_load_n_f32
#endif
