"""Compiling many models at once, which takes far fewer runs of the compiler than one model after another."""

from __future__ import annotations

from collections.abc import Iterable

from intaglio.c import cache
from intaglio.c.cache import CFunction
from intaglio.c.compiler import require_compiler
from intaglio.c.target import host_target
from intaglio.ir.graph import Graph
from intaglio.runtime.native import NativeEngine, Progress


def compile_together(graphs: Iterable[Graph], threads: int = 1, progress: Progress | None = None) -> int:
    """Put the functions of all graphs into the cache; returns how many different functions they have.

    The graphs are what an engine would run, so already simplified where the models will be. Raises what lowering one
    of them raises.
    """
    functions: dict[CFunction, None] = {}
    for graph in graphs:
        functions.update(dict.fromkeys(NativeEngine(graph, threads).functions()))
    cache.ensure(list(functions), require_compiler(), host_target(), progress)
    return len(functions)
