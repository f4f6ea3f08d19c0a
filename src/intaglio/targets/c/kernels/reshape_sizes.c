/* The sizes of what Reshape gives: a 0 stands for the input's own size, a -1 for what is left. There is one task. */
#include "plain.h"

/* How many sizes are wanted, how many axes the input has, and at least one. */
#ifndef COUNT
#define COUNT 2
#endif
#ifndef RANK
#define RANK 2
#endif
#ifndef PLACES
#define PLACES 2
#endif
#ifndef COPIES_ZEROS
#define COPIES_ZEROS 1
#endif
/* More than any memory holds. */
#define FAR ((int64_t)1 << 62)

typedef struct {
    void *wanted, *shape, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t given[PLACES];
} IG_FUNCTION_sizes;

/* A product of sizes; a fault where it is too large. */
static int64_t IG_FUNCTION_times(int64_t a, int64_t b, int64_t *fault)
{
    *fault |= b > 0 && a > FAR / b;
    return *fault ? 0 : a * b;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const int64_t *const wanted = BUFFER(wanted), *const given = &SIZE(given);
    int64_t *const shape = BUFFER(shape), *const fault = BUFFER(fault);
    int64_t open = -1, rest = 1, total = 1, is_empty = 0;
    (void)begin, (void)end, (void)scratch;
    for (int64_t i = 0; i < COUNT; i++) {
        const int64_t is_copied = COPIES_ZEROS && wanted[i] == 0, is_open = wanted[i] == -1;
        *fault |= wanted[i] < -1 || (is_copied && i >= RANK) || (is_open && open >= 0);
        if (*fault)
            return;
        shape[i] = is_copied ? given[i] : wanted[i];
        is_empty |= is_copied && shape[i] == 0;
        open = is_open ? i : open;
        rest = is_copied || is_open ? rest : IG_FUNCTION_times(rest, wanted[i], fault);
    }
    for (int64_t i = 0; i < RANK; i++) {
        const int64_t is_copied = COPIES_ZEROS && i < COUNT && wanted[i] == 0;
        total = is_copied ? total : IG_FUNCTION_times(total, given[i], fault);
    }
    if (open < 0) {
        *fault |= rest != total && !is_empty;
    } else if (rest == 0 || total % rest != 0) {
        *fault = 1;
    } else {
        shape[open] = total / rest;
    }
}
