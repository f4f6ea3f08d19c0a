"""The C runtime, compiled once through the cache like everything else."""

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from intaglio.c import cache
from intaglio.c.cache import CFunction
from intaglio.c.compiler import RUNTIME_FOLDER, find_compiler
from intaglio.c.target import TARGETS


class Runtime(NamedTuple):
    """The runtime's functions as Python builtins, in the order in which `call.c` lists them.

    They are the raw interface, without keyword arguments; `intaglio.c.native` wraps them.
    """

    new_segment: Callable[..., object]
    new_prepared: Callable[..., object]
    invoke: Callable[..., int]
    plan_memory: Callable[..., int]
    pool_workers: Callable[[], int]
    set_threads: Callable[[int], int]
    guard_file: Callable[[int, int], int]
    is_file_lost: Callable[[int], int]
    release_file: Callable[[int], int]
    run_memory: Callable[[], tuple[int, int, int]]


def runtime_function() -> CFunction:
    """The runtime's own source, as a function of the cache."""
    texts = [(RUNTIME_FOLDER / name).read_text(encoding="utf-8") for name in ("pool.c", "guard.c", "call.c")]
    return CFunction("runtime", "\n".join(texts), "-O2", ("ig.h",))


@functools.cache
def runtime() -> Runtime:
    """The loaded runtime; CompileError when it is not in the cache and there is no compiler."""
    (loaded,) = cache.ensure([runtime_function()], find_compiler(), TARGETS["c"])
    functions: Any = ctypes.PYFUNCTYPE(ctypes.py_object)(loaded.address)()
    return Runtime(*cast("tuple[Any, ...]", functions))
