"""The C runtime, compiled once through the cache like everything else."""

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from intaglio.targets.c import cache
from intaglio.targets.c.cache import CFunction
from intaglio.targets.c.target import TARGETS
from intaglio.targets.c.toolchain import RUNTIME_FOLDER
from intaglio.targets.c.units import function_key


class Runtime(NamedTuple):
    """The runtime's functions as Python builtins, in the order in which `call.c` lists them.

    They are the raw interface, without keyword arguments; `intaglio.targets.c.native` wraps them.
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
    set_stop: Callable[[int], int]
    set_frugal: Callable[[int], int]
    kept_memory: Callable[[], int]
    invoke_at: Callable[..., int]
    count_segment: Callable[[object, int], int]
    read_clocks: Callable[[], tuple[int, int]]


def runtime_function() -> CFunction:
    """The runtime's own source, as a function of the cache."""
    texts = [(RUNTIME_FOLDER / name).read_text(encoding="utf-8") for name in ("pool.c", "guard.c", "call.c")]
    return CFunction("runtime", "\n".join(texts), "-O2", ("ig.h",))


@functools.cache
def _runtime_source() -> str:
    """The hash that addresses the runtime's code; it changes with the contract between it and generated code."""
    return function_key(runtime_function(), None, TARGETS["c"]).source


def has_adopted_runtime() -> bool:
    """Whether code that was made elsewhere, and is used in this process, came with this version's runtime."""
    return cache.default_cache().adopted(_runtime_source()) is not None


@functools.cache
def runtime() -> Runtime:
    """The loaded runtime; CompileError when it is not in the cache and there is no compiler."""
    address = cache.default_cache().adopted(_runtime_source())
    if address is None:
        from intaglio.targets.c.compiler import find_compiler

        (loaded,) = cache.ensure([runtime_function()], find_compiler(), TARGETS["c"])
        address = loaded.address
    functions: Any = ctypes.PYFUNCTYPE(ctypes.py_object)(address)()
    return Runtime(*cast("tuple[Any, ...]", functions))
