"""Outputs in the memory of inputs that the caller gives away.

An output takes the memory of an input where nothing reads the input once the output is written. Kernels that change a
part of a tensor are lowered as a copy, and a kernel that writes over it: where the copied tensor is read no more, it
is the same memory, and the copy goes. So what is written is what changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from intaglio.kernels.plan import (
    Action,
    Alias,
    Allocate,
    Branch,
    Call,
    Check,
    Commit,
    Fill,
    FindSizes,
    Grow,
    Repeat,
    SegmentBody,
    operands_of,
    walk,
)
from intaglio.kernels.view import Buffer

Donated = tuple[Buffer, Buffer]
"""The buffer of an input that is given away, and that of the output which is to take its memory."""

CanStop = Callable[[Action], bool]
"""Whether an action may stop the run in a way that must not happen once an input is written over."""


@dataclass(frozen=True)
class Place:
    """An action in the order of `walk`, and the blocks of branches around it: pairs of a branch's place and a block."""

    action: Action
    blocks: tuple[tuple[int, int], ...]


class Order:
    """The actions of a segment: which may run behind which, and where buffers are read and written."""

    def __init__(self, segment: SegmentBody) -> None:
        self.places: list[Place] = []
        self.loops: list[tuple[int, int]] = []
        """The first and last place of each loop, its own included."""
        self.reads: dict[Buffer, list[int]] = {}
        self.writes: dict[Buffer, list[int]] = {}
        self._note(segment.actions, ())

    def _note(self, actions: Sequence[Action], blocks: tuple[tuple[int, int], ...]) -> None:
        for action in actions:
            place = len(self.places)
            self.places.append(Place(action, blocks))
            for operand in operands_of(action):
                uses = self.writes if operand.is_written else self.reads
                uses.setdefault(operand.buffer.home, []).append(place)
            for number, block in enumerate(action.blocks if isinstance(action, (Branch, Repeat)) else ()):
                self._note(block, (*blocks, (place, number)) if isinstance(action, Branch) else blocks)
            if isinstance(action, Repeat):
                self.loops.append((place, len(self.places) - 1))

    def uses(self, buffer: Buffer) -> list[int]:
        """Where a buffer is read or written."""
        return [*self.reads.get(buffer, ()), *self.writes.get(buffer, ())]

    def may_follow(self, first: int, second: int) -> bool:
        """Whether the action at `second` may run behind the one at `first`."""
        if any(start <= first <= stop and start <= second <= stop for start, stop in self.loops):
            return True
        here, there = dict(self.places[first].blocks), dict(self.places[second].blocks)
        is_other_block = any(there.get(branch, block) != block for branch, block in here.items())
        return first < second and not is_other_block

    def action(self, place: int) -> Action:
        """The action at a place."""
        return self.places[place].action


def conflict(order: Order, given: Buffer, made: Buffer, can_stop: CanStop, ignored: Iterable[int] = ()) -> str:
    """Why the output `made` cannot have the memory of the input `given`; an empty text where it can.

    The places that are `ignored` are copies of the one to the other.
    """
    left_out = set(ignored)
    writes = [place for place in order.writes.get(made, ()) if place not in left_out]
    reads = [place for place in order.reads.get(given, ()) if place not in left_out]
    for place in (*writes, *reads):
        if not isinstance(order.action(place), (Call, Fill, FindSizes, Branch, Repeat)):
            return "it is the state of a loop"
    for write in writes:
        for read in reads:
            is_same = read == write and not _writes_over(order.action(write), made, given)
            if is_same or order.may_follow(write, read):
                return f"{_named(order.action(read))} reads the input when parts of the output are written"
        late = next(
            (x for x, at in enumerate(order.places) if can_stop(at.action) and order.may_follow(write, x)), None
        )
        if late is not None:
            return f"{_named(order.action(late))} may stop the run behind the first write"
    return ""


def _named(action: Action) -> str:
    nodes = [node.op.name for node in action.nodes] or [node.operator for node in action.served]
    return " + ".join(dict.fromkeys(nodes)) or action.title or type(action).__name__


def _writes_over(action: Action, made: Buffer, given: Buffer) -> bool:
    """Whether a kernel loads each element of `given` before it stores the one at the same place of `made`."""
    if not isinstance(action, Call):
        return False
    loads = [each for each in action.operands if each.buffer.home is given]
    is_paired = any(left.home is made and right.home is given for left, right in action.replaces)
    return is_paired and len(loads) == 1


def needs_another_plan(action: Action) -> bool:
    """Whether an action may find that the run needs another plan, which would begin with inputs written over."""
    return isinstance(action, (Check, FindSizes, Allocate, Grow))


def may_fail(action: Action) -> bool:
    """Whether an action may end a run before its end, deadlines and interrupts aside."""
    if isinstance(action, Call):
        return action.checks or action.scratch != 0
    return needs_another_plan(action) or isinstance(action, Repeat)


