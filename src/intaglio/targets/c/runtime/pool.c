/* One pool of threads per process, which runs share.

   A run that has work for more than one thread takes a board, where it publishes one job at a time. A job is split into
   chunks. `ticket` holds the job's generation and the number of chunks that nobody has claimed yet; a worker claims one by
   decreasing it with a compare-and-swap. The job's other fields are read only after a claim has succeeded, and they do
   not change before every claimed chunk is done, so a worker that comes late finds no chunk left and never looks at them.
   The next run that takes the board counts generations on. The caller claims chunks like everybody else and waits only
   for chunks that a worker has begun.

   Each run that has a board has its caller's thread. The threads that are left go round: a worker helps the run whose
   place is its number, and the others where that one has nothing to do. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ig.h"
#include "pool.h"

enum {
    MOST_WORKERS = 255,
    MOST_RUNS = 32,                      /* that share the workers; further ones compute alone */
    EVERYWHERE = -2,                     /* workers may be on any processor */
    PARK_AFTER_RUN = 40 * 1000,          /* nanoseconds that a worker spins when no run is left */
    PARK_IN_RUN = 2 * 1000 * 1000,       /* and when a run gives it nothing to do */
    LEAST_SHARED_JOB = 4 * 1000,         /* shorter jobs are done alone */
    LEAST_WAKING_JOB = 50 * 1000,        /* shorter jobs are done alone when the workers are parked */
    LEAST_WAKING_RUN = 100 * 1000,       /* shorter runs do not wake the workers at their start */
    LEAST_CHUNK = 2 * 1000,
    MOST_CHUNK = 2 * 1000 * 1000,        /* bounds the time until a cancelled run stops */
    CHUNKS_PER_THREAD = 8,
    CHECK_EVERY = 100 * 1000,            /* nanoseconds of estimated work between two looks at the clock */
    JOB_OVERHEAD = 1000,                 /* added to each job's estimate, which may be far too low */
    POLL_EVERY = 20 * 1000 * 1000,
    KEPT_SCRATCH = 4 << 20,
    LEAST_MAPPED = 1 << 20,              /* bytes from which blocks that grow have a mapping of their own */
    STACK_BYTES = 2 << 20,
};

typedef struct {
    char *memory;
    int64_t bytes;
} scratch_space;

typedef struct {
    _Alignas(64) _Atomic uint32_t is_parked; /* a futex: the worker sleeps while it is 1 */
    _Atomic int32_t thread_id;               /* the kernel's, 0 until the worker runs */
} worker_state;

/* Where a run publishes its jobs. */
struct ig_board {
    _Alignas(64) _Atomic uint64_t ticket; /* generation << 32 | chunks left */
    _Alignas(64) _Atomic uint32_t done;   /* chunks finished */
    _Alignas(64) ig_kernel kernel;
    void *const *buffer;
    const int64_t *size;
    int64_t tasks, tasks_per_chunk, scratch_bytes;
    uint32_t chunks;
    ig_run *run;
    _Atomic int32_t threads; /* that the run may have, its caller among them */
};
typedef struct ig_board board;

static struct {
    _Alignas(64) _Atomic uint32_t runs;   /* a bit for each board that a run has */
    _Alignas(64) _Atomic int32_t workers; /* started; changed only by who manages them */
    _Atomic int32_t is_managed;           /* a thread starts, wakes or moves workers; others leave that to it */
    _Atomic int32_t processors;           /* that the caller may use, 0 until it is known */
    _Atomic int32_t is_crowded;           /* more threads than processors: yield while spinning */
    int32_t caller_cpu;                   /* the processor that the workers keep away from, -1, or EVERYWHERE */
    uint32_t epoch;
    pthread_key_t scratch_key;
    worker_state worker[MOST_WORKERS];
    board board[MOST_RUNS];
} pool = {.caller_cpu = -1};

int64_t ig_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* The processor's counter where it runs at one speed always (in any sleep, too), which is read in a third of the time
   of the system's clock; else nanoseconds. */
