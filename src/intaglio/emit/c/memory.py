"""Where everything lies that a run needs besides inputs, outputs and weights.

Memory is one array. Where all sizes are known, each buffer and each kernel's scratch memory has its place in it, and
those that are not needed at the same time share one. Where the caller tells sizes, buffers share slots instead: a slot
is as large as the largest that takes its turn in it, and the places of slots are computed in the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from intaglio.ir.dim import Dim, ceildiv, maximum, symbols
from intaglio.ir.substitution import substitute
from intaglio.kernels.arena import layout
from intaglio.kernels.memory_demand import Bounds
from intaglio.kernels.plan import Call, Grow, Segment, SegmentBody, walk
from intaglio.kernels.segment_sizes import late_buffers

HEAP_HEADER = 64
"""Bytes in front of each piece of the heap."""

UNKNOWN_HEAP = 1 << 20
"""Bytes for tensors whose sizes data tells, where nothing bounds them."""


@dataclass
class Memory:
    """The plan: `offset` of each buffer of the arena by its index, and of the scratch memory of each call by its id.

    All are dimensions over the sizes that the caller gives; `total` is what they take together, without the heap.
    """

    offset: list[Dim]
    scratch: dict[int, Dim]
    total: Dim
    heap: int = 0
    has_bounded_heap: bool = True


@dataclass
class _Block:
    size: int
    first: int
    last: int
    offset: int = field(default=0, compare=False)


def plan_memory(segment: Segment, alignment: int, threads: int, heap: int | None) -> Memory:
    """The places of a segment's buffers."""
    found = layout(segment)
    calls = [(moment, action) for moment, action in enumerate(walk(segment.actions)) if isinstance(action, Call)]
    late = set(segment.late)
    needs = [
        (moment, call, _rounded(_for_threads(call, threads), alignment))
        for moment, call in calls
        if late.isdisjoint(symbols(call.scratch))
    ]
    sizes = [_rounded(segment.arena[holder].bytes, alignment) for holder in found.holders]
    all_known = all(isinstance(size, int) for size in (*sizes, *(need for _, _, need in needs)))
    memory = (_fixed if all_known else _in_slots)(sizes, found.first, found.last, found.place, needs)
    memory.heap, memory.has_bounded_heap = _heap(segment, heap, threads)
    return memory


def _for_threads(call: Call, threads: int) -> Dim:
    return substitute(call.scratch, {}, threads) * threads


def _rounded(size: Dim, alignment: int) -> Dim:
    return ceildiv(size, alignment) * alignment


_Need = tuple[int, Call, Dim]


def _fixed(
    sizes: Sequence[Dim], first: Sequence[int], last: Sequence[int], place: Sequence[int], needs: Sequence[_Need]
) -> Memory:
    blocks = [_Block(_number(size), *span) for size, *span in zip(sizes, first, last, strict=True)]
    scratch = {id(call): _Block(_number(need), moment, moment) for moment, call, need in needs if need != 0}
    total = place_blocks([*blocks, *scratch.values()])
    return Memory([blocks[block].offset for block in place], {key: b.offset for key, b in scratch.items()}, total)


def _number(size: Dim) -> int:
    assert isinstance(size, int)
    return size


def place_blocks(blocks: Sequence[_Block]) -> int:
    """Give each block an offset, the largest first, at the lowest place that is free all its time; the bytes of all.

    >>> blocks = [_Block(8, 0, 1), _Block(4, 1, 2), _Block(8, 2, 3)]
    >>> place_blocks(blocks), [block.offset for block in blocks]
    (12, [0, 8, 0])
    """
    placed: list[_Block] = []
    for block in sorted(blocks, key=lambda each: -each.size):
        neighbours = [each for each in placed if each.first <= block.last and block.first <= each.last]
        block.offset = _lowest(block.size, sorted(neighbours, key=lambda each: each.offset))
        placed.append(block)
    return max((block.offset + block.size for block in blocks), default=0)


def _lowest(size: int, neighbours: Sequence[_Block]) -> int:
    end = 0
    for each in neighbours:
        if each.size and end + size <= each.offset:
            break
        end = max(end, each.offset + each.size)
    return end


def _in_slots(
    sizes: Sequence[Dim], first: Sequence[int], last: Sequence[int], place: Sequence[int], needs: Sequence[_Need]
) -> Memory:
    slots: list[tuple[Dim, int]] = []
    slot_of: list[int] = []
    for block in sorted(range(len(sizes)), key=lambda each: first[each]):
        free = [index for index, (_, end) in enumerate(slots) if end < first[block]]
        chosen = next((index for index in free if slots[index][0] == sizes[block]), free[0] if free else len(slots))
        size = sizes[block] if chosen == len(slots) else maximum(slots[chosen][0], sizes[block])
        slots[chosen : chosen + 1] = [(size, last[block])]
        slot_of.append(chosen)
    order = sorted(range(len(sizes)), key=lambda each: first[each])
    chosen_of = dict(zip(order, slot_of, strict=True))
    starts: list[Dim] = [0]
    for size, _ in slots:
        starts.append(starts[-1] + size)
    scratch: Dim = 0
    for _, _, need in needs:
        scratch = maximum(scratch, need)
    offsets: list[Dim] = [starts[chosen_of[block]] for block in place]
    return Memory(offsets, {id(call): starts[-1] for _, call, need in needs if need != 0}, starts[-1] + scratch)


def is_late_scratch(segment: SegmentBody, call: Call) -> bool:
    """Whether only the run tells how much scratch memory a call needs."""
    return not symbols(call.scratch).isdisjoint(segment.late)


def _heap(segment: Segment, wanted: int | None, threads: int) -> tuple[int, bool]:
    """The bytes of the heap, and whether they are known to be enough."""
    asked: list[Dim] = [buffer.bytes for buffer in late_buffers(segment.actions) if buffer.kind == "late"]
    calls = [action for action in walk(segment.actions) if isinstance(action, Call)]
    asked += [_for_threads(call, threads) for call in calls if is_late_scratch(segment, call)]
    if not asked:
        return 0, True
    bounds = Bounds(segment, {})
    most = [bounds.most(size) for size in asked]
    is_growing = any(isinstance(action, Grow) for action in walk(segment.actions))
    known = [size for size in most if isinstance(size, int)]
    if is_growing or len(known) < len(most):
        return wanted if wanted is not None else UNKNOWN_HEAP, False
    return wanted if wanted is not None else 2 * sum(_piece(max(0, size)) for size in known), True


def _piece(size: int) -> int:
    return -(-size // HEAP_HEADER) * HEAP_HEADER + HEAP_HEADER
