/* The way from Python into a driver, as builtin functions that take their arguments unboxed.

   The few functions of Python's stable interface that are used are declared here, so that no Python header has to be
   installed and one binary serves every version from 3.11 on. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool.h"

#ifdef __SANITIZE_ADDRESS__
void __asan_poison_memory_region(void const volatile *, size_t);
void __asan_unpoison_memory_region(void const volatile *, size_t);
#else
static void __asan_poison_memory_region(void const volatile *memory, size_t bytes) {
    (void)memory, (void)bytes;
}
static void __asan_unpoison_memory_region(void const volatile *memory, size_t bytes) {
    (void)memory, (void)bytes;
}
#endif

typedef struct python_object PyObject;
typedef long Py_ssize_t;
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;
typedef struct {
    const char *name;
    PyObject *(*function)(PyObject *, PyObject *const *, Py_ssize_t);
    int flags;
    const char *doc;
} PyMethodDef;

enum { METH_FASTCALL = 0x80, PyBUF_SIMPLE = 0, PyBUF_WRITABLE = 1 };

extern PyObject *PyExc_MemoryError, *PyExc_TypeError, *PyExc_ValueError;
PyObject *PyCFunction_NewEx(PyMethodDef *, PyObject *, PyObject *);
PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
void *PyCapsule_GetPointer(PyObject *, const char *);
PyObject *PyErr_Format(PyObject *, const char *, ...);
PyObject *PyErr_NoMemory(void);
void PyErr_SetObject(PyObject *, PyObject *);
PyObject *PyErr_Occurred(void);
int PyErr_CheckSignals(void);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *);
PyObject *PyLong_FromLong(long);
PyObject *PyLong_FromLongLong(long long);
long long PyLong_AsLongLong(PyObject *);
int PyObject_GetBuffer(PyObject *, Py_buffer *, int);
void PyBuffer_Release(Py_buffer *);
PyObject *PyObject_CallObject(PyObject *, PyObject *);
PyObject *PyTuple_New(Py_ssize_t);
int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);

enum {
    FREE_ARENAS = 4,                 /* kept per segment */
    MOST_KEPT_ARENA = 64 << 20,      /* larger ones go back to the system after the run */
    STACK_BUFFERS = 24,
    HUGE_PAGE = 2 << 20,
};
static const int64_t MOST_KEPT_BYTES = 512 << 20; /* of all segments together */
static _Atomic int64_t kept_bytes;

typedef struct {
    ig_driver driver;
    ig_kernel *kernel;
    void **constant;
    int64_t *late; /* of each output: whether Python makes it only when the run tells its shape */
    int32_t inputs, outputs, threads, poison;
    int64_t most_rounds, most_bytes;
    ig_counters *counters; /* NULL: runs are not timed; Python owns the memory */
    atomic_flag lock; /* only ever tried: who does not get it allocates */
    struct {
        char *memory;
        int64_t bytes;
    } arena[FREE_ARENAS];
} segment;

typedef struct {
    PyObject *owner; /* the segment's capsule */
    segment *segment;
    int64_t *dim, *offset, *bytes;
    int64_t *gap, gaps; /* pairs of offset and length in the arena that nobody may touch */
    int64_t arena_bytes, estimate;
    int32_t checks_bytes;
} prepared;

static const char SEGMENT[] = "intaglio.segment", PREPARED[] = "intaglio.prepared";

static void free_segment(PyObject *capsule) {
    segment *s = PyCapsule_GetPointer(capsule, SEGMENT);
    for (int32_t i = 0; i < FREE_ARENAS; i++) {
        atomic_fetch_sub(&kept_bytes, s->arena[i].bytes);
        free(s->arena[i].memory);
    }
    free(s->kernel);
    free(s->constant);
    free(s->late);
    free(s);
}

static void free_prepared(PyObject *capsule) {
    prepared *p = PyCapsule_GetPointer(capsule, PREPARED);
    Py_DecRef(p->owner);
    free(p->dim);
    free(p->offset);
    free(p->bytes);
    free(p->gap);
    free(p);
}

