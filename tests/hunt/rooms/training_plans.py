"""Training runs that nobody wrote: small models as lists of layers, with losses, optimizers, settings and batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intaglio import train
from intaglio.train import schedules

from ..dice import Dice

Array = np.ndarray[Any, Any]
STEPS = 20
DECAY = (4, 0.5)
"""Steps and factor of what follows a warmup."""
WIDTHS = (1, 2, 3, 5, 8, 9)
ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "Gelu", "Elu", "Softplus", "LeakyRelu", "Mish", "HardSwish")
LABELS = ("int64", "int64", "int32", "int16", "int8", "uint8")


@dataclass
class Layer:
    """A layer by kind: its weights by name, and its running statistics behind them."""

    kind: str
    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    statistics: dict[str, Array] = field(default_factory=dict[str, Array])
    word: str = ""
    numbers: tuple[int, ...] = ()


@dataclass
class Plan:
    """A training run: what our trainer and the judge are given alike."""

    dtype: str
    layers: list[Layer]
    input_shape: tuple[int, ...]
    """Of the model's input behind the batch; of one number, it is how many rows the table of an embedding has."""
    is_embedded: bool
    loss: Any
    optimizer: Any
    schedule: tuple[str, tuple[float, ...]]
    settings: dict[str, Any]
    batches: list[tuple[Array, Array]]
    frozen: list[str] = field(default_factory=list[str])
    checkpoint: int | None = None
    """After which step another trainer goes on from a checkpoint."""

    @property
    def trained(self) -> list[str]:
        """The names of the weights that are trained."""
        return [name for layer in self.layers for name in layer.weights if name not in self.frozen]

    def schedule_function(self) -> Any:
        """The schedule of our trainer."""
        name, numbers = self.schedule
        if name == "warmup":
            steps, first, *length = numbers
            then = schedules.cosine(int(length[0])) if length else schedules.step_decay(*DECAY)
            return schedules.warmup(int(steps), then, first)
        return getattr(schedules, name)(*numbers)