#if defined(__x86_64__)
static int32_t has_steady_counter(void) {
    static _Atomic int32_t known; /* 1 yes, -1 no */
    int32_t found = atomic_load_explicit(&known, memory_order_relaxed);
    if (!found) {
        uint32_t a = 0x80000000, b, c = 0, d;
        __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        uint32_t last = a;
        a = 0x80000007, c = 0;
        __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        found = last >= 0x80000007 && (d >> 8 & 1) ? 1 : -1;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found > 0;
}
int64_t ig_ticks(void) { return has_steady_counter() ? (int64_t)__builtin_ia32_rdtsc() : ig_now(); }
#elif defined(__aarch64__)
int64_t ig_ticks(void) {
    int64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
}
#else
int64_t ig_ticks(void) { return ig_now(); }
#endif

#if defined(__x86_64__)
static uint32_t flush_denormals(void) {
    uint32_t before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0x9fc0); /* all exceptions masked, round to nearest, flush to zero, denormals are zero */
    return before;
}
static void set_control(uint32_t control) { __builtin_ia32_ldmxcsr(control); }
static void relax(void) { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
static uint32_t flush_denormals(void) {
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)1 << 24));
    return (uint32_t)before;
}
static void set_control(uint32_t control) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)control)); }
static void relax(void) { __asm__ volatile("yield"); }
#else
static uint32_t flush_denormals(void) { return 0; }
static void set_control(uint32_t control) {}
static void relax(void) {}
#endif

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Scratch: of all threads together, now and at most since the last run began. */
static _Atomic int64_t scratch_bytes_now, scratch_bytes_most;

static void scratch_drop(scratch_space *space) {
    atomic_fetch_sub_explicit(&scratch_bytes_now, space->bytes, memory_order_relaxed);
    free(space->memory);
    *space = (scratch_space){0};
}

static void scratch_count(int64_t bytes) {
    int64_t now = atomic_fetch_add_explicit(&scratch_bytes_now, bytes, memory_order_relaxed) + bytes;
    int64_t most = atomic_load_explicit(&scratch_bytes_most, memory_order_relaxed);
    while (now > most && !atomic_compare_exchange_weak_explicit(&scratch_bytes_most, &most, now, memory_order_relaxed,
                                                                memory_order_relaxed))
        continue;
}

/* What a kernel gets that needs no scratch: it may copy nothing to it, for which NULL would not do. */
static _Alignas(64) char no_scratch[64];

/* Memory of at least `bytes`, 64-byte aligned, or NULL. */
static void *scratch_take(scratch_space *space, int64_t bytes) {
    if (space->bytes >= bytes && space->memory)
        return space->memory;
    int64_t rounded = (bytes + 4095) & ~(int64_t)4095;
    scratch_drop(space);
    space->memory = rounded ? aligned_alloc(64, (size_t)rounded) : NULL;
    space->bytes = space->memory ? rounded : 0;
    scratch_count(space->bytes);
    return space->memory;
}

static void scratch_trim(scratch_space *space) {
    if (space->bytes > KEPT_SCRATCH)
        scratch_drop(space);
}

/* The calling thread's own space lives as long as the thread. */
static void scratch_free(void *space) {
    scratch_drop(space);
    free(space);
}

static scratch_space *caller_scratch(void) {
    scratch_space *space = pthread_getspecific(pool.scratch_key);
    if (!space) {
        space = calloc(1, sizeof *space);
        if (space)
            pthread_setspecific(pool.scratch_key, space);
    }
    return space;
}

static int32_t read_number(_Atomic int32_t *number) {
    return atomic_load_explicit(number, memory_order_relaxed);
}

static uint32_t read_runs(void) {
    return atomic_load_explicit(&pool.runs, memory_order_relaxed);
}

/* Workers write these two while the caller looks at them. */
static int32_t is_cancelled(const ig_run *run) {
    return __atomic_load_n(&run->cancel, __ATOMIC_RELAXED);
}
static int32_t end_without_memory(ig_run *run) {
    __atomic_store_n(&run->out_of_memory, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&run->cancel, 1, __ATOMIC_RELAXED);
    return 1;
}

/* Claims one chunk of a board's job; -1 when none is left. */
static int64_t claim(board *b) {
    uint64_t ticket = atomic_load_explicit(&b->ticket, memory_order_acquire);
    while ((uint32_t)ticket)
        if (atomic_compare_exchange_weak_explicit(&b->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                  memory_order_acquire))
            return (int64_t)b->chunks - (uint32_t)ticket;
    return -1;
}

