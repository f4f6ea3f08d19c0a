/* Sums of leaf weights of decision trees: several rows at once (or several trees for one row) step from node to node;
   a leaf leads to itself. A step has no branch: the outcome of the comparison is an index. Rows go tree by tree, so
   that a tree stays near. A task is `block` rows. */
#include "kernel.h"

#ifndef ELEMENT
#define ELEMENT float
#endif
/* Whether that is double, which pads a node. */
#ifndef IS_DOUBLE
#define IS_DOUBLE 0
#endif
#ifndef OUT
#define OUT float
#endif
/* Whether every node compares by order, and whether some tests are turned round for NaN or look into a set. */
#ifndef ALL_ORDERED
#define ALL_ORDERED 0
#endif
#ifndef SOME_FLIPPED
#define SOME_FLIPPED 1
#endif
#ifndef SOME_SETS
#define SOME_SETS 1
#endif
/* Whether each leaf has one weight, which is added. */
#ifndef IS_SIMPLE
#define IS_SIMPLE 0
#endif
#ifndef IS_MINIMUM
#define IS_MINIMUM 0
#endif
#ifndef IS_MAXIMUM
#define IS_MAXIMUM 0
#endif
#ifndef IS_AVERAGE
#define IS_AVERAGE 0
#endif
/* Whether it is told which targets have a score. */
#ifndef STORES_FLAGS
#define STORES_FLAGS 0
#endif
/* The bits of a node's feature from here on say how it is compared: 1 by order, 2 turned round for NaN, 4 by a set. */
#ifndef FLAGS
#define FLAGS 28
#endif
#if ALL_ORDERED && !SOME_FLIPPED && !SOME_SETS
#define FEATURE p->feature
#else
#define FEATURE p->feature & ((1 << FLAGS) - 1)
#endif
#if ALL_ORDERED
#define COMPARISON x <= p->split
#else
#define COMPARISON x == p->split || (x < p->split && (flags & 1))
#endif
#if SOME_SETS
#define PASSED flags & 4 ? IG_FUNCTION_is_member(member + set[at], set[at + 1] - set[at], x) : COMPARISON
#else
#define PASSED COMPARISON
#endif
#if SOME_FLIPPED
#define TEST (PASSED) ^ ((x != x) & (flags >> 1 & 1))
#else
#define TEST PASSED
#endif
#if IS_MINIMUM
#define INITIAL __builtin_inf()
#define ADDED w < *total || w != w ? w : *total
#elif IS_MAXIMUM
#define INITIAL -__builtin_inf()
#define ADDED w > *total || w != w ? w : *total
#else
#define INITIAL 0
#define ADDED *total + w
#endif
#if IS_AVERAGE
#define MEAN / (double)(trees > 1 ? trees : 1)
#else
#define MEAN
#endif

typedef struct {
    void *data, *node, *root, *weight, *start, *target, *set, *member, *base, *out, *is_scored, *fault;
} IG_FUNCTION_buffers;

typedef struct {
    int64_t rows, columns, trees, targets, first_leaf, needed, block, tasks;
} IG_FUNCTION_sizes;

typedef struct {
    ELEMENT split;
    int32_t feature, child[2];
#if IS_DOUBLE
    int32_t pad;
#endif
} IG_FUNCTION_node;

static inline int IG_FUNCTION_is_member(const ELEMENT *member, int32_t count, ELEMENT x)
{
    int32_t low = 0;
    while (count > 0) {
        const int32_t half = count / 2;
        const int is_above = member[low + half] < x;
        low += is_above ? half + 1 : 0;
        count = is_above ? count - half - 1 : half;
        if (!is_above && member[low + count] == x)
            return 1;
    }
    return 0;
}

IG_INLINE int32_t IG_FUNCTION_step(const IG_FUNCTION_node *node, const int32_t *set, const ELEMENT *member, int32_t at,
                                   const ELEMENT *row)
{
    const IG_FUNCTION_node *const p = node + at;
    const ELEMENT x = row[FEATURE];
    const int flags = p->feature >> FLAGS;
    (void)flags, (void)set, (void)member;
    return p->child[!(TEST)];
}

