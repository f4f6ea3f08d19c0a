/* Joins `count` tensors of rows x extent x inner bytes. A task is one of them. */
#include "plain.h"

/* Whether the extents are a table in memory, behind the tensors; else they are sizes. */
#ifndef HAS_TABLE
#define HAS_TABLE 0
#endif

typedef struct {
    void *out, *first; /* and behind the first tensor all others */
} IG_FUNCTION_buffers;

typedef struct {
    int64_t count, rows, inner, along; /* `along` is the extent of the result */
    int64_t extent[1];                 /* of the first tensor, and behind it those of all others */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    void *const *const tensor = &BUFFER(first);
    const int64_t rows = SIZE(rows), inner = SIZE(inner), along = SIZE(along) * inner;
#if HAS_TABLE
    const int64_t *const extent = tensor[SIZE(count)];
#else
    const int64_t *const extent = &SIZE(extent);
#endif
    char *const out = BUFFER(out);
    int64_t at = 0;
    (void)scratch;
    for (int64_t i = 0; i < begin; i++)
        at += extent[i] * inner;
    for (int64_t i = begin; i < end; i++) {
        const int64_t bytes = extent[i] * inner;
        const char *const from = tensor[i];
        for (int64_t row = 0; bytes && row < rows; row++)
            memcpy(out + row * along + at, from + row * bytes, (size_t)bytes);
        at += bytes;
    }
}
