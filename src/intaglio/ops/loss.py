"""Losses of classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType
from intaglio.ops.indices import need_integers, same_dtype
from intaglio.ops.indices import wide as widen
from intaglio.ops.operand import cast, known_shape, like, require_equal, require_float, wide


def _loss_type(scores: Value, labels: Value, weights: Value | None, reduction: str) -> TensorType:
    """The type of a loss, once scores, labels and weights are checked against each other."""
    require_float(scores, weights)
    same_dtype(scores, weights)
    need_integers(labels)
    if reduction not in ("none", "sum", "mean"):
        raise ShapeError(f"reduction is {reduction!r}, it must be none, sum or mean")
    shape, found = known_shape(scores, least=2), known_shape(labels)
    if shape is not None and found is not None:
        if len(found) != len(shape) - 1:
            raise ShapeError(f"{labels.name} has rank {len(found)}, {len(shape) - 1} is needed")
        for left, right in zip((shape[0], *shape[2:]), found, strict=True):
            require_equal(left, right, "the sizes of scores and labels")
    if weights is not None and shape is not None:
        require_equal((known_shape(weights, rank=1) or (shape[1],))[0], shape[1], "the weights and the classes")
    return scores.tensor.with_shape(found if reduction == "none" else ())


class NegativeLogLikelihoodLoss(Op):
    """Minus the log-probability of each target class, weighted and reduced."""

    ignore_index: int | None = None
    reduction: str = "mean"

    def infer(self, input: Value, target: Value, weight: Value | None = None) -> TensorType:
        return _loss_type(input, target, weight, self.reduction)

    def reference(self, input: Array, target: Array, weight: Array | None = None) -> Array:
        x, classes = widen(input), input.shape[1]
        is_ignored = np.zeros(target.shape, np.bool_) if self.ignore_index is None else target == self.ignore_index
        labels = np.where(is_ignored, 0, target).astype(np.int64)
        if labels.size and not (labels.min() >= 0 and labels.max() < classes):
            raise OperatorError(f"labels from {labels.min()} to {labels.max()}, they must be in [0, {classes - 1}]")
        share = np.ones(labels.shape, x.dtype) if weight is None else widen(weight)[labels]
        share = np.where(is_ignored, x.dtype.type(0), share)
        loss = -np.take_along_axis(x, labels[:, None], axis=1)[:, 0] if classes else np.zeros(labels.shape, x.dtype)
        loss = np.where(is_ignored, x.dtype.type(0), loss * share)
        if self.reduction == "none":
            return like(loss, input)
        total = loss.sum(dtype=x.dtype)
        return like(np.asarray(total if self.reduction == "sum" else total / share.sum(dtype=x.dtype)), input)

    def expand(self, b: Builder, input: Value, target: Value, weight: Value | None = None) -> Value:
        x, zero = wide(b, input), b.constant(0, wide(b, input).dtype)
        is_ignored = None if self.ignore_index is None else b.Equal(target, b.constant(self.ignore_index, target.dtype))
        labels = target if is_ignored is None else b.Where(is_ignored, b.constant(0, target.dtype), target)
        classes = b.CastLike(b.Gather(b.Shape(input), b.constant(1)), target)
        labels = b.Where(b.Less(labels, b.constant(0, target.dtype)), classes, labels)  # no label counts from the end
        picked = b.Squeeze(b.GatherElements(x, b.Unsqueeze(labels, [1]), axis=1), [1])
        share = b.Expand(zero + 1, b.Shape(target)) if weight is None else b.Gather(wide(b, weight), labels)
        loss = -picked * share
        if is_ignored is not None:
            share, loss = b.Where(is_ignored, zero, share), b.Where(is_ignored, zero, loss)
        if self.reduction != "none":
            total = b.ReduceSum(loss, keepdims=0)
            loss = total if self.reduction == "sum" else total / b.ReduceSum(share, keepdims=0)
        return cast(b, loss, input.dtype)


class SoftmaxCrossEntropyLoss(Op):
    """The negative log-likelihood of the labels under the softmax of the scores, and the log-probabilities."""

    output_names = ("output", "log_prob")
    ignore_index: int | None = None
    reduction: str = "mean"

    def infer(self, scores: Value, labels: Value, weights: Value | None = None) -> Any:
        return _loss_type(scores, labels, weights, self.reduction), scores.tensor

    def expand(self, b: Builder, scores: Value, labels: Value, weights: Value | None = None) -> tuple[Value, Value]:
        log_prob = b.LogSoftmax(wide(b, scores), axis=1)
        wide_weights = None if weights is None else wide(b, weights)
        loss = b.NegativeLogLikelihoodLoss(
            log_prob, labels, wide_weights, ignore_index=self.ignore_index, reduction=self.reduction
        )
        return cast(b, loss, scores.dtype), cast(b, log_prob, scores.dtype)