/* A copy of a buffer of 64-bit integers, never NULL unless an exception is set. */
static int64_t *copy_integers(PyObject *object, int64_t *count) {
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE))
        return NULL;
    int64_t *copy = malloc((size_t)view.len + 8);
    if (copy)
        memcpy(copy, view.buf, (size_t)view.len);
    else
        PyErr_NoMemory();
    *count = view.len / 8;
    PyBuffer_Release(&view);
    return copy;
}

static int32_t has_arguments(Py_ssize_t got, Py_ssize_t expected) {
    if (got != expected)
        PyErr_Format(PyExc_TypeError, "%zd arguments, expected %zd", got, expected);
    return got == expected;
}

static PyObject *segment_capsule(segment *s) {
    PyObject *capsule = PyErr_Occurred() ? NULL : PyCapsule_New(s, SEGMENT, free_segment);
    if (!capsule) {
        free(s->kernel);
        free(s->constant);
        free(s->late);
        free(s);
    }
    return capsule;
}

/* (driver, kernels, constants, inputs, outputs, threads, poison, late, most_rounds, most_bytes) */
static PyObject *new_segment(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    int64_t length;
    if (!has_arguments(count, 10))
        return NULL;
    segment *s = calloc(1, sizeof *s);
    if (!s)
        return PyErr_NoMemory();
    s->driver = (ig_driver)PyLong_AsLongLong(argument[0]);
    s->kernel = (ig_kernel *)copy_integers(argument[1], &length);
    s->constant = s->kernel ? (void **)copy_integers(argument[2], &length) : NULL;
    s->late = s->constant ? copy_integers(argument[7], &length) : NULL;
    if (s->late) {
        s->inputs = (int32_t)PyLong_AsLongLong(argument[3]);
        s->outputs = (int32_t)PyLong_AsLongLong(argument[4]);
        s->threads = (int32_t)PyLong_AsLongLong(argument[5]);
        s->poison = (int32_t)PyLong_AsLongLong(argument[6]);
        s->most_rounds = PyLong_AsLongLong(argument[8]);
        s->most_bytes = PyLong_AsLongLong(argument[9]);
        if (length != s->outputs)
            PyErr_Format(PyExc_ValueError, "%lld flags for %d outputs", (long long)length, s->outputs);
    }
    return segment_capsule(s);
}

static PyObject *prepared_capsule(prepared *p) {
    PyObject *capsule = PyErr_Occurred() ? NULL : PyCapsule_New(p, PREPARED, free_prepared);
    if (capsule) {
        Py_IncRef(p->owner);
    } else {
        free(p->dim);
        free(p->offset);
        free(p->bytes);
        free(p->gap);
        free(p);
    }
    return capsule;
}

/* (segment, dims, offsets, arena_bytes, estimated_ns, buffer_bytes, gaps); no buffer_bytes: sizes are not checked. */
static PyObject *new_prepared(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    int64_t length;
    if (!has_arguments(count, 7))
        return NULL;
    segment *s = PyCapsule_GetPointer(argument[0], SEGMENT);
    if (!s)
        return NULL;
    prepared *p = calloc(1, sizeof *p);
    if (!p)
        return PyErr_NoMemory();
    p->owner = argument[0];
    p->segment = s;
    p->dim = copy_integers(argument[1], &length);
    p->offset = p->dim ? copy_integers(argument[2], &length) : NULL;
    p->gap = p->offset ? copy_integers(argument[6], &p->gaps) : NULL;
    p->bytes = p->gap ? copy_integers(argument[5], &length) : NULL;
    if (p->bytes) {
        p->checks_bytes = length > 0;
        if (length && length != s->inputs + s->outputs)
            PyErr_Format(PyExc_ValueError, "%lld buffer sizes for %d inputs and %d outputs", (long long)length,
                         s->inputs, s->outputs);
        else
            p->arena_bytes = PyLong_AsLongLong(argument[3]);
        if (!PyErr_Occurred())
            p->estimate = PyLong_AsLongLong(argument[4]);
    }
    return prepared_capsule(p);
}

