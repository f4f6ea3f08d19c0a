/* What transforms in double precision read for a length: roots of unity, and for Bluestein's method chirp and filter
   behind them, each as real parts and imaginary parts. There is one task. */
#include "plain.h"
#define REAL double
#include "fourier.h"

#define PI 3.141592653589793

typedef struct {
    void *table;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t length;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    double *const table = BUFFER(table);
    const int64_t length = SIZE(length);
    (void)begin, (void)end;
    if (length < 1)
        return;
    const int is_direct = IG_FUNCTION_largest(length) <= LARGEST;
    const int64_t n = is_direct ? length : IG_FUNCTION_smooth(length);
    for (int64_t k = 0; k < n; k++) {
        table[k] = cos(2 * PI * (double)k / (double)n);
        table[n + k] = -sin(2 * PI * (double)k / (double)n);
    }
    if (is_direct)
        return;
    double *const chirp = table + 2 * n, *const taps = chirp + 2 * length;
    double *re = scratch, *im = re + n, *other_re = taps, *other_im = taps + n;
    for (int64_t k = 0; k < n; k++)
        re[k] = im[k] = 0;
    for (int64_t k = 0; k < length; k++) {
        const double angle = PI * (double)(k * k % (2 * length)) / (double)length;
        chirp[k] = cos(angle);
        chirp[length + k] = -sin(angle);
        re[k] = re[(n - k) % n] = chirp[k] / (double)n;
        im[k] = im[(n - k) % n] = -chirp[length + k] / (double)n;
    }
    IG_FUNCTION_fft(&re, &im, &other_re, &other_im, n, 1, table, table + n);
    if (re != taps) {
        memcpy(taps, re, (uint64_t)n * sizeof *taps);
        memcpy(taps + n, im, (uint64_t)n * sizeof *taps);
    }
}
