"""What a model may cost: `Limits`, and the limits that hold for the work under way.

They are set around loading and running a model, and looked at wherever work or memory can grow out of proportion, so
that no function has to hand them on.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

from intaglio.errors import InputError, LimitError, OperatorError
from intaglio.record import Record

TENSOR_BYTES = 1 << 38
"""No operator makes a tensor of more bytes than this, whatever the limit on memory is."""


@dataclass(frozen=True)
class Limits:
    """What a model may cost. Reaching a limit raises LimitError, and the model can be used again.

    `memory` are bytes, or text such as "512M" or "1.5G": of the weights, of the memory between nodes and of the outputs
    together, which is known before any of it is allocated, and of any single tensor where it is not; None is what the
    machine or container has.
    `time` are seconds: of loading, and of each run, which raises RunTimeoutError; None is no limit. `loop_iterations`
    are the rounds of any one Loop or Scan, `nodes` those of the model with its functions inlined and its operators
    expanded.

    >>> Limits(memory="1G").memory
    1073741824
    """

    memory: int | None = None
    time: float | None = None
    loop_iterations: int = 2**31 - 1
    nodes: int = 1_000_000

    if TYPE_CHECKING:

        def __init__(
            self,
            memory: int | str | None = None,
            time: float | None = None,
            loop_iterations: int = 2**31 - 1,
            nodes: int = 1_000_000,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("memory", "time", "loop_iterations", "nodes"):
            number = getattr(self, name)
            if number is None and name in ("memory", "time"):
                continue
            object.__setattr__(self, name, _checked(name, number))


def _checked(name: str, number: Any) -> Any:
    """A limit as the number that is meant; raises InputError where it is none."""
    if name == "memory" and isinstance(number, str):
        return parse_bytes(number)
    if isinstance(number, bool) or not isinstance(cast("object", number), Real):
        raise InputError(f"the limit on {name} is {number!r}, expected a number")
    if not number > 0:
        raise InputError(f"the limit on {name} is {number}, expected more than 0")
    if name == "time":
        return float(number)
    if not math.isfinite(number) or number != int(number):
        raise InputError(f"the limit on {name} is {number}, expected a whole number")
    return int(number)


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_bytes(text: str) -> int:
    """A number of bytes, with K, M, G or T for powers of 1024; raises InputError.

    >>> parse_bytes("1.5K"), parse_bytes("2 GiB")
    (1536, 2147483648)
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE | re.ASCII)
    if match is None:
        raise InputError(f"{text!r} is no number of bytes, such as '512M' or '1.5G'")
    count = int(float(match[1]) * _UNITS[match[2].upper()])
    if count < 1:
        raise InputError(f"{text!r} is {count} bytes, expected at least 1")
    return count


class _Scope(Record):
    limits: Limits
    end: float | None = None
    deadline: Callable[[], None] | None = None


_scope: ContextVar[_Scope] = ContextVar("intaglio_limits")
_FREE = _Scope(Limits())


def current() -> Limits:
    """The limits of the work under way; the defaults where nobody set any."""
    return _scope.get(_FREE).limits


@contextmanager
def within(limits: Limits, *, is_timed: bool = False, deadline: Callable[[], None] | None = None) -> Generator[None]:
    """Hold the block to limits; with `is_timed`, `check_time` knows when its time is over.

    `deadline` raises where a run is over that the block is a part of; `check_time` asks it too.
    """
    end = time.monotonic() + limits.time if is_timed and limits.time is not None else None
    outer = _scope.get(_FREE)
    ends = [each for each in (end, outer.end) if each is not None]
    token = _scope.set(_Scope(limits, min(ends, default=None), deadline or outer.deadline))
    try:
        yield
    finally:
        _scope.reset(token)


def check_time(*_: object) -> None:
    """Raise LimitError where loading takes too long, and RunTimeoutError where a run does that must compile first."""
    scope = _scope.get(_FREE)
    if scope.deadline is not None:
        scope.deadline()
    if scope.end is not None and time.monotonic() > scope.end:
        raise LimitError(f"loading the model took longer than the limit of {scope.limits.time:g} s")


def check_nodes(count: int) -> None:
    """Raise LimitError where a graph has become too large."""
    limit = current().nodes
    if count > limit:
        raise LimitError(f"the model has {count} nodes once its operators are expanded; the limit is {limit}")


def most_bytes() -> int:
    """The bytes that a single tensor may have."""
    memory = current().memory
    return TENSOR_BYTES if memory is None else min(memory, TENSOR_BYTES)


def check_size(shape: Sequence[Any], dtype: Any) -> tuple[int, ...]:
    """The shape of a tensor to make; raises where a size is negative or all of it is far too large."""
    sizes = tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes):
        raise OperatorError(f"the shape {list(sizes)} has a negative size")
    total = dtype.itemsize
    for size in sizes:
        total *= size
    limit = most_bytes()
    if total > limit:
        raise LimitError(f"a tensor of shape {list(sizes)} and {total} bytes is over the limit of {limit}")
    return sizes