/* Memory for an arena; the whole huge pages in it are asked for as such, for they are faster to get and to read. */
static char *new_arena(int64_t bytes) {
    void *memory = NULL;
    if (bytes < HUGE_PAGE)
        return aligned_alloc(64, (size_t)bytes);
    if (posix_memalign(&memory, HUGE_PAGE, (size_t)bytes)) /* aligned_alloc may ask for a multiple of the alignment */
        return NULL;
#ifdef MADV_HUGEPAGE
    madvise(memory, (size_t)(bytes - bytes % HUGE_PAGE), MADV_HUGEPAGE);
#endif
    return memory;
}

/* An arena of at least `*bytes`, which becomes its real size; NULL when there is no memory. */
static char *take_arena(segment *s, int64_t *bytes) {
    char *memory = NULL;
    if (!*bytes)
        return NULL;
    if (!atomic_flag_test_and_set_explicit(&s->lock, memory_order_acquire)) {
        for (int32_t i = 0; i < FREE_ARENAS && !memory; i++) {
            if (!s->arena[i].memory || s->arena[i].bytes < *bytes)
                continue;
            memory = s->arena[i].memory;
            *bytes = s->arena[i].bytes;
            s->arena[i].memory = NULL;
            s->arena[i].bytes = 0;
            atomic_fetch_sub_explicit(&kept_bytes, *bytes, memory_order_relaxed);
        }
        atomic_flag_clear_explicit(&s->lock, memory_order_release);
    }
    if (!memory) {
        *bytes = (*bytes + 4095) & ~(int64_t)4095;
        memory = new_arena(*bytes);
    }
    return memory;
}

/* Whether runs of the calling thread keep no memory for the next one. */
static _Thread_local int32_t call_is_frugal;

/* Keeps an arena for the next run, in an empty place or in that of a smaller one, or frees it. */
static void return_arena(segment *s, char *memory, int64_t bytes) {
    if (!memory)
        return;
    if (!call_is_frugal && bytes < MOST_KEPT_ARENA && atomic_load_explicit(&kept_bytes, memory_order_relaxed) + bytes <= MOST_KEPT_BYTES &&
        !atomic_flag_test_and_set_explicit(&s->lock, memory_order_acquire)) {
        int32_t smallest = 0;
        for (int32_t i = 1; i < FREE_ARENAS; i++)
            if (s->arena[i].bytes < s->arena[smallest].bytes)
                smallest = i;
        char *other = s->arena[smallest].memory;
        int64_t other_bytes = s->arena[smallest].bytes;
        if (other_bytes < bytes) {
            s->arena[smallest].memory = memory;
            s->arena[smallest].bytes = bytes;
            atomic_fetch_add_explicit(&kept_bytes, bytes - other_bytes, memory_order_relaxed);
            memory = other;
        }
        atomic_flag_clear_explicit(&s->lock, memory_order_release);
    }
    free(memory);
}

/* An output that was asked for again, larger: memory of the run, of which Python's array is made at the end. */
typedef struct grown grown;
struct grown {
    grown *next;
    void *memory;
    int64_t bytes;
    int32_t output, rank;
    int64_t dim[];
};

typedef struct {
    ig_run run;
    void *thread; /* Python's state of this thread while it has no lock */
    int32_t interrupted;
    const volatile int32_t *stop; /* non-zero: another thread wants the run to end */
    Py_buffer *view;          /* of each output */
    PyObject *const *object;  /* what was given in its place */
    grown *grown;
} python_run;

/* Calls what was given in an output's place with (owner, address, *shape); both are 0 where it is to make memory
   itself. Takes the reference to the owner. */
static PyObject *call_maker(PyObject *make, PyObject *owner, void *memory, int32_t rank, const int64_t *dim) {
    PyObject *argument = PyTuple_New(rank + 2);
    if (!argument) {
        Py_DecRef(owner);
        return NULL;
    }
    PyTuple_SetItem(argument, 0, owner);
    PyTuple_SetItem(argument, 1, PyLong_FromLongLong((long long)(intptr_t)memory));
    for (int32_t i = 0; i < rank; i++)
        PyTuple_SetItem(argument, i + 2, PyLong_FromLongLong(dim[i]));
    PyObject *array = PyObject_CallObject(make, argument);
    Py_DecRef(argument);
    return array;
}

