/* Whether averages count the pads. */
#ifndef COUNTS_PADS
#define COUNTS_PADS 0
#endif

/* The taps of one axis that lie inside for a window at `start`; returns how many of them an average counts. */
static inline int64_t IG_FUNCTION_range(int64_t start, int64_t taps, int64_t dilation, int64_t extent, int64_t end,
                                        int64_t *range)
{
    int64_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    int64_t last = extent > start ? (extent - start + dilation - 1) / dilation : 0;
    int64_t padded = extent + end > start ? (extent + end - start + dilation - 1) / dilation : 0;
    last = last < taps ? last : taps;
    padded = padded < taps ? padded : taps;
    range[0] = first < last ? first : last;
    range[1] = last;
    return COUNTS_PADS ? padded : range[1] - range[0];
}