class Planner:
    """The choices of one run."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.dtype = "float64" if dice.chance(0.4) else "float32"
        self.layers: list[Layer] = []
        self.shape: tuple[int, ...] = ()
        self.is_poisoned = dice.chance(0.2)

    def values(self, *shape: int, scale: float = 1.0) -> Array:
        return (self.dice.random.standard_normal(shape) * scale).astype(self.dtype)

    def add(self, kind: str, weights: dict[str, Array] | None = None, **more: Any) -> None:
        """Put a layer behind the others, whose number its weights bear."""
        prefix = f"layer{len(self.layers)}"
        named = {f"{prefix}.{name}": array for name, array in (weights or {}).items()}
        statistics = {f"{prefix}.{name}": array for name, array in more.pop("statistics", {}).items()}
        self.layers.append(Layer(kind, named, statistics, **more))

    def plan(self) -> Plan:
        dice = self.dice
        body = dice.of((self.rows, self.rows, self.images, self.sequences))
        self.shape = body()
        input_shape, is_embedded = self.shape, body == self.sequences
        self.body(body)
        loss, kind, classes = self.loss()
        self.head(classes, kind)
        settings = self.settings()
        trained = [name for layer in self.layers for name in layer.weights]
        frozen = dice.subset(trained, 1, len(trained) - 1) if len(trained) > 1 and dice.chance(0.25) else []
        left = [name for name in trained if name not in frozen]
        if dice.chance(0.25):
            decay = {"weight_decay": dice.of((0.0, 0.1, 0.3))} if dice.chance(0.6) else {}
            settings["groups"] = [train.Group(dice.subset(left, 1, len(left)), lr=dice.of((0.003, 0.03)), **decay)]
        batches = [self.batch(input_shape, is_embedded, loss, kind, step) for step in range(STEPS)]
        checkpoint = dice.integer(1, STEPS - 1) if dice.chance(0.15) else None
        optimizer, schedule = self.optimizer(), self.schedule(bool(settings["groups"]))
        return Plan(
            self.dtype, self.layers, input_shape, is_embedded, loss, optimizer, schedule, settings, batches, frozen,
            checkpoint,
        )  # fmt: skip

    def rows(self) -> tuple[int, ...]:
        return (self.dice.of(WIDTHS),)

    def images(self) -> tuple[int, ...]:
        return (self.dice.integer(1, 3), self.dice.integer(4, 7), self.dice.integer(4, 7))

    def sequences(self) -> tuple[int, ...]:
        return (self.dice.integer(3, 9), self.dice.integer(1, 5))

    def body(self, kind: Any) -> None:
        if kind == self.sequences:
            width = self.dice.of((2, 4, 6))
            self.add("embedding", {"table": self.values(self.shape[0], width)})
            self.shape = (self.shape[1], width)
        for _ in range(self.dice.integer(1, 4)):
            if len(self.shape) == 3:
                self.dice.of((self.convolution, self.convolution, self.normalization, self.pool, self.activation))()
            elif len(self.shape) == 2:
                self.dice.of((self.attention, self.activation, self.layer_normalization, self.dense))()
            else:
                ways = (self.dense, self.dense, self.normalization, self.layer_normalization, self.tied, self.residual)
                self.dice.of((*ways, self.activation, self.root if self.is_poisoned else self.activation))()

    def dense(self, given: int | None = None) -> None:
        width: int = given or self.dice.of(WIDTHS)
        depth = self.shape[-1]
        is_turned = self.dice.chance(0.5)
        weights = {"weight": self.values(*((width, depth) if is_turned else (depth, width)), scale=depth**-0.5)}
        if self.dice.chance(0.7):
            weights["bias"] = self.values(width, scale=0.3)
        self.add("dense", weights, word="turned" if is_turned else "")
        self.shape = (*self.shape[:-1], width)

    def residual(self) -> None:
        width = self.shape[-1]
        self.add("residual", {"weight": self.values(width, width, scale=width**-0.5)})

    def tied(self) -> None:
        """A weight that is read twice."""
        width = self.dice.of(WIDTHS)
        self.add("tied", {"weight": self.values(self.shape[-1], width, scale=self.shape[-1] ** -0.5)})

    def activation(self) -> None:
        self.add("activation", word=self.dice.of(ACTIVATIONS))

    def root(self) -> None:
        self.add("root")

    def normalization(self) -> None:
        channels = self.shape[0]
        weights = {"scale": 1 + self.values(channels, scale=0.2), "bias": self.values(channels, scale=0.2)}
        statistics = {"mean": self.values(channels, scale=0.1), "var": 1 + np.abs(self.values(channels, scale=0.2))}
        self.add("normalization", weights, statistics=statistics)

    def layer_normalization(self) -> None:
        width = self.shape[-1]
        self.add("layer normalization", {"scale": 1 + self.values(width, scale=0.2), "bias": self.values(width)})

    def convolution(self, width: int | None = None, taps: int = 3) -> None:
        width, channels, stride = (
            width or self.dice.integer(1, 5),
            self.shape[0],
            self.dice.of((1, 1, 2)) if taps > 1 else 1,
        )
        weights = {"weight": self.values(width, channels, taps, taps, scale=(channels * taps * taps) ** -0.5)}
        if self.dice.chance(0.6):
            weights["bias"] = self.values(width, scale=0.3)
        self.add("convolution", weights, numbers=(taps // 2, stride))
        self.shape = (width, *(-(-size // stride) for size in self.shape[1:]))

    def pool(self) -> None:
        if min(self.shape[1:]) >= 2:
            self.add("pool", word=self.dice.of(("MaxPool", "AveragePool")))
            self.shape = (self.shape[0], *(size // 2 for size in self.shape[1:]))

    def attention(self) -> None:
        width = self.shape[-1]
        weights = {name: self.values(width, width, scale=width**-0.5) for name in ("q", "k", "v")}
        self.add("attention", weights)

    def head(self, classes: int, kind: str) -> None:
        """Scores of the classes along axis 1, for each image or each of its points."""
        is_by_points = len(self.shape) == 3 and kind in ("classes", "logarithms") and self.dice.chance(0.4)
        if is_by_points:
            self.convolution(classes, taps=1)
        else:
            if len(self.shape) > 1:
                self.add("mean", numbers=(2, 3) if len(self.shape) == 3 else (1,))
                self.shape = (self.shape[0] if len(self.shape) == 3 else self.shape[-1],)
            self.dense(classes)
        if kind in ("logarithms", "divergence"):
            self.add("log softmax")

    def loss(self) -> tuple[Any, str, int]:
        """The loss, what its targets are, and how many scores it takes."""
        dice = self.dice
        reduction = dice.of(("mean", "mean", "sum"))
        classes = dice.of((1, 2, 3, 5))
        kind = dice.of(
            ("classes", "classes", "classes", "logarithms", "soft", "values", "values", "truths", "divergence")
        )
        by_class = np.abs(self.values(classes)).astype(np.float64) + 0.1 if dice.chance(0.4) else None
        if kind in ("classes", "logarithms"):
            given = {"weight": by_class, "ignore_index": dice.of((-100, -100, 0)), "reduction": reduction}
            if kind == "logarithms":
                return train.NLL(**given), kind, classes
            return train.CrossEntropy(**given, label_smoothing=dice.of((0.0, 0.0, 0.1, 0.7))), kind, classes
        if kind == "soft":
            smoothing = dice.of((0.0, 0.2))
            chosen = train.CrossEntropy(
                soft=True, weight=by_class, label_smoothing=smoothing, reduction=dice.of(("mean", "sum"))
            )
            return chosen, kind, classes
        if kind == "truths":
            return train.BCEWithLogits(pos_weight=by_class, reduction=reduction), kind, classes
        if kind == "divergence":
            return (
                train.KLDiv(log_target=dice.chance(0.5), reduction=dice.of(("mean", "sum", "batchmean"))),
                kind,
                classes,
            )
        chosen = dice.of((train.MSE, train.L1, train.Huber))
        more = {"delta": dice.of((0.3, 1.0, 2.5))} if chosen is train.Huber else {}
        return chosen(reduction=reduction, **more), kind, classes

    def optimizer(self) -> Any:
        dice = self.dice
        kind = dice.of((train.SGD, train.SGD, train.Adam, train.AdamW, train.Adagrad, train.RMSprop, train.Lion))
        given: dict[str, Any] = {
            "lr": dice.of((0.0, 0.001, 0.01, 0.05)),
            "weight_decay": dice.of((0.0, 0.0, 0.01, 0.2)),
        }
        if kind is train.SGD and dice.chance(0.7):
            given["momentum"] = dice.of((0.5, 0.9, 1.0))
            given |= dice.of(({}, {"nesterov": True}, {"dampening": dice.of((0.1, 0.5, 1.0))}))
        if kind in (train.Adam, train.AdamW):
            given |= {"betas": dice.of(((0.9, 0.999), (0.5, 0.8), (0.0, 0.9))), "amsgrad": dice.chance(0.3)}
        if kind in (train.Adam, train.AdamW, train.Adagrad, train.RMSprop):
            given["eps"] = dice.of((1e-8, 1e-3, 0.1))
        if kind is train.Adagrad:
            given |= {"lr_decay": dice.of((0.0, 0.1)), "initial_accumulator_value": dice.of((0.0, 0.1))}
        if kind is train.RMSprop:
            given |= {"alpha": dice.of((0.99, 0.5)), "momentum": dice.of((0.0, 0.0, 0.9)), "centered": dice.chance(0.4)}
        if kind is train.Lion:
            given["betas"] = dice.of(((0.9, 0.99), (0.5, 0.6)))
        return kind(**given)

    def schedule(self, has_groups: bool) -> tuple[str, tuple[float, ...]]:
        ways: list[tuple[str, tuple[float, ...]]] = [
            ("constant", ()), ("constant", ()), ("cosine", (25, 0.0 if has_groups else 0.2)), ("step_decay", (4, 0.5)),
            ("one_cycle", (21, 0.4, 0.1, 0.01)), ("one_cycle", (20,)), ("warmup", (5, 0.1)), ("warmup", (3, 0.25, 20)),
        ]  # fmt: skip
        return self.dice.of(ways)

    def settings(self) -> dict[str, Any]:
        dice = self.dice
        settings: dict[str, Any] = {"groups": [], "nonfinite": "skip", "seed": dice.integer(0, 3)}
        for name, share, ways in (
            ("clip_norm", 0.3, (0.01, 0.5, 20.0)), ("clip_value", 0.25, (0.01, 0.2, 5.0)), ("accumulate", 0.3, (2, 3)),
            ("ema", 0.3, (0.5, 0.99)), ("recompute", 0.15, ("all", 200)), ("simplify", 0.2, (False,)),
            ("exact", 0.2, (True,)),
        ):  # fmt: skip
            if dice.chance(share):
                settings[name] = dice.of(ways)
        if self.dtype == "float32" and dice.chance(0.1):
            settings["precision"] = "bfloat16"
        is_compiled = dice.chance(0.12)
        return settings | {"engine": "native" if is_compiled else "reference", "threads": dice.of((1, 2))}

    def batch(self, shape: tuple[int, ...], is_embedded: bool, loss: Any, kind: str, step: int) -> tuple[Array, Array]:
        random = self.dice.random
        rows = int(random.integers(2 if self.has_lone_numbers() else 1, 8))
        if is_embedded:
            x = random.integers(0, shape[0], (rows, shape[1]))
        else:
            x = self.values(rows, *shape)
            if self.is_poisoned and 5 < step < 12:
                self.poison(x)
        points = self.shape[1:] if len(self.shape) == 3 else ()
        return x, self.target(rows, points, loss, kind)

    def has_lone_numbers(self) -> bool:
        """Whether a channel of one row can be one number, of which PyTorch normalizes nothing."""
        return any(layer.kind == "normalization" for layer in self.layers)

    def poison(self, x: Array) -> None:
        """Put numbers into a batch that break a loss or a gradient; or none."""
        way = int(self.dice.random.integers(4))
        if way == 3:
            x[...] = 0
        elif way:
            x.reshape(-1)[int(self.dice.random.integers(x.size))] = (0, np.inf, np.nan)[way]

    def target(self, rows: int, points: tuple[int, ...], loss: Any, kind: str) -> Array:
        random, classes = self.dice.random, self.shape[0]
        if kind in ("classes", "logarithms"):
            labels = random.integers(0, classes, (rows, *points)).astype(self.dice.of(LABELS))
            if loss.ignore_index < 0 and labels.dtype.kind == "i":
                labels[random.random(labels.shape) < 0.15] = loss.ignore_index
            return labels
        values = self.values(rows, classes)
        if kind == "truths":
            return (values > 0).astype(self.dtype)
        if kind == "values":
            return values
        shares = np.exp(values) / np.exp(values).sum(1, keepdims=True)
        return np.log(shares) if kind == "divergence" and loss.log_target else shares


def plans(seed: int, count: int) -> list[Plan]:
    """The runs of a seed."""
    return [Planner(Dice(seed, 71, number)).plan() for number in range(count)]