/* A writable buffer of a new array for an output, which replaces the one before; non-zero with an exception set. */
static int32_t make_output(python_run *r, int32_t output, int32_t rank, const int64_t *dim) {
    Py_buffer fresh, *view = &r->view[output];
    PyObject *array = call_maker(r->object[output], PyLong_FromLong(0), NULL, rank, dim);
    int32_t failed = !array || PyObject_GetBuffer(array, &fresh, PyBUF_WRITABLE);
    if (!failed) {
        if (view->obj != r->object[output])
            PyBuffer_Release(view);
        *view = fresh;
    }
    if (array)
        Py_DecRef(array);
    return failed;
}

/* Larger memory for an output that has some already, which keeps what it holds. */
static void *grow_output(python_run *r, int32_t output, int32_t rank, const int64_t *dim) {
    const Py_buffer *view = &r->view[output];
    int64_t bytes = view->itemsize;
    for (int32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, dim[i], &bytes))
            bytes = INT64_MAX / 4;
    grown *g = r->grown;
    while (g && g->output != output)
        g = g->next;
    if (!g) {
        g = calloc(1, sizeof *g + (size_t)rank * sizeof *dim);
        if (!g)
            return NULL;
        g->next = r->grown;
        g->output = output;
        g->rank = rank;
        r->grown = g;
    }
    void *memory = r->run.call.grow(&r->run.call, g->memory, g->bytes, bytes);
    if (!memory)
        return NULL;
    if (!g->memory && view->len)
        memcpy(memory, view->buf, (size_t)(view->len < bytes ? view->len : bytes));
    g->memory = memory;
    g->bytes = bytes;
    memcpy(g->dim, dim, (size_t)rank * sizeof *dim);
    return memory;
}

/* Memory for an output whose shape the run tells: Python's callable in the output's place makes an array of it. */
static void *result(const ig_call *call, int32_t output, int32_t rank, const int64_t *dim) {
    python_run *r = call->run;
    if (r->view[output].obj != r->object[output])
        return grow_output(r, output, rank, dim);
    ig_run_pause(&r->run);
    PyEval_RestoreThread(r->thread);
    r->interrupted = make_output(r, output, rank, dim);
    r->thread = PyEval_SaveThread();
    ig_run_resume(&r->run);
    r->run.cancel |= r->interrupted;
    void *memory = r->view[output].buf;
    return r->interrupted ? NULL : memory ? memory : (void *)1;
}

static const char TAKEN[] = "intaglio.memory";

static void free_taken(PyObject *capsule) {
    ig_free_taken(PyCapsule_GetPointer(capsule, TAKEN));
}

/* Gives the memory of an output that has grown to Python, or a copy where that is small. Non-zero with an exception. */
static int32_t give_grown(python_run *r, const grown *g) {
    void *taken = ig_run_take(&r->run, g->memory, g->bytes);
    if (!taken) {
        int32_t failed = make_output(r, g->output, g->rank, g->dim);
        if (!failed && g->bytes)
            memcpy(r->view[g->output].buf, g->memory, (size_t)g->bytes);
        return failed;
    }
    PyObject *owner = PyCapsule_New(taken, TAKEN, free_taken);
    if (!owner) {
        ig_free_taken(taken);
        return 1;
    }
    PyObject *array = call_maker(r->object[g->output], owner, taken, g->rank, g->dim);
    if (array)
        Py_DecRef(array);
    return !array;
}

/* What has grown becomes Python's where the run went well; non-zero with an exception set. */
static int32_t give_all_grown(python_run *r, int32_t status) {
    int32_t failed = status != 0;
    for (grown *g = r->grown, *next; g; g = next) {
        failed = failed || give_grown(r, g);
        next = g->next;
        free(g);
    }
    return failed && !status;
}

/* Lets Python handle signals; non-zero when a handler raised, or another thread stops the run. Only the main thread
   handles signals. */
