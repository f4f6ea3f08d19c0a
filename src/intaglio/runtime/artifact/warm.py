"""Starts of models that some process has compiled before: their plans are kept in the cache.

A plan is addressed by everything that it depends on: the bytes of the model, the options, the processor, and the
files of Intaglio itself. So a model is not even parsed where its plan is found. Of weights in other files it is
known how those files looked. A graph that was built in the process (by a builder, a trainer, torch.compile, or a
derivative) is addressed by its digest. Models whose host nodes need more than their operands are not kept.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from intaglio import errors
from intaglio.errors import CompileError, GraphError, InputError, IntaglioError, LoadError
from intaglio.ir.op import OPERATORS
from intaglio.onnx.info import Imported, ModelInfo
from intaglio.record import Record
from intaglio.runtime.artifact.reading import Compiled, InFile, read_stored
from intaglio.targets import executor_for

if TYPE_CHECKING:
    from intaglio.runtime.engine.engine import Engine, Options
    from intaglio.runtime.engine.native import NativeEngine

SIZE_LIMIT = 1 << 31
"""Larger models are not looked up: to hash them takes longer than it saves."""

_OUR_OPERATORS = ("intaglio.ops.", "intaglio.kernels.")
_SOURCES = (".py", ".c", ".h")


class WarmStart(Record):
    """The place of one model's plan in the cache, and the model itself, which may have to be read after all."""

    name: str
    path: Path | None
    read: Callable[[], Any]
    """The source that the reader is given; the graph itself where it `is_graph`."""
    is_graph: bool = False

    def find(self, *, is_mapped: bool = False) -> Compiled | None:
        """The plan with its code, which is in this process then; None where it must be made.

        With `is_mapped`, its constants stay in the mapped file of the cache.
        """
        path = executor_for().find_plan(self.name)
        if path is None:
            return None
        try:
            found = read_stored(InFile(path), self._graph, is_mapped=is_mapped)
            found.adopt()
        except (IntaglioError, OSError):
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        warnings, newer = tuple(found.info.warnings), tuple(found.info.newer)
        return replace(found, info=replace(found.info, path=self.path, warnings=warnings, newer=newer))

    def _graph(self) -> Any:
        if self.is_graph:
            return self.read()
        from intaglio.onnx.reader import read_model
        from intaglio.runtime.engine.guard import guard_files

        guard_files()
        folder = None if self.path is None else self.path.parent
        return read_model(self.read(), base_folder=folder).graph

    def for_special(self, name: str) -> WarmStart:
        """The place of the plan for values or sizes of a name."""
        return WarmStart(_name(self.name, name), self.path, self.read, self.is_graph)

    def keep(self, imported: Imported, engine: Engine) -> None:
        """Leave the plan of an engine that was made in this process for later ones, if it has one.

        So are those of engines that its runs add.
        """
        if self.path is not None or not imported.external_files:
            if _is_native(engine) and _is_all_our_own():
                _keep(self.name, imported, engine)
            self.keep_added(imported.info, imported.external_files, engine)

    def keep_added(self, info: ModelInfo, files: Sequence[Path], engine: Engine) -> None:
        """Keep the plans of engines that runs of this one will add, and of theirs."""
        if _is_native(engine) and _is_all_our_own():
            _keep_added(self.name, info, tuple(files), engine)


def _is_native(engine: Engine) -> TypeGuard[NativeEngine]:
    from intaglio.runtime.engine.native import NativeEngine

    return isinstance(engine, NativeEngine)


def _keep_added(name: str, info: ModelInfo, files: tuple[Path, ...], engine: NativeEngine) -> None:
    """Only names are held on to: neither the bytes of the model nor its file."""

    def keep(what: str, other: NativeEngine) -> None:
        place = _name(name, what)
        _keep(place, Imported(other.graph, info, files), other)
        _keep_added(place, info, files, other)

    engine.keep_special(keep)


def _keep(name: str, imported: Imported, engine: NativeEngine) -> None:
    """Write the plan of an engine, if that is all that it needs."""
    from intaglio.runtime.artifact.saving import save_plan

    with suppress(CompileError, GraphError, InputError, LoadError):  # what cannot be written is not kept
        engine.executor.keep_plan(name, lambda path: save_plan(path, imported, engine))


def warm_start(source: Any, options: Options) -> WarmStart | None:
    """Where the plan of a model would be; None where none is ever kept."""
    if options.engine != "native" or options.implementations or not _is_all_our_own():
        return None
    executor = options.executor
    if not executor.keeps_plans:
        return None
    ours = _package_state()
    if ours is None:
        return None
    described = "\0".join((ours, executor.identity, *_described(options)))
    if isinstance(source, (bytes, bytearray, memoryview)):
        if len(source) > SIZE_LIMIT:
            return None
        content = bytes(source)
        return WarmStart(_name(hashlib.sha256(content).hexdigest(), described), None, lambda: content)
    if isinstance(source, (str, os.PathLike)):
        return _of_file(source, described)
    return _of_graph(source, described)


def _of_graph(source: Any, described: str) -> WarmStart | None:
    """The place of a graph that somebody built; the graph is copied, since it may be changed later."""
    from intaglio.ir.clone import clone
    from intaglio.ir.digest import digest
    from intaglio.ir.graph import Graph

    if not isinstance(source, Graph):
        return None
    try:
        name = _name(digest(source), f"graph\0{described}")
    except (GraphError, TypeError, ValueError):  # attributes that have no text
        return None
    graph = clone(source)
    return WarmStart(name, None, lambda: graph, is_graph=True)


def _of_file(source: Any, described: str) -> WarmStart | None:
    path = Path(source)
    try:
        if not path.is_file():
            return None
        file = InFile(path)
        if file.size > SIZE_LIMIT:
            return None
        _, digest = file.digest(0, file.size)
    except (OSError, ValueError):
        return None
    return WarmStart(_name(digest, described), path, file.whole)


def _name(digest: str, described: str) -> str:
    return hashlib.sha256(f"{digest}\0{described}".encode()).hexdigest()


def _described(options: Options) -> Iterator[str]:
    """What a plan depends on beside the model and Intaglio."""
    yield repr(
        (
            options.simplify,
            sorted(options.disable),
            options.exact,
            options.donate,
            options.is_state,
            replace(options.limits, time=None),
        )
    )
    yield f"{sys.version} {np.__version__}"


def _is_all_our_own() -> bool:
    """Whether no operator is registered but Intaglio's: what others mean cannot be addressed."""
    return all(operator.__module__.startswith(_OUR_OPERATORS) for operator in OPERATORS.entered())


@functools.cache
def _package_state() -> str | None:
    """A hash of how the files of Intaglio and of onnx look, which changes with them; None where there are none."""
    schemas = find_spec("onnx")
    try:
        looks = sorted(_looks(str(Path(errors.__file__).parent)))
        if schemas is not None and schemas.origin is not None:
            status = os.stat(schemas.origin)
            looks.append(f"{schemas.origin} {status.st_size} {status.st_mtime_ns}")
    except OSError:
        return None
    return hashlib.sha256("\n".join(looks).encode()).hexdigest() if looks else None


def _looks(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SOURCES):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _looks(entry.path)
