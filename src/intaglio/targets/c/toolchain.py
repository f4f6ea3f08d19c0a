"""What is known of C compilers without running one: a process whose code is all there needs no more."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from intaglio.errors import CompileError

if TYPE_CHECKING:
    from intaglio.targets.c.units import CFunction

RUNTIME_FOLDER = Path(__file__).parent / "runtime"

TIME_LIMIT_SECONDS = 300
"""How long one run of a compiler may take."""

COMMON_FLAGS = (
    "-std=gnu11",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-psabi",
    "-Wno-unused-function",
    "-Wno-unused-parameter",
    "-Wno-unused-variable",
    "-Wno-unused-but-set-variable",
    "-Wno-unknown-pragmas",
)

NAMES = ("gcc", "clang", "cc")
"""The commands that are looked for."""

REMEDY = (
    "Intaglio compiles models to native code and found no C compiler. Install gcc or clang (on Debian and Ubuntu: "
    "`apt install gcc`), or run `pip install ziglang`, or set CC to the command of one."
)


class StorageError(CompileError):
    """The folder where compiled code goes is full or cannot be written."""


class RefusedError(CompileError):
    """The C compiler works, and refuses these functions of ours; all others of the same set are compiled."""

    def __init__(self, text: str, functions: Sequence[CFunction]) -> None:
        super().__init__(text)
        self.functions = tuple(functions)


@functools.cache
def is_sanitized() -> bool:
    """Whether $INTAGLIO_SANITIZE asks for code that checks every access; it runs only where libasan is preloaded."""
    return os.environ.get("INTAGLIO_SANITIZE") == "1"


def compiler_identity() -> str:
    """What `find_compiler` depends on, without running anything: a text that changes with the compiler."""
    wanted = os.environ.get("CC", "")
    found = next(filter(None, map(_on_path, [wanted.split()[0]] if wanted.strip() else NAMES)), "")
    try:
        status = os.stat(found) if found else None
    except OSError:
        status = None
    look = "" if status is None else f"{os.path.realpath(found)} {status.st_size} {status.st_mtime_ns}"
    return f"{wanted}\0{found}\0{look}"


def _on_path(name: str) -> str | None:
    """Where a program is that can be run, as the shell would find it."""
    folders = [""] if os.path.dirname(name) else os.get_exec_path()
    candidates = (os.path.join(folder, name) for folder in folders)
    return next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), None)
