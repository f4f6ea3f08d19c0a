"""Checkpoints: the state of a trainer in a file of safetensors, with what it belongs to."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from intaglio.errors import InputError
from intaglio.ir.text import summary
from intaglio.runtime.model.tensor_files import read_tensors, write_tensors
from intaglio.version import __version__

if TYPE_CHECKING:
    from intaglio.train.trainer import Trainer

KIND = "intaglio.checkpoint.1"


def save_checkpoint(trainer: Trainer, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint; who looks sees the one before or this one, whole."""
    with trainer.state.lock:
        about = {
            "counters": trainer.counters(),
            "model": fingerprint(trainer),
            "name": trainer.graph.name,
            "optimizer": repr(trainer.settings.optimizer),
            "version": __version__,
        }
        tensors = {name: trainer.state.held(name) for name in trainer.state}
        write_tensors(path, tensors, {"kind": KIND, "trainer": json.dumps(about)})


def load_checkpoint(trainer: Trainer, path: str | os.PathLike[str]) -> None:
    """Take over a checkpoint; nothing is changed where it does not belong to the trainer."""
    tensors, metadata = read_tensors(path)
    place = os.fspath(path)
    if metadata.get("kind") != KIND:
        raise InputError(f"{place!r} is no checkpoint of a trainer; weights alone are loaded with trainer.state.load")
    about = _read(metadata, place)
    problems = _differences(trainer, tensors)
    if not problems and about["model"] != fingerprint(trainer):
        problems = ["its graph has other nodes"]
    if about["counters"]["accumulate"] != trainer.accumulate:
        problems.append(f"accumulate was {about['counters']['accumulate']} and is {trainer.accumulate}")
    if problems:
        more = f"; and {len(problems) - 4} more" if len(problems) > 4 else ""
        raise InputError(
            f"{place!r} is a checkpoint of {about['name']!r} with {about['optimizer']}, which does not fit this "
            f"trainer: {'; '.join(problems[:4])}{more}. Nothing was loaded"
        )
    with trainer.state.lock:
        trainer.state.load_state_dict(tensors)
        trainer.set_counters(about["counters"])


def _read(metadata: dict[str, str], place: str) -> dict[str, Any]:
    try:
        about = json.loads(metadata["trainer"])
        wanted = ("updates", "batches", "epoch", "epoch_batch", "pending", "seed", "accumulate")
        if (
            all(isinstance(about["counters"][name], int) for name in wanted)
            and {"model", "name", "optimizer"} <= about.keys()
        ):
            return about
    except (KeyError, TypeError, ValueError):
        pass
    raise InputError(f"{place!r} is a checkpoint whose description cannot be read")


def fingerprint(trainer: Trainer) -> str:
    """What the graph of a model is, its weights aside."""
    return hashlib.sha256(summary(trainer.graph).encode()).hexdigest()


def _differences(trainer: Trainer, tensors: dict[str, Any]) -> list[str]:
    held = {name: trainer.state.held(name) for name in trainer.state}
    found = [f"it lacks {name!r}" for name in held if name not in tensors]
    found += [f"it has {name!r}, which is not here" for name in tensors if name not in held]
    for name, array in held.items():
        other = tensors.get(name)
        if other is not None and (other.shape != array.shape or other.dtype != array.dtype):
            got, expected = f"{other.dtype}{list(other.shape)}", f"{array.dtype}{list(array.shape)}"
            found.append(f"{name!r} is {got} in it and {expected} here")
    return found
