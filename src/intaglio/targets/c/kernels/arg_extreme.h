/* The places of the greatest or least elements. NaN is more extreme than any number. */
#include "kernel.h"
#include "kind.h"
/* How elements are loaded from memory as vectors of the kind. */
#ifndef SUFFIX
#define SUFFIX f32
#endif
#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif
#ifndef IS_GREATEST
#define IS_GREATEST 1
#endif
/* Whether the last of equal elements is taken, and not the first. */
#ifndef TAKES_LAST
#define TAKES_LAST 0
#endif
/* The bits of an element of the kind. */
#ifndef KIND_BITS
#define KIND_BITS 32
#endif
#define SCALAR JOIN(VECTOR, _element)
#define LOAD_MEMORY JOIN(ig_load_, SUFFIX)
#define LOAD_MEMORY_N JOIN(ig_load_n_, SUFFIX)
#define MASK JOIN(ig_i, KIND_BITS)
/* Vectors of places: of 64 bits only where elements have so many. */
#if KIND_BITS == 64
#define INDEX ig_i64
#define INDEX_ELEMENT int64_t
#define SET_INDEX ig_set_i64
#define SELECT_INDEX ig_select_i64
#define INDEX_MASK(taken) taken
#define WIDE(index) index
#elif KIND_BITS == 32
#define INDEX_MASK(taken) taken
#elif KIND_BITS == 16
#define INDEX_MASK(taken) ig_cast_i16_i32(taken)
#else
#define INDEX_MASK(taken) ig_cast_i8_i32(taken)
#endif
#if KIND_BITS < 64
#define INDEX ig_i32
#define INDEX_ELEMENT int32_t
#define SET_INDEX ig_set_i32
#define SELECT_INDEX ig_select_i32
#define WIDE(index) ig_cast_i32_i64(index)
#endif
#if IS_GREATEST
#define BETTER >
#define AT_LEAST OF_KIND(ig_ge_)
#define ABOVE OF_KIND(ig_gt_)
#define NOT_ABOVE OF_KIND(ig_le_)
#else
#define BETTER <
#define AT_LEAST OF_KIND(ig_le_)
#define ABOVE OF_KIND(ig_lt_)
#define NOT_ABOVE OF_KIND(ig_ge_)
#endif
#if TAKES_LAST
#define LATER >
#else
#define LATER <
#endif

static inline int IG_FUNCTION_beats(SCALAR x, SCALAR best)
{
#if IS_FLOAT
    return x BETTER best || (x != x && best == best);
#else
    return x BETTER best;
#endif
}

static inline int IG_FUNCTION_is_better(SCALAR x, int64_t at, SCALAR best, int64_t place)
{
    return IG_FUNCTION_beats(x, best) || (!IG_FUNCTION_beats(best, x) && at LATER place);
}

IG_INLINE MASK IG_FUNCTION_takes(VECTOR x, VECTOR best)
{
#if IS_FLOAT && TAKES_LAST
    return AT_LEAST(x, best) | OF_KIND(ig_ne_)(x, x);
#elif IS_FLOAT
    return ~NOT_ABOVE(x, best) & OF_KIND(ig_eq_)(best, best);
#elif TAKES_LAST
    return AT_LEAST(x, best);
#else
    return ABOVE(x, best);
#endif
}

/* The best of `extent` elements in each of `vectors` * IG_LANES columns (in n of the only vector), and its number. */
IG_INLINE void IG_FUNCTION_scan(const ELEMENT *x, int64_t extent, int64_t step, int vectors, int64_t n, VECTOR *best,
                                INDEX *index)
{
    IG_UNROLL for (int v = 0; v < vectors; v++) {
        best[v] = vectors == 1 ? LOAD_MEMORY_N(x, n) : LOAD_MEMORY(x + v * IG_LANES);
        index[v] = (INDEX){0};
    }
    for (int64_t k = 1; k < extent; k++) {
        IG_UNROLL for (int v = 0; v < vectors; v++) {
            const ELEMENT *const p = x + k * step + v * IG_LANES;
            const VECTOR now = vectors == 1 ? LOAD_MEMORY_N(p, n) : LOAD_MEMORY(p);
            const MASK taken = IG_FUNCTION_takes(now, best[v]);
            best[v] = OF_KIND(ig_select_)(taken, now, best[v]);
            index[v] = SELECT_INDEX(INDEX_MASK(taken), SET_INDEX((INDEX_ELEMENT)k), index[v]);
        }
    }
}

/* The places of the best in `vectors` * IG_LANES columns, or in n. */
IG_INLINE void IG_FUNCTION_columns(const ELEMENT *x, int64_t *out, int64_t extent, int64_t inner, int vectors,
                                   int64_t n)
{
    VECTOR best[4];
    INDEX index[4];
    IG_FUNCTION_scan(x, extent, inner, vectors, n, best, index);
    IG_UNROLL for (int v = 0; v < vectors; v++) {
        if (vectors == 1)
            ig_store_n_i64(out, WIDE(index[v]), n);
        else
            ig_store_i64(out + v * IG_LANES, WIDE(index[v]));
    }
}
