"""What counted runs report of a segment."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Count(NamedTuple):
    """How often something was done, the ticks that it took, those that the calling thread waited for others, and the
    ticks of the shortest time."""

    count: int
    ticks: int
    waited: int
    least: int


class Counters(Protocol):
    """The times of a segment's runs, added up."""

    def whole(self) -> Count:
        """All runs, from beginning to end."""
        ...

    def action(self, place: int) -> Count:
        """One action of the segment, in the order of `walk`."""
        ...

    def events(self) -> list[tuple[int, int, int]]:
        """The number of an action, -1 for a whole run, and the ticks at which it began and ended, one by one."""
        ...
