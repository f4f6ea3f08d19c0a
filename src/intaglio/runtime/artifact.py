"""Compiled models as files: machine code, graph and weights, which need neither a compiler nor ONNX to be loaded.

    "intaglio compiled model\\n"   the magic line
    8 bytes                       the length of the header, little-endian
    32 bytes                      the header's SHA-256
    header                        JSON: see `Header`
    sections                      each at a multiple of 4096, with its SHA-256 in the header

A compiled model is code: whoever loads it runs it. Hashes find damage, they do not make it trustworthy.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from intaglio.c.cache import default_cache
from intaglio.c.library import runtime_function
from intaglio.c.target import TARGETS, Target, missing_features
from intaglio.c.units import CFunction
from intaglio.errors import CompileError, InputError, IntaglioError, LoadError
from intaglio.ir.dtype import DTYPES, from_numpy
from intaglio.ir.graph import Graph
from intaglio.ir.op import Array
from intaglio.ir.text import format_graph, parse_graph
from intaglio.onnx.mapped import ModelFile
from intaglio.onnx.reader import Imported, ModelInfo

MAGIC = b"intaglio compiled model\n"
FORMAT = 1
ALIGNMENT = 4096
_PREFIX = len(MAGIC) + 8 + 32
SUFFIX = ".intaglio"
"""How such files are named."""


@dataclass(frozen=True)
class Section:
    """Bytes of the file."""

    offset: int
    length: int
    sha256: str


@dataclass(frozen=True)
class StoredArray:
    """A constant: its element type, shape, and which section holds it."""

    dtype: str
    shape: list[int]
    section: int


@dataclass(frozen=True)
class StoredLibrary:
    """Machine code, and the symbol of each function in it by the hash of its source."""

    section: int
    functions: dict[str, str]


@dataclass(frozen=True)
class Header:
    """What the file says of itself: it can be read without running anything."""

    format: int
    version: str
    """The version of Intaglio that made the file."""
    target: dict[str, Any]
    exact: bool
    info: dict[str, Any]
    graph: int
    """The section with the graph's text."""
    arrays: list[dict[str, Any]]
    libraries: list[dict[str, Any]]
    sections: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True)
class Compiled:
    """A compiled model that was read: everything but its code, which `adopt` loads."""

    imported: Imported
    version: str
    target: Target
    exact: bool
    libraries: Sequence[tuple[memoryview, dict[str, str]]]

    def adopt(self) -> None:
        """Load the code into this process. Raises CompileError where this processor cannot run it."""
        missing = missing_features(self.target)
        if missing:
            raise CompileError(
                f"it was compiled for {self.target.name} and this processor lacks {', '.join(missing)}; "
                "compile the model on a machine like this one, or install a C compiler here"
            )
        for library, functions in self.libraries:
            try:
                default_cache().adopt(bytes(library), functions)
            except OSError as error:
                raise CompileError(f"its code cannot be loaded: {error}") from error


class _Writer:
    """The sections of a file under way."""

    def __init__(self) -> None:
        self.contents: list[bytes | memoryview] = []
        self.arrays: list[StoredArray] = []
        self.numbers: dict[int, int] = {}

    def add(self, content: bytes | memoryview) -> int:
        self.contents.append(content)
        return len(self.contents) - 1

    def keep(self, array: Array) -> int:
        """The number of an array, which is stored once; the graph holds it meanwhile."""
        if id(array) not in self.numbers:
            whole = np.ascontiguousarray(array)
            section = self.add(whole.reshape(-1).view(np.uint8).data if whole.size else b"")
            self.numbers[id(array)] = len(self.arrays)
            self.arrays.append(StoredArray(from_numpy(whole.dtype).name, list(array.shape), section))
        return self.numbers[id(array)]


def save_compiled(
    path: str | os.PathLike[str],
    graph: Graph,
    info: ModelInfo,
    functions: Sequence[CFunction],
    target: Target,
    *,
    exact: bool,
    version: str,
) -> int:
    """Write a compiled model in one step, so that nobody sees half of it; returns its size in bytes."""
    writer = _Writer()
    text = writer.add(format_graph(graph, writer.keep).encode())
    code = default_cache().machine_code(functions, target)
    code += default_cache().machine_code([runtime_function()], TARGETS["c"])
    libraries = [StoredLibrary(writer.add(library), symbols) for library, symbols in code]
    about = {name: value for name, value in asdict(info).items() if name not in ("path", "warnings")}
    about |= {"opset_imports": dict(info.opset_imports), "metadata_props": dict(info.metadata_props)}
    wanted = asdict(target) | {"flags": list(target.flags), "features": sorted(target.features)}
    arrays, stored = [asdict(array) for array in writer.arrays], [asdict(library) for library in libraries]
    header = Header(FORMAT, version, wanted, exact, about, text, arrays, stored)
    return _write_file(Path(path), header, writer.contents)


