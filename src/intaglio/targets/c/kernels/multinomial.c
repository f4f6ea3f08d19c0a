/* Classes drawn by their weights: running sums of each row's weights, and a search among them for each number drawn. A
   task is a block of rows. */
#include "kernel.h"
#include "library.h"
#include "philox.h"
#include "read.h"

/* The logarithms of weights, and how they are read. */
#ifndef DATA
#define DATA float
#endif
#ifndef READ_DATA
#define READ_DATA *
#endif
/* The number of a class. */
#ifndef ELEMENT
#define ELEMENT int32_t
#endif

typedef struct {
    void *key, *data, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows, classes, samples, block, tasks;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const uint64_t *const key = BUFFER(key);
    const DATA *const data = BUFFER(data);
    ELEMENT *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t rows = SIZE(rows), classes = SIZE(classes), samples = SIZE(samples), block = SIZE(block);
    double *const bound = scratch;
    if (classes < 1 || samples < 1) {
        *fault = 1;
        return;
    }
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        double top = -INFINITY, total = 0;
        for (int64_t c = 0; c < classes; c++) {
            bound[c] = (double)READ_DATA(data + row * classes + c);
            top = bound[c] > top || bound[c] != bound[c] ? bound[c] : top;
        }
        for (int64_t c = 0; c < classes; c++)
            bound[c] = total += exp(bound[c] - top);
        uint64_t word[4] = {0};
        for (int64_t s = 0; s < samples; s++) {
            const uint64_t place = (uint64_t)(row * samples + s);
            if (s == 0 || place % 4 == 0)
                IG_FUNCTION_philox(place / 4, key, word);
            const double drawn = UNIT(word[place % 4]) * total;
            int64_t low = 0, left = classes;
            while (left > 0) {
                const int64_t half = left / 2;
                const int is_below = !(bound[low + half] > drawn);
                low = is_below ? low + half + 1 : low;
                left = is_below ? left - half - 1 : half;
            }
            out[row * samples + s] = (ELEMENT)(low < classes ? low : classes - 1);
        }
    }
}
