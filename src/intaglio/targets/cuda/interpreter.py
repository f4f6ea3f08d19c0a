"""Goes through the actions of a segment: puts kernels on the device's stream, and decides sizes, branches and loops.

What a segment does follows from its sizes alone unless data decides some of them; then the work of such a segment is
recorded once for its sizes, and put on the stream again and again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intaglio.errors import LimitError
from intaglio.ir.dim import Dim, product
from intaglio.ir.substitution import evaluate
from intaglio.kernels.kernel import LibraryCall
from intaglio.kernels.overflow import LARGEST
from intaglio.kernels.plan import (
    FAULT,
    OVERFLOW,
    ROUNDS,
    Action,
    Allocate,
    Assign,
    Branch,
    Call,
    Check,
    Commit,
    Fill,
    FindSizes,
    Grow,
    Move,
    Operand,
    Pair,
    Repeat,
    SegmentBody,
    Settle,
    Swap,
    walk,
)
from intaglio.kernels.segment_sizes import offset_bytes
from intaglio.kernels.view import Buffer
from intaglio.targets.cuda.device import Device, Memory
from intaglio.targets.cuda.functions import ATTENTION, Work, function_of
from intaglio.targets.cuda.library_calls import LibraryWork, library_call
from intaglio.targets.cuda.units import Request, Units

THREADS = 4096
"""What `threads` means in sizes: into how many parts work is cut that is cut by threads."""
BLOCKS_EACH = 16
"""How many blocks a multiprocessor is given at most."""


class StoppedError(Exception):
    """A segment ends early, with the status that a driver returns for that."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


@dataclass
class Place:
    """Where the memory of a run lies: addresses of inputs, outputs and constants, and of the arena with its offsets."""

    inputs: Sequence[int]
    outputs: dict[int, int]
    constants: Sequence[int]
    arena: int
    offsets: Sequence[int]
    faults: int
    scratch: Scratch