def _write_file(path: Path, header: Header, contents: Sequence[bytes | memoryview]) -> int:
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    start = _aligned(_PREFIX + len(_encoded(header, contents, digests, 2**40)))
    encoded = _encoded(header, contents, digests, start)
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


def _encoded(header: Header, contents: Sequence[bytes | memoryview], digests: Sequence[str], start: int) -> bytes:
    places = zip(_offsets(contents, start), contents, digests, strict=True)
    sections = [asdict(Section(offset, len(content), digest)) for offset, content, digest in places]
    return json.dumps(asdict(header) | {"sections": sections}, separators=(",", ":")).encode()


def is_compiled(source: Any) -> bool:
    """Whether something that `load` was given is a compiled model: bytes, or the path of a file."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source[: len(MAGIC)]) == MAGIC
    if not isinstance(source, (str, os.PathLike)):
        return False
    try:
        with open(source, "rb") as file:  # pyright: ignore[reportUnknownArgumentType]
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def read_compiled(source: Any) -> Compiled:
    """Read a compiled model; its weights stay in the file, which is mapped. Raises LoadError where it is damaged."""
    name = "the compiled model" if isinstance(source, (bytes, bytearray, memoryview)) else repr(os.fspath(source))
    try:
        return _read(_content(source))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise LoadError(f"{name} is damaged: {error}") from error
    except OSError as error:
        raise LoadError(f"{name} cannot be read: {error.strerror or error}") from None
    except IntaglioError as error:
        raise LoadError(f"{name}: {error}") from error


def read_header(source: Any) -> Header:
    """What a compiled model says of itself; nothing of it is run."""
    return _header(_content(source))


def _content(source: Any) -> memoryview:
    """All bytes: the mapped file, or a copy that is the model's own."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return memoryview(bytearray(source))
    file = ModelFile.open(Path(source))
    return memoryview(b"" if file is None else file)


def _header(content: memoryview) -> Header:
    if bytes(content[: len(MAGIC)]) != MAGIC:
        raise ValueError("it does not begin as a compiled model does")
    length = int.from_bytes(content[len(MAGIC) : len(MAGIC) + 8], "little")
    encoded = bytes(content[_PREFIX : _PREFIX + length])
    if len(encoded) != length or hashlib.sha256(encoded).digest() != bytes(content[_PREFIX - 32 : _PREFIX]):
        raise ValueError("its header does not have the hash that it should have")
    data = json.loads(encoded)
    if data.get("format") != FORMAT:
        raise LoadError(f"its format is {data.get('format')}, this version of Intaglio reads format {FORMAT}")
    return Header(**data)


def _read(content: memoryview) -> Compiled:
    header = _header(content)
    sections = [Section(**section) for section in header.sections]
    parts = [_checked(content, number, section) for number, section in enumerate(sections)]
    arrays = [_array(StoredArray(**entry), parts.__getitem__) for entry in header.arrays]
    graph = parse_graph(bytes(parts[header.graph]).decode(), arrays)
    libraries = [StoredLibrary(**entry) for entry in header.libraries]
    info = ModelInfo(**header.info)
    return Compiled(
        Imported(graph, info),
        header.version,
        _target(header.target),
        header.exact,
        [(parts[library.section], library.functions) for library in libraries],
    )


def _checked(content: memoryview, number: int, section: Section) -> memoryview:
    part = content[section.offset : section.offset + section.length]
    if len(part) != section.length:
        raise ValueError(f"it ends before its section {number} does")
    if hashlib.sha256(part).hexdigest() != section.sha256:
        raise ValueError(f"its section {number} does not have the hash that it should have")
    return part


def _array(stored: StoredArray, part: Callable[[int], memoryview]) -> Array:
    dtype = DTYPES[stored.dtype].numpy
    return np.frombuffer(part(stored.section), np.uint8).view(dtype).reshape(stored.shape)


def _target(data: dict[str, Any]) -> Target:
    if data["name"] not in TARGETS:
        raise ValueError(f"there is no target {data['name']!r}")
    own: dict[str, Any] = {"flags": tuple(data["flags"]), "features": frozenset(data["features"])}
    return Target(**(data | own))
