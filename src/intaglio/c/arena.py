"""Where the buffers of a segment lie in its arena."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from intaglio.c.native import plan_memory
from intaglio.record import Record


class Layout(Record):
    """Where the arena buffers of a segment lie: `place[i]` is the block that holds buffer i, and for each block there
    are the first and last action that needs it."""

    place: list[int]
    first: list[int]
    last: list[int]

    @cached_property
    def holders(self) -> list[int]:
        """For each block a buffer that lies in it; all of a block have one size."""
        found = {block: buffer for buffer, block in enumerate(self.place)}
        return [found[block] for block in range(len(self.first))]

    def planned(self, sizes: Sequence[int]) -> tuple[list[int], int]:
        """The offset of each buffer for these sizes, and the size of the arena."""
        offsets, total = plan_memory([sizes[holder] for holder in self.holders], self.first, self.last)
        return [offsets[block] for block in self.place], total
