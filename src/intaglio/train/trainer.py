"""`Trainer`: a model, a loss and an optimizer, compiled as one training step."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from intaglio.autodiff.recompute import Recompute
from intaglio.errors import InputError, TrainingError
from intaglio.ir.clone import clone_with_values
from intaglio.ir.graph import Graph, Value
from intaglio.ir.parse import read_type
from intaglio.ir.types import TensorType
from intaglio.passes import recognise
from intaglio.record import Record
from intaglio.runtime.engine.limits import settled
from intaglio.runtime.model.loading import import_source, load
from intaglio.runtime.model.model import Model
from intaglio.runtime.model.state import State, StatefulModel, own_options
from intaglio.train.checkpoint import load_checkpoint, save_checkpoint
from intaglio.train.fit import Batches, Callback, EarlyStopping, History, evaluate, fit
from intaglio.train.forward import SEED, Forward, Patterns, find_weights, with_weights
from intaglio.train.losses import LOSSES, Loss, named
from intaglio.train.nonfinite import first_nonfinite
from intaglio.train.optimizers import Optimizer, as_optimizer
from intaglio.train.precision import in_precision
from intaglio.train.schedules import Schedule, constant
from intaglio.train.step import LOSS, Group, Settings, Step, StepBuilder, add_loss, backward

if TYPE_CHECKING:
    from intaglio.onnx.reader import ModelProto, Source
    from intaglio.train.distributed import Processes

Array = np.ndarray[Any, Any]


class Custom(Record):
    """A loss that is a function of the outputs and of targets of these types."""

    function: Callable[..., Any]
    targets: Mapping[str, Any]


class Trainer:
    """Trains a model: forward pass, loss, backward pass and update are one compiled model.

    `loss` is a name (`"cross_entropy"`), a loss of `intaglio.train`, the name of an output that is the loss itself, or
    a function that computes it with `intaglio.ops` from the outputs and from `targets`, whose types are given by name.
    `output` names the tensors that the loss is given, by default the only output. `optimizer` is a name or an
    optimizer, `lr` its learning rate, `schedule` a function of `intaglio.train.schedules`.

    All weights are trained that the loss depends on: constants of floating-point numbers that are no scalars, and no
    single numbers that an ONNX file has in a `Constant` node. `trainable` and `frozen` choose by patterns of names;
    `groups` gives some of them another learning rate or weight decay. `initialize` names inputs of the model that are
    weights, and gives them first values. Batches are normalized by their own statistics (but for layers whose scale and
    bias are frozen) and `Dropout` drops, by numbers that `seed` decides.

    `clip_value` and `clip_norm` bound gradients, `accumulate` adds up those of so many steps for one update, `ema`
    keeps moving averages of the weights, `precision="bfloat16"` computes in that type with weights in single precision,
    `recompute` and `straight_through` are those of `intaglio.grad`. `nonfinite` tells what happens when a loss is not
    finite: "stop" raises TrainingError, "skip" warns and leaves the weights as they are, "ignore" goes on. `processes`
    averages gradients over several; see `intaglio.train.torch_processes`. `options` are those of `load`.
    """

    def __init__(
        self,
        model: Model | Source | Graph,
        loss: Any = "cross_entropy",
        optimizer: str | Optimizer = "adam",
        lr: float | None = None,
        *,
        output: str | Sequence[str] | None = None,
        targets: Mapping[str, Any] | None = None,
        trainable: Patterns | None = None,
        frozen: Patterns | None = None,
        groups: Sequence[Group] = (),
        initialize: Patterns | None = None,
        schedule: Schedule | None = None,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        accumulate: int = 1,
        ema: float | None = None,
        precision: Literal["bfloat16"] | None = None,
        recompute: Recompute = "none",
        straight_through: bool = False,
        nonfinite: Literal["stop", "skip", "ignore"] = "stop",
        seed: int = 0,
        processes: Processes | None = None,
        **options: Any,
    ) -> None:
        if accumulate < 1:
            raise InputError(f"accumulate is {accumulate}, expected at least 1")
        if nonfinite not in ("stop", "skip", "ignore"):
            raise InputError(f"nonfinite is {nonfinite!r}, expected 'stop', 'skip' or 'ignore'")
        source = model.graph if isinstance(model, Model) else import_source(model, settled(options.get("limits"))).graph
        self._options = (own_options(model) if isinstance(model, Model) else {}) | options
        self.graph = with_weights(source, initialize, seed)
        self._whole, self._outputs = _with_outputs(self.graph, output)
        self._loss = _resolve_loss(self.graph, loss, targets)
        if isinstance(self._loss, Loss) and len(self._outputs) != 1:
            names = ", ".join(repr(value.name) for value in self.graph.outputs)
            raise InputError(f"say which output the loss is of, `output=`: the model has {names}")
        self.settings = Settings(
            as_optimizer(optimizer, lr),
            tuple(groups),
            clip_norm,
            clip_value,
            ema,
            recompute,
            straight_through,
            precision,
        )
        self.schedule = schedule or constant()
        self.accumulate, self.nonfinite, self.seed, self.processes = accumulate, nonfinite, seed, processes
        self.updates = 0
        """How many times the weights were updated."""
        self.batches = 0
        """How many batches the trainer was given."""
        self.epoch, self.epoch_batch = 0, 0
        """How far `fit` is: epochs that are done, and batches of the present one."""
        self._pending = 0
        self._make(find_weights(self.graph, trainable, frozen))

    def _make(self, weights: Any) -> None:
        """Build the steps and the state that they share."""
        is_split = self.accumulate > 1 or self.processes is not None
        forward, step, loss, gradients = self._differentiated(weights)
        self.trained = tuple(gradients)
        arrays = {name: weights.first[name] for name in (*gradients, *forward.statistics)}
        for name in gradients:
            first = weights.first[name]
            slots = self.settings.optimizer.slots()
            arrays |= {f"{name}@{slot}": np.full_like(first, value) for slot, value in slots.items()}
            if self.settings.ema is not None:
                arrays[f"{name}@ema"] = first
            if is_split:
                arrays[f"{name}@gradient"] = np.zeros_like(first)
        self.state = State(arrays)
        self._tensors = (*gradients, *forward.statistics)
        step.give(loss, LOSS)
        for name, value in forward.changed.items():
            step.change(name, value)
        if not is_split:
            with step.builder.active():
                step.update({name: forward.trained[name] for name in gradients}, gradients)
            self._update: StatefulModel | None = None
        else:
            self._add_up(step, gradients)
            self._update = self._stateful(self._update_step(gradients))
        if self.processes is not None:
            self.processes.share([self.state.held(name) for name in self.state])
        made = step.finish()
        self._feeds = [v.name for v in made.graph.inputs if v.name not in made.reads and v.name not in made.numbers]
        self._feeds = [name for name in self._feeds if name != SEED]
        self._has_seed = forward.has_seed
        self._numbers = dict(made.numbers)
        self._step = self._stateful(made)

    def _differentiated(self, weights: Any) -> tuple[Forward, StepBuilder, Value, dict[str, Value]]:
        """The forward pass with its loss and the gradients of all weights that this depends on."""
        forward = Forward(self._whole, weights)
        if self.settings.precision is not None:
            in_precision(forward)
        if self._options.get("simplify", True):
            known = {name: self._options[name] for name in ("disable", "exact") if name in self._options}
            recognise(forward.graph, list(forward.changed.values()), **known)
        step = StepBuilder(forward.graph, self.settings)
        with step.builder.active():
            outputs = [forward.graph.outputs[place] for place in self._outputs]
            loss, self._targets = add_loss(step, self._placed_loss(forward.graph), outputs)
            self._prediction = outputs[0]
            gradients, unused = backward(step, forward, loss, forward.trained)
        if not gradients:
            raise InputError("the loss depends on no weight that is trained")
        for name in unused:
            forward.graph.inputs.remove(forward.trained[name])
            forward.trained.pop(name).constant = weights.first[name]
        step.reads |= {name: name for name in (*forward.trained, *forward.statistics)}
        return forward, step, loss, gradients

    def _placed_loss(self, graph: Graph) -> Any:
        """The loss, in a copy of the graph where it is an output of that."""
        return graph.outputs[self._loss] if isinstance(self._loss, int) else self._loss

    def _add_up(self, step: StepBuilder, gradients: Mapping[str, Value]) -> None:
        """The gradients are added to those of the batches before."""
        with step.builder.active():
            for name, gradient in gradients.items():
                step.change(f"{name}@gradient", step.hold(f"{name}@gradient", gradient.tensor) + gradient)

    def _update_step(self, gradients: Mapping[str, Value]) -> Step:
        """A graph that updates the weights by the gradients that were added up."""
        step = StepBuilder(Graph("update"), self.settings)
        b, types = step.builder, {name: TensorType(value.dtype, value.shape) for name, value in gradients.items()}
        weights = {name: step.hold(name, types[name]) for name in gradients}
        totals = {name: step.hold(f"{name}@gradient", types[name]) for name in gradients}
        with b.active():
            step.update(weights, {name: total * (1 / self.accumulate) for name, total in totals.items()})
            for name, total in totals.items():
                step.change(f"{name}@gradient", total * 0.0)
        return step.finish()

    def _stateful(self, step: Step) -> StatefulModel:
        return StatefulModel(load(step.graph, **self._options), self.state, step.reads, step.writes)

    @property
    def lr(self) -> float:
        """The learning rate of the next update."""
        return self.settings.optimizer.lr * self.schedule(self.updates)

    @property
    def inputs(self) -> list[str]:
        """The names of what `step` is given, in order: inputs of the model, then targets."""
        return list(self._feeds)

    @property
    def model(self) -> StatefulModel:
        """The compiled step, for those who want to look at it."""
        return self._step

    def step(self, *arrays: Any, **named_arrays: Any) -> float:
        """Train on one batch: inputs and targets by position or name. Returns the loss before the update."""
        feeds = self._named_feeds(arrays, named_arrays)
        if isinstance(self._loss, Loss) and self._targets:
            target = feeds.get(self._targets[0].name)
            if isinstance(target, np.ndarray):
                self._loss.check_target(target, self._prediction)
        with self.state.lock:
            return self._run(feeds)

    def _run(self, feeds: dict[str, Any]) -> float:
        given = feeds | self._step_numbers(self._numbers) | self._seeds()
        results = self._step.run(given, accept=self._is_accepted)
        loss = float(results[LOSS])
        self.batches += 1
        if not np.isfinite(loss) and self.nonfinite != "ignore":
            self._refuse(loss, given)
        elif self._update is None:
            self.updates += 1
        else:
            self._pending += 1
            if self._pending == self.accumulate:
                self._apply()
        return loss

    def _is_accepted(self, results: Mapping[str, Any]) -> bool:
        return self.nonfinite == "ignore" or bool(np.isfinite(results[LOSS]))

    def _apply(self) -> None:
        """Update the weights by the gradients that were added up, here and in other processes."""
        assert self._update is not None
        if self.processes is not None:
            names = [f"{name}@gradient" for name in self.trained]
            names += [name for name in self._tensors if name not in self.trained]
            self.processes.average([self.state.held(name) for name in names])
        self._update.run(self._step_numbers(self._update_numbers))
        self._pending = 0
        self.updates += 1

    @cached_property
    def _update_numbers(self) -> dict[str, tuple[int, str]]:
        assert self._update is not None
        names = [item.name for item in self._update.inputs]
        return {name: (int(name.rpartition("@")[2]), name.rpartition("@")[0]) for name in names}

    def _step_numbers(self, wanted: Mapping[str, tuple[int, str]]) -> dict[str, Array]:
        factor, step = self.schedule(self.updates), self.updates + 1
        groups = {group for group, _ in wanted.values()}
        found = {g: self.settings.optimizer.numbers(step, self.settings.rate(g) * factor) for g in groups}
        return {name: np.array(found[group][number]) for name, (group, number) in wanted.items()}

    def _seeds(self) -> dict[str, Array]:
        if not self._has_seed:
            return {}
        rank = 0 if self.processes is None else self.processes.rank
        return {SEED: np.random.SeedSequence([self.seed, rank, self.batches]).generate_state(2, np.uint32)}

    def _refuse(self, loss: float, given: Mapping[str, Any]) -> None:
        """Tell of a loss that is not finite; the weights are those from before the step."""
        inputs = [self.state.held(v.name) if v.name in self.state else given[v.name] for v in self._step.graph.inputs]
        where = first_nonfinite(self._step.graph, inputs)
        text = (
            f"the loss is {loss} in step {self.updates + 1} (batch {self.batches}): {where}; the weights are as before"
        )
        if self.nonfinite == "stop":
            raise TrainingError(f"{text}. nonfinite='skip' leaves out such batches; a lower lr or clip_norm may help")
        warnings.warn(f"{text}, the batch is left out", UserWarning, stacklevel=5)

    def _named_feeds(self, arrays: Sequence[Any], named_arrays: Mapping[str, Any]) -> dict[str, Any]:
        if len(arrays) > len(self._feeds):
            raise InputError(f"{len(arrays)} arrays were given, a step takes {', '.join(self._feeds)}")
        feeds = dict(zip(self._feeds, arrays, strict=False)) | dict(named_arrays)
        missing = [name for name in self._feeds if name not in feeds]
        if missing:
            raise InputError(f"a step takes {', '.join(self._feeds)}; {', '.join(missing)} was not given")
        return feeds

    def fit(
        self,
        data: Any,
        epochs: int = 1,
        *,
        batch_size: int = 32,
        shuffle: bool = True,
        validation: Any = None,
        metrics: Sequence[str | Callable[..., float]] = (),
        callbacks: Sequence[Callback] = (),
        early_stopping: EarlyStopping | int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        progress: bool | None = None,
    ) -> History:
        """Train until the trainer has done so many epochs, and return what was seen.

        `data` is a tuple of arrays (inputs, then targets), which are shuffled and cut into batches, or something that
        gives batches as tuples each time it is gone through. `validation` is data of the same kind; `metrics` are
        "accuracy" or functions of the first output and the target. A callback is a function of the trainer and of the
        epoch's entry in the history, or has the methods `on_step(trainer, loss)` and `on_epoch(trainer, entry)`; what
        returns True ends the training. `early_stopping` ends it after so many epochs without a better validation.
        `checkpoint` is written after each epoch, and every `checkpoint_every` batches.
        """
        batches = Batches(data, self, batch_size, shuffle, self.seed)
        watchers = list(callbacks)
        if early_stopping is not None:
            stop = early_stopping if isinstance(early_stopping, EarlyStopping) else EarlyStopping(early_stopping)
            watchers.append(stop)
        held_out = None if validation is None else Batches(validation, self, batch_size, False, self.seed)
        return fit(self, batches, epochs, held_out, metrics, watchers, checkpoint, checkpoint_every, progress)

    def evaluate(
        self, data: Any, metrics: Sequence[str | Callable[..., float]] = (), batch_size: int = 32
    ) -> dict[str, float]:
        """The mean loss of the model as it is used, without dropping anything, and the mean of metrics."""
        return evaluate(self, Batches(data, self, batch_size, False, self.seed), metrics)

    def predict(self, *arrays: Any, ema: bool = False) -> Any:
        """The outputs of the model as it is used, with the present weights, or with their moving averages (`ema`)."""
        return (self._averaged if ema else self._inference)(*arrays)

    def score(self, feeds: Mapping[str, Any]) -> tuple[float, Any]:
        """The loss of a batch in the model as it is used, and its first output."""
        results = self._scorer.run(feeds)
        return float(results[LOSS]), results["prediction@value"]

    @cached_property
    def _inference(self) -> StatefulModel:
        return self._with_state(lambda name: name)

    @cached_property
    def _averaged(self) -> StatefulModel:
        self._need_averages()
        return self._with_state(lambda name: f"{name}@ema" if name in self.trained else name)

    def _need_averages(self) -> None:
        if self.settings.ema is None:
            raise InputError("there are no moving averages: the trainer was made without ema")

    def _with_state(self, held: Callable[[str], str]) -> StatefulModel:
        graph, reads = self._opened(self.graph, held)
        return StatefulModel(load(graph, **self._options), self.state, reads, {})

    def _opened(self, source: Graph, held: Callable[[str], str]) -> tuple[Graph, dict[str, str]]:
        """A copy of a graph with the state as inputs."""
        graph, values = clone_with_values(source)
        for value in source.constants():
            if value.name in self._tensors:
                values[value].constant = None
                graph.inputs.append(values[value])
        return graph, {name: held(name) for name in self._tensors}

    @cached_property
    def _scorer(self) -> StatefulModel:
        graph, reads = self._opened(self._whole, lambda name: name)
        step = StepBuilder(graph, self.settings)
        with step.builder.active():
            outputs = [graph.outputs[place] for place in self._outputs]
            loss, _ = add_loss(step, self._placed_loss(graph), outputs)
            step.give(loss, LOSS)
            step.give(outputs[0], "prediction@value")
        made = step.finish()
        return StatefulModel(load(made.graph, **self._options), self.state, reads, {})

    def trained_graph(self, ema: bool = False) -> Graph:
        """A copy of the model's graph, with the present weights or their moving averages."""
        if ema:
            self._need_averages()
        graph, values = clone_with_values(self.graph)
        for value in self.graph.constants():
            if value.name in self._tensors:
                averaged = ema and value.name in self.trained
                values[value].constant = self.state[f"{value.name}@ema" if averaged else value.name]
        return graph

    def trained_model(self, ema: bool = False, **options: Any) -> Model:
        """The model with the present weights, by itself; `options` are those of `load`."""
        return load(self.trained_graph(ema), **self._options | options)

    def to_onnx(self, opset: int | None = None, ema: bool = False) -> ModelProto:
        """The model with the present weights, as an ONNX message."""
        from intaglio.onnx.writer import write_model

        return write_model(self.trained_graph(ema), opset=opset)

    def save(self, path: str | os.PathLike[str], opset: int | None = None, ema: bool = False) -> None:
        """Write the model with the present weights to an ONNX file."""
        from intaglio.onnx.writer import save_model

        save_model(self.trained_graph(ema), path, opset=opset)

    def save_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Write all that training needs to go on as if nothing had happened to a file of safetensors, at once."""
        save_checkpoint(self, path)

    def load_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Go on from a checkpoint of this model and optimizer; raises InputError for one of another model."""
        load_checkpoint(self, path)

    def counters(self) -> dict[str, int]:
        """How far training is."""
        names = ("updates", "batches", "epoch", "epoch_batch", "_pending", "seed", "accumulate")
        return {name.strip("_"): getattr(self, name) for name in names}

    def set_counters(self, counters: Mapping[str, int]) -> None:
        """Be as far as a checkpoint was."""
        for name in ("updates", "batches", "epoch", "epoch_batch", "seed"):
            setattr(self, name, int(counters[name]))
        self._pending = int(counters["pending"])

    def __repr__(self) -> str:
        made = f"{len(self.trained)} weights, {self.settings.optimizer}, after {self.updates} updates"
        return f"<Trainer of {self.graph.name!r}: {made}>"


