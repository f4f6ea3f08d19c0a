"""Running compiled segments from Python."""

import functools
import os
from array import array
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from intaglio.memory.arena import Layout
from intaglio.processor import granted_threads
from intaglio.record import Record
from intaglio.targets.c.library import runtime
from intaglio.targets.counters import Count


class Prepared(Record):
    """A segment with its sizes bound; immutable, so it is kept and used again for the same shapes.

    `handle` is the first argument of `invoke`; it keeps the segment alive.
    """

    handle: object
    arena_bytes: int


class SegmentCode:
    """A driver with its kernels and constants.

    The caller keeps the arrays behind `constants` (addresses) alive. `threads` bounds the threads of a run, the calling
    one included. Where `late` says so, an output's shape is known only in the run; `invoke` is then given a callable in
    its place, which makes a writable buffer of (owner, address, *shape): fresh where the address is 0, else the memory
    there, which the owner frees. `most_rounds` bounds each loop, `most_bytes` what the driver
    allocates by itself, and 0 is no bound. Arenas are filled with 0xA5 before each run when
    $INTAGLIO_POISON is 1.
    """

    def __init__(
        self,
        driver: int,
        kernels: Sequence[int],
        constants: Sequence[int],
        inputs: int,
        outputs: int,
        threads: int,
        late: Sequence[bool] = (),
        most_rounds: int = 0,
        most_bytes: int = 0,
    ) -> None:
        poison = os.environ.get("INTAGLIO_POISON") == "1"
        self.inputs: Final = inputs
        self.outputs: Final = outputs
        self.threads: Final = threads
        self._handle = runtime().new_segment(
            driver,
            _integers(kernels),
            _integers(constants),
            inputs,
            outputs,
            max(1, granted_threads(threads)),
            int(poison),
            _integers(late or [0] * outputs),
            most_rounds,
            most_bytes,
        )

    def prepare(
        self,
        dims: Sequence[int],
        offsets: Sequence[int],
        arena_bytes: int,
        estimated_ns: int,
        buffer_bytes: Sequence[int] = (),
        gaps: Sequence[int] = (),
    ) -> Prepared:
        """Bind the segment's sizes.

        `dims` and `offsets` are what the driver reads from its call, `estimated_ns` is the length of a run, roughly: it
        decides whether the pool is woken. With `buffer_bytes`, the exact size of every input and then every output,
        `invoke` refuses buffers of other sizes with a ValueError. `gaps` are
        pairs of offset and length in the arena that nobody may touch, which sanitized code watches.
        """
        handle = runtime().new_prepared(
            self._handle,
            _integers(dims),
            _integers(offsets),
            arena_bytes,
            estimated_ns,
            _integers(buffer_bytes),
            _integers(gaps),
        )
        return Prepared(handle, arena_bytes)

    def count(self, actions: int, most_events: int = 0) -> "Counters":
        """Take the times of later runs, of a driver with so many actions, and keep so many of them one by one."""
        self._counters = Counters(actions, most_events)  # kept with the segment: a run may be under way
        runtime().count_segment(self._handle, self._counters.address)
        return self._counters

    def stop_counting(self) -> None:
        """Take no times of runs that begin from now on."""
        runtime().count_segment(self._handle, 0)


class Counters:
    """The times of a segment's runs, as its pool adds them up; see `ig_counters` in runtime/pool.h."""

    def __init__(self, actions: int, most_events: int) -> None:
        self._rows = array("q", bytes(8 * 4 * (actions + 1)))
        self._events = array("q", bytes(8 * 3 * most_events))
        places = self._rows.buffer_info()[0], self._events.buffer_info()[0]
        self._header = array("q", [places[0], actions + 1, places[1], 0, most_events])

    @property
    def address(self) -> int:
        """Where the runtime finds them."""
        return self._header.buffer_info()[0]

    def whole(self) -> Count:
        """All runs, from the first statement of the driver to the last."""
        return Count(*self._rows[:4])

    def action(self, place: int) -> Count:
        """One action of the driver, in the order of `walk`."""
        return Count(*self._rows[4 * (place + 1) : 4 * (place + 2)])

    def events(self) -> list[tuple[int, int, int]]:
        """The number of an action, -1 for a whole run, and the ticks at which it began and ended, one by one."""
        kept = self._events[: 3 * self._header[3]].tolist()
        return list(zip(kept[::3], kept[1::3], kept[2::3], strict=True))


