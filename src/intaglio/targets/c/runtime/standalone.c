/* The runtime's side of a call on one thread, for programs without Python, on any processor that has a C library.

   A program includes this file, fills an ig_call up to its kernels (input, output, constant, arena, offset, dim,
   kernel; most_rounds and most_bytes where it wants bounds) and gives it to ig_run_alone with the segment's driver. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ig.h"

/* An output whose shape only the run tells: the program says how large an element is and zeroes the rest, which the run
   sets, and the program frees `memory` and `dim`. */
typedef struct {
    int64_t item_bytes;
    int32_t rank;
    int64_t *dim;
    void *memory;
    int64_t capacity; /* bytes of `memory`, of which the output may need fewer */
} ig_result;

typedef struct ig_alone_block ig_alone_block;

struct ig_alone_block {
    ig_alone_block *previous, *next;
    int64_t bytes;
};

enum { IG_ALONE_HEADER = 64 }; /* bytes in front of a block's memory, which is aligned to as many */

typedef struct {
    ig_alone_block *blocks;
    int64_t allocated, scratch_bytes;
    void *scratch;
    ig_result *result;
    volatile int32_t cancel;
} ig_alone;

/* Memory aligned to 64 bytes, a little even for none; NULL: there is not so much. */
static void *ig_alone_aligned(int64_t bytes) {
    if (bytes < 0 || (uint64_t)bytes > SIZE_MAX / 2)
        return NULL;
    return aligned_alloc(64, ((size_t)bytes + 64) & ~(size_t)63);
}

static int32_t ig_alone_parallel(const ig_call *call, ig_kernel kernel, void *const *buffer, const int64_t *size,
                                 int64_t tasks, int64_t cost, int64_t scratch_bytes, int64_t action) {
    ig_alone *run = call->run;
    (void)cost, (void)action;
    if (!run->scratch || scratch_bytes > run->scratch_bytes) {
        free(run->scratch);
        run->scratch = ig_alone_aligned(scratch_bytes);
        run->scratch_bytes = run->scratch ? scratch_bytes : 0;
        if (!run->scratch)
            return 1;
    }
    if (!*call->cancel && tasks > 0)
        kernel(buffer, size, 0, tasks, run->scratch);
    return *call->cancel;
}

static void *ig_alone_allocate(const ig_call *call, int64_t bytes) {
    ig_alone *run = call->run;
    if (bytes > __INT64_MAX__ / 4 || (call->most_bytes && bytes > call->most_bytes - run->allocated))
        return NULL;
    ig_alone_block *block = ig_alone_aligned(bytes + IG_ALONE_HEADER);
    if (!block)
        return NULL;
    *block = (ig_alone_block){NULL, run->blocks, bytes};
    if (run->blocks)
        run->blocks->previous = block;
    run->blocks = block;
    run->allocated += bytes;
    return (char *)block + IG_ALONE_HEADER;
}

static ig_alone_block *ig_alone_block_of(void *memory) {
    return (ig_alone_block *)((char *)memory - IG_ALONE_HEADER);
}

static void ig_alone_release(const ig_call *call, void *memory) {
    ig_alone *run = call->run;
    if (!memory)
        return;
    ig_alone_block *block = ig_alone_block_of(memory);
    *(block->previous ? &block->previous->next : &run->blocks) = block->next;
    if (block->next)
        block->next->previous = block->previous;
    run->allocated -= block->bytes;
    free(block);
}

static void *ig_alone_grow(const ig_call *call, void *memory, int64_t used, int64_t needed) {
    int64_t had = memory ? ig_alone_block_of(memory)->bytes : 0;
    if (memory && needed <= had)
        return memory;
    void *more = ig_alone_allocate(call, needed > 2 * had ? needed : 2 * had);
    if (!more)
        return NULL;
    if (used > 0)
        memcpy(more, memory, (size_t)used);
    ig_alone_release(call, memory);
    return more;
}

/* Memory for an output; asked for more later, it keeps what it holds. */
static void *ig_alone_result(const ig_call *call, int32_t output, int32_t rank, const int64_t *dim) {
    ig_result *result = &((ig_alone *)call->run)->result[output];
    int64_t bytes = result->item_bytes;
    for (int32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, dim[i], &bytes))
            return NULL;
    if (!result->dim)
        result->dim = malloc(((size_t)rank + 1) * sizeof *dim);
    if (!result->memory || bytes > result->capacity) {
        int64_t capacity = bytes > 2 * result->capacity ? bytes : 2 * result->capacity;
        void *more = ig_alone_aligned(capacity);
        if (more && result->memory)
            memcpy(more, result->memory, (size_t)result->capacity);
        free(result->memory);
        result->memory = more;
        result->capacity = more ? capacity : 0;
    }
    if (!result->dim || !result->memory)
        return NULL;
    result->rank = rank;
    memcpy(result->dim, dim, (size_t)rank * sizeof *dim);
    return result->memory;
}

/* A number below 0 is no round: from there on nothing stops the run. */
static int32_t ig_alone_round(const ig_call *call, int64_t number) {
    static volatile int32_t never;
    if (number < 0 && !*call->cancel)
        ((ig_call *)call)->cancel = &never;
    if (call->most_rounds && number >= call->most_rounds)
        return 2;
    return *call->cancel != 0;
}

/* Runs a segment and returns what its driver returned; 1 also where there is no memory for scratch. `result` has an
   entry for each output, of which those with a late shape are used; it may be NULL where there are none. */
int32_t ig_run_alone(ig_driver driver, ig_call call, ig_result *result) {
    ig_alone run = {.result = result};
    if (!call.cancel)
        call.cancel = &run.cancel;
    call.threads = 1;
    call.run = &run;
    call.parallel = ig_alone_parallel;
    call.allocate = ig_alone_allocate;
    call.grow = ig_alone_grow;
    call.release = ig_alone_release;
    call.result = ig_alone_result;
    call.round = ig_alone_round;
    int32_t status = driver(&call);
    while (run.blocks)
        ig_alone_release(&call, (char *)run.blocks + IG_ALONE_HEADER);
    free(run.scratch);
    return status;
}
