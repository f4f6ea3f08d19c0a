"""`intaglio train`: train a model on arrays and write it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from intaglio.cli.arguments import read_archive
from intaglio.cli.options import Argument, Option, UsageError
from intaglio.cli.rescue import free_name, rescued, write_anywhere
from intaglio.cli.session import source_of
from intaglio.cli.terminal import EngineOption, JsonOption, ModelArgument, ThreadsOption, print_json, print_pairs
from intaglio.errors import InputError

if TYPE_CHECKING:
    from intaglio.train.history import History
    from intaglio.train.schedules import Schedule
    from intaglio.train.trainer import Trainer


class LossChoice(StrEnum):
    """The losses, for the option `--loss`."""

    cross_entropy = "cross_entropy"
    nll = "nll"
    mse = "mse"
    l1 = "l1"
    huber = "huber"
    bce_with_logits = "bce_with_logits"
    kl_div = "kl_div"


class OptimizerChoice(StrEnum):
    """The optimizers, for the option `--optimizer`."""

    sgd = "sgd"
    adam = "adam"
    adamw = "adamw"
    adagrad = "adagrad"
    rmsprop = "rmsprop"
    lion = "lion"


class ScheduleChoice(StrEnum):
    """The schedules, for the option `--schedule`."""

    constant = "constant"
    cosine = "cosine"
    one_cycle = "one_cycle"


class PrecisionChoice(StrEnum):
    """The types to compute in, for the option `--precision`."""

    float32 = "float32"
    bfloat16 = "bfloat16"


Patterns = list[str] | None


def train(
    model: ModelArgument,
    data: Annotated[str, Argument("DATA", "An .npz file with an array for each input, and one named target.")],
    output: Annotated[
        str | None,
        Option("--output", "-o", metavar="FILE", help="Write the trained model here; default: NAME.trained.onnx."),
    ] = None,
    loss: Annotated[LossChoice, Option("--loss", help="The loss.")] = LossChoice.cross_entropy,
    optimizer: Annotated[OptimizerChoice, Option("--optimizer", help="The optimizer.")] = OptimizerChoice.adam,
    lr: Annotated[float | None, Option("--lr", metavar="RATE", least=0, help="The learning rate.")] = None,
    epochs: Annotated[int, Option("--epochs", least=1, help="How often all data is gone through; default: 10.")] = 10,
    batch_size: Annotated[int, Option("--batch-size", least=1, help="Rows in a batch; default: 32.")] = 32,
    tensor: Annotated[
        str | None, Option("--tensor", metavar="NAME", help="The tensor that the loss is of; default: the only output.")
    ] = None,
    trainable: Annotated[
        Patterns, Option("--trainable", metavar="PATTERN", help="Train only these weights; may be repeated.")
    ] = None,
    frozen: Annotated[Patterns, Option("--frozen", metavar="PATTERN", help="Not these; may be repeated.")] = None,
    initialize: Annotated[
        Patterns, Option("--initialize", metavar="PATTERN", help="Inputs that are weights to begin; may be repeated.")
    ] = None,
    weight_decay: Annotated[
        float | None, Option("--weight-decay", metavar="DECAY", least=0, help="The optimizer's weight decay.")
    ] = None,
    momentum: Annotated[
        float | None, Option("--momentum", metavar="SHARE", least=0, help="The momentum of sgd or rmsprop.")
    ] = None,
    schedule: Annotated[
        ScheduleChoice, Option("--schedule", help="How the learning rate changes over all updates; default: constant.")
    ] = ScheduleChoice.constant,
    warmup: Annotated[
        int, Option("--warmup", metavar="UPDATES", least=0, help="Raise the learning rate from 0 at first.")
    ] = 0,
    clip_norm: Annotated[
        float | None, Option("--clip-norm", metavar="NORM", least=0, help="Bound the norm of the gradients.")
    ] = None,
    clip_value: Annotated[
        float | None, Option("--clip-value", metavar="VALUE", least=0, help="Bound the elements of the gradients.")
    ] = None,
    accumulate: Annotated[
        int, Option("--accumulate", metavar="BATCHES", least=1, help="Batches for one update; default: 1.")
    ] = 1,
    ema: Annotated[
        float | None, Option("--ema", metavar="DECAY", least=0, help="Write moving averages of the weights.")
    ] = None,
    precision: Annotated[
        PrecisionChoice, Option("--precision", help="The type of activations; default: float32, as in the model.")
    ] = PrecisionChoice.float32,
    validation: Annotated[
        str | None, Option("--validation", metavar="FILE", help="Data of the same kind, to measure the loss with.")
    ] = None,
    validation_split: Annotated[
        float | None,
        Option(
            "--validation-split", metavar="SHARE", least=0, help="Hold back this share of the rows to measure with."
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None, Option("--metric", metavar="NAME", help="Measure this too: accuracy; may be repeated.")
    ] = None,
    patience: Annotated[
        int | None, Option("--patience", least=1, help="End after so many epochs without a better validation.")
    ] = None,
    checkpoint: Annotated[
        str | None, Option("--checkpoint", metavar="FILE", help="Write a checkpoint here after each epoch.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on from the checkpoint where there is one.")] = False,
    plot: Annotated[str | None, Option("--plot", metavar="FILE", help="Draw the loss curve to this .svg file.")] = None,
    seed: Annotated[int, Option("--seed", least=0, help="Seed of order, dropout and first weights.")] = 0,
    engine: EngineOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a model on the arrays of an .npz file and write it as ONNX.

    The arrays are named like the inputs of the model, and `target`; all have as many rows. Batches are normalized by
    their own statistics, and dropout drops.
    """
    _check(output, plot, resume, checkpoint, patience, metrics, validation, validation_split)
    settings = {
        "loss": loss.value, "output": tensor, "lr": lr, "trainable": trainable, "frozen": frozen,
        "initialize": initialize, "clip_norm": clip_norm, "clip_value": clip_value, "accumulate": accumulate,
        "ema": ema, "precision": None if precision.value == "float32" else precision.value, "seed": seed,
        "threads": threads, "engine": engine.value if engine else None,
    }  # fmt: skip
    trainer = _trainer(source_of(model), settings, optimizer.value, weight_decay, momentum)
    if resume and checkpoint is not None and Path(checkpoint).exists():
        trainer.load_checkpoint(checkpoint)
    rows, held_out = _rows(trainer, data, validation, validation_split, seed)
    trainer.schedule = _schedule(schedule.value, warmup, epochs * -(-len(rows[0]) // (batch_size * accumulate)))
    output = output or free_name(model)

    def write(path: str) -> None:
        trainer.save(path, ema=ema is not None)

    with rescued(output, write, lambda: trainer.updates):
        history = trainer.fit(
            rows,
            epochs,
            batch_size=batch_size,
            validation=held_out,
            metrics=metrics or (),
            early_stopping=patience,
            checkpoint=checkpoint,
        )
    write_anywhere(output, write)
    if plot is not None:
        history.plot(f"{loss.value} of {trainer.graph.name}").save(plot)
    _tell(trainer, history, {"model": model, "output": output, "plot": plot}, as_json)


def _check(
    output: str | None,
    plot: str | None,
    resume: bool,
    checkpoint: str | None,
    patience: int | None,
    metrics: list[str] | None,
    validation: str | None,
    validation_split: float | None,
) -> None:
    """Raise where something is wrong that would show only after training."""
    if plot is not None and Path(plot).suffix != ".svg":
        raise UsageError(f"--plot: {plot!r} does not end in .svg, the format that curves are drawn in")
    if resume and checkpoint is None:
        raise UsageError("--resume needs --checkpoint, which names the file")
    for option, given in (("--patience", patience), ("--metric", metrics)):
        if given and validation is None and validation_split is None:
            raise UsageError(f"{option} needs --validation or --validation-split")
    if validation is not None and validation_split is not None:
        raise UsageError("--validation and --validation-split: only one of them can be followed")
    if validation_split is not None and not 0 < validation_split < 1:
        raise UsageError(f"--validation-split is {validation_split}, expected a share between 0 and 1")
    for path in (output, plot, checkpoint):
        if path is not None and not Path(path).parent.is_dir():
            raise InputError(f"{path!r}: there is no folder {str(Path(path).parent)!r}")


def _trainer(
    source: Any, settings: dict[str, Any], name: str, weight_decay: float | None, momentum: float | None
) -> Trainer:
    from intaglio.train.optimizers import OPTIMIZERS
    from intaglio.train.trainer import Trainer

    optimizer = OPTIMIZERS[name]
    given = {"weight_decay": weight_decay, "momentum": momentum}
    chosen = {option: value for option, value in given.items() if value is not None}
    if "momentum" in chosen and not hasattr(optimizer(), "momentum"):
        raise UsageError(f"--momentum: {name} has none; sgd and rmsprop have")
    return Trainer(source, optimizer=optimizer(**chosen), **settings)


def _schedule(name: str, warmup: int, updates: int) -> Schedule:
    """The schedule of a name over so many updates, behind a warmup."""
    from intaglio.train import schedules

    left = max(1, updates - warmup)
    made = {"constant": schedules.constant, "cosine": lambda: schedules.cosine(left),
            "one_cycle": lambda: schedules.one_cycle(left)}[name]()  # fmt: skip
    return schedules.warmup(warmup, made) if warmup else made


def _rows(trainer: Trainer, data: str, validation: str | None, split: float | None, seed: int) -> tuple[Any, Any]:
    """The arrays to train on, and those to measure with, which may be rows held back by the seed."""
    import numpy as np

    arrays = _arrays(trainer, data)
    if split is None:
        return arrays, None if validation is None else _arrays(trainer, validation)
    count = len(arrays[0])
    held = round(split * count)
    if not 0 < held < count:
        raise InputError(
            f"--validation-split {split} of {count} rows is {held}: rows are needed to train and to measure"
        )
    order = np.random.default_rng(seed).permutation(count)
    return tuple(array[order[held:]] for array in arrays), tuple(array[order[:held]] for array in arrays)


def _arrays(trainer: Trainer, path: str) -> tuple[Any, ...]:
    """The arrays of a file in the order of a step's inputs."""
    if Path(path).suffix != ".npz":
        raise InputError(f"{path!r} does not end in .npz, the format that data is read from")
    found = read_archive(path)
    missing = [name for name in trainer.inputs if name not in found]
    if missing:
        held = ", ".join(map(repr, found)) or "nothing"
        raise InputError(f"{path!r} holds {held}, but no {', '.join(map(repr, missing))}")
    return tuple(found[name] for name in trainer.inputs)


def _tell(trainer: Trainer, history: History, files: dict[str, Any], as_json: bool) -> None:
    if as_json:
        epochs = [{name: value if value == value else None for name, value in e.items()} for e in history.epochs]
        print_json({**files, "weights": list(trainer.trained), "updates": trainer.updates, "epochs": epochs})
        return
    elements = sum(trainer.state.held(name).size for name in trainer.trained)
    pairs = [("trained", f"{len(trainer.trained)} weights, {elements:,} numbers"), ("updates", f"{trainer.updates:,}")]
    if history.epochs:
        first, last = history.epochs[0], history.epochs[-1]
        names = [name for name in last if name not in ("epoch", "seconds")]
        pairs += [(name, f"{first[name]:.4g} in the first epoch, {last[name]:.4g} in the last") for name in names]
    pairs += [("written", path) for path in (files["output"], files["plot"]) if path is not None]
    print_pairs(pairs)
