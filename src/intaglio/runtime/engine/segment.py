"""A segment without its graph: what a run needs of it, as numbers and expressions, and its code bound to sizes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from intaglio.errors import LimitError, OperatorError, ShapeError
from intaglio.ir.dim import Dim, symbols
from intaglio.ir.dtype import DType
from intaglio.ir.limits import check_size, current, most_bytes
from intaglio.ir.substitution import evaluate
from intaglio.kernels.status import ASSUMPTION, FAULT, REQUIREMENT
from intaglio.memory.arena import Layout
from intaglio.record import Record
from intaglio.runtime.engine.limits import check_addressable, check_plan, check_shape
from intaglio.runtime.engine.results import adopted
from intaglio.targets.c.native import Prepared, SegmentCode, invoke_function, plan_apart, planned
from intaglio.targets.c.toolchain import is_sanitized

PREPARED_LIMIT = 64
"""How many bindings of sizes a segment keeps ready."""


Into = Sequence[np.ndarray[Any, Any] | None]
"""Arrays that outputs may be written to, in the order of the outputs, where they fit; None for new ones."""


class Room(Record):
    """A buffer of the arena."""

    name: str
    bytes: Dim


class Result(Record):
    """An output; `shape` and `bytes` are None where only the run tells them."""

    name: str
    dtype: DType
    shape: tuple[Dim, ...] | None
    bytes: Dim | None


class Frame(Record):
    """The sizes of a segment."""

    inputs: int
    results: tuple[Result, ...]
    late: tuple[bool, ...]
    """For each buffer that the segment writes, whether its size is known only in the run."""
    symbols: tuple[str, ...]
    """The symbols whose values the driver reads, in order."""
    arena: tuple[Room, ...]
    layout: Layout
    work: tuple[Dim, ...]
    """The operations of each call of a kernel, as far as they are known before the run."""
    aliases: tuple[tuple[int, int], ...] = ()
    """The outputs that are one array with an input: pairs of an output and an input."""
    first_write: int = -1
    """The action behind which inputs may be written over; -1 where none are."""
    is_narrow: bool = False
    """Whether an input or output has an element type that the buffer protocol does not know."""
    safe: int = -1
    """The symbols up to which no size that the driver computes overflows."""

    def may_have_written(self, status: int) -> bool:
        """Whether a run that ended with a status may have written over some of its inputs."""
        if self.first_write < 0 or status in (ASSUMPTION, REQUIREMENT):
            return False
        return not FAULT <= status < FAULT + self.first_write

    def rooms(self, bindings: Mapping[str, int]) -> list[int]:
        """The bytes of each buffer of the arena.

        A size below 0 belongs to a body that cannot run with these sizes; the driver refuses them where it runs.
        """
        return [max(0, evaluate(room.bytes, bindings)) for room in self.arena]

    def all_symbols(self, late: Sequence[str] = ()) -> list[str]:
        """Every symbol that sizes, buffers or outputs depend on, without those that the driver binds itself."""
        found = set(self.symbols)
        for room in self.arena:
            found |= symbols(room.bytes)
        for result in self.results:
            for dim in result.shape or ():
                found |= symbols(dim)
        for work in self.work:
            found |= symbols(work)
        return sorted(found - set(late))


class SizeOverflowError(Exception):
    """Sizes that the driver computes do not fit 64 bits; `is_late` where it found that out itself."""

    def __init__(self, *, is_late: bool = False) -> None:
        super().__init__("sizes do not fit 64 bits")
        self.is_late = is_late


class Ready(Record):
    """A segment for one binding of its sizes: what `invoke` needs and what it gives.

    An output has no shape where only the run tells it.
    """

    prepared: Prepared
    outputs: tuple[tuple[tuple[int, ...] | None, np.dtype[Any]], ...]


class Direct(Record):
    """A segment for one binding of its sizes, to be called with addresses: by `invoke_at(handle, time, *addresses)`.

    A status that is not 0 leaves anything in the outputs; the run has to be done again in the usual way.
    """

    handle: object
    time: int


class LateArray:
    """An output whose shape the run tells: what `invoke` is given in its place makes it."""

    __slots__ = ("array", "dtype", "maker")

    def __init__(self, dtype: np.dtype[Any], maker: Callable[[], str]) -> None:
        self.dtype = dtype
        self.maker = maker

    def __call__(self, owner: object, address: int, *shape: int) -> np.ndarray[Any, Any]:
        """An array of memory that the owner frees, or of fresh memory where there is no address."""
        if address:
            self.array = adopted(owner, address, shape, self.dtype)
            return self.array
        try:
            self.array = np.empty(check_size(shape, self.dtype), self.dtype)
        except LimitError as error:
            raise LimitError(f"{self.maker()}: {error}") from None
        except (MemoryError, ValueError) as error:
            raise LimitError(f"{self.maker()}: {list(shape)} elements do not fit into memory") from error
        return exportable(self.array)


def contiguous(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with its elements side by side, copied where they are not."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def spoiled(what: str) -> OperatorError:
    """The error of a run that failed when it had written to inputs given away, so that nobody can run it again."""
    return OperatorError(
        f"{what} met a value at run time that its definition forbids; the inputs that were given away hold anything "
        "now. Run the model without `donate` to find out more"
    )


def exportable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array as one that the buffer protocol knows: contiguous, and narrow floats as their bits."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if array.dtype.kind == "V" or array.dtype.num >= 256:
        return array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
    return array


class LoadedSegment:
    """A segment whose functions are in memory; `late` are the symbols that its driver binds."""

    def __init__(
        self,
        frame: Frame,
        driver: int,
        kernels: Sequence[int],
        constants: Sequence[int],
        threads: int,
        weights: int = 0,
        late: Sequence[str] = (),
    ) -> None:
        self.frame = frame
        self.limits = current()
        self.weights = weights
        rounds, memory = self.limits.loop_iterations, max(1, most_bytes() - weights)
        self.code = SegmentCode(
            driver, kernels, constants, frame.inputs, len(frame.late), threads, frame.late, rounds, memory
        )
        self._names = frame.all_symbols(late)
        self._invoke = invoke_function()
        self._is_plain = not (frame.is_narrow or any(frame.late) or len(frame.late) > len(frame.results))
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

    def call(
        self, ready: Ready, inputs: Sequence[Any], time: int, told: Sequence[Any] = (), into: Into | None = None
    ) -> tuple[int, list[Any]]:
        """Run once on contiguous arrays within so many nanoseconds: the driver's status and the outputs."""
        if self._is_plain:
            if self.frame.aliases:
                into = self._with_aliases(inputs, into)
            made = [np.empty(shape, dtype) for shape, dtype in ready.outputs] if into is None else _places(ready, into)  # pyright: ignore
            if self.frame.aliases:
                self._check_aliases(inputs, made)
            return self._invoke(ready.prepared.handle, time, *inputs, *made), made
        given = [exportable(array) for array in inputs]
        places = _places(ready, self._with_aliases(inputs, into))
        self._check_aliases(inputs, places)
        outputs: list[Any] = [
            LateArray(ready.outputs[place][1], partial(self._maker, place)) if array is None else array
            for place, array in enumerate(places)
        ]
        taken = [item if isinstance(item, LateArray) else exportable(item) for item in outputs]
        status = self._invoke(ready.prepared.handle, time, *given, *taken, *told)
        if status == 0:
            outputs = [item.array if isinstance(item, LateArray) else item for item in outputs]
        return status, outputs

    def _with_aliases(self, inputs: Sequence[Any], into: Into | None) -> Into:
        """The places of all outputs; those that share memory with an input are that input."""
        places = list(into or [None] * len(self.frame.results))
        for output, given in self.frame.aliases:
            places[output] = inputs[given]
        return places

    def _check_aliases(self, inputs: Sequence[Any], made: Sequence[Any]) -> None:
        for output, given in self.frame.aliases:
            if made[output] is not inputs[given]:
                raise ShapeError(f"{self._maker(output)} has another size than the input whose memory it takes")

    def direct(self, ready: Ready, time: int) -> Direct | None:
        """What runs the segment on addresses; None where a run tells the shape of an output or more than outputs."""
        is_open = any(self.frame.late) or len(self.frame.late) > len(self.frame.results)
        if is_open or self.frame.aliases:
            return None
        return Direct(ready.prepared.handle, time)

    def _maker(self, place: int) -> str:
        return f"output {self.frame.results[place].name!r}"

    def _fits(self, bindings: dict[str, int]) -> bool:
        """Whether all that the driver computes from sizes over `safe` fits; not known here."""
        return False

    def _prepare(self, bindings: dict[str, int]) -> Ready:
        frame = self.frame
        sizes = frame.rooms(bindings)
        shared = {output for output, _ in frame.aliases}
        own = [each for place, each in enumerate(frame.results) if place not in shared]
        results = [(each.name, evaluate(each.bytes, bindings)) for each in own if each.bytes is not None]
        buffers = [(room.name, size) for room, size in zip(frame.arena, sizes, strict=True)]
        check_addressable([*buffers, *results])
        offsets, total = planned(frame.layout, sizes)
        check_plan(buffers, results, total, self.weights, self.limits)
        dims = [bindings[name] for name in frame.symbols]
        if max(map(abs, dims), default=-1) > frame.safe and not self._fits(bindings):
            raise SizeOverflowError
        work = sum(evaluate(flops, bindings) for flops in frame.work)
        gaps: list[int] = []
        if is_sanitized():
            offsets, total, gaps = plan_apart(sizes)
        prepared = self.code.prepare(dims, offsets, total, min(max(1, work // 32), 2**60), gaps=gaps)
        outputs = tuple((_sizes(each.shape, bindings), each.dtype.numpy) for each in frame.results)
        for each, (shape, dtype) in zip(frame.results, outputs, strict=True):
            check_shape(each.name, shape or (), dtype.itemsize)
        return Ready(prepared, outputs)


def _places(ready: Ready, into: Into) -> list[Any]:
    """Where each output is written: to the given array where that fits, or to a new one; None where the run tells."""
    return [
        (target if target is not None and target.shape == shape and target.dtype == dtype else np.empty(shape, dtype))
        if shape is not None
        else None
        for (shape, dtype), target in zip(ready.outputs, into, strict=True)
    ]


def _sizes(shape: Sequence[Dim] | None, bindings: dict[str, int]) -> tuple[int, ...] | None:
    return None if shape is None else tuple([evaluate(dim, bindings) for dim in shape])
