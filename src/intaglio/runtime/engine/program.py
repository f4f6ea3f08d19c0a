"""A whole model as segments without its graph: what is stored so that a later process need not lower it again.

Nearly every model is one segment; there may be several with host nodes between them.

A program runs what nearly every run is. Where sizes break an assumption, a driver stops, or somebody asks for anything
but the outputs, the model is built from its graph after all; see `ProgramEngine`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from time import monotonic_ns
from typing import Any

import numpy as np

from intaglio.errors import GraphError
from intaglio.ir.dim import Dim, symbols
from intaglio.ir.limits import current
from intaglio.ir.requirements import Requirement
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import TensorType, Type
from intaglio.kernels.status import CANCELLED, OVERFLOW
from intaglio.record import Record
from intaglio.runtime.engine.binding import bind
from intaglio.runtime.engine.deadline import Deadline
from intaglio.runtime.engine.hosted_runs import Hosted, HostedRun, Prepared
from intaglio.runtime.engine.repeated_runs import RepeatedRuns, Shapes
from intaglio.runtime.engine.segment import (
    Direct,
    Frame,
    Into,
    LoadedSegment,
    Ready,
    SizeOverflowError,
    exportable,
    spoiled,
)
from intaglio.runtime.engine.size_checks import Fitting

SPECIAL_LIMIT = 16
"""How many programs for values or sizes are held."""

OPERATORS_IN = "intaglio.ops."
"""Where the operators of host nodes are."""


def name_of_shapes(inputs: Sequence[Any]) -> str:
    """A name for the sizes of inputs."""
    return f"sizes {[getattr(array, 'shape', None) for array in inputs]}"


def name_of_values(places: Sequence[int], inputs: Sequence[Any]) -> str:
    """A name for the values of the inputs at some places."""
    return f"values {[(place, inputs[place].shape, inputs[place].tobytes().hex()) for place in places]}"


class Port(Record):
    """An input or output of a model; an optional one has a default. Inputs are tensors."""

    name: str
    type: Type
    is_optional: bool = False
    default: None = None
    """Always None: a default is in the graph."""


class Part(Record):
    """A segment: its sizes, and its code."""

    frame: Frame
    driver: str
    """The hash of the driver's source, which addresses its code."""
    late: tuple[str, ...]
    """The symbols that the driver gives values to."""


class Hosts(Record):
    """The host nodes of a program, as the text of a graph, and the modules that their operators are from."""

    steps: Hosted
    graph: str
    modules: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    """The place of each host node, and why it is not compiled."""


