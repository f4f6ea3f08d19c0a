/* OPERATOR: the place of the KIND element along an axis. */

#ifndef OPERATOR
#define OPERATOR ArgMax
#endif
#ifndef KIND
#define KIND greatest
#endif
#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef IS_GREATEST
#define IS_GREATEST 1
#endif
/* Whether the last of equal elements is chosen, and not the first. */
#ifndef IS_LAST
#define IS_LAST 0
#endif
/* Whether there is NaN, which is more extreme than any number. */
#ifndef IS_FLOAT
#define IS_FLOAT 1
#endif
#if IS_GREATEST && IS_LAST
#define IS_MORE value > best || value == best
#elif IS_GREATEST
#define IS_MORE value > best
#elif IS_LAST
#define IS_MORE value < best || value == best
#else
#define IS_MORE value < best
#endif
#if IS_FLOAT && IS_LAST
#define IS_BETTER value != value || (best == best && (IS_MORE))
#elif IS_FLOAT
#define IS_BETTER (value != value && best == best) || (best == best && (IS_MORE))
#else
#define IS_BETTER IS_MORE
#endif

void IG_FUNCTION(const ELEMENT *x, int64_t *y, int64_t outer, int64_t extent, int64_t inner)
{
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < inner; i++) {
            ELEMENT best = x[o * extent * inner + i];
            int64_t place = 0;
            for (int64_t k = 1; k < extent; k++) {
                const ELEMENT value = x[(o * extent + k) * inner + i];
                if (IS_BETTER) {
                    best = value;
                    place = k;
                }
            }
            y[o * inner + i] = place;
        }
    }
}
