"""Times of all that an engine does, taken while it runs: each action of its segments, and each host node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from intaglio.kernels.plan import Action, walk
from intaglio.kernels.plan_form import SegmentForm
from intaglio.record import Record
from intaglio.runtime.engine.host_steps import HostStep
from intaglio.targets.executor import Counters
from intaglio.targets.step import Step

if TYPE_CHECKING:
    from intaglio.runtime.engine.native import NativeEngine


class Span(NamedTuple):
    """When something began and ended, in nanoseconds of the monotonic clock; `row` is its place among the rows."""

    row: int
    begin: int
    end: int


class Timed(Record):
    """What was done, how often, and the seconds that it took.

    Of `action`, `host` and neither, which is what a segment's driver does between its actions, one is so. `waited` is
    the part of the time that the calling thread waited for others, and `best` the shortest single time. A row that
    `is_inside` of a host node, as those of bodies of control flow are, is a part of that node's time too, which is
    given without it.
    """

    action: Action | None
    host: HostStep | None
    count: int
    seconds: float
    waited: float = 0.0
    best: float = 0.0
    is_inside: bool = False


class HostTimes:
    """The times of an engine's host nodes, which the engine notes itself."""

    def __init__(self, most_events: int) -> None:
        self.total: dict[int, tuple[int, int, int]] = {}
        self.spans: list[tuple[int, int, int]] = []
        self._most_events = most_events

    def note(self, part: HostStep, begin: int) -> None:
        """Add the time since `begin` to that of a host node."""
        end = time.monotonic_ns()
        count, total, best = self.total.get(id(part), (0, 0, end - begin))
        self.total[id(part)] = count + 1, total + end - begin, min(best, end - begin)
        if len(self.spans) < self._most_events:
            self.spans.append((id(part), begin, end))


class Counting:
    """Takes the times of an engine's runs, from when it is made until `end`.

    Engines that runs add for values or sizes are counted where they are there already, so run once before. Runs at the
    same time on several threads may lose counts.
    """

    def __init__(self, engine: NativeEngine, most_events: int = 0) -> None:
        self._engines = engine.all_engines()
        inner = {id(body) for each in self._engines for body in each.body_engines()}
        self._inside = {id(each) for each in self._engines if id(each) in inner}
        self._read_clocks = engine.executor.read_clocks
        self._segments: list[tuple[NativeEngine, Step, Counters]] = []
        self._forms: dict[int, SegmentForm] = {}
        self._clocks = [self._read_clocks()]
        for each in self._engines:
            for step, form in each.segments():
                actions = sum(1 for _ in walk(form.actions))
                self._forms[id(step)] = form
                self._segments.append((each, step, step.count(actions, most_events)))
            each.count_hosts(HostTimes(most_events))

    def end(self) -> None:
        """Take no more times."""
        for _, step, _ in self._segments:
            step.stop_counting()
        self._hosts = [(each, each.count_hosts(None)) for each in self._engines]
        self._clocks.append(self._read_clocks())

    @property
    def _seconds_per_tick(self) -> float:
        (first, begin), (last, end) = self._clocks
        return (end - begin) / max(1, last - first) / 1e9

    def rows(self) -> list[Timed]:
        """All that was done, in the order of the plan: segments with their actions, and host nodes."""
        return [row for _, row in self._rows()]

    def runs(self) -> int:
        """How often the driver of a segment ran, of the one that ran most."""
        return max((counters.whole().count for _, _, counters in self._segments), default=0)

    def spans(self) -> list[Span]:
        """The single times that were kept, of all rows, in the order of their beginnings."""
        scale = self._seconds_per_tick * 1e9
        start, begin = self._clocks[0]
        places = {key: place for place, (key, _) in enumerate(self._rows())}
        found: list[Span] = []
        for _, part, counters in self._segments:
            for action, first, last in counters.events():
                row = places.get((id(part), action))
                if row is not None and action >= 0:
                    times = (begin + int((tick - start) * scale) for tick in (first, last))
                    found.append(Span(row, *times))
        for _, times in self._hosts:
            if times is not None:
                found += [Span(places[key, 0], first, last) for key, first, last in times.spans]
        return sorted(found, key=lambda span: span.begin)

    def _rows(self) -> Iterator[tuple[tuple[int, int], Timed]]:
        counters = {id(part): item for _, part, item in self._segments}
        hosts = {id(each): times for each, times in self._hosts}
        for each in self._engines:
            is_inside = id(each) in self._inside
            for part in each.parts:
                if isinstance(part, HostStep):
                    count, total, best = _times(hosts[id(each)], part)
                    seconds = max(0.0, total / 1e9 - self._body_seconds(each, part))
                    yield (id(part), 0), Timed(None, part, count, seconds, 0.0, min(best / 1e9, seconds), is_inside)
                else:
                    yield from self._segment_rows(part, counters[id(part)], is_inside)

    def _segment_rows(self, part: Step, counters: Counters, is_inside: bool) -> Iterator[tuple[tuple[int, int], Timed]]:
        scale, rest = self._seconds_per_tick, counters.whole().ticks
        for place, action in enumerate(walk(self._forms[id(part)].actions)):
            count, ticks, waited, best = counters.action(place)
            rest -= ticks
            if count:
                times = (each * scale for each in (ticks, waited, best))
                yield (id(part), place), Timed(action, None, count, *times, is_inside=is_inside)
        whole = counters.whole()
        if whole.count:
            yield (id(part), -1), Timed(None, None, whole.count, rest * scale, is_inside=is_inside)

    def _body_seconds(self, engine: NativeEngine, part: HostStep) -> float:
        """What the compiled bodies of a host node took."""
        bodies = part.bodies
        inner = {id(each) for body in (bodies.engines if bodies else ()) for each in body.all_engines()}
        ticks = sum(item.whole().ticks for each, _, item in self._segments if id(each) in inner)
        return ticks * self._seconds_per_tick


def _times(times: HostTimes | None, part: HostStep) -> tuple[int, int, int]:
    return (0, 0, 0) if times is None else times.total.get(id(part), (0, 0, 0))
