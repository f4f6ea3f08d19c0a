"""`intaglio train`: train a model on arrays and write it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from intaglio.cli.arguments import read_archive
from intaglio.cli.curve import Points, curve
from intaglio.cli.options import Argument, Option, UsageError
from intaglio.cli.session import source_of
from intaglio.cli.terminal import EngineOption, JsonOption, ModelArgument, ThreadsOption, print_json, print_pairs
from intaglio.errors import InputError
from intaglio.runtime.model.tensor_files import replace_file

if TYPE_CHECKING:
    from intaglio.train.fit import History
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


Patterns = list[str] | None


def train(
    model: ModelArgument,
    data: Annotated[str, Argument("DATA", "An .npz file with an array for each input, and one named target.")],
    output: Annotated[
        str | None, Option("--output", "-o", metavar="FILE", help="Write the trained model here, such as out.onnx.")
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
    clip_norm: Annotated[
        float | None, Option("--clip-norm", metavar="NORM", least=0, help="Bound the norm of the gradients.")
    ] = None,
    validation: Annotated[
        str | None, Option("--validation", metavar="FILE", help="Data of the same kind, to measure the loss with.")
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
    _check(output, plot, resume, checkpoint, patience, metrics, validation)
    trainer = _trainer(
        source_of(model),
        {
            "loss": loss.value, "output": tensor, "lr": lr, "trainable": trainable, "frozen": frozen,
            "initialize": initialize, "clip_norm": clip_norm, "seed": seed, "threads": threads,
            "engine": engine.value if engine else None,
        },
        optimizer.value,
        weight_decay,
    )  # fmt: skip
    if resume and checkpoint is not None and Path(checkpoint).exists():
        trainer.load_checkpoint(checkpoint)
    began = trainer.updates
    history = trainer.fit(
        _arrays(trainer, data),
        epochs,
        batch_size=batch_size,
        validation=None if validation is None else _arrays(trainer, validation),
        metrics=metrics or (),
        early_stopping=patience,
        checkpoint=checkpoint,
    )
    if output is not None:
        trainer.save(output)
    if plot is not None:
        replace_file(plot, _plotted(trainer, history, loss.value, began).encode())
    _tell(trainer, history, {"model": model, "output": output, "plot": plot}, as_json)


def _check(
    output: str | None,
    plot: str | None,
    resume: bool,
    checkpoint: str | None,
    patience: int | None,
    metrics: list[str] | None,
    validation: str | None,
) -> None:
    """Raise where something is wrong that would show only after training."""
    if plot is not None and Path(plot).suffix != ".svg":
        raise UsageError(f"--plot: {plot!r} does not end in .svg, the format that curves are drawn in")
    if resume and checkpoint is None:
        raise UsageError("--resume needs --checkpoint, which names the file")
    for option, given in (("--patience", patience), ("--metric", metrics)):
        if given and validation is None:
            raise UsageError(f"{option} needs --validation")
    for path in (output, plot, checkpoint):
        if path is not None and not Path(path).parent.is_dir():
            raise InputError(f"{path!r}: there is no folder {str(Path(path).parent)!r}")


def _trainer(source: Any, settings: dict[str, Any], optimizer: str, weight_decay: float | None) -> Trainer:
    from intaglio.train.optimizers import OPTIMIZERS
    from intaglio.train.trainer import Trainer

    chosen = OPTIMIZERS[optimizer]() if weight_decay is None else OPTIMIZERS[optimizer](weight_decay=weight_decay)
    return Trainer(source, optimizer=chosen, **settings)


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


def _plotted(trainer: Trainer, history: History, loss: str, began: int) -> str:
    series: dict[str, Points] = {"training": [(began + i, y) for i, y in enumerate(history.losses, 1)]}
    if history.epochs and "val_loss" in history.epochs[0]:
        each = len(history.losses) / len(history.epochs)
        held_out = enumerate((entry["val_loss"] for entry in history.epochs), 1)
        series["validation"] = [(began + i * each, y) for i, y in held_out]
    return curve(f"{loss} of {trainer.graph.name}", series, across="batch")


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
