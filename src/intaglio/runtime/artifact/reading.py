"""Compiled models as files: machine code, graph and weights, which need neither a compiler nor ONNX to be loaded.

    "intaglio compiled model\\n"   the magic line
    8 bytes                       the length of the header, little-endian
    32 bytes                      the header's SHA-256
    header                        JSON: see `Header`
    sections                      each at a multiple of 4096, with its SHA-256 in the header

A model that needs little else than its code is also there as a plan: it runs without the graph, which is read when
somebody asks for it. What the engine needs of the plan at once is in the header, the plan itself in a section. A
compiled model is code: whoever loads it runs it. Hashes find damage, they do not make it trustworthy.
"""

from __future__ import annotations

import functools
import hashlib
import json
import mmap
import os
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from intaglio.errors import IntaglioError, LoadError
from intaglio.ir.dtype import DTYPES
from intaglio.memory.constants import allocated, share
from intaglio.onnx.info import Imported, ModelInfo
from intaglio.record import Record
from intaglio.runtime.artifact.stored_data import form_from_bytes, stored_from_data
from intaglio.runtime.engine.stored import StoredPlan
from intaglio.targets import executor_from_data
from intaglio.targets.step import PlanSource, Step
from intaglio.version import __version__

if TYPE_CHECKING:
    from intaglio.ir.graph import Graph
    from intaglio.kernels.plan_form import PlanForm
    from intaglio.targets.executor import Host

Array: TypeAlias = NDArray[Any]

MAGIC = b"intaglio compiled model\n"
FORMAT = 8
ALIGNMENT = 4096
CHUNK = 1 << 20
PREFIX = len(MAGIC) + 8 + 32
SUFFIX = ".intaglio"
"""How such files are named."""


class Section(Record):
    """Bytes of the file."""

    offset: int
    length: int
    sha256: str


class StoredArray(Record):
    """A constant: its element type, shape, and which section holds it."""

    dtype: str
    shape: list[int]
    section: int


class StoredLibrary(Record):
    """Machine code in a section or in a unit of the cache, and the symbol of each function by its source's hash."""

    section: int | None
    functions: dict[str, str]
    unit: str = ""


class Header(Record):
    """What the file says of itself: it can be read without running anything."""

    format: int
    version: str
    """The version of Intaglio that made the file."""
    target: dict[str, Any]
    exact: bool
    info: dict[str, Any]
    graph: int | None
    """The section with the graph's text; None where the model is kept in the cache, which has no graph."""
    arrays: list[dict[str, Any]]
    libraries: list[dict[str, Any]]
    plan: dict[str, Any] | None = None
    """What runs without the graph, see `intaglio.runtime.engine.stored`, with the numbers of its constants and of the
    section that has the plan."""
    sections: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    files: list[list[Any]] = field(default_factory=list[list[Any]])
    """The other files that weights were read from, each as its path and look; a change in one makes this file old."""
    donate: list[list[str]] = field(default_factory=list[list[str]])
    """The inputs whose memory outputs take, as pairs of names."""


class Compiled(Record):
    """A compiled model that was read: everything but its code, which `adopt` loads, and its graph."""

    info: ModelInfo
    version: str
    executor: Host
    exact: bool
    stored: StoredPlan | None
    constants: Sequence[Array]
    """What the plan's code reads."""
    libraries: Sequence[tuple[Array | str, dict[str, str]]]
    read_graph: Callable[[], Graph]
    read_plan: Callable[[], PlanForm]
    """Reads the plan; raises LoadError where it is broken."""
    files: tuple[Path, ...] = ()
    """The other files that weights were read from."""
    donate: tuple[tuple[str, str], ...] = ()
    """The inputs whose memory outputs take."""

    def imported(self) -> Imported:
        """The model with its graph."""
        return Imported(self.read_graph(), self.info, self.files)

    def adopt(self) -> None:
        """Load the code into this process. Raises CompileError where this processor cannot run it."""
        self.executor.adopt(self.libraries)

    def steps(self, threads: int) -> Sequence[Step] | None:
        """The segments of the plan, of which the code was adopted; None where there is no plan for this version."""
        if self.stored is None or self.version != __version__:
            return None
        code = self.executor.stored_code(self.stored.keys)
        source = PlanSource(self.stored.outline.frames, self.read_plan)
        return None if code is None else self.executor.load(source, code, self.constants, threads)


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
    """Read a compiled model, with its graph only where there is no plan. Raises LoadError where it is damaged."""
    name = "the compiled model" if isinstance(source, (bytes, bytearray, memoryview)) else repr(os.fspath(source))
    with _told_of(name):
        content = _open(source)
        header = _header(content)
        found = read_sections(content, header, lambda: _read_graph(content, header, name))
    if found.stored is not None:
        return found
    graph = found.read_graph()
    return replace(found, read_graph=lambda: graph)


