"""Finding a C compiler and running it on one unit of generated source."""

import contextlib
import functools
import importlib.util
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from intaglio.errors import CompileError
from intaglio.targets.c.target import Target
from intaglio.targets.c.toolchain import (
    COMMON_FLAGS,
    NAMES,
    RUNTIME_FOLDER,
    TIME_LIMIT_SECONDS,
    StorageError,
    is_sanitized,
)

MEMORY_LIMIT_BYTES = 16 << 30
SOURCE_LIMIT_CHARACTERS = 64 << 20

_FLAGS_OF_KIND: dict[str, tuple[str, ...]] = {
    "gcc": ("-fno-tree-slp-vectorize", "-fno-predictive-commoning", "-Wno-stringop-overflow"),
    "clang": ("-fno-slp-vectorize", "-Wno-unknown-warning-option"),
    "zig": ("-fno-slp-vectorize", "-Wno-unknown-warning-option", "-fno-sanitize=all"),
}

_QUICK_LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "gcc": {
        "-O3": (
            "-O2",
            "-ftree-vectorize",
            "-fvect-cost-model=dynamic",
            "-fpeel-loops",
            "-fno-tree-vrp",
            "-fno-tree-pre",
            "-fno-gcse",
            "-fno-thread-jumps",
            "-fno-tree-dominator-opts",
            "-fno-code-hoisting",
            "-fno-schedule-insns2",
            "-fira-region=one",
        ),
        "-O1": ("-O0",),
    },
    "clang": {"-O3": ("-O2",), "-O1": ("-O0",)},
    "zig": {"-O3": ("-O2",), "-O1": ("-O0",)},
}
"""What stands for a level where the compiler shall be quick. Measured with gcc 12 on eight models: a quarter to a half
less of its time, and models run 0 to 5 % slower. Drivers only call kernels."""

_SANITIZER_FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")

_STORAGE_SIGNS = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "File too large",
    "File size limit exceeded",
)
_LEAST_FREE_BYTES = 1 << 20


class RunningCompilers:
    """The compiler processes of one job, so that another thread can end them all, those about to start included."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._killed = False
        self._lock = threading.Lock()

    def add(self, group: int) -> None:
        """Count a process group in; it is killed at once when `kill` was called before."""
        with self._lock:
            self._groups.add(group)
            if self._killed:
                _kill_group(group)

    def remove(self, group: int) -> None:
        """Count a process group out, after its end."""
        with self._lock:
            self._groups.discard(group)

    def kill(self) -> None:
        """Kill them; the threads that wait for them raise CompileError."""
        with self._lock:
            self._killed = True
            for group in self._groups:
                _kill_group(group)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@dataclass(frozen=True)
class Compiler:
    """A C compiler: the command in front of its arguments, the text it tells of its version, and its family."""

    command: tuple[str, ...]
    version: str
    kind: Literal["gcc", "clang", "zig"]

    def flags(self, target: Target, optimize: str = "-O3") -> tuple[str, ...]:
        """Every option that the machine code depends on; part of a function's key in the cache."""
        machine = zig_flags(target.flags) if self.kind == "zig" else target.flags
        checks = _SANITIZER_FLAGS if is_sanitized() else ()
        wanted = "-O1" if checks else optimize
        level = _QUICK_LEVELS[self.kind].get(wanted, (wanted,)) if target.is_quick else (wanted,)
        return (*level, *COMMON_FLAGS, *_FLAGS_OF_KIND[self.kind], *machine, f"-DIG_LANES={target.lanes}", *checks)

    def compile_unit(
        self, source: str, output: Path, target: Target, optimize: str = "-O3", running: RunningCompilers | None = None
    ) -> None:
        """Compile C text to the shared library `output`, which appears complete or not at all.

        The source and the half-written library live in a private folder beside `output`. Raises CompileError with the
        command and the first messages, and StorageError where the folder is full or cannot be written. An interrupt
        kills the compiler and leaves nothing behind. `running` lets another thread kill the compiler.
        """
        if len(source) > SOURCE_LIMIT_CHARACTERS:
            raise CompileError(f"generated source of {len(source)} characters is over {SOURCE_LIMIT_CHARACTERS}")
        try:
            with tempfile.TemporaryDirectory(prefix="unit-", dir=output.parent, ignore_cleanup_errors=True) as folder:
                self._compile_in(Path(folder), source, output, self.flags(target, optimize), running)
        except OSError as error:
            raise StorageError(f"{output.parent} cannot be written: {error}") from error

    def _compile_in(
        self, folder: Path, source: str, output: Path, flags: tuple[str, ...], running: RunningCompilers | None
    ) -> None:
        unit, library = folder / "unit.c", folder / "unit.so"
        unit.write_text(source, encoding="ascii", errors="backslashreplace")
        command = (*self.command, *flags, f"-I{RUNTIME_FOLDER}", "-o", str(library), str(unit), "-lm")
        _run(command, folder, self.kind, running or RunningCompilers())
        if not library.exists():
            raise CompileError(
                f"the C compiler said it had succeeded and wrote nothing\n  command: {shlex.join(command)}"
            )
        os.replace(library, output)


