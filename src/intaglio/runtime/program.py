"""A whole model as one segment without its graph: what is stored so that a later process need not lower it again.

A program runs what nearly every run is. Where sizes break an assumption, a driver stops, or somebody asks for anything
but the outputs, the model is built from its graph after all; see `ProgramEngine`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from intaglio.errors import GraphError
from intaglio.ir.dim import Dim, evaluate, parse, symbols
from intaglio.ir.dtype import DTYPES
from intaglio.ir.limits import current
from intaglio.ir.requirements import Requirement
from intaglio.ir.types import TensorType
from intaglio.memory.arena import Layout
from intaglio.record import Record
from intaglio.runtime.binding import bind
from intaglio.runtime.deadline import Deadline
from intaglio.runtime.segment import (
    PREPARED_LIMIT,
    Frame,
    Into,
    LoadedSegment,
    Ready,
    Result,
    Room,
    SizeOverflowError,
    exportable,
)
from intaglio.runtime.size_checks import Fitting

Data = dict[str, Any]


class Port(Record):
    """An input or output of a model; an optional one has a default."""

    name: str
    type: TensorType
    is_optional: bool = False
    default: None = None
    """Always None: a default is in the graph."""


class Program(Record):
    """What a model that is one segment needs to run, its code and constants aside."""

    name: str
    """The name of the graph."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    frame: Frame
    driver: str
    """The hash of the driver's source, which addresses its code."""
    kernels: tuple[str, ...]
    late: tuple[str, ...]
    """The symbols that the driver gives values to."""
    assumptions: tuple[tuple[Dim, Dim], ...]
    requirements: tuple[Requirement, ...]
    weight_bytes: int
    """The size of the weights in the graph."""

    @property
    def fed(self) -> tuple[Port, ...]:
        """The inputs that a run is given."""
        return tuple(port for port in self.inputs if not port.is_optional)


def program_data(program: Program) -> Data:
    """A program as JSON holds it: expressions are text."""
    frame = program.frame
    layout = frame.layout
    return {
        "name": program.name,
        "inputs": [_port_data(port) for port in program.inputs],
        "outputs": [_port_data(port) for port in program.outputs],
        "results": [_result_data(result) for result in frame.results],
        "symbols": list(frame.symbols),
        "arena": [[room.name, _dim_data(room.bytes)] for room in frame.arena],
        "layout": [layout.place, layout.first, layout.last],
        "work": _dims_data(frame.work),
        "safe": frame.safe,
        "driver": program.driver,
        "kernels": list(program.kernels),
        "late": list(program.late),
        "assumptions": [_dims_data(pair) for pair in program.assumptions],
        "requirements": [[[_dims_data(pair) for pair in each.pairs], each.message] for each in program.requirements],
        "weight_bytes": program.weight_bytes,
    }


def program_from_data(data: Data) -> Program:
    """The inverse of `program_data`."""
    read = _Reader()
    inputs, results = tuple(map(read.port, data["inputs"])), tuple(map(read.result, data["results"]))
    frame = Frame(
        inputs=sum(not port.is_optional for port in inputs),
        results=results,
        late=tuple(result.shape is None for result in results),
        symbols=tuple(data["symbols"]),
        arena=tuple(Room(name, read.dim(size)) for name, size in data["arena"]),
        layout=Layout(*data["layout"]),
        work=read.dims(data["work"]),
        is_narrow=any(each.is_narrow for each in (*(port.type.dtype for port in inputs), *(r.dtype for r in results))),
        safe=data.get("safe", -1),
    )
    return Program(
        name=data["name"],
        inputs=inputs,
        outputs=tuple(map(read.port, data["outputs"])),
        frame=frame,
        driver=data["driver"],
        kernels=tuple(data["kernels"]),
        late=tuple(data["late"]),
        assumptions=tuple(map(read.pair, data["assumptions"])),
        requirements=tuple(
            Requirement(tuple(map(read.pair, pairs)), message) for pairs, message in data["requirements"]
        ),
        weight_bytes=data["weight_bytes"],
    )


