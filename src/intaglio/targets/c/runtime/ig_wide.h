/* Elements of 16 bytes, which kernels only move: complex numbers of two doubles. A vector of them is one of lanes in
   memory; where lanes are chosen, a mask has 64 bits for each. */
#ifndef IG_WIDE_H
#define IG_WIDE_H

#include "ig_loop.h"

/* Two doubles need not lie at a multiple of 16. */
__extension__ typedef unsigned __int128 uint128_t __attribute__((aligned(8), may_alias));
typedef uint128_t ig_u128_element;
typedef struct {
    uint128_t lane[IG_LANES];
} ig_u128;

IG_INLINE ig_u128 ig_load_n_u128(const void *p, int64_t n) {
    ig_u128 v = {{0}};
    __builtin_memcpy(&v, p, (unsigned long)n * sizeof *v.lane);
    return v;
}
IG_INLINE void ig_store_n_u128(void *p, ig_u128 v, int64_t n) {
    __builtin_memcpy(p, &v, (unsigned long)n * sizeof *v.lane);
}
IG_INLINE ig_u128 ig_load_u128(const void *p) { return ig_load_n_u128(p, IG_LANES); }
IG_INLINE void ig_store_u128(void *p, ig_u128 v) { ig_store_n_u128(p, v, IG_LANES); }
IG_INLINE ig_u128 ig_gather_u128(const uint128_t *p, int64_t step, int64_t n) {
    ig_u128 v = {{0}};
    for (int64_t i = 0; i < n; i++)
        v.lane[i] = p[i * step];
    return v;
}
IG_INLINE void ig_scatter_u128(uint128_t *p, int64_t step, ig_u128 v, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        p[i * step] = v.lane[i];
}
IG_INLINE ig_u128 ig_broadcast_u128(const uint128_t *p) { return ig_gather_u128(p, 0, IG_LANES); }
IG_INLINE ig_u128 ig_select_u128(ig_i64 mask, ig_u128 a, ig_u128 b) {
    for (int i = 0; i < IG_LANES; i++)
        a.lane[i] = mask[i] ? a.lane[i] : b.lane[i];
    return a;
}

#endif