@functools.cache
def find_compiler() -> Compiler | None:
    """The compiler of this machine: $CC, else gcc, clang or cc on the path, else the `ziglang` package, else None."""
    if os.environ.get("CC"):
        return _from_environment(os.environ["CC"])
    for name in NAMES:
        path = shutil.which(name)
        compiler = _probe((path,)) if path else None
        if compiler is not None:
            return compiler
    if importlib.util.find_spec("ziglang") is not None:
        return _probe((sys.executable, "-m", "ziglang", "cc"))
    return None


def _from_environment(text: str) -> Compiler:
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise CompileError(f"CC={text!r} is not a command line: {error}") from error
    path = shutil.which(command[0]) if command else None
    if path is None:
        raise CompileError(f"CC={text!r} names no program that exists; correct it or unset it")
    compiler = _probe((path, *command[1:]))
    if compiler is None:
        raise CompileError(f"CC={text!r} does not answer --version as a C compiler does; correct it or unset it")
    return compiler


def _probe(command: tuple[str, ...]) -> Compiler | None:
    """Ask a command for its version; None when it does not work."""
    try:
        answer = subprocess.run((*command, "--version"), capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    if "ziglang" in command or Path(command[0]).name == "zig":
        return Compiler(command, answer.stdout, "zig")
    return Compiler(command, answer.stdout, "clang" if "clang" in answer.stdout else "gcc")


def zig_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Zig spells processors with underscores, has no name for the least of ARM, and adds features with a plus.

    >>> zig_flags(("-march=x86-64-v4", "-mavx512vnni", "-DX"))
    ('-mcpu=x86_64_v4+avx512vnni', '-DX')
    >>> zig_flags(("-march=armv8-a",))
    ('-mcpu=generic',)
    """
    march = "".join(flag.removeprefix("-march=") for flag in flags if flag.startswith("-march="))
    features = [flag.removeprefix("-m") for flag in flags if flag.startswith("-mavx")]
    others = tuple(flag for flag in flags if not flag.startswith(("-march=", "-mavx")))
    processor = "generic" if march == "armv8-a" else march.replace("-", "_")
    return ("-mcpu=" + "+".join([processor, *features]), *others) if march else flags


def _run(command: tuple[str, ...], folder: Path, kind: str, running: RunningCompilers) -> None:
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    if is_sanitized():
        environment.pop("LD_PRELOAD", None)  # the sanitizer wants more addresses than a compiler may have
    with (folder / "messages").open("w+b") as messages:
        process = _start(command, folder, environment, messages)
        with _killed_on_error(process, running):
            _limit(process.pid, kind)
            process.wait(TIME_LIMIT_SECONDS)
        if process.returncode != 0:
            messages.seek(0)
            text = messages.read(1 << 16).decode(errors="replace")
            if shortage := _shortage(folder, text):
                raise StorageError(f"the C compiler cannot write in {folder}: {shortage}")
            raise CompileError(_failure(command, process.returncode, text))


def _start(
    command: tuple[str, ...], folder: Path, environment: dict[str, str], messages: BinaryIO
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    except OSError as error:
        raise CompileError(f"the C compiler could not be started: {error}\n  command: {shlex.join(command)}") from error


def _shortage(folder: Path, messages: str) -> str | None:
    """What the compiler found no room for, as far as it could still tell; None where there was room."""
    for sign in _STORAGE_SIGNS:
        if sign in messages:
            return sign
    free = shutil.disk_usage(folder).free
    return f"No space left on device ({free} bytes)" if free < _LEAST_FREE_BYTES else None


@contextlib.contextmanager
def _killed_on_error(process: subprocess.Popen[bytes], running: RunningCompilers) -> Generator[None]:
    running.add(process.pid)
    try:
        yield
    except subprocess.TimeoutExpired as error:
        raise CompileError(
            f"the C compiler ran longer than {TIME_LIMIT_SECONDS} s and was stopped; set CC to another one"
        ) from error
    finally:
        if process.poll() is None:
            _kill_group(process.pid)
            process.wait()
        running.remove(process.pid)


def _limit(pid: int, kind: str) -> None:
    """Bound the memory and time of the compiler and of the processes that it starts.

    Set from outside just after the start, because code between fork and exec is unsafe beside other threads.
    """
    if not hasattr(resource, "prlimit") or kind == "zig":  # zig reserves far more addresses than it uses
        return
    limits = ((resource.RLIMIT_AS, MEMORY_LIMIT_BYTES), (resource.RLIMIT_CPU, max(1, int(TIME_LIMIT_SECONDS))))
    for limit, wanted in limits:
        with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
            _, hard = resource.prlimit(pid, limit)
            most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
            resource.prlimit(pid, limit, (most, hard))


def _failure(command: tuple[str, ...], status: int, messages: str) -> str:
    how = f"was killed by signal {-status}" if status < 0 else f"failed with status {status}"
    lines = [line for line in messages.splitlines() if line.strip()]
    wanted = [line for line in lines if "error" in line.lower()] or lines
    first = "\n".join(f"  {line}" for line in wanted[:12])
    return f"the C compiler {how}\n  command: {shlex.join(command)}\n{first}".rstrip()
