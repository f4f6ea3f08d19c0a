"""`Trainer`: a model, a loss and an optimizer, compiled as one training step."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from intaglio.autodiff.recompute import Recompute
from intaglio.errors import InputError, TrainingError
from intaglio.ir.clone import clone_with_values
from intaglio.ir.dtype import FLOAT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ops.shared.operand import cast
from intaglio.passes import recognise
from intaglio.passes.open_batch import has_other_batch, open_batch
from intaglio.runtime.engine.limits import settled
from intaglio.runtime.model.arrays import to_array
from intaglio.runtime.model.donation import StateUpdates
from intaglio.runtime.model.loading import import_source, load
from intaglio.runtime.model.model import Model
from intaglio.runtime.model.sources import is_module
from intaglio.runtime.model.state import State, StatefulModel
from intaglio.train.checkpoint import load_checkpoint, save_checkpoint
from intaglio.train.fit import Batches, Callback, EarlyStopping, evaluate, fit
from intaglio.train.forward import (
    SEED,
    Forward,
    Patterns,
    check_counts,
    find_weights,
    normalized_counts,
    warn_of_lost_layers,
    with_weights,
)
from intaglio.train.history import History
from intaglio.train.losses import Loss
from intaglio.train.modules import copy_to_module, module_source
from intaglio.train.nonfinite import first_nonfinite
from intaglio.train.optimizers import Optimizer, as_optimizer
from intaglio.train.outputs import resolve_loss, with_outputs
from intaglio.train.precision import in_precision
from intaglio.train.report import trainer_html, trainer_text
from intaglio.train.schedules import Schedule, constant
from intaglio.train.step import (
    BROKEN,
    GUARD_OFF,
    LOSS,
    SHARE,
    Group,
    Settings,
    Step,
    StepBuilder,
    add_loss,
    backward,
)

if TYPE_CHECKING:
    from intaglio.onnx.reader import ModelProto, Source
    from intaglio.train.distributed import Processes

Array = np.ndarray[Any, Any]


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

    The model may be a module of PyTorch with `example_inputs`, as `load` takes them; its batch is open. Weights have
    the module's names, and what needs no gradient there is not trained. `to_torch` gives them back.
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
        example_inputs: Any = None,
        dynamic_shapes: Any = None,
        **options: Any,
    ) -> None:
        if accumulate < 1:
            raise InputError(f"accumulate is {accumulate}, expected at least 1")
        if nonfinite not in ("stop", "skip", "ignore"):
            raise InputError(f"nonfinite is {nonfinite!r}, expected 'stop', 'skip' or 'ignore'")
        if is_module(model):
            model = module_source(model, example_inputs, dynamic_shapes)
        source = model.graph if isinstance(model, Model) else import_source(model, settled(options.get("limits"))).graph
        warn_of_lost_layers(source)
        self._options = (model.options.keywords() if isinstance(model, Model) else {}) | options
        self.graph = with_weights(source, initialize, seed)
        self._sized, self._output = self.graph, output
        self._whole, self._outputs = with_outputs(self._sized, output)
        self._loss = resolve_loss(self.graph, loss, targets)
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
        self.normalized = 0
        """How many batches the running statistics are of: all but those that were left out."""
        self.epoch, self.epoch_batch = 0, 0
        """How far `fit` is: epochs that are done, and batches of the present one."""
        self.fit_begun = 0
        """After which epoch the present `fit` began."""
        self._is_resumed, self._pending = False, 0
        self.counted: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """How many batches the normalizations of a module were given back by `to_torch`."""
        self._weights = find_weights(self.graph, trainable, frozen)
        self._make(self._weights)

    def _make(self, weights: Any, state: State | None = None) -> None:
        """Build the steps and the state that they share, unless there is one."""
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
        self.state = State(arrays) if state is None else state
        self._tensors = (*gradients, *forward.statistics)
        hidden = [f"{name}@{slot}" for name in gradients for slot in self.settings.optimizer.hidden_slots]
        self._updated, self._statistics = (*gradients, *hidden), tuple(forward.statistics)
        self._counts = normalized_counts(self._sized, self._statistics)
        step.give(loss, LOSS)
        for name, value in forward.changed.items():
            step.change(lambda b, name=name, value=value: {name: value})
        if not is_split:
            with step.builder.active():
                step.update({name: forward.trained[name] for name in gradients}, gradients)
            self._update: StatefulModel | None = None
        else:
            self._add_up(step, gradients)
            self._update = self._stateful(self._update_step(gradients))
        if self.processes is not None and state is None:
            self.processes.share([self.state.held(name) for name in self.state])
        made = step.finish(self._watched_by(is_split))
        self._feeds = [v.name for v in made.graph.inputs if v.name not in made.reads and v.name not in made.numbers]
        self._feeds = [name for name in self._feeds if name not in (SEED, GUARD_OFF)]
        self._watched = made.watched
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
            forward.graph.close(forward.trained.pop(name), weights.first[name])
        step.reads |= {name: name for name in (*forward.trained, *forward.statistics)}
        return forward, step, loss, gradients

    def _placed_loss(self, graph: Graph) -> Any:
        """The loss, in a copy of the graph where it is an output of that."""
        return graph.outputs[self._loss] if isinstance(self._loss, int) else self._loss

    def _add_up(self, step: StepBuilder, gradients: Mapping[str, Value]) -> None:
        """The gradients are added to those of the batches before."""
        with step.builder.active():
            for name, gradient in gradients.items():
                total = step.hold(f"{name}@gradient", gradient.tensor)
                step.change(lambda b, total=total, gradient=gradient: {total.name: b.Add(total, gradient)})

    def _update_step(self, gradients: Mapping[str, Value]) -> Step:
        """A graph that updates the weights by the gradients that were added up."""
        step = StepBuilder(Graph("update"), self.settings)
        b, types = step.builder, {name: TensorType(value.dtype, value.shape) for name, value in gradients.items()}
        weights = {name: step.hold(name, types[name]) for name in gradients}
        totals = {name: step.hold(f"{name}@gradient", types[name]) for name in gradients}
        with b.active():
            share = step.input(SHARE, TensorType(FLOAT64, ()))
            step.update(weights, {name: total * cast(b, share, total.dtype) for name, total in totals.items()})
        return step.finish(self._updated)

    def _stateful(self, step: Step) -> StatefulModel:
        """The step, compiled so that it writes over the state."""
        updates = StateUpdates({name: output for output, name in step.writes.items()})
        return StatefulModel(load(step.graph, **self._options, donate=updates), self.state, step.reads, step.writes)

    @property
    def lr(self) -> float:
        """The learning rate of the next update. Setting it moves all that the schedule gives by the same factor.

        Groups with a learning rate of their own keep that.
        """
        return self.settings.optimizer.lr * self.schedule(self.updates)

    @lr.setter
    def lr(self, rate: float) -> None:
        factor = self.schedule(self.updates)
        if not factor:
            raise InputError(
                f"the schedule makes the learning rate 0 in update {self.updates + 1}; set trainer.schedule"
            )
        optimizer = replace(self.settings.optimizer, lr=rate / factor)
        self.settings = replace(self.settings, optimizer=optimizer)

    @property
    def inputs(self) -> list[str]:
        """The names of what `step` is given, in order: inputs of the model, then targets."""
        return list(self._feeds)

    @property
    def statistics(self) -> tuple[str, ...]:
        """The names of the running statistics that batches update."""
        return self._statistics

    @property
    def model(self) -> StatefulModel:
        """The compiled step, for those who want to look at it."""
        return self._step

    def step(self, *arrays: Any, **named_arrays: Any) -> float:
        """Train on one batch: inputs and targets by position or name. Returns the loss before the update."""
        feeds = self._checked(arrays, named_arrays)
        with self.state.lock:
            return self._run(feeds)

    def _checked(self, arrays: Sequence[Any], named_arrays: Mapping[str, Any]) -> dict[str, Any]:
        """A batch to train on, by name."""
        feeds = self._with_target(self._named_feeds(arrays, named_arrays))
        check_counts(self._sized, self._counts, feeds)
        return feeds

    def _take_sizes(self, feeds: Mapping[str, Any]) -> None:
        """Open the batch of a model that has a fixed one, at the first batch of another size."""
        if not has_other_batch(self._sized, feeds):
            return
        with self.state.lock:
            before = self._sized, self._whole
            self._sized = open_batch(self.graph, self.trained)
            self._whole, self._outputs = with_outputs(self._sized, self._output)
            try:
                self._make(self._weights, self.state)
            except BaseException:
                self._sized, self._whole = before
                raise
            for name in ("_differentiator", "_inference", "_averaged", "_scorer", "_update_numbers"):
                self.__dict__.pop(name, None)

    def _with_target(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The feeds with a target that was checked, as the loss takes it."""
        self._take_sizes(feeds)
        value = self._targets[0] if self._targets else None
        if value is None or not isinstance(self._loss, Loss) or value.name not in feeds:
            return dict(feeds)
        target = self._loss.as_target(to_array(feeds[value.name], value.dtype, f"input {value.name!r}"))
        self._loss.check_target(target, self._prediction)
        return {**feeds, value.name: target}

    def _run(self, feeds: dict[str, Any]) -> float:
        given = feeds | self._step_numbers(self._numbers) | self._seeds() | self._guard_off()
        results = self._step.run(given)
        loss = float(results[LOSS])
        broken = self._broken(results, self._watched) if np.isfinite(loss) else []
        self.batches += 1
        is_refused = self.nonfinite != "ignore" and bool(broken or not np.isfinite(loss))
        self.normalized += not is_refused
        if is_refused:
            self._refuse(f"the loss is {loss}", broken, self._step, given)
        if self._update is None:
            self.updates += not is_refused
        elif not is_refused or self.processes is not None:  # the other processes wait for this one's gradients
            self._pending += 1
            if self._pending == self.accumulate:
                self._apply()
        return loss

    def _watched_by(self, is_split: bool) -> tuple[str, ...]:
        """The tensors that a step changes and that must stay finite; infinite gradients may still be clipped."""
        if not is_split:
            return (*self._updated, *self._statistics)
        return (*(self._totals if self.settings.clip_value is None else ()), *self._statistics)

    @cached_property
    def _totals(self) -> tuple[str, ...]:
        return tuple(f"{name}@gradient" for name in self.trained)

    def _guard_off(self) -> dict[str, Array]:
        """Whether steps are taken whatever numbers they give."""
        return {GUARD_OFF: np.array(self.nonfinite == "ignore")}

    def _broken(self, results: dict[str, Any], watched: Sequence[str]) -> list[str]:
        """The tensors that a step would make not finite, where it was not taken for that."""
        if self.nonfinite == "ignore" or not watched:
            return []
        return [name for name, number in zip(watched, results[BROKEN].tolist(), strict=True) if number]

    def finish_update(self) -> None:
        """Update the weights by the mean gradient of batches that wait for others (`accumulate`), if there are any.

        `fit` does so at the end of each epoch. Of several processes, all must call it after as many batches.
        """
        with self.state.lock:
            if self._pending:
                self._apply()

    def _apply(self) -> None:
        """Update the weights by the gradients that were added up, here and in other processes."""
        assert self._update is not None
        if self.processes is not None:
            names = [*self._totals, *self._statistics]
            self.processes.average([self.state.held(name) for name in names])
        given = self._step_numbers(self._update_numbers) | self._guard_off()
        given[SHARE] = np.array(1 / self._pending)
        broken = self._broken(self._update.run(given), self._updated)
        try:
            if broken:
                self._refuse("gradients of the last batches are too large or not finite", broken, self._update, given)
            else:
                self.updates += 1
        finally:
            self._pending = 0
            for name in self._totals:
                self.state.held(name).fill(0)

    @cached_property
    def _update_numbers(self) -> dict[str, tuple[int, str]]:
        assert self._update is not None
        names = [item.name for item in self._update.inputs if item.name not in (SHARE, GUARD_OFF)]
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

    def _refuse(self, what: str, broken: Sequence[str], step: StatefulModel, given: Mapping[str, Any]) -> None:
        """Raise or warn of a step that is not taken; the weights are those from before it."""
        inputs = [self.state.held(v.name) if v.name in self.state else given[v.name] for v in step.graph.inputs]
        where = first_nonfinite(step.graph, inputs)
        place = f"in step {self.updates + 1} (batch {self.batches})"
        effect = f", and the update would make {', '.join(map(repr, broken[:4]))} not finite" if broken else ""
        spoiled = [name for name in self._tensors if not np.isfinite(self.state.held(name)).all()]
        kept = f"as before, with numbers in {spoiled[0]!r} that were not finite then" if spoiled else "as before"
        text = f"{what} {place}{effect}: {where}; the weights are {kept}"
        if self.nonfinite == "stop":
            raise TrainingError(f"{text}. nonfinite='skip' leaves out such batches; a lower lr or clip_norm may help")
        what_is_left = "the batch is" if step is self._step else f"the last {self._pending} batches are"
        warnings.warn(f"{text}, {what_is_left} left out", UserWarning, stacklevel=6)

    def _named_feeds(self, arrays: Sequence[Any], named_arrays: Mapping[str, Any]) -> dict[str, Any]:
        if len(arrays) > len(self._feeds):
            raise InputError(f"{len(arrays)} arrays were given, a step takes {', '.join(self._feeds)}")
        feeds = dict(zip(self._feeds, arrays, strict=False)) | dict(named_arrays)
        missing = [name for name in self._feeds if name not in feeds]
        if missing:
            raise InputError(f"a step takes {', '.join(self._feeds)}; {', '.join(missing)} was not given")
        return feeds

    def gradients(self, *arrays: Any, **named_arrays: Any) -> dict[str, Array]:
        """The gradients of a batch's loss by name, before any clipping; nothing is updated.

        The batch is normalized, and elements are dropped, as in the next step.
        """
        feeds = self._checked(arrays, named_arrays)
        with self.state.lock:
            found = self._differentiator.run(feeds | self._seeds())
        return dict(zip(self.trained, found.values(), strict=True))

    @cached_property
    def _differentiator(self) -> StatefulModel:
        _, step, _, gradients = self._differentiated(self._weights)
        for name, value in gradients.items():
            step.give(value, f"{name}@bar")
        made = step.finish()
        return StatefulModel(load(made.graph, **self._options), self.state, made.reads, {})

    def begin_fit(self, epochs: int) -> int:
        """The epoch up to which a fit of so many epochs goes: as many more, or of the fit that a checkpoint is of."""
        if epochs < 1:
            raise InputError(f"epochs is {epochs}, expected at least 1")
        if not self._is_resumed:
            self.fit_begun = self.epoch
        self._is_resumed = False
        return self.fit_begun + epochs

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
        """Train so many epochs more, and return what was seen.

        After `load_checkpoint` it goes on with the fit that the checkpoint was written in: the epochs that this has
        behind it count.

        `data` is a tuple of arrays (inputs, then targets), which are shuffled and cut into batches, or something that
        gives batches as tuples each time it is gone through. `validation` is data of the same kind; `metrics` are
        "accuracy" or functions of the first output and the target. A callback is a function of the trainer and of the
        epoch's entry in the history, or has the methods `on_step(trainer, loss)` and `on_epoch(trainer, entry)`; what
        returns True ends the training. `early_stopping` ends it after so many epochs without a better validation.
        `checkpoint` is written after each epoch, and every `checkpoint_every` batches. `progress` shows epochs on a
        terminal, in a notebook or, at most one a second, in a log; True shows all of them there, False none.
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
        self._take_sizes(dict(zip((value.name for value in self.graph.inputs), arrays, strict=False)))
        return (self._averaged if ema else self._inference)(*arrays)

    def score(self, feeds: Mapping[str, Any]) -> tuple[float, Any]:
        """The loss of a batch in the model as it is used, and its first output."""
        results = self._scorer.run(self._with_target(feeds))
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
        graph, reads = self._opened(self._sized, held)
        return StatefulModel(load(graph, **self._options), self.state, reads, {})

    def _opened(self, source: Graph, held: Callable[[str], str]) -> tuple[Graph, dict[str, str]]:
        """A copy of a graph with the state as inputs."""
        graph, values = clone_with_values(source)
        for value in source.constants():
            if value.name in self._tensors:
                graph.open(values[value])
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
        tensors = self.trained_tensors(ema)
        graph, values = clone_with_values(self.graph)
        for value in self.graph.constants():
            if value.name in tensors:
                values[value].constant = tensors[value.name]
        return graph

    def trained_model(self, ema: bool = False, **options: Any) -> Model:
        """The model with the present weights, by itself; `options` are those of `load`."""
        return load(self.trained_graph(ema), **self._options | options)

    def trained_tensors(self, ema: bool = False) -> dict[str, Array]:
        """Copies of the present weights, or of their moving averages, and of running statistics, by name."""
        if ema:
            self._need_averages()
        averaged = self.trained if ema else ()
        return {name: self.state[f"{name}@ema" if name in averaged else name] for name in self._tensors}

    def to_torch(self, module: Any, ema: bool = False) -> Any:
        """Copy the present weights into the module of PyTorch that was trained, and return it.

        The counts of batches that its normalizations keep go up by the batches since the last call.
        Raises InputError, and copies nothing, where the names or shapes are not those of the module.
        """
        copy_to_module(self, module, ema)
        return module

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
        names = (
            "updates",
            "batches",
            "normalized",
            "epoch",
            "epoch_batch",
            "fit_begun",
            "_pending",
            "seed",
            "accumulate",
        )
        return {name.strip("_"): getattr(self, name) for name in names}

    def set_counters(self, counters: Mapping[str, int]) -> None:
        """Be as far as a checkpoint was."""
        for name in ("updates", "batches", "epoch", "epoch_batch", "seed"):
            setattr(self, name, int(counters[name]))
        self.normalized = int(counters.get("normalized", self.batches))
        self._pending, self.fit_begun, self._is_resumed = (
            int(counters["pending"]),
            int(counters.get("fit_begun", 0)),
            True,
        )

    def __repr__(self) -> str:
        made = f"{len(self.trained)} weights, {self.settings.optimizer}, after {self.updates} updates"
        return f"<Trainer of {self.graph.name!r}: {made}>"

    def __str__(self) -> str:
        return trainer_text(self)

    def _repr_html_(self) -> str:
        """The trained tensors as a table, for notebooks."""
        return trainer_html(self)