def read_clocks() -> tuple[int, int]:
    """The ticks that counters count in, and nanoseconds of the monotonic clock, at the same moment.

    Ticks are those of the processor's own counter where it runs at one speed always, else nanoseconds.
    """
    return runtime().read_clocks()


@functools.cache
def invoke_function() -> Callable[..., int]:
    """The builtin `invoke(prepared.handle, timeout_ns, *inputs, *outputs) -> int`.

    Inputs and outputs are C-contiguous buffers, such as NumPy arrays; outputs are written in place. A `timeout_ns` of 0
    is no limit. Returns 0 when done, 1 when the time ran out, and whatever else the driver returned. Raises what a
    signal handler raised (KeyboardInterrupt) and MemoryError. The lock of the interpreter is released meanwhile.
    """
    return runtime().invoke


def invoke(prepared: Prepared, timeout_ns: int, *buffers: object) -> int:
    """`invoke_function()` on a Prepared; hot paths call the builtin itself."""
    return runtime().invoke(prepared.handle, timeout_ns, *buffers)


def invoke_at_function() -> Callable[..., int]:
    """The builtin `invoke_at(prepared.handle, timeout_ns, *addresses) -> int`, for segments without late outputs.

    Like `invoke`, on memory that the caller keeps alive and knows to be contiguous and of the right sizes.
    """
    return runtime().invoke_at


def plan_memory(sizes: Sequence[int], first_use: Sequence[int], last_use: Sequence[int]) -> tuple[list[int], int]:
    """Offsets in one arena such that buffers that live at the same time do not overlap, and the arena's size.

    Buffer i lives from step first_use[i] to last_use[i], both included. Offsets are multiples of 64. The largest buffer
    is placed first, each in the tightest gap that holds it.
    """
    offsets = array("q", bytes(8 * len(sizes)))
    total = runtime().plan_memory(_integers(sizes), _integers(first_use), _integers(last_use), offsets)
    return offsets.tolist(), total


def planned(layout: Layout, sizes: Sequence[int]) -> tuple[list[int], int]:
    """The offset of each buffer of a segment for these sizes, and the size of its arena."""
    offsets, total = plan_memory([sizes[holder] for holder in layout.holders], layout.first, layout.last)
    return [offsets[block] for block in layout.place], total


GUARD = 256
"""Bytes between buffers that are planned apart."""


def plan_apart(sizes: Sequence[int]) -> tuple[list[int], int, list[int]]:
    """Offsets at which no two buffers share a place, the arena's size, and the gaps, for code that watches them."""
    offsets: list[int] = []
    gaps: list[int] = [0, GUARD]
    end = GUARD
    for size in sizes:
        offsets.append(end)
        start, end = end + (size + 7) // 8 * 8, end + (size + 63) // 64 * 64 + GUARD
        gaps += [start, end - start]
    return offsets, end, gaps


@contextmanager
def using_threads(threads: int) -> Generator[None]:
    """Run segments from this Python thread on so many threads, itself included, whatever they were made for."""
    before = runtime().set_threads(granted_threads(threads))
    try:
        yield
    finally:
        runtime().set_threads(before)


@contextmanager
def watching(flag: int) -> Generator[None]:
    """Stop segments that run from this Python thread once the int32 at an address is not 0; the caller keeps it alive.

    A run that was stopped ends as one whose time ran out.
    """
    before = runtime().set_stop(flag)
    try:
        yield
    finally:
        runtime().set_stop(before)


@contextmanager
def keeping_no_memory() -> Generator[None]:
    """Give the memory between kernels back after each run from this Python thread, where some is kept for the next."""
    before = runtime().set_frugal(1)
    try:
        yield
    finally:
        runtime().set_frugal(before)


def kept_memory() -> int:
    """The bytes that all segments together keep for later runs."""
    return runtime().kept_memory()


class RunMemory(NamedTuple):
    """The bytes that a run of a segment asked for: its arena, what its driver allocated, and scratch of all threads."""

    arena: int
    allocated: int
    scratch: int


def run_memory() -> RunMemory:
    """The memory of this thread's last run. The scratch memory is that of the process, at most since a run began."""
    return RunMemory(*runtime().run_memory())


def pool_workers() -> int:
    """How many worker threads this process has started."""
    return runtime().pool_workers()


def _integers(values: Iterable[int]) -> "array[int]":
    return array("q", values)