static int32_t poll_signals(ig_run *run) {
    python_run *r = (python_run *)run;
    if (r->stop && *r->stop)
        return 1;
    if (syscall(SYS_gettid) != getpid())
        return 0;
    ig_run_pause(run);
    PyEval_RestoreThread(r->thread);
    r->interrupted = PyErr_CheckSignals() != 0;
    r->thread = PyEval_SaveThread();
    ig_run_resume(run);
    return r->interrupted;
}

/* A MemoryError with the driver's status, which tells the action under way, and the bytes that it asked for. */
static PyObject *refused(int32_t status, int64_t bytes) {
    PyObject *detail = PyTuple_New(2);
    if (!detail)
        return NULL;
    PyTuple_SetItem(detail, 0, PyLong_FromLong(status));
    PyTuple_SetItem(detail, 1, PyLong_FromLongLong(bytes));
    PyErr_SetObject(PyExc_MemoryError, detail);
    Py_DecRef(detail);
    return NULL;
}

static PyObject *run_result(const python_run *r, int32_t status) {
    if (r->interrupted)
        return NULL;
    if (r->run.out_of_memory)
        return refused(status, r->run.refused_bytes);
    return PyLong_FromLong(status);
}

/* Of the calling thread's last run: its arena, and the most that its driver allocated at a time. */
static _Thread_local int64_t run_arena, run_allocated;

/* () -> bytes of the last run of this thread: arena, allocated by the driver, and scratch of all threads */
static PyObject *run_memory(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    if (!has_arguments(count, 0))
        return NULL;
    int64_t found[] = {run_arena, run_allocated, ig_scratch_bytes()};
    PyObject *tuple = PyTuple_New(3);
    for (Py_ssize_t i = 0; tuple && i < 3; i++)
        PyTuple_SetItem(tuple, i, PyLong_FromLongLong(found[i]));
    return tuple;
}

/* Of the calling thread's runs; 0: as many as the segment says. */
static _Thread_local int32_t call_threads;

/* (threads) -> what it was before */
static PyObject *set_threads(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    if (!has_arguments(count, 1))
        return NULL;
    int64_t wanted = PyLong_AsLongLong(argument[0]);
    if (PyErr_Occurred())
        return NULL;
    int32_t before = call_threads;
    call_threads = (int32_t)(wanted < 0 ? 0 : wanted > 1024 ? 1024 : wanted);
    return PyLong_FromLong(before);
}

/* (whether runs of this thread keep no memory) -> what it was before */
static PyObject *set_frugal(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    if (!has_arguments(count, 1))
        return NULL;
    int32_t before = call_is_frugal;
    call_is_frugal = PyLong_AsLongLong(argument[0]) != 0;
    return PyErr_Occurred() ? NULL : PyLong_FromLong(before);
}

/* () -> bytes of all arenas that are kept for later runs */
static PyObject *kept_memory(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    return PyLong_FromLongLong(atomic_load_explicit(&kept_bytes, memory_order_relaxed));
}

/* The flag of the calling thread's runs, NULL for none. */
static _Thread_local const volatile int32_t *call_stop;

/* (address of an int32, 0 for none) -> what it was before */
static PyObject *set_stop(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    if (!has_arguments(count, 1))
        return NULL;
    long long wanted = PyLong_AsLongLong(argument[0]);
    if (PyErr_Occurred())
        return NULL;
    long long before = (long long)(intptr_t)call_stop;
    call_stop = (const volatile int32_t *)(intptr_t)wanted;
    return PyLong_FromLongLong(before);
}

