/* One pool of threads per process.

   A job is split into chunks. `ticket` holds the job's generation and the number of chunks that nobody has claimed yet;
   a worker claims one by decreasing it with a compare-and-swap. The job's other fields are read only after a claim has
   succeeded, and they do not change before every claimed chunk is done, so a worker that comes late finds no chunk
   left and never looks at them. The caller claims chunks like everybody else and waits only for chunks that a worker
   has begun. */
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

static struct {
    _Alignas(64) _Atomic uint64_t ticket; /* generation << 32 | chunks left */
    _Alignas(64) _Atomic uint32_t done;   /* chunks finished */
    _Alignas(64) ig_kernel kernel;
    void *const *buffer;
    const int64_t *size;
    int64_t tasks, tasks_per_chunk, scratch_bytes;
    uint32_t chunks;
    ig_run *run;
    _Alignas(64) _Atomic int32_t running;    /* a run holds the pool */
    _Atomic int32_t limit;                   /* workers with a number below this take part */
    int32_t workers;                         /* started; changed only by the holder of the pool */
    int32_t processors;                      /* that the caller may use, 0 until it is known */
    int32_t is_crowded;                      /* more threads than processors: yield while spinning */
    int32_t caller_cpu;                      /* the processor that the workers keep away from, or -1 */
    uint32_t epoch;
    pthread_key_t scratch_key;
    worker_state worker[MOST_WORKERS];
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

/* Claims one chunk of the current job; -1 when none is left. */
static int64_t claim(void) {
    uint64_t ticket = atomic_load_explicit(&pool.ticket, memory_order_acquire);
    while ((uint32_t)ticket)
        if (atomic_compare_exchange_weak_explicit(&pool.ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                  memory_order_acquire))
            return (int64_t)pool.chunks - (uint32_t)ticket;
    return -1;
}

static void compute_chunk(int64_t chunk, scratch_space *space) {
    ig_run *run = pool.run;
    if (!run->cancel) {
        void *scratch = pool.scratch_bytes ? scratch_take(space, pool.scratch_bytes) : no_scratch;
        int64_t begin = chunk * pool.tasks_per_chunk, end = begin + pool.tasks_per_chunk;
        if (!scratch)
            run->out_of_memory = run->cancel = 1;
        else
            pool.kernel(pool.buffer, pool.size, begin, end < pool.tasks ? end : pool.tasks, scratch);
    }
    atomic_fetch_add_explicit(&pool.done, 1, memory_order_release);
}

static int32_t may_join(int32_t number) {
    return atomic_load_explicit(&pool.running, memory_order_relaxed) &&
           number < atomic_load_explicit(&pool.limit, memory_order_relaxed);
}

/* Spins until there is a chunk to claim; -1 when there was none for so long that it is time to park. */
static int64_t spin_for_chunk(int32_t number) {
    int64_t idle_since = 0, run_ended = 0;
    for (uint32_t turn = 1;; turn++) {
        int32_t joins = may_join(number);
        int64_t chunk = joins ? claim() : -1;
        if (chunk >= 0)
            return chunk;
        relax();
        if (turn % 64)
            continue;
        if (pool.is_crowded)
            sched_yield();
        int64_t now = ig_now();
        idle_since = idle_since ? idle_since : now;
        run_ended = joins ? 0 : run_ended ? run_ended : now;
        if (now - idle_since > PARK_IN_RUN || (run_ended && now - run_ended > PARK_AFTER_RUN))
            return -1;
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
        int64_t chunk = spin_for_chunk(number);
        if (chunk >= 0) {
            compute_chunk(chunk, &space);
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
    atomic_store(&pool.running, 0);
    atomic_store(&pool.ticket, atomic_load(&pool.ticket) >> 32 << 32);
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

/* The workers that take part in the present run. */
static int32_t members(void) {
    int32_t limit = atomic_load_explicit(&pool.limit, memory_order_relaxed);
    return limit < pool.workers ? limit : pool.workers;
}

static int32_t count_parked(void) {
    int32_t parked = 0;
    for (int32_t i = members(); i-- > 0;)
        parked += (int32_t)atomic_load_explicit(&pool.worker[i].is_parked, memory_order_relaxed);
    return parked;
}

/* A woken worker tends to land on the waker's processor and then waits there for milliseconds: keep it away. */
static void avoid_caller(void) {
    cpu_set_t allowed;
    int32_t cpu = sched_getcpu(), all_known = 1;
    if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == pool.caller_cpu || sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    pool.processors = CPU_COUNT(&allowed);
    if (pool.processors > 1)
        CPU_CLR(cpu, &allowed);
    for (int32_t i = 0; i < pool.workers; i++) {
        int32_t thread = atomic_load(&pool.worker[i].thread_id);
        if (thread)
            sched_setaffinity(thread, sizeof allowed, &allowed);
        all_known &= thread != 0;
    }
    pool.caller_cpu = all_known ? cpu : -1;
}

static void wake_workers(void) {
    avoid_caller();
    for (int32_t i = members(); i-- > 0;) {
        if (!atomic_load(&pool.worker[i].is_parked))
            continue;
        atomic_store(&pool.worker[i].is_parked, 0);
        futex_wake(&pool.worker[i].is_parked);
    }
}

static void summon_workers(int32_t wanted) {
    start_workers(wanted);
    if (count_parked())
        wake_workers();
}

/* Looks at the flag, the clock and the signals when enough work went by; non-zero when the run must stop. */
static int32_t check(ig_run *run, int64_t work) {
    run->unchecked += work;
    if (run->unchecked < CHECK_EVERY || run->cancel)
        return run->cancel;
    run->unchecked = 0;
    int64_t now = ig_now();
    if (run->call.deadline && now > run->call.deadline)
        run->cancel = 1;
    if (now > run->next_poll && run->poll) {
        if (run->poll(run))
            run->cancel = 1;
        run->next_poll = ig_now() + POLL_EVERY;
    }
    return run->cancel;
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
            return run->out_of_memory = run->cancel = 1;
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

static void publish(ig_run *run, ig_kernel kernel, void *const *buffer, const int64_t *size, int64_t tasks,
                    int64_t tasks_per_chunk, int64_t scratch_bytes) {
    pool.kernel = kernel;
    pool.buffer = buffer;
    pool.size = size;
    pool.tasks = tasks;
    pool.tasks_per_chunk = tasks_per_chunk;
    pool.scratch_bytes = scratch_bytes;
    pool.chunks = (uint32_t)((tasks + tasks_per_chunk - 1) / tasks_per_chunk);
    pool.run = run;
    atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
    uint64_t generation = (atomic_load_explicit(&pool.ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store_explicit(&pool.ticket, generation << 32 | pool.chunks, memory_order_release);
}

/* Waits for the chunks that workers have begun. */
static void wait_for_workers(const ig_run *run) {
    for (uint32_t turn = 1; atomic_load_explicit(&pool.done, memory_order_acquire) != pool.chunks; turn++) {
        relax();
        if (pool.is_crowded && turn % 256 == 0)
            sched_yield();
        if (run->epoch != pool.epoch) /* a signal handler forked: the workers are in another process */
            return;
    }
}

static int32_t compute_together(ig_run *run, int64_t chunk_cost) {
    scratch_space *space = caller_scratch();
    if (!space)
        return run->out_of_memory = run->cancel = 1;
    for (int64_t chunk; (chunk = claim()) >= 0;) {
        compute_chunk(chunk, space);
        check(run, chunk_cost);
    }
    int64_t idle = run->counters ? ig_ticks() : 0;
    wait_for_workers(run);
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

static int32_t parallel(const ig_call *call, ig_kernel kernel, void *const *buffer, const int64_t *size, int64_t tasks,
                        int64_t cost, int64_t scratch_bytes, int64_t action) {
    ig_run *run = call->run;
    (void)action;
    if (run->cancel)
        return 1;
    cost = cost < 1 ? 1 : cost;
    int64_t total = saturating_product(tasks, cost);
    int32_t threads = call->threads;
    if (!run->has_pool || threads < 2 || tasks < 2 || total < LEAST_SHARED_JOB ||
        (total < LEAST_WAKING_JOB && count_parked() == members()))
        return compute_alone(run, kernel, buffer, size, tasks, cost, scratch_bytes);
    int64_t per_chunk = chunk_size(tasks, cost, threads);
    publish(run, kernel, buffer, size, tasks, per_chunk, scratch_bytes);
    if (total >= LEAST_WAKING_JOB)
        summon_workers(threads - 1);
    return compute_together(run, saturating_product(per_chunk, cost));
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
    run->out_of_memory = run->cancel = 1;
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

static void take_pool(ig_run *run) {
    int32_t nobody = 0;
    if (run->call.threads < 2 || !atomic_compare_exchange_strong(&pool.running, &nobody, 1))
        return;
    run->has_pool = 1;
    atomic_store_explicit(&pool.limit, run->call.threads - 1, memory_order_relaxed);
    pool.is_crowded = pool.processors && pool.processors < run->call.threads;
    if (run->estimate >= LEAST_WAKING_RUN)
        summon_workers(run->call.threads - 1);
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
    take_pool(run);
}

void ig_run_end(ig_run *run) {
    while (run->blocks)
        release(&run->call, run->blocks + 1);
    if (run->has_pool && run->epoch == pool.epoch)
        atomic_store_explicit(&pool.running, 0, memory_order_release);
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
