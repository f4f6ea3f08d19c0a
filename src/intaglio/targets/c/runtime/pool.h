/* The thread pool, as the runtime's other file sees it. */
#ifndef IG_POOL_H
#define IG_POOL_H

#include "ig.h"

/* One run of a segment. The caller fills `call` (except parallel, cancel and run), `estimate` and `poll`, and zeroes
   the rest. */
typedef struct ig_run ig_run;
typedef struct ig_block ig_block;

/* Where the times of a segment's runs are added up. The first row is the whole run, row 1 + i the driver's i-th action.
   Each event is an action (-1: the run) with the ticks at which it began and ended; those that find no room are left
   out. Runs at the same time on several threads may lose counts. */
typedef struct {
    struct {
        int64_t count, ticks, waited, least; /* least: the ticks of the shortest */
    } *row;
    int64_t rows;
    int64_t (*event)[3];
    int64_t events, most_events;
} ig_counters;

/* A clock for short times: its ticks are as long in all threads, and how long a comparison with `ig_now` shows. */
int64_t ig_ticks(void);
struct ig_run {
    ig_call call;
    int64_t estimate;         /* nanoseconds, roughly: a short run does not wake the pool */
    int32_t (*poll)(ig_run *run); /* called now and then in the calling thread; non-zero cancels */
    int64_t next_poll;        /* monotonic nanoseconds */
    int64_t unchecked;        /* nanoseconds of work, roughly, since the clock was last read */
    volatile int32_t cancel;
    volatile int32_t out_of_memory;
    struct ig_board *board;   /* where its jobs are for workers to see; NULL: there was none yet for more than one */
    uint32_t control;         /* the caller's floating-point control word */
    uint32_t epoch;           /* changes with fork */
    ig_block *blocks;         /* memory that the driver asked for */
    int64_t allocated;        /* bytes of them all */
    int64_t most_allocated;   /* and the most that there were at a time */
    int64_t refused_bytes;    /* what it asked for in vain */
    ig_counters *counters;    /* NULL: nothing is timed */
    int64_t began;            /* ticks at which the run began */
    int64_t marked;           /* and at which the last action that was timed ended */
    int64_t waited;           /* ticks that the calling thread waited for others in the present call */
};

/* What a driver has grown, taken out of its run: the caller frees it. Memory beyond `bytes` is given back where it can
   be; NULL: the block is small, and it is better copied. */
void *ig_run_take(ig_run *run, void *memory, int64_t bytes);
void ig_free_taken(void *memory);

int64_t ig_now(void);

/* Between these two the calling thread flushes denormals and `run->call.parallel` may be used. */
void ig_run_begin(ig_run *run);
void ig_run_end(ig_run *run);

/* Python code that runs in the middle of a run wants its own floating-point control word. */
void ig_run_pause(ig_run *run);
void ig_run_resume(ig_run *run);

int32_t ig_pool_workers(void);

/* The most scratch memory that all threads together held since the last run began. */
int64_t ig_scratch_bytes(void);

#endif