class Scratch:
    """Memory that kernels need while they run, of which one follows the other; it grows as they ask for more."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._memory: Memory | None = None
        self._old: list[Memory] = []

    def of(self, size: int) -> int:
        """The address of so many bytes."""
        if size and (self._memory is None or self._memory.size < size):
            if self._memory is not None:
                self._old.append(self._memory)  # which recorded work may still use
            self._memory = self._device.allocate(size, "scratch memory of a kernel")
        return 0 if self._memory is None else self._memory.address


@dataclass
class Interpreter:
    """One run of a segment, or what it does for known sizes where `record` collects that."""

    segment: SegmentBody
    device: Device
    units: Units
    place: Place
    bindings: dict[str, int]
    rounds: int = 0
    """How many rounds a loop may have; 0 for no limit."""
    watch: Callable[[], None] = lambda: None
    """Called between actions; raises where the run is to end."""
    record: list[Callable[[], None]] | None = None
    results: dict[int, tuple[Memory, tuple[int, ...]]] = field(
        default_factory=dict[int, tuple[Memory, tuple[int, ...]]]
    )
    """The outputs whose sizes the run found, with their shapes."""
    kept: list[Any] = field(default_factory=list[Any])
    """Memory that recorded work reads."""
    requests: list[Request] = field(default_factory=list[Request])
    """The kernels that recorded work starts."""
    _late: dict[Buffer, Memory] = field(default_factory=dict[Buffer, Memory])
    _pointers: dict[Buffer, int] = field(default_factory=dict[Buffer, int])
    _numbers: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        self._numbers = {id(action): place for place, action in enumerate(walk(self.segment.actions))}

    def run(self) -> None:
        """Go through all actions; raises StoppedError where one of them ends the run."""
        self._block(self.segment.actions)

    def dim(self, dim: Dim) -> int:
        """The value of a size; raises StoppedError where 64 bits do not hold it."""
        value = dim if isinstance(dim, int) else evaluate(dim, self.bindings, THREADS)
        if abs(value) > LARGEST:
            raise StoppedError(OVERFLOW)
        return value

    def address(self, operand: Operand) -> int:
        """Where an operand lies on the device."""
        return self._home(operand.buffer.home) + self.dim(offset_bytes(operand))

    def _home(self, buffer: Buffer) -> int:
        if buffer in self._pointers:
            return self._pointers[buffer]
        if buffer.is_late:
            return self._late[buffer].address
        if buffer.kind == "arena":
            return self.place.arena + self.place.offsets[buffer.index]
        if buffer.kind == "output":
            return self.place.outputs[buffer.index]
        return (self.place.inputs if buffer.kind == "input" else self.place.constants)[buffer.index]

    def _block(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self.watch()
            self._action(action)

    def _action(self, action: Action) -> None:
        match action:
            case Call():
                self._call(action)
            case Fill():
                self._fill(action)
            case FindSizes():
                self._find_sizes(action)
            case Assign():
                self.bindings.update([(name, self.dim(dim)) for name, dim in action.items])
            case Allocate():
                self._late[action.buffer] = self._allocated(action.buffer, self.dim(action.buffer.bytes))
                self._note_result(action.buffer, action.buffer.shape)
            case Grow():
                self._grow(action)
            case Move():
                self._late[action.target] = self._late.pop(action.source)
            case Pair():
                self._pointers[action.now] = self.address(Operand(action.first))
                self._pointers[action.following] = self.address(Operand(action.second))
            case Swap():
                now, following = self._pointers[action.now], self._pointers[action.following]
                self._pointers[action.now], self._pointers[action.following] = following, now
            case Settle():
                self._settle(action.pair)
            case Commit():
                pass
            case Check():
                if all(self.dim(left) != self.dim(right) for left, right in action.pairs):
                    raise StoppedError(self._refused(action) if action.status == FAULT else action.status)
            case Branch():
                is_true = self._read(action.condition, np.dtype(np.uint8))[0] != 0
                self._block(action.then if is_true else action.otherwise)
            case Repeat():
                self._repeat(action)

    def _refused(self, action: Action) -> int:
        return FAULT + self._numbers[id(action)]

    def _do(self, work: Callable[[], None]) -> None:
        """Put work on the stream, or into the record."""
        if self.record is None:
            work()
        else:
            self.record.append(work)

    def _allocated(self, buffer: Buffer, size: int) -> Memory:
        return self.device.allocate(size, f"the tensor {buffer.name!r}")

    def _note_result(self, buffer: Buffer, shape: Sequence[Dim]) -> None:
        if buffer.kind == "output":
            self.results[buffer.index] = self._late[buffer], tuple(map(self.dim, shape))

    def _grow(self, grow: Grow) -> None:
        item = grow.buffer.dtype.itemsize
        memory = self._allocated(grow.buffer, self.dim(product(grow.shape)) * item)
        old = self._late.get(grow.buffer)
        if old is not None:
            self.device.copy(memory.address, old.address, self.dim(grow.used) * item)
            self.device.wait()
        self._late[grow.buffer] = memory
        self._note_result(grow.buffer, grow.shape)

    def _settle(self, pair: Pair) -> None:
        home = self.address(Operand(pair.first))
        if self._pointers[pair.now] != home:
            self.device.copy(home, self._pointers[pair.now], self.dim(pair.first.bytes))

    def _fill(self, fill: Fill) -> None:
        numbers = np.array([self.dim(item) for item in fill.items], dtype=fill.operand.buffer.dtype.numpy)
        target = self.address(fill.operand)
        memory = self.device.allocate(numbers.nbytes, fill.title or "sizes")
        self.device.upload(memory.address, numbers.ctypes.data, numbers.nbytes)
        self.device.wait()
        self.kept.append(memory)
        self._do(lambda: self.device.copy(target, memory.address, numbers.nbytes))

    def _read(self, operand: Operand, dtype: np.dtype[Any], count: int = 1) -> np.ndarray[Any, Any]:
        """Numbers in the device's memory, for which the run waits; raises StoppedError where a kernel found a fault."""
        found = np.empty(count, dtype)
        self.device.download(found.ctypes.data, self.address(operand), found.nbytes)
        self.stop_at_faults()
        return found

    def stop_at_faults(self) -> None:
        """Wait for the stream; raises StoppedError where a kernel met a value that its operator forbids."""
        if not self.place.faults:
            self.device.wait()
            return
        flags = np.empty(len(self._numbers), np.int64)
        self.device.download(flags.ctypes.data, self.place.faults, flags.nbytes)
        self.device.wait()
        if flags.any():
            raise StoppedError(FAULT + int(np.flatnonzero(flags)[0]))

    def _find_sizes(self, found: FindSizes) -> None:
        numbers = self._read(found.numbers, np.dtype(np.int64), len(found.names)).tolist()
        limit = None if found.limit is None else self.dim(found.limit)
        is_low = found.least is not None and any(number < found.least for number in numbers)
        if is_low or (limit is not None and any(number > limit for number in numbers)):
            raise StoppedError(self._refused(found))
        self.bindings.update(
            (name, number) for name, number in zip(found.names, numbers, strict=True) if name is not None
        )

    def _repeat(self, repeat: Repeat) -> None:
        if repeat.limit is None:
            limit = LARGEST
        elif isinstance(repeat.limit, Operand):
            limit = int(self._read(repeat.limit, np.dtype(np.int64))[0])
        else:
            limit = self.dim(repeat.limit)
        goes_on = repeat.condition is None or self._read(repeat.condition, np.dtype(np.uint8))[0] != 0
        number = 0
        self.bindings[repeat.counter] = 0
        while goes_on and number < limit:
            if self.rounds and number >= self.rounds:
                raise StoppedError(ROUNDS)
            self.bindings[repeat.counter] = number
            self._block(repeat.body)
            if repeat.again is not None:
                goes_on = self._read(repeat.again, np.dtype(np.uint8))[0] != 0
            number += 1
            self.bindings[repeat.counter] = number

    def _call(self, call: Call) -> None:
        addresses = [self.address(operand) for operand in call.operands]
        sizes = {name: self.dim(size) for name, size in call.sizes}
        body = call.kernel.body
        if isinstance(body, LibraryCall) and body.name != ATTENTION:
            work = LibraryWork(self.device, body, addresses, sizes, self.place.scratch.of)
            self._do(library_call(work))
            return
        if call.checks:
            addresses.append(self.place.faults + 8 * self._numbers[id(call)])
        most = BLOCKS_EACH * self.device.multiprocessors
        self._start(call, Work(addresses, sizes, self.dim(call.tasks), self.dim(call.scratch), most))

    def _start(self, call: Call, work: Work) -> None:
        function = function_of(call.kernel)
        launch = function.launch(work)
        if launch is None:
            return
        request = call.kernel, launch.variant
        scratch = function.scratch(work, launch)
        if scratch > LARGEST >> 20:
            raise LimitError(f"{call.title} asks for {scratch} bytes of scratch memory on the device")
        arguments = ctypes.create_string_buffer(function.arguments(work, self.place.scratch.of(scratch)))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        self.kept.append((arguments, pointers))
        if self.record is None:
            self.units.load([request])
            self.device.start(self.units.function(request), launch.blocks, launch.threads, pointers)
            return
        self.requests.append(request)
        self.record.append(
            lambda: self.device.start(self.units.function(request), launch.blocks, launch.threads, pointers)
        )


def is_static(segment: SegmentBody) -> bool:
    """Whether sizes alone decide what a segment does."""
    calls = all(isinstance(action, (Call, Fill, Check, Assign)) for action in walk(segment.actions))
    return calls and not segment.late and not any(segment.late_outputs)


def checking_calls(segment: SegmentBody) -> int:
    """How many actions there are where one of them may meet a value that its operator forbids; else 0."""
    actions: Sequence[Action] = list(walk(segment.actions))
    return len(actions) if any(isinstance(action, Call) and action.checks for action in actions) else 0
