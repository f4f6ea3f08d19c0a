"""The engine: runs a plan, whichever way it came: lowered now, from the cache, or from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.errors import GraphError, IntaglioError, LimitError, OperatorError, RunTimeoutError, ShapeError
from intaglio.ir.dim import symbols
from intaglio.ir.limits import current, most_bytes
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import TensorType
from intaglio.kernels.status import ASSUMPTION, CANCELLED, FAULT, OVERFLOW, REQUIREMENT, ROUNDS
from intaglio.runtime.engine.binding import bind
from intaglio.runtime.engine.deadline import Deadline
from intaglio.runtime.engine.outline import Outline
from intaglio.runtime.engine.repeated_runs import RepeatedRuns, Shapes, never_again
from intaglio.runtime.engine.results import owned
from intaglio.runtime.engine.size_checks import Fitting
from intaglio.targets.arrays import contiguous
from intaglio.targets.step import Direct, Into, Ready, SizeOverflowError, Step

if TYPE_CHECKING:
    from intaglio.kernels.plan_form import PlanForm
    from intaglio.runtime.engine.counting import HostTimes
    from intaglio.runtime.engine.host_steps import HostStep
    from intaglio.runtime.engine.hosted_runs import HostedRun, Prepared
    from intaglio.runtime.engine.rest import Rest


class AssumptionError(Exception):
    """The sizes of this run break an assumption of the plan, or do not fit each other: they need a plan of their own,
    if there is one."""


class SizeFaultError(Exception):
    """A size is asked for that nobody has told: a fault of our own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _StoppedError(Exception):
    """A segment ended with a status that is not 0."""

    def __init__(self, status: int, place: int) -> None:
        super().__init__(f"status {status}")
        self.status, self.place = status, place


def spoiled(what: str) -> OperatorError:
    """The error of a run that failed when it had written to inputs given away, so that nobody can run it again."""
    return OperatorError(
        f"{what} met a value at run time that its definition forbids; the inputs that were given away hold anything "
        "now. Run the model without `donate` to find out more"
    )


