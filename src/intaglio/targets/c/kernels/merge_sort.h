/* What is sorted, as parameters of a function, and whether a place stays before another one behind it. */
#ifndef SORTED
#define SORTED const float *score
#endif
#ifndef KEEPS
#define KEEPS(left, right) score[left] >= score[right]
#endif

/* Merges sorted runs of growing length between two arrays of places; gives the one that then holds the result. Places
   of equal elements keep their order. */
static int64_t *IG_FUNCTION_sort(SORTED, int64_t *from, int64_t *to, int64_t count)
{
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t start = 0; start < count; start += 2 * run) {
            const int64_t middle = start + run < count ? start + run : count;
            const int64_t stop = start + 2 * run < count ? start + 2 * run : count;
            int64_t left = start, right = middle;
            for (int64_t i = start; i < stop; i++) {
                int is_left = left < middle;
                if (is_left && right < stop)
                    is_left = KEEPS(from[left], from[right]);
                to[i] = is_left ? from[left++] : from[right++];
            }
        }
        int64_t *const other = from;
        from = to;
        to = other;
    }
    return from;
}
