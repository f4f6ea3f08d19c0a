"""`fit`: one model trained by several processes of Ray Train, which take the same steps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.graph import Graph
from intaglio.ir.state import graph_from_state, graph_state
from intaglio.ray import require_extra
from intaglio.ray.sending import opened, threads_of
from intaglio.ray.storage import exists, load_checkpoint, save_checkpoint
from intaglio.runtime.engine.limits import settled
from intaglio.runtime.model.loading import import_source
from intaglio.runtime.model.model import Model
from intaglio.runtime.model.sources import is_module
from intaglio.train.distributed import TorchProcesses, torch_processes
from intaglio.train.fit import Batches
from intaglio.train.history import History
from intaglio.train.modules import module_source
from intaglio.train.trainer import Trainer

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Fitted:
    """What came of training: the trainer with the trained weights, in this process, and what was seen."""

    trainer: Trainer
    history: History


def fit(
    model: Any,
    data: Sequence[Array],
    *,
    epochs: int = 1,
    batch_size: int = 32,
    shuffle: bool = True,
    workers: int = 2,
    num_cpus: float = 1,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    failures: int = 0,
    validation: Sequence[Array] | None = None,
    metrics: Sequence[Any] = (),
    run_config: Any = None,
    **options: Any,
) -> Fitted:
    """Train a model by `workers` processes, as one process would with the same batches.

    Each batch of `batch_size` rows is cut into equal parts, one for each process; the gradients are averaged by gloo.
    Rows at the end of an epoch that cannot be cut so are left out of it. `data` and `validation` are tuples of arrays
    (inputs, then targets), which processes of one machine read of one object store. `options` are those of
    `intaglio.train.Trainer`. Each process is granted `num_cpus` and computes on as many threads.

    `checkpoint` is a path or an address of fsspec (`s3://bucket/run.safetensors`) that all machines reach. It is
    written after each epoch, and every `checkpoint_every` batches. Training goes on from it where it is there: after
    the death of a process, of which `failures` are mended, and when `fit` is called again. `run_config` is Ray Train's.
    """
    ray, train = require_extra("ray"), require_extra("ray.train")
    torch = require_extra("ray.train.torch")
    _check(data, batch_size, workers, options)
    graph, options = _source(model, options | {"threads": threads_of(num_cpus)})
    place = None if checkpoint is None else os.fspath(checkpoint)
    work = {
        "graph": ray.put(graph_state(graph)),
        "data": ray.put([np.asarray(array) for array in data]),
        "validation": None if validation is None else ray.put([np.asarray(array) for array in validation]),
        "options": options,
        "fit": {"epochs": epochs, "metrics": tuple(metrics)},
        "batches": {"batch_size": batch_size, "shuffle": shuffle, "seed": options.get("seed", 0)},
        "checkpoint": (place, checkpoint_every),
    }
    found = torch.TorchTrainer(
        _work,
        train_loop_config=work,
        scaling_config=train.ScalingConfig(num_workers=workers, resources_per_worker={"CPU": num_cpus}),
        torch_config=torch.TorchConfig(backend="gloo"),
        run_config=_run_config(train, run_config, failures),
    ).fit()
    return _fitted(graph, options, *found.return_value)


def _check(data: Any, batch_size: int, workers: int, options: Mapping[str, Any]) -> None:
    """Raise InputError for what cannot be shared out among processes."""
    if workers < 1:
        raise InputError(f"workers is {workers}, expected at least 1")
    if batch_size < 1 or batch_size % workers:
        raise InputError(f"a batch of {batch_size} rows cannot be cut into {workers} equal parts, one for each worker")
    if not isinstance(data, (tuple, list)):
        raise InputError(f"data is a {type(data).__name__}, expected a tuple of arrays: inputs, then targets")
    for name in ("processes", "threads"):
        if name in options:
            raise InputError(f"{name}: `workers` are the processes, and `num_cpus` the threads of each")


def _source(model: Any, options: dict[str, Any]) -> tuple[Graph, dict[str, Any]]:
    """The graph of a model, and the options of a trainer of it."""
    if is_module(model):
        model = module_source(model, options.pop("example_inputs", None), options.pop("dynamic_shapes", None))
    if not isinstance(model, Model):
        return import_source(opened(model), settled(options.get("limits"))).graph, options
    return model.graph, model.options.keywords() | {"shared_weights": False} | options


def _run_config(train: Any, given: Any, failures: int) -> Any:
    if given is None:
        return train.RunConfig(failure_config=train.FailureConfig(max_failures=failures))
    if failures:
        raise InputError("failures: they are in the `failure_config` of a `run_config` of your own")
    return given


def _work(work: dict[str, Any]) -> tuple[dict[str, Array], dict[str, int], History]:
    """What each process does; returns the trained state, how far training is, and what was seen."""
    ray = require_extra("ray")
    place, every = work["checkpoint"]
    processes = torch_processes()
    trainer = Trainer(graph_from_state(ray.get(work["graph"])), **work["options"], processes=processes)
    if place is not None and exists(place):
        load_checkpoint(trainer, place)
    data, held_out = ray.get(work["data"]), work["validation"]
    part = Part(Batches(data, trainer, **work["batches"]), trainer, processes.rank, processes.size)
    history = trainer.fit(
        part,
        **work["fit"],
        batch_size=work["batches"]["batch_size"],
        validation=None if held_out is None else tuple(ray.get(held_out)),
        callbacks=[_Watcher(processes, place, every)],
        progress=False,
    )
    losses = np.array(history.losses)
    processes.average([losses])
    history.losses = losses.tolist()
    return trainer.state.state_dict(), trainer.counters(), history


class Part:
    """The rows of each batch that belong to one process: as many as those of every other one."""

    def __init__(self, batches: Batches, trainer: Trainer, rank: int, size: int) -> None:
        self._batches, self._trainer, self._rank, self._size = batches, trainer, rank, size

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """The parts of the batches of the epoch in which the trainer is."""
        for feeds in self._batches.epoch(self._trainer.epoch):
            rows = len(next(iter(feeds.values()))) // self._size
            if rows:
                first = rows * self._rank
                yield {name: array[first : first + rows] for name, array in feeds.items()}


class _Watcher:
    """Averages what is reported of an epoch over the processes, and lets the first one write checkpoints."""

    def __init__(self, processes: TorchProcesses, place: str | None, every: int | None) -> None:
        self._processes, self._place, self._every = processes, place, every

    def on_step(self, trainer: Trainer, loss: float) -> None:
        """Write a checkpoint after so many batches."""
        del loss
        if self._every and trainer.epoch_batch % self._every == 0:
            self._save(trainer)

    def on_epoch(self, trainer: Trainer, entry: dict[str, float]) -> None:
        """Write a checkpoint, and report the epoch to Ray."""
        loss = np.array([entry["loss"]])
        self._processes.average([loss])
        entry["loss"] = float(loss[0])
        self._save(trainer)
        require_extra("ray.train").report(dict(entry))

    def _save(self, trainer: Trainer) -> None:
        if self._place is not None and self._processes.rank == 0:
            save_checkpoint(trainer, self._place)


def _fitted(
    graph: Graph, options: dict[str, Any], state: dict[str, Array], counters: dict[str, int], history: History
) -> Fitted:
    """The trained model in this process."""
    trainer = Trainer(graph, **options)
    trainer.state.load_state_dict({name: state[name] for name in trainer.state})
    trainer.set_counters(counters)
    return Fitted(trainer, history)
