"""Optimizers: one step of an update of several tensors at once; and the gradient of a named tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Value
from intaglio.ir.op import Op, output_count
from intaglio.ir.types import Type
from intaglio.ops.shared.indices import same_dtype
from intaglio.ops.shared.operand import cast, require_shape


class _Optimizer(Op, abstract=True):
    """The inputs are tensors, then their gradients, then each kind of state, as many of each; so are the outputs."""

    domain: ClassVar[str] = "ai.onnx.preview.training"
    variadic_outputs: ClassVar[bool] = True
    states: ClassVar[int] = 1
    output_count: int = output_count()

    def infer(self, R: Value, T: Value, *inputs: Value) -> tuple[Type, ...]:
        count = self._tensors(inputs)
        same_dtype(*inputs)
        if T.dtype != INT64:
            raise ShapeError(f"T is {T.dtype}, int64 is needed")
        for place, value in enumerate(inputs):
            shape = inputs[place % count].tensor.shape
            if shape is not None:
                require_shape(value, shape)
        return tuple(value.type for value in (*inputs[:count], *inputs[2 * count :]))

    def _tensors(self, inputs: Sequence[Any]) -> int:
        kinds = 2 + self.states
        if not inputs or len(inputs) % kinds:
            raise ShapeError(f"{len(inputs)} inputs behind R and T, a multiple of {kinds} is needed")
        return len(inputs) // kinds

    def expand(self, b: Builder, R: Value, T: Value, *inputs: Value) -> tuple[Value, ...]:
        count = self._tensors(inputs)
        rate = b.Reshape(cast(b, R, inputs[0].dtype), [])
        step = b.Reshape(T, [])
        updated = [self.update(b, rate, step, *inputs[i::count]) for i in range(count)]
        return tuple(value for kind in zip(*updated, strict=True) for value in kind)

    def update(self, b: Builder, rate: Value, step: Value, x: Value, g: Value, *states: Value) -> tuple[Value, ...]:
        """The new tensor and its new states."""
        raise NotImplementedError


def _regularized(x: Value, g: Value, coefficient: float) -> Value:
    return g if coefficient == 0 else x * coefficient + g


class Adagrad(_Optimizer):
    """One step of Adagrad."""

    decay_factor: float = 0.0
    epsilon: float = float(np.float32(1e-6))
    norm_coefficient: float = 0.0

    def update(self, b: Builder, rate: Value, step: Value, x: Value, g: Value, *states: Value) -> tuple[Value, ...]:
        slowed = rate / (cast(b, step, x.dtype) * self.decay_factor + 1)
        g = _regularized(x, g, self.norm_coefficient)
        squares = states[0] + g * g
        return x - slowed * g / (b.Sqrt(squares) + self.epsilon), squares


class Adam(_Optimizer):
    """One step of Adam."""

    states: ClassVar[int] = 2
    alpha: float = float(np.float32(0.9))
    beta: float = float(np.float32(0.999))
    epsilon: float = float(np.float32(1e-6))
    norm_coefficient: float = 0.0
    norm_coefficient_post: float = 0.0

    def update(self, b: Builder, rate: Value, step: Value, x: Value, g: Value, *states: Value) -> tuple[Value, ...]:
        g = _regularized(x, g, self.norm_coefficient)
        mean = states[0] * self.alpha + g * (1 - self.alpha)
        squares = states[1] * self.beta + g * g * (1 - self.beta)
        count = cast(b, step, x.dtype)
        alpha, beta = (b.Pow(b.constant(base, x.dtype), count) for base in (self.alpha, self.beta))
        corrected = b.Where(b.Greater(step, b.constant(0, INT64)), rate * b.Sqrt(1 - beta) / (1 - alpha), rate)
        moved = x - corrected * mean / (b.Sqrt(squares) + self.epsilon)
        return moved * (1 - self.norm_coefficient_post), mean, squares


class Momentum(_Optimizer):
    """One step of gradient descent with standard or Nesterov momentum."""

    alpha: float
    beta: float
    mode: str
    norm_coefficient: float

    def infer(self, R: Value, T: Value, *inputs: Value) -> tuple[Type, ...]:
        if self.mode not in ("standard", "nesterov"):
            raise ShapeError(f"mode is {self.mode!r}, it must be standard or nesterov")
        return super().infer(R, T, *inputs)

    def update(self, b: Builder, rate: Value, step: Value, x: Value, g: Value, *states: Value) -> tuple[Value, ...]:
        g = _regularized(x, g, self.norm_coefficient)
        is_later = b.Greater(step, b.constant(0, INT64))
        share = b.Where(is_later, b.constant(self.beta, x.dtype), b.constant(1, x.dtype))
        momentum = states[0] * self.alpha + share * g
        direction = momentum if self.mode == "standard" else g + momentum * self.alpha
        return x - rate * direction, momentum


class Gradient(Op):
    """The derivatives of the tensor named `y` by those named `xs`; differentiation of the graph replaces the node."""

    no_gradient = "the reader replaces it by the gradient itself"
    domain: ClassVar[str] = "ai.onnx.preview.training"
    variadic_outputs: ClassVar[bool] = True
    output_count: int = output_count()
    xs: tuple[str, ...]
    y: str
    zs: tuple[str, ...] | None = None

    def infer(self, *Inputs: Value) -> tuple[Type, ...]:
        names = (*self.xs, *(self.zs or ()))
        if len(Inputs) != len(names):
            raise ShapeError(f"{len(Inputs)} inputs for the {len(names)} tensors in xs and zs")
        return tuple(value.type for value in Inputs[: len(self.xs)])
