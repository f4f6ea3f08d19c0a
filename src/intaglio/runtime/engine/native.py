"""The native engine: a lowered plan, compiled and run."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any

import numpy as np

from intaglio.errors import LimitError, OperatorError, RunTimeoutError, ShapeError
from intaglio.ir.clone import clone
from intaglio.ir.dim import Dim, symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.limits import check_time, current, most_bytes
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import TensorType
from intaglio.kernels.faults import Fault, Faults, is_fault, is_raising, tell
from intaglio.kernels.plan import (
    ASSUMPTION,
    FAULT,
    NOTHING,
    OVERFLOW,
    REQUIREMENT,
    ROUNDS,
    Donation,
    HostNode,
    Plan,
    Segment,
    walk,
)
from intaglio.kernels.refusal import Cause
from intaglio.kernels.repair import lower_safely
from intaglio.onnx.mapped import check_files
from intaglio.ops.evaluate import describe, run_node
from intaglio.ops.evaluate import evaluate as evaluate_graph
from intaglio.runtime.engine.binding import bind
from intaglio.runtime.engine.bodies import Bodies
from intaglio.runtime.engine.compiled import CExecutor, CompiledSegment
from intaglio.runtime.engine.counting import HostTimes
from intaglio.runtime.engine.deadline import Deadline
from intaglio.runtime.engine.engine import Progress
from intaglio.runtime.engine.executor import RefusedPlanError
from intaglio.runtime.engine.hosted_plans import hosted_run
from intaglio.runtime.engine.hosted_runs import HostedRun, Prepared
from intaglio.runtime.engine.repeated_runs import RepeatedRuns, Shapes, never_again
from intaglio.runtime.engine.results import constant_ids, owned
from intaglio.runtime.engine.segment import Direct, Into, Ready, SizeOverflowError, contiguous, spoiled
from intaglio.runtime.engine.size_checks import Fitting
from intaglio.runtime.engine.specialise import SpecialEngines, parameter_positions
from intaglio.runtime.engine.weights import (
    HeldGraph,
    constants_read_by_host,
    own_constants,
    own_host_constants,
    release_plan,
    signature,
)
from intaglio.targets.c.cache import CFunction
from intaglio.targets.c.target import Target


class NativeEngine:
    """A graph compiled for this machine. Safe to run from several threads at once."""

    def __init__(
        self,
        graph: Graph | HeldGraph,
        threads: int,
        target: Target | None = None,
        exact: bool = False,
        is_special: bool = False,
        donation: Donation = NOTHING,
    ) -> None:
        self.limits = current()
        self._limit_ns = int((self.limits.time or 0) * 1e9)
        self.held = graph if isinstance(graph, HeldGraph) else HeldGraph(graph)
        graph = self.held.get()
        self._inputs = signature(graph)
        self._donated = [(graph.inputs[given].name, made) for given, made in donation.pairs]
        self._is_atomic = donation.is_atomic
        self.executor = CExecutor(target)
        self.threads = threads
        self.exact = exact
        self.is_special = is_special
        self.parts: list[CompiledSegment | HostNode] = []
        self._special = SpecialEngines(self.held.get, self._made_for)
        self.host_runs = 0
        """How many nodes the reference engine has run for this engine so far."""
        self._host_times: HostTimes | None = None
        self._faults = Faults()
        self._make_plan(graph)

    def _made_for(self, graph: Graph, is_special: bool) -> NativeEngine:
        """The engine of a graph that was made for particular runs of this one."""
        donation = self._donation(graph)
        return NativeEngine(graph, self.threads, self.target, self.exact, is_special, donation).load()

    def _donation(self, graph: Graph) -> Donation:
        """What is given away in a graph that has these inputs, or some of them."""
        names = [value.name for value in graph.inputs]
        pairs = tuple((names.index(name), made) for name, made in self._donated if name in names)
        return Donation(pairs, self._is_atomic)

    def _make_plan(self, graph: Graph) -> None:
        """Lower the graph; done anew where the compiler refuses some of the C."""
        self.plan: Plan = lower_safely(
            lambda: clone(graph),
            self.executor.rules,
            self._faults,
            assume=not self.is_special,
            exact=self.exact,
            donation=self._donation(graph),
        )
        own_host_constants(self.plan)
        self.constants = self.plan.constants = own_constants(self.plan.constants)
        check_files(graph)
        self._fitting = Fitting(self.plan.requirements)
        self._parameters = [] if self.is_special else parameter_positions(graph, self.plan)
        is_open = any(part.refusal.cause is Cause.SHAPE for part in self.plan.host_nodes)
        self._depends_on_shapes = is_open and not self.is_special
        self.bodies = {
            part.node: Bodies(part.node, lambda body: NativeEngine(body, self.threads, self.target, self.exact))
            for part in self.plan.host_nodes
            if part.node.op.has("interpret")
        }

    @property
    def parameters(self) -> tuple[int, ...]:
        """The inputs whose values decide what is run: there is an engine for each."""
        return tuple(self._parameters)

    @property
    def depends_on_shapes(self) -> bool:
        """Whether ranks follow from sizes: there is an engine for those that decide them."""
        return self._depends_on_shapes

    def keep_special(self, keep: Callable[[str, NativeEngine], None]) -> None:
        """Have `keep` told of engines that runs add for values or sizes, with a name for these."""
        self._special.keep = keep

    @property
    def graph(self) -> Graph:
        """The graph that the engine runs; made anew where it was let go after loading."""
        return self.held.get()

    def load(self, progress: Progress | None = None) -> NativeEngine:
        """Compile what the cache does not hold, and make the engine ready to run; warns of faults of our own."""
        loaded = self._ensure(progress)  # this may make another plan
        self.parts = self.executor.parts(self.plan, loaded, self.constants, self.threads)
        tell(self.plan.faults)
        for engine in self.body_engines():
            engine.load()
        self._outputs = list(self.plan.outputs)
        self._constants = constant_ids(constants_read_by_host(self.plan))
        self._is_single = self._has_one_segment()
        is_fixed = not (self._parameters or self._depends_on_shapes or self.bodies)
        self._hosted = hosted_run(self.plan, self.parts, self._inputs, self._outputs) if is_fixed else None
        self._runs = self._repeated_runs()
        self.run_again = never_again if self._runs is None else self._runs.again
        release_plan(self.plan)
        self.held.release()
        return self

    def _has_one_segment(self) -> bool:
        """Whether one call of `invoke` is the whole run, with inputs and outputs in the model's order."""
        if len(self.parts) != 1 or isinstance(self.parts[0], HostNode):
            return False
        part = self.parts[0].segment
        return list(part.inputs) == list(self.plan.inputs) and list(part.outputs) == self._outputs

    def _repeated_runs(self) -> RepeatedRuns[Any] | None:
        """The short way of later runs, where there is one."""
        if not self._is_single and self._hosted is None:
            return None
        dtypes = [value.dtype.numpy for value in self.plan.inputs]
        return RepeatedRuns(dtypes, self._run_single if self._hosted is None else self._run_hosted)

    @property
    def is_plain(self) -> bool:
        """Whether code, constants and sizes are all that a run needs; known once the engine is loaded."""
        return self._is_single and not (self._parameters or self._depends_on_shapes or self.bodies or self.plan.faults)

    @property
    def hosted(self) -> HostedRun | None:
        """The short way of runs with host nodes, where that, code, constants and sizes are all that a run needs."""
        return None if self.plan.faults else self._hosted

    def functions(self) -> list[CFunction]:
        """Every function of the model: its kernels, then the driver of each segment."""
        return [function for plan in self._plans() for function in self.executor.functions(plan)]

    def _plans(self) -> list[Plan]:
        """The plan of the graph, and those of compiled bodies of host nodes."""
        return [self.plan, *(plan for engine in self.body_engines() for plan in engine._plans())]

    def source_file(self, title: str) -> str:
        """All C of the model as one file that compiles alone, that of compiled bodies of host nodes included."""
        return self.executor.source_file(title, self._plans())

    def all_engines(self) -> list[NativeEngine]:
        """This engine and those that runs have added: for parameters and sizes that need plans of their own."""
        added = [*self._special.engines(), *self.body_engines()]
        return [self, *(engine for other in added for engine in other.all_engines())]

    def body_engines(self) -> list[NativeEngine]:
        """The engines of compiled bodies of host nodes."""
        return [engine for bodies in self.bodies.values() for engine in bodies.engines]

    def count_hosts(self, times: HostTimes | None) -> HostTimes | None:
        """Have the times of host nodes noted, or no longer; returns where they were noted before.

        Runs with host nodes take the long way meanwhile, on which each of them is timed.
        """
        before, self._host_times = self._host_times, times
        if self.plan.host_nodes:
            self.run_again = never_again if self._runs is None or times is not None else self._runs.again
        return before

    def _ensure(self, progress: Progress | None) -> Sequence[int]:
        """The code of the engine's own plan; nodes whose code is refused are lowered in other ways."""
        plans = self._plans()
        while True:
            try:
                return self.executor.ensure(plans, progress or _check)
            except RefusedPlanError as error:
                plans = [self.plan]  # those of bodies are the business of their engines
                if error.nodes is not None:
                    self._blame(error, error.nodes)
                    plans = self._plans()

    def _blame(self, error: RefusedPlanError, refused: Sequence[tuple[Node, ...]]) -> None:
        """Lower the graph anew, with the nodes whose functions were refused treated in a simpler way."""
        for nodes in dict.fromkeys(refused):
            self._faults.add(error.reason, nodes)
        if not refused:
            self._faults.add(error.reason)
        self._make_plan(self.held.get())

    @property
    def target(self) -> Target:
        """What the code is made for."""
        return self.executor.target

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None, into: Into | None = None) -> list[Any]:
        """The graph's outputs for arrays in the order of its inputs."""
        if self._is_single and self._runs is not None:
            prepared = self._runs.find(inputs)
            if prepared is not None and all(array.flags.c_contiguous for array in inputs):
                return self._run_within(prepared, inputs, deadline, into)
        bindings: dict[str, int] = {}
        for value, array in zip(self._inputs, inputs, strict=True):
            if isinstance(value.type, TensorType) and array is not None:
                bind(value.type.shape, array.shape, bindings, f"input {value.name!r}")
        if self._parameters:
            engine = self._special.for_parameters(self._parameters, inputs)
            if engine is not None:
                kept = [array for place, array in enumerate(inputs) if place not in self._parameters]
                return self._count(engine, kept, deadline)
        if self._depends_on_shapes:
            return self._count(self._special.for_ranks(inputs, bindings), inputs, deadline)
        try:
            return self._run_parts(inputs, dict(bindings), deadline, into)
        except _AssumptionError:
            return self._count(self._special.for_shapes(inputs), inputs, deadline)
        except SizeOverflowError as error:
            return self._run_apart(error, inputs, deadline)
        except SizeFaultError as fault:
            return self._run_otherwise(fault.error, inputs, deadline)
        except _RefutedError as refuted:
            return self._take(refuted)

    def _take(self, refuted: _RefutedError) -> list[Any]:
        """What the reference computes where compiled code refused data: the reference is right."""
        error = refuted.error
        if is_raising():
            raise error
        tell([Fault((), f"{type(error).__name__}: {error}, which it is not", "the reference engine ran it")])
        self.host_runs += len(self.graph)
        return refuted.results

    def _run_apart(self, error: SizeOverflowError, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """A run whose sizes do not fit 64 bits on the way: with all sizes fixed, or by the reference."""
        if not error.is_late and not self.is_special:
            return self._count(self._special.for_shapes(inputs), inputs, deadline)
        self.host_runs += len(self.graph)
        return evaluate_graph(self.graph, inputs, watch=None if deadline is None else deadline.check)

    def _run_otherwise(self, error: Exception, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """A run whose sizes cannot be worked out, by a fault of our own: with all sizes fixed, or by the reference."""
        if is_raising():
            raise error
        remedy = "the reference engine runs it" if self.is_special else "a plan is made for just these sizes"
        tell([Fault((), f"{type(error).__name__}: {error}", remedy)])
        return self._run_apart(SizeOverflowError(), inputs, deadline)

    def _count(self, engine: NativeEngine, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """Run a special engine, and count the host nodes that it runs as this engine's."""
        before = engine.host_runs
        try:
            return engine.run(inputs, deadline)
        finally:
            self.host_runs += engine.host_runs - before

    def _run_parts(
        self, inputs: Sequence[Any], bindings: dict[str, int], deadline: Deadline | None, into: Into | None = None
    ) -> list[Any]:
        known: dict[Value, Any] = dict(zip(self.plan.inputs, inputs, strict=True))
        given = dict(bindings) if self._hosted is not None else bindings
        targets = {} if into is None else dict(zip(self._outputs, into, strict=True))
        self._check_assumptions(bindings)
        if self._is_single:
            self._remember(inputs, bindings)
        if deadline is not None:
            deadline.check()
        for part in self.parts:
            if isinstance(part, HostNode):
                self._run_host(part, known, bindings, deadline)
            else:
                places = [targets.get(value) for value in part.segment.outputs] if targets else None
                self._run_native(part, known, bindings, deadline, inputs, places)
        if self._hosted is not None:
            self._remember_hosted(self._hosted, inputs, given)
        outputs = [value.constant if value.constant is not None else known[value] for value in self._outputs]
        shared = {self._outputs.index(value) for value in self._in_place()}
        results = owned([None if n in shared else each for n, each in enumerate(outputs)], inputs, self._constants)
        return [outputs[n] if n in shared else each for n, each in enumerate(results)]

    def _in_place(self) -> list[Value]:
        """The outputs that have the memory of inputs."""
        segments = [part.segment for part in self.parts if isinstance(part, CompiledSegment)]
        return [segment.outputs[alias.output] for segment in segments for alias in segment.aliases]

    def _check_assumptions(self, bindings: dict[str, int]) -> None:
        for left, right in self.plan.assumptions:
            if symbols(left) | symbols(right) <= bindings.keys() and evaluate(left, bindings) != evaluate(
                right, bindings
            ):
                raise _AssumptionError
        broken = self._fitting.broken(bindings)
        if broken is not None:
            raise ShapeError(broken.message) if self.is_special else _AssumptionError(broken.message)

    def _remember(self, inputs: Sequence[Any], bindings: dict[str, int]) -> None:
        """Keep the segments as they are prepared for these sizes, so that the next run with them need not."""
        parts = [part for part in self.parts if isinstance(part, CompiledSegment)]
        if self._runs is not None:
            self._runs.keep(inputs, [(part, _ready(part, bindings)) for part in parts])

    def _remember_hosted(self, hosted: HostedRun, inputs: Sequence[Any], bindings: dict[str, int]) -> None:
        if self._runs is not None:
            parts = [part for part in self.parts if isinstance(part, CompiledSegment)]
            self._runs.keep(inputs, hosted.prepare(parts, bindings))

    def forget_sizes(self) -> None:
        """Keep no plan of memory for the sizes that were run before."""
        for engine in self.all_engines():
            if engine._runs is not None:
                engine._runs.forget()
            for part in engine.parts:
                if isinstance(part, CompiledSegment):
                    part.forget_sizes()

    def host_reasons(self) -> list[str]:
        """The host nodes, each with the reason."""
        return [str(host) for host in self.plan.host_nodes]

    def direct(self, shapes: Shapes) -> Direct | None:
        """What runs the engine on addresses of contiguous memory, for inputs of shapes that were run before.

        None where there was no such run, or where a run is more than one call of compiled code.
        """
        is_one = self._is_single and self._hosted is None
        kept = self._runs.kept(shapes) if is_one and self._runs is not None else None
        return None if kept is None else kept[0][0].direct(kept[0][1], self._limit_ns)

    def prepare(self, shapes: Shapes) -> None:
        """Keep the segments as they are prepared for these sizes; nothing where runs need more than that."""
        if self._runs is None or self._runs.kept(shapes) is not None:
            return
        bindings: dict[str, int] = {}
        for value, shape in zip(self._inputs, shapes, strict=True):
            if isinstance(value.type, TensorType):
                bind(value.type.shape, shape, bindings, f"input {value.name!r}")
        try:
            self._check_assumptions(bindings)
            parts = [part for part in self.parts if isinstance(part, CompiledSegment)]
            if self._hosted is not None:
                self._runs.keep_for(shapes, self._hosted.prepare(parts, bindings))
            else:
                self._runs.keep_for(shapes, [(part, _ready(part, bindings)) for part in parts])
        except (_AssumptionError, SizeOverflowError, SizeFaultError):  # a run of these sizes makes a plan of its own
            return

    def _run_hosted(self, prepared: Prepared, inputs: Sequence[Any], time: int, into: Into | None) -> list[Any] | None:
        """All parts without checks, for sizes seen before; None where a deadline or places for outputs are given."""
        if time or into is not None:
            return None
        hosted = self._hosted
        assert hosted is not None
        outputs = hosted.run(inputs, prepared, self._limit_ns)
        self.host_runs += 0 if outputs is None else hosted.host_nodes
        return outputs

    def _run_within(
        self,
        prepared: list[tuple[CompiledSegment, Ready]],
        inputs: Sequence[Any],
        deadline: Deadline | None,
        into: Into | None,
    ) -> list[Any]:
        try:
            return self._run_single(prepared, inputs, 0 if deadline is None else deadline.remaining(), into)
        except RunTimeoutError:
            raise (deadline or Deadline(self.limits.time or 0, 0)).error() from None

    def _run_single(
        self, prepared: list[tuple[CompiledSegment, Ready]], inputs: Sequence[Any], time: int, into: Into | None
    ) -> list[Any]:
        """One segment, shapes seen before: allocate and call."""
        part, ready = prepared[0]
        start = monotonic_ns() if time else 0
        if time == 0 or 0 < self._limit_ns < time:
            time = self._limit_ns
        try:
            status, outputs = part.call(ready, inputs, time, (), into)
        except MemoryError as error:
            raise _refusal(error, part.segment) from None
        if status:
            deadline = Deadline.of_run(start, time) if start else None
            try:
                self._raise(status, part, inputs, deadline)
            except _AssumptionError:
                return self._count(self._special.for_shapes(inputs), inputs, deadline)
            except SizeOverflowError as error:
                return self._run_apart(error, inputs, deadline)
            except _RefutedError as refuted:
                return self._take(refuted)
        return outputs

    def _run_host(
        self, part: HostNode, known: dict[Value, Any], bindings: dict[str, int], deadline: Deadline | None
    ) -> None:
        self.host_runs += 1
        node, times, begin = part.node, self._host_times, clock.monotonic_ns()
        bodies = self.bodies.get(node)
        run_body = None if bodies is None else bodies.runner(known, deadline)
        results = run_node(node, known, None if deadline is None else deadline.check, run_body)
        for value, result in zip(node.outputs, results, strict=False):
            known[value] = result
            if isinstance(value.type, TensorType) and result is not None:
                self._bind_result(value, part.inferred.get(value), result, bindings)
        self._check_assumptions(bindings)
        if times is not None:
            times.note(part, begin)

    def _bind_result(
        self, value: Value, inferred: tuple[Dim, ...] | None, result: Any, bindings: dict[str, int]
    ) -> None:
        assert isinstance(value.type, TensorType)
        try:
            bind(value.type.shape, result.shape, bindings, value.name)
            if inferred is not None and value.type.shape is not None:
                bind(inferred, result.shape, bindings, value.name)
        except ShapeError:
            if self.plan.assumptions:
                raise _AssumptionError from None
            raise

    def _run_native(
        self,
        part: CompiledSegment,
        known: dict[Value, Any],
        bindings: dict[str, int],
        deadline: Deadline | None,
        inputs: Sequence[Any],
        into: Into | None,
    ) -> None:
        ready, segment = _ready(part, bindings), part.segment
        arrays = [contiguous(known[value]) for value in segment.inputs]
        told = np.empty(segment.told, np.int64)
        time = 0 if deadline is None else deadline.remaining()
        try:
            status, outputs = part.call(ready, arrays, time, [told] if segment.told else [], into)
        except MemoryError as error:
            raise _refusal(error, segment) from None
        if status:
            self._raise(status, part, inputs, deadline)
        known.update(zip(segment.outputs, outputs, strict=True))
        bindings.update(zip(segment.late, told.tolist(), strict=False))

    def _raise(self, status: int, part: CompiledSegment, inputs: Sequence[Any], deadline: Deadline | None) -> None:
        if status == 1:
            raise (deadline or Deadline(self.limits.time or 0, 0)).error()
        if status == ASSUMPTION:
            raise _AssumptionError
        if status == OVERFLOW and not part.frame.may_have_written(status):
            raise SizeOverflowError(is_late=True)
        if status == REQUIREMENT:
            evaluate_graph(self.graph, inputs)
            message = "sizes that the data decides do not fit each other"
            raise ShapeError(message) if self.is_special else _AssumptionError(message)
        if status == ROUNDS:
            raise LimitError(
                f"a loop runs more than {self.limits.loop_iterations} rounds, the limit on loop_iterations"
            )
        action = list(walk(part.segment.actions))[status - FAULT] if status >= FAULT else None
        results = evaluate_graph(self.graph, inputs)
        names = ", ".join(node.op.name for node in action.nodes) if action is not None else "a size"
        if part.frame.may_have_written(status):
            raise spoiled(names)
        raise _RefutedError(results, OperatorError(f"{names} met a value at run time that its definition forbids"))


def _refusal(error: MemoryError, part: Segment) -> MemoryError:
    """The error for memory that a driver did not get: which node asked for it, and for how much."""
    if isinstance(error, LimitError) or len(error.args) != 2:
        return error
    status, size = error.args
    actions = list(walk(part.actions))[status - FAULT :] if status >= FAULT else []
    names = " and ".join(dict.fromkeys(describe(node) for node in actions[0].nodes)) if actions else ""
    text = f"{names or 'the run'} asks for {size} bytes, more than there are or than the limit of {most_bytes()} leaves"
    return LimitError(text)


class _AssumptionError(Exception):
    """The sizes of this run break an assumption of the plan, or do not fit each other: they need a plan of their own,
    if there is one."""


def _check(done: int, total: int) -> None:
    """What is told of functions that a run compiles: it may take no longer than the run."""
    check_time()


class _RefutedError(Exception):
    """Compiled code refused data that the reference takes."""

    def __init__(self, results: list[Any], error: OperatorError) -> None:
        super().__init__(str(error))
        self.results, self.error = results, error


class SizeFaultError(Exception):
    """A size is asked for that nobody has told: a fault of our own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _ready(part: CompiledSegment, bindings: dict[str, int]) -> Ready:
    try:
        return part.ready(bindings)
    except SizeOverflowError:
        raise
    except Exception as error:
        if not is_fault(error):
            raise
        raise SizeFaultError(error) from error
