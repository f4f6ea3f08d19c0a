"""From which action to which each buffer of a segment is needed."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.kernels.plan import Action, Branch, Repeat, SegmentBody, operands_of
from intaglio.kernels.view import Buffer


def lifetimes(segment: SegmentBody, buffers: Sequence[Buffer] | None = None) -> tuple[list[int], list[int]]:
    """The first and last action, in the order of `walk`, for which each of some buffers is needed: those of the arena.

    What is used both in a loop and outside of it lives as long as the loop: another round may read it.
    """
    uses: dict[Buffer, list[int]] = {}
    loops: list[tuple[int, int]] = []
    _note(segment.actions, 0, uses, loops)
    spans = [_span(uses.get(buffer, [0]), loops) for buffer in (segment.arena if buffers is None else buffers)]
    return [first for first, _ in spans], [last for _, last in spans]


def _note(actions: Sequence[Action], place: int, uses: dict[Buffer, list[int]], loops: list[tuple[int, int]]) -> int:
    """Note the places of all uses and the extents of all loops, inner ones first; gives the place behind the last."""
    for action in actions:
        for operand in operands_of(action):
            uses.setdefault(operand.buffer.home, []).append(place)
        start, place = place, place + 1
        for block in action.blocks if isinstance(action, (Branch, Repeat)) else ():
            place = _note(block, place, uses, loops)
        if isinstance(action, Repeat):
            loops.append((start, place - 1))
    return place


def _span(uses: Sequence[int], loops: Sequence[tuple[int, int]]) -> tuple[int, int]:
    first, last = min(uses), max(uses)
    for start, stop in loops:
        is_inside = first <= stop and last > start and any(start < use <= stop for use in uses)
        if is_inside and not start < first <= last <= stop:
            first, last = min(first, start), max(last, stop)
    return first, last