/* `view` and `object` are those of the outputs; both NULL where no output is late. */
static PyObject *run_segment(const prepared *p, int64_t timeout, void *const *buffer, Py_buffer *view,
                             PyObject *const *object) {
    segment *s = p->segment;
    int64_t arena_bytes = p->arena_bytes;
    char *arena = take_arena(s, &arena_bytes);
    if (!arena && p->arena_bytes)
        return PyErr_NoMemory();
    python_run r;
    memset(&r, 0, sizeof r);
    r.run.call = (ig_call){.input = buffer, .output = buffer + s->inputs, .constant = s->constant, .arena = arena,
                           .offset = p->offset, .dim = p->dim, .kernel = s->kernel, .threads = call_threads ? call_threads : s->threads,
                           .most_rounds = s->most_rounds, .most_bytes = s->most_bytes,
                           .deadline = timeout > 0 ? ig_now() + timeout : 0};
    r.run.estimate = p->estimate;
    r.run.poll = poll_signals;
    r.run.counters = s->counters;
    r.stop = call_stop;
    r.run.call.result = result;
    r.view = view;
    r.object = object;
    r.thread = PyEval_SaveThread();
    if (s->poison && arena)
        memset(arena, 0xA5, (size_t)arena_bytes);
    for (int64_t i = 0; i + 1 < p->gaps; i += 2)
        __asan_poison_memory_region(arena + p->gap[i], (size_t)p->gap[i + 1]);
    ig_run_begin(&r.run);
    int32_t status = s->driver(&r.run.call);
    if (r.grown) {
        ig_run_pause(&r.run);
        PyEval_RestoreThread(r.thread);
        r.interrupted |= give_all_grown(&r, status);
        r.thread = PyEval_SaveThread();
    }
    ig_run_end(&r.run);
    PyEval_RestoreThread(r.thread);
    if (p->gaps)
        __asan_unpoison_memory_region(arena, (size_t)arena_bytes);
    return_arena(s, arena, arena_bytes);
    run_arena = arena ? arena_bytes : 0;
    run_allocated = r.run.most_allocated;
    return run_result(&r, status);
}

static int32_t is_late(const segment *s, Py_ssize_t buffer) {
    return buffer >= s->inputs && s->late[buffer - s->inputs];
}

/* How many of the buffers could be had; fewer than all of them with an exception set. */
static Py_ssize_t get_buffers(const prepared *p, PyObject *const *object, Py_ssize_t count, Py_buffer *view,
                              void **address) {
    for (Py_ssize_t i = 0; i < count; i++) {
        if (is_late(p->segment, i)) {
            view[i] = (Py_buffer){.obj = object[i]};
            address[i] = NULL;
            continue;
        }
        if (PyObject_GetBuffer(object[i], &view[i], i < p->segment->inputs ? PyBUF_SIMPLE : PyBUF_WRITABLE))
            return i;
        address[i] = view[i].buf;
        if (p->checks_bytes && view[i].len != p->bytes[i]) {
            PyErr_Format(PyExc_ValueError, "buffer %zd has %zd bytes, expected %lld", i, view[i].len,
                         (long long)p->bytes[i]);
            PyBuffer_Release(&view[i]);
            return i;
        }
    }
    return count;
}

/* (prepared, timeout_ns, input..., output...) -> 0 done, 1 cancelled, or what the driver returned */
static PyObject *invoke(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    Py_buffer few_views[STACK_BUFFERS], *view = few_views;
    void *few[STACK_BUFFERS], **address = few;
    prepared *p = count >= 2 ? PyCapsule_GetPointer(argument[0], PREPARED) : NULL;
    if (!p)
        return count >= 2 ? NULL : PyErr_Format(PyExc_TypeError, "invoke needs a prepared segment and a timeout");
    Py_ssize_t buffers = p->segment->inputs + p->segment->outputs;
    int64_t timeout = PyLong_AsLongLong(argument[1]);
    if (!has_arguments(count, buffers + 2) || (timeout == -1 && PyErr_Occurred()))
        return NULL;
    if (buffers > STACK_BUFFERS) {
        view = malloc((size_t)buffers * (sizeof *view + sizeof *address));
        if (!view)
            return PyErr_NoMemory();
        address = (void **)(view + buffers);
    }
    Py_ssize_t got = get_buffers(p, argument + 2, buffers, view, address);
    PyObject *status = got == buffers ? run_segment(p, timeout, address, view + p->segment->inputs,
                                                     argument + 2 + p->segment->inputs)
                                      : NULL;
    while (got-- > 0)
        if (!is_late(p->segment, got) || view[got].obj != argument[2 + got])
            PyBuffer_Release(&view[got]);
    if (view != few_views)
        free(view);
    return status;
}

