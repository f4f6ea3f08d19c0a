"""One private folder of compiled functions.

    <root>/units/<sha256 of the bytes>.so
    <root>/index/<two digits>/<key>-<compiler>     "<unit> <symbol>"
    <root>/work/<job>/                             where compilers run; locked by whoever does the job

Every file appears by rename, so processes may race, and a unit is hashed again before it is loaded.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

from intaglio.errors import CompileError
from intaglio.targets.c.toolchain import TIME_LIMIT_SECONDS, StorageError
from intaglio.targets.c.units import Key

_PARTS = ("units", "index", "work", "programs")
_POLL_SECONDS = 0.02
_STALE_SECONDS = 24 * 3600


class Store:
    """A folder of units, their index, and room to work in; it belongs to this user, or to root and is then only read.

    Raises OSError where the folder cannot be made, and CompileError where it must not be trusted.
    """

    def __init__(self, root: Path, is_temporary: bool = False) -> None:
        self.root = root
        self.is_temporary = is_temporary
        self._open()

    def _open(self) -> None:
        self.is_writable = _open_private(self.root)
        if self.is_writable:
            for name in _PARTS:
                self.is_writable &= _open_private(self.root / name)

    def find(self, key: Key) -> list[tuple[str, str]]:
        """The units that hold a function, with its symbol in each: one, or those of every compiler."""
        names = [str(key)] if key.compiler else self._names_by_any_compiler(key)
        return [entry for name in names if (entry := self._read_index(name)) is not None]

    def _names_by_any_compiler(self, key: Key) -> list[str]:
        folder = self._index_path(str(key)).parent
        return sorted(entry.name for entry in _files(folder) if entry.name.startswith(f"{key.source}-"))

    def _read_index(self, name: str) -> tuple[str, str] | None:
        try:
            unit, _, symbol = self._index_path(name).read_text(encoding="ascii").partition(" ")
        except (OSError, UnicodeDecodeError):
            return None
        return (unit, symbol) if len(unit) == 64 and unit.isalnum() else None

    def read_unit(self, unit: str) -> bytes:
        """The bytes of a unit, which have the hash that is its name; a damaged one is removed. Raises OSError."""
        content = self.unit_path(unit).read_bytes()
        if hashlib.sha256(content).hexdigest() != unit:
            with contextlib.suppress(OSError):
                self.unit_path(unit).unlink(missing_ok=True)
            raise OSError(f"{self.unit_path(unit)} is damaged")
        return content

    def load(self, unit: str) -> ctypes.CDLL:
        """Check a unit and load it. Raises OSError."""
        self.read_unit(unit)
        with contextlib.suppress(OSError):
            os.utime(self.unit_path(unit))
        return ctypes.CDLL(str(self.unit_path(unit)))

    @property
    def is_noexec(self) -> bool:
        """Whether the folder's file system forbids to run code from it."""
        return bool(os.statvfs(self.root).f_flag & getattr(os, "ST_NOEXEC", 0))

    def add(self, library: Path, functions: dict[Key, str], folder: Path) -> str:
        """Move a library in and index the symbols in it; `folder` is on the same file system. Returns the unit."""
        library.chmod(0o700)
        unit = hashlib.sha256(library.read_bytes()).hexdigest()
        os.replace(library, self.unit_path(unit))
        for key, symbol in functions.items():
            _write_atomically(self._index_path(str(key)), f"{unit} {symbol}", folder)
        return unit

    def copy(self, unit: str, content: bytes) -> None:
        """Put a unit from another store here."""
        with self.job(unit) as folder:
            (folder / unit).write_bytes(content)
            (folder / unit).chmod(0o700)
            os.replace(folder / unit, self.unit_path(unit))

    def remove(self, units: Iterable[str]) -> None:
        """Remove units and what the index says of them."""
        gone = set(units)
        for unit in gone:
            self.unit_path(unit).unlink(missing_ok=True)
        for entry in self.index_files() if gone else ():
            found = self._read_index(entry.name)
            if found is not None and found[0] in gone:
                Path(entry.path).unlink(missing_ok=True)

    def evict(self, size_limit: int) -> None:
        """Remove what was used longest ago until the store fits its limit; programs get at most half of it.

        So weights, of which programs mostly consist, never push all code out.
        """
        programs, units = _looked_at(self.program_files()), _looked_at(self.unit_files())
        for path in _oldest(programs, max(size_limit // 2, size_limit - _total(units))):
            path.unlink(missing_ok=True)
        self.remove(path.stem for path in _oldest(units, size_limit - _total(_looked_at(self.program_files()))))

    def clear(self) -> None:
        """Remove everything."""
        for name in _PARTS:
            _remove_tree(self.root / name)
        self._open()

    @contextlib.contextmanager
    def job(self, name: str) -> Generator[Path]:
        """An empty folder to work in, removed afterwards; who does the same job at the same time is waited for.

        Raises StorageError where the folder cannot be written.
        """
        try:
            self._remove_abandoned()
            folder, descriptor = _locked_folder(self.root / "work", name)
        except OSError as error:
            raise StorageError(f"{self.root} cannot be written: {error}") from error
        try:
            _empty(folder)
            yield folder
        finally:
            _remove_tree(folder)
            _unlock(descriptor)

    def _remove_abandoned(self) -> None:
        """Remove the folders of jobs whose process was killed: nobody holds a lock on them."""
        for entry in _entries(self.root / "work"):
            with contextlib.suppress(OSError):
                descriptor = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    if _lock(descriptor) or entry.stat().st_mtime < time.time() - _STALE_SECONDS:
                        _remove_tree(entry.path)
                finally:
                    _unlock(descriptor)

    def unit_path(self, unit: str) -> Path:
        """Where a unit is."""
        return self.root / "units" / f"{unit}.so"

    def program_path(self, name: str) -> Path:
        """Where a program is or would be."""
        return self.root / "programs" / name

    def program_files(self) -> Iterable[os.DirEntry[str]]:
        """All programs."""
        return _files(self.root / "programs")

    def _index_path(self, name: str) -> Path:
        return self.root / "index" / name[:2] / name

    def unit_files(self) -> Iterable[os.DirEntry[str]]:
        """The libraries."""
        return _files(self.root / "units")

    def index_files(self) -> Iterable[os.DirEntry[str]]:
        """The entries of the index."""
        for folder in _entries(self.root / "index"):
            yield from _files(Path(folder.path))


def _looked_at(entries: Iterable[os.DirEntry[str]]) -> list[tuple[float, int, Path]]:
    """When files were used, their sizes and their places; without those that another process has removed meanwhile."""
    found: list[tuple[float, int, Path]] = []
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):
            found.append((entry.stat().st_mtime, entry.stat().st_size, Path(entry.path)))
    return sorted(found)


def _total(files: Sequence[tuple[float, int, Path]]) -> int:
    return sum(size for _, size, _ in files)


def _oldest(files: Sequence[tuple[float, int, Path]], size_limit: int) -> Iterable[Path]:
    """The files to remove so that the others, which were used later, fit a limit."""
    excess = _total(files) - size_limit
    for _, size, path in files:
        if excess <= 0:
            return
        excess -= size
        yield path


def temporary_store() -> Store:
    """A store in a new private folder, which this process removes when it ends."""
    import atexit
    import tempfile

    owner, folder = os.getpid(), Path(tempfile.mkdtemp(prefix="intaglio-"))

    def remove() -> None:
        if os.getpid() == owner:  # a forked child leaves it to its parent
            _remove_tree(folder)

    atexit.register(remove)
    return Store(folder, is_temporary=True)


def _open_private(folder: Path) -> bool:
    """Make a folder that only its owner may enter; returns whether it can be written.

    A folder of this user or of root, for whoever controls those needs no cache to run code.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise CompileError(f"{folder} is not a folder")
    if status.st_uid not in (os.getuid(), 0):
        raise CompileError(f"{folder} belongs to another user; set INTAGLIO_CACHE to a folder of your own")
    can_write = os.access(folder, os.W_OK | os.X_OK)
    if status.st_uid == os.getuid() and can_write:
        if stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)
        return True
    if status.st_mode & 0o022 and not _is_read_only(folder):
        raise CompileError(f"others may write {folder}; set INTAGLIO_CACHE to a folder of your own")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be read")
    return False


def _is_read_only(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _locked_folder(work: Path, name: str) -> tuple[Path, int]:
    """The folder of a job and the descriptor that holds its lock; a folder of another name after a long wait."""
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    while time.monotonic() < deadline:
        (work / name).mkdir(mode=0o700, exist_ok=True)
        try:
            descriptor = os.open(work / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # its last user has just removed it
            continue
        is_locked = _lock(descriptor)
        if is_locked and _is_at(descriptor, work / name):
            return work / name, descriptor
        _unlock(descriptor)
        if is_locked is None:
            break
        if not is_locked:
            time.sleep(_POLL_SECONDS)
    import tempfile

    folder = Path(tempfile.mkdtemp(dir=work))
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    _lock(descriptor)
    return folder, descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _lock(descriptor: int) -> bool | None:
    """Lock a folder against other processes; False where it is locked, None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _unlock(descriptor: int) -> None:
    """Release a lock, also where a forked child has inherited the descriptor."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _empty(folder: Path) -> None:
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            _remove_tree(entry.path)
        else:
            os.unlink(entry.path)


def _write_atomically(path: Path, text: str, folder: Path) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    import tempfile

    descriptor, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    os.replace(temporary, path)


def _remove_tree(folder: str | os.PathLike[str]) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _files(folder: Path) -> Iterable[os.DirEntry[str]]:
    return (entry for entry in _entries(folder) if entry.is_file(follow_symlinks=False))
