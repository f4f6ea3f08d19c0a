/* The roots of unity for transforms in single precision: cosines, then sines. There is one task. */
#include "plain.h"

#define PI 3.141592653589793

typedef struct {
    void *table;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t length;
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    float *const table = BUFFER(table);
    const int64_t length = SIZE(length);
    (void)begin, (void)end, (void)scratch;
    for (int64_t k = 0; k < length; k++) {
        table[k] = (float)cos(2 * PI * (double)k / (double)length);
        table[length + k] = (float)-sin(2 * PI * (double)k / (double)length);
    }
}
