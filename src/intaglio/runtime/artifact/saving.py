"""Writing compiled models, as files for users and into the cache; `intaglio.runtime.artifact.reading` reads them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from intaglio.kernels.plan import Plan, Segment
from intaglio.onnx.info import Imported, ModelInfo
from intaglio.onnx.mapped import check_files
from intaglio.runtime.artifact.program_data import is_known, program_data
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
from intaglio.runtime.engine.compiled import frame_of
from intaglio.runtime.engine.hosted_plans import host_graph
from intaglio.runtime.engine.hosted_runs import HostedRun
from intaglio.runtime.engine.limits import weight_bytes
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.engine.program import Hosts, Part, Port, Program
from intaglio.targets.c.cache import default_cache
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.library import runtime_function
from intaglio.targets.c.target import TARGETS, Target
from intaglio.targets.c.units import function_key
from intaglio.version import __version__

CONSTANTS_LIMIT = 1 << 30
"""A program is stored where its code reads at most so many bytes of constants: half of what the cache may hold."""


def program_of(graph: Graph, engine: NativeEngine) -> Program | None:
    """What an engine needs to run without its graph; None where it needs more than code, constants, sizes and a few
    host nodes.

    `graph` has the inputs and outputs that users see.
    """
    hosted = engine.hosted
    is_typed = all(isinstance(value.type, TensorType) for value in graph.inputs)
    if not is_typed or not all(is_known(value.type) for value in graph.outputs) or engine.plan.faults:
        return None
    if engine.parameters or engine.depends_on_shapes:
        return _chooser(graph, engine)
    if not (engine.is_plain or hosted) or sum(array.nbytes for array in engine.constants) > CONSTANTS_LIMIT:
        return None
    sources = [function_key(function, None, engine.target).source for function in engine.functions()]
    segments = [part for part in engine.plan.parts if isinstance(part, Segment)]
    kernels, drivers = sources[: len(sources) - len(segments)], sources[len(sources) - len(segments) :]
    return Program(
        name=graph.name,
        inputs=tuple(map(_port, graph.inputs)),
        outputs=tuple(map(_port, graph.outputs)),
        segments=tuple([Part(frame_of(s), driver, tuple(s.late)) for s, driver in zip(segments, drivers, strict=True)]),
        kernels=tuple(kernels),
        assumptions=tuple(engine.plan.assumptions),
        requirements=tuple(engine.plan.requirements),
        weight_bytes=weight_bytes(graph),
        hosts=None if hosted is None else _hosts(engine.plan, hosted),
    )


def _chooser(graph: Graph, engine: NativeEngine) -> Program | None:
    """The program of a model that is another for values or sizes of its inputs; those are kept when they are met."""
    if any(value.default is not None for value in graph.inputs) or len(graph.inputs) != len(engine.plan.inputs):
        return None
    ports = tuple(map(_port, graph.inputs)), tuple(map(_port, graph.outputs))
    is_for_sizes = not engine.parameters
    return Program(graph.name, *ports, (), (), (), (), weight_bytes(graph), None, engine.parameters, is_for_sizes)


def _hosts(plan: Plan, hosted: HostedRun) -> Hosts:
    nodes = [host.node for host in plan.host_nodes]
    modules = tuple(sorted({type(node.op).__module__ for node in nodes}))
    reasons = tuple(str(host) for host in plan.host_nodes)
    return Hosts(hosted.hosted, format_graph(host_graph(nodes)), modules, reasons)


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

    def program(self, program: Program | None, engine: NativeEngine) -> dict[str, Any] | None:
        """A program with the numbers of its constants; None where there is none, or one of them has no element type."""
        try:
            is_run = program is not None and bool(program.segments)
            numbers = [self.keep(array) for array in engine.constants] if is_run else []
        except GraphError:
            return None
        return None if program is None else program_data(program) | {"constants": numbers}


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
    functions = [function for each in engine.all_engines() for function in each.functions()]
    compiler = find_compiler()
    code = default_cache().machine_code(functions, engine.target, compiler)
    code += default_cache().machine_code([runtime_function()], TARGETS["c"], compiler)
    program = writer.program(program_of(graph, engine), engine)
    libraries = [StoredLibrary(writer.add(library), symbols) for library, symbols in code]
    header = _header(writer, info, engine.target, exact, text, libraries, program)
    header = replace(header, donate=[list(pair) for pair in donate])
    return write_file(Path(path), header, writer, lambda: check_files(graph))


def save_program(
    path: Path, imported: Imported, engine: NativeEngine, units: Mapping[str, dict[str, str]]
) -> int | None:
    """Write what runs without the graph, with code that is in units of the cache; None where there is no program."""
    writer, graph = _Writer(), imported.graph
    program = writer.program(program_of(graph, engine), engine)
    if program is None:
        return None
    libraries = [StoredLibrary(None, symbols, unit) for unit, symbols in units.items()]
    files = [[str(file), *file_look(file)] for file in imported.external_files]
    header = _header(writer, imported.info, engine.target, engine.exact, None, libraries, program)
    return write_file(path, replace(header, files=files), writer, lambda: check_files(graph))


def _header(
    writer: _Writer,
    info: ModelInfo,
    target: Target,
    exact: bool,
    graph: int | None,
    libraries: Sequence[StoredLibrary],
    program: dict[str, Any] | None,
) -> Header:
    about = {name: value for name, value in asdict(info).items() if name != "path"}
    about |= {"opset_imports": dict(info.opset_imports), "metadata_props": dict(info.metadata_props)}
    about |= {"warnings": list(info.warnings), "newer": list(info.newer)} if graph is None else {"warnings": []}
    if graph is not None:
        del about["newer"]  # it was told of when the model was compiled
    wanted = asdict(target) | {"flags": list(target.flags), "features": sorted(target.features)}
    arrays, stored = [asdict(array) for array in writer.arrays], [asdict(library) for library in libraries]
    return Header(FORMAT, __version__, wanted, exact, about, graph, arrays, stored, program)


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
