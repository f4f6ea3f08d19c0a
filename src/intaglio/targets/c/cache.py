"""The content-addressed cache of compiled functions.

A function's key is a hash of everything that its machine code depends on. Functions are compiled several to a *unit*, a
shared library in a `Store`. With a compiler, only what that compiler made is used; without one, what any compiler made.
A store that is full, cannot be written or forbids to run code gets a temporary one beside it, and a line tells of that.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from intaglio.errors import CompileError
from intaglio.processor import usable_cores
from intaglio.record import Record
from intaglio.targets.c.store import Store, temporary_store
from intaglio.targets.c.target import Target
from intaglio.targets.c.toolchain import REMEDY, RefusedError, StorageError
from intaglio.targets.c.units import CFunction, Key, function_key, partition, symbol_of, unit_source
from intaglio.targets.errors import NoCompilerError
from intaglio.workers import Job, Workers

if TYPE_CHECKING:
    from intaglio.targets.c.compiler import Compiler, RunningCompilers

SIZE_LIMIT_BYTES = 2 << 30
LARGE_PROGRAM = 1 << 20
"""Where a program of so many bytes is added, the cache is looked through for what must go; else when it compiles."""
TOLD_AGAIN = 0.1
"""Seconds after which progress is told again although there is none, so that it can stop the work by raising."""
_MAKE_ROOM = "Make room, or set INTAGLIO_CACHE to a folder that can hold code and run it."

Progress = Callable[[int, int], None]


class Loaded(Record):
    """A function in memory; it stays there until the process ends."""

    key: Key
    symbol: str
    address: int


class CacheInfo(Record):
    """What the cache holds on disk."""

    root: Path
    units: int
    functions: int
    size_bytes: int


class Cache:
    """Compiled functions under one private folder."""

    def __init__(self, root: Path, size_limit: int = SIZE_LIMIT_BYTES) -> None:
        self.root = root
        self.size_limit = size_limit
        self._stores = [Store(root)]
        self._loaded: dict[Key, Loaded] = {}
        self._libraries: dict[str, ctypes.CDLL] = {}
        self._adopted: dict[str, tuple[ctypes.CDLL, str]] = {}
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        """A forked child cannot wait for a thread that only its parent has."""
        self._lock = threading.RLock()

    def ensure(
        self,
        functions: Sequence[CFunction],
        compiler: Compiler | None,
        target: Target,
        progress: Progress | None = None,
    ) -> list[Loaded]:
        """The functions in memory, in the order given; what is missing is compiled, in parallel.

        `progress(done, total)` counts compiled functions and is called in the calling thread. Without a compiler the
        functions must all be present, made by whatever compiler, or NoCompilerError is raised. Raises CompileError.
        """
        keys = [function_key(function, compiler, target) for function in functions]
        missing = {key: f for key, f in zip(keys, functions, strict=True) if key not in self._loaded}
        absent = self._load_all(missing)
        if absent and compiler is None:
            raise NoCompilerError(f"{REMEDY} {self._what_is_absent(absent, len(functions))}")
        if absent and compiler is not None:
            self._compile_somewhere(absent, compiler, target, progress)
        return [self._loaded[key] for key in keys]

    def _what_is_absent(self, absent: dict[Key, CFunction], total: int) -> str:
        names = ", ".join(sorted({function.symbol_hint for function in absent.values()})[:5])
        return f"The cache {self.root} lacks {len(absent)} of {total} functions: {names}"

    def adopt(self, library: bytes, functions: Mapping[str, str]) -> None:
        """Use the functions of a library that was made elsewhere; `functions` gives the symbol of each source's hash.

        The library is loaded from memory, so that it needs no folder that code can be run from. Raises OSError.
        """
        with self._lock:
            if all(source in self._adopted for source in functions):
                return
            loaded = _load_from_memory(library)
            self._adopted.update((source, (loaded, symbol)) for source, symbol in functions.items())

    def adopt_unit(self, unit: str, functions: Mapping[str, str]) -> None:
        """Use the functions of a unit of this cache, whatever compiler there is. Raises OSError where it is gone."""
        with self._lock:
            if unit not in self._libraries:
                self._libraries[unit] = self._open(self._stores[0], unit)
            library = self._libraries[unit]
            self._adopted.update((source, (library, symbol)) for source, symbol in functions.items())

    def adopted(self, source: str) -> int | None:
        """The address of an adopted function by the hash of its source; None where there is none."""
        found = self._adopted.get(source)
        return None if found is None else ctypes.cast(getattr(found[0], found[1]), ctypes.c_void_p).value

    def units(
        self, functions: Iterable[tuple[CFunction, Target]], compiler: Compiler | None
    ) -> dict[str, dict[str, str]]:
        """The units that hold functions of this compiler, with the symbols of their sources' hashes.

        Raises CompileError where one is not in the cache's own folder.
        """
        units: dict[str, dict[str, str]] = {}
        for function, target in functions:
            key = function_key(function, compiler, target)
            found = self._stores[0].find(key)
            if not found:
                raise CompileError(f"the cache {self.root} does not hold {function.symbol_hint}")
            unit, symbol = found[0]
            units.setdefault(unit, {})[key.source] = symbol
        return units

    def find_program(self, name: str) -> Path | None:
        """The file of a program that was kept under a name."""
        path = self._stores[0].program_path(name)
        try:
            os.utime(path)
        except OSError:
            return path if path.exists() else None
        return path

    def keep_program(self, name: str, write: Callable[[Path], int | None]) -> None:
        """Keep what `write` leaves in a file, and returns the size of, under a name, if the folder can take it."""
        store = self._stores[0]
        if not store.is_writable:
            return
        with contextlib.suppress(OSError):
            size = write(store.program_path(name))
            if size is not None and size >= LARGE_PROGRAM:
                store.evict(self.size_limit)

    def machine_code(
        self, functions: Sequence[CFunction], target: Target, compiler: Compiler | None = None
    ) -> list[tuple[bytes, dict[str, str]]]:
        """The libraries that hold functions, which must all be loaded, with the symbols of their sources' hashes.

        What `compiler` made comes before what others made: that is what runs in this process. Raises CompileError where
        the cache has lost one.
        """
        units: dict[tuple[Path, str], dict[str, str]] = {}
        for function in functions:
            key = function_key(function, None, target)
            keys = [key] if compiler is None else [function_key(function, compiler, target), key]
            found = [(store, *entry) for each in keys for store in self._stores for entry in store.find(each)]
            if not found:
                raise CompileError(
                    f"the cache {self.root} no longer holds {function.symbol_hint}; load the model again"
                )
            store, unit, symbol = found[0]
            units.setdefault((store.unit_path(unit), unit), {})[key.source] = symbol
        return [(path.read_bytes(), symbols) for (path, _), symbols in units.items()]

    def info(self) -> CacheInfo:
        """Count what is on disk."""
        units = list(self._stores[0].unit_files())
        functions = sum(1 for _ in self._stores[0].index_files())
        programs = list(self._stores[0].program_files())
        return CacheInfo(self.root, len(units), functions, sum(map(_size, (*units, *programs))))

    def clear(self) -> None:
        """Remove everything from disk; functions that are loaded stay usable."""
        self._stores[0].clear()

    def _compile_somewhere(
        self, absent: dict[Key, CFunction], compiler: Compiler, target: Target, progress: Progress | None
    ) -> None:
        """Compile into the store, or into a temporary one where it cannot take anything."""
        store = self._stores[-1]
        try:
            if not store.is_writable:
                raise StorageError(f"{store.root} is read-only")
            self._compile_into(store, absent, compiler, target, progress)
        except StorageError as error:
            if store.is_temporary:
                raise StorageError(f"{error}\n{_MAKE_ROOM}") from error
            self._add_temporary(str(error))
            self._compile_somewhere(absent, compiler, target, progress)

    def _add_temporary(self, reason: str) -> Store:
        """Another store behind the first one, told of in one line."""
        try:
            store = temporary_store()
        except OSError as error:
            raise StorageError(f"{reason}; no temporary folder can be made either: {error}\n{_MAKE_ROOM}") from error
        print(
            f"intaglio: {reason}\nintaglio: compiled code goes to {store.root} and is lost at exit. {_MAKE_ROOM}",
            file=sys.stderr,
        )
        self._stores.append(store)
        return store

    def _compile_into(
        self,
        store: Store,
        absent: dict[Key, CFunction],
        compiler: Compiler,
        target: Target,
        progress: Progress | None,
    ) -> None:
        name = hashlib.sha256("".join(sorted(map(str, absent))).encode()).hexdigest()
        with store.job(name) as folder:
            absent = self._load_all(absent)  # another process may have compiled them meanwhile
            if not absent:
                return
            made = self._compile(store, absent, compiler, target, progress, folder)
            unloaded = self._load_all(absent)
            if unloaded:
                reason, hint = _why_not(store, made), next(iter(unloaded.values())).symbol_hint
                store.remove(made)
                raise CompileError(
                    f"{hint} was compiled and cannot be loaded from {store.root}: {reason}\n"
                    f"  compiler: {' '.join(compiler.command)}"
                )
        store.evict(self.size_limit)

    def _compile(
        self,
        store: Store,
        functions: dict[Key, CFunction],
        compiler: Compiler,
        target: Target,
        progress: Progress | None,
        folder: Path,
    ) -> list[str]:
        """Compile units in threads of their own; on any failure, an interrupt included, kill the other compilers.

        The functions of a unit that the compiler refuses are compiled one by one. Raises RefusedError with those that
        it refuses even so, once all others are done.
        """
        from intaglio.targets.c.compiler import RunningCompilers

        done, total, running = 0, len(functions), RunningCompilers()
        tell = progress or _ignore
        made: list[str] = []
        refused: list[tuple[CFunction, CompileError]] = []
        jobs: dict[Job[str], dict[Key, CFunction]] = {}
        with Workers[str](usable_cores()) as workers:

            def submit(unit: dict[Key, CFunction]) -> None:
                output = folder / f"{len(jobs)}.so"
                job = workers.submit(_compile_unit, store, unit, compiler, target, running, output)
                jobs[job] = unit

            try:
                for unit in partition(functions, usable_cores()):
                    submit(unit)
                while done < total:
                    job = workers.finished(TOLD_AGAIN)
                    if job is not None:
                        unit, error = jobs[job], job.error
                        if error is None:
                            made.append(job.result())
                        elif isinstance(error, StorageError) or not isinstance(error, CompileError):
                            raise error
                        elif len(unit) > 1:
                            for key, function in unit.items():
                                submit({key: function})
                            continue
                        else:
                            _check_works(compiler, target, running, folder / "trial.so", error)
                            refused += [(function, error) for function in unit.values()]
                        done += len(unit)
                    tell(done, total)
            except BaseException:
                running.kill()
                raise
        if refused:
            raise RefusedError(str(refused[0][1]), [function for function, _ in refused])
        return made

    def _load_all(self, functions: dict[Key, CFunction]) -> dict[Key, CFunction]:
        """Load functions from disk; returns those that are absent or damaged."""
        return {key: function for key, function in functions.items() if not self._load(key, function)}

    def _load(self, key: Key, function: CFunction) -> bool:
        with self._lock:
            if key in self._loaded:
                return True
            symbol = symbol_of(function, key)
            if key.source in self._adopted:
                address = self.adopted(key.source)
                assert address is not None
                self._loaded[key] = Loaded(key, self._adopted[key.source][1], address)
                return True
            for store in self._stores:
                for unit, name in store.find(key):
                    address = self._address(store, unit, symbol) if name == symbol else None
                    if address is not None:
                        self._loaded[key] = Loaded(key, symbol, address)
                        return True
            return False

    def _address(self, store: Store, unit: str, symbol: str) -> int | None:
        try:
            if unit not in self._libraries:
                self._libraries[unit] = self._open(store, unit)
            return ctypes.cast(getattr(self._libraries[unit], symbol), ctypes.c_void_p).value
        except (OSError, AttributeError):
            return None

    def _open(self, store: Store, unit: str) -> ctypes.CDLL:
        """Load a unit, by way of a copy where its store forbids to run code. Raises OSError."""
        try:
            return store.load(unit)
        except OSError:
            if store.is_temporary or not store.is_noexec or not store.unit_path(unit).exists():
                raise
        last = self._stores[-1]
        if not last.is_temporary:
            last = self._add_temporary(f"{store.root} is mounted noexec, so that no code can be run from it")
        last.copy(unit, store.read_unit(unit))
        return last.load(unit)


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except FileNotFoundError:  # another process removed it
        return 0


def _check_works(
    compiler: Compiler, target: Target, running: RunningCompilers, output: Path, refusal: CompileError
) -> None:
    """Raise a refusal where the compiler refuses any C, so that it is its fault and not that of what it was given."""
    trial = CFunction("trial", "int32_t IG_FUNCTION(void)\n{\n    return 0;\n}\n", "-O1", ("ig.h",))
    try:
        source = unit_source({function_key(trial, compiler, target): trial})
        compiler.compile_unit(source, output, target, trial.optimize, running)
    except CompileError:
        raise refusal from None


def _ignore(done: int, total: int) -> None:
    """What is told where nobody wants to know of progress."""


def _compile_unit(
    store: Store,
    functions: dict[Key, CFunction],
    compiler: Compiler,
    target: Target,
    running: RunningCompilers,
    output: Path,
) -> str:
    """Compile some functions into a store; returns the unit. Runs in a thread of its own."""
    optimize = next(iter(functions.values())).optimize
    compiler.compile_unit(unit_source(functions), output, target, optimize, running)
    symbols = {key: symbol_of(function, key) for key, function in functions.items()}
    try:
        return store.add(output, symbols, output.parent)
    except OSError as error:
        raise StorageError(f"{store.root} cannot be written: {error}") from error


def _load_from_memory(library: bytes) -> ctypes.CDLL:
    """Load a library from an anonymous file, or from a temporary one where there are no such files. Raises OSError."""
    if not hasattr(os, "memfd_create"):
        store = temporary_store()
        unit = hashlib.sha256(library).hexdigest()
        store.copy(unit, library)
        return store.load(unit)
    file = os.memfd_create("intaglio", os.MFD_CLOEXEC)
    with open(file, "wb", closefd=False) as stream:
        stream.write(library)
    # The file stays open: the loader would take another one under the same number for this one.
    return ctypes.CDLL(f"/proc/self/fd/{file}")


def _why_not(store: Store, units: Sequence[str]) -> str:
    for unit in units:
        try:
            store.load(unit)
        except OSError as error:
            return str(error)
    return "the library lacks the function"


@functools.cache
def default_cache() -> Cache:
    """The cache of this user: $INTAGLIO_CACHE, else $XDG_CACHE_HOME/intaglio, else ~/.cache/intaglio.

    Where there can be no such folder, a private temporary one, with a line on stderr; one that was asked for by
    INTAGLIO_CACHE is not replaced, CompileError is raised.
    """
    chosen = os.environ.get("INTAGLIO_CACHE")
    if chosen:
        try:
            return Cache(Path(chosen).absolute())
        except OSError as error:
            raise CompileError(f"INTAGLIO_CACHE={chosen!r} cannot be used: {error}") from error
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    try:
        return Cache(Path(base).absolute() / "intaglio")
    except OSError as error:
        return _temporary_cache(error)


def _temporary_cache(reason: OSError) -> Cache:
    folder = temporary_store().root
    print(
        f"intaglio: no cache folder ({reason}); compiled code goes to {folder} and is lost at exit. "
        "Set INTAGLIO_CACHE to a folder of your own.",
        file=sys.stderr,
    )
    return Cache(folder)


def ensure(
    functions: Sequence[CFunction],
    compiler: Compiler | None,
    target: Target,
    progress: Progress | None = None,
) -> list[Loaded]:
    """`Cache.ensure` on the default cache."""
    return default_cache().ensure(functions, compiler, target, progress)


def info() -> CacheInfo:
    """`Cache.info` of the default cache."""
    return default_cache().info()


def clear() -> None:
    """`Cache.clear` on the default cache."""
    default_cache().clear()
