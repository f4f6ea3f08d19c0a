"""Ensembles of decision trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, FLOAT32, FLOAT64, INT64, DType, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Tensor
from intaglio.ir.types import TensorType
from intaglio.ops.ml.scores import (
    TRANSFORMS,
    as_rows,
    check_transform,
    chosen_labels,
    classifier_types,
    label_list,
    row_values,
    rows_of,
    transform,
    transformed,
    two_class_values,
    two_classes,
)
from intaglio.ops.shared.indices import check_size, numbered_dtype
from intaglio.ops.shared.operand import cast

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True)
class Forest:
    """Trees as tables. In `true` and `false` a number from 0 is a node, ~n is leaf n; `roots` likewise.

    `weights` and `has_weight` have a row for each leaf and a column for each target.
    """

    features: Array
    splits: Array
    modes: Array
    true: Array
    false: Array
    missing: Array
    members: list[Array]
    roots: list[int]
    weights: Array
    has_weight: Array

    def leaves(self, rows: Array, root: int) -> Array:
        """The leaf that each row reaches in one tree."""
        places = np.full(len(rows), root)
        for _ in range(len(self.features) + 1):
            inner = np.flatnonzero(places >= 0)
            if not len(inner):
                return ~places
            nodes = places[inner]
            values = rows[inner, self.features[nodes]]
            passes = self._passes(values, nodes) | (np.isnan(values) & self.missing[nodes])
            places[inner] = np.where(passes, self.true[nodes], self.false[nodes])
        raise OperatorError("the nodes of a tree form a cycle")

    def _passes(self, values: Array, nodes: Array) -> Array:
        splits, modes = self.splits[nodes], self.modes[nodes]
        compare = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
        tests = [function(values, splits) for function in compare]
        is_member = np.zeros(len(nodes), bool)
        for i in np.flatnonzero(modes == MODES.index("BRANCH_MEMBER")):
            is_member[i] = bool((self.members[nodes[i]] == values[i]).any())
        return np.choose(modes, [*tests, is_member])

    def scores(self, rows: Array, aggregate: str) -> tuple[Array, Array]:
        """The aggregated weights of each row and target, and whether any leaf had one."""
        if rows.shape[1] <= self.features.max(initial=-1):
            raise OperatorError(f"the trees read feature {self.features.max()}, the rows have {rows.shape[1]}")
        start = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
        function = {"MIN": np.minimum, "MAX": np.maximum}.get(aggregate, np.add)
        total = np.full((len(rows), self.weights.shape[1]), start)
        has_score = np.zeros(total.shape, bool)
        for root in self.roots:
            leaves = self.leaves(rows, root)
            present = self.has_weight[leaves]
            total = np.where(present, function(total, self.weights[leaves]), total)
            has_score |= present
        total = np.where(has_score, total, 0)
        return (total / max(len(self.roots), 1) if aggregate == "AVERAGE" else total), has_score

    def tables(self, kind: DType) -> tuple[Array, ...]:
        """The inputs of `TreeScores` behind the rows, with what is compared as numbers of one type."""
        nodes = np.stack([self.features, self.modes, self.true, self.false, self.missing.astype(np.int64)], axis=1)
        members = np.concatenate([*self.members, np.zeros(0)]).astype(kind.numpy)
        ends = np.cumsum([len(each) for each in self.members], dtype=np.int64)
        roots = np.array(self.roots, np.int64)
        return nodes, self.splits.astype(kind.numpy), members, ends, roots, self.weights, self.has_weight


class TreeScores(Op):
    """What all ensembles of trees share: aggregated weights plus `base`, and whether any leaf had a weight.

    `nodes` has a row for each node: feature, mode, true branch, false branch (as in `Forest`), and whether NaN takes
    the true branch. `ends` says where in `members` the set of each node ends; it is empty where no node has a set.
    """

    no_gradient = "it is constant between steps, so its gradient is zero"
    domain: ClassVar[str] = "intaglio"
    output_names: ClassVar[tuple[str, ...]] = ("scores", "is_scored")
    aggregate: str = "SUM"
    to: int = 1

    def infer(
        self,
        X: Value,
        nodes: Value,
        splits: Value,
        members: Value,
        ends: Value,
        roots: Value,
        weights: Value,
        has_weight: Value,
        base: Value | None = None,
    ) -> tuple[TensorType, TensorType]:
        shape = (X.shape[0], weights.shape[1])
        return TensorType(numbered_dtype(self.to), shape), TensorType(BOOL, shape)

    def reference(
        self,
        X: Array,
        nodes: Array,
        splits: Array,
        members: Array,
        ends: Array,
        roots: Array,
        weights: Array,
        has_weight: Array,
        base: Array | None = None,
    ) -> tuple[Array, Array]:
        features, modes, true, false, missing = nodes.T
        sets = np.split(members, ends[:-1]) if len(ends) else []
        forest = Forest(
            features, splits, modes, true, false, missing.astype(bool), sets, roots.tolist(), weights, has_weight
        )
        scores, is_scored = forest.scores(X, self.aggregate)
        return (scores if base is None else scores + base).astype(numbered_dtype(self.to).numpy), is_scored


def tree_scores(
    b: Builder, X: Value, forest: Forest, aggregate: str, base: Array | None = None, to: DType = FLOAT64
) -> tuple[Value, Value]:
    """The scores of a forest, and which there are; rows and splits are compared in the wider of their types."""
    kind = FLOAT64 if FLOAT64 in (X.dtype, from_numpy(forest.splits.dtype)) else FLOAT32
    constants = [b.constant(array) for array in forest.tables(kind)]
    constants += [] if base is None else [b.constant(base, FLOAT64)]
    rows = cast(b, row_values(b, X), kind)
    return b.apply(TreeScores, rows, *constants, outputs=2, aggregate=aggregate, to=to.number)


class TreeEnsemble(Op):
    """For each target the sum, average, least or greatest of the weights of the leaves that a row reaches."""

    no_gradient = "it is constant between steps, so its gradient is zero"
    domain: ClassVar[str] = "ai.onnx.ml"
    aggregate_function: int = 1
    leaf_targetids: tuple[int, ...]
    leaf_weights: Tensor
    membership_values: Tensor | None = None
    n_targets: int | None = None
    nodes_falseleafs: tuple[int, ...]
    nodes_falsenodeids: tuple[int, ...]
    nodes_featureids: tuple[int, ...]
    nodes_hitrates: Tensor | None = None
    nodes_missing_value_tracks_true: tuple[int, ...] | None = None
    nodes_modes: Tensor
    nodes_splits: Tensor
    nodes_trueleafs: tuple[int, ...]
    nodes_truenodeids: tuple[int, ...]
    post_transform: int = 0
    tree_roots: tuple[int, ...]

    def infer(self, X: Value) -> TensorType:
        if not 0 <= self.aggregate_function < 4 or not 0 <= self.post_transform < 5:
            raise ShapeError(f"aggregate_function {self.aggregate_function}, post_transform {self.post_transform}")
        self._forest()
        return TensorType(X.dtype, (rows_of(X), self._targets()))

    def _targets(self) -> int:
        return max(self.leaf_targetids, default=0) + 1 if self.n_targets is None else self.n_targets

    def reference(self, X: Array) -> Array:
        rows = as_rows(X).astype(np.result_type(X.dtype, np.float32))
        scores, _ = self._forest().scores(rows, AGGREGATES[self.aggregate_function])
        return transform(scores, TRANSFORMS[self.post_transform]).astype(X.dtype)

    def expand(self, b: Builder, X: Value) -> Value:
        name = TRANSFORMS[self.post_transform]
        to = X.dtype if name == "NONE" and X.dtype.bits >= 32 else FLOAT64
        scores, _ = tree_scores(b, X, self._forest(), AGGREGATES[self.aggregate_function], to=to)
        return cast(b, transformed(b, scores, name), X.dtype)

    def _forest(self) -> Forest:
        count, leaves = len(self.nodes_featureids), len(self.leaf_targetids)
        modes = self.nodes_modes.array.reshape(-1).astype(np.int64)
        splits = self.nodes_splits.array.reshape(-1)
        links = (self.nodes_falseleafs, self.nodes_falsenodeids, self.nodes_trueleafs, self.nodes_truenodeids)
        if any(len(item) != count for item in (*links, modes, splits)) or self.leaf_weights.array.size != leaves:
            raise ShapeError("the lists nodes_* and leaf_* differ in length")
        if ((modes < 0) | (modes >= len(MODES))).any():
            raise ShapeError(f"nodes_modes holds {modes.max()}, expected 0 to {len(MODES) - 1}")
        weights, has_weight = leaf_table(
            range(leaves), self.leaf_targetids, self.leaf_weights.array.reshape(-1), leaves, self._targets()
        )
        return Forest(
            check_features(self.nodes_featureids),
            splits.astype(np.result_type(splits.dtype, np.float32)),
            modes,
            branches(self.nodes_truenodeids, self.nodes_trueleafs, count, leaves),
            branches(self.nodes_falsenodeids, self.nodes_falseleafs, count, leaves),
            np.array(self.nodes_missing_value_tracks_true or (0,) * count, bool),
            self._members(modes),
            branches(self.tree_roots, (0,) * len(self.tree_roots), count, leaves).tolist(),
            weights,
            has_weight,
        )

    def _members(self, modes: Array) -> list[Array]:
        """The set of each node that tests membership; the sets are separated by NaN."""
        values = np.zeros(0) if self.membership_values is None else self.membership_values.array.reshape(-1)
        ends = np.flatnonzero(np.isnan(values))
        sets = iter(part[~np.isnan(part)] for part in np.split(values, ends))
        none = np.zeros(0)
        return [next(sets, none) if mode == MODES.index("BRANCH_MEMBER") else none for mode in modes]


def check_features(features: Sequence[int]) -> Array:
    """The features as an array; raises where one is negative."""
    if any(feature < 0 for feature in features):
        raise ShapeError(f"the feature {min(features)} is below 0")
    return np.array(features, np.int64)


def branches(targets: Sequence[int], is_leaf: Sequence[int], nodes: int, leaves: int) -> Array:
    """Where branches lead, in the form of `Forest`; raises where one leads nowhere."""
    for target, leaf in zip(targets, is_leaf, strict=True):
        if not 0 <= target < (leaves if leaf else nodes):
            raise ShapeError(f"a branch leads to {'leaf' if leaf else 'node'} {target}, which does not exist")
    return np.array([~t if leaf else t for t, leaf in zip(targets, is_leaf, strict=True)], np.int64)


def leaf_table(leaves: Any, targets: Any, weights: Any, count: int, columns: int) -> tuple[Array, Array]:
    """The weights of each leaf for each target, and which are given."""
    if any(not 0 <= target < columns for target in targets):
        raise ShapeError(f"the targets {min(targets)} to {max(targets)}: expected 0 to {columns - 1}")
    size = check_size((count, columns), np.dtype(np.float64))
    table, given = np.zeros(size), np.zeros(size, bool)
    for leaf, target, weight in zip(leaves, targets, weights, strict=True):
        table[leaf, target] += weight
        given[leaf, target] = True
    return table, given


class NodeTrees(Op, abstract=True):
    """Trees in the older form: a node has the numbers of its tree and its own, leaves are nodes too."""

    domain: ClassVar[str] = "ai.onnx.ml"
    base_values: tuple[float, ...] | None = None
    base_values_as_tensor: Tensor | None = None
    nodes_falsenodeids: tuple[int, ...] | None = None
    nodes_featureids: tuple[int, ...] | None = None
    nodes_hitrates: tuple[float, ...] | None = None
    nodes_hitrates_as_tensor: Tensor | None = None
    nodes_missing_value_tracks_true: tuple[int, ...] | None = None
    nodes_modes: tuple[str, ...] | None = None
    nodes_nodeids: tuple[int, ...] | None = None
    nodes_treeids: tuple[int, ...] | None = None
    nodes_truenodeids: tuple[int, ...] | None = None
    nodes_values: tuple[float, ...] | None = None
    nodes_values_as_tensor: Tensor | None = None
    post_transform: str = "NONE"

    def numbers(self, name: str) -> Array:
        """A list of numbers that may be given as a tensor."""
        tensor = getattr(self, f"{name}_as_tensor")
        if tensor is not None:
            return tensor.array.reshape(-1)
        return np.array(getattr(self, name) or (), np.float32)

    def forest(self, kind: str, columns: int) -> Forest:
        """The trees with the weights of `kind`, which is class or target."""
        trees, ids, modes = self.nodes_treeids or (), self.nodes_nodeids or (), self.nodes_modes or ()
        places = {key: place for place, key in enumerate(zip(trees, ids, strict=True))}
        wrong = {mode for mode in modes if mode not in MODES[:6] and mode != "LEAF"}
        if wrong or len(places) != len(trees):
            raise ShapeError(f"nodes_modes {', '.join(sorted(wrong))}" if wrong else "two nodes have the same numbers")
        is_leaf = np.array([mode == "LEAF" for mode in modes], bool)
        splits = self.numbers("nodes_values")
        true, false = self.nodes_truenodeids or (), self.nodes_falsenodeids or ()
        lists = (self.nodes_featureids or (), modes, splits, true, false)
        if any(len(item) != len(trees) for item in lists):
            raise ShapeError("the lists nodes_* differ in length")
        weights, has_weight = self._leaf_weights(kind, places, columns)
        return Forest(
            np.where(is_leaf, 0, check_features(self.nodes_featureids or ())),
            splits.astype(np.result_type(splits.dtype, np.float32)),
            np.array([0 if mode == "LEAF" else MODES.index(mode) for mode in modes], np.int64),
            self._branches(true, places, is_leaf),
            self._branches(false, places, is_leaf),
            np.array(self.nodes_missing_value_tracks_true or (0,) * len(trees), bool),
            [],
            self._roots(places, is_leaf),
            weights,
            has_weight,
        )

    def _branches(self, targets: Sequence[int], places: dict[tuple[int, int], int], is_leaf: Array) -> Array:
        result: list[int] = []
        for place, (tree, target) in enumerate(zip(self.nodes_treeids or (), targets, strict=True)):
            found = place if is_leaf[place] else places.get((tree, target))
            if found is None:
                raise ShapeError(f"a branch of tree {tree} leads to node {target}, which does not exist")
            result.append(~found if is_leaf[found] else found)
        return np.array(result, np.int64)

    def _roots(self, places: dict[tuple[int, int], int], is_leaf: Array) -> list[int]:
        """The first node of each tree."""
        first: dict[int, int] = {}
        for (tree, _), place in places.items():
            first.setdefault(tree, place)
        return [~place if is_leaf[place] else place for place in first.values()]

    def _leaf_weights(self, kind: str, places: dict[tuple[int, int], int], columns: int) -> tuple[Array, Array]:
        trees, ids = getattr(self, f"{kind}_treeids") or (), getattr(self, f"{kind}_nodeids") or ()
        keys = list(zip(trees, ids, strict=True))
        missing = [key for key in keys if key not in places]
        if missing:
            raise ShapeError(
                f"there are weights for node {missing[0][1]} of tree {missing[0][0]}, which does not exist"
            )
        targets = getattr(self, f"{kind}_ids") or ()
        return leaf_table([places[key] for key in keys], targets, self.numbers(f"{kind}_weights"), len(places), columns)

    def rows(self, X: Array) -> Array:
        """The features in the type that they are compared in."""
        kind = np.result_type(self.numbers("nodes_values").dtype, X.dtype if X.dtype.kind == "f" else np.float32)
        return as_rows(X).astype(kind)

    def row_values(self, b: Builder, X: Value) -> Value:
        """`rows` in a graph, but for the type of the splits."""
        return row_values(b, X if X.dtype.is_float else cast(b, X, FLOAT32))


class TreeEnsembleRegressor(NodeTrees):
    """TreeEnsemble in its older form."""

    no_gradient = "it is constant between steps, so its gradient is zero"
    aggregate_function: str = "SUM"
    n_targets: int | None = None
    target_ids: tuple[int, ...] | None = None
    target_nodeids: tuple[int, ...] | None = None
    target_treeids: tuple[int, ...] | None = None
    target_weights: tuple[float, ...] | None = None
    target_weights_as_tensor: Tensor | None = None

    def infer(self, X: Value) -> TensorType:
        check_transform(self.post_transform)
        if self.aggregate_function not in AGGREGATES:
            raise ShapeError(f"aggregate_function {self.aggregate_function!r} is none of {', '.join(AGGREGATES)}")
        self.forest("target", self._targets())
        return TensorType(FLOAT32, (rows_of(X), self._targets()))

    def _targets(self) -> int:
        return max(self.target_ids or (0,)) + 1 if self.n_targets is None else self.n_targets

    def _base(self) -> Array | None:
        base = self.numbers("base_values")
        if len(base) not in (0, self._targets()):
            raise OperatorError(f"{len(base)} base_values for {self._targets()} targets")
        return base if len(base) else None

    def reference(self, X: Array) -> Array:
        base = self._base()
        scores, _ = self.forest("target", self._targets()).scores(self.rows(X), self.aggregate_function)
        return transform(scores if base is None else scores + base, self.post_transform).astype(np.float32)

    def expand(self, b: Builder, X: Value) -> Value:
        forest = self.forest("target", self._targets())
        to = FLOAT32 if self.post_transform == "NONE" else FLOAT64
        scores, _ = tree_scores(b, self.row_values(b, X), forest, self.aggregate_function, self._base(), to)
        return cast(b, transformed(b, scores, self.post_transform), FLOAT32)


class TreeEnsembleClassifier(NodeTrees):
    """The label of the class whose leaves weigh most, and the scores of all classes."""

    no_gradient = "it is constant between steps, so its gradient is zero"
    output_names: ClassVar[tuple[str, ...]] = ("Y", "Z")
    class_ids: tuple[int, ...] | None = None
    class_nodeids: tuple[int, ...] | None = None
    class_treeids: tuple[int, ...] | None = None
    class_weights: tuple[float, ...] | None = None
    class_weights_as_tensor: Tensor | None = None
    classlabels_int64s: tuple[int, ...] | None = None
    classlabels_strings: tuple[str, ...] | None = None

    def infer(self, X: Value) -> tuple[TensorType, TensorType]:
        check_transform(self.post_transform)
        labels, base = self._labels(), self.numbers("base_values")
        if len(base) not in (0, len(labels)) and (len(base), len(labels)) != (1, 2):
            raise ShapeError(f"{len(base)} base_values for {len(labels)} classes")
        self.forest("class", len(labels))
        return classifier_types(X, labels, len(labels))

    def _labels(self) -> Array:
        return label_list(self.classlabels_int64s, self.classlabels_strings)

    def reference(self, X: Array) -> tuple[Array, Array]:
        labels, weighed = self._labels(), sorted(set(self.class_ids or ()))
        scores, has_score = self.forest("class", len(labels)).scores(self.rows(X), "SUM")
        if len(labels) == 2 and len(weighed) == 1:
            best, scores = self._binary(scores, weighed[0])
        else:
            base = self.numbers("base_values")
            scores[:, : len(base)] += base
            best = np.where(has_score | (len(base) == len(labels)), scores, -np.inf).argmax(axis=1)
            scores = transform(scores, self.post_transform)
        return labels[best], scores.astype(np.float32)

    def _binary(self, scores: Array, column: int) -> tuple[Array, Array]:
        """Two classes of which the leaves weigh one only: a probability if no weight is negative, else a margin.

        As in ONNX Runtime the one score stands for the second class, also where it is in the first column.
        """
        base = self.numbers("base_values")
        is_probability = bool((self.numbers("class_weights") >= 0).all())
        if column == 0 and len(base) == 1:
            scores[:, 0] += base[0]
        elif len(base) == 2:
            scores[:, column] += base[column]
        best = (scores[:, column] > (0.5 if is_probability else 0)).astype(np.int64)
        if column == 0 and len(base) < 2:
            return best, two_classes(scores[:, :1], self.post_transform, is_probability)
        return best, transform(scores, self.post_transform)

    def expand(self, b: Builder, X: Value) -> tuple[Value, Value]:
        labels, weighed, base = self._labels(), sorted(set(self.class_ids or ())), self.numbers("base_values")
        forest, rows = self.forest("class", len(labels)), self.row_values(b, X)
        if len(labels) == 2 and len(weighed) == 1:
            best, scores = self._binary_values(b, rows, forest, weighed[0])
        else:
            added = np.pad(base.astype(np.float64), (0, len(labels) - len(base))) if len(base) else None
            scores, is_scored = tree_scores(b, rows, forest, "SUM", added)
            is_full = len(base) == len(labels)
            ranked = scores if is_full else b.Where(is_scored, scores, b.constant(-np.inf, FLOAT64))
            best = b.ArgMax(ranked, axis=1, keepdims=0)
            scores = transformed(b, scores, self.post_transform)
        return chosen_labels(b, labels, best), cast(b, scores, FLOAT32)

    def _binary_values(self, b: Builder, rows: Value, forest: Forest, column: int) -> tuple[Value, Value]:
        """`_binary` in a graph."""
        base = self.numbers("base_values")
        is_probability = bool((self.numbers("class_weights") >= 0).all())
        added = np.zeros(2)
        if column == 0 and len(base) == 1:
            added[0] = base[0]
        elif len(base) == 2:
            added[column] = base[column]
        scores, _ = tree_scores(b, rows, forest, "SUM", added)
        score = b.Slice(scores, [column], [column + 1], [1])
        best = b.Cast(b.Squeeze(b.Greater(score, 0.5 if is_probability else 0.0), [1]), to=INT64.number)
        if column == 0 and len(base) < 2:
            return best, two_class_values(b, score, self.post_transform, is_probability)
        return best, transformed(b, scores, self.post_transform)