@contextmanager
def _told_of(name: str) -> Generator[None]:
    """Tell of damage with the name of the file."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise LoadError(f"{name} is damaged: {error}") from error
    except OSError as error:
        raise LoadError(f"{name} cannot be read: {error.strerror or error}") from None
    except IntaglioError as error:
        raise LoadError(f"{name}: {error}") from error


def read_stored(content: InFile, read_graph: Callable[[], Graph], *, is_mapped: bool = False) -> Compiled:
    """A plan that was kept without its graph; with `is_mapped`, its constants stay in the mapped file.

    Raises LoadError where it is damaged.
    """
    with _told_of("a plan in the cache"):
        header = _header(content)
        for name, *look in header.files:
            if look != file_look(Path(name)):
                raise LoadError(f"{name} is not the file that it was")
        return read_sections(_Mapped(content) if is_mapped else content, header, read_graph)


def file_look(path: Path) -> list[int]:
    """What changes where a file is changed or replaced."""
    status = os.stat(path)
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


class Content(Protocol):
    """The bytes of a compiled model."""

    is_shared: bool
    """Whether other processes have the same memory, so that no other copy is preferred to it."""

    def part(self, offset: int, length: int) -> Array:
        """Some of them, as many as there are."""
        ...

    def digest(self, offset: int, length: int) -> tuple[int, str]:
        """How many there are of so many, and their SHA-256."""
        ...

    def whole(self) -> memoryview:
        """All of them, mapped if possible."""
        ...


class _InMemory:
    """Bytes that are the model's own."""

    is_shared = False

    def __init__(self, source: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(bytearray(source))

    def part(self, offset: int, length: int) -> Array:
        return np.frombuffer(self._data[offset : offset + length], np.uint8)

    def digest(self, offset: int, length: int) -> tuple[int, str]:
        part = self._data[offset : offset + length]
        return len(part), hashlib.sha256(part).hexdigest()

    def whole(self) -> memoryview:
        return self._data


_closers: set[weakref.ref[Any]] = set()


def _close_with(owner: object, descriptor: int) -> None:
    """Close a descriptor when an object ends, without a line of Python: an interrupt in one would be lost there.

    The reference calls `next(map(os.close, [descriptor]), reference)`, all of which is C.
    """
    _closers.difference_update([each for each in list(_closers) if each() is None])
    _closers.add(weakref.ref(owner, functools.partial(next, map(os.close, [descriptor]))))


class InFile:
    """A file that stays open, whose parts are read when they are needed."""

    is_shared = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        _close_with(self, self._descriptor)
        self._state = self._look()

    @property
    def size(self) -> int:
        """The bytes that it had when it was opened."""
        return self._state[0]

    def _look(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def part(self, offset: int, length: int) -> Array:
        """Some bytes, read into memory of their own."""
        memory = allocated((max(0, min(length, self.size - offset)),), np.uint8)
        read = 0
        while read < memory.size:
            count = os.preadv(self._descriptor, [memory[read:].data], offset + read)
            if not count:
                break
            read += count
        return memory[:read]

    def digest(self, offset: int, length: int) -> tuple[int, str]:
        """How many bytes there are of so many, and their SHA-256; none of them stays in memory."""
        hashed, read = hashlib.sha256(), 0
        while read < length:
            chunk = os.pread(self._descriptor, min(CHUNK, length - read), offset + read)
            if not chunk:
                break
            hashed.update(chunk)
            read += len(chunk)
        return read, hashed.hexdigest()

    def mapped(self) -> mmap.mmap:
        """A read-only mapping of the file."""
        return mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)

    def whole(self) -> memoryview:
        """All bytes, mapped if possible. Raises LoadError where the file was rewritten."""
        from intaglio.onnx.mapped import file_bytes, rewritten
        from intaglio.runtime.engine.guard import guard_files

        guard_files()
        if self._look() != self._state:
            raise rewritten(self._path)
        return file_bytes(self._descriptor, self._path)


class _Mapped:
    """A file of the cache, whose parts are views of one mapping: processes that map it share its pages.

    There is no guard, as there is none for machine code: the folder is private, and its files are only ever replaced.
    """

    is_shared = True

    def __init__(self, file: InFile) -> None:
        self._bytes = file.mapped()

    def part(self, offset: int, length: int) -> Array:
        return np.frombuffer(self._bytes, np.uint8)[offset : offset + length]

    def digest(self, offset: int, length: int) -> tuple[int, str]:
        part = self.part(offset, length)
        return part.size, hashlib.sha256(part.data).hexdigest()

    def whole(self) -> memoryview:
        return memoryview(self._bytes)


def _open(source: Any) -> Content:
    return _InMemory(source) if isinstance(source, (bytes, bytearray, memoryview)) else InFile(source)


def _header(content: Content) -> Header:
    prefix = bytes(content.part(0, PREFIX))
    if prefix[: len(MAGIC)] != MAGIC:
        raise ValueError("it does not begin as a compiled model does")
    length = int.from_bytes(prefix[len(MAGIC) : len(MAGIC) + 8], "little")
    encoded = bytes(content.part(PREFIX, length))
    if len(encoded) != length or hashlib.sha256(encoded).digest() != prefix[PREFIX - 32 :]:
        raise ValueError("its header does not have the hash that it should have")
    data = json.loads(encoded)
    if data.get("format") != FORMAT:
        raise LoadError(f"its format is {data.get('format')}, this version of Intaglio reads format {FORMAT}")
    return Header(**data)


def read_sections(content: Content, header: Header, read_graph: Callable[[], Graph]) -> Compiled:
    """A compiled model without its graph; every section is checked."""
    libraries = [StoredLibrary(**entry) for entry in header.libraries]
    arrays = [StoredArray(**entry) for entry in header.arrays]
    stored = None if header.plan is None else stored_from_data(header.plan)
    constants = [arrays[number] for number in header.plan["constants"]] if header.plan is not None else []
    place = None if header.plan is None else header.plan["section"]
    wanted = {entry.section for entry in (*libraries, *constants)} | {place}
    sections = [Section(**section) for section in header.sections]
    parts = {number: content.part(section.offset, section.length) for number, section in enumerate(sections)
             if number in wanted}  # fmt: skip
    for number, section in enumerate(sections):
        _check(content, number, section, parts.get(number))
    packed = b"" if place is None else parts[place].tobytes()
    return Compiled(
        ModelInfo(**header.info),
        header.version,
        executor_from_data(header.target),
        header.exact,
        stored,
        [_constant(content, entry, parts[entry.section]) for entry in constants],
        [(entry.unit if entry.section is None else parts[entry.section], entry.functions) for entry in libraries],
        read_graph,
        lambda: _read_plan(packed),
        tuple([Path(name) for name, *_ in header.files]),
        tuple([(given, made) for given, made in header.donate]),
    )


def _read_plan(packed: bytes) -> PlanForm:
    with _told_of("a stored plan"):
        return form_from_bytes(packed)


def _constant(content: Content, entry: StoredArray, part: Array) -> Array:
    array = _array(entry, part)
    return array if content.is_shared else share(array)


def _check(content: Content, number: int, section: Section, part: Array | None) -> None:
    if part is None:
        length, digest = content.digest(section.offset, section.length)
    else:
        length, digest = part.size, hashlib.sha256(part.data).hexdigest()
    if length != section.length:
        raise ValueError(f"it ends before its section {number} does")
    if digest != section.sha256:
        raise ValueError(f"its section {number} does not have the hash that it should have")


def _read_graph(content: Content, header: Header, name: str) -> Graph:
    """The graph; its weights are views of the mapped file."""
    from intaglio.ir.text import parse_graph
    from intaglio.onnx.mapped import check_bytes

    with _told_of(name):
        whole = content.whole()
        sections = [Section(**section) for section in header.sections]
        parts = [whole[section.offset : section.offset + section.length] for section in sections]
        entries = [StoredArray(**entry) for entry in header.arrays]
        arrays = [_array(entry, np.frombuffer(parts[entry.section], np.uint8)) for entry in entries]
        assert header.graph is not None
        graph = parse_graph(bytes(parts[header.graph]).decode(), arrays)
        check_bytes(whole)
        return graph


def _array(stored: StoredArray, part: Array) -> Array:
    return part.view(DTYPES[stored.dtype].numpy).reshape(stored.shape)