static void compute_chunk(board *b, int64_t chunk, scratch_space *space) {
    if (!is_cancelled(b->run)) {
        void *scratch = b->scratch_bytes ? scratch_take(space, b->scratch_bytes) : no_scratch;
        int64_t begin = chunk * b->tasks_per_chunk, end = begin + b->tasks_per_chunk;
        if (!scratch)
            end_without_memory(b->run);
        else
            b->kernel(b->buffer, b->size, begin, end < b->tasks ? end : b->tasks, scratch);
    }
    atomic_fetch_add_explicit(&b->done, 1, memory_order_release);
}

/* What a worker finds when it looks for work. */
typedef struct {
    board *from;
    int64_t chunk;  /* -1: there is none */
    int32_t is_due; /* there is a run that it may help */
} found_work;

/* Claims a chunk of a run that a worker may help: of that in the worker's place among the runs first. */
static found_work find_work(int32_t number) {
    found_work found = {.chunk = -1};
    uint32_t runs = read_runs(), from_place = runs;
    int32_t count = __builtin_popcount(runs);
    for (int32_t i = count ? number % count : 0; i > 0; i--)
        from_place &= from_place - 1;
    const uint32_t part[2] = {from_place, runs & ~from_place};
    for (int32_t i = 0; i < 2; i++)
        for (uint32_t left = part[i]; left && found.chunk < 0; left &= left - 1) {
            board *b = &pool.board[__builtin_ctz(left)];
            if (number >= read_number(&b->threads) - count)
                continue;
            found = (found_work){b, claim(b), 1};
        }
    return found;
}

/* Spins until there is a chunk to claim; none when there was none for so long that it is time to park. */
static found_work spin_for_work(int32_t number) {
    int64_t idle_since = 0, run_ended = 0;
    for (uint32_t turn = 1;; turn++) {
        found_work found = find_work(number);
        if (found.chunk >= 0)
            return found;
        relax();
        if (turn % 64)
            continue;
        if (read_number(&pool.is_crowded))
            sched_yield();
        int64_t now = ig_now();
        idle_since = idle_since ? idle_since : now;
        run_ended = found.is_due ? 0 : run_ended ? run_ended : now;
        if (now - idle_since > PARK_IN_RUN || (run_ended && now - run_ended > PARK_AFTER_RUN))
            return found;
    }
}

static void park(worker_state *worker) {
    atomic_store(&worker->is_parked, 1);
    while (atomic_load(&worker->is_parked))
        futex_wait(&worker->is_parked, 1);
}

static void *work(void *argument) {
    int32_t number = (int32_t)(intptr_t)argument;
    scratch_space space = {0};
    flush_denormals();
    atomic_store(&pool.worker[number].thread_id, (int32_t)syscall(SYS_gettid));
    for (;;) {
        found_work found = spin_for_work(number);
        if (found.chunk >= 0) {
            compute_chunk(found.from, found.chunk, &space);
        } else {
            scratch_trim(&space);
            park(&pool.worker[number]);
        }
    }
    return NULL;
}

/* In the child of a fork there are no workers; whoever ran a model in another thread of the parent is gone too. */
static void after_fork(void) {
    pool.workers = 0;
    pool.caller_cpu = -1;
    pool.epoch++;
    memset(pool.worker, 0, sizeof pool.worker);
    atomic_store(&pool.runs, 0);
    atomic_store(&pool.is_managed, 0);
    for (int32_t i = 0; i < MOST_RUNS; i++)
        atomic_store(&pool.board[i].ticket, atomic_load(&pool.board[i].ticket) >> 32 << 32);
}

__attribute__((constructor)) static void prepare(void) {
    pthread_key_create(&pool.scratch_key, scratch_free);
    pthread_atfork(NULL, NULL, after_fork);
}

static void start_workers(int32_t wanted) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (wanted > MOST_WORKERS)
        wanted = MOST_WORKERS;
    if (pool.workers >= wanted)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of the program */
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (pool.workers < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, work, (void *)(intptr_t)pool.workers))
            break; /* the run goes on with fewer */
        pool.workers++;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool.caller_cpu = -1;
}

/* The workers that a run may have now: those that its threads leave when each run has its caller's. */
static int32_t share(board *b) {
    int32_t left = read_number(&b->threads) - __builtin_popcount(read_runs());
    return left < 0 ? 0 : left;
}

