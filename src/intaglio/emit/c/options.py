"""What can be chosen about exported C."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from intaglio.emit.export import CWeights
from intaglio.errors import InputError
from intaglio.record import Record
from intaglio.targets.c.target import TARGETS, Target

Style = Literal["readable", "fast"]

STYLES = ("readable", "fast")
WEIGHTS = ("c", "object", "bin", "extern")
MOST_THREADS = 1024
LEAST_HEAP = 64
"""Bytes that the first piece of the heap needs to describe itself."""

_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


class COptions(Record):
    """What is asked for.

    `prefix` begins all global names, and is the name of the files. `weights` None is text for small ones, and an object
    for large ones. Without `globals`, memory and weights are given by the caller. `heap` is how many bytes there are
    for tensors whose sizes data tells; None is as many as are known to be enough. With `measure`, the code is compiled
    to tell its size. With `program_memory`, AVR has the constants where its code is.
    """

    style: Style = "readable"
    target: str = "c"
    threads: int = 1
    prefix: str = "model"
    weights: CWeights | None = None
    globals: bool = True
    heap: int | None = None
    measure: bool = True
    program_memory: bool = False

    @property
    def is_fast(self) -> bool:
        """Whether our kernels are used."""
        return self.style == "fast"

    @property
    def machine(self) -> Target:
        """The processor that fast kernels are for."""
        return TARGETS[self.target]

    @property
    def alignment(self) -> int:
        """How memory and weights are aligned, in bytes."""
        return 64 if self.is_fast else 8


def options_of(given: Mapping[str, Any], weights: str | None) -> COptions:
    """The options from what a user gave, checked."""
    found = COptions(weights=weights, **given)  # type: ignore[arg-type]
    _one_of("style", found.style, STYLES)
    _one_of("target", found.target, tuple(TARGETS))
    if weights is not None:
        _one_of("weights", weights, WEIGHTS)
    if not _PREFIX.fullmatch(found.prefix) or found.prefix in RESERVED_PREFIXES:
        raise InputError(f"{found.prefix!r} cannot begin the names of C: give letters, digits and underscores")
    if found.heap is not None and found.heap < LEAST_HEAP:
        raise InputError(f"heap is {found.heap} bytes, expected at least {LEAST_HEAP}")
    if not 1 <= found.threads <= MOST_THREADS:
        raise InputError(f"threads is {found.threads}, expected 1 to {MOST_THREADS}")
    if not found.is_fast and (found.threads > 1 or found.target != "c"):
        raise InputError("threads and target are for the style 'fast'; readable code runs everywhere, on one thread")
    if found.program_memory:
        _check_program_memory(found)
    return found


def _check_program_memory(found: COptions) -> None:
    if found.is_fast:
        raise InputError("program memory is for the style 'readable': fast kernels are for processors with vectors")
    if found.weights in ("bin", "object") or not found.globals:
        raise InputError("program memory holds weights that are C: take weights 'c' or 'extern', and globals")


RESERVED_PREFIXES = frozenset({"main", "ig", "kernel", "test", "weights"})
"""Names that files or functions of the folder have already."""


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"there is no {name} {value!r}; expected {', '.join(known)}")
