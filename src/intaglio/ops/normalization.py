"""Normalizations by statistics of a batch, a layer, a group, an instance or a neighbourhood, and Dropout."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, FLOAT64, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows, Work
from intaglio.ir.requirements import need_multiple
from intaglio.ir.types import TensorType
from intaglio.ops.random import fractions, words
from intaglio.ops.shared.gradient import root
from intaglio.ops.shared.indices import resolve_axes, resolve_axis, same_dtype
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import (
    EPSILON,
    along,
    cast,
    float_type,
    known_shape,
    like,
    per_channel,
    require_equal,
    require_float,
    spatial_axes,
    wide,
    wide_dtype,
)


def moments(b: Builder, x: Value, axes: list[int]) -> tuple[Value, Value, Value]:
    """Mean, population variance and the deviation from the mean along axes, which are kept."""
    mean = b.ReduceMean(x, axes, noop_with_empty_axes=1)
    deviation = x - mean
    return mean, b.ReduceMean(deviation * deviation, axes, noop_with_empty_axes=1), deviation


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean along axes, which are kept; that of nothing is NaN, without NumPy's warning."""
    count = x.dtype.type(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    with np.errstate(invalid="ignore"):
        return np.sum(x, axis=axes, keepdims=True) / count


class BatchNormalization(Op):
    """X normalized per channel, by given statistics or (`training_mode`) by its own, then scaled and shifted."""

    keeps_rows = Rows.FIRST

    work = Work.LINEAR
    output_names = ("Y", "running_mean", "running_var")
    epsilon: float = EPSILON
    momentum: float = float(np.float32(0.9))
    training_mode: int = 0

    def infer(self, X: Value, scale: Value, B: Value, input_mean: Value, input_var: Value) -> Any:
        vectors = (scale, B, input_mean, input_var)
        require_float(X, *vectors)
        same_dtype(scale, B)
        same_dtype(input_mean, input_var)
        shape = known_shape(X, least=1)
        for vector in vectors:
            found = known_shape(vector, rank=1)
            if shape is not None and found is not None:
                require_equal(found[0], shape[1] if len(shape) > 1 else 1, f"{vector.name} and the channels of X")
        return (X.tensor, input_mean.tensor, input_var.tensor) if self.training_mode else X.tensor

    def reference(self, X: Array, scale: Array, B: Array, input_mean: Array, input_var: Array) -> Any:
        x, mean, variance = widen(X), widen(input_mean), widen(input_var)
        if not self.training_mode:
            return like(self._normalize(x, mean, variance, scale, B), X)
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        centre = _mean(x, axes)
        mean, variance = centre.reshape(-1), _mean((x - centre) ** 2, axes).reshape(-1)
        y = self._normalize(x, mean, variance, scale, B)
        running = (self._blend(widen(input_mean), mean), self._blend(widen(input_var), variance))
        return like(y, X), like(running[0], input_mean), like(running[1], input_var)

    def _normalize(self, x: Array, mean: Array, variance: Array, scale: Array, bias: Array) -> Array:
        factor = widen(scale) / np.sqrt(variance + variance.dtype.type(self.epsilon))
        return (x - along(mean, x.ndim)) * along(factor, x.ndim) + along(widen(bias), x.ndim)

    def _blend(self, old: Array, new: Array) -> Array:
        return old * old.dtype.type(self.momentum) + new * old.dtype.type(1 - self.momentum)

    def expand(self, b: Builder, X: Value, scale: Value, B: Value, input_mean: Value, input_var: Value) -> Any:
        dtype = wide_dtype(X.dtype)
        x, mean, variance = cast(b, X, dtype), cast(b, input_mean, dtype), cast(b, input_var, dtype)
        new_mean, new_variance = mean, variance
        if self.training_mode:
            axes = [axis for axis in range(X.rank) if axis != 1]
            kept_mean, kept_variance, _ = moments(b, x, axes)
            new_mean, new_variance = b.Reshape(kept_mean, [-1]), b.Reshape(kept_variance, [-1])
        factor = cast(b, scale, dtype) / b.Sqrt(new_variance + self.epsilon)
        centred = x - per_channel(b, new_mean, X.rank)
        y = centred * per_channel(b, factor, X.rank) + per_channel(b, cast(b, B, dtype), X.rank)
        if not self.training_mode:
            return cast(b, y, X.dtype)
        old, share = self.momentum, 1 - self.momentum
        running = (mean * old + new_mean * share, variance * old + new_variance * share)
        return cast(b, y, X.dtype), cast(b, running[0], input_mean.dtype), cast(b, running[1], input_var.dtype)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        X, dtype = inputs[0], wide_dtype(inputs[0].dtype)
        x, scale = (cast(b, value, dtype) for value in inputs[:2])
        axes = [axis for axis in range(X.rank) if axis != 1]
        if self.training_mode:
            mean, variance, centred = moments(b, x, axes)
        else:
            mean, variance = (per_channel(b, cast(b, value, dtype), X.rank) for value in inputs[3:])
            centred = x - mean
        inverse = 1 / b.Sqrt(variance + self.epsilon)
        bar = b.constant(0, dtype) * x if output_bars[0] is None else cast(b, output_bars[0], dtype)
        total, weighted = b.ReduceSum(bar, axes), b.ReduceSum(bar * centred, axes)
        factor = per_channel(b, scale, X.rank) * inverse
        if self.training_mode:
            bars = self._training_bars(b, inputs, (bar, centred, inverse, factor), (total, weighted), output_bars)
        else:
            bars = bar * factor, -(total * factor), weighted * factor * inverse * inverse * -0.5
        flat = (bars[0], weighted * inverse, total, bars[1], bars[2])
        shaped = [bars[0], *(None if v is None else b.Reshape(v, [-1]) for v in flat[1:])]
        return tuple(None if v is None else cast(b, v, i.dtype) for v, i in zip(shaped, inputs, strict=True))

    def _training_bars(
        self,
        b: Builder,
        inputs: Any,
        values: tuple[Value, Value, Value, Value],
        sums: tuple[Value, Value],
        output_bars: Any,
    ) -> tuple[Value, Value | None, Value | None]:
        """The gradients of X and of the running statistics, where the batch is normalized by its own."""
        (bar, centred, inverse, factor), (total, weighted) = values, sums
        dtype, rank = bar.dtype, bar.rank
        count = cast(b, b.Size(bar) / b.Size(total), dtype)
        slope, shift = weighted * inverse * inverse * factor / count, total * factor / count
        found: list[Value | None] = []
        for given in (*output_bars[1:3], None, None)[:2]:
            found.append(None if given is None else per_channel(b, cast(b, given, dtype), rank))
        share = 1 - self.momentum
        if found[0] is not None:
            shift = shift - found[0] * share / count
        if found[1] is not None:
            slope = slope - found[1] * (2 * share) / count
        old = [None if value is None else value * self.momentum for value in found]
        return bar * factor - centred * slope - shift, old[0], old[1]


def _stage_one(stash_type: int, dtype: DType) -> DType:
    """The type of the statistics; double precision is never narrowed, half precision never computed in."""
    stash = float_type(stash_type, "stash_type")
    return max((wide_dtype(stash), wide_dtype(dtype)), key=lambda found: found.bits)


class LayerNormalization(Op):
    """X normalized over the axes from `axis` on, then scaled and shifted."""

    keeps_rows = Rows.BY_AXES

    never_fails = True
    work = Work.LINEAR
    output_names = ("Y", "Mean", "InvStdDev")
    axis: int = -1
    epsilon: float = EPSILON
    stash_type: int = 1

    def infer(self, X: Value, Scale: Value, B: Value | None = None) -> tuple[TensorType, ...]:
        require_float(X, Scale, B)
        same_dtype(X, Scale, B)
        shape, kept = known_shape(X, least=1), None
        if shape is not None:
            axis = resolve_axis(self.axis, len(shape))
            kept = shape[:axis] + (1,) * (len(shape) - axis)
        statistic = TensorType(float_type(self.stash_type, "stash_type"), kept)
        return X.tensor, statistic, statistic

    def reference(self, X: Array, Scale: Array, B: Array | None = None) -> tuple[Array, ...]:
        stash = float_type(self.stash_type, "stash_type")
        x = X.astype(np.promote_types(widen(X).dtype, wide_dtype(stash).numpy))
        axes = tuple(range(resolve_axis(self.axis, x.ndim), x.ndim))
        mean = _mean(x, axes)
        deviation = x - mean
        variance = _mean(deviation * deviation, axes)
        inverse = 1 / np.sqrt(variance + x.dtype.type(self.epsilon))
        y = deviation * inverse * widen(Scale)
        y = y if B is None else y + widen(B)
        return like(y, X), mean.astype(stash.numpy), inverse.astype(stash.numpy)

    def expand(self, b: Builder, X: Value, Scale: Value, B: Value | None = None) -> tuple[Value, ...]:
        stash, stage = float_type(self.stash_type, "stash_type"), _stage_one(self.stash_type, X.dtype)
        axes = list(range(resolve_axis(self.axis, X.rank), X.rank))
        mean, variance, deviation = moments(b, cast(b, X, stage), axes)
        inverse = b.Reciprocal(b.Sqrt(variance + self.epsilon))
        y = deviation * inverse * cast(b, Scale, stage)
        y = y if B is None else y + cast(b, B, stage)
        return cast(b, y, X.dtype), cast(b, mean, stash), cast(b, inverse, stash)


class RMSNormalization(Op):
    """X divided by its root mean square over the axes from `axis` on, then scaled."""

    keeps_rows = Rows.BY_AXES

    axis: int = -1
    epsilon: float = EPSILON
    stash_type: int = 1

    def infer(self, X: Value, scale: Value) -> TensorType:
        require_float(X, scale)
        shape = known_shape(X, least=1)
        if shape is not None:
            resolve_axis(self.axis, len(shape))
        return X.tensor.with_dtype(scale.dtype)

    def reference(self, X: Array, scale: Array) -> Array:
        stash = wide_dtype(float_type(self.stash_type, "stash_type"))
        x = X.astype(np.promote_types(widen(X).dtype, stash.numpy))
        axes = tuple(range(resolve_axis(self.axis, x.ndim), x.ndim))
        square = _mean(x * x, axes)
        return like(x / np.sqrt(square + x.dtype.type(self.epsilon)) * widen(scale), scale)

    def expand(self, b: Builder, X: Value, scale: Value) -> Value:
        x = cast(b, X, _stage_one(self.stash_type, X.dtype))
        axes = list(range(resolve_axis(self.axis, X.rank), X.rank))
        root = b.Sqrt(b.ReduceMean(x * x, axes) + self.epsilon)
        return cast(b, x / root * cast(b, scale, x.dtype), scale.dtype)


def _check_channels(x: Value, scale: Value, bias: Value) -> TensorType:
    require_float(x, scale, bias)
    same_dtype(x, scale, bias)
    shape = known_shape(x, least=2)
    for vector in (scale, bias):
        found = known_shape(vector, rank=1)
        if shape is not None and found is not None:
            require_equal(found[0], shape[1], f"{vector.name} and the channels of {x.name}")
    return x.tensor


class InstanceNormalization(Op):
    """Each channel of each instance normalized over its spatial axes, then scaled and shifted."""

    keeps_rows = Rows.FIRST

    work = Work.LINEAR
    epsilon: float = EPSILON

    def infer(self, input: Value, scale: Value, B: Value) -> TensorType:
        return _check_channels(input, scale, B)

    def expand(self, b: Builder, input: Value, scale: Value, B: Value) -> Value:
        _, variance, deviation = moments(b, wide(b, input), spatial_axes(input))
        y = deviation / b.Sqrt(variance + self.epsilon) * per_channel(b, wide(b, scale), input.rank)
        return cast(b, y + per_channel(b, wide(b, B), input.rank), input.dtype)


class GroupNormalization(Op):
    """Each group of channels of each instance normalized, then scaled and shifted by channel."""

    keeps_rows = Rows.FIRST

    work = Work.LINEAR
    epsilon: float = EPSILON
    num_groups: int
    stash_type: int = 1

    def infer(self, X: Value, scale: Value, bias: Value) -> TensorType:
        shape = known_shape(X, least=2)
        message = f"the channels of {X.name} cannot be split into {self.num_groups} groups"
        need_multiple(0 if shape is None else shape[1], self.num_groups, message)
        return _check_channels(X, scale, bias)

    def expand(self, b: Builder, X: Value, scale: Value, bias: Value) -> Value:
        stage = _stage_one(self.stash_type, X.dtype)
        grouped = b.Reshape(cast(b, X, stage), [0, self.num_groups, -1])
        _, variance, deviation = moments(b, grouped, [2])
        normal = b.Reshape(deviation / b.Sqrt(variance + self.epsilon), b.Shape(X))
        y = normal * per_channel(b, cast(b, scale, stage), X.rank) + per_channel(b, cast(b, bias, stage), X.rank)
        return cast(b, y, X.dtype)


class LpNormalization(Op):
    """The input divided by its p-norm along `axis`; zero where the norm is zero."""

    keeps_rows = Rows.BY_AXES

    work = Work.LINEAR
    axis: int = -1
    p: int = 2

    def infer(self, input: Value) -> TensorType:
        require_float(input)
        if self.p not in (1, 2):
            raise ShapeError(f"p is {self.p}, it must be 1 or 2")
        shape = known_shape(input)
        if shape is not None:
            resolve_axis(self.axis, len(shape))
        return input.tensor

    def expand(self, b: Builder, input: Value) -> Value:
        x = wide(b, input)
        norm = b.ReduceL1(x, [self.axis]) if self.p == 1 else b.ReduceL2(x, [self.axis])
        zero, one = (b.constant(number, x.dtype) for number in (0, 1))
        is_zero = b.Equal(norm, zero)
        quotient = x / b.Where(is_zero, one, norm)  # 0 / 0 would have a gradient of NaN although it is not chosen
        return cast(b, b.Where(is_zero, zero, quotient), input.dtype)


class MeanVarianceNormalization(Op):
    """X normalized over `axes` by its own mean and standard deviation."""

    work = Work.LINEAR
    axes: tuple[int, ...] = (0, 2, 3)

    def infer(self, X: Value) -> TensorType:
        require_float(X)
        shape = known_shape(X)
        if shape is not None:
            resolve_axes(self.axes, len(shape))
        return X.tensor

    def expand(self, b: Builder, X: Value) -> Value:
        _, variance, deviation = moments(b, wide(b, X), list(self.axes))
        return cast(b, deviation / (root(b, variance) + 1e-9), X.dtype)


class LRN(Op):
    """X divided by a power of the sum of squares over neighbouring channels."""

    keeps_rows = Rows.FIRST

    alpha: float = float(np.float32(0.0001))
    beta: float = 0.75
    bias: float = 1.0
    size: int

    def infer(self, X: Value) -> TensorType:
        require_float(X)
        known_shape(X, least=2)
        if self.size < 1:
            raise ShapeError(f"size is {self.size}, it must be at least 1")
        return X.tensor

    def reference(self, X: Array) -> Array:
        if X.size == 0:
            return X.copy()
        x = widen(X)
        before, after = (self.size - 1) // 2, self.size // 2
        squares = np.pad(x * x, [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))
        near = np.lib.stride_tricks.sliding_window_view(squares, self.size, axis=1).sum(axis=-1, dtype=x.dtype)
        base = x.dtype.type(self.bias) + x.dtype.type(self.alpha / self.size) * near
        return like(x / base ** x.dtype.type(self.beta), X)

    def expand(self, b: Builder, X: Value) -> Value:
        x = wide(b, X)
        before, after = (self.size - 1) // 2, self.size // 2
        rest = [0] * (X.rank - 2)
        squares = b.Pad(x * x, [0, before, *rest, 0, after, *rest])
        end = b.Gather(b.Shape(X), [1])
        near = b.Slice(squares, [0], end, [1])
        for shift in range(1, self.size):
            near = near + b.Slice(squares, [shift], end + shift, [1])
        return cast(b, x / (near * (self.alpha / self.size) + self.bias) ** self.beta, X.dtype)


class Dropout(Op):
    """The input itself, or in training the input with a random share of it zero and the rest scaled up."""

    keeps_rows = Rows.BY_AXES

    output_names = ("output", "mask")
    pullback_outputs = 2
    is_random = True
    seed: int | None = None

    def infer(self, data: Value, ratio: Value | None = None, training_mode: Value | None = None) -> Any:
        require_float(data, ratio)
        if training_mode is not None and training_mode.dtype != BOOL:
            raise ShapeError(f"training_mode is {training_mode.dtype}, bool is needed")
        return data.tensor, data.tensor.with_dtype(BOOL)

    def reference(self, data: Array, ratio: Array | None = None, training_mode: Array | None = None) -> Any:
        share = _dropped_share(ratio, training_mode)
        mask = DropoutMask(seed=self.seed).reference(data, ratio, training_mode)
        scaled = widen(data) * widen(data).dtype.type(1 / (1 - share))
        return like(np.where(mask, scaled, 0), data), mask

    def expand(self, b: Builder, data: Value, ratio: Value | None = None, training_mode: Value | None = None) -> Any:
        if training_mode is None or (training_mode.constant is not None and not training_mode.constant.any()):
            return b.Identity(data), b.Expand(b.constant(True), b.Shape(data))
        share = None if ratio is None else wide(b, ratio)
        mask = b.apply(DropoutMask, data, share, training_mode, seed=self.seed)
        return self._kept(b, data, mask, ratio, training_mode), mask

    def _kept(self, b: Builder, x: Value, mask: Value, ratio: Value | None, training_mode: Value | None) -> Value:
        """What the mask keeps of x, scaled up in training."""
        share = b.constant(0.5, FLOAT64) if ratio is None else cast(b, b.Reshape(ratio, []), FLOAT64)
        training = b.constant(False) if training_mode is None else b.Reshape(training_mode, [])
        scale = 1 / (1 - b.Where(training, share, b.constant(0, FLOAT64)))
        scaled = wide(b, x) * cast(b, scale, wide_dtype(x.dtype))
        return b.Where(mask, cast(b, scaled, x.dtype), b.constant(0, x.dtype))

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        ratio, training_mode = (*inputs[1:], None, None)[:2]
        bar = output_bars[0]
        kept = None if bar is None else self._kept(b, bar, outputs[1], ratio, training_mode)
        return kept, *[None] * (len(inputs) - 1)


class DropoutMask(Op):
    """The second output of Dropout: false where an element is dropped."""

    no_gradient = "its results are random"
    domain: ClassVar[str] = "intaglio"
    is_random = True
    seed: int | None = None

    def infer(self, data: Value, ratio: Value | None = None, training_mode: Value | None = None) -> Any:
        return data.tensor.with_dtype(BOOL)

    def reference(self, data: Array, ratio: Array | None = None, training_mode: Array | None = None) -> Array:
        share = _dropped_share(ratio, training_mode)
        if share == 0:
            return np.ones(data.shape, np.bool_)
        if self.seed is None:
            return (fractions(words(None, data.size)) >= share).reshape(data.shape)
        # With a seed, the numbers are those that ONNX's own tests expect.
        return np.asarray(np.random.RandomState(self.seed).uniform(0, 1, data.shape) >= share)


def _dropped_share(ratio: Array | None, training_mode: Array | None) -> float:
    """The share of elements that is dropped: none outside of training."""
    if training_mode is None or not bool(training_mode.reshape(())):
        return 0.0
    share = 0.5 if ratio is None else float(ratio.reshape(()))
    if not 0 <= share < 1:
        raise OperatorError(f"ratio is {share}, it must be in [0, 1)")
    return share
