"""Support vector machines, in the form of libsvm, or of liblinear where there are no support vectors."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType
from intaglio.ops.ml.scores import (
    as_rows,
    check_transform,
    classifier_types,
    label_list,
    logistic,
    rows_of,
    transform,
    two_classes,
)

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

    def matrix(self, values: tuple[float, ...] | None, rows: int, columns: int) -> Array:
        """An attribute as a matrix; raises where it does not fit the features."""
        if len(values or ()) != rows * columns or not values:
            raise OperatorError(f"{len(values or ())} numbers for {rows} vectors of {columns} features")
        return np.array(values, np.float64).reshape(rows, columns)


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
        table = np.zeros((len(margins), count, count))
        for chance, (i, j) in zip(pairs, combinations(range(count), 2), strict=True):
            table[:, i, j] = np.clip(chance, 1e-7, 1 - 1e-7)
            table[:, j, i] = 1 - table[:, i, j]
        return np.array([coupled(row) for row in table]).reshape(len(margins), count)


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