def _with_outputs(graph: Graph, output: str | Sequence[str] | None) -> tuple[Graph, list[int]]:
    """The graph with all tensors that the loss is given among its outputs, and their places there."""
    if output is None:
        return graph, list(range(len(graph.outputs)))
    whole, _ = clone_with_values(graph)
    known = {value.name: value for value in (*whole.values(), *whole.outputs)}
    wanted = [named(name, known, "tensor") for name in ([output] if isinstance(output, str) else output)]
    whole.set_outputs([*whole.outputs, *(value for value in wanted if value not in whole.outputs)])
    return whole, [whole.outputs.index(value) for value in wanted]


def _resolve_loss(graph: Graph, loss: Any, targets: Mapping[str, Any] | None) -> Any:
    """The loss, or the place of the output that is the loss."""
    if isinstance(loss, Loss):
        return loss
    names = [value.name for value in graph.outputs]
    if isinstance(loss, str) and loss not in LOSSES and loss in names:
        if graph.outputs[names.index(loss)].dtype.kind != "float":
            raise InputError(f"the output {loss!r} is {graph.outputs[names.index(loss)].type}, which is no loss")
        return names.index(loss)
    if callable(loss):
        types = {name: read_type(type) if isinstance(type, str) else type for name, type in (targets or {}).items()}
        wrong = [name for name, type in types.items() if not isinstance(type, TensorType)]
        if wrong:
            raise InputError(f"the target {wrong[0]!r} is {types[wrong[0]]}, expected a tensor")
        return Custom(loss, types)
    return named(loss, LOSSES, f"loss, nor an output ({', '.join(names)}),")()
