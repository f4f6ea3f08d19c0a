"""Keeping the process alive where a file that it has mapped is cut short."""

from intaglio.errors import CompileError
from intaglio.onnx.mapped import use_guard
from intaglio.targets.c.library import runtime


class _RuntimeGuard:
    """The C runtime's list of mapped files, as `intaglio.onnx` sees it."""

    def __init__(self) -> None:
        functions = runtime()
        self._add, self._is_lost, self._remove = functions.guard_file, functions.is_file_lost, functions.release_file

    def add(self, address: int, size: int) -> int:
        return self._add(address, size)

    def is_lost(self, entry: int) -> bool:
        return bool(self._is_lost(entry))

    def remove(self, entry: int) -> None:
        self._remove(entry)


def guard_files() -> bool:
    """Have files mapped under a guard from now on; False where the C runtime cannot be had, and they are read."""
    try:
        use_guard(_RuntimeGuard())
    except CompileError:
        return False
    return True
