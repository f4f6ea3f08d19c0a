/* The nearest element of the input for each place of a resized axis; -1 where there is none. In double precision,
   halves and whole numbers come out exactly of given sizes. A task is a block of places. */
#include "plain.h"
#include "resize.h"
#define NUMBER double
#include "resize_place.h"

/* Which of two neighbours is the nearest. */
#define ROUND_PREFER_FLOOR 0
#define ROUND_PREFER_CEIL 1
#define FLOOR 2
#define CEIL 3
#ifndef ROUNDING
#define ROUNDING ROUND_PREFER_FLOOR
#endif
#if ROUNDING == ROUND_PREFER_FLOOR
#define ROUNDED(x) ceil(x - 0.5)
#elif ROUNDING == ROUND_PREFER_CEIL
#define ROUNDED(x) floor(x + 0.5)
#elif ROUNDING == FLOOR
#define ROUNDED(x) floor(x)
#else
#define ROUNDED(x) ceil(x)
#endif

typedef struct {
    void *numbers, *index, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t extent, resized;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const IG_FUNCTION_numbers *const numbers = BUFFER(numbers);
    int32_t *const index = BUFFER(index);
    int64_t *const fault = BUFFER(fault);
    const int64_t extent = SIZE(extent), resized = SIZE(resized);
    (void)scratch;
    if (extent < 1) {
        *fault = 1;
        return;
    }
    const double scale = numbers->scale > 0 ? numbers->scale : 0, last = (double)(extent - 1);
    const double length = numbers->is_scaled > 0 ? (double)((float)extent * (float)numbers->scale) : (double)resized;
    for (int64_t i = begin * BLOCK; i < end * BLOCK && i < resized; i++) {
        const double found =
            IG_FUNCTION_place((double)i, (double)extent, (double)resized, length, scale, numbers->start, numbers->end);
        /* A scale is a rounded number, and so is a region: their places are rounded likewise. */
        const double place = CROPS || scale > 0 ? (double)(float)found : found, nearest = ROUNDED(place);
        if (CROPS && (place < 0 || place > last))
            index[i] = -1;
        else
            index[i] = (int32_t)(nearest < 0 ? 0 : nearest > last ? last : nearest);
    }
}