class PlanEngine:
    """Runs a plan. Safe to run from several threads at once.

    `parts` are its steps, with the host nodes between them where there are any; a plan whose host nodes can be run
    without checks has `hosted`, and need not have them as steps. `read` reads the plan, for messages.
    """

    def __init__(
        self,
        outline: Outline,
        parts: Sequence[Step | HostStep],
        rest: Rest,
        read: Callable[[], PlanForm],
        hosted: HostedRun | None = None,
        given: Mapping[str, Any] | None = None,
        constants: frozenset[int] = frozenset(),
    ) -> None:
        self._own_host_runs = 0
        self._host_times: HostTimes | None = None
        self._limit_ns = int((current().time or 0) * 1e9)
        self._start(outline, parts, rest, read, hosted, given, constants)

    def _start(
        self,
        outline: Outline,
        parts: Sequence[Step | HostStep],
        rest: Rest,
        read: Callable[[], PlanForm],
        hosted: HostedRun | None = None,
        given: Mapping[str, Any] | None = None,
        constants: frozenset[int] = frozenset(),
    ) -> None:
        self.outline, self.parts, self._rest, self._read = outline, list(parts), rest, read
        self._steps = [part for part in parts if isinstance(part, Step)]
        self._given = dict(given or {})
        self._constants = constants
        self._hosted = hosted
        self._fitting = Fitting(outline.requirements)
        self._is_single = hosted is None and self._has_one_segment()
        self._runs = self._repeated_runs()
        self.run_again = never_again if self._runs is None else self._runs.again

    def _has_one_segment(self) -> bool:
        """Whether one call of a step is the whole run, with inputs and outputs in the model's order."""
        if len(self.parts) != 1 or not self._steps:
            return False
        frame, names = self._steps[0].frame, tuple([port.name for port in self.outline.inputs])
        return frame.inputs == names and frame.outputs == self.outline.outputs

    def _repeated_runs(self) -> RepeatedRuns[Any] | None:
        """The short way of later runs, where there is one."""
        types = [port.type for port in self.outline.inputs]
        dtypes = [type.dtype.numpy for type in types if isinstance(type, TensorType)]
        if len(dtypes) < len(types) or not (self._is_single or self._hosted):
            return None
        return RepeatedRuns(dtypes, self._run_single if self._hosted is None else self._run_hosted)

    @property
    def host_runs(self) -> int:
        """How many nodes the reference engine has run for this engine so far."""
        return self._own_host_runs + self._rest.host_runs

    @property
    def parameters(self) -> tuple[int, ...]:
        """The inputs whose values decide what is run: there is an engine for each."""
        return self.outline.parameters

    @property
    def depends_on_shapes(self) -> bool:
        """Whether ranks follow from sizes: there is an engine for those that decide them."""
        return self.outline.is_for_sizes

    def forget_sizes(self) -> None:
        """Keep no plan of memory for the sizes that were run before."""
        if self._runs is not None:
            self._runs.forget()
        for step in self._steps:
            step.forget_sizes()
        self._rest.forget_sizes()

    def host_reasons(self) -> list[str]:
        """The host nodes, each with the reason."""
        return [str(host) for host in self._read().hosts]

    def direct(self, shapes: Shapes) -> Direct | None:
        """What runs the engine on addresses of contiguous memory, for inputs of shapes that were run before.

        None where there was no such run, or where a run is more than one call of compiled code.
        """
        kept = self._runs.kept(shapes) if self._is_single and self._runs is not None else None
        return None if kept is None else self._steps[0].direct(kept, self._limit_ns)

    def prepare(self, shapes: Shapes) -> None:
        """Keep the segments as they are prepared for these sizes; nothing where runs need more than that."""
        if self._runs is None or self._runs.kept(shapes) is not None:
            return
        bindings = self._bindings(shapes)
        try:
            self._check_sizes(bindings)
            self._keep(shapes, bindings)
        except (AssumptionError, SizeOverflowError, SizeFaultError):  # a run of these sizes makes a plan of its own
            return

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None, into: Into | None = None) -> list[Any]:
        """The graph's outputs for arrays in the order of its inputs."""
        kept = None if self._runs is None or not self._is_single else self._runs.find(inputs)
        if kept is not None and all(array.flags.c_contiguous for array in inputs):
            return self._run_within(kept, inputs, deadline, into)
        bindings = self._bindings([getattr(array, "shape", None) for array in inputs])
        if self.outline.parameters:
            results = self._rest.for_values(inputs, deadline)
            if results is not None:
                return results
        if self.outline.is_for_sizes:
            return self._rest.for_ranks(inputs, bindings, deadline)
        try:
            if self._hosted is not None and not self._has_host_steps:
                return self._run_first(self._hosted, inputs, bindings, deadline, into)
            return self._run_parts(inputs, dict(bindings), deadline, into)
        except AssumptionError:
            return self._rest.for_sizes(inputs, deadline)
        except SizeOverflowError as error:
            return self._rest.overflowing(inputs, deadline, is_late=error.is_late)
        except SizeFaultError as fault:
            return self._rest.faulty(fault.error, inputs, deadline)
        except _StoppedError as stopped:
            return self._stopped(stopped.status, stopped.place, inputs, deadline)

    @property
    def _has_host_steps(self) -> bool:
        return len(self.parts) > len(self._steps)

    def _bindings(self, shapes: Sequence[tuple[int, ...] | None]) -> dict[str, int]:
        """The sizes that shapes of inputs bring."""
        bindings: dict[str, int] = {}
        for port, shape in zip(self.outline.inputs, shapes, strict=True):
            if isinstance(port.type, TensorType) and shape is not None:
                bind(port.type.shape, shape, bindings, f"input {port.name!r}")
        return bindings

    def _run_first(
        self,
        hosted: HostedRun,
        inputs: Sequence[Any],
        bindings: dict[str, int],
        deadline: Deadline | None,
        into: Into | None,
    ) -> list[Any]:
        """A run with host nodes that are no steps: where something is wrong, the graph's engine says what."""
        self._check_sizes(bindings)
        self._keep(tuple([array.shape for array in inputs]), bindings)
        prepared = None if self._runs is None else self._runs.find(inputs)
        time = self._limit_ns if deadline is None else deadline.remaining()
        arrays = [array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in inputs]
        results = None if prepared is None else hosted.run(arrays, prepared, time)
        if deadline is not None:
            deadline.check()
        if results is None:
            return self._rest.whole(inputs, deadline, into)
        self._own_host_runs += hosted.host_nodes
        return results

    def _run_parts(
        self, inputs: Sequence[Any], bindings: dict[str, int], deadline: Deadline | None, into: Into | None = None
    ) -> list[Any]:
        outline = self.outline
        known = {port.name: array for port, array in zip(outline.inputs, inputs, strict=True)} | self._given
        given = dict(bindings) if self._hosted is not None else bindings
        targets = {} if into is None else dict(zip(outline.outputs, into, strict=True))
        self._check_sizes(bindings)
        shapes = tuple([getattr(array, "shape", ()) for array in inputs])
        if self._is_single:
            self._keep(shapes, bindings)
        if deadline is not None:
            deadline.check()
        place = 0
        for part in self.parts:
            if isinstance(part, Step):
                self._run_step(part, place, known, bindings, deadline, targets)
                place += 1
            else:
                self._run_host(part, known, bindings, deadline)
        if self._hosted is not None:
            self._keep(shapes, given)
        return self._owned(known, inputs)

    def _owned(self, known: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
        """The outputs; those in the memory of inputs that were given away are these inputs."""
        frames = [step.frame for step in self._steps]
        shared = {frame.outputs[output] for frame in frames for output, _ in frame.aliases}
        names = self.outline.outputs
        results = owned([None if name in shared else known[name] for name in names], inputs, self._constants)
        return [known[name] if name in shared else each for name, each in zip(names, results, strict=True)]

    def _check_sizes(self, bindings: dict[str, int]) -> None:
        """Raise AssumptionError where sizes are other than the plan takes them to be."""
        for left, right in self.outline.assumptions:
            is_known = symbols(left) | symbols(right) <= bindings.keys()
            if is_known and evaluate(left, bindings) != evaluate(right, bindings):
                raise AssumptionError
        broken = self._fitting.broken(bindings)
        if broken is not None:
            raise ShapeError(broken.message) if self._rest.is_special else AssumptionError(broken.message)

    def _keep(self, shapes: Shapes, bindings: dict[str, int]) -> None:
        """Keep the segments as they are prepared for these sizes, so that the next run with them need not."""
        if self._runs is None:
            return
        if self._hosted is not None:
            self._runs.keep_for(shapes, self._prepared(lambda: self._hosted_ready(bindings)))
        else:
            self._runs.keep_for(shapes, self._ready(self._steps[0], bindings))

    def _hosted_ready(self, bindings: dict[str, int]) -> Prepared:
        assert self._hosted is not None
        return self._hosted.prepare(self._steps, bindings)

    def _ready(self, step: Step, bindings: dict[str, int]) -> Ready:
        return self._prepared(lambda: step.ready(bindings))

    def _prepared(self, make: Callable[[], Any]) -> Any:
        """What is made for sizes; raises SizeFaultError where that is a fault of our own."""
        try:
            return make()
        except SizeOverflowError:
            raise
        except Exception as error:
            if isinstance(error, (IntaglioError, MemoryError)) and not isinstance(error, GraphError):
                raise
            raise SizeFaultError(error) from error

    def _run_hosted(self, prepared: Prepared, inputs: Sequence[Any], time: int, into: Into | None) -> list[Any] | None:
        """All parts without checks, for sizes seen before; None where a deadline or places for outputs are given."""
        if time or into is not None:
            return None
        hosted = self._hosted
        assert hosted is not None
        outputs = hosted.run(inputs, prepared, self._limit_ns)
        self._own_host_runs += 0 if outputs is None else hosted.host_nodes
        return outputs

    def _run_within(
        self, ready: Ready, inputs: Sequence[Any], deadline: Deadline | None, into: Into | None
    ) -> list[Any]:
        try:
            return self._run_single(ready, inputs, 0 if deadline is None else deadline.remaining(), into)
        except RunTimeoutError:
            raise (deadline or self._no_deadline()).error() from None

    def _no_deadline(self) -> Deadline:
        return Deadline(self._limit_ns / 1e9, 0)

    def _run_single(self, ready: Ready, inputs: Sequence[Any], time: int, into: Into | None) -> list[Any]:
        """One segment, shapes seen before: allocate and call."""
        start = monotonic_ns() if time else 0
        if time == 0 or 0 < self._limit_ns < time:
            time = self._limit_ns
        try:
            status, outputs = self._steps[0].call(ready, inputs, time, (), into)
        except MemoryError as error:
            raise self._refusal(error, 0) from None
        if status:
            return self._stopped(status, 0, inputs, Deadline.of_run(start, time) if start else None)
        return outputs

    def _run_host(
        self, part: HostStep, known: dict[str, Any], bindings: dict[str, int], deadline: Deadline | None
    ) -> None:
        self._own_host_runs += 1
        begin = monotonic_ns()
        try:
            part.run(known, bindings, deadline)
        except part.MismatchError as error:
            if self.outline.assumptions:
                raise AssumptionError from None
            raise error.reason from None
        self._check_sizes(bindings)
        if self._host_times is not None:
            self._host_times.note(part, begin)

    def _run_step(
        self,
        step: Step,
        place: int,
        known: dict[str, Any],
        bindings: dict[str, int],
        deadline: Deadline | None,
        targets: Mapping[str, Any],
    ) -> None:
        frame, ready = step.frame, self._ready(step, bindings)
        arrays = [contiguous(known[name]) for name in frame.inputs]
        told = np.empty(frame.told, np.int64)
        time = 0 if deadline is None else deadline.remaining()
        into = [targets.get(name) for name in frame.outputs] if targets else None
        try:
            status, outputs = step.call(ready, arrays, time, [told] if frame.told else [], into)
        except MemoryError as error:
            raise self._refusal(error, place) from None
        if status:
            raise _StoppedError(status, place)
        known.update(zip(frame.outputs, outputs, strict=True))
        bindings.update(zip(frame.finds, told.tolist(), strict=False))

    def _stopped(self, status: int, place: int, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """The outputs of a run of which a segment ended with this status, or an error that says why."""
        if status == CANCELLED:
            raise (deadline or self._no_deadline()).error()
        if status == ROUNDS:
            limit = self._steps[place].limits.loop_iterations
            raise LimitError(f"a loop runs more than {limit} rounds, the limit on loop_iterations")
        if status == ASSUMPTION:
            return self._rest.for_sizes(inputs, deadline)
        is_spoiled = self._steps[place].frame.may_have_written(status)
        if status == OVERFLOW and not is_spoiled:
            return self._rest.overflowing(inputs, deadline, is_late=True)
        if status == REQUIREMENT:
            return self._rest.misfit(inputs, deadline)
        served = self._action(place, status).served if status >= FAULT else ()
        names = ", ".join(node.operator for node in served) or "a size"
        return self._rest.spoiled(names, inputs) if is_spoiled else self._rest.refused(names, inputs, deadline)

    def _action(self, place: int, status: int) -> Any:
        from intaglio.kernels.plan import walk

        return list(walk(self._read().segments[place].actions))[status - FAULT]

    def _refusal(self, error: MemoryError, place: int) -> MemoryError:
        """The error for memory that a segment did not get: which node asked for it, and for how much."""
        if isinstance(error, LimitError) or len(error.args) != 2:
            return error
        status, size = error.args
        served = self._action(place, status).served if status >= FAULT else ()
        names = " and ".join(dict.fromkeys(map(str, served))) or "the run"
        return LimitError(
            f"{names} asks for {size} bytes, more than there are or than the limit of {most_bytes()} leaves"
        )