def _dim_data(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _dims_data(dims: Sequence[Dim]) -> list[int | str]:
    return [_dim_data(dim) for dim in dims]


def _port_data(port: Port) -> list[Any]:
    return [port.name, port.type.dtype.name, _dims_data(port.type.dims), port.is_optional]


def _result_data(result: Result) -> list[Any]:
    if result.shape is None or result.bytes is None:
        return [result.name, result.dtype.name, None, None]
    return [result.name, result.dtype.name, _dims_data(result.shape), _dim_data(result.bytes)]


class _Reader:
    """Reads expressions, each text once."""

    def __init__(self) -> None:
        self._known: dict[str, Dim] = {}

    def dim(self, data: int | str) -> Dim:
        if isinstance(data, int):
            return data
        if data not in self._known:
            self._known[data] = parse(data)
        return self._known[data]

    def dims(self, data: Sequence[int | str]) -> tuple[Dim, ...]:
        return tuple([self.dim(item) for item in data])

    def pair(self, data: Sequence[int | str]) -> tuple[Dim, Dim]:
        left, right = data
        return self.dim(left), self.dim(right)

    def port(self, data: Sequence[Any]) -> Port:
        name, dtype, shape, is_optional = data
        return Port(name, TensorType(DTYPES[dtype], self.dims(shape)), is_optional)

    def result(self, data: Sequence[Any]) -> Result:
        name, dtype, shape, size = data
        if shape is None:
            return Result(name, DTYPES[dtype], None, None)
        return Result(name, DTYPES[dtype], self.dims(shape), self.dim(size))


class ProgramEngine:
    """Runs a program; `whole` gives the engine of the model's graph, which is asked for what a program cannot do."""

    host_runs = 0
    """A program has no host nodes."""

    def __init__(
        self,
        program: Program,
        addresses: Sequence[int],
        constants: Sequence[Any],
        threads: int,
        whole: Callable[[], Any],
    ) -> None:
        self._program = program
        self._constants = constants
        self._whole = whole
        places = [exportable(array).ctypes.data for array in constants]
        weights = sum(array.nbytes for array in constants)
        *kernels, driver = addresses
        self._segment = LoadedSegment(program.frame, driver, kernels, places, threads, weights, program.late)
        self._fitting = Fitting(program.requirements)
        self._limit_ns = int((current().time or 0) * 1e9)
        self._dtypes = [port.type.dtype.numpy for port in program.fed]
        self._ready: dict[tuple[tuple[int, ...], ...], Ready] = {}

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None, into: Into | None = None) -> list[Any]:
        """The outputs for arrays in the order of the inputs."""
        arrays = [a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in inputs]
        ready = self._ready_for(arrays)
        if deadline is not None:
            deadline.check()
        results = None
        if ready is not None:
            results = self._run(ready, arrays, self._limit_ns if deadline is None else deadline.remaining(), into)
        if results is None and deadline is not None:
            deadline.check()
        return self._whole().run(inputs, deadline, into) if results is None else results

    def forget_sizes(self) -> None:
        """Keep no plan of memory for the sizes that were run before."""
        self._ready.clear()
        self._segment.forget_sizes()

    def run_again(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs where these arrays need no check, conversion or preparation any more; None where they do."""
        for array, dtype in zip(inputs, self._dtypes, strict=True):
            if type(array) is not np.ndarray or array.dtype != dtype or not array.flags.c_contiguous:
                return None
        ready = self._ready.get(tuple([array.shape for array in inputs]))
        return None if ready is None else self._run(ready, inputs, self._limit_ns)

    def _run(self, ready: Ready, inputs: Sequence[Any], time: int, into: Into | None = None) -> list[Any] | None:
        """One call; None where the driver stopped or got no memory, so that the whole model must tell why."""
        try:
            status, outputs = self._segment.call(ready, inputs, time, (), into)
        except MemoryError:
            return None
        return None if status else outputs

    def _ready_for(self, arrays: Sequence[Any]) -> Ready | None:
        """The segment prepared for arrays of these shapes; None where the program is not made for them."""
        key = tuple([array.shape for array in arrays])
        found = self._ready.get(key)
        if found is None:
            bindings: dict[str, int] = {}
            for port, array in zip(self._program.fed, arrays, strict=True):
                bind(port.type.shape, array.shape, bindings, f"input {port.name!r}")
            if not self._fits(bindings):
                return None
            if len(self._ready) >= PREPARED_LIMIT:
                self._ready.clear()
            try:
                found = self._ready[key] = self._segment.ready(bindings)
            except (GraphError, KeyError, SizeOverflowError):  # sizes of which the whole model knows what to do
                return None
        return found

    def _fits(self, bindings: dict[str, int]) -> bool:
        known = bindings.keys()
        for left, right in self._program.assumptions:
            is_known = symbols(left) | symbols(right) <= known
            if is_known and evaluate(left, bindings) != evaluate(right, bindings):
                return False
        return self._fitting.broken(bindings) is None