class Sharing:
    """Finds the outputs that take the memory of inputs, and removes the copies that this makes needless.

    `copies` are the calls that copy all of one buffer to all of another one.
    """

    def __init__(self, segment: SegmentBody, copies: Iterable[Call], *, is_atomic: bool = False) -> None:
        self.segment = segment
        self.order = Order(segment)
        self._copies = {id(call) for call in copies}
        self._can_stop = may_fail if is_atomic else needs_another_plan
        self._needless: set[int] = set()
        self.is_atomic = is_atomic

    def take(self, given: Buffer, made: Buffer) -> str:
        """Give the output `made` the memory of the input `given`; returns why that cannot be, or an empty text."""
        if made.is_late or made.home is not made or made.kind != "output":
            return "its size is known only in the run"
        while (place := self._mergeable(given, made)) is not None:
            pass
        copies = [place for place in self._copies_between(given, made) if not self._is_stale(place, made)]
        refusal = conflict(self.order, given, made, self._can_stop, copies)
        if not refusal:
            for place in copies:
                self._drop(place)
            outputs, inputs = self.segment.output_buffers, self.segment.input_buffers
            self.segment.aliases.append(Alias(outputs.index(made), inputs.index(given)))
        return refusal

    def _copies_between(self, source: Buffer, target: Buffer) -> list[int]:
        """The places where all of one buffer is copied to another."""
        reads = set(self.order.reads.get(source, ()))
        found = reads.intersection(self.order.writes.get(target, ()))
        return sorted(place for place in found if id(self.order.action(place)) in self._copies)

    def _is_stale(self, copy: int, made: Buffer) -> bool:
        """Whether a copy may come behind other writes to its target, which it would undo."""
        others = [place for place in self.order.writes.get(made, ()) if place != copy]
        return any(
            self.order.may_follow(place, copy)
            for place in others
            if id(self.order.action(place)) not in self._copies or self.order.may_follow(copy, copy)
        )

    def _mergeable(self, given: Buffer, made: Buffer) -> int | None:
        """Merge one more buffer into `made`, of which this begins as a copy, or over which it may be written."""
        order = self.order
        for place in sorted(order.writes.get(made, ())):
            for source in self._sources(order.action(place)):
                if source is given or not self._can_merge(source, made, place):
                    continue
                if id(order.action(place)) in self._copies:
                    self._drop(place)
                self._merge(source, made)
                return place
        return None

    def _sources(self, action: Action) -> list[Buffer]:
        """The buffers of the arena whose memory what a call writes may take."""
        if not isinstance(action, Call):
            return []
        is_copy = id(action) in self._copies
        pairs = [action.operands[0].buffer] if is_copy else [read for _, read in action.replaces]
        return [buffer.home for buffer in pairs if buffer.home.kind == "arena"]

    def _can_merge(self, source: Buffer, made: Buffer, place: int) -> bool:
        order, action = self.order, self.order.action(place)
        is_plain = not source.is_late and not source.is_shared and source in self.segment.arena
        if not is_plain or source.dtype != made.dtype or source.size != made.size or source is made:
            return False
        if id(action) not in self._copies and not _writes_over(action, made, source):
            return False
        touched = (order.action(each) for each in order.uses(source))
        if not all(isinstance(each, (Call, Fill, FindSizes, Branch, Repeat)) for each in touched):
            return False
        is_read_on = any(order.may_follow(place, each) for each in order.uses(source))
        return not is_read_on and not any(order.may_follow(each, place) for each in order.uses(made))

    def _merge(self, source: Buffer, made: Buffer) -> None:
        """Let a buffer of the arena be the output's memory."""
        for uses in (self.order.reads, self.order.writes):
            uses.setdefault(made, []).extend(uses.pop(source, ()))
        source.kind, source.place, source.index = "place", made, -1
        self.segment.arena.remove(source)

    def _drop(self, place: int) -> None:
        """Leave out a copy."""
        self._needless.add(id(self.order.action(place)))
        for operand in operands_of(self.order.action(place)):
            uses = self.order.writes if operand.is_written else self.order.reads
            uses[operand.buffer.home].remove(place)

    def finish(self) -> None:
        """Take the needless copies out; where runs are to change all or nothing, mark from where nothing stops them."""
        if self._needless:
            _keep(self.segment.actions, lambda action: id(action) not in self._needless)
        if self.is_atomic and self.segment.aliases:
            self.segment.actions.insert(_first_change(self.segment), Commit(title="from here on nothing stops the run"))


def _keep(actions: list[Action], is_kept: Callable[[Action], bool]) -> None:
    actions[:] = [action for action in actions if is_kept(action)]
    for action in actions:
        for block in action.blocks if isinstance(action, (Branch, Repeat)) else ():
            _keep(block, is_kept)


def _changes(segment: SegmentBody) -> Iterator[int]:
    """The places of actions that write to inputs given away."""
    made = {id(segment.output_buffers[alias.output]) for alias in segment.aliases}
    for place, action in enumerate(walk(segment.actions)):
        if any(operand.is_written and id(operand.buffer.home) in made for operand in operands_of(action)):
            yield place


def _first_change(segment: SegmentBody) -> int:
    """The outermost action, by its index, inside of which an input is first written over."""
    place, first = 0, next(_changes(segment), None)
    for index, action in enumerate(segment.actions):
        place += sum(1 for _ in walk([action]))
        if first is not None and first < place:
            return index
    return len(segment.actions)


def commits(segment: SegmentBody) -> bool:
    """Whether nothing stops the run once inputs are written over."""
    return any(isinstance(action, Commit) for action in segment.actions)


def first_write(segment: SegmentBody) -> int:
    """The place of the first action, in the order of `walk`, behind which an input may be written over; -1 for none."""
    first = next(_changes(segment), -1)
    return min([first, *(start for start, stop in Order(segment).loops if start <= first <= stop)])
