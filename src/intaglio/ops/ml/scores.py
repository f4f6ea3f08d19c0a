"""What the models of ai.onnx.ml share: rows of features, class labels and the transformation of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import FLOAT32, INT64, STRING
from intaglio.ir.graph import Value
from intaglio.ir.op import Array
from intaglio.ir.types import TensorType

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def rows_of(X: Value) -> Dim:
    """The number of rows of features; a tensor of rank 1 is one row."""
    if X.tensor.shape is None:
        return dims.fresh()
    if X.rank not in (1, 2):
        raise ShapeError(f"{X.name} has rank {X.rank}, expected rows of features (rank 1 or 2)")
    return 1 if X.rank == 1 else X.shape[0]


def as_rows(X: Array) -> Array:
    """The features as a matrix."""
    if X.ndim not in (1, 2):
        raise OperatorError(f"features of shape {list(X.shape)}, expected rank 1 or 2")
    return X.reshape(1, -1) if X.ndim == 1 else X


def label_list(ints: tuple[int, ...] | None, strings: tuple[str, ...] | None) -> Array:
    """The class labels, of whichever type is given."""
    if bool(ints) == bool(strings):
        raise ShapeError("expected class labels either as integers or as strings")
    return np.array(ints, np.int64) if ints else np.array(strings, object)


def classifier_types(X: Value, labels: Array, scores: int) -> tuple[TensorType, TensorType]:
    """The types of the labels and of the scores."""
    rows = rows_of(X)
    dtype = STRING if labels.dtype == object else INT64
    return TensorType(dtype, (rows,)), TensorType(FLOAT32, (rows, scores))


def check_transform(name: str) -> None:
    """Raise where a transformation is not one of ONNX's."""
    if name not in TRANSFORMS:
        raise ShapeError(f"post_transform {name!r} is none of {', '.join(TRANSFORMS)}")


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    half = 1 / (1 + np.exp(-np.abs(x)))
    return np.where(x < 0, 1 - half, half)


def probit(x: Array) -> Array:
    """The quantile of the normal distribution, by Winitzki's approximation, which the ecosystem's runtimes share."""
    centred = 2 * x - 1
    log = np.log((1 - centred) * (1 + centred))
    a = 2 / (3.14159 * 0.147) + log / 2
    return np.sqrt(2) * np.sign(centred) * np.sqrt(np.sqrt(a * a - log / 0.147) - a)


def softmax(x: Array) -> Array:
    """exp(x) divided by its sum over a row."""
    weight = np.exp(x - x.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def softmax_zero(x: Array) -> Array:
    """Softmax over the scores that are not zero; those that are stay so."""
    top = x.max(axis=1, keepdims=True)
    is_zero = np.abs(x) <= 1e-7
    weight = np.where(is_zero, x * np.exp(-top), np.exp(x - top))
    total = np.where(is_zero, 0, weight).sum(axis=1, keepdims=True)
    return weight / np.where(total == 0, 1, total)


def transform(scores: Array, name: str) -> Array:
    """Rows of scores after the transformation; a single score a row knows PROBIT only, as in ONNX Runtime."""
    if scores.shape[1] == 1 and name != "PROBIT":
        return scores
    functions: dict[str, Any] = {
        "SOFTMAX": softmax,
        "LOGISTIC": logistic,
        "SOFTMAX_ZERO": softmax_zero,
        "PROBIT": probit,
    }
    return functions[name](scores) if name in functions and scores.size else scores


def two_classes(score: Array, name: str, is_probability: bool) -> Array:
    """Scores of both classes from that of the second: p gives 1 - p, a margin s gives -s."""
    if name == "LOGISTIC":
        return np.concatenate([logistic(-score), logistic(score)], axis=1)
    both = np.concatenate([1 - score if is_probability else -score, score], axis=1)
    return probit(both) if name == "PROBIT" else both


def row_values(b: Builder, X: Value) -> Value:
    """`as_rows` in a graph."""
    rows_of(X)
    return b.Unsqueeze(X, [0]) if X.rank == 1 else X


def probit_values(b: Builder, x: Value) -> Value:
    """`probit` in a graph."""
    centred = x * 2 - 1
    log = b.Log((1 - centred) * (1 + centred))
    a = log / 2 + 2 / (3.14159 * 0.147)
    return b.Sign(centred) * np.sqrt(2) * b.Sqrt(b.Sqrt(a * a - log / 0.147) - a)


def softmax_zero_values(b: Builder, x: Value) -> Value:
    """`softmax_zero` in a graph."""
    top = b.ReduceMax(x, [1])
    is_zero = b.LessOrEqual(b.Abs(x), 1e-7)
    weight = b.Where(is_zero, x * b.Exp(-top), b.Exp(x - top))
    total = b.ReduceSum(b.Where(is_zero, b.constant(0, x.dtype), weight), [1])
    return weight / b.Where(b.Equal(total, 0), b.constant(1, x.dtype), total)


def transformed(b: Builder, scores: Value, name: str) -> Value:
    """`transform` in a graph."""
    if scores.shape[1] == 1 and name != "PROBIT":
        return scores
    match name:
        case "SOFTMAX":
            return b.Softmax(scores, axis=1)
        case "LOGISTIC":
            return b.Sigmoid(scores)
        case "SOFTMAX_ZERO":
            return softmax_zero_values(b, scores)
        case "PROBIT":
            return probit_values(b, scores)
        case _:
            return scores


def two_class_values(b: Builder, score: Value, name: str, is_probability: bool) -> Value:
    """`two_classes` in a graph."""
    if name == "LOGISTIC":
        return b.Concat(b.Sigmoid(-score), b.Sigmoid(score), axis=1)
    both = b.Concat(1 - score if is_probability else -score, score, axis=1)
    return probit_values(b, both) if name == "PROBIT" else both


def chosen_labels(b: Builder, labels: Array, best: Value) -> Value:
    """The labels at the given places, which are in range."""
    return b.Gather(b.constant(labels), best)
