"""Older versions of activation functions."""

from __future__ import annotations

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts

Consumed = tuple[int, ...] | None  # until opset 5 a list said which inputs may be overwritten, without a meaning


@adapts("LeakyRelu", before=6)
def leaky_relu_1(
    b: Builder, X: Value, *, alpha: float = float(np.float32(0.01)), consumed_inputs: Consumed = None
) -> Value:
    return b.LeakyRelu(X, alpha=alpha)


@adapts("Elu", before=6)
def elu_1(b: Builder, X: Value, *, alpha: float = 1.0, consumed_inputs: Consumed = None) -> Value:
    return b.Elu(X, alpha=alpha)


@adapts("Selu", before=6)
def selu_1(
    b: Builder,
    X: Value,
    *,
    alpha: float = float(np.float32(1.6732)),
    gamma: float = float(np.float32(1.0507)),
    consumed_inputs: Consumed = None,
) -> Value:
    return b.Selu(X, alpha=alpha, gamma=gamma)


@adapts("HardSigmoid", before=6)
def hard_sigmoid_1(
    b: Builder,
    X: Value,
    *,
    alpha: float = float(np.float32(0.2)),
    beta: float = 0.5,
    consumed_inputs: Consumed = None,
) -> Value:
    return b.HardSigmoid(X, alpha=alpha, beta=beta)


@adapts("PRelu", before=6)
def prelu_1(b: Builder, X: Value, slope: Value, *, consumed_inputs: Consumed = None) -> Value:
    return prelu_6(b, X, slope)


@adapts("PRelu", since=6, before=7)
def prelu_6(b: Builder, X: Value, slope: Value) -> Value:
    """Until opset 6 a slope of several elements had one for each channel, which is axis 1."""
    if slope.tensor.shape in ((), (1,)) or X.rank < 2:
        return b.PRelu(X, slope)
    if slope.rank != 1:
        raise ShapeError(f"the slope must have one element for each channel, got {slope.type}")
    return b.PRelu(X, b.Unsqueeze(slope, list(range(1, X.rank - 1))) if X.rank > 2 else slope)
