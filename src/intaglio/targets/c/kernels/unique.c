/* Sorts slices along an axis, numbers the groups of equal ones, and lists the first slice and the size of each group.
   There is one task. */
#include "plain.h"
#include "rank.h"

/* Whether elements are complex numbers, of which BITS are one part. */
#ifndef IS_COMPLEX
#define IS_COMPLEX 0
#endif
/* Whether groups have the order of their elements; else that of their first places. */
#ifndef IS_SORTED
#define IS_SORTED 1
#endif
#define SORTED const BITS *data, int64_t outer, int64_t extent, int64_t inner
#define KEEPS(left, right) IG_FUNCTION_compare(data, left, right, outer, extent, inner) <= 0

typedef struct {
    void *data, *order;                     /* `order` has room for twice all places */
    void *groups, *firsts, *counts, *found; /* the group of each slice; the first and the size of each group; groups */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t outer, extent, inner; /* what lies before, along and behind the axis */
} IG_FUNCTION_sizes;

static inline BITS IG_FUNCTION_rank(BITS x)
{
    return RANK(x);
}

/* The rank of a number; all complex numbers with a part that is none are the same, behind all others. */
static inline BITS IG_FUNCTION_at(const BITS *data, int64_t place)
{
    const BITS own = IG_FUNCTION_rank(data[place]), other = IG_FUNCTION_rank(data[place ^ IS_COMPLEX]);
    return IS_COMPLEX && other == (BITS) ~(BITS)0 ? other : own;
}

static int IG_FUNCTION_compare(const BITS *data, int64_t left, int64_t right, int64_t outer, int64_t extent,
                               int64_t inner)
{
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const BITS a = IG_FUNCTION_at(data, (o * extent + left) * inner + i);
            const BITS b = IG_FUNCTION_at(data, (o * extent + right) * inner + i);
            if (a != b)
                return a < b ? -1 : 1;
        }
    return 0;
}

#include "merge_sort.h"

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const BITS *const data = BUFFER(data);
    int64_t *const order = BUFFER(order), *const groups = BUFFER(groups), *const firsts = BUFFER(firsts);
    int64_t *const counts = BUFFER(counts), *const found = BUFFER(found);
    const int64_t outer = SIZE(outer), extent = SIZE(extent), inner = SIZE(inner);
    (void)begin, (void)end, (void)scratch;
    for (int64_t i = 0; i < extent; i++)
        order[i] = i;
    int64_t *const sorted = IG_FUNCTION_sort(data, outer, extent, inner, order, order + extent, extent);
    int64_t group = -1;
    for (int64_t i = 0; i < extent; i++) {
        if (i == 0 || IG_FUNCTION_compare(data, sorted[i - 1], sorted[i], outer, extent, inner)) {
            group++;
            firsts[group] = sorted[i];
            counts[group] = 0;
        }
        counts[group]++;
        groups[sorted[i]] = group;
    }
    *found = group + 1;
#if !IS_SORTED
    /* Numbers by the first place instead of by order: groups[firsts[g]] finds the group of each first place. */
    int64_t *const number = sorted == order ? order + extent : order;
    int64_t next = 0;
    for (int64_t i = 0; i < extent; i++)
        if (firsts[groups[i]] == i)
            number[groups[i]] = next++;
    for (int64_t i = 0; i < extent; i++)
        groups[i] = number[groups[i]];
    for (int64_t i = 0; i < next; i++)
        counts[i] = 0;
    for (int64_t i = extent - 1; i >= 0; i--) {
        firsts[groups[i]] = i;
        counts[groups[i]]++;
    }
#endif
}