class Program(Record):
    """What a model needs to run, its code and constants aside."""

    name: str
    """The name of the graph."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    segments: tuple[Part, ...]
    """One, and no more where there are no host nodes."""
    kernels: tuple[str, ...]
    assumptions: tuple[tuple[Dim, Dim], ...]
    requirements: tuple[Requirement, ...]
    weight_bytes: int
    """The size of the weights in the graph."""
    hosts: Hosts | None = None
    parameters: tuple[int, ...] = ()
    """The inputs whose values decide what is run; there is no segment then, but a program of its own for each."""
    is_for_sizes: bool = False
    """Whether the sizes of inputs decide what is run; there is no segment then either."""

    @property
    def fed(self) -> tuple[Port, ...]:
        """The inputs that a run is given."""
        return tuple(port for port in self.inputs if not port.is_optional)


class ProgramEngine:
    """Runs a program; `whole` gives the engine of the model's graph, which is asked for what a program cannot do.

    `addresses` are those of its kernels, then of its drivers; `hosted` runs what has host nodes, and `find` gives the
    engine of a program that was kept for values or sizes of a name.
    """

    def __init__(
        self,
        program: Program,
        addresses: Sequence[int],
        constants: Sequence[Any],
        threads: int,
        whole: Callable[[], Any],
        hosted: HostedRun | None = None,
        find: Callable[[str], ProgramEngine | None] = lambda name: None,
    ) -> None:
        self._program = program
        self._find = find
        self._special: dict[str, ProgramEngine | None] = {}
        self._constants = constants
        self._whole = whole
        self._hosted = hosted
        self.host_runs = 0
        """How many host nodes were run so far."""
        places = [exportable(array).ctypes.data for array in constants]
        weights = sum(array.nbytes for array in constants)
        kernels, drivers = addresses[: len(program.kernels)], addresses[len(program.kernels) :]
        self._segments = [
            LoadedSegment(part.frame, driver, kernels, places, threads, weights, part.late)
            for part, driver in zip(program.segments, drivers, strict=True)
        ]
        self._fitting = Fitting(program.requirements)
        self._limit_ns = int((current().time or 0) * 1e9)
        dtypes = [port.type.dtype.numpy for port in program.fed if isinstance(port.type, TensorType)]
        self._runs: RepeatedRuns[Any] = RepeatedRuns(dtypes, self._run_kept)
        self.run_again = self._runs.again

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None, into: Into | None = None) -> list[Any]:
        """The outputs for arrays in the order of the inputs."""
        results = self.attempt(inputs, deadline, into)
        return self._whole().run(inputs, deadline, into) if results is None else results

    def attempt(self, inputs: Sequence[Any], deadline: Deadline | None, into: Into | None) -> list[Any] | None:
        """The outputs, or None where the whole model must be asked."""
        if self._program.parameters:
            return self._attempt_with_values(inputs, deadline)
        if self._program.is_for_sizes:
            return self._attempt_special(name_of_shapes(inputs), inputs, deadline)
        arrays = [a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in inputs]
        ready = self._ready_for(tuple([array.shape for array in arrays]))
        if deadline is not None:
            deadline.check()
        if ready is None:
            return self._attempt_special(name_of_shapes(inputs), arrays, deadline)
        results = self._run(ready, arrays, deadline, into)
        if results is None and deadline is not None:
            deadline.check()
        return results

    def _attempt_with_values(self, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any] | None:
        places = self._program.parameters
        kept = [array for place, array in enumerate(inputs) if place not in places]
        return self._attempt_special(name_of_values(places, inputs), kept, deadline)

    def _attempt_special(self, name: str, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any] | None:
        """What a program for these values or sizes gives, where one was kept."""
        if name not in self._special:
            if len(self._special) >= SPECIAL_LIMIT:
                self._special.clear()
            self._special[name] = self._find(name)
        engine = self._special[name]
        if engine is None:
            return None
        before = engine.host_runs
        results = engine.attempt(inputs, deadline, None)
        self.host_runs += engine.host_runs - before
        return results

    def forget_sizes(self) -> None:
        """Keep no plan of memory for the sizes that were run before."""
        self._runs.forget()
        for segment in self._segments:
            segment.forget_sizes()
        for engine in list(self._special.values()):
            if engine is not None:
                engine.forget_sizes()

    def host_reasons(self) -> list[str]:
        """The host nodes, each with the reason; the engine of the graph knows it."""
        if self._program.hosts is not None:
            return list(self._program.hosts.reasons)
        return [] if self._program.segments else self._whole().host_reasons()

    def direct(self, shapes: Shapes) -> Direct | None:
        """What runs the program on addresses; see `Engine.direct`."""
        ready = None if self._hosted is not None else self._runs.kept(shapes)
        return None if ready is None else self._segments[0].direct(ready, self._limit_ns)

    def _run(
        self, ready: Any, inputs: Sequence[Any], deadline: Deadline | None = None, into: Into | None = None
    ) -> list[Any] | None:
        """One run; None where a driver stopped or got no memory, so that the whole model must tell why."""
        time = self._limit_ns if deadline is None else deadline.remaining()
        try:
            if self._hosted is not None:
                return self._run_hosted(self._hosted, ready, inputs, time)
            status, outputs = self._segments[0].call(ready, inputs, time, (), into)
        except MemoryError:
            self._refuse_again(OVERFLOW, deadline)
            return None
        if status:
            self._refuse_again(status, deadline or Deadline(time / 1e9, 0))
        return None if status else outputs

    def _refuse_again(self, status: int, deadline: Deadline | None) -> None:
        """Raise where a run that failed may have written to inputs that were given away: nobody can run it again."""
        if self._hosted is None and self._segments[0].frame.may_have_written(status):
            if status == CANCELLED and deadline is not None:
                raise deadline.error()
            raise spoiled("a kernel")

    def _run_hosted(self, hosted: HostedRun, ready: Prepared, inputs: Sequence[Any], time: int) -> list[Any] | None:
        outputs = hosted.run(inputs, ready, time)
        self.host_runs += 0 if outputs is None else hosted.host_nodes
        return outputs

    def prepare(self, shapes: Shapes) -> None:
        """Keep what is prepared for these sizes; nothing where they have programs of their own."""
        if self._program.segments:
            self._ready_for(shapes)

    def _run_kept(self, ready: Any, inputs: Sequence[Any], time: int, into: Into | None) -> list[Any] | None:
        """One run for sizes seen before; None where the whole model must find out what went wrong."""
        if self._hosted is not None:
            return None if time or into is not None else self._run(ready, inputs)
        start = monotonic_ns() if time else 0
        if time == 0 or 0 < self._limit_ns < time:
            time = self._limit_ns
        try:
            status, outputs = self._segments[0].call(ready, inputs, time, (), into)
        except MemoryError:
            self._refuse_again(OVERFLOW, None)
            return None
        if status and start:
            Deadline.of_run(start, time).check()
        if status:
            self._refuse_again(status, Deadline(time / 1e9, 0))
        return None if status else outputs

    def _ready_for(self, shapes: Shapes) -> Any:
        """What is prepared for arrays of these shapes; None where the program is not made for them."""
        found = self._runs.kept(shapes)
        if found is None:
            bindings: dict[str, int] = {}
            for port, shape in zip(self._program.fed, shapes, strict=True):
                if isinstance(port.type, TensorType):
                    bind(port.type.shape, shape, bindings, f"input {port.name!r}")
            if not self._fits(bindings):
                return None
            try:
                found = self._prepared(bindings)
            except (GraphError, KeyError, SizeOverflowError):  # sizes of which the whole model knows what to do
                return None
            self._runs.keep_for(shapes, found)
        return found

    def _prepared(self, bindings: dict[str, int]) -> Ready | Prepared:
        if self._hosted is not None:
            return self._hosted.prepare(self._segments, bindings)
        return self._segments[0].ready(bindings)

    def _fits(self, bindings: dict[str, int]) -> bool:
        known = bindings.keys()
        for left, right in self._program.assumptions:
            is_known = symbols(left) | symbols(right) <= known
            if is_known and evaluate(left, bindings) != evaluate(right, bindings):
                return False
        return self._fitting.broken(bindings) is None


def hosted_run_of(hosts: Hosts) -> HostedRun:
    """The host nodes of a program, made ready; only the operators that they need are imported."""
    for module in ("intaglio.ops.evaluate", *hosts.modules):
        if module.startswith(OPERATORS_IN):
            import_module(module)
    from intaglio.ir.text import parse_graph

    return HostedRun(hosts.steps, list(parse_graph(hosts.graph).nodes))
