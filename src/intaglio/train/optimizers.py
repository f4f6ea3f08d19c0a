"""Optimizers: what a parameter becomes by its gradient, as nodes of a graph. What they do is what PyTorch's do.

Numbers that change from step to step, such as the learning rate, are worked out in Python and are inputs of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from intaglio.errors import InputError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.record import Record
from intaglio.train.losses import named

Values = Mapping[str, Value]


class Optimizer(Record):
    """How parameters are updated: `lr` is the learning rate before any schedule."""

    lr: float = 1e-3
    weight_decay: float = 0.0
    at_least_zero: ClassVar[tuple[str, ...]] = ("lr", "weight_decay", "eps", "lr_decay", "initial_accumulator_value")
    below_one: ClassVar[tuple[str, ...]] = ("alpha", "momentum", "dampening")
    hidden_slots: ClassVar[tuple[str, ...]] = ()
    """Slots that may stop being finite in a step after which the parameter itself is finite."""

    def __post_init__(self) -> None:
        for name in (*self.at_least_zero, *self.below_one):
            value = getattr(self, name, 0.0)
            if not (0 <= value < math.inf and (name not in self.below_one or value <= 1)):
                raise InputError(f"{name} of {type(self).__name__} is {value}, expected at least 0")
        for beta in getattr(self, "betas", ()):
            if not 0 <= beta < 1:
                raise InputError(f"betas of {type(self).__name__} are {self.betas}, expected 0 to below 1")  # pyright: ignore

    def slots(self) -> dict[str, float]:
        """The tensors that belong to each parameter, and what they are filled with at first."""
        return {}

    def numbers(self, step: int, lr: float) -> dict[str, float]:
        """What the update of a step needs, counted from 1, at a learning rate."""
        return {"lr": lr}

    def update(self, b: Builder, p: Value, g: Value, slots: Values, numbers: Values, decay: float) -> dict[str, Value]:
        """The new parameter, under the name "", and the new slots; `decay` is the weight decay of the parameter."""
        raise NotImplementedError


def _decayed(p: Value, g: Value, decay: float) -> Value:
    """The gradient with that of half the square of the parameter."""
    return g + p * decay if decay else g


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum and Nesterov's variant of it."""

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and (not self.momentum or self.dampening):
            raise InputError("nesterov needs momentum, and no dampening")

    def slots(self) -> dict[str, float]:
        return {"momentum": 0.0} if self.momentum else {}

    def numbers(self, step: int, lr: float) -> dict[str, float]:
        return {"lr": lr, **({"share": 1.0 if step == 1 else 1 - self.dampening} if self.dampening else {})}

    def update(self, b: Builder, p: Value, g: Value, slots: Values, numbers: Values, decay: float) -> dict[str, Value]:
        g = _decayed(p, g, decay)
        if not self.momentum:
            return {"": p - g * numbers["lr"]}
        moved = slots["momentum"] * self.momentum + (g * numbers["share"] if self.dampening else g)
        direction = g + moved * self.momentum if self.nesterov else moved
        return {"": p - direction * numbers["lr"], "momentum": moved}


