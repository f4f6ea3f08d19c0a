"""Older normalizations: statistics per element, modes told by attributes or by the number of outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts
from intaglio.ops.normalization import moments
from intaglio.ops.shared.operand import EPSILON, cast

MOMENTUM = float(np.float32(0.9))


def _batch_normalization(
    b: Builder,
    operands: tuple[Value, Value, Value, Value, Value],
    options: dict[str, float],
    is_spatial: bool,
    is_training: bool,
    outputs: int,
) -> Any:
    """The newest operator on X flattened where statistics are per element, with the outputs that older ones had."""
    x, *vectors = operands
    shape, vector_shape = b.Shape(x), b.Shape(vectors[0])
    if not is_spatial:
        x, vectors = b.Flatten(x, axis=1), [b.Reshape(vector, [-1]) for vector in vectors]
    if not is_training:
        y = b.BatchNormalization(x, *vectors, **options)
        return y if is_spatial else b.Reshape(y, shape)
    y, *running = b.BatchNormalization(x, *vectors, **options, training_mode=1, outputs=3)
    mean, variance, _ = moments(b, x, [axis for axis in range(x.rank) if axis != 1])
    statistics = [*running, b.Reshape(mean, [-1]), b.Reshape(variance, [-1])]
    if not is_spatial:
        y, statistics = b.Reshape(y, shape), [b.Reshape(value, vector_shape) for value in statistics]
    return (y, *statistics)[:outputs]


@adapts("BatchNormalization", before=7)
def batch_normalization_1(
    b: Builder,
    X: Value,
    scale: Value,
    B: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = EPSILON,
    is_test: int = 0,
    momentum: float = MOMENTUM,
    spatial: int = 1,
    outputs: int = 1,
) -> Any:
    options = {"epsilon": epsilon, "momentum": momentum}
    return _batch_normalization(b, (X, scale, B, mean, var), options, bool(spatial), not is_test, outputs)


@adapts("BatchNormalization", since=7, before=9)
def batch_normalization_7(
    b: Builder,
    X: Value,
    scale: Value,
    B: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = EPSILON,
    momentum: float = MOMENTUM,
    spatial: int = 1,
    outputs: int = 1,
) -> Any:
    """From opset 7 to 13 the number of outputs told training from inference."""
    options = {"epsilon": epsilon, "momentum": momentum}
    return _batch_normalization(b, (X, scale, B, mean, var), options, bool(spatial), outputs > 1, outputs)


@adapts("BatchNormalization", since=9, before=14)
def batch_normalization_9(
    b: Builder,
    X: Value,
    scale: Value,
    B: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = EPSILON,
    momentum: float = MOMENTUM,
    outputs: int = 1,
) -> Any:
    options = {"epsilon": epsilon, "momentum": momentum}
    return _batch_normalization(b, (X, scale, B, mean, var), options, True, outputs > 1, outputs)


@adapts("GroupNormalization", before=21)
def group_normalization_18(
    b: Builder, X: Value, scale: Value, bias: Value, *, epsilon: float = EPSILON, num_groups: int
) -> Value:
    """Until opset 20 scale and bias were given per group."""
    grouped = b.Reshape(X, [0, num_groups, -1])
    return b.Reshape(b.InstanceNormalization(grouped, scale, bias, epsilon=epsilon), b.Shape(X))


def _dropout(b: Builder, data: Value, ratio: float, is_training: bool) -> tuple[Value, Value]:
    training = b.constant(is_training, BOOL)
    return b.Dropout(data, b.constant(ratio, data.dtype), training, outputs=2)


@adapts("Dropout", before=7)
def dropout_1(b: Builder, data: Value, *, is_test: int = 0, ratio: float = 0.5) -> tuple[Value, Value]:
    """Until opset 9 the mask had the element type of the data."""
    output, mask = _dropout(b, data, ratio, not is_test)
    return output, cast(b, mask, data.dtype)


@adapts("Dropout", since=7, before=10)
def dropout_7(b: Builder, data: Value, *, ratio: float = 0.5) -> tuple[Value, Value]:
    """From opset 7 to 11 a model in use was always in test mode."""
    output, mask = _dropout(b, data, ratio, is_training=False)
    return output, cast(b, mask, data.dtype)


@adapts("Dropout", since=10, before=12)
def dropout_10(b: Builder, data: Value, *, ratio: float = 0.5) -> tuple[Value, Value]:
    return _dropout(b, data, ratio, is_training=False)
