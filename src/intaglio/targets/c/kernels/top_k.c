/* The greatest or least `count` elements along an axis, in order: a heap of the best so far. A key is an element's rank
   and then its place, so that keys differ and their order is total. A task is a block of rows. */
#include "kernel.h"
#include "rank.h"

typedef struct {
    void *data, *out, *place, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t extent, count, inner, outer, rows, block;
} IG_FUNCTION_sizes;

#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef IS_LARGEST
#define IS_LARGEST 1
#endif
/* Whether elements are compared as numbers ahead of their ranks; 16-bit floats are not. */
#ifndef IS_COMPARED
#define IS_COMPARED 1
#endif
/* Whether neighbours along the axis are adjacent. */
#ifndef IS_CONTIGUOUS
#define IS_CONTIGUOUS 0
#endif
/* Whether elements have 64 bits. */
#ifndef IS_WIDE
#define IS_WIDE 0
#endif
/* Elements that are compared with the least of the best so far before any of them is looked at more closely. */
#define GLANCE 64
#if IS_CONTIGUOUS
#define STEP 1
#else
#define STEP inner
#endif
#if IS_WIDE
#define UNSIGNED uint64_t
#define HALF_BITS 64
__extension__ typedef unsigned __int128 IG_FUNCTION_key;
#else
#define UNSIGNED uint32_t
#define HALF_BITS 32
typedef uint64_t IG_FUNCTION_key;
#endif
/* Ranks in the order that is asked for, and whether an element is surely none of the best. */
#if IS_LARGEST
#define IN_ORDER(rank) rank
#define IS_WORSE(x) x <= bound
#else
#define IN_ORDER(rank) ~rank
#define IS_WORSE(x) x >= bound
#endif

static inline IG_FUNCTION_key IG_FUNCTION_make_key(ELEMENT element, int64_t place)
{
    BITS x;
    __builtin_memcpy(&x, &element, sizeof x);
    const UNSIGNED rank = RANK(x);
    return (IG_FUNCTION_key)(UNSIGNED)IN_ORDER(rank) << HALF_BITS | (UNSIGNED) ~(UNSIGNED)place;
}

/* Puts `item` into the hole at `i` of a heap whose least key is in front. */
static inline void IG_FUNCTION_sift(IG_FUNCTION_key *heap, int64_t n, int64_t i, IG_FUNCTION_key item)
{
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= item)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = item;
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    ELEMENT *const out = BUFFER(out);
    int64_t *const place = BUFFER(place);
    int64_t *const fault = BUFFER(fault);
    const int64_t extent = SIZE(extent), count = SIZE(count), inner = SIZE(inner);
    const int64_t rows = SIZE(rows), block = SIZE(block);
    IG_FUNCTION_key *const heap = scratch;
    if (count > extent || (sizeof(UNSIGNED) == 4 && extent >> 32)) {
        *fault = 1;
        return;
    }
    if (count < 1)
        return;
    for (int64_t row = begin * block, stop = end * block < rows ? end * block : rows; row < stop; row++) {
        const int64_t o = row / inner, i = row % inner;
        const ELEMENT *const x = data + o * extent * inner + i;
        for (int64_t j = 0; j < count; j++)
            heap[j] = IG_FUNCTION_make_key(x[j * inner], j);
        for (int64_t j = count / 2 - 1; j >= 0; j--)
            IG_FUNCTION_sift(heap, count, j, heap[j]);
        ELEMENT bound = x[(int64_t)(UNSIGNED) ~(UNSIGNED)heap[0] * inner];
        for (int64_t from = count; from < extent; from += GLANCE) {
            const int64_t to = from + GLANCE < extent ? from + GLANCE : extent;
            int is_candidate = 0;
            for (int64_t j = from; j < to; j++)
                is_candidate |= !(IS_COMPARED && IS_WORSE(x[j * STEP]));
            for (int64_t j = is_candidate ? from : to; j < to; j++) {
                const IG_FUNCTION_key key = IG_FUNCTION_make_key(x[j * STEP], j);
                if (key > heap[0])
                    IG_FUNCTION_sift(heap, count, 0, key);
            }
            bound = x[(int64_t)(UNSIGNED) ~(UNSIGNED)heap[0] * inner];
        }
        for (int64_t j = count - 1; j >= 0; j--) {
            const int64_t found = (UNSIGNED) ~(UNSIGNED)heap[0], to = (o * count + j) * inner + i;
            out[to] = x[found * inner];
            place[to] = found;
            IG_FUNCTION_sift(heap, j, 0, heap[j]);
        }
    }
}
