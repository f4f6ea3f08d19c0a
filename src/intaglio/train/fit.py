"""Going through data: batches, epochs, what people see meanwhile, and when to stop."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.errors import InputError
from intaglio.train.history import History
from intaglio.train.losses import named
from intaglio.train.progress import Progress

if TYPE_CHECKING:
    from intaglio.train.trainer import Trainer

Array = np.ndarray[Any, Any]
Callback = Any
Metric = Callable[..., float]


class EarlyStopping:
    """Ends training after `patience` epochs without a better `monitor`, with the best weights (`restore`)."""

    def __init__(self, patience: int = 3, monitor: str = "val_loss", least: float = 0.0, restore: bool = True) -> None:
        if patience < 1:
            raise InputError(f"patience is {patience}, expected at least 1")
        self.patience, self.monitor, self.least, self.restore = patience, monitor, least, restore
        self.best, self._waited, self._kept = float("inf"), 0, dict[str, Array]()

    def on_epoch(self, trainer: Trainer, entry: dict[str, float]) -> bool:
        """Whether training is over."""
        if self.monitor not in entry:
            raise InputError(f"early stopping watches {self.monitor!r}, and the history has {', '.join(entry)}; "
                             "give validation data, or another monitor")  # fmt: skip
        if entry[self.monitor] < self.best - self.least:
            self.best, self._waited = entry[self.monitor], 0
            self._kept = trainer.state.state_dict() if self.restore else {}
            return False
        self._waited += 1
        if self._waited >= self.patience and self._kept:
            trainer.state.load_state_dict(self._kept)
        return self._waited >= self.patience


class Batches:
    """Data as batches: arrays are shuffled by seed and epoch, so that any epoch can be gone through again."""

    def __init__(self, data: Any, trainer: Trainer, batch_size: int, shuffle: bool, seed: int) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}, expected at least 1")
        self.names = trainer.inputs
        self._data, self._size, self._shuffle, self._seed = data, batch_size, shuffle, seed
        self._arrays = [np.asarray(a) for a in data] if isinstance(data, (tuple, list)) and _are_arrays(data) else None
        if self._arrays is not None:
            self._check()

    def _check(self) -> None:
        arrays = self._arrays or []
        if len(arrays) != len(self.names):
            raise InputError(f"the data are {len(arrays)} arrays, and a step takes {', '.join(self.names)}")
        sizes = {array.shape[0] if array.ndim else 0 for array in arrays}
        if len(sizes) != 1 or 0 in sizes:
            listed = ", ".join(f"{name} {list(a.shape)}" for name, a in zip(self.names, arrays, strict=True))
            raise InputError(f"the arrays must have as many rows each, and at least one: {listed}")

    @property
    def count(self) -> int | None:
        """How many batches there are; None where only going through them tells."""
        if self._arrays is None:
            return len(self._data) if hasattr(self._data, "__len__") else None
        return -(-len(self._arrays[0]) // self._size)

    def epoch(self, number: int, start: int = 0) -> Iterator[dict[str, Any]]:
        """The batches of an epoch by name, from a place on."""
        if self._arrays is None:
            for place, batch in enumerate(self._data):
                if place >= start:
                    yield self._named(batch)
            return
        rows = len(self._arrays[0])
        order = np.random.default_rng([self._seed, number]).permutation(rows) if self._shuffle else np.arange(rows)
        for first in range(start * self._size, rows, self._size):
            chosen = order[first : first + self._size]
            yield self._named([np.ascontiguousarray(array[chosen]) for array in self._arrays])

    def _named(self, batch: Any) -> dict[str, Any]:
        if isinstance(batch, dict):
            return batch  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(batch, (tuple, list)) or len(batch) != len(self.names):
            raise InputError(f"a batch is a {type(batch).__name__}, expected a tuple of {', '.join(self.names)}")
        return dict(zip(self.names, batch, strict=True))


def _are_arrays(data: Sequence[Any]) -> bool:
    return all(hasattr(item, "shape") and hasattr(item, "dtype") for item in data) and len(data) > 0


def accuracy(prediction: Array, target: Array) -> float:
    """The share of rows whose largest score is at the right class; for one score, whose sign is right."""
    if prediction.shape == target.shape:
        return float(np.mean((prediction > 0) == (target > 0.5)))
    return float(np.mean(prediction.argmax(axis=1) == target))


METRICS: dict[str, Metric] = {"accuracy": accuracy}


def _metrics(metrics: Sequence[str | Metric]) -> dict[str, Metric]:
    found = {(each if isinstance(each, str) else each.__name__): each for each in metrics}
    return {name: named(each, METRICS, "metric") if isinstance(each, str) else each for name, each in found.items()}


def evaluate(trainer: Trainer, batches: Batches, metrics: Sequence[str | Metric]) -> dict[str, float]:
    """The means of loss and metrics over data, each batch by its number of rows."""
    functions = _metrics(metrics)
    totals, rows = dict.fromkeys(["loss", *functions], 0.0), 0
    for feeds in batches.epoch(0):
        loss, prediction = trainer.score(feeds)
        count = len(next(iter(feeds.values())))
        totals["loss"] += loss * count
        for name, function in functions.items():
            totals[name] += float(function(prediction, feeds[batches.names[-1]])) * count
        rows += count
    if not rows:
        raise InputError("there is no data to evaluate")
    return {name: total / rows for name, total in totals.items()}


def fit(
    trainer: Trainer,
    batches: Batches,
    epochs: int,
    validation: Batches | None,
    metrics: Sequence[str | Metric],
    callbacks: Sequence[Callback],
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: int | None,
    progress: bool | None,
) -> History:
    """Train so many epochs; see `Trainer.fit`."""
    last = trainer.begin_fit(epochs)
    history, shown = History(), Progress(progress, last)
    history.first_batch = trainer.batches
    if trainer.epoch >= last:
        warnings.warn(f"nothing is left to train: the checkpoint has {trainer.epoch} of {last} epochs behind it; "
                      "ask for more of them, those that are done counted in", UserWarning, stacklevel=3)  # fmt: skip
    is_over = False
    while trainer.epoch < last and not is_over:
        started, losses = time.monotonic(), []
        for feeds in batches.epoch(trainer.epoch, trainer.epoch_batch):
            loss = trainer.step(**feeds)
            losses.append(loss)
            trainer.epoch_batch += 1
            shown.step(trainer.epoch, trainer.epoch_batch, batches.count, loss)
            is_over = _any_over(callbacks, "on_step", trainer, loss)
            if checkpoint is not None and checkpoint_every and trainer.epoch_batch % checkpoint_every == 0:
                trainer.save_checkpoint(checkpoint)
            if is_over:
                break
        else:
            if not losses and trainer.epoch_batch == 0:
                raise InputError(
                    "the data has no batches (a generator can be gone through once: give a list, or arrays)"
                )
            trainer.finish_update()
            trainer.epoch, trainer.epoch_batch = trainer.epoch + 1, 0
        history.losses += losses
        entry = _entry(trainer, losses, validation, metrics, time.monotonic() - started)
        history.epochs.append(entry)
        shown.epoch(history)
        is_over = _any_over(callbacks, "on_epoch", trainer, entry) or is_over
        if checkpoint is not None:
            trainer.save_checkpoint(checkpoint)
    return history


def _entry(
    trainer: Trainer,
    losses: Sequence[float],
    validation: Batches | None,
    metrics: Sequence[str | Metric],
    seconds: float,
) -> dict[str, float]:
    finite = [loss for loss in losses if np.isfinite(loss)]
    entry = {"epoch": float(trainer.epoch), "loss": float(np.mean(finite)) if finite else float("nan")}
    if validation is not None:
        entry |= {f"val_{name}": value for name, value in evaluate(trainer, validation, metrics).items()}
    return entry | {"seconds": seconds}


def _any_over(callbacks: Sequence[Callback], event: str, trainer: Trainer, value: Any) -> bool:
    found = [getattr(each, event, each if event == "on_epoch" and callable(each) else None) for each in callbacks]
    answers = [function(trainer, value) is True for function in found if function is not None]
    return any(answers)
