"""A segment on a device: prepared for sizes, and run on arrays of the host."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from time import monotonic_ns
from typing import Any

import numpy as np

from intaglio.ir.dim import Dim
from intaglio.ir.dtype import DType
from intaglio.ir.substitution import evaluate
from intaglio.kernels.plan import CANCELLED, SegmentBody
from intaglio.memory.arena import Layout
from intaglio.targets.cuda.arena import places
from intaglio.targets.cuda.device import Device, Graph, Memory
from intaglio.targets.cuda.interpreter import Interpreter, Place, Scratch, StoppedError, checking_calls, is_static
from intaglio.targets.cuda.units import Units

PREPARED_LIMIT = 64
"""How many bindings of sizes a segment keeps ready."""
CAPTURED_AFTER = 2
"""After so many runs of the same sizes the work is captured as a graph."""
ALIGNMENT = 256


@dataclass(frozen=True)
class Port:
    """An input or output of a segment: its element type, and its shape where that is known before the run."""

    dtype: DType
    shape: tuple[Dim, ...] | None


@dataclass
class ReadyOnDevice:
    """A segment for one binding of its sizes: memory for all that has a size by now, and its work where it is known."""

    bindings: Mapping[str, int]
    memory: Memory
    place: Place
    shapes: tuple[tuple[int, ...] | None, ...]
    work: list[Callable[[], None]] | None
    kept: list[Any]
    runs: int = 0
    graph: Graph | None = None


class DeviceSegment:
    """A segment of a plan on one device; runs of it follow each other."""

    def __init__(
        self,
        body: SegmentBody,
        layout: Layout,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        constants: Sequence[int],
        device: Device,
        units: Units,
        rounds: int = 0,
    ) -> None:
        self._body, self._layout, self._inputs, self._outputs = body, layout, inputs, outputs
        self._constants, self._device, self._units, self._rounds = constants, device, units, rounds
        self._faults = checking_calls(body)
        self._is_static = is_static(body)
        self._scratch = Scratch(device)
        self._ready: OrderedDict[tuple[tuple[str, int], ...], ReadyOnDevice] = OrderedDict()

    def ready(self, bindings: Mapping[str, int]) -> ReadyOnDevice:
        """The segment prepared for these sizes; raises StoppedError where they do not fit."""
        key = tuple(sorted(bindings.items()))
        if key not in self._ready:
            self._ready[key] = self._prepare(dict(bindings))
            if len(self._ready) > PREPARED_LIMIT:
                self._ready.popitem(last=False)
        return self._ready[key]

    def forget_sizes(self) -> None:
        """Keep nothing of the sizes that were prepared."""
        self._ready.clear()

    def _prepare(self, bindings: dict[str, int]) -> ReadyOnDevice:
        self._device.enter()
        sizes = [max(0, evaluate(buffer.bytes, bindings)) for buffer in self._body.arena]
        offsets, total = places(self._layout, sizes)
        shapes = tuple(None if port.shape is None else _shape(port.shape, bindings) for port in self._outputs)
        given = [_bytes(_shape(port.shape or (), bindings), port.dtype) for port in self._inputs]
        taken = [
            0 if shape is None else _bytes(shape, port.dtype) for shape, port in zip(shapes, self._outputs, strict=True)
        ]
        starts = _laid_out([total, 8 * self._faults, *given, *taken])
        memory = self._device.allocate(starts[-1], f"a run with the sizes {bindings}" if bindings else "a run")
        begins = [memory.address + start for start in starts]
        inputs, outputs = begins[2 : 2 + len(given)], begins[2 + len(given) : -1]
        places_of_outputs = dict(enumerate(outputs))
        place = Place(
            inputs,
            places_of_outputs,
            self._constants,
            begins[0],
            offsets,
            begins[1] if self._faults else 0,
            self._scratch,
        )
        ready = ReadyOnDevice(bindings, memory, place, shapes, None, [])
        if self._is_static:
            recorder = self._interpreter(ready, lambda: None, [])
            recorder.run()
            self._units.load(recorder.requests)
            ready.work, ready.kept = recorder.record, recorder.kept
        return ready

    def _interpreter(
        self, ready: ReadyOnDevice, watch: Callable[[], None], record: list[Callable[[], None]] | None
    ) -> Interpreter:
        return Interpreter(
            self._body, self._device, self._units, ready.place, dict(ready.bindings), self._rounds, watch, record
        )

    def call(
        self,
        ready: ReadyOnDevice,
        inputs: Sequence[Any],
        time: int,
        told: Sequence[Any] = (),
        into: Sequence[Any] | None = None,
    ) -> tuple[int, list[Any]]:
        """Run once on contiguous arrays within so many nanoseconds: a driver's status, and the outputs."""
        end = monotonic_ns() + time if time else 0

        def watch() -> None:
            if end and monotonic_ns() > end:
                raise StoppedError(CANCELLED)

        device = self._device
        device.enter()
        try:
            for array, address in zip(inputs, ready.place.inputs, strict=True):
                device.upload(address, array.ctypes.data, array.nbytes)
            if self._faults:
                device.clear(ready.place.faults, 8 * self._faults)
            runner = self._interpreter(ready, watch, None)
            self._run(ready, runner)
            outputs = self._fetched(ready, runner, into)
            runner.stop_at_faults()
            watch()
        except StoppedError as stopped:
            device.wait()
            return stopped.status, []
        for array, names in zip(told, [self._body.late[: self._body.told]], strict=False):
            array[:] = [runner.bindings[name] for name in names]
        return 0, outputs

    def _run(self, ready: ReadyOnDevice, runner: Interpreter) -> None:
        if ready.work is None:
            runner.run()
            return
        ready.runs += 1
        if ready.graph is None and ready.runs > CAPTURED_AFTER and ready.work:
            work = ready.work
            ready.graph = self._device.capture(lambda: _all_of(work))
        if ready.graph is not None:
            ready.graph.launch()
        else:
            _all_of(ready.work)

    def _fetched(self, ready: ReadyOnDevice, runner: Interpreter, into: Sequence[Any] | None) -> list[Any]:
        """The outputs as arrays, whose elements are there when the stream is done."""
        found: list[Any] = []
        for index, (port, known) in enumerate(zip(self._outputs, ready.shapes, strict=True)):
            address, shape = ready.place.outputs[index], known
            if shape is None:
                memory, shape = runner.results[index]
                address = memory.address
            array = _fitting(None if into is None else into[index], shape, port.dtype)
            self._device.download(array.ctypes.data, address, array.nbytes)
            found.append(array)
        return found


def _fitting(target: np.ndarray[Any, Any] | None, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """The array that a caller gave for an output, or a new one where it does not fit."""
    if target is not None and target.flags.c_contiguous and (target.shape, target.dtype) == (shape, dtype.numpy):
        return target
    return np.empty(shape, dtype.numpy)


def _all_of(work: Sequence[Callable[[], None]]) -> None:
    for each in work:
        each()


def _shape(shape: Sequence[Dim], bindings: Mapping[str, int]) -> tuple[int, ...]:
    return tuple([evaluate(dim, bindings) for dim in shape])


def _bytes(shape: Sequence[int], dtype: DType) -> int:
    return prod(shape) * dtype.itemsize


def _laid_out(sizes: Sequence[int]) -> list[int]:
    """Where parts of one block of memory begin, and where the last one ends."""
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
    return starts
