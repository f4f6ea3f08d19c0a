"""When a run must be over."""

from __future__ import annotations

import time

from intaglio.errors import RunTimeoutError
from intaglio.record import Record


class Deadline(Record):
    """The moment at which a run of `limit` seconds must be over."""

    limit: float
    end: int

    @classmethod
    def after(cls, limit: float | None) -> Deadline | None:
        """The deadline of a run that starts now; None without a limit."""
        return None if limit is None else cls(limit, time.monotonic_ns() + max(1, int(limit * 1e9)))

    def check(self, *_: object) -> None:
        """Raise RunTimeoutError where the time is over."""
        if time.monotonic_ns() > self.end:
            raise self.error()

    def remaining(self) -> int:
        """The nanoseconds that are left, at least one."""
        return max(1, self.end - time.monotonic_ns())

    def error(self) -> RunTimeoutError:
        """What a run raises whose time is over."""
        return RunTimeoutError(f"the run took longer than its timeout of {self.limit:g} s")