static int32_t helpers(board *b) {
    int32_t most = share(b), workers = read_number(&pool.workers);
    return most < workers ? most : workers;
}

static int32_t count_parked(board *b) {
    int32_t parked = 0;
    for (int32_t i = helpers(b); i-- > 0;)
        parked += (int32_t)atomic_load_explicit(&pool.worker[i].is_parked, memory_order_relaxed);
    return parked;
}

/* A woken worker tends to land on the waker's processor and then waits there for milliseconds: keep it away. With several
   runs at a time there are as many callers, and the workers may be anywhere. */
static void avoid_caller(void) {
    cpu_set_t allowed;
    int32_t has_one = __builtin_popcount(read_runs()) < 2, cpu = has_one ? sched_getcpu() : EVERYWHERE, all_known = 1;
    if (cpu == -1 || cpu >= CPU_SETSIZE || cpu == pool.caller_cpu || sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    int32_t processors = CPU_COUNT(&allowed);
    atomic_store(&pool.processors, processors);
    if (processors > 1 && has_one)
        CPU_CLR(cpu, &allowed);
    for (int32_t i = 0; i < pool.workers; i++) {
        int32_t thread = atomic_load(&pool.worker[i].thread_id);
        if (thread)
            sched_setaffinity(thread, sizeof allowed, &allowed);
        all_known &= thread != 0;
    }
    pool.caller_cpu = all_known ? cpu : -1;
}

static void wake_workers(board *b) {
    avoid_caller();
    for (int32_t i = helpers(b); i-- > 0;) {
        if (!atomic_load(&pool.worker[i].is_parked))
            continue;
        atomic_store(&pool.worker[i].is_parked, 0);
        futex_wake(&pool.worker[i].is_parked);
    }
}

static void summon_workers(board *b) {
    int32_t nobody = 0;
    if ((share(b) <= read_number(&pool.workers) && !count_parked(b)) ||
        !atomic_compare_exchange_strong(&pool.is_managed, &nobody, 1))
        return;
    start_workers(share(b));
    wake_workers(b);
    atomic_store(&pool.is_managed, 0);
}

/* Looks at the flag, the clock and the signals when enough work went by; non-zero when the run must stop. */
static int32_t check(ig_run *run, int64_t work) {
    run->unchecked += work;
    if (run->unchecked < CHECK_EVERY || is_cancelled(run))
        return is_cancelled(run);
    run->unchecked = 0;
    int64_t now = ig_now();
    if (run->call.deadline && now > run->call.deadline)
        __atomic_store_n(&run->cancel, 1, __ATOMIC_RELAXED);
    if (now > run->next_poll && run->poll) {
        if (run->poll(run))
            __atomic_store_n(&run->cancel, 1, __ATOMIC_RELAXED);
        run->next_poll = ig_now() + POLL_EVERY;
    }
    return is_cancelled(run);
}

static int64_t saturating_product(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX >> 1 : product;
}

static int32_t compute_alone(ig_run *run, ig_kernel kernel, void *const *buffer, const int64_t *size, int64_t tasks,
                             int64_t cost, int64_t scratch_bytes) {
    void *scratch = no_scratch;
    if (scratch_bytes) {
        scratch_space *space = caller_scratch();
        scratch = space ? scratch_take(space, scratch_bytes) : NULL;
        if (!scratch)
            return end_without_memory(run);
    }
    int64_t step = MOST_CHUNK / cost;
    step = step < 1 ? 1 : step;
    for (int64_t begin = 0; begin < tasks; begin += step) {
        int64_t left = tasks - begin, count = left < step ? left : step;
        kernel(buffer, size, begin, begin + count, scratch);
        if (check(run, saturating_product(count, cost) + JOB_OVERHEAD))
            return 1;
    }
    return 0;
}

static void publish(board *b, ig_run *run, ig_kernel kernel, void *const *buffer, const int64_t *size, int64_t tasks,
                    int64_t tasks_per_chunk, int64_t scratch_bytes) {
    b->kernel = kernel;
    b->buffer = buffer;
    b->size = size;
    b->tasks = tasks;
    b->tasks_per_chunk = tasks_per_chunk;
    b->scratch_bytes = scratch_bytes;
    b->chunks = (uint32_t)((tasks + tasks_per_chunk - 1) / tasks_per_chunk);
    b->run = run;
    atomic_store_explicit(&b->done, 0, memory_order_relaxed);
    uint64_t generation = (atomic_load_explicit(&b->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store_explicit(&b->ticket, generation << 32 | b->chunks, memory_order_release);
}

/* Waits for the chunks that workers have begun. */
static void wait_for_workers(board *b, const ig_run *run) {
    for (uint32_t turn = 1; atomic_load_explicit(&b->done, memory_order_acquire) != b->chunks; turn++) {
        relax();
        if (turn % 256 == 0 && read_number(&pool.is_crowded))
            sched_yield();
        if (run->epoch != pool.epoch) /* a signal handler forked: the workers are in another process */
            return;
    }
}

static int32_t compute_together(board *b, ig_run *run, int64_t chunk_cost) {
    scratch_space *space = caller_scratch();
    if (!space)
        return end_without_memory(run);
    uint32_t runs = read_runs();
    for (int64_t chunk; (chunk = claim(b)) >= 0;) {
        compute_chunk(b, chunk, space);
        check(run, chunk_cost);
        if (read_runs() != runs) { /* the run's share may have grown */
            runs = read_runs();
            summon_workers(b);
        }
    }
    int64_t idle = run->counters ? ig_ticks() : 0;
    wait_for_workers(b, run);
    if (run->counters)
        run->waited += ig_ticks() - idle;
    return run->cancel |= run->epoch != pool.epoch;
}

static int64_t chunk_size(int64_t tasks, int64_t cost, int32_t threads) {
    int64_t size = tasks / ((int64_t)threads * CHUNKS_PER_THREAD);
    int64_t least = (LEAST_CHUNK + cost - 1) / cost, most = MOST_CHUNK / cost;
    size = size < least ? least : size;
    size = size > most ? most : size;
    size = size < 1 ? 1 : size;
    int64_t fewest = tasks / 0x7fffffff + 1; /* the ticket counts chunks in 32 bits */
    return size < fewest ? fewest : size;
}

/* The board of a run, which it keeps to its end; NULL where all are taken. */
static board *take_board(ig_run *run) {
    if (run->board)
        return run->board;
    uint32_t runs = read_runs(), place;
    do {
        if (!~runs)
            return NULL;
        place = (uint32_t)__builtin_ctz(~runs);
    } while (!atomic_compare_exchange_weak(&pool.runs, &runs, runs | 1u << place));
    run->board = &pool.board[place];
    int32_t threads = run->call.threads, processors = read_number(&pool.processors);
    atomic_store_explicit(&run->board->threads, threads, memory_order_relaxed);
    atomic_store_explicit(&pool.is_crowded, runs || (processors && processors < threads), memory_order_relaxed);
    return run->board;
}

static void return_board(ig_run *run) {
    if (run->board && run->epoch == pool.epoch)
        atomic_fetch_and_explicit(&pool.runs, ~(1u << (run->board - pool.board)), memory_order_release);
    run->board = NULL;
}

static int32_t parallel(const ig_call *call, ig_kernel kernel, void *const *buffer, const int64_t *size, int64_t tasks,
                        int64_t cost, int64_t scratch_bytes, int64_t action) {
    ig_run *run = call->run;
    (void)action;
    if (is_cancelled(run))
        return 1;
    cost = cost < 1 ? 1 : cost;
    int64_t total = saturating_product(tasks, cost);
    board *b = call->threads < 2 || tasks < 2 || total < LEAST_SHARED_JOB ? NULL : take_board(run);
    if (!b || (total < LEAST_WAKING_JOB && count_parked(b) == helpers(b)))
        return compute_alone(run, kernel, buffer, size, tasks, cost, scratch_bytes);
    int64_t per_chunk = chunk_size(tasks, cost, call->threads);
    publish(b, run, kernel, buffer, size, tasks, per_chunk, scratch_bytes);
    if (total >= LEAST_WAKING_JOB)
        summon_workers(b);
    return compute_together(b, run, saturating_product(per_chunk, cost));
}

/* Adds a time to the row of an action, -1 for the run itself, and keeps it as an event. */
static void note(ig_run *run, int64_t action, int64_t begin, int64_t end) {
    ig_counters *counters = run->counters;
    if (action + 1 < 0 || action + 1 >= counters->rows)
        return;
    int64_t ticks = end - begin, least = counters->row[action + 1].least;
    if (!counters->row[action + 1].count++ || ticks < least)
        counters->row[action + 1].least = ticks;
    counters->row[action + 1].ticks += ticks;
    counters->row[action + 1].waited += run->waited;
    run->waited = 0;
    if (counters->events < counters->most_events) {
        int64_t *event = counters->event[counters->events++];
        event[0] = action, event[1] = begin, event[2] = end;
    }
}

/* `parallel` with its time taken. */
static int32_t timed_parallel(const ig_call *call, ig_kernel kernel, void *const *buffer, const int64_t *size,
                              int64_t tasks, int64_t cost, int64_t scratch_bytes, int64_t action) {
    ig_run *run = call->run;
    int64_t begin = ig_ticks();
    int32_t status = parallel(call, kernel, buffer, size, tasks, cost, scratch_bytes, action);
    run->marked = ig_ticks();
    note(run, action, begin, run->marked);
    return status;
}

/* The time of what the driver did itself since the last action. */
static void mark(const ig_call *call, int64_t action) {
    ig_run *run = call->run;
    int64_t begin = run->marked;
    run->marked = ig_ticks();
    note(run, action, begin, run->marked);
}

/* Memory for tensors whose size the run tells: blocks in a list, so that a run that ends early leaks nothing. */
struct ig_block {
    ig_block *previous, *next;
    int64_t bytes;
    int64_t mapped; /* bytes of the block's own mapping, itself included; 0 where it has none */
    char padding[64 - 2 * sizeof(void *) - 2 * sizeof(int64_t)];
};

static int32_t is_allowed(const ig_call *call, int64_t bytes) {
    const ig_run *run = call->run;
    return bytes >= 0 && bytes < INT64_MAX / 4 && (!call->most_bytes || bytes <= call->most_bytes - run->allocated);
}

static void *refuse(ig_run *run, int64_t bytes) {
    run->refused_bytes = bytes;
    end_without_memory(run);
    return NULL;
}

static void count_allocated(ig_run *run, int64_t bytes) {
    run->allocated += bytes;
    if (run->allocated > run->most_allocated)
        run->most_allocated = run->allocated;
}

static void *add_block(ig_run *run, ig_block *block, int64_t bytes, int64_t mapped) {
    *block = (ig_block){.next = run->blocks, .bytes = bytes, .mapped = mapped};
    if (run->blocks)
        run->blocks->previous = block;
    run->blocks = block;
    count_allocated(run, bytes);
    return block + 1;
}

static void remove_block(ig_run *run, ig_block *block) {
    run->allocated -= block->bytes;
    if (block->previous)
        block->previous->next = block->next;
    else
        run->blocks = block->next;
    if (block->next)
        block->next->previous = block->previous;
}

static void free_block(ig_block *block) {
    if (block->mapped)
        munmap(block, (size_t)block->mapped);
    else
        free(block);
}

static void *allocate(const ig_call *call, int64_t bytes) {
    int64_t rounded = (bytes + 127) & ~(int64_t)63;
    ig_block *block = is_allowed(call, bytes) ? aligned_alloc(64, (size_t)rounded + sizeof *block) : NULL;
    return block ? add_block(call->run, block, bytes, 0) : refuse(call->run, bytes);
}

static void release(const ig_call *call, void *memory) {
    if (!memory)
        return;
    ig_block *block = (ig_block *)memory - 1;
    remove_block(call->run, block);
    free_block(block);
}

static int64_t mapping_bytes(int64_t bytes) {
    return (bytes + (int64_t)sizeof(ig_block) + 4095) & ~(int64_t)4095;
}

/* A mapping of twice what is needed: what is not touched of it takes no memory, so only `needed` bytes count. */
static void *grow_mapped(const ig_call *call, ig_block *block, int64_t used, int64_t needed) {
    ig_run *run = call->run;
    int64_t had = block ? block->bytes : 0, mapped = mapping_bytes(2 * needed);
    if (!is_allowed(call, needed - had))
        return refuse(run, needed);
    if (block && mapping_bytes(needed) <= block->mapped) {
        block->bytes = needed;
        count_allocated(run, needed - had);
        return block + 1;
    }
    int32_t moves = block && block->mapped;
    void *more = moves ? mremap(block, (size_t)block->mapped, (size_t)mapped, MREMAP_MAYMOVE)
                       : mmap(NULL, (size_t)mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED)
        return refuse(run, needed);
    if (!moves && used > 0)
        memcpy((ig_block *)more + 1, block + 1, (size_t)used);
    if (moves) {
        block = more;
        *(block->previous ? &block->previous->next : &run->blocks) = block;
        if (block->next)
            block->next->previous = block;
        block->bytes = needed;
        block->mapped = mapped;
        count_allocated(run, needed - had);
        return block + 1;
    }
    if (block)
        release(call, block + 1);
    return add_block(run, more, needed, mapped);
}

static void *grow(const ig_call *call, void *memory, int64_t used, int64_t needed) {
    ig_block *block = memory ? (ig_block *)memory - 1 : NULL;
    int64_t had = block ? block->bytes : 0;
    if (memory && needed <= had)
        return memory;
    if (needed >= LEAST_MAPPED && needed < INT64_MAX / 8)
        return grow_mapped(call, block, used, needed);
    void *more = allocate(call, needed > 2 * had ? needed : 2 * had);
    if (more && used > 0)
        memcpy(more, memory, (size_t)used);
    if (more)
        release(call, memory);
    return more;
}

void *ig_run_take(ig_run *run, void *memory, int64_t bytes) {
    ig_block *block = (ig_block *)memory - 1;
    if (!block->mapped)
        return NULL;
    remove_block(run, block);
    int64_t kept = mapping_bytes(bytes);
    if (kept < block->mapped && mremap(block, (size_t)block->mapped, (size_t)kept, 0) != MAP_FAILED)
        block->mapped = kept;
    return memory;
}

void ig_free_taken(void *memory) {
    free_block((ig_block *)memory - 1);
}

/* From here on neither deadlines nor signals stop the run; non-zero when they have by now. */
static int32_t commit(ig_run *run) {
    if (!caller_scratch())
        return run->out_of_memory = run->cancel = 1;
    run->next_poll = 0;
    if (check(run, CHECK_EVERY))
        return 1;
    run->poll = NULL;
    run->call.deadline = 0;
    return 0;
}

/* A number below 0 is no round: what follows changes memory that must be changed as a whole or not at all. */
static int32_t begin_round(const ig_call *call, int64_t number) {
    if (number < 0)
        return commit(call->run);
    if (call->most_rounds && number >= call->most_rounds)
        return 2;
    return check(call->run, JOB_OVERHEAD);
}

void ig_run_begin(ig_run *run) {
    run->call.parallel = run->counters ? timed_parallel : parallel;
    run->call.mark = run->counters ? mark : NULL;
    run->began = run->marked = run->counters ? ig_ticks() : 0;
    run->call.cancel = &run->cancel;
    run->call.run = run;
    run->call.allocate = allocate;
    run->call.grow = grow;
    run->call.release = release;
    run->call.round = begin_round;
    run->epoch = pool.epoch;
    run->control = flush_denormals();
    atomic_store_explicit(&scratch_bytes_most, atomic_load_explicit(&scratch_bytes_now, memory_order_relaxed),
                          memory_order_relaxed);
    run->board = NULL;
    if (run->call.threads > 1 && run->estimate >= LEAST_WAKING_RUN && take_board(run))
        summon_workers(run->board);
}

void ig_run_end(ig_run *run) {
    while (run->blocks)
        release(&run->call, run->blocks + 1);
    return_board(run);
    scratch_space *space = pthread_getspecific(pool.scratch_key);
    if (space)
        scratch_trim(space);
    set_control(run->control);
    if (run->counters)
        note(run, -1, run->began, ig_ticks());
}

void ig_run_pause(ig_run *run) {
    set_control(run->control);
}

void ig_run_resume(ig_run *run) {
    run->control = flush_denormals();
}

int64_t ig_scratch_bytes(void) {
    return atomic_load_explicit(&scratch_bytes_most, memory_order_relaxed);
}

int32_t ig_pool_workers(void) {
    return pool.workers;
}