/* Leads eight walkers from their places to leaves; walker l is on row l, or all are on one where step is 0. */
IG_INLINE void IG_FUNCTION_walk(const IG_FUNCTION_node *node, const int32_t *set, const ELEMENT *member,
                                const ELEMENT *const *row, int32_t first_leaf, int32_t *place)
{
    int32_t at[8];
    IG_UNROLL for (int l = 0; l < 8; l++)
        at[l] = place[l];
    for (;;) {
        int is_over = 1;
        IG_UNROLL for (int l = 0; l < 8; l++)
            is_over &= at[l] >= first_leaf;
        if (is_over)
            break;
        for (int level = 0; level < 2; level++) {
            IG_UNROLL for (int l = 0; l < 8; l++)
                at[l] = IG_FUNCTION_step(node, set, member, at[l], row[l]);
        }
    }
    IG_UNROLL for (int l = 0; l < 8; l++)
        place[l] = at[l] - first_leaf;
}

IG_INLINE void IG_FUNCTION_add(double *total, uint8_t *given, const double *weight, const int32_t *start,
                               const int32_t *target, int32_t leaf)
{
    if (IS_SIMPLE) {
        *total += weight[leaf];
        return;
    }
    double *const totals = total;
    for (int32_t e = start[leaf]; e < start[leaf + 1]; e++) {
        const double w = weight[e];
        total = totals + target[e];
        *total = ADDED;
        given[target[e]] = 1;
    }
}

void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
    const ELEMENT *const data = BUFFER(data);
    const IG_FUNCTION_node *const node = BUFFER(node);
    const int32_t *const root = BUFFER(root);
    const double *const weight = BUFFER(weight);
    const int32_t *const start = BUFFER(start);
    const int32_t *const target = BUFFER(target);
    const int32_t *const set = BUFFER(set);
    const ELEMENT *const member = BUFFER(member);
    const double *const base = BUFFER(base);
    OUT *const out = BUFFER(out);
    uint8_t *const is_scored = BUFFER(is_scored);
    int64_t *const fault = BUFFER(fault);
    const int64_t rows = SIZE(rows), columns = SIZE(columns), trees = SIZE(trees), targets = SIZE(targets);
    const int64_t first_leaf = SIZE(first_leaf), needed = SIZE(needed), block = SIZE(block);
    if (columns < needed) {
        *fault = 1;
        return;
    }
    double *const total = scratch;
    uint8_t *const given = (uint8_t *)(total + block * targets);
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * block, count = rows - first < block ? rows - first : block;
        const ELEMENT *const x = data + first * columns;
        const ELEMENT *walker[8];
        int32_t place[8];
        for (int64_t i = 0; i < count * targets; i++) {
            total[i] = INITIAL;
            given[i] = 0;
        }
        for (int64_t r = 0; r < (count < 4 ? count : 0); r++) {
            for (int l = 0; l < 8; l++)
                walker[l] = x + r * columns;
            for (int64_t t = 0; t < trees; t += 8) {
                const int64_t n = trees - t < 8 ? trees - t : 8;
                for (int l = 0; l < 8; l++)
                    place[l] = root[t + (l < n ? l : 0)];
                IG_FUNCTION_walk(node, set, member, walker, (int32_t)first_leaf, place);
                for (int64_t l = 0; l < n; l++)
                    IG_FUNCTION_add(total + r * targets, given + r * targets, weight, start, target, place[l]);
            }
        }
        for (int64_t t = 0; t < (count < 4 ? 0 : trees); t++) {
            for (int64_t r = 0; r < count; r += 8) {
                const int64_t n = count - r < 8 ? count - r : 8;
                for (int l = 0; l < 8; l++) {
                    walker[l] = x + (r + (l < n ? l : 0)) * columns;
                    place[l] = root[t];
                }
                IG_FUNCTION_walk(node, set, member, walker, (int32_t)first_leaf, place);
                for (int64_t l = 0; l < n; l++)
                    IG_FUNCTION_add(total + (r + l) * targets, given + (r + l) * targets, weight, start, target,
                                    place[l]);
            }
        }
        for (int64_t i = 0; i < count * targets; i++) {
            const double found = IS_SIMPLE || given[i] ? total[i] : 0;
            out[first * targets + i] = (OUT)(found MEAN + base[i % targets]);
            if (STORES_FLAGS)
                is_scored[first * targets + i] = given[i];
        }
    }
}
