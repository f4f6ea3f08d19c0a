"""Support vector machines, in the form of libsvm, or of liblinear where there are no support vectors."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import FLOAT32, FLOAT64, INT64
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType
from intaglio.ops.ml.scores import (
    as_rows,
    check_transform,
    chosen_labels,
    classifier_types,
    label_list,
    logistic,
    row_values,
    rows_of,
    transform,
    transformed,
    two_class_values,
    two_classes,
)
from intaglio.ops.shared.operand import cast

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


class SupportVectorMachine(Op, abstract=True):
    """What the classifier and the regressor share: kernels of the rows with vectors."""

    domain: ClassVar[str] = "ai.onnx.ml"
    coefficients: tuple[float, ...] | None = None
    kernel_params: tuple[float, ...] | None = None
    kernel_type: str = "LINEAR"
    post_transform: str = "NONE"
    rho: tuple[float, ...] | None = None
    support_vectors: tuple[float, ...] | None = None

    def check(self) -> None:
        """Raise where an attribute is wrong."""
        check_transform(self.post_transform)
        if self.kernel_type not in KERNELS:
            raise ShapeError(f"kernel_type {self.kernel_type!r} is none of {', '.join(KERNELS)}")
        if self.kernel_params and len(self.kernel_params) != 3:
            raise ShapeError(f"{len(self.kernel_params)} kernel_params, expected gamma, coef0 and degree")
        if not self.coefficients or not self.rho:
            raise ShapeError("expected coefficients and rho")

    def kernel(self, rows: Array, vectors: Array, is_linear: bool = False) -> Array:
        """The kernel of each row with each vector."""
        gamma, offset, degree = self.kernel_params or (0.0, 0.0, 0.0)
        if not is_linear and self.kernel_type == "RBF":
            distance = rows[:, None, :] - vectors[None, :, :]
            return np.exp(-gamma * (distance * distance).sum(axis=2))
        product = rows @ vectors.T
        if not is_linear and self.kernel_type == "POLY":
            return (gamma * product + offset) ** degree
        return np.tanh(gamma * product + offset) if not is_linear and self.kernel_type == "SIGMOID" else product

    def kernel_values(self, b: Builder, rows: Value, vectors: Array, is_linear: bool = False) -> Value:
        """`kernel` in a graph."""
        gamma, offset, degree = self.kernel_params or (0.0, 0.0, 0.0)
        if not is_linear and self.kernel_type == "RBF":
            distances = b.apply(SquaredDistances, rows, b.constant(np.ascontiguousarray(vectors.T)))
            return b.Exp(distances * -gamma)
        product = b.MatMul(rows, b.constant(np.ascontiguousarray(vectors.T)))
        if not is_linear and self.kernel_type == "POLY":
            return (product * gamma + offset) ** degree
        return b.Tanh(product * gamma + offset) if not is_linear and self.kernel_type == "SIGMOID" else product

    def matrix(self, values: tuple[float, ...] | None, rows: int, columns: Dim) -> Array:
        """An attribute as a matrix; raises where it does not fit the features."""
        count = len(values or ())
        if dims.compare(columns * rows, count) in (-1, 1) or not values or not rows or count % rows:
            raise OperatorError(f"{count} numbers for {rows} vectors of {columns} features")
        return np.array(values, np.float64).reshape(rows, -1)


class SVMRegressor(SupportVectorMachine):
    """The weighted sum of kernels with the support vectors plus rho; its sign where `one_class`."""

    n_supports: int = 0
    one_class: int = 0

    def infer(self, X: Value) -> TensorType:
        self.check()
        return TensorType(FLOAT32, (rows_of(X), 1))

    def reference(self, X: Array) -> Array:
        rows, rho = as_rows(X).astype(np.float64), (self.rho or (0.0,))[0]
        if self.n_supports > 0:
            vectors = self.matrix(self.support_vectors, self.n_supports, rows.shape[1])
            weights = self.matrix(self.coefficients, 1, self.n_supports)
            score = self.kernel(rows, vectors) @ weights.T + rho
        else:
            score = self.kernel(rows, self.matrix(self.coefficients, 1, rows.shape[1]), is_linear=True) + rho
        return (np.where(score > 0, 1, -1) if self.one_class else score).astype(np.float32)

    def expand(self, b: Builder, X: Value) -> Value:
        rows, rho = cast(b, row_values(b, X), FLOAT64), (self.rho or (0.0,))[0]
        if self.n_supports > 0:
            vectors = self.matrix(self.support_vectors, self.n_supports, rows.shape[1])
            weights = self.matrix(self.coefficients, self.n_supports, 1)
            score = b.MatMul(self.kernel_values(b, rows, vectors), b.constant(weights)) + rho
        else:
            weights = self.matrix(self.coefficients, 1, rows.shape[1])
            score = self.kernel_values(b, rows, weights, is_linear=True) + rho
        if self.one_class:
            score = b.Where(b.Greater(score, 0.0), b.constant(1, FLOAT64), b.constant(-1, FLOAT64))
        return cast(b, score, FLOAT32)


class SVMClassifier(SupportVectorMachine):
    """The class with the most votes among all pairs of classes, and the pairs' scores or the classes' probabilities."""

    output_names: ClassVar[tuple[str, ...]] = ("Y", "Z")
    classlabels_ints: tuple[int, ...] | None = None
    classlabels_strings: tuple[str, ...] | None = None
    prob_a: tuple[float, ...] | None = None
    prob_b: tuple[float, ...] | None = None
    vectors_per_class: tuple[int, ...] | None = None

    def infer(self, X: Value) -> tuple[TensorType, TensorType]:
        self.check()
        labels = self._labels()
        pairs = len(labels) * (len(labels) - 1) // 2
        if self.vectors_per_class and len(self.vectors_per_class) != len(labels):
            raise ShapeError(f"{len(self.vectors_per_class)} vectors_per_class for {len(labels)} classes")
        if self.vectors_per_class and len(self.rho or ()) < pairs:
            raise ShapeError(f"{len(self.rho or ())} rho for {pairs} pairs of classes")
        if len(self.prob_a or ()) != len(self.prob_b or ()) or (self.prob_a and len(self.prob_a) < pairs):
            raise ShapeError(f"{len(self.prob_a or ())} prob_a and {len(self.prob_b or ())} prob_b for {pairs} pairs")
        is_paired = bool(self.vectors_per_class) and not self.prob_a and len(labels) > 2
        return classifier_types(X, labels, pairs if is_paired else max(len(labels), 2 if self.vectors_per_class else 1))

    def _labels(self) -> Array:
        return label_list(self.classlabels_ints, self.classlabels_strings)

    def reference(self, X: Array) -> tuple[Array, Array]:
        rows, labels = as_rows(X).astype(np.float32).astype(np.float64), self._labels()
        best, scores = self._votes(rows, len(labels)) if self.vectors_per_class else self._linear(rows, len(labels))
        return labels[best], scores.astype(np.float32)

    def expand(self, b: Builder, X: Value) -> tuple[Value, Value]:
        rows, labels = cast(b, cast(b, row_values(b, X), FLOAT32), FLOAT64), self._labels()
        values = self._vote_values if self.vectors_per_class else self._linear_values
        best, scores = values(b, rows, len(labels))
        return chosen_labels(b, labels, best), cast(b, scores, FLOAT32)

    def _linear_values(self, b: Builder, rows: Value, count: int) -> tuple[Value, Value]:
        """`_linear` in a graph."""
        weights = self.matrix(self.coefficients, count, rows.shape[1])
        scores = self.kernel_values(b, rows, weights, is_linear=True) + (self.rho or (0.0,))[0]
        best = b.ArgMax(scores, axis=1, keepdims=0)
        if count == 2 and not self.prob_a:
            top = b.ReduceMax(scores, [1], keepdims=0)
            is_second = b.GreaterOrEqual(top, 0.5) if (weights >= 0).all() else b.Greater(top, 0.0)
            best = b.Where(is_second, b.constant(1, INT64), best)
        return best, transformed(b, scores, self.post_transform)

    def _vote_values(self, b: Builder, rows: Value, count: int) -> tuple[Value, Value]:
        """`_votes` in a graph."""
        margins = self._margin_values(b, rows, count)
        pairs = list(combinations(range(count), 2))
        first, second = (np.eye(count)[[pair[side] for pair in pairs]].reshape(-1, count) for side in (0, 1))
        is_first, is_second = (
            cast(b, test, FLOAT64) for test in (b.Greater(margins, 0.0), b.LessOrEqual(margins, 0.0))
        )
        votes = b.MatMul(is_first, b.constant(first)) + b.MatMul(is_second, b.constant(second))
        best = b.ArgMax(votes, axis=1, keepdims=0)
        if self.prob_a:
            chances = self._chance_values(b, margins, len(pairs))
            chances = b.apply(CoupledChances, chances, count=count)
            return best, transformed(b, chances, self.post_transform)
        if count <= 2:
            is_probability = self.post_transform != "NONE"
            return best, two_class_values(b, margins, self.post_transform, is_probability)
        return best, transformed(b, margins, self.post_transform)

    def _margin_values(self, b: Builder, rows: Value, count: int) -> Value:
        """`_margins` in a graph."""
        sizes = self.vectors_per_class or ()
        vectors = self.matrix(self.support_vectors, sum(sizes), rows.shape[1])
        coefficients = self.matrix(self.coefficients, count - 1, sum(sizes))
        part = [slice(a, z) for a, z in pairwise(np.cumsum([0, *sizes]).tolist())]
        pairs = list(combinations(range(count), 2))
        weights = np.zeros((sum(sizes), len(pairs)))
        for column, (i, j) in enumerate(pairs):
            weights[part[i], column] = coefficients[j - 1, part[i]]
            weights[part[j], column] = coefficients[i, part[j]]
        return b.MatMul(self.kernel_values(b, rows, vectors), b.constant(weights)) + b.constant(
            np.array((self.rho or ())[: len(pairs)])
        )

    def _chance_values(self, b: Builder, margins: Value, pairs: int) -> Value:
        slope, offset = (np.array((each or ())[:pairs], np.float64) for each in (self.prob_a, self.prob_b))
        chances = 1 - b.Sigmoid(margins * b.constant(slope) + b.constant(offset))
        return b.Clip(chances, 1e-7, 1 - 1e-7)

    def _linear(self, rows: Array, count: int) -> tuple[Array, Array]:
        weights = self.matrix(self.coefficients, count, rows.shape[1])
        scores = self.kernel(rows, weights, is_linear=True) + (self.rho or (0.0,))[0]
        best, top = scores.argmax(axis=1), scores.max(axis=1)
        if count == 2 and not self.prob_a:
            # ONNX Runtime's rule for two classes: a best score beyond the threshold means the second class.
            is_second = top >= 0.5 if (weights >= 0).all() else top > 0
            best = np.where(is_second, 1, best)
        return best, transform(scores, self.post_transform)

    def _votes(self, rows: Array, count: int) -> tuple[Array, Array]:
        margins = self._margins(rows, count)
        votes = np.zeros((len(rows), count))
        for column, (i, j) in enumerate(combinations(range(count), 2)):
            votes[:, i] += margins[:, column] > 0
            votes[:, j] += margins[:, column] <= 0
        best = votes.argmax(axis=1)
        if self.prob_a:
            return best, transform(self._probabilities(margins, count), self.post_transform)
        if count <= 2:
            return best, two_classes(margins, self.post_transform, is_probability=self.post_transform != "NONE")
        return best, transform(margins, self.post_transform)

    def _margins(self, rows: Array, count: int) -> Array:
        """The score of each pair of classes; above zero it speaks for the first."""
        sizes = self.vectors_per_class or ()
        total = sum(sizes)
        kernels = self.kernel(rows, self.matrix(self.support_vectors, total, rows.shape[1]))
        weights = self.matrix(self.coefficients, count - 1, total)
        ends = np.cumsum([0, *sizes])
        part = [slice(a, b) for a, b in pairwise(ends.tolist())]
        columns = [
            kernels[:, part[i]] @ weights[j - 1, part[i]] + kernels[:, part[j]] @ weights[i, part[j]]
            for i, j in combinations(range(count), 2)
        ]
        return np.stack(columns, axis=1) + np.array((self.rho or ())[: len(columns)])

    def _probabilities(self, margins: Array, count: int) -> Array:
        pairs = [
            1 - logistic(m * a + b) for m, a, b in zip(margins.T, self.prob_a or (), self.prob_b or (), strict=False)
        ]
        return CoupledChances(count=count).reference(np.clip(np.stack(pairs, axis=1), 1e-7, 1 - 1e-7))


class SquaredDistances(Op):
    """The squared distance of each row from each vector, which is a column of `vectors`."""

    domain: ClassVar[str] = "intaglio"

    def infer(self, rows: Value, vectors: Value) -> TensorType:
        return rows.tensor.with_shape((rows.shape[0], vectors.shape[1]))

    def reference(self, rows: Array, vectors: Array) -> Array:
        return np.square(rows[:, :, None] - vectors).sum(axis=1)

    def smooth_form(self, b: Builder, rows: Value, vectors: Value) -> Value:
        difference = b.Unsqueeze(rows, [2]) - vectors
        return b.ReduceSum(difference * difference, [1], keepdims=0)


class CoupledChances(Op):
    """The classes' probabilities from those of all pairs of classes, a column for each pair."""

    no_gradient = "an iteration computes it"
    domain: ClassVar[str] = "intaglio"
    count: int

    def infer(self, pairs: Value) -> TensorType:
        return pairs.tensor.with_shape((pairs.shape[0], self.count))

    def reference(self, pairs: Array) -> Array:
        table = np.zeros((len(pairs), self.count, self.count))
        for chance, (i, j) in zip(pairs.T, combinations(range(self.count), 2), strict=True):
            table[:, i, j] = chance
            table[:, j, i] = 1 - chance
        return np.array([coupled(row) for row in table]).reshape(len(pairs), self.count)


def coupled(pairs: Array) -> Array:
    """The classes' probabilities from those of the pairs, by the second method of Wu, Lin and Weng (2004)."""
    count = len(pairs)
    matrix = -pairs.T * pairs
    np.fill_diagonal(matrix, (pairs * pairs).sum(axis=0))
    chances = np.full(count, 1 / count)
    for _ in range(100):
        product = matrix @ chances
        total = chances @ product
        if np.abs(product - total).max() < 0.005 / count:
            break
        for i in range(count):
            step = (total - product[i]) / matrix[i, i]
            chances[i] += step
            total = (total + step * (step * matrix[i, i] + 2 * product[i])) / (1 + step) ** 2
            product = (product + step * matrix[i]) / (1 + step)
            chances /= 1 + step
    return chances
