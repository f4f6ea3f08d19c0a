"""Training steps as graphs: forward pass, loss, backward pass, update, with all that changes as inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from intaglio.autodiff.recompute import Recompute, check_recompute, recompute_values
from intaglio.autodiff.reverse import pull_back, remove_unread
from intaglio.errors import InputError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, FLOAT32, FLOAT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Tensor
from intaglio.ir.origin import Origin
from intaglio.ir.types import TensorType
from intaglio.ir.verify import verify
from intaglio.ops.control import If
from intaglio.ops.shared.operand import cast
from intaglio.record import Record
from intaglio.runtime.model.state import matching
from intaglio.train.forward import Forward, Patterns
from intaglio.train.losses import Loss
from intaglio.train.optimizers import Optimizer

LOSS = "loss@value"
"""The output that is the loss."""

SHARE = "batches@share"
"""The input of an update by which gradients that were added up are multiplied: 1 by the number of batches."""

GUARD_OFF = "guard@off"
"""The input that is true where the state changes whatever numbers it gets."""

BROKEN = "broken@state"
"""The output that has a number for each watched tensor, above 0 where it would get its first number not finite."""

UPDATE = Origin("update", is_recomputed=True)
"""Where the nodes of the branch that changes the state come from. They compute once more what is looked at before: as
the same nodes they would need memory of their own for all of the new state."""

Change = Callable[[Builder], Mapping[str, Value]]
"""Adds what tensors of the state become to the graph of a builder."""

CustomLoss = Callable[..., Value]


class Group(Record):
    """Weights that are updated in another way: by their own learning rate or weight decay."""

    weights: Patterns
    lr: float | None = None
    weight_decay: float | None = None


class Settings(Record):
    """How a step is made, apart from the loss."""

    optimizer: Optimizer
    groups: tuple[Group, ...] = ()
    clip_norm: float | None = None
    clip_value: float | None = None
    ema: float | None = None
    recompute: Recompute = "none"
    straight_through: bool = False
    precision: str | None = None

    def __post_init__(self) -> None:
        for name in ("clip_norm", "clip_value"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} is {value}, expected more than 0")
        if self.ema is not None and not 0 < self.ema < 1:
            raise InputError(f"ema is {self.ema}, expected a decay between 0 and 1")
        check_recompute(self.recompute)
        if self.precision not in (None, "bfloat16"):
            raise InputError(f"precision is {self.precision!r}, expected None or 'bfloat16'")

    def group_of(self, names: Sequence[str]) -> dict[str, int]:
        """The number of the group of each weight: the last that names it, or 0 for none."""
        found = dict.fromkeys(names, 0)
        for number, group in enumerate(self.groups, 1):
            found |= dict.fromkeys(matching(names, group.weights, "trained weight"), number)
        return found

    def rate(self, group: int) -> float:
        """The learning rate of a group before any schedule."""
        own = self.groups[group - 1].lr if group else None
        return self.optimizer.lr if own is None else own

    def decay(self, group: int) -> float:
        """The weight decay of a group."""
        own = self.groups[group - 1].weight_decay if group else None
        return self.optimizer.weight_decay if own is None else own


class Step(Record):
    """A step: its graph, the state that it reads and writes, and the inputs for numbers that Python works out."""

    graph: Graph
    reads: Mapping[str, str]
    writes: Mapping[str, str]
    numbers: Mapping[str, tuple[int, str]]
    """Of inputs that are numbers of the optimizer: the group, and the number's name."""
    watched: tuple[str, ...] = ()
    """The tensors of the state that BROKEN tells of, in order."""


