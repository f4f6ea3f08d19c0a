/* Several runs at a time on one pool, as `test_shares` compiles it: each task must be done once, whoever does it.

   Arguments: callers, runs of each, threads of a run. Writes how many tasks other threads than the caller did. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"

enum { MOST_TASKS = 4000 };

static int runs, threads;
static _Atomic int64_t helped, wrong;
static _Thread_local int is_caller;

static void kernel(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch) {
    int64_t *out = buffer[0];
    int64_t *mine = scratch;
    for (int64_t i = begin; i < end; i++) {
        mine[0] = i * size[0];
        for (int64_t turn = 0; turn < size[1]; turn++)
            mine[0] = mine[0] * 3 + turn;
        out[i] += mine[0];
    }
    if (!is_caller)
        atomic_fetch_add(&helped, end - begin);
}

static int64_t expected(int64_t task, const int64_t *size) {
    int64_t found = task * size[0];
    for (int64_t turn = 0; turn < size[1]; turn++)
        found = found * 3 + turn;
    return found;
}

static void one_run(unsigned *seed, int64_t *out) {
    ig_run run;
    memset(&run, 0, sizeof run);
    run.call.threads = threads;
    run.estimate = rand_r(seed) % 2 ? 1000 * 1000 : 0;
    ig_run_begin(&run);
    for (int job = 0; job < 6; job++) {
        int64_t tasks = 1 + rand_r(seed) % MOST_TASKS, size[2] = {rand_r(seed) % 100, rand_r(seed) % 50};
        void *buffer[1] = {out};
        memset(out, 0, MOST_TASKS * sizeof *out);
        int32_t stops = rand_r(seed) % 16 == 0;
        run.call.deadline = stops ? 1 : 0; /* long ago */
        int32_t status = run.call.parallel(&run.call, kernel, buffer, size, tasks, 1 + rand_r(seed) % 200, 64, job);
        for (int64_t i = 0; i < tasks; i++)
            if (out[i] != expected(i, size) && (!status || out[i]))
                atomic_fetch_add(&wrong, 1);
        if (status && !stops)
            atomic_fetch_add(&wrong, 1);
        if (status)
            break;
    }
    ig_run_end(&run);
}

static void *caller(void *argument) {
    unsigned seed = (unsigned)(intptr_t)argument;
    int64_t *out = malloc(MOST_TASKS * sizeof *out);
    is_caller = 1;
    for (int i = 0; i < runs; i++)
        one_run(&seed, out);
    free(out);
    return NULL;
}

int main(int count, char **argument) {
    if (count != 4)
        return 2;
    int callers = atoi(argument[1]);
    runs = atoi(argument[2]), threads = atoi(argument[3]);
    pthread_t thread[64];
    for (int i = 0; i < callers; i++)
        pthread_create(&thread[i], NULL, caller, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < callers; i++)
        pthread_join(thread[i], NULL);
    printf("%lld wrong, %lld helped, %d workers\n", (long long)wrong, (long long)helped, ig_pool_workers());
    return wrong != 0;
}
