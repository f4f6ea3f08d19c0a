"""A segment that was loaded: what the engine binds to sizes and calls, whatever target it is for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir.limits import current
from intaglio.kernels.frame import Frame
from intaglio.record import Record

if TYPE_CHECKING:
    from intaglio.kernels.plan_form import PlanForm
    from intaglio.targets.executor import Counters

PREPARED_LIMIT = 64
"""How many bindings of sizes a segment keeps ready."""


Into = Sequence[np.ndarray[Any, Any] | None]
"""Arrays that outputs may be written to, in the order of the outputs, where they fit; None for new ones."""


class SizeOverflowError(Exception):
    """Sizes that a segment computes do not fit 64 bits; `is_late` where it found that out itself."""

    def __init__(self, *, is_late: bool = False) -> None:
        super().__init__("sizes do not fit 64 bits")
        self.is_late = is_late


class PlanSource(Record):
    """A plan to load: the frame of each segment, and what reads all of the plan, which takes longer."""

    frames: Sequence[Frame]
    read: Callable[[], PlanForm]


class Ready(Record):
    """A segment for one binding of its sizes: what its target prepared, and the shapes and types of its outputs.

    An output has no shape where only the run tells it.
    """

    prepared: Any
    outputs: tuple[tuple[tuple[int, ...] | None, np.dtype[Any]], ...]


class Direct(Record):
    """A segment for one binding of its sizes, to be called with addresses: by `call(handle, time, *addresses)`.

    A status that is not 0 leaves anything in the outputs; the run has to be done again in the usual way.
    """

    handle: object
    time: int


class Step:
    """A loaded segment. Targets say how it is prepared for sizes and how it is called."""

    def __init__(self, frame: Frame, weights: int = 0) -> None:
        self.frame = frame
        self.limits = current()
        self.weights = weights
        self._names = frame.needs()
        self._ready: OrderedDict[tuple[int, ...], Ready] = OrderedDict()

    def ready(self, bindings: dict[str, int]) -> Ready:
        """The segment prepared for the given sizes, from the few kept or made anew."""
        key = tuple(bindings[name] for name in self._names)
        found = self._ready.get(key)
        if found is None:
            found = self._prepare(bindings)
            self._ready[key] = found
            if len(self._ready) > PREPARED_LIMIT:
                self._ready.popitem(last=False)
        return found

    def forget_sizes(self) -> None:
        """Keep nothing of the sizes that were prepared."""
        self._ready.clear()

    def _prepare(self, bindings: dict[str, int]) -> Ready:
        rooms = self.frame.rooms(bindings)
        self.frame.check_addressable(bindings, rooms)
        prepared = self.prepare(bindings, rooms)
        types = [each.dtype.numpy for each in self.frame.results]
        return Ready(prepared, tuple(zip(self.frame.shapes(bindings), types, strict=True)))

    def prepare(self, bindings: dict[str, int], rooms: Sequence[int]) -> Any:
        """What the target keeps for these sizes; `rooms` are the bytes of each buffer of the arena.

        Raises LimitError where they need too much, and SizeOverflowError for sizes that cannot be computed.
        """
        raise NotImplementedError

    def call(
        self, ready: Ready, inputs: Sequence[Any], time: int, told: Sequence[Any] = (), into: Into | None = None
    ) -> tuple[int, list[Any]]:
        """Run once on contiguous arrays within so many nanoseconds; returns a status and the outputs.

        The status is 0 or one of those in `kernels.plan`. `told` has an int64 array for the sizes that the segment
        tells, where it tells any. An output is written to the array that `into` has for it, where that fits.
        """
        raise NotImplementedError

    def with_aliases(self, inputs: Sequence[Any], into: Into | None) -> Into:
        """The places of all outputs; those that share memory with an input are that input."""
        found = list(into or [None] * len(self.frame.results))
        for output, given in self.frame.aliases:
            found[output] = inputs[given]
        return found

    def check_aliases(self, inputs: Sequence[Any], made: Sequence[Any]) -> None:
        """Raise ShapeError where an output has not the size of the input whose memory it is to take."""
        for output, given in self.frame.aliases:
            if made[output] is not inputs[given]:
                name = self.frame.results[output].name
                raise ShapeError(f"output {name!r} has another size than the input whose memory it takes")

    def direct(self, ready: Ready, time: int) -> Direct | None:
        """What runs the segment on addresses; None where that cannot be done."""
        return None

    def count(self, actions: int, most_events: int = 0) -> Counters:
        """Take the times of later runs, of so many actions, and keep so many of them one by one."""
        raise NotImplementedError

    def stop_counting(self) -> None:
        """Take no times of runs that begin from now on."""


def places(ready: Ready, into: Into | None) -> list[Any]:
    """Where each output is written: to the given array where that fits, or to a new one; None where the run tells."""
    targets = [None] * len(ready.outputs) if into is None else into
    return [
        (target if target is not None and target.shape == shape and target.dtype == dtype else np.empty(shape, dtype))
        if shape is not None
        else None
        for (shape, dtype), target in zip(ready.outputs, targets, strict=True)
    ]