class Adam(Optimizer):
    """Adam; `weight_decay` is added to the gradient. `amsgrad` divides by the largest mean square so far."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False

    def slots(self) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0} | ({"max_exp_avg_sq": 0.0} if self.amsgrad else {})

    def numbers(self, step: int, lr: float) -> dict[str, float]:
        first, second = self.betas
        return {"size": lr / (1 - first**step), "root": math.sqrt(1 - second**step)}

    def update(self, b: Builder, p: Value, g: Value, slots: Values, numbers: Values, decay: float) -> dict[str, Value]:
        return self.moved(b, p, _decayed(p, g, decay), slots, numbers)

    def moved(self, b: Builder, p: Value, g: Value, slots: Values, numbers: Values) -> dict[str, Value]:
        """The update once the weight decay is dealt with."""
        first, second = self.betas
        mean = slots["exp_avg"] + (g - slots["exp_avg"]) * (1 - first)
        square = slots["exp_avg_sq"] * second + g * g * (1 - second)
        made = {"exp_avg": mean, "exp_avg_sq": square}
        if self.amsgrad:
            square = made["max_exp_avg_sq"] = b.Max(slots["max_exp_avg_sq"], square)
        scale = b.Sqrt(square) / numbers["root"] + self.eps
        return made | {"": p - numbers["size"] * (mean / scale)}


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself."""

    weight_decay: float = 1e-2

    def numbers(self, step: int, lr: float) -> dict[str, float]:
        return {"lr": lr, **super().numbers(step, lr)}

    def update(self, b: Builder, p: Value, g: Value, slots: Values, numbers: Values, decay: float) -> dict[str, Value]:
        return self.moved(b, p * (1.0 - numbers["lr"] * decay) if decay else p, g, slots, numbers)


class Adagrad(Optimizer):
    """Adagrad."""

    lr: float = 1e-2
    lr_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    def slots(self) -> dict[str, float]:
        return {"sum": self.initial_accumulator_value}

    def numbers(self, step: int, lr: float) -> dict[str, float]:
        return {"lr": lr / (1 + (step - 1) * self.lr_decay)}

    def update(self, b: Builder, p: Value, g: Value, slots: Values, numbers: Values, decay: float) -> dict[str, Value]:
        g = _decayed(p, g, decay)
        total = slots["sum"] + g * g
        return {"": p - numbers["lr"] * (g / (b.Sqrt(total) + self.eps)), "sum": total}


class RMSprop(Optimizer):
    """RMSprop, centered or not, with momentum or not."""

    lr: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    def slots(self) -> dict[str, float]:
        found = {"square_avg": 0.0}
        if self.momentum:
            found["momentum"] = 0.0
        if self.centered:
            found["grad_avg"] = 0.0
        return found

    def update(self, b: Builder, p: Value, g: Value, slots: Values, numbers: Values, decay: float) -> dict[str, Value]:
        g = _decayed(p, g, decay)
        square = slots["square_avg"] * self.alpha + g * g * (1 - self.alpha)
        made = {"square_avg": square}
        if self.centered:
            mean = made["grad_avg"] = slots["grad_avg"] + (g - slots["grad_avg"]) * (1 - self.alpha)
            square = square - mean * mean
        direction = g / (b.Sqrt(square) + self.eps)
        if self.momentum:
            direction = made["momentum"] = slots["momentum"] * self.momentum + direction
        return made | {"": p - numbers["lr"] * direction}


class Lion(Optimizer):
    """Lion: steps of one size, in the direction of the sign of a blend of momentum and gradient."""

    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)
    hidden_slots: ClassVar[tuple[str, ...]] = ("exp_avg",)

    def slots(self) -> dict[str, float]:
        return {"exp_avg": 0.0}

    def update(self, b: Builder, p: Value, g: Value, slots: Values, numbers: Values, decay: float) -> dict[str, Value]:
        first, second = self.betas
        mean = slots["exp_avg"]
        shrunk = p * (1.0 - numbers["lr"] * decay) if decay else p
        direction = b.Sign(mean * first + g * (1 - first))
        return {"": shrunk - direction * numbers["lr"], "exp_avg": mean * second + g * (1 - second)}


OPTIMIZERS: dict[str, type[Optimizer]] = {
    "sgd": SGD,
    "adam": Adam,
    "adamw": AdamW,
    "adagrad": Adagrad,
    "rmsprop": RMSprop,
    "lion": Lion,
}


def as_optimizer(optimizer: Any, lr: float | None) -> Optimizer:
    """An optimizer as such or by its name, with another learning rate where one is given."""
    if not isinstance(optimizer, Optimizer):
        made = named(optimizer, OPTIMIZERS, "optimizer")
        return made() if lr is None else made(lr=lr)
    return optimizer if lr is None else replace(optimizer, lr=lr)
