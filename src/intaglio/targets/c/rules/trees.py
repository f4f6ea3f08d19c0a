"""Ensembles of decision trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intaglio.ir.dim import less, maximum, pieces, select
from intaglio.ir.dtype import FLOAT64
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.ops.ml.trees import MODES
from intaglio.targets.c.routine import Routine, at_least_one, memory_type, reads, writes
from intaglio.targets.c.rules.table import anchor

Array = np.ndarray[Any, Any]

LEVELS = 4096
"""Trees that are deeper run on the host, and so do those that never end."""

FLAGS = 28
"""The bits of a node's feature from here on say how it is compared."""

IS_ORDER, IS_FLIPPED, IS_SET = 1, 2, 4
"""Whether less is also a pass, whether NaN takes the other branch than it would, and whether the node has a set."""

ROWS = 128
"""The rows that one task leads through all trees, if there are so many."""


@dataclass(frozen=True)
class _Trees:
    """The constant inputs of a TreeScores node."""

    nodes: Array
    splits: Array
    members: Array
    ends: Array
    roots: Array
    weights: Array
    has_weight: Array

    @property
    def features(self) -> Array:
        return self.nodes[:, 0]


def _inputs(node: Node) -> list[Value]:
    return [value for value in node.inputs if value is not None]


def _trees(node: Node) -> _Trees:
    return _Trees(*(as_array(value) for value in _inputs(node)[1:8]))


def _refuse(node: Node) -> Refusal | None:
    if any(value.constant is None for value in _inputs(node)[1:]):
        return Refusal(Cause.CONSTANT, "its trees are not constant")
    trees = _trees(node)
    if trees.features.max(initial=0) >= 1 << FLAGS or max(len(trees.nodes), trees.weights.size) >= 1 << 30:
        return Refusal(Cause.FORM, "its trees are too large")
    return None if _ends(trees) else Refusal(Cause.FORM, f"its trees form a cycle or are deeper than {LEVELS} levels")


def _ends(trees: _Trees) -> bool:
    """Whether every way through the trees ends at a leaf soon."""
    places = np.unique(trees.roots[trees.roots >= 0])
    for _ in range(LEVELS):
        if not len(places):
            return True
        following = trees.nodes[places, 2:4].reshape(-1)
        places = np.unique(following[following >= 0])
    return False


