"""Keeping the process alive where a file that it has mapped is cut short."""

from intaglio.errors import CompileError
from intaglio.onnx.mapped import use_guard
from intaglio.targets import executor_for


def guard_files() -> bool:
    """Map files under a guard from now on; returns False where the runtime cannot be had, and they are read."""
    try:
        use_guard(executor_for().file_guard())
    except CompileError:
        return False
    return True
