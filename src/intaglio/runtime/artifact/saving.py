"""Writing compiled models, as files for users and into the cache; `intaglio.runtime.artifact.reading` reads them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from intaglio.errors import GraphError, InputError
from intaglio.ir.dtype import from_numpy
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Array
from intaglio.ir.text import format_graph
from intaglio.ir.types import TensorType
from intaglio.onnx.info import Imported, ModelInfo
from intaglio.onnx.mapped import check_files
from intaglio.runtime.artifact.reading import (
    ALIGNMENT,
    FORMAT,
    MAGIC,
    PREFIX,
    Header,
    Section,
    StoredArray,
    StoredLibrary,
    file_look,
)
from intaglio.runtime.artifact.stored_data import form_bytes, is_known, stored_data
from intaglio.runtime.engine.hosted_plans import host_graph
from intaglio.runtime.engine.hosted_runs import HostedRun
from intaglio.runtime.engine.limits import weight_bytes
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.engine.outline import Outline, Port
from intaglio.runtime.engine.stored import StoredHosts, StoredPlan
from intaglio.targets.executor import Host
from intaglio.version import __version__

CONSTANTS_LIMIT = 1 << 30
"""A plan is stored where its code reads at most so many bytes of constants: half of what the cache may hold."""


def stored_plan(graph: Graph, engine: NativeEngine) -> StoredPlan | None:
    """What an engine needs to run without its graph; None where it needs more than code, constants, sizes and a few
    host nodes.

    `graph` has the inputs and outputs that users see.
    """
    hosted = engine.hosted
    is_typed = all(isinstance(value.type, TensorType) for value in graph.inputs)
    if not is_typed or not all(is_known(value.type) for value in graph.outputs) or engine.form.faults:
        return None
    if engine.parameters or engine.depends_on_shapes:
        return _chooser(graph, engine)
    if not (engine.is_plain or hosted) or sum(array.nbytes for array in engine.constants) > CONSTANTS_LIMIT:
        return None
    keys = engine.executor.keys(engine.form)
    return _stored(graph, engine.outline, keys, None if hosted is None else _hosts(engine, hosted))


def _chooser(graph: Graph, engine: NativeEngine) -> StoredPlan | None:
    """What is stored of a model that has other plans for values or sizes; those are kept when they are met."""
    if any(value.default is not None for value in graph.inputs) or len(graph.inputs) != len(engine.form.inputs):
        return None
    return _stored(graph, replace(engine.outline, frames=(), assumptions=(), requirements=()), ())


def _stored(graph: Graph, outline: Outline, keys: Sequence[str], hosts: StoredHosts | None = None) -> StoredPlan:
    ports = tuple(map(_port, graph.inputs)), tuple(map(_port, graph.outputs))
    return StoredPlan(graph.name, *ports, outline, tuple(keys), weight_bytes(graph), hosts)


def _hosts(engine: NativeEngine, hosted: HostedRun) -> StoredHosts:
    nodes = [host.node for host in engine.hosts]
    modules = tuple(sorted({type(node.op).__module__ for node in nodes}))
    return StoredHosts(hosted.hosted, format_graph(host_graph(nodes)), modules)


def _port(value: Value) -> Port:
    return Port(value.name, value.type, value.default is not None)


class _Writer:
    """The sections of a file under way."""

    def __init__(self) -> None:
        self.contents: list[bytes | memoryview] = []
        self.digests: list[str] = []
        self.arrays: list[StoredArray] = []
        self._numbers: dict[int, int] = {}
        self._sections: dict[str, int] = {}
        self._held: list[Array] = []

    def add(self, content: bytes | memoryview) -> int:
        """The section with these bytes, which are stored once."""
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._sections:
            self._sections[digest] = len(self.contents)
            self.contents.append(content)
            self.digests.append(digest)
        return self._sections[digest]

    def keep(self, array: Array) -> int:
        """The number of an array, which is stored once."""
        if id(array) not in self._numbers:
            whole = np.ascontiguousarray(array)
            section = self.add(whole.reshape(-1).view(np.uint8).data if whole.size else b"")
            self._numbers[id(array)] = len(self.arrays)
            self._held.append(array)
            self.arrays.append(StoredArray(from_numpy(whole.dtype).name, list(array.shape), section))
        return self._numbers[id(array)]

    def plan(self, stored: StoredPlan | None, engine: NativeEngine) -> dict[str, Any] | None:
        """A stored plan with the numbers of its section and of its constants; None where there is none, or a constant
        has no element type."""
        if stored is None:
            return None
        try:
            numbers = [self.keep(array) for array in engine.constants] if stored.outline.frames else []
        except GraphError:
            return None
        return stored_data(stored) | {"constants": numbers, "section": self.add(form_bytes(engine.form))}


def save_compiled(
    path: str | os.PathLike[str],
    graph: Graph,
    info: ModelInfo,
    engine: NativeEngine,
    *,
    exact: bool,
    donate: Sequence[tuple[str, str]] = (),
) -> int:
    """Write a compiled model in one step, so that nobody sees half of it; returns its size in bytes."""
    writer = _Writer()
    text = writer.add(format_graph(graph, writer.keep).encode())
    code = engine.executor.machine_code([form for each in engine.all_engines() for form in each.forms()])
    plan = writer.plan(stored_plan(graph, engine), engine)
    libraries = [StoredLibrary(writer.add(library), symbols) for library, symbols in code]
    header = _header(writer, info, engine.executor, exact, text, libraries, plan)
    header = replace(header, donate=[list(pair) for pair in donate])
    return write_file(Path(path), header, writer, lambda: check_files(graph))


def save_plan(path: Path, imported: Imported, engine: NativeEngine) -> int | None:
    """Write what runs without the graph, with code that is in the cache; None where nothing is to be kept."""
    writer, graph = _Writer(), imported.graph
    plan = writer.plan(stored_plan(graph, engine), engine)
    if plan is None:
        return None
    units = engine.executor.cached_code(engine.forms())
    libraries = [StoredLibrary(None, symbols, unit) for unit, symbols in units.items()]
    files = [[str(file), *file_look(file)] for file in imported.external_files]
    header = _header(writer, imported.info, engine.executor, engine.exact, None, libraries, plan)
    return write_file(path, replace(header, files=files), writer, lambda: check_files(graph))


def _header(
    writer: _Writer,
    info: ModelInfo,
    executor: Host,
    exact: bool,
    graph: int | None,
    libraries: Sequence[StoredLibrary],
    plan: dict[str, Any] | None,
) -> Header:
    about = {name: value for name, value in asdict(info).items() if name != "path"}
    about |= {"opset_imports": dict(info.opset_imports), "metadata_props": dict(info.metadata_props)}
    about |= {"warnings": list(info.warnings), "newer": list(info.newer)} if graph is None else {"warnings": []}
    if graph is not None:
        del about["newer"]  # it was told of when the model was compiled
    arrays, stored = [asdict(array) for array in writer.arrays], [asdict(library) for library in libraries]
    return Header(FORMAT, __version__, executor.description_data(), exact, about, graph, arrays, stored, plan)


def write_file(path: Path, header: Header, writer: _Writer, check: Callable[[], None]) -> int:
    """Write a file in one step; `check` raises where what was written is not to be."""
    contents = writer.contents
    start = _aligned(PREFIX + len(_encoded(header, writer, 2**40)))
    encoded = _encoded(header, writer, start)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None
    try:
        with open(handle, "wb") as file:
            prefix = MAGIC + len(encoded).to_bytes(8, "little") + hashlib.sha256(encoded).digest()
            file.write(prefix + encoded)
            for offset, content in zip(_offsets(contents, start), contents, strict=True):
                file.write(b"\0" * (offset - file.tell()))
                file.write(content)
            size = file.tell()
        check()
        os.chmod(name, 0o644 & ~_umask())
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None
        raise
    return size


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _aligned(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT


def _offsets(contents: Sequence[bytes | memoryview], start: int) -> Iterator[int]:
    for content in contents:
        yield start
        start = _aligned(start + len(content))


def _encoded(header: Header, writer: _Writer, start: int) -> bytes:
    places = zip(_offsets(writer.contents, start), writer.contents, writer.digests, strict=True)
    sections = [asdict(Section(offset, len(content), digest)) for offset, content, digest in places]
    return json.dumps(asdict(header) | {"sections": sections}, separators=(",", ":")).encode()
