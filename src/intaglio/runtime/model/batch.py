"""Compiling many models at once, which takes far fewer runs of the compiler than one model after another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from intaglio.runtime.engine.engine import Progress
from intaglio.runtime.engine.native import NativeEngine
from intaglio.targets.c import cache
from intaglio.targets.c.cache import CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import host_target
from intaglio.targets.c.toolchain import RefusedError


def compile_together(engines: Iterable[NativeEngine], progress: Progress | None = None) -> int:
    """Put the functions of engines that are not loaded yet into the cache; returns how many different ones they have.

    Engines are taken one at a time, so a generator of them needs the memory of one.
    """
    functions: dict[CFunction, None] = {}
    for engine in engines:
        functions.update(dict.fromkeys(engine.functions()))
    with contextlib.suppress(RefusedError):  # engines that load deal with what the compiler refuses
        cache.ensure(list(functions), find_compiler(), host_target(), progress)
    return len(functions)
