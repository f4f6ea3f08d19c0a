/* Chooses boxes by falling score, none of which overlaps one chosen before too much. A task is one class of one batch:
   a pair. */
#include "plain.h"

/* Whether boxes are centers with heights and widths, and not two corners. */
#ifndef IS_CENTERED
#define IS_CENTERED 0
#endif
/* Which options are given: the most boxes of a pair, the most overlap, and the least score. */
#ifndef HAS_MOST
#define HAS_MOST 1
#endif
#ifndef HAS_OVERLAP
#define HAS_OVERLAP 1
#endif
#ifndef HAS_LEAST
#define HAS_LEAST 1
#endif

typedef struct {
    void *boxes, *scores;
#if HAS_MOST
    void *most;
#endif
#if HAS_OVERLAP
    void *overlap;
#endif
#if HAS_LEAST
    void *least;
#endif
    void *chosen, *counts, *fault; /* the boxes of each pair, and how many these are */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t pairs, kinds, count, batches;  /* of the scores: kinds are classes, and each batch has `count` boxes */
    int64_t box_count, box_batches, parts; /* of the boxes, which must have four parts */
} IG_FUNCTION_sizes;

/* The lesser corner of a box and then the greater one. */
static inline void IG_FUNCTION_corners(const float *box, float *out)
{
#if IS_CENTERED
    out[0] = box[0] - box[2] / 2;
    out[1] = box[1] - box[3] / 2;
    out[2] = box[0] + box[2] / 2;
    out[3] = box[1] + box[3] / 2;
#else
    out[0] = box[0] < box[2] ? box[0] : box[2];
    out[1] = box[1] < box[3] ? box[1] : box[3];
    out[2] = box[0] < box[2] ? box[2] : box[0];
    out[3] = box[1] < box[3] ? box[3] : box[1];
#endif
}

/* What two boxes have in common, as a part of what they cover together. */
static inline float IG_FUNCTION_overlap(const float *a, const float *b)
{
    const float top = a[0] > b[0] ? a[0] : b[0], left = a[1] > b[1] ? a[1] : b[1];
    const float bottom = a[2] < b[2] ? a[2] : b[2], right = a[3] < b[3] ? a[3] : b[3];
    const float height = bottom - top > 0 ? bottom - top : 0, width = right - left > 0 ? right - left : 0;
    const float common = height * width;
    const float first = (a[2] - a[0]) * (a[3] - a[1]), second = (b[2] - b[0]) * (b[3] - b[1]);
    const float all = first + second - common;
    return first > 0 && second > 0 && all > 0 ? common / all : 0;
}

/* Falling scores, equal ones by place, and numbers before NaN. */
static inline int IG_FUNCTION_keeps(float left, float right)
{
    return !(right > left) && !(left != left && right == right);
}

#define SORTED const float *score
#define KEEPS(left, right) IG_FUNCTION_keeps(score[left], score[right])
#include "merge_sort.h"

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const float *const boxes = BUFFER(boxes), *const scores = BUFFER(scores);
    int64_t *const chosen = BUFFER(chosen), *const counts = BUFFER(counts), *const fault = BUFFER(fault);
    const int64_t pairs = SIZE(pairs), kinds = SIZE(kinds), count = SIZE(count);
    if (SIZE(parts) != 4 || SIZE(box_count) != count || SIZE(box_batches) != SIZE(batches)) {
        *fault = 1;
        return;
    }
#if HAS_MOST
    const int64_t limit = *(const int64_t *)BUFFER(most);
#else
    const int64_t limit = 0;
#endif
#if HAS_OVERLAP
    const float *const overlap = BUFFER(overlap);
#else
    const float overlap[1] = {0};
#endif
#if HAS_LEAST
    const float *const least = BUFFER(least);
#endif
    int64_t *const order = scratch, *const spare = order + count;
    float (*const corner)[4] = (float(*)[4])(void *)(spare + count); /* of each box that is chosen */
    for (int64_t pair = begin; pair < end && pair < pairs; pair++) {
        const float *const score = scores + pair * count, *const box = boxes + pair / kinds * count * 4;
        int64_t *const mine = chosen + pair * count, candidates = 0, kept = 0;
        for (int64_t i = 0; i < count && limit > 0; i++) {
            order[candidates] = i;
#if HAS_LEAST
            candidates += score[i] > *least;
#else
            candidates++;
#endif
        }
        const int64_t *const sorted = IG_FUNCTION_sort(score, order, spare, candidates);
        for (int64_t i = 0; i < candidates && kept < limit; i++) {
            IG_FUNCTION_corners(box + 4 * sorted[i], corner[kept]);
            int64_t other = 0;
            while (other < kept && !(IG_FUNCTION_overlap(corner[kept], corner[other]) > *overlap))
                other++;
            if (other == kept)
                mine[kept++] = sorted[i];
        }
        counts[pair] = kept;
    }
}
