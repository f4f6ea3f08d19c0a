"""The content-addressed cache of compiled functions.

A function's key is a hash of everything that its machine code depends on. Functions are compiled several to a *unit*, a
shared library whose file name is the hash of its own bytes; an index file per key names the unit and the symbol.
Every file appears by rename, so processes may race, and a unit is hashed again before it is loaded.

    <root>/units/<sha256 of the bytes>.so
    <root>/index/<two digits>/<key>          "<unit> <symbol>"
    <root>/work                              where compilers run
"""

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from intaglio.c.compiler import RUNTIME_FOLDER, Compiler, RunningCompilers
from intaglio.c.target import Target, usable_cores
from intaglio.errors import CompileError

SIZE_LIMIT_BYTES = 2 << 30
FUNCTIONS_PER_UNIT = 24
_STALE_WORK_SECONDS = 24 * 3600
_HINT_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")


@dataclass(frozen=True)
class CFunction:
    """One C function with external linkage, named IG_FUNCTION in `source`, and the static helpers only it uses.

    Every `IG_FUNCTION` in the text becomes the symbol, so a helper named `IG_FUNCTION_row` is private to the function.
    `headers` are included in front of it. `symbol_hint` is made of [a-z0-9_] and starts the symbol's name.
    """

    symbol_hint: str
    source: str
    optimize: str = "-O3"
    headers: tuple[str, ...] = ("ig.h", "ig_math.h")

    def __post_init__(self) -> None:
        if not self.symbol_hint or not _HINT_CHARACTERS.issuperset(self.symbol_hint) or self.symbol_hint[0].isdigit():
            raise CompileError(f"symbol hint {self.symbol_hint!r} is not an identifier of [a-z0-9_]")


@dataclass(frozen=True)
class Loaded:
    """A function in memory; it stays there until the process ends."""

    key: str
    symbol: str
    address: int


@dataclass(frozen=True)
class CacheInfo:
    """What the cache holds on disk."""

    root: Path
    units: int
    functions: int
    size_bytes: int


