/* The weights of the triangles of the mel scale for each bin of a spectrum. A task is a block of rows. */
#include "plain.h"

typedef struct {
    void *edge, *out;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t bins, rows, block;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const edge = BUFFER(edge);
    double *const out = BUFFER(out);
    const int64_t bins = SIZE(bins), rows = SIZE(rows), block = SIZE(block);
    (void)scratch;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        for (int64_t i = 0; i < bins; i++) {
            const int64_t left = edge[i], peak = edge[i + 1], right = edge[i + 2];
            double weight = row == peak;
            if (row >= left && row < peak)
                weight = (double)(row - left) / (double)(peak - left);
            else if (row > peak && row < right)
                weight = (double)(right - row) / (double)(right - peak);
            out[row * bins + i] = weight;
        }
    }
}
