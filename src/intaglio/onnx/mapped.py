"""The model's own file, mapped: weights stay views of it until somebody needs them in another form."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from intaglio.errors import LoadError
from intaglio.ir.graph import Graph
from intaglio.onnx.protobuf import shorten


class ModelFile(mmap.mmap):
    """A read-only mapping of a model's file, which remembers what the file looked like."""

    path: Path
    _identity: tuple[int, int]
    _state: tuple[int, int]

    @classmethod
    def open(cls, path: Path) -> ModelFile | None:
        """The mapping of a file; None where it is empty."""
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size == 0:
                return None
            mapping = cls(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
        mapping.path = path.absolute()
        mapping._identity = (status.st_dev, status.st_ino)
        mapping._state = (status.st_size, status.st_mtime_ns)
        return mapping

    def check(self) -> None:
        """Raise LoadError where the file was rewritten in place, so that what is mapped is no longer the model.

        A file that was replaced by another one of the same name, or removed, is still there for the mapping.
        """
        try:
            status = os.stat(self.path)
        except OSError:
            return
        is_same = (status.st_dev, status.st_ino) == self._identity
        if is_same and (status.st_size, status.st_mtime_ns) != self._state:
            raise LoadError(
                f"{shorten(str(self.path))!r} was rewritten while its weights were in use;"
                " load the model again, and write new versions under another name and rename them"
            )


def model_file(array: Any) -> ModelFile | None:
    """The model's file of which an array is a view."""
    while isinstance(array, np.ndarray):
        array = array.base
    owner = array.obj if isinstance(array, memoryview) else array
    return owner if isinstance(owner, ModelFile) else None


def files_of(graph: Graph) -> set[ModelFile]:
    """The files whose bytes a graph's constants are."""
    arrays = [value.constant for value in graph.constants()] + [value.default for value in graph.inputs]
    return {file for file in map(model_file, arrays) if file is not None}
