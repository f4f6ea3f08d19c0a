"""Where the buffers of a segment lie in one block of device memory, for known sizes."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.memory.arena import Layout

ALIGNMENT = 256


def places(layout: Layout, sizes: Sequence[int]) -> tuple[list[int], int]:
    """The offset of each buffer, and the size of the whole: the largest first, each in the tightest gap."""
    needed = [_aligned(sizes[holder]) for holder in layout.holders]
    offsets = [0] * len(needed)
    placed: list[int] = []
    total = 0
    for block in sorted(range(len(needed)), key=lambda each: -needed[each]):
        together = [each for each in placed if _overlap(layout, each, block)]
        offsets[block] = _tightest(
            sorted((offsets[each], offsets[each] + needed[each]) for each in together), needed[block]
        )
        placed.append(block)
        total = max(total, offsets[block] + needed[block])
    return [offsets[block] for block in layout.place], total


def _overlap(layout: Layout, one: int, other: int) -> bool:
    return layout.first[one] <= layout.last[other] and layout.first[other] <= layout.last[one]


def _tightest(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Where in the smallest gap between places that are taken so many bytes fit; behind all of them where none is."""
    best, least, end = -1, 0, 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best < 0 or gap < least):
            best, least = end, gap
        end = max(end, stop)
    return end if best < 0 else best


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