/* (prepared, timeout_ns, address of each input and output) -> as invoke; for callers that have checked what is there */
static PyObject *invoke_at(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    void *few[STACK_BUFFERS], **address = few;
    prepared *p = count >= 2 ? PyCapsule_GetPointer(argument[0], PREPARED) : NULL;
    if (!p)
        return count >= 2 ? NULL : PyErr_Format(PyExc_TypeError, "invoke_at needs a prepared segment and a timeout");
    Py_ssize_t buffers = p->segment->inputs + p->segment->outputs;
    int64_t timeout = PyLong_AsLongLong(argument[1]);
    if (!has_arguments(count, buffers + 2) || (timeout == -1 && PyErr_Occurred()))
        return NULL;
    for (Py_ssize_t i = p->segment->inputs; i < buffers; i++)
        if (is_late(p->segment, i))
            return PyErr_Format(PyExc_ValueError, "the run tells the shape of output %zd", i - p->segment->inputs);
    if (buffers > STACK_BUFFERS) {
        address = malloc((size_t)buffers * sizeof *address);
        if (!address)
            return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < buffers; i++)
        address[i] = (void *)(intptr_t)PyLong_AsLongLong(argument[2 + i]);
    PyObject *status = PyErr_Occurred() ? NULL : run_segment(p, timeout, address, NULL, NULL);
    if (address != few)
        free(address);
    return status;
}

typedef struct {
    int64_t size, first, last, offset, index;
} block;

static int by_size(const void *left, const void *right) {
    const block *a = left, *b = right;
    if (a->size != b->size)
        return a->size < b->size ? 1 : -1;
    return a->index < b->index ? -1 : 1;
}

