"""A segment on a device: prepared for sizes, and run on arrays of the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from threading import RLock
from time import monotonic_ns
from typing import Any

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import DType
from intaglio.ir.limits import Limits
from intaglio.ir.substitution import evaluate
from intaglio.kernels.frame import Frame
from intaglio.kernels.plan import CANCELLED, SegmentBody
from intaglio.targets.cuda.arena import places
from intaglio.targets.cuda.device import Device, Graph, Memory
from intaglio.targets.cuda.interpreter import Interpreter, Place, Scratch, StoppedError, checking_calls, is_static
from intaglio.targets.cuda.units import Units
from intaglio.targets.cuda.weights import Weights
from intaglio.targets.executor import Counters
from intaglio.targets.step import Into, Ready, Step

CAPTURED_AFTER = 2
"""After so many runs of the same sizes the work is captured as a graph."""
ALIGNMENT = 256


@dataclass(frozen=True)
class Port:
    """An input of a segment: its element type and its shape."""

    dtype: DType
    shape: tuple[Dim, ...]


@dataclass
class Prepared:
    """A segment for one binding of its sizes: memory for all that has a size by now, and its work where it is known."""

    bindings: Mapping[str, int]
    memory: Memory
    place: Place
    work: list[Callable[[], None]] | None
    kept: list[Any]
    runs: int = 0
    graph: Graph | None = None


class DeviceStep(Step):
    """A segment of a plan on one device; runs of it follow each other."""

    def __init__(
        self, frame: Frame, body: SegmentBody, inputs: Sequence[Port], weights: Weights, device: Device, units: Units
    ) -> None:
        super().__init__(frame, weights.memory.size)
        self._body, self._inputs, self._weights = body, inputs, weights
        self._device, self._units = device, units
        self._faults = checking_calls(body)
        self._is_static = is_static(body)
        self._scratch = Scratch(device)
        self._lock = RLock()

    def prepare(self, bindings: dict[str, int], rooms: Sequence[int]) -> Prepared:
        """Memory on the device, and the work where sizes alone decide it."""
        self._device.enter()
        offsets, total = places(self.frame.layout, rooms)
        _check(self.frame, bindings, rooms, total, self.limits)
        taken = [0 if each.bytes is None else max(0, evaluate(each.bytes, bindings)) for each in self.frame.results]
        given = [_bytes(port, bindings) for port in self._inputs]
        starts = _laid_out([total, 8 * self._faults, *given, *taken])
        sizes = ", ".join(f"{name} = {size}" for name, size in bindings.items())
        memory = self._device.allocate(starts[-1], f"a run with {sizes}" if sizes else "a run")
        begins = [memory.address + start for start in starts]
        inputs, outputs = begins[2 : 2 + len(given)], begins[2 + len(given) : -1]
        faults = begins[1] if self._faults else 0
        constants = self._weights.addresses
        place = Place(inputs, dict(enumerate(outputs)), constants, begins[0], offsets, faults, self._scratch)
        prepared = Prepared(dict(bindings), memory, place, None, [])
        if self._is_static:
            self._record(prepared)
        return prepared

    def _record(self, prepared: Prepared) -> None:
        recorder = self._interpreter(prepared, lambda: None, [])
        try:
            recorder.run()
        except StoppedError:  # a run finds out that these sizes do not fit, and says so
            return
        self._units.load(recorder.requests)
        prepared.work, prepared.kept = recorder.record, recorder.kept

    def _interpreter(
        self, prepared: Prepared, watch: Callable[[], None], record: list[Callable[[], None]] | None
    ) -> Interpreter:
        rounds, bindings = self.limits.loop_iterations, dict(prepared.bindings)
        return Interpreter(self._body, self._device, self._units, prepared.place, bindings, rounds or 0, watch, record)

    def call(
        self, ready: Ready, inputs: Sequence[Any], time: int, told: Sequence[Any] = (), into: Into | None = None
    ) -> tuple[int, list[Any]]:
        """A status and the outputs, whose elements were copied from the device."""
        end = monotonic_ns() + time if time else 0

        def watch() -> None:
            if end and monotonic_ns() > end:
                raise StoppedError(CANCELLED)

        with self._lock:
            self._device.enter()
            try:
                runner, outputs = self._run(ready, inputs, watch, into)
            except StoppedError as stopped:
                self._device.wait()
                return stopped.status, []
        for array in told:
            array[:] = [runner.bindings[name] for name in self._body.late[: self._body.told]]
        return 0, outputs

    def _run(
        self, ready: Ready, inputs: Sequence[Any], watch: Callable[[], None], into: Into | None
    ) -> tuple[Interpreter, list[Any]]:
        device, prepared = self._device, ready.prepared
        for array, address in zip(inputs, prepared.place.inputs, strict=True):
            device.upload(address, array.ctypes.data, array.nbytes)
        if self._faults:
            device.clear(prepared.place.faults, 8 * self._faults)
        runner = self._interpreter(prepared, watch, None)
        if prepared.work is None:
            runner.run()
        else:
            self._repeat(prepared, prepared.work)
        outputs = self._fetched(ready, runner, into)
        runner.stop_at_faults()
        watch()
        return runner, outputs

    def _repeat(self, prepared: Prepared, work: list[Callable[[], None]]) -> None:
        """Put recorded work on the stream: piece by piece at first, then as one graph."""
        prepared.runs += 1
        if prepared.graph is None and prepared.runs > CAPTURED_AFTER and work:
            prepared.graph = self._device.capture(lambda: _all_of(work))
        if prepared.graph is not None:
            prepared.graph.launch()
        else:
            _all_of(work)

    def _fetched(self, ready: Ready, runner: Interpreter, into: Into | None) -> list[Any]:
        """The outputs as arrays, whose elements are there when the stream is done."""
        found: list[Any] = []
        for index, (shape, dtype) in enumerate(ready.outputs):
            address = ready.prepared.place.outputs[index]
            if shape is None:
                memory, shape = runner.results[index]
                address = memory.address
            array = _fitting(None if into is None else into[index], shape, dtype)
            self._device.download(array.ctypes.data, address, array.nbytes)
            found.append(array)
        return found

    def graphs(self) -> list[Graph]:
        """The work that was captured so far, for those who time it."""
        prepared = [ready.prepared for ready in self._ready.values()]
        return [each.graph for each in prepared if each.graph is not None]

    def count(self, actions: int, most_events: int = 0) -> Counters:
        """Raises UnsupportedError: nobody takes times of single kernels on a device yet."""
        raise UnsupportedError("kernels on a CUDA device are not timed one by one yet; use the vendor's profiler")


def _check(frame: Frame, bindings: dict[str, int], rooms: Sequence[int], total: int, limits: Limits) -> None:
    """Raise LimitError where a run is over the limit on memory; weights are counted where they are uploaded."""
    frame.check_memory(bindings, rooms, total, 0, limits)


def _fitting(target: np.ndarray[Any, Any] | None, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """The array that a caller gave for an output, or a new one where it does not fit."""
    if target is not None and target.flags.c_contiguous and (target.shape, target.dtype) == (shape, dtype):
        return target
    return np.empty(shape, dtype)


def _all_of(work: Sequence[Callable[[], None]]) -> None:
    for each in work:
        each()


def _bytes(port: Port, bindings: Mapping[str, int]) -> int:
    return prod(evaluate(dim, bindings) for dim in port.shape) * port.dtype.itemsize


def _laid_out(sizes: Sequence[int]) -> list[int]:
    """Where parts of one block of memory begin, and where the last one ends."""
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
    return starts
