"""The files of a model, mapped: weights stay views of them until somebody needs them in another form.

A mapped file that is cut short ends the process that reads it, and no check before the read can rule that out. So files
are mapped only under a guard, which puts zeros in place of what is gone and remembers it; without one they are read.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import numpy as np

from intaglio.errors import LimitError, LoadError
from intaglio.ir.graph import Graph
from intaglio.onnx.protobuf import shorten


class Guard(Protocol):
    """What keeps the process alive where a mapped file loses bytes."""

    def add(self, address: int, size: int) -> int:
        """An entry for a mapping, or 0 where it cannot be guarded."""
        ...

    def is_lost(self, entry: int) -> bool:
        """Whether bytes were read that are not in the file any more."""
        ...

    def remove(self, entry: int) -> None:
        """Forget a mapping that is about to end."""
        ...


_guards: list[Guard] = []


def use_guard(guard: Guard) -> None:
    """Map files from now on, guarded by this."""
    _guards[:] = [guard]


class ModelFile(mmap.mmap):
    """A read-only mapping of a file of a model, which remembers what the file looked like."""

    path: Path
    _identity: tuple[int, int]
    _state: tuple[int, int]
    _guard: Guard | None = None
    _entry: int = 0

    @classmethod
    def map(cls, descriptor: int, path: Path, guard: Guard) -> ModelFile | None:
        """The mapping of an open file that is not empty; None where it cannot be guarded."""
        status = os.fstat(descriptor)
        mapping = cls(descriptor, status.st_size, access=mmap.ACCESS_READ)
        mapping.path = path.absolute()
        mapping._identity = (status.st_dev, status.st_ino)
        mapping._state = (status.st_size, status.st_mtime_ns)
        mapping._entry = guard.add(np.frombuffer(mapping, np.uint8).ctypes.data, status.st_size)
        mapping._guard = guard
        return mapping if mapping._entry else None

    def __del__(self) -> None:
        if self._guard is not None and self._entry:
            self._guard.remove(self._entry)

    def check(self) -> None:
        """Raise LoadError where the file was rewritten in place, so that what is mapped is no longer the model.

        A file that was replaced by another one of the same name, or removed, is still there for the mapping.
        """
        if self._is_rewritten():
            raise rewritten(self.path)

    def _is_rewritten(self) -> bool:
        if self._guard is not None and self._guard.is_lost(self._entry):
            return True
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        is_same = (status.st_dev, status.st_ino) == self._identity
        return is_same and (status.st_size, status.st_mtime_ns) != self._state


def rewritten(path: Path) -> LoadError:
    """What is raised where a file is not that which the model was loaded from."""
    return LoadError(
        f"{shorten(str(path))!r} was rewritten while its weights were in use;"
        " load the model again, and write new versions under another name and rename them"
    )


def file_bytes(descriptor: int, path: Path) -> memoryview:
    """The bytes of an open file: mapped where that can be guarded, read otherwise. The descriptor may be closed."""
    size = os.fstat(descriptor).st_size
    if size and _guards:
        mapping = ModelFile.map(descriptor, path, _guards[0])
        if mapping is not None:
            return memoryview(mapping)
    try:
        with open(descriptor, "rb", closefd=False) as file:
            return memoryview(file.read(size))
    except MemoryError:
        raise LimitError(f"{shorten(str(path))!r} has {size} bytes, more than there is memory for") from None


def is_held(data: Any) -> TypeGuard[memoryview]:
    """Whether some bytes are those of a mapped file, so that nobody else can write to them."""
    return isinstance(data, memoryview) and isinstance(data.obj, ModelFile)


def check_bytes(data: memoryview) -> None:
    """Raise LoadError where the file behind some bytes was rewritten."""
    if isinstance(data.obj, ModelFile):
        data.obj.check()


def model_file(array: Any) -> ModelFile | None:
    """The file of the model of which an array is a view."""
    while isinstance(array, np.ndarray):
        array = array.base
    owner = array.obj if isinstance(array, memoryview) else array
    return owner if isinstance(owner, ModelFile) else None


def files_of(graph: Graph) -> set[ModelFile]:
    """The files whose bytes a graph's constants are."""
    arrays = [value.constant for value in graph.constants()] + [value.default for value in graph.inputs]
    return {file for file in map(model_file, arrays) if file is not None}


def check_files(graph: Graph) -> None:
    """Raise LoadError where a file was rewritten whose bytes the graph's constants are."""
    for file in files_of(graph):
        file.check()
