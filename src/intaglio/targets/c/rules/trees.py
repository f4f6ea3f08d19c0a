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
from intaglio.targets.c.kernel_file import Instance, kernel
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
    instance = _instance(node, element, flags, is_simple)
    routine = Routine("trees", instance, parameters, sizes, at_least_one(tasks), cost, checks=True)
    routine.scratch = (block + 1) * (trees.weights.shape[1] * 9)
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


def _instance(node: Node, element: str, flags: int, is_simple: bool) -> Instance:
    aggregate = node.op.aggregate
    return kernel(
        "trees",
        ELEMENT=element,
        IS_DOUBLE=element == "double",
        OUT="double" if node.output.dtype == FLOAT64 else "float",
        ALL_ORDERED=bool(flags & IS_ORDER),
        SOME_FLIPPED=bool(flags & IS_FLIPPED),
        SOME_SETS=bool(flags & IS_SET),
        IS_SIMPLE=is_simple,
        IS_MINIMUM=aggregate == "MIN",
        IS_MAXIMUM=aggregate == "MAX",
        IS_AVERAGE=aggregate == "AVERAGE",
        STORES_FLAGS=_is_read(node, 1),
        FLAGS=FLAGS,
    )
