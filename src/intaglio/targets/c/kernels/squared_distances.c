/* Squared distances of each row of `data` to each column of `vector`: sums over the features for four vectors of
   columns at once. A task is a block of rows. */
#include "kernel.h"

typedef struct {
    void *data, *vector, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows, features, count, mismatch, block;
} IG_FUNCTION_sizes;

/* `vectors` * IG_LANES columns, or n of the only vector. */
IG_INLINE void IG_FUNCTION_columns(const double *x, const double *vector, double *out, int64_t features, int64_t count,
                                   int vectors, int64_t n)
{
    ig_f64 total[4] = {{0}};
    for (int64_t f = 0; f < features; f++) {
        const ig_f64 own = ig_set_f64(x[f]);
        IG_UNROLL for (int v = 0; v < vectors; v++) {
            const double *const p = vector + f * count + v * IG_LANES;
            const ig_f64 distance = own - (n < IG_LANES ? ig_load_n_f64(p, n) : ig_load_f64(p));
            total[v] += distance * distance;
        }
    }
    IG_UNROLL for (int v = 0; v < vectors; v++) {
        if (n < IG_LANES)
            ig_store_n_f64(out + v * IG_LANES, total[v], n);
        else
            ig_store_f64(out + v * IG_LANES, total[v]);
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const double *const data = BUFFER(data);
    const double *const vector = BUFFER(vector);
    double *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t rows = SIZE(rows), features = SIZE(features), count = SIZE(count), block = SIZE(block);
    (void)scratch;
    if (SIZE(mismatch)) {
        *fault = 1;
        return;
    }
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const double *const x = data + row * features;
        double *const to = out + row * count;
        int64_t c = 0;
        for (; c + 4 * IG_LANES <= count; c += 4 * IG_LANES)
            IG_FUNCTION_columns(x, vector + c, to + c, features, count, 4, IG_LANES);
        for (; c < count; c += IG_LANES)
            IG_FUNCTION_columns(x, vector + c, to + c, features, count, 1, count - c);
    }
}
