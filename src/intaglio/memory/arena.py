"""Which buffers of a segment may lie in one place of its arena."""

from __future__ import annotations

from functools import cached_property

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