@dataclass
class Cache:
    """Compiled functions under one private folder."""

    root: Path
    size_limit: int = SIZE_LIMIT_BYTES
    _loaded: dict[str, Loaded] = field(default_factory=dict[str, Loaded], init=False, repr=False)
    _libraries: dict[str, ctypes.CDLL] = field(default_factory=dict[str, ctypes.CDLL], init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        _make_private(self.root)
        for name in ("units", "index", "work"):
            _make_private(self.root / name)

    def ensure(
        self,
        functions: Sequence[CFunction],
        compiler: Compiler | None,
        target: Target,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Loaded]:
        """The functions in memory, in the order given; what is missing is compiled, in parallel.

        `progress(done, total)` counts compiled functions and is called in the calling thread. Without a compiler the
        functions must all be present. Raises CompileError.
        """
        keys = [function_key(function, compiler, target) for function in functions]
        found = [self._loaded.get(key) for key in keys]
        missing = {key: f for key, f, entry in zip(keys, functions, found, strict=True) if entry is None}
        if missing:
            self._load_or_compile(missing, compiler, target, progress)
        return [self._loaded[key] for key in keys]

    def info(self) -> CacheInfo:
        """Count what is on disk."""
        units = list(_files(self.root / "units"))
        functions = sum(1 for _ in self._index_files())
        return CacheInfo(self.root, len(units), functions, sum(entry.stat().st_size for entry in units))

    def clear(self) -> None:
        """Remove everything from disk; functions that are loaded stay usable."""
        for name in ("index", "units", "work"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        self.__post_init__()

    def _load_or_compile(
        self,
        missing: dict[str, CFunction],
        compiler: Compiler | None,
        target: Target,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        absent = {key: function for key, function in missing.items() if not self._load(key, function)}
        if not absent:
            return
        if compiler is None:
            names = ", ".join(sorted(function.symbol_hint for function in absent.values())[:5])
            raise CompileError(f"no C compiler, and {len(absent)} functions are not in the cache: {names}")
        self._compile(absent, compiler, target, progress)
        for key, function in absent.items():
            if not self._load(key, function):
                raise CompileError(f"{function.symbol_hint} was compiled and could not be loaded from {self.root}")
        self._evict()

    def _compile(
        self,
        functions: dict[str, CFunction],
        compiler: Compiler,
        target: Target,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        """Compile units in threads of their own; on any failure, an interrupt included, kill the other compilers."""
        self._remove_stale_work()
        done, total, running = 0, len(functions), RunningCompilers()
        with ThreadPoolExecutor(usable_cores(), thread_name_prefix="intaglio-compile") as executor:
            try:
                jobs = {
                    executor.submit(self._compile_unit, unit, compiler, target, running): len(unit)
                    for unit in partition(functions, usable_cores())
                }
                for job in as_completed(jobs):
                    job.result()
                    done += jobs[job]
                    if progress is not None:
                        progress(done, total)
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                running.kill()
                raise

    def _compile_unit(
        self, functions: dict[str, CFunction], compiler: Compiler, target: Target, running: RunningCompilers
    ) -> None:
        optimize = next(iter(functions.values())).optimize
        with tempfile.TemporaryDirectory(dir=self.root / "work", ignore_cleanup_errors=True) as folder:
            output = Path(folder) / "out.so"
            compiler.compile_unit(unit_source(functions), output, target, optimize, running)
            output.chmod(0o700)
            unit = hashlib.sha256(output.read_bytes()).hexdigest()
            os.replace(output, self._unit_path(unit))
            for key, function in functions.items():
                _write_atomically(self._index_path(key), f"{unit} {symbol_of(function, key)}", Path(folder))

    def _load(self, key: str, function: CFunction) -> bool:
        """Load one function from disk; False when it is absent or damaged."""
        with self._lock:
            if key in self._loaded:
                return True
            unit, symbol = self._read_index(key)
            library = self._library(unit) if symbol == symbol_of(function, key) else None
            if library is None:
                return False
            try:
                address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
            except AttributeError:
                return False
            self._loaded[key] = Loaded(key, symbol, address or 0)
            return True

    def _read_index(self, key: str) -> tuple[str, str]:
        try:
            text = self._index_path(key).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            return "", ""
        unit, _, symbol = text.partition(" ")
        return (unit, symbol) if len(unit) == 64 and unit.isalnum() else ("", "")

    def _library(self, unit: str) -> ctypes.CDLL | None:
        """The loaded unit; loads it only when its bytes have the hash that is its name, and removes it otherwise."""
        if unit in self._libraries:
            return self._libraries[unit]
        path = self._unit_path(unit)
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() != unit:
                path.unlink(missing_ok=True)
                return None
            os.utime(path)
            self._libraries[unit] = ctypes.CDLL(str(path))
        except OSError:
            return None
        return self._libraries[unit]

    def _unit_path(self, unit: str) -> Path:
        return self.root / "units" / f"{unit}.so"

    def _index_path(self, key: str) -> Path:
        return self.root / "index" / key[:2] / key

    def _index_files(self) -> Iterable[os.DirEntry[str]]:
        for folder in _entries(self.root / "index"):
            yield from _files(Path(folder.path))

    def _evict(self) -> None:
        """Remove the units that were used longest ago until the cache fits its limit, and their index entries."""
        units = sorted(
            ((entry.stat().st_mtime, entry) for entry in _files(self.root / "units")), key=lambda pair: pair[0]
        )
        excess = sum(entry.stat().st_size for _, entry in units) - self.size_limit
        removed: set[str] = set()
        for _, entry in units:
            if excess <= 0:
                break
            excess -= entry.stat().st_size
            removed.add(entry.name.removesuffix(".so"))
            Path(entry.path).unlink(missing_ok=True)
        if removed:
            for entry in self._index_files():
                if self._read_index(entry.name)[0] in removed:
                    Path(entry.path).unlink(missing_ok=True)

    def _remove_stale_work(self) -> None:
        """Remove what killed processes left behind, long ago enough that nobody uses it."""
        for entry in _entries(self.root / "work"):
            with contextlib.suppress(OSError):
                if entry.stat().st_mtime < time.time() - _STALE_WORK_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)


def symbol_of(function: CFunction, key: str) -> str:
    """The linker's name of a function."""
    return f"{function.symbol_hint}_{key[:12]}"


def function_key(function: CFunction, compiler: Compiler | None, target: Target) -> str:
    """A hash of everything that the function's machine code depends on."""
    environment = _environment_digest(compiler, target, function.optimize)
    text = "\0".join((environment, *function.headers, function.symbol_hint, function.source))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


@functools.cache
def _environment_digest(compiler: Compiler | None, target: Target, optimize: str) -> str:
    flags = compiler.flags(target, optimize) if compiler else (optimize, *target.flags)
    version = " ".join((compiler.version, *compiler.command[1:])) if compiler else "none"
    texts = [path.read_text(encoding="utf-8") for path in sorted(RUNTIME_FOLDER.glob("*.h"))]
    return hashlib.sha256("\0".join((target.name, version, *flags, *texts)).encode()).hexdigest()


def partition(functions: dict[str, CFunction], cores: int) -> list[dict[str, CFunction]]:
    """Share functions out to few units of about equal length, one optimisation level each, with work for every core."""
    levels: dict[str, list[str]] = {}
    for key, function in functions.items():
        levels.setdefault(function.optimize, []).append(key)
    units: list[dict[str, CFunction]] = []
    for keys in levels.values():
        share = max(1, round(cores * len(keys) / len(functions)))
        count = min(len(keys), max(share, -(-len(keys) // FUNCTIONS_PER_UNIT)))
        units += _balanced({key: functions[key] for key in keys}, count)
    return units


def _balanced(functions: dict[str, CFunction], count: int) -> list[dict[str, CFunction]]:
    """The longest first, each to the unit with the least so far."""
    units: list[dict[str, CFunction]] = [{} for _ in range(count)]
    lengths = [0] * count
    for key in sorted(functions, key=lambda key: (-len(functions[key].source), key)):
        lightest = lengths.index(min(lengths))
        units[lightest][key] = functions[key]
        lengths[lightest] += len(functions[key].source)
    return units


def unit_source(functions: dict[str, CFunction]) -> str:
    """The text of one unit: the headers, then every function under its symbol."""
    headers = dict.fromkeys(header for function in functions.values() for header in function.headers)
    lines = [f'#include "{header}"\n' for header in headers]
    for key, function in functions.items():
        body = function.source.replace("IG_FUNCTION", symbol_of(function, key))
        lines.append(f"\n#pragma GCC visibility push(default)\n{body}\n#pragma GCC visibility pop\n")
    return "".join(lines)


@functools.cache
def default_cache() -> Cache:
    """The cache of this user: $INTAGLIO_CACHE, else $XDG_CACHE_HOME/intaglio, else ~/.cache/intaglio.

    Where that cannot be written, a private temporary folder, with a line on stderr.
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
        folder = Path(tempfile.mkdtemp(prefix="intaglio-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        print(
            f"intaglio: no cache folder ({error}); compiled code goes to {folder} and is lost at exit. "
            "Set INTAGLIO_CACHE to a folder of your own.",
            file=sys.stderr,
        )
        return Cache(folder)


def ensure(
    functions: Sequence[CFunction],
    compiler: Compiler | None,
    target: Target,
    progress: Callable[[int, int], None] | None = None,
) -> list[Loaded]:
    """`Cache.ensure` on the default cache."""
    return default_cache().ensure(functions, compiler, target, progress)


def info() -> CacheInfo:
    """`Cache.info` of the default cache."""
    return default_cache().info()


def clear() -> None:
    """`Cache.clear` on the default cache."""
    default_cache().clear()


def _make_private(folder: Path) -> None:
    """Make a folder that only its owner may enter; refuse one that belongs to somebody else."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat(follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise CompileError(f"{folder} is not a folder")
    if status.st_uid != os.getuid():
        raise CompileError(f"{folder} belongs to another user; set INTAGLIO_CACHE to a folder of your own")
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} is read-only")


def _write_atomically(path: Path, text: str, folder: Path) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    temporary = folder / path.name
    temporary.write_text(text, encoding="ascii")
    os.replace(temporary, path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _files(folder: Path) -> Iterable[os.DirEntry[str]]:
    return (entry for entry in _entries(folder) if entry.is_file(follow_symlinks=False))
