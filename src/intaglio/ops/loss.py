"""Losses of classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import need_integers, same_dtype
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import cast, known_shape, like, per_channel, require_equal, require_float, wide


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

    keeps_rows = Rows.BY_AXES

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


def is_class(b: Builder, target: Value, scores: Value) -> Value:
    """Whether each class along axis 1 of the scores is the target."""
    count = b.Gather(b.Shape(scores), b.constant(1))
    zero, one = (b.constant(number, INT64) for number in (0, 1))
    numbers = b.CastLike(b.Range(zero, count, one), target)
    return b.Equal(b.Unsqueeze(target, [1]), per_channel(b, numbers, scores.rank))


class CrossEntropies(Op):
    """The cross-entropy of each target with the softmax of the scores along axis 1, before it is reduced.

    With `label_smoothing`, so much of the probability is shared by all classes. A target that is no class has only that
    share. Besides it are the greatest score and the logarithm of the sum of what the others are to it, which is all
    that the gradient needs besides the scores.
    """

    domain: ClassVar[str] = "intaglio"
    output_names = ("losses", "top", "log_sum")
    pullback_outputs = 3
    label_smoothing: float = 0.0

    def expand(self, b: Builder, scores: Value, target: Value, weight: Value | None = None) -> tuple[Value, ...]:
        x = wide(b, scores)
        top = b.ReduceMax(x, [1])
        shifted = x - top
        log_sum = b.Log(b.ReduceSum(b.Exp(shifted), [1]))
        log_prob = shifted - log_sum
        if weight is not None:
            log_prob = log_prob * per_channel(b, wide(b, weight), x.rank)
        losses = -b.ReduceSum(b.Where(is_class(b, target, x), log_prob, b.constant(0, x.dtype)), [1], keepdims=0)
        if self.label_smoothing:
            smooth = -b.ReduceMean(log_prob, [1], keepdims=0)
            losses = losses * (1 - self.label_smoothing) + smooth * self.label_smoothing
        return losses, top, log_sum

    def smooth_form(self, b: Builder, scores: Value, target: Value, weight: Value | None = None) -> tuple[Value, ...]:
        return self.expand(b, scores, target, weight)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        """p_c - (1 where c is the class), for each class c; weights are constants."""
        if any(bar is not None for bar in output_bars[1:]) or (len(inputs) > 2 and inputs[2].constant is None):
            return NotImplemented
        scores, target = inputs[:2]
        weight = wide(b, inputs[2]) if len(inputs) > 2 else None
        x, bar = wide(b, scores), b.Unsqueeze(output_bars[0], [1])
        return (cast(b, class_bars(b, x, outputs[1:], target, weight, bar, self.label_smoothing), scores.dtype), None)


def class_bars(
    b: Builder, x: Value, shifts: Sequence[Value], target: Value, weight: Value | None, bar: Value, smoothing: float
) -> Value:
    """The gradient of cross-entropies by the scores, in one expression of them: nothing else is of their size."""
    # The number exp(x - top - log_sum), spelled so that the forward pass, which computes that, does not keep it.
    share, zero = b.Exp(-(shifts[0] - x + shifts[1])), b.constant(0, x.dtype)
    chosen = is_class(b, target, x)
    hits = b.Where(chosen, b.constant(1, x.dtype), zero)
    if weight is None:
        found = share - hits
        smooth = share - 1 / cast(b, b.Gather(b.Shape(x), b.constant(1)), x.dtype) if smoothing else None
    else:
        by_class = per_channel(b, weight, x.rank)
        found = (share - hits) * b.ReduceSum(b.Where(chosen, by_class, zero), [1])
        smooth = (
            share * b.ReduceMean(by_class, [1]) - by_class / cast(b, b.Size(weight), x.dtype) if smoothing else None
        )
    return found * bar if smooth is None else (found * (1 - smoothing) + smooth * smoothing) * bar


class SoftmaxCrossEntropyLoss(Op):
    """The negative log-likelihood of the labels under the softmax of the scores, and the log-probabilities."""

    keeps_rows = Rows.BY_AXES

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

    def takes_pullback(self, inputs: Sequence[Value | None], outputs: Sequence[Value]) -> bool:
        """Where nobody reads the log-probabilities, and weights are constants."""
        weights = inputs[2] if len(inputs) > 2 else None
        is_ranked = inputs[0] is not None and inputs[0].tensor.shape is not None
        is_plain = weights is None or weights.constant is not None
        return is_ranked and is_plain and not any(value.uses for value in outputs[1:])

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        """The softmax is computed anew, so that it need not be kept."""
        scores, labels = inputs[:2]
        weights = wide(b, inputs[2]) if len(inputs) > 2 and inputs[2] is not None else None
        x, bar = wide(b, scores), wide(b, output_bars[0])
        zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)
        is_ignored = None
        if self.ignore_index is not None:
            is_ignored = b.Equal(labels, b.constant(self.ignore_index, labels.dtype))
        if self.reduction == "mean":
            share = b.Expand(one, b.Shape(labels))
            if weights is not None:
                by_class = per_channel(b, weights, x.rank)
                share = b.ReduceSum(b.Where(is_class(b, labels, x), by_class, zero), [1], keepdims=0)
            counted = share if is_ignored is None else b.Where(is_ignored, zero, share)
            bar = bar / b.ReduceSum(counted, keepdims=0)
        bar = b.Expand(bar, b.Shape(labels))
        bar = b.Unsqueeze(bar if is_ignored is None else b.Where(is_ignored, zero, bar), [1])
        top = b.ReduceMax(x, [1])
        log_sum = b.Log(b.ReduceSum(b.Exp(x - top), [1]))
        return (cast(b, class_bars(b, x, (top, log_sum), labels, weights, bar, 0.0), scores.dtype), None)
