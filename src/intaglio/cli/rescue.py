"""Trained weights are written in any case: under a free name, after an interrupt, and beside a disk that is full."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from intaglio.cli.terminal import tell
from intaglio.errors import InputError

Write = Callable[[str], None]


def free_name(model: str) -> str:
    """A name in the present folder for the trained form of a model, which no file has."""
    stem = "model" if model == "-" else Path(model).stem
    endings = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    names = (f"{stem}.trained{ending}.onnx" for ending in endings)
    return next(name for name in names if not Path(name).exists())


def write_anywhere(output: str, write: Write) -> None:
    """Write a file; where that fails, write it to another folder and raise InputError that says where it is."""
    try:
        write(output)
    except OSError as error:
        why = error.strerror or str(error)
        for place in _other_places(output):
            if _is_written(place, write):
                raise InputError(f"{output!r} cannot be written ({why}); the trained model is in {place!r}") from error
        raise InputError(f"{output!r} cannot be written ({why}), nor any other folder; the training is lost") from error


def _other_places(output: str) -> list[str]:
    folders = [Path.cwd(), Path(tempfile.gettempdir()), Path.home()]
    found = [folder / Path(output).name for folder in folders if folder.resolve() != Path(output).parent.resolve()]
    return [str(path) for path in found if not path.exists()]


def _is_written(place: str, write: Write) -> bool:
    try:
        write(place)
    except (OSError, InputError):
        return False
    return True


@contextmanager
def rescued(output: str, write: Write, done: Callable[[], int]) -> Generator[None]:
    """Write the weights so far where training is interrupted or fails after some updates, and raise the reason."""
    began = done()
    try:
        yield
    except BaseException as reason:
        if done() > began:
            try:
                write_anywhere(output, write)
                tell(f"the training ended early; the model after {done()} updates is in {output!r}")
            except InputError as error:
                tell(f"the training ended early after {done()} updates; {error}")
        if isinstance(reason, OSError):
            raise InputError(
                f"{reason.filename or 'a file'} cannot be written: {reason.strerror or reason}"
            ) from reason
        raise
