"""Losses: how far a prediction is from its target, as nodes of a graph. What they mean is what PyTorch's mean."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT64, INT64
from intaglio.ir.graph import Value
from intaglio.ir.types import TensorType
from intaglio.ops.loss import CrossEntropies, is_class
from intaglio.ops.shared.operand import per_channel, wide
from intaglio.record import Record

Array = np.ndarray[Any, Any]


class Loss(Record):
    """A loss of one prediction and one target. `reduction` is "mean" or "sum"."""

    reduction: str = "mean"
    reductions: ClassVar[tuple[str, ...]] = ("mean", "sum")

    def __post_init__(self) -> None:
        if self.reduction not in self.reductions:
            raise InputError(f"reduction is {self.reduction!r}, expected {' or '.join(map(repr, self.reductions))}")

    def target_type(self, prediction: Value) -> TensorType:
        """The type of the target that belongs to a prediction."""
        return prediction.tensor

    def build(self, b: Builder, prediction: Value, target: Value) -> Value:
        """Add the loss to a graph: a scalar, in single precision at least."""
        with b.active():
            return self.reduced(b, self.elements(b, wide(b, prediction), target))

    def elements(self, b: Builder, x: Value, target: Value) -> Value:
        """The loss of each element."""
        raise NotImplementedError

    def reduced(self, b: Builder, loss: Value) -> Value:
        """One number of the losses of all elements."""
        return b.ReduceMean(loss, keepdims=0) if self.reduction == "mean" else b.ReduceSum(loss, keepdims=0)

    def as_target(self, target: Array) -> Array:
        """The target as the step takes it: class numbers of any integer type are numbers of 64 bits."""
        return target

    def check_target(self, target: Array, prediction: Value) -> None:
        """Raise InputError for a target that no prediction can have."""


class MSE(Loss):
    """The square of the difference."""

    def elements(self, b: Builder, x: Value, target: Value) -> Value:
        difference = x - wide(b, target)
        return difference * difference


class L1(Loss):
    """The absolute difference."""

    def elements(self, b: Builder, x: Value, target: Value) -> Value:
        return b.Abs(x - wide(b, target))


class Huber(Loss):
    """Half the square of the difference up to `delta`, and a straight line beyond."""

    delta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.delta > 0:
            raise InputError(f"delta is {self.delta}, expected more than 0")

    def elements(self, b: Builder, x: Value, target: Value) -> Value:
        difference = x - wide(b, target)
        size = b.Abs(difference)
        line = (size - 0.5 * self.delta) * self.delta
        return b.Where(size < self.delta, difference * difference * 0.5, line)


class BCEWithLogits(Loss):
    """Binary cross-entropy of scores; `pos_weight` weighs the positive targets, one number or one for each class."""

    pos_weight: Any = None

    def elements(self, b: Builder, x: Value, target: Value) -> Value:
        t, softplus = wide(b, target), b.Softplus(-x)
        if self.pos_weight is not None:
            weight = b.constant(np.asarray(self.pos_weight), x.dtype, "pos_weight")
            softplus = softplus * ((weight - 1.0) * t + 1.0)
        return (1.0 - t) * x + softplus


class KLDiv(Loss):
    """Kullback-Leibler divergence of log-probabilities from probabilities, or from logarithms of them (`log_target`).

    "mean" is over all elements, as in PyTorch; "batchmean" is what mathematics calls the divergence.
    """

    log_target: bool = False
    reductions: ClassVar[tuple[str, ...]] = ("mean", "sum", "batchmean")

    def elements(self, b: Builder, x: Value, target: Value) -> Value:
        t = wide(b, target)
        if self.log_target:
            return b.Exp(t) * (t - x)
        entropy = b.Where(t > 0.0, t * b.Log(b.Where(t > 0.0, t, b.constant(1, t.dtype))), b.constant(0, t.dtype))
        return entropy - t * x

    def reduced(self, b: Builder, loss: Value) -> Value:
        if self.reduction != "batchmean":
            return super().reduced(b, loss)
        batch = b.Cast(b.Gather(b.Shape(loss), b.constant(0, INT64)), to=loss.dtype.number)
        return b.ReduceSum(loss, keepdims=0) / batch


class NLL(Loss):
    """Minus the log-probability of the right class; the prediction has the classes along axis 1.

    `weight` has a weight for each class, by which the mean is divided; targets of `ignore_index` do not count.
    """

    weight: Any = None
    ignore_index: int = -100

    def target_type(self, prediction: Value) -> TensorType:
        shape = prediction.tensor.shape
        if shape is None or len(shape) < 2:
            raise InputError(
                f"{self.name} needs a prediction of classes along axis 1, and {prediction.name!r} is {prediction.type}"
            )
        return TensorType(INT64, (shape[0], *shape[2:]))

    @property
    def name(self) -> str:
        """What the loss is called."""
        return type(self).__name__

    def build(self, b: Builder, prediction: Value, target: Value) -> Value:
        with b.active():
            return self.of_classes(b, wide(b, prediction), target)

    def of_classes(self, b: Builder, log_prob: Value, target: Value) -> Value:
        """The loss of log-probabilities."""
        weights = self._weights(b, log_prob)
        weighted = log_prob if weights is None else log_prob * per_channel(b, weights, log_prob.rank)
        chosen = b.Where(is_class(b, target, log_prob), weighted, b.constant(0, log_prob.dtype))
        return self.of_rows(b, -b.ReduceSum(chosen, [1], keepdims=0), log_prob, target)

    def of_rows(self, b: Builder, loss: Value, scores: Value, target: Value) -> Value:
        """One number of the losses of all targets. A target that is no class makes it NaN."""
        zero, count = b.constant(0, loss.dtype), b.Gather(b.Shape(scores), b.constant(1, INT64))
        is_known = b.And(b.GreaterOrEqual(target, b.constant(0, INT64)), b.Less(target, count))
        loss = b.Where(is_known, loss, b.constant(np.nan, loss.dtype))
        is_ignored = b.Equal(target, b.constant(self.ignore_index, INT64))
        total = b.ReduceSum(b.Where(is_ignored, zero, loss), keepdims=0)
        if self.reduction == "sum":
            return total
        share, weights = b.constant(1, loss.dtype), self._weights(b, scores)
        if weights is not None:
            by_class = per_channel(b, weights, scores.rank)
            share = b.ReduceSum(b.Where(is_class(b, target, scores), by_class, zero), [1], keepdims=0)
        return total / b.ReduceSum(b.Where(is_ignored, zero, share), keepdims=0)

    def _weights(self, b: Builder, scores: Value) -> Value | None:
        return None if self.weight is None else b.constant(np.asarray(self.weight), scores.dtype, "class_weight")

    def as_target(self, target: Array) -> Array:
        return target.astype(np.int64) if target.dtype.kind in "iu" else target

    def check_target(self, target: Array, prediction: Value) -> None:
        classes = prediction.shape[1]
        if target.dtype.kind not in "iu":
            return
        wrong = (target != self.ignore_index) & (
            (target < 0) | (target >= classes if isinstance(classes, int) else False)
        )
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise InputError(
                f"the target holds {int(target[place])} at {list(place)}, and the prediction {prediction.name!r} has "
                f"{classes} classes: labels go from 0, and {self.ignore_index} is ignored"
            )


class CrossEntropy(NLL):
    """Negative log-likelihood of the classes under the softmax of the scores, which stand along axis 1.

    With `label_smoothing`, so much of the probability is shared by all classes. With `soft`, the target is
    probabilities of the shape of the prediction instead of class numbers.
    """

    label_smoothing: float = 0.0
    soft: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.label_smoothing <= 1:
            raise InputError(f"label_smoothing is {self.label_smoothing}, expected 0 to 1")

    def target_type(self, prediction: Value) -> TensorType:
        labels = super().target_type(prediction)
        return prediction.tensor if self.soft else labels

    def build(self, b: Builder, prediction: Value, target: Value) -> Value:
        with b.active():
            x = wide(b, prediction)
            if self.soft:
                return self._of_probabilities(b, b.LogSoftmax(x, axis=1), wide(b, target))
            return self.of_rows(b, self._of_classes(b, x, target), x, target)

    def _of_classes(self, b: Builder, x: Value, target: Value) -> Value:
        """The loss of each target. Attributes are single numbers, so double precision is smoothed without one."""
        weights, is_double = self._weights(b, x), x.dtype == FLOAT64
        operands = [x, target, *([] if weights is None else [weights])]
        (losses, _, _) = b.add(CrossEntropies(label_smoothing=0.0 if is_double else self.label_smoothing), operands, 3)
        if not self.label_smoothing or not is_double:
            return losses
        log_prob = b.LogSoftmax(x, axis=1)
        if weights is not None:
            log_prob = log_prob * per_channel(b, weights, x.rank)
        shared = -b.ReduceMean(log_prob, [1], keepdims=0)
        return losses * (1 - self.label_smoothing) + shared * self.label_smoothing

    def _of_probabilities(self, b: Builder, log_prob: Value, t: Value) -> Value:
        if self.label_smoothing:
            count = b.Cast(b.Gather(b.Shape(t), b.constant(1, INT64)), to=t.dtype.number)
            t = t * (1 - self.label_smoothing) + self.label_smoothing / count
        if self.weight is not None:
            log_prob = log_prob * per_channel(b, b.constant(np.asarray(self.weight), t.dtype), t.rank)
        loss = -b.ReduceSum(t * log_prob, [1], keepdims=0)
        return self.reduced(b, loss)

    def as_target(self, target: Array) -> Array:
        return target if self.soft else super().as_target(target)

    def check_target(self, target: Array, prediction: Value) -> None:
        if not self.soft:
            super().check_target(target, prediction)


LOSSES: dict[str, type[Loss]] = {
    "cross_entropy": CrossEntropy,
    "nll": NLL,
    "mse": MSE,
    "l1": L1,
    "huber": Huber,
    "bce_with_logits": BCEWithLogits,
    "kl_div": KLDiv,
}


def named(name: Any, known: dict[str, Any], what: str) -> Any:
    """The entry of a name; raises InputError with those that there are."""
    if not isinstance(name, str) or name not in known:
        near = get_close_matches(name, known, 1) if isinstance(name, str) else []
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        raise InputError(f"there is no {what} {name!r}; {hint}")
    return known[name]
