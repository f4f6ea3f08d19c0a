/* The chances of `count` classes from those of each class against each other, by the iteration of Wu, Lin and Weng for
   each row by itself. A task is a block of rows. */
#include "plain.h"

/* The most rounds of the iteration. */
#define ROUNDS 100

typedef struct {
    void *pair, *out;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows, count, block;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const double *const pair = BUFFER(pair);
    double *const out = BUFFER(out);
    const int64_t rows = SIZE(rows), count = SIZE(count), block = SIZE(block);
    double *const chance = scratch, *const matrix = chance + count * count, *const weighed = matrix + count * count;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        double *const p = out + row * count;
        const double *next = pair + row * (count * (count - 1) / 2);
        for (int64_t i = 0; i < count; i++) {
            chance[i * count + i] = 0;
            p[i] = 1.0 / (double)count;
            for (int64_t j = i + 1; j < count; j++, next++) {
                chance[i * count + j] = *next;
                chance[j * count + i] = 1 - *next;
            }
        }
        for (int64_t i = 0; i < count; i++) {
            double squares = 0;
            for (int64_t j = 0; j < count; j++) {
                matrix[i * count + j] = -chance[j * count + i] * chance[i * count + j];
                squares += chance[j * count + i] * chance[j * count + i];
            }
            matrix[i * count + i] = squares;
        }
        for (int round = 0; round < ROUNDS; round++) {
            double total = 0, worst = 0;
            for (int64_t i = 0; i < count; i++) {
                weighed[i] = 0;
                for (int64_t j = 0; j < count; j++)
                    weighed[i] += matrix[i * count + j] * p[j];
                total += p[i] * weighed[i];
            }
            for (int64_t i = 0; i < count; i++)
                worst = fabs(weighed[i] - total) > worst ? fabs(weighed[i] - total) : worst;
            if (worst < 0.005 / (double)count)
                break;
            for (int64_t i = 0; i < count; i++) {
                const double own = matrix[i * count + i], step = (total - weighed[i]) / own;
                p[i] += step;
                total = (total + step * (step * own + 2 * weighed[i])) / ((1 + step) * (1 + step));
                for (int64_t j = 0; j < count; j++) {
                    weighed[j] = (weighed[j] + step * matrix[i * count + j]) / (1 + step);
                    p[j] /= 1 + step;
                }
            }
        }
    }
}
