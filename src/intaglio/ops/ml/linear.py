"""Linear models."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType
from intaglio.ops.ml.scores import (
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
from intaglio.ops.shared.indices import check_size
from intaglio.ops.shared.operand import cast


def linear_scores(X: Array, coefficients: tuple[float, ...], intercepts: tuple[float, ...] | None, count: int) -> Array:
    """X @ coefficients^T + intercepts, one column for each of `count` targets."""
    rows = as_rows(X).astype(np.float32)
    check_size((len(rows), count), rows.dtype)
    weights = _weights(coefficients, count, rows.shape[1])
    return rows @ weights.T + np.array(intercepts or (0.0,) * count, np.float32)


def linear_values(
    b: Builder, X: Value, coefficients: tuple[float, ...], intercepts: tuple[float, ...] | None, count: int
) -> Value:
    """`linear_scores` in a graph."""
    rows = cast(b, row_values(b, X), FLOAT32)
    weights = _weights(coefficients, count, rows.shape[1])
    scores = b.MatMul(rows, b.constant(np.ascontiguousarray(weights.T)))
    return scores + b.constant(intercepts, FLOAT32) if intercepts else scores


def _weights(coefficients: tuple[float, ...], count: int, features: Dim) -> Array:
    if dims.compare(features * count, len(coefficients)) in (-1, 1) or not coefficients or len(coefficients) % count:
        raise OperatorError(f"{len(coefficients)} coefficients for {count} targets of {features} features")
    return np.array(coefficients, np.float32).reshape(count, -1)


class LinearRegressor(Op):
    """X @ coefficients^T + intercepts."""

    domain: ClassVar[str] = "ai.onnx.ml"
    coefficients: tuple[float, ...] | None = None
    intercepts: tuple[float, ...] | None = None
    post_transform: str = "NONE"
    targets: int = 1

    def infer(self, X: Value) -> TensorType:
        check_transform(self.post_transform)
        if self.targets < 1 or (self.intercepts and len(self.intercepts) != self.targets):
            raise ShapeError(f"{len(self.intercepts or ())} intercepts for {self.targets} targets")
        return TensorType(FLOAT32, (rows_of(X), self.targets))

    def reference(self, X: Array) -> Array:
        scores = linear_scores(X, self.coefficients or (), self.intercepts, self.targets)
        return transform(scores, self.post_transform).astype(np.float32)

    def expand(self, b: Builder, X: Value) -> Value:
        scores = linear_values(b, X, self.coefficients or (), self.intercepts, self.targets)
        return transformed(b, scores, self.post_transform)


class LinearClassifier(Op):
    """The label of the best of X @ coefficients^T + intercepts, and these scores."""

    domain: ClassVar[str] = "ai.onnx.ml"
    output_names: ClassVar[tuple[str, ...]] = ("Y", "Z")
    classlabels_ints: tuple[int, ...] | None = None
    classlabels_strings: tuple[str, ...] | None = None
    coefficients: tuple[float, ...]
    intercepts: tuple[float, ...] | None = None
    multi_class: int = 0
    post_transform: str = "NONE"

    def infer(self, X: Value) -> tuple[TensorType, TensorType]:
        check_transform(self.post_transform)
        labels = self._labels()
        if self._is_binary(labels):
            return classifier_types(X, labels, 2)
        if self.intercepts and len(self.intercepts) != len(labels):
            raise ShapeError(f"{len(self.intercepts)} intercepts for {len(labels)} classes")
        return classifier_types(X, labels, len(labels))

    def _labels(self) -> Array:
        return label_list(self.classlabels_ints, self.classlabels_strings)

    def _is_binary(self, labels: Array) -> bool:
        """Whether one score stands for two classes."""
        return len(labels) == 2 and len(self.intercepts or ()) == 1

    def reference(self, X: Array) -> tuple[Array, Array]:
        labels = self._labels()
        is_binary = self._is_binary(labels)
        scores = linear_scores(X, self.coefficients, self.intercepts, 1 if is_binary else len(labels))
        best = (scores[:, 0] > 0).astype(np.int64) if is_binary else scores.argmax(axis=1)
        if is_binary:
            scores = two_classes(scores, self.post_transform, is_probability=True)
        else:
            scores = transform(scores, self.post_transform)
        return labels[best], scores.astype(np.float32)

    def expand(self, b: Builder, X: Value) -> tuple[Value, Value]:
        labels = self._labels()
        is_binary = self._is_binary(labels)
        scores = linear_values(b, X, self.coefficients, self.intercepts, 1 if is_binary else len(labels))
        if is_binary:
            best = b.Cast(b.Squeeze(b.Greater(scores, 0.0), [1]), to=INT64.number)
            scores = two_class_values(b, scores, self.post_transform, is_probability=True)
        else:
            best = b.ArgMax(scores, axis=1, keepdims=0)
            scores = transformed(b, scores, self.post_transform)
        return chosen_labels(b, labels, best), scores
