"""What counted runs report of a segment."""

from __future__ import annotations

from typing import NamedTuple


class Count(NamedTuple):
    """How often something was done, the ticks that it took, those that the calling thread waited for others, and the
    ticks of the shortest time."""

    count: int
    ticks: int
    waited: int
    least: int
