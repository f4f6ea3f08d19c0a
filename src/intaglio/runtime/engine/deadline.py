"""When a run must be over: after some time, or as soon as another thread says so."""

from __future__ import annotations

import time
from array import array
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from intaglio.errors import RunTimeoutError
from intaglio.record import Record

_FOREVER = 1 << 62
"""A moment that no run reaches, in nanoseconds of the clock."""


class Stop:
    """A flag by which one thread ends the runs of others, compiled code included."""

    def __init__(self) -> None:
        self._flag = array("i", [0])

    @property
    def is_set(self) -> bool:
        """Whether the runs are to end."""
        return self._flag[0] != 0

    @is_set.setter
    def is_set(self, value: bool) -> None:
        self._flag[0] = int(value)

    @property
    def address(self) -> int:
        """Where compiled code finds the flag."""
        return self._flag.buffer_info()[0]


_stop: ContextVar[Stop | None] = ContextVar("intaglio_stop", default=None)


@contextmanager
def stoppable(stop: Stop, *, is_native: bool) -> Generator[None]:
    """Let a flag end the runs in this block, which raise RunTimeoutError then; `is_native` where code is compiled."""
    from intaglio.targets import executor_for

    token = _stop.set(stop)
    try:
        with executor_for().watching(stop.address) if is_native else nullcontext():
            yield
    finally:
        _stop.reset(token)


def is_stoppable() -> bool:
    """Whether another thread may end runs of this one by a flag."""
    return _stop.get() is not None


class Deadline(Record):
    """The moment at which a run of `limit` seconds must be over; `stop` ends it before."""

    limit: float
    end: int
    stop: Stop | None = None

    @classmethod
    def after(cls, limit: float | None) -> Deadline | None:
        """The deadline of a run that starts now; None where it has no limit and nobody can stop it."""
        stop = _stop.get()
        if limit is None:
            return None if stop is None else cls(0, _FOREVER, stop)
        return cls(limit, min(_FOREVER, time.monotonic_ns() + max(1, int(limit * 1e9))), stop)

    @classmethod
    def of_run(cls, start: int, time: int) -> Deadline:
        """The deadline of a run that began at a moment of the clock and has some nanoseconds."""
        return cls(time / 1e9, start + time, _stop.get())

    def check(self, *_: object) -> None:
        """Raise RunTimeoutError where the time is over."""
        if (self.stop is not None and self.stop.is_set) or time.monotonic_ns() > self.end:
            raise self.error()

    def remaining(self) -> int:
        """The nanoseconds that are left, at least one."""
        return max(1, self.end - time.monotonic_ns())

    def error(self) -> RunTimeoutError:
        """What a run raises that is over too early."""
        if self.stop is not None and self.stop.is_set:
            return RunTimeoutError("the run was stopped by another thread")
        return RunTimeoutError(f"the run took longer than its timeout of {self.limit:g} s")


def sooner(left: Deadline | None, right: Deadline | None) -> Deadline | None:
    """The deadline that is over first; None where there is neither."""
    found = [each for each in (left, right) if each is not None]
    return min(found, key=lambda each: each.end, default=None)
