#include "place.h"

#ifndef INDEX
#define INDEX int64_t
#endif
/* The numbers in an index tuple, and their places among the sizes: one at least. */
#ifndef LENGTH
#define LENGTH 2
#endif
#ifndef PLACES
#define PLACES 2
#endif

/* The offset that a tuple means in axes of such extents and steps; -1 where it is out of range. */
static inline int64_t IG_FUNCTION_offset(const INDEX *tuple, const int64_t *extent, const int64_t *step)
{
    int64_t offset = 0, is_inside = 1;
    for (int64_t i = 0; i < LENGTH; i++) {
        const int64_t place = IG_FUNCTION_place((int64_t)tuple[i], extent[i]);
        is_inside &= place >= 0;
        offset += place * step[i];
    }
    return is_inside ? offset : -1;
}
