/* The bins of a spectrum at which the triangles of the mel scale begin, have their peaks and end: two more than there
   are triangles. There is one task. */
#include "plain.h"
#include "read.h"

/* The types of the inputs, and how frequencies are read. */
#ifndef LENGTH
#define LENGTH int64_t
#endif
#ifndef RATE
#define RATE int64_t
#endif
#ifndef LOW
#define LOW float
#endif
#ifndef READ_LOW
#define READ_LOW *
#endif
#ifndef HIGH
#define HIGH float
#endif
#ifndef READ_HIGH
#define READ_HIGH *
#endif

typedef struct {
    void *length; /* samples of the signal */
    void *rate;   /* samples of a second */
    void *low, *high, *edge, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t bins; /* triangles */
    int64_t rows; /* bins of the spectrum */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const LENGTH *const length = BUFFER(length);
    const RATE *const rate = BUFFER(rate);
    const LOW *const low = BUFFER(low);
    const HIGH *const high = BUFFER(high);
    int64_t *const edge = BUFFER(edge);
    int64_t *const fault = BUFFER(fault);
    const int64_t bins = SIZE(bins), rows = SIZE(rows);
    const int64_t samples = (int64_t)length[0], per_second = (int64_t)rate[0];
    (void)begin, (void)end, (void)scratch;
    if (samples < 1 || per_second < 1 || bins < 0) {
        *fault = 1;
        return;
    }
    const double bottom = 2595 * log10(1 + (double)READ_LOW(low) / 700);
    const double top = 2595 * log10(1 + (double)READ_HIGH(high) / 700);
    for (int64_t i = 0; i < bins + 2; i++) {
        const double mel = bottom + (double)i * (top - bottom) / (double)(bins + 2);
        const double hertz = 700 * (double)(samples + 1) * (pow(10, mel / 2595) - 1);
        const double place = floor(hertz / (double)per_second);
        if (!(place >= 0 && place < (double)rows)) {
            *fault = 1;
            return;
        }
        edge[i] = (int64_t)place;
    }
}