/* The tightest gap between the blocks that live at the same time, which are in the order of their offsets. */
static int64_t best_offset(const block *placed, int64_t count, const block *wanted) {
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (int64_t i = 0; i < count; i++) {
        if (placed[i].last < wanted->first || placed[i].first > wanted->last)
            continue;
        int64_t gap = placed[i].offset - end;
        if (gap >= wanted->size && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        if (placed[i].offset + placed[i].size > end)
            end = placed[i].offset + placed[i].size;
    }
    return best < 0 ? end : best;
}

static int64_t place_blocks(block *blocks, int64_t count, block *placed, int64_t *offset) {
    int64_t total = 0;
    qsort(blocks, (size_t)count, sizeof *blocks, by_size);
    for (int64_t i = 0; i < count; i++) {
        block b = blocks[i];
        b.offset = best_offset(placed, i, &b);
        int64_t at = i;
        for (; at > 0 && placed[at - 1].offset > b.offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = b;
        offset[b.index] = b.offset;
        total = b.offset + b.size > total ? b.offset + b.size : total;
    }
    return total;
}

static PyObject *plan_views(const Py_buffer *view) {
    int64_t count = view[0].len / 8, total = 0, largest = INT64_MAX / 2;
    const int64_t *size = view[0].buf, *first = view[1].buf, *last = view[2].buf;
    block *blocks = malloc((size_t)(2 * count + 1) * sizeof *blocks);
    if (!blocks)
        return PyErr_NoMemory();
    for (int64_t i = 0; i < count; i++) {
        if (size[i] < 0 || size[i] > largest - total - 63) {
            free(blocks);
            return PyErr_Format(PyExc_ValueError, "buffer %lld of %lld bytes cannot be planned", (long long)i,
                                (long long)size[i]);
        }
        blocks[i] = (block){(size[i] + 63) & ~(int64_t)63, first[i], last[i], 0, i};
        total += blocks[i].size;
    }
    total = place_blocks(blocks, count, blocks + count, view[3].buf);
    free(blocks);
    return PyLong_FromLongLong(total);
}

/* (sizes, first_use, last_use, offsets) -> total; fills offsets. All are buffers of 64-bit integers. */
static PyObject *plan_memory(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    Py_buffer view[4];
    Py_ssize_t got = 0;
    PyObject *result = NULL;
    if (!has_arguments(count, 4))
        return NULL;
    while (got < 4 && !PyObject_GetBuffer(argument[got], &view[got], got == 3 ? PyBUF_WRITABLE : PyBUF_SIMPLE))
        got++;
    if (got == 4 && view[0].len == view[1].len && view[0].len == view[2].len && view[0].len == view[3].len)
        result = plan_views(view);
    else if (got == 4)
        PyErr_Format(PyExc_ValueError, "sizes, first_use and last_use differ in length");
    while (got-- > 0)
        PyBuffer_Release(&view[got]);
    return result;
}

static PyObject *pool_workers(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    return PyLong_FromLong(ig_pool_workers());
}

/* (segment, address of its ig_counters, 0 for none): later runs are timed there. The caller keeps the memory alive. */
static PyObject *count_segment(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    segment *s = has_arguments(count, 2) ? PyCapsule_GetPointer(argument[0], SEGMENT) : NULL;
    if (!s)
        return NULL;
    long long address = PyLong_AsLongLong(argument[1]);
    if (PyErr_Occurred())
        return NULL;
    s->counters = (ig_counters *)(intptr_t)address;
    return PyLong_FromLong(0);
}

/* () -> ticks and nanoseconds at the same moment */
static PyObject *read_clocks(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    int64_t before = ig_ticks(), now = ig_now(), after = ig_ticks();
    PyObject *tuple = PyTuple_New(2);
    if (tuple) {
        PyTuple_SetItem(tuple, 0, PyLong_FromLongLong(before + (after - before) / 2));
        PyTuple_SetItem(tuple, 1, PyLong_FromLongLong(now));
    }
    return tuple;
}

/* (address, bytes) -> an entry for the two below, 0 where there can be none */
static PyObject *guard_file(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    if (!has_arguments(count, 2))
        return NULL;
    long long address = PyLong_AsLongLong(argument[0]), bytes = PyLong_AsLongLong(argument[1]);
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromLongLong((long long)(intptr_t)guard_pages((void *)(intptr_t)address, bytes));
}

/* (entry) -> whether bytes of the file were read that are not there any more */
static PyObject *is_file_lost(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    long long entry = has_arguments(count, 1) ? PyLong_AsLongLong(argument[0]) : 0;
    return PyErr_Occurred() ? NULL : PyLong_FromLong(are_pages_lost((guarded_file *)(intptr_t)entry));
}

/* (entry): call it before the file's mapping ends */
static PyObject *release_file(PyObject *self, PyObject *const *argument, Py_ssize_t count) {
    long long entry = has_arguments(count, 1) ? PyLong_AsLongLong(argument[0]) : 0;
    if (PyErr_Occurred())
        return NULL;
    release_pages((guarded_file *)(intptr_t)entry);
    return PyLong_FromLong(0);
}

static PyMethodDef methods[] = {
    {"new_segment", new_segment, METH_FASTCALL, NULL}, {"new_prepared", new_prepared, METH_FASTCALL, NULL},
    {"invoke", invoke, METH_FASTCALL, NULL},           {"plan_memory", plan_memory, METH_FASTCALL, NULL},
    {"pool_workers", pool_workers, METH_FASTCALL, NULL}, {"set_threads", set_threads, METH_FASTCALL, NULL},
    {"guard_file", guard_file, METH_FASTCALL, NULL},   {"is_file_lost", is_file_lost, METH_FASTCALL, NULL},
    {"release_file", release_file, METH_FASTCALL, NULL}, {"run_memory", run_memory, METH_FASTCALL, NULL},
    {"set_stop", set_stop, METH_FASTCALL, NULL},       {"set_frugal", set_frugal, METH_FASTCALL, NULL},
    {"kept_memory", kept_memory, METH_FASTCALL, NULL}, {"invoke_at", invoke_at, METH_FASTCALL, NULL},
    {"count_segment", count_segment, METH_FASTCALL, NULL}, {"read_clocks", read_clocks, METH_FASTCALL, NULL},
};

/* The runtime's functions as Python objects, in the order of `methods`. */
PyObject *IG_FUNCTION(void) {
    Py_ssize_t count = sizeof methods / sizeof *methods;
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple && i < count; i++) {
        PyObject *function = PyCFunction_NewEx(&methods[i], NULL, NULL);
        if (!function || PyTuple_SetItem(tuple, i, function)) {
            Py_DecRef(tuple);
            return NULL;
        }
    }
    return tuple;
}