@anchor("TreeScores", refuse=_refuse, reads=lambda node: _inputs(node)[:1])
def tree_scores(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Several rows at once (or several trees for one row) step from node to node; a leaf leads to itself.

    A step has no branch: the outcome of the comparison is an index. Rows go tree by tree, so that a tree stays near.
    """
    rows, trees = _inputs(node)[0], _trees(node)
    table, first_leaf, roots, leaves = _table(trees)
    flags = _used_flags(table[:first_leaf]["feature"])
    if flags == IS_ORDER:
        table["feature"] &= (1 << FLAGS) - 1
    is_simple = trees.weights.shape[1] == 1 and node.op.aggregate in ("SUM", "AVERAGE") and not _is_read(node, 1)
    starts, targets, weights = _leaf_weights(trees, leaves, is_simple)
    starts_of_sets, members = _sets(trees, bool(flags & IS_SET))
    base = as_array(_inputs(node)[8]) if len(_inputs(node)) > 8 else np.zeros(trees.weights.shape[1])

    def constant(name: str, array: Array, element: str):
        return reads(name, whole(context.constant(array), array.shape), element)

    element = memory_type(rows.dtype)
    parameters = [
        reads("data", context.contiguous(rows)),
        constant("node", table.view(np.uint8).reshape(-1), "IG_FUNCTION_node"),
        constant("root", roots, "int32_t"),
        constant("weight", weights, "double"),
        constant("start", starts, "int32_t"),
        constant("target", targets, "int32_t"),
        constant("set", starts_of_sets, "int32_t"),
        constant("member", members, element),
        constant("base", base, "double"),
        writes("out", context.allocate(node.output)),
        writes("is_scored", _flag_view(context, node)),
    ]
    count = rows.shape[0]
    block = select(less(count, 8 * ROWS), pieces(count, 64) * 8, ROWS)
    tasks = pieces(count, maximum(block, 1))
    sizes: list[tuple[str, Size]] = [
        ("rows", count),
        ("columns", rows.shape[1]),
        ("trees", len(roots)),
        ("targets", trees.weights.shape[1]),
        ("first_leaf", first_leaf),
        ("needed", int(trees.features.max(initial=-1)) + 1),
        ("block", block),
        ("tasks", tasks),
    ]
    cost = 1 + block * len(roots) * (10 + int(np.log2(1 + first_leaf / max(1, len(roots)))) * 2)
    routine = Routine("trees", _BODY, parameters, sizes, at_least_one(tasks), cost, checks=True, helpers=_HELPERS)
    routine.scratch = (block + 1) * (trees.weights.shape[1] * 9)
    routine.marks = _marks(node, element, flags, is_simple)
    context.emit(routine.call(node))


def _is_read(node: Node, output: int) -> bool:
    return bool(node.outputs[output].uses) or node.outputs[output].is_output


def _flag_view(context: Context, node: Node) -> View:
    value = node.outputs[1]
    if _is_read(node, 1):
        return context.allocate(value)
    return whole(context.temporary(value.dtype, 1), (1,))


def _table(trees: _Trees) -> tuple[Array, int, Array, Array]:
    """All nodes and behind them all leaves, the place of the first leaf, the roots, and which leaves there are."""
    links = np.concatenate([trees.roots, trees.nodes[:, 2:4].reshape(-1)])
    kept, leaves = np.unique(links[links >= 0]), np.unique(~links[links < 0])
    places = np.zeros(max(len(trees.nodes), 1), np.int32)
    places[kept] = np.arange(len(kept))
    leaf_places = np.zeros(max(len(trees.weights), 1), np.int32)
    leaf_places[leaves] = len(kept) + np.arange(len(leaves))

    def at(link: Array) -> Array:
        return np.where(link >= 0, places[np.maximum(link, 0)], leaf_places[np.maximum(~link, 0)]).astype(np.int32)

    is_double = trees.splits.dtype == np.float64
    fields = [("split", trees.splits.dtype), ("feature", np.int32), ("child", np.int32, 2)]
    table = np.zeros(len(kept) + len(leaves), [*fields, ("pad", np.int32)] if is_double else fields)
    features, modes, true, false, missing = trees.nodes[kept].T
    split, is_swapped, flags = _comparisons(trees.splits[kept], modes, missing.astype(bool))
    inner, outer = table[: len(kept)], table[len(kept) :]
    inner["split"], inner["feature"] = split, features | flags << FLAGS
    inner["child"][:, 0] = at(np.where(is_swapped, false, true))
    inner["child"][:, 1] = at(np.where(is_swapped, true, false))
    outer["child"][:] = (len(kept) + np.arange(len(leaves)))[:, None]
    return table, len(kept), at(trees.roots), leaves


def _comparisons(splits: Array, modes: Array, missing: Array) -> tuple[Array, Array, Array]:
    """Every test as x <= split, x == split or membership: the split, whether branches are swapped, and the flags."""
    is_strict = np.isin(modes, [MODES.index("BRANCH_LT"), MODES.index("BRANCH_GTE")])
    is_swapped = np.isin(modes, [MODES.index(f"BRANCH_{name}") for name in ("GT", "GTE", "NEQ")])
    below = _number_below(splits)
    is_order, is_set = modes < MODES.index("BRANCH_EQ"), modes == MODES.index("BRANCH_MEMBER")
    # NaN fails a test, so that it takes the second branch; where tests are turned round, NaN must be turned back.
    takes_true = missing | (modes == MODES.index("BRANCH_NEQ"))
    is_flipped = takes_true != is_swapped
    flags = is_order * IS_ORDER | is_flipped * IS_FLIPPED | is_set * IS_SET
    return np.where(is_strict, below, splits).astype(splits.dtype), is_swapped, flags


def _number_below(splits: Array) -> Array:
    """The greatest number below each, so that x <= it says x < split; subnormal numbers count as zero in kernels."""
    below = np.nextafter(splits, splits.dtype.type(-np.inf))
    tiny = np.finfo(splits.dtype).tiny
    below = np.where((below < 0) & (below > -tiny), -tiny, below)
    return np.where(splits == -np.inf, np.nan, below)


def _leaf_weights(trees: _Trees, leaves: Array, is_simple: bool) -> tuple[Array, Array, Array]:
    """Where the weights of each leaf begin, their targets, and the weights; one for each leaf where `is_simple`."""
    weights, given = trees.weights[leaves], trees.has_weight[leaves]
    if is_simple:
        return np.zeros(1, np.int32), np.zeros(1, np.int32), _not_empty(weights.reshape(-1))
    leaf, target = np.nonzero(given)
    starts = np.searchsorted(leaf, np.arange(len(leaves) + 1)).astype(np.int32)
    return starts, _not_empty(target.astype(np.int32)), _not_empty(weights[leaf, target])


def _sets(trees: _Trees, are_any: bool) -> tuple[Array, Array]:
    """Where the set of each node begins in all members, and the members, in order within a set."""
    if not are_any:
        return np.zeros(1, np.int32), np.zeros(1, trees.splits.dtype)
    links = np.concatenate([trees.roots, trees.nodes[:, 2:4].reshape(-1)])
    kept = np.unique(links[links >= 0])
    parts = np.split(trees.members, trees.ends[:-1])
    chosen = [np.sort(parts[place]) for place in kept]
    starts = np.cumsum([0, *(len(part) for part in chosen)]).astype(np.int32)
    return starts, _not_empty(np.concatenate(chosen).astype(trees.splits.dtype))


def _not_empty(array: Array) -> Array:
    return array if array.size else np.zeros(1, array.dtype)


def _used_flags(features: Array) -> int:
    """The flags that nodes have; IS_ORDER only where all have it."""
    flags = features >> FLAGS
    used = int(np.bitwise_or.reduce(flags, initial=0))
    return used if (flags & IS_ORDER).all() else used & ~IS_ORDER


def _marks(node: Node, element: str, flags: int, is_simple: bool) -> dict[str, str]:
    tests = "x <= p->split" if flags & IS_ORDER else "x == p->split || (x < p->split && (flags & 1))"
    if flags & IS_SET:
        tests = f"flags & {IS_SET} ? IG_FUNCTION_is_member(member + set[at], set[at + 1] - set[at], x) : {tests}"
    if flags & IS_FLIPPED:
        tests = f"({tests}) ^ ((x != x) & (flags >> 1 & 1))"
    aggregate = node.op.aggregate
    sign = {"MIN": "<", "MAX": ">"}.get(aggregate)
    return {
        "element": element,
        "pad": "int32_t pad;" if element == "double" else "",
        "feature": "p->feature" if flags == IS_ORDER else f"p->feature & {(1 << FLAGS) - 1}",
        "tests": tests,
        "add": f"w {sign} *total || w != w ? w : *total" if sign else "*total + w",
        "initial": {"MIN": "__builtin_inf()", "MAX": "-__builtin_inf()"}.get(aggregate, "0"),
        "is_simple": str(int(is_simple)),
        "mean": "/ (double)(trees > 1 ? trees : 1)" if aggregate == "AVERAGE" else "",
        "store": "1" if _is_read(node, 1) else "0",
        "out": "double" if node.output.dtype == FLOAT64 else "float",
    }


_HELPERS = """
typedef struct {
    $element split;
    int32_t feature, child[2];
    $pad
} IG_FUNCTION_node;
static inline int IG_FUNCTION_is_member(const $element *member, int32_t count, $element x)
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
IG_INLINE int32_t IG_FUNCTION_step(const IG_FUNCTION_node *node, const int32_t *set, const $element *member,
                                   int32_t at, const $element *row)
{
    const IG_FUNCTION_node *const p = node + at;
    const $element x = row[$feature];
    const int flags = p->feature >> 28;
    (void)flags;
    return p->child[!($tests)];
}
/* Leads eight walkers from their places to leaves; walker l is on row l, or all are on one where step is 0. */
IG_INLINE void IG_FUNCTION_walk(const IG_FUNCTION_node *node, const int32_t *set, const $element *member,
                                const $element *const *row, int32_t first_leaf, int32_t *place)
{
    int32_t at[8];
    IG_UNROLL
    for (int l = 0; l < 8; l++)
        at[l] = place[l];
    for (;;) {
        int is_over = 1;
        IG_UNROLL
        for (int l = 0; l < 8; l++)
            is_over &= at[l] >= first_leaf;
        if (is_over)
            break;
        for (int level = 0; level < 2; level++) {
            IG_UNROLL
            for (int l = 0; l < 8; l++)
                at[l] = IG_FUNCTION_step(node, set, member, at[l], row[l]);
        }
    }
    IG_UNROLL
    for (int l = 0; l < 8; l++)
        place[l] = at[l] - first_leaf;
}
IG_INLINE void IG_FUNCTION_add(double *total, uint8_t *given, const double *weight, const int32_t *start,
                               const int32_t *target, int32_t leaf)
{
    if ($is_simple) {
        *total += weight[leaf];
        return;
    }
    double *const totals = total;
    for (int32_t e = start[leaf]; e < start[leaf + 1]; e++) {
        const double w = weight[e];
        total = totals + target[e];
        *total = $add;
        given[target[e]] = 1;
    }
}
"""

_BODY = """
    if (columns < needed) {
        *fault = 1;
        return;
    }
    double *const total = scratch;
    uint8_t *const given = (uint8_t *)(total + block * targets);
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * block, count = rows - first < block ? rows - first : block;
        const $element *const x = data + first * columns;
        const $element *walker[8];
        int32_t place[8];
        for (int64_t i = 0; i < count * targets; i++) {
            total[i] = $initial;
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
            const double found = $is_simple || given[i] ? total[i] : 0;
            out[first * targets + i] = ($out)(found $mean + base[i % targets]);
            if ($store)
                is_scored[first * targets + i] = given[i];
        }
    }
"""
