"""How the tasks of a kernel are shared out among threads: by OpenMP, or among the workers of a page."""

from __future__ import annotations

RUN_TASKS = "run_tasks"
"""The function that runs a kernel on several threads."""

_OPENMP = """\
/* Tasks in as many parts as there are threads; on one thread where there is little to do or no OpenMP. */
static void run_tasks(ig_kernel kernel, void *const *buffer, const int64_t *size, int64_t tasks, int64_t cost,
                      unsigned char *scratch, int64_t scratch_bytes)
{
    const int64_t threads = THREADS;
    if (tasks < 2 || tasks * (double)cost < 20000) {
        kernel(buffer, size, 0, tasks, scratch);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads(THREADS) schedule(static, 1)
#endif
    for (int64_t thread = 0; thread < threads; thread++) {
        const int64_t begin = tasks * thread / threads, end = tasks * (thread + 1) / threads;
        if (begin < end)
            kernel(buffer, size, begin, end, scratch + thread * scratch_bytes);
    }
}
"""

_WORKERS = """\
#ifdef __wasm_atomics__
#include <stdatomic.h>

/* Threads are workers of the page, each in `PREFIX_thread`. A job is cut into parts, which the caller and the workers
   take one by one, so that nobody waits for a worker that has not begun. */
static struct {
    ig_kernel kernel;
    void *const *buffer;
    const int64_t *size;
    int64_t tasks;
    unsigned char *scratch;
    int64_t scratch_bytes;
} pool_job;
static _Atomic uint64_t pool_ticket;   /* the number of the job, how many parts it has, and the next of them */
static _Atomic uint32_t pool_jobs;     /* changes with each job: workers sleep on it */
static _Atomic uint32_t pool_sleeping; /* how many do */
static _Atomic uint32_t pool_finished; /* parts of the job that are done */
static uint32_t pool_threads = 1;
enum { POOL_SPINS = 20000 };

/* Take parts of the job until none is left. What a job is does not change before all its parts are done. */
static void pool_work(void)
{
    for (;;) {
        uint64_t now = atomic_load(&pool_ticket);
        do {
            if ((now & 0xffff) >= (now >> 16 & 0xffff))
                return;
        } while (!atomic_compare_exchange_weak(&pool_ticket, &now, now + 1));
        const int64_t part = (int64_t)(now & 0xffff), parts = (int64_t)(now >> 16 & 0xffff);
        const int64_t begin = pool_job.tasks * part / parts, end = pool_job.tasks * (part + 1) / parts;
        unsigned char *const scratch = pool_job.scratch + part * pool_job.scratch_bytes;
        pool_job.kernel(pool_job.buffer, pool_job.size, begin, end, scratch);
        atomic_fetch_add(&pool_finished, 1);
    }
}

/* What a worker does for ever. */
__attribute__((export_name("PREFIX_thread"))) void PREFIX_thread(void)
{
    for (;;) {
        const uint32_t seen = atomic_load(&pool_jobs);
        pool_work();
        for (int32_t spin = 0; spin < POOL_SPINS && atomic_load(&pool_jobs) == seen; spin++)
            ;
        atomic_fetch_add(&pool_sleeping, 1);
        __builtin_wasm_memory_atomic_wait32((int *)&pool_jobs, (int)seen, -1); /* not if it has changed */
        atomic_fetch_sub(&pool_sleeping, 1);
    }
}

/* How many threads there are, the caller's included. */
__attribute__((export_name("PREFIX_use_threads"))) void PREFIX_use_threads(int32_t threads)
{
    pool_threads = threads < 1 ? 1 : threads > THREADS ? THREADS : (uint32_t)threads;
}
#endif

/* Tasks in as many parts as there are threads; on one thread where there is little to do. */
static void run_tasks(ig_kernel kernel, void *const *buffer, const int64_t *size, int64_t tasks, int64_t cost,
                      unsigned char *scratch, int64_t scratch_bytes)
{
#ifdef __wasm_atomics__
    const uint64_t parts = tasks < pool_threads ? (uint64_t)tasks : pool_threads;
    if (parts > 1 && tasks * (double)cost >= 20000) {
        static uint64_t number;
        pool_job.kernel = kernel;
        pool_job.buffer = buffer;
        pool_job.size = size;
        pool_job.tasks = tasks;
        pool_job.scratch = scratch;
        pool_job.scratch_bytes = scratch_bytes;
        atomic_store(&pool_finished, 0);
        atomic_store(&pool_ticket, ++number << 32 | parts << 16);
        atomic_fetch_add(&pool_jobs, 1);
        if (atomic_load(&pool_sleeping))
            __builtin_wasm_memory_atomic_notify((int *)&pool_jobs, (unsigned)parts - 1);
        pool_work();
        while (atomic_load(&pool_finished) < parts)
            ; /* the thread of a page may not sleep */
        return;
    }
#endif
    (void)cost;
    (void)scratch_bytes;
    kernel(buffer, size, 0, tasks, scratch);
}
"""


def shared_tasks(target: str, prefix: str, threads: int) -> str:
    """The functions that share tasks out, for a target."""
    text = _WORKERS if target == "wasm" else _OPENMP
    return text.replace("PREFIX", prefix).replace("THREADS", str(threads))
