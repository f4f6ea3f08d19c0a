"""Outputs in the memory of inputs that the caller gives away.

An output takes the memory of an input where nothing reads the input once the output is written. Kernels that change a
part of a tensor are lowered as a copy, and a kernel that writes over it: where the copied tensor is read no more, it
is the same memory, and the copy goes. So what is written is what changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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

    def where(self, holds: Callable[[Action], bool]) -> list[int]:
        """The places of actions for which something holds."""
        return [number for number, place in enumerate(self.places) if holds(place.action)]

    def action(self, place: int) -> Action:
        """The action at a place."""
        return self.places[place].action


def conflict(order: Order, given: Buffer, made: Buffer, stops: Sequence[int], ignored: Iterable[int] = ()) -> str:
    """Why the output `made` cannot have the memory of the input `given`; an empty text where it can.

    `stops` are the places that must not come behind the first write. What is `ignored` copies the one to the other.
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
        late = next((place for place in stops if order.may_follow(write, place)), None)
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


def put_off(actions: list[Action], donated: Mapping[Buffer, Collection[Buffer]]) -> None:
    """Let kernels that may write over inputs come behind the last kernel of their block that reads these.

    So `m + g` may take the place of `m` where another kernel reads `m` too. `donated` has, for each input, the buffers
    that its output is made in.
    """
    for action in actions:
        for block in action.blocks if isinstance(action, (Branch, Repeat)) else ():
            put_off(block, donated)
    readers: dict[Buffer, Action] = {}
    for action in actions:
        readers.update((buffer, action) for buffer in _touched([action], donated))
    for action in list(actions):
        pairs = action.replaces if isinstance(action, Call) else ()
        own = {read.home for written, read in pairs if written.home in donated.get(read.home, ())}
        last = max((_index(actions, readers[buffer]) for buffer in own), default=-1)
        place = _index(actions, action)
        if last > place and _may_pass(action, actions[place + 1 : last + 1]):
            actions.insert(last, actions.pop(place))


def _makers(pairs: Sequence[Donated], copies: Sequence[Call]) -> dict[Buffer, set[Buffer]]:
    """For each input that is given away, the output that is to take its memory, and what is copied to that."""
    sources: dict[Buffer, set[Buffer]] = {}
    for call in copies:
        sources.setdefault(call.operands[1].buffer.home, set()).add(call.operands[0].buffer.home)
    return {given: {made, *sources.get(made, ())} for given, made in pairs}


def _index(actions: Sequence[Action], action: Action) -> int:
    return next(place for place, each in enumerate(actions) if each is action)


def _touched(actions: Sequence[Action], wanted: Collection[Buffer]) -> set[Buffer]:
    found = (operand.buffer.home for action in walk(actions) for operand in operands_of(action))
    return {buffer for buffer in found if buffer in wanted}


def _may_pass(action: Action, others: Sequence[Action]) -> bool:
    """Whether an action gives the same behind others that now come behind it."""
    written = {operand.buffer.home for operand in operands_of(action) if operand.is_written}
    read = {operand.buffer.home for operand in operands_of(action)}
    for other in walk(others):
        if not isinstance(other, (Call, Fill, Branch, Repeat)):
            return False
        for operand in operands_of(other):
            home = operand.buffer.home
            if home in written or (operand.is_written and home in read):
                return False
    return True


class Sharing:
    """Finds the outputs that take the memory of inputs, and removes the copies that this makes needless.

    `copies` are the calls that copy all of one buffer to all of another one, `pairs` what is to be shared.
    """

    def __init__(
        self, segment: SegmentBody, copies: Sequence[Call], pairs: Sequence[Donated], *, is_atomic: bool = False
    ) -> None:
        self.segment = segment
        put_off(segment.actions, _makers(pairs, copies))
        self.order = Order(segment)
        self._copies = {id(call) for call in copies}
        self._stops = self.order.where(may_fail if is_atomic else needs_another_plan)
        self._needless: set[int] = set()
        """Copies to memory that another buffer has taken over: they go in any case."""
        self._between: set[int] = set()
        """Copies of an input to the output that takes its memory."""
        self._is_refused = False
        self.is_atomic = is_atomic

    def take(self, given: Buffer, made: Buffer) -> str:
        """Give the output `made` the memory of the input `given`; returns why that cannot be, or an empty text."""
        if made.is_late or made.home is not made or made.kind != "output":
            return "its size is known only in the run"
        while self._merges_more(given, made):
            pass
        copies = [place for place in self._copies_between(given, made) if not self._is_stale(place, made)]
        refusal = conflict(self.order, given, made, self._stops, copies)
        if not refusal:
            self._between |= {id(self.order.action(place)) for place in copies}
            outputs, inputs = self.segment.output_buffers, self.segment.input_buffers
            self.segment.aliases.append(Alias(outputs.index(made), inputs.index(given)))
        self._is_refused |= bool(refusal)
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

    def _merges_more(self, given: Buffer, made: Buffer) -> bool:
        """Merge one more buffer into `made`, of which this begins as a copy, or over which it may be written.

        The latter only where that buffer in its turn takes the place of `given`; others had better be apart.
        """
        order = self.order
        for place in sorted(order.writes.get(made, ())):
            action = order.action(place)
            is_copy = id(action) in self._copies
            if not is_copy and _writes_over(action, made, given):
                continue
            for source in self._sources(action):
                is_wanted = is_copy or self._leads_to(source, given, {made})
                if source is given or not is_wanted or not self._can_merge(source, made, place):
                    continue
                if is_copy:
                    self._drop(place)
                self._merge(source, made)
                return True
        return False

    def _leads_to(self, buffer: Buffer, given: Buffer, seen: set[Buffer]) -> bool:
        """Whether a buffer begins as a copy of an input, or may be written over it, or over one of which that holds."""
        for place in self.order.writes.get(buffer, ()):
            action = self.order.action(place)
            if self._copies_between(given, buffer) or _writes_over(action, buffer, given):
                return True
            further = [source for source in self._sources(action) if source not in seen]
            if any(self._leads_to(source, given, seen | {buffer, source}) for source in further):
                return True
        return False

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
        """Take the needless copies out; where runs are to change all or nothing, mark from where nothing stops them.

        In that case, one output that cannot take the memory of its input leaves all outputs in memory of their own.
        """
        if self.is_atomic and self._is_refused:
            self.segment.aliases.clear()
            self._between.clear()
        needless = self._needless | self._between
        if needless:
            _keep(self.segment.actions, lambda action: id(action) not in needless)
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
