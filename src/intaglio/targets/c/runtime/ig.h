/* The contract between generated code and the runtime. No libc header is included: they cost more compile time than
   the kernels themselves. */
#ifndef IG_H
#define IG_H

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;

#define IG_EXPORT __attribute__((visibility("default")))
#define IG_INLINE static inline __attribute__((always_inline))

/* A kernel computes the tasks begin <= t < end of its index space; tasks are independent, so any split over threads
   gives the same bits. `buffer` holds its operands, `size` its extents and strides, both in the order that the kernel's
   header comment names; `scratch` is private to the thread and holds what the kernel asked for. */
typedef void (*ig_kernel)(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch);

typedef struct ig_call ig_call;

/* Runs `kernel` over `tasks` tasks on the pool. `cost` is the work of one task in nanoseconds, roughly: it decides
   between the calling thread and the pool, and how many tasks are claimed at once. Returns non-zero when the run was
   cancelled. `action` is the number of the driver's action that calls, for those who time it. */
typedef int32_t (*ig_parallel)(const ig_call *call, ig_kernel kernel, void *const *buffer, const int64_t *size,
                               int64_t tasks, int64_t cost, int64_t scratch_bytes, int64_t action);

struct ig_call {
    void *const *input;          /* the segment's inputs */
    void *const *output;         /* the segment's outputs */
    void *const *constant;       /* weights, packed or as they were */
    char *arena;                 /* planned memory for everything in between, 64-byte aligned */
    const int64_t *offset;       /* of each planned buffer in the arena */
    const int64_t *dim;          /* values of the segment's size expressions */
    const ig_kernel *kernel;     /* the segment's kernels */
    ig_parallel parallel;
    volatile int32_t *cancel;    /* non-zero: stop soon */
    int64_t deadline;            /* monotonic nanoseconds, 0 for none */
    int32_t threads;
    void *run;                   /* the runtime's own: `parallel` needs it, so a copied ig_call keeps it */

    /* For sizes that only the run tells. Memory is 64-byte aligned and given back at the end of the run at the latest;
       NULL: there is none, and the driver returns which action asked for it. */
    void *(*allocate)(const ig_call *call, int64_t bytes);
    void *(*grow)(const ig_call *call, void *memory, int64_t used, int64_t needed); /* keeps `used` bytes */
    void (*release)(const ig_call *call, void *memory);                             /* NULL is nothing */
    void *(*result)(const ig_call *call, int32_t output, int32_t rank, const int64_t *dim); /* an output's memory */
    int32_t (*round)(const ig_call *call, int64_t number); /* before each round of a loop; non-zero: return that */
    int64_t most_rounds;                                   /* of a loop; 0 for no limit */
    int64_t most_bytes;                                    /* of all allocations together; 0 for no limit */
    void (*mark)(const ig_call *call, int64_t action);     /* after what the driver does itself; NULL: nobody times it */
};

/* A driver runs a segment's kernels in order: 0 done, 1 cancelled, 2 too many rounds, 3 an assumption does not hold, 16
   and above an action that met a value which its operator forbids, or got no memory. */
typedef int32_t (*ig_driver)(const ig_call *call);

#endif
