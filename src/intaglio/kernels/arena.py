"""The arena of a segment: which buffers take the place of others, and where all of them lie.

A loop kernel may write its result over an operand that nobody needs afterwards: it loads each element of it before it
stores the element at the same place, and touches it no more. That holds where the operand and the result are
contiguous, whole, and of one type, where nothing is reduced, and where the kernel does not read the operand in any
other order besides. A kernel that stores several values loads all operands of an element before it stores the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.lifetimes import lifetimes
from intaglio.kernels.plan import Call, SegmentBody, walk
from intaglio.kernels.view import Buffer, View
from intaglio.memory.arena import Layout


def replaceable(fused: FusedNodes) -> tuple[tuple[Buffer, Buffer], ...]:
    """Pairs of a buffer that a loop kernel writes and one that it reads and might write over."""
    if fused.reduced:
        return ()
    loads = list(fused.loads.values())
    return tuple(
        (store.buffer, load.buffer)
        for store in fused.stores.values()
        for load in loads
        if _is_same_place(load, store) and sum(other.buffer is load.buffer for other in loads) == 1
    )


def _is_same_place(load: View, store: View) -> bool:
    return (
        load.buffer is not store.buffer
        and load.buffer.dtype == store.buffer.dtype
        and load.buffer.size == store.buffer.size
        and load.offset == store.offset == 0
        and load.shape == store.shape
        and load.strides == store.strides
        and load.is_contiguous
    )


def layout(segment: SegmentBody) -> Layout:
    """The blocks of a segment's arena."""
    first, last = lifetimes(segment)
    index = {id(buffer): place for place, buffer in enumerate(segment.arena)}
    source: dict[int, int] = {}
    taken = set[int]()
    for moment, action in enumerate(walk(segment.actions)):
        for written, read in action.replaces if isinstance(action, Call) else ():
            new, old = index.get(id(written)), index.get(id(read))
            if new is None or old is None or new in source or old in taken or not _can_follow(segment, new, old):
                continue
            if first[new] == last[old] == moment:
                source[new] = old
                taken.add(old)
                break
    return _blocks(source, first, last)


def _can_follow(segment: SegmentBody, new: int, old: int) -> bool:
    buffers = segment.arena[new], segment.arena[old]
    return not any(buffer.is_late or buffer.is_shared or buffer.kind != "arena" for buffer in buffers)


def _blocks(source: dict[int, int], first: Sequence[int], last: Sequence[int]) -> Layout:
    place = [-1] * len(first)
    starts: list[int] = []
    ends: list[int] = []
    for buffer in sorted(range(len(first)), key=lambda each: (first[each], last[each])):
        old = source.get(buffer)
        if old is None or place[old] < 0:
            place[buffer] = len(starts)
            starts.append(first[buffer])
            ends.append(last[buffer])
        else:
            place[buffer] = place[old]
            ends[place[old]] = max(ends[place[old]], last[buffer])
    return Layout(place, starts, ends)
