/* Scores of words, with minus infinity for each that would repeat: one that stands in the text behind the same words as
   its last ones. A task is a row: one text. */
#include "plain.h"

/* The words that come before a repeated one. */
#ifndef BEFORE
#define BEFORE 2
#endif

typedef struct {
    void *words, *scores, *out, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t length, count; /* the words of a text, and the scores */
} IG_FUNCTION_sizes;

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const words = BUFFER(words);
    const float *const scores = BUFFER(scores);
    float *const out = BUFFER(out);
    int64_t *const fault = BUFFER(fault);
    const int64_t length = SIZE(length), count = SIZE(count);
    (void)scratch;
    for (int64_t row = begin; row < end; row++) {
        const int64_t *const text = words + row * length;
        float *const mine = out + row * count;
        memcpy(mine, scores + row * count, (size_t)count * sizeof *mine);
        for (int64_t start = 0; start < length - BEFORE; start++) {
            int64_t same = 0;
            while (same < BEFORE && text[start + same] == text[length - BEFORE + same])
                same++;
            if (same < BEFORE)
                continue;
            const int64_t word = text[start + BEFORE];
            if (word < 0 || word >= count)
                *fault = 1;
            else
                mine[word] = -INFINITY;
        }
    }
}
