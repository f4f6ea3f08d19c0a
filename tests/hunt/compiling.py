"""Cheaper compiles for most of the hunt: the same C, without the compiler's optimisation.

What the hunt looks for stands in the C that is printed, and that does not depend on the level at which it is compiled.
An optimising compile takes four fifths of the time of a seed. So most seeds are compiled at `-O0`, all functions in one
unit; every `SHARE`th, and all seeds of the tests, are compiled as users have it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from intaglio.errors import CompileError
from intaglio.targets.c import cache
from intaglio.targets.c.compiler import Compiler, RunningCompilers
from intaglio.targets.c.target import Target

from . import covered_c

SHARE = 16
PLAIN = "-O0"
PRELUDE = Path(__file__).with_name("prelude.h")
NO_FUSING = "-U__FMA__"
"""Without optimisation no product is fused into a sum, on which the reduction of angles relies where it is defined."""

_flags, _compile_unit = Compiler.flags, Compiler.compile_unit


def is_optimised(seed: int) -> bool:
    """Whether a seed is compiled as users have it."""
    return seed % SHARE == 0


def compile_plainly() -> None:
    """Have this process compile without optimisation from now on; before it has compiled anything.

    Its code has a cache of its own: what is saved or loaded without a compiler must not find it. So has code with
    counters, beside them: they are found by the place at which it was compiled.
    """
    counted = covered_c.folder()
    kept = f"{cache.default_cache().root}-unoptimised" if counted is None else str(counted / "cache")
    os.environ["INTAGLIO_CACHE"] = kept
    cache.default_cache.cache_clear()
    Compiler.flags = _plain_flags
    Compiler.compile_unit = _compile_plainly
    cache.partition = lambda functions, cores: [functions]


def _plain_flags(self: Compiler, target: Target, optimize: str = "-O3") -> tuple[str, ...]:
    _, *others = _flags(self, replace(target, is_quick=False), optimize)
    return (PLAIN, NO_FUSING, "-include", str(PRELUDE), *others)


def _compile_plainly(
    self: Compiler,
    source: str,
    output: Path,
    target: Target,
    optimize: str = "-O3",
    running: RunningCompilers | None = None,
) -> None:
    try:
        if covered_c.folder() is not None:
            covered_c.compile_counted(self, source, output, target, optimize)
            return
        _compile_unit(self, source, output, target, optimize, running)
    except CompileError:  # a compiler may fail inside at -O0, on C that it takes at any other level
        optimised: Any = _Optimised(self.command, self.version, self.kind)
        _compile_unit(optimised, source, output, target, optimize, running)


class _Optimised(Compiler):
    """The compiler with its own flags."""

    def flags(self, target: Target, optimize: str = "-O3") -> tuple[str, ...]:
        return _flags(self, target, optimize)