class StepBuilder:
    """A graph to which the parts of a step are added."""

    def __init__(self, graph: Graph, settings: Settings) -> None:
        self.graph, self.settings = graph, settings
        self.builder = Builder(graph)
        self.reads: dict[str, str] = {}
        self.writes: dict[str, str] = {}
        self.numbers: dict[str, tuple[int, str]] = {}
        self._outputs: list[Value] = []
        self._changes: list[Change] = []
        self.watched: tuple[str, ...] = ()
        self._border: Value | None = None

    def input(self, name: str, type: TensorType) -> Value:
        """A new input with just this name."""
        if self.graph.unique_name(name) != name:
            raise InputError(
                f"the model has a tensor that is named {name!r}, as an input of the training step; rename it"
            )
        value = Value(name, type)
        self.graph.inputs.append(value)
        return value

    def free_name(self, name: str) -> str:
        """A name that nothing in the graph has."""
        while name in self.graph.names:
            name += "_"
        return name

    def hold(self, name: str, type: TensorType) -> Value:
        """A new input that is state."""
        self.reads[name] = name
        return self.input(name, type)

    def give(self, value: Value, name: str) -> None:
        """Make a value an output of this name."""
        made = self.builder.Identity(value)
        made.name = self.graph.unique_name(name)
        self._outputs.append(made)

    def change(self, make: Change) -> None:
        """Let tensors of the state become what `make` adds to a graph, and returns by their names.

        It is called twice: for what decides whether the step is taken, and for the branch in which it is.
        """
        self._changes.append(make)

    def mark_backward(self) -> None:
        """The forward pass ends here."""
        if self.settings.recompute != "none":
            self._border = self.builder.Identity(self.builder.constant(0))

    def finish(self, watched: Sequence[str] = ()) -> Step:
        """The step, with all that nobody reads taken out.

        The state changes only where the loss is finite and no `watched` tensor gets its first number that is not, or
        where the input GUARD_OFF is true. The output BROKEN says of each watched tensor whether it gets one.
        """
        if self._changes:
            self._guard(watched)
        self.graph.set_outputs(self._outputs)
        if self._border is not None and self._border.producer is not None:
            recompute_values(self.graph, self._border.producer, self.settings.recompute)
        remove_unread(self.graph, self._outputs)
        verify(self.graph)
        return Step(self.graph, self.reads, self.writes, self.numbers, self.watched)

    def _guard(self, watched: Sequence[str]) -> None:
        """Add what decides whether the state changes, and the branches in which it does or does not."""
        b, state = self.builder, {value.name: value for value in self.graph.inputs if value.name in self.reads}
        with b.active():
            made = self._made(b)
            broken = [_breaks(b, state[name], made[name]) for name in watched if name in made]
            flags = b.Concat(*broken, axis=0) if len(broken) > 1 else broken[0] if broken else b.constant(np.zeros(1))
            is_whole = b.Equal(b.ReduceMax(flags, keepdims=0), b.constant(0, flags.dtype))
            losses = [value for value in self._outputs if value.name == LOSS]
            is_taken = b.And(is_whole, _is_finite(b, losses[0])) if losses else is_whole
            is_taken = b.Or(is_taken, self.input(GUARD_OFF, TensorType(BOOL, ())))
            then, otherwise = Graph("taken", outer=self.graph), Graph("left_out", outer=self.graph)
            inner = Builder(then, origin=UPDATE)
            with inner.active():
                changed = self._made(inner)
                then.set_outputs([_own(inner, changed[name], then) for name in changed])
            otherwise.set_outputs([Builder(otherwise).Identity(state[name]) for name in changed])
            choice = If(then_branch=then, else_branch=otherwise, output_count=len(changed))
            results = b.add(choice, [is_taken], len(changed))
        if broken:
            self.give(flags, BROKEN)
        for name, value in zip(changed, results, strict=True):
            value.name = self.graph.unique_name(f"{name}@next")
            self._outputs.append(value)
            self.writes[value.name] = name
        self.watched = tuple(name for name in watched if name in made)

    def _made(self, b: Builder) -> dict[str, Value]:
        """What the tensors of the state become."""
        return {name: value for change in self._changes for name, value in change(b).items()}

    def clipped(self, gradients: Mapping[str, Value]) -> dict[str, Value]:
        """The gradients within the limits on their elements, and then on their norm."""
        b, found = self.builder, dict(gradients)
        if self.settings.clip_value is not None:
            limit = self.settings.clip_value
            found = {n: b.Clip(g, b.constant(-limit, g.dtype), b.constant(limit, g.dtype)) for n, g in found.items()}
        if self.settings.clip_norm is None:
            return found
        squares = [b.ReduceSumSquare(gradient, keepdims=0) for gradient in found.values()]
        total = squares[0] if len(squares) == 1 else b.Sum(*(b.CastLike(each, squares[0]) for each in squares))
        factor = b.Min(self.settings.clip_norm / (b.Sqrt(total) + 1e-6), b.constant(1, total.dtype))
        return {name: gradient * cast(b, factor, gradient.dtype) for name, gradient in found.items()}

    def update(self, weights: Mapping[str, Value], gradients: Mapping[str, Value]) -> None:
        """Add what the weights, the optimizer's tensors and the averages become."""
        optimizer = self.settings.optimizer
        groups = self.settings.group_of(list(weights))
        for name, gradient in self.clipped(gradients).items():
            weight, group = weights[name], groups[name]
            slots = {slot: self.hold(f"{name}@{slot}", weight.tensor) for slot in optimizer.slots()}
            numbers = {each: cast(self.builder, self._number(group, each), weight.dtype) for each in self._names()}
            average = None if self.settings.ema is None else self.hold(f"{name}@ema", weight.tensor)
            given = _Updated(name, weight, gradient, slots, numbers, average, self.settings.decay(group))
            self.change(lambda b, given=given: given.made(b, optimizer, self.settings.ema))

    def _names(self) -> list[str]:
        return list(self.settings.optimizer.numbers(1, 1.0))

    def _number(self, group: int, name: str) -> Value:
        input_name = f"{name}@{group}"
        if input_name not in self.numbers:
            self.numbers[input_name] = (group, name)
            return self.input(input_name, TensorType(FLOAT64, ()))
        return next(value for value in self.graph.inputs if value.name == input_name)


class _Updated(Record):
    """A weight, and all that its update needs."""

    name: str
    weight: Value
    gradient: Value
    slots: Mapping[str, Value]
    numbers: Mapping[str, Value]
    average: Value | None
    decay: float

    def made(self, b: Builder, optimizer: Optimizer, ema: float | None) -> dict[str, Value]:
        """What the weight, its slots and its average become, by their names in the state."""
        made = optimizer.update(b, self.weight, self.gradient, self.slots, self.numbers, self.decay)
        found = {f"{self.name}@{slot}" if slot else self.name: value for slot, value in made.items()}
        if self.average is not None and ema is not None:
            found[f"{self.name}@ema"] = self.average + (made[""] - self.average) * (1 - ema)
        return found


def _is_finite(b: Builder, x: Value) -> Value:
    """Whether each element is a number; NaN is not below anything."""
    return b.LessOrEqual(b.Abs(x), b.constant(ml_dtypes.finfo(x.dtype.numpy).max, x.dtype))


def _breaks(b: Builder, old: Value, new: Value) -> Value:
    """One number, above 0 where an element stops being finite; rows are looked at side by side."""
    broken = cast(b, b.And(_is_finite(b, old), b.Not(_is_finite(b, new))), FLOAT32)
    if new.rank > 1:
        broken = b.ReduceMax(broken, b.constant(np.array([-1])), keepdims=0)
    return b.Reshape(b.ReduceMax(broken, keepdims=0), b.constant(np.array([1])))


def _own(b: Builder, value: Value, graph: Graph) -> Value:
    """The value as one that the graph itself computes."""
    return value if value.producer is not None and value.producer.graph is graph else b.Identity(value)


def backward(
    step: StepBuilder, forward: Forward, loss: Value, weights: Mapping[str, Value]
) -> tuple[dict[str, Value], list[str]]:
    """The gradients of the loss by the weights, and the names of those on which it does not depend."""
    b = step.builder
    step.mark_backward()
    one = b.ConstantOfShape(b.Shape(loss), value=Tensor(np.ones(1, loss.dtype.numpy)))
    found = pull_back(
        b, lambda: forward.graph.nodes, [(loss, one)], list(weights.values()), step.settings.straight_through
    )
    pairs = dict(zip(weights, found, strict=True))
    return {n: g for n, g in pairs.items() if g is not None}, [n for n, g in pairs.items() if g is None]


def add_loss(step: StepBuilder, loss: Any, outputs: Sequence[Value]) -> tuple[Value, list[Value]]:
    """The loss of a model's outputs, and its targets as further inputs of the graph.

    `loss` is a Loss of the first output, the name of an output that is the loss, or a function of outputs and targets,
    which `targets` of it tells the types of.
    """
    if isinstance(loss, Loss):
        target = step.input(step.free_name("target"), loss.target_type(outputs[0]))
        return loss.build(step.builder, outputs[0], target), [target]
    if isinstance(loss, Value):
        return step.builder.ReduceSum(loss, keepdims=0) if loss.rank else loss, []
    targets = [step.input(name, type) for name, type in loss.targets.items()]
    with step.builder.active():
        made = loss.function(*outputs, *targets)
    if not isinstance(made, Value) or not isinstance(made.type, TensorType) or made.dtype.kind != "float" or made.rank:
        raise InputError(f"the loss must be one floating-point number, and the function gives {made!r}")
    return made, targets
