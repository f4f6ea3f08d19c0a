"""Engines for graphs: a graph is lowered to a plan, which is compiled and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.clone import clone
from intaglio.ir.graph import Graph, Node
from intaglio.ir.limits import check_time, current
from intaglio.kernels.faults import Fault, Faults, is_raising, tell
from intaglio.kernels.plan import NOTHING, Donation
from intaglio.kernels.plan_form import HostForm, PlanForm, SegmentForm
from intaglio.kernels.refusal import Cause
from intaglio.kernels.repair import lower_safely
from intaglio.onnx.mapped import check_files
from intaglio.ops.evaluate import evaluate as evaluate_graph
from intaglio.runtime.engine.counting import HostTimes
from intaglio.runtime.engine.deadline import Deadline
from intaglio.runtime.engine.engine import Progress
from intaglio.runtime.engine.host_steps import HostStep
from intaglio.runtime.engine.hosted_plans import hosted_run
from intaglio.runtime.engine.hosted_runs import HostedRun
from intaglio.runtime.engine.lowered import Lowered
from intaglio.runtime.engine.outline import Outline, Port, outline_of
from intaglio.runtime.engine.plan_engine import AssumptionError, PlanEngine, spoiled
from intaglio.runtime.engine.repeated_runs import never_again
from intaglio.runtime.engine.specialise import SpecialEngines, parameter_positions
from intaglio.runtime.engine.weights import HeldGraph, signature
from intaglio.targets import executor_for
from intaglio.targets.errors import RefusedPlanError
from intaglio.targets.executor import Host
from intaglio.targets.step import Into, PlanSource, Step


class NativeEngine(PlanEngine):
    """The engine of a graph: makes the plan, has it compiled, and runs it. Safe to run from several threads at once."""

    def __init__(
        self,
        graph: Graph | HeldGraph,
        threads: int,
        executor: Host | None = None,
        exact: bool = False,
        is_special: bool = False,
        donation: Donation = NOTHING,
    ) -> None:
        self.limits = current()
        self.held = graph if isinstance(graph, HeldGraph) else HeldGraph(graph)
        graph = self.held.get()
        self._inputs = tuple([Port(value.name, value.type) for value in signature(graph)])
        self._donated = [(graph.inputs[given].name, made) for given, made in donation.pairs]
        self._is_atomic = donation.is_atomic
        self.executor = executor or executor_for()
        self.threads = threads
        self.exact = exact
        self.is_special = is_special
        self.special = SpecialEngines(self.held.get, self._made_for)
        self._faults = Faults()
        self._make_plan(graph)
        super().__init__(self._outline(), [], _Graphs(self), self._form)

    def _made_for(self, graph: Graph, is_special: bool) -> NativeEngine:
        """The engine of a graph that was made for particular runs of this one."""
        donation = self._donation(graph)
        return NativeEngine(graph, self.threads, self.executor, self.exact, is_special, donation).load()

    def _donation(self, graph: Graph) -> Donation:
        """What is given away in a graph that has these inputs, or some of them."""
        names = [value.name for value in graph.inputs]
        pairs = tuple((names.index(name), made) for name, made in self._donated if name in names)
        return Donation(pairs, self._is_atomic)

    def _form(self) -> PlanForm:
        return self.form

    def _make_plan(self, graph: Graph) -> None:
        """Lower the graph; done anew where the compiler refuses some of the code."""
        plan = lower_safely(
            lambda: clone(graph),
            self.executor.rules,
            self._faults,
            assume=not self.is_special,
            exact=self.exact,
            donation=self._donation(graph),
        )
        self.lowered = Lowered(plan)
        self.form = self.lowered.form
        self.constants = self.lowered.constants
        check_files(graph)
        self._parameter_places = () if self.is_special else tuple(parameter_positions(graph, self.lowered))
        self.hosts = [HostStep(host, self.lowered.node(host.node.id), self._body_engine) for host in self.form.hosts]

    def _body_engine(self, body: Graph) -> NativeEngine:
        return NativeEngine(body, self.threads, self.executor, self.exact)

    def _outline(self) -> Outline:
        is_open = any(host.refusal.cause is Cause.SHAPE for host in self.form.hosts)
        return replace(
            outline_of(self.form),
            inputs=self._inputs,
            parameters=self._parameter_places,
            is_for_sizes=is_open and not self.is_special,
        )

    def keep_special(self, keep: Callable[[str, NativeEngine], None]) -> None:
        """Call `keep` with each engine that runs add for values or sizes, and a name for these."""
        self.special.keep = keep

    @property
    def graph(self) -> Graph:
        """The graph that the engine runs; made anew where it was let go after loading."""
        return self.held.get()

    @property
    def device(self) -> str:
        """What the code is made for, for people."""
        return self.executor.description

    def load(self, progress: Progress | None = None) -> NativeEngine:
        """Compile what the cache does not hold, and make the engine ready to run; warns of faults of our own."""
        code = self._compile(progress)  # this may make another plan
        outline = self._outline()
        steps = iter(self.executor.load(PlanSource(outline.frames, self._form), code, self.constants, self.threads))
        hosts = iter(self.hosts)
        parts = [next(hosts) if isinstance(part, HostForm) else next(steps) for part in self.form.parts]
        tell(self.form.faults)
        for engine in self.body_engines():
            engine.load()
        given = self.lowered.given
        hosted = None if self._is_chosen(outline) else hosted_run(self.form, self.hosts, outline)
        self._start(outline, parts, _Graphs(self), self._form, hosted, given, self.lowered.constant_ids())
        self.lowered.release()
        self.held.release()
        return self

    def _is_chosen(self, outline: Outline) -> bool:
        """Whether runs need other engines beside this one."""
        return bool(outline.parameters or outline.is_for_sizes or any(host.bodies for host in self.hosts))

    @property
    def is_plain(self) -> bool:
        """Whether code, constants and sizes are all that a run needs; known once the engine is loaded."""
        return self._is_single and not (self._is_chosen(self.outline) or self.form.faults)

    @property
    def hosted(self) -> HostedRun | None:
        """The short way of runs with host nodes, where that, code, constants and sizes are all that a run needs."""
        return None if self.form.faults else self._hosted

    def functions(self) -> list[Any]:
        """Every function of the model: its kernels, then the driver of each segment."""
        return [function for form in self.forms() for function in self.executor.functions(form)]

    def forms(self) -> list[PlanForm]:
        """The plan of the graph, and those of compiled bodies of host nodes."""
        return [self.form, *(form for engine in self.body_engines() for form in engine.forms())]

    def source_file(self, title: str) -> str:
        """All code of the model as one file that compiles alone, that of compiled bodies of host nodes included."""
        return self.executor.source_file(title, self.forms())

    def segments(self) -> list[tuple[Step, SegmentForm]]:
        """The steps of the plan that are compiled, each with its part of the plan."""
        return list(zip(self._steps, self.form.segments, strict=True))

    def all_engines(self) -> list[NativeEngine]:
        """This engine and those that runs have added: for parameters and sizes that need plans of their own."""
        added = [*self.special.engines(), *self.body_engines()]
        return [self, *(engine for other in added for engine in other.all_engines())]

    def body_engines(self) -> list[NativeEngine]:
        """The engines of compiled bodies of host nodes."""
        return [engine for host in self.hosts if host.bodies is not None for engine in host.bodies.engines]

    def count_hosts(self, times: HostTimes | None) -> HostTimes | None:
        """Note the times of host nodes there, or no longer; returns where they were noted before.

        Runs with host nodes take the long way meanwhile, on which each of them is timed.
        """
        before, self._host_times = self._host_times, times
        if self.hosts:
            self.run_again = never_again if self._runs is None or times is not None else self._runs.again
        return before

    def _compile(self, progress: Progress | None) -> Any:
        """The code of the engine's own plan; nodes whose code is refused are lowered in other ways."""
        forms = self.forms()
        while True:
            try:
                return self.executor.compile(forms, progress or _check)
            except RefusedPlanError as error:
                forms = [self.form]  # those of bodies are the business of their engines
                if error.nodes is not None:
                    self._blame(error, error.nodes)
                    forms = self.forms()

    def _blame(self, error: RefusedPlanError, refused: Sequence[tuple[str, ...]]) -> None:
        """Lower the graph anew, with the nodes whose functions were refused treated in a simpler way."""
        for names in dict.fromkeys(refused):
            nodes: list[Node] = [self.lowered.node(name) for name in names]
            self._faults.add(error.reason, nodes)
        if not refused:
            self._faults.add(error.reason)
        self._make_plan(self.held.get())


class _Graphs:
    """What runs that a plan cannot do itself: plans for particular runs, which are made of the graph, or the
    reference."""

    def __init__(self, engine: NativeEngine) -> None:
        self._engine = engine
        self.is_special = engine.is_special
        self.host_runs = 0

    def for_values(self, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any] | None:
        """By a plan for the values of inputs, up to a number of different ones."""
        places = self._engine.parameters
        engine = self._engine.special.for_parameters(places, inputs)
        if engine is None:
            return None
        return self._count(engine, [array for place, array in enumerate(inputs) if place not in places], deadline)

    def for_ranks(self, inputs: Sequence[Any], bindings: dict[str, int], deadline: Deadline | None) -> list[Any]:
        """By a plan for the sizes that ranks depend on."""
        return self._count(self._engine.special.for_ranks(inputs, bindings), inputs, deadline)

    def for_sizes(self, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """By a plan for just these sizes."""
        return self._count(self._engine.special.for_shapes(inputs), inputs, deadline)

    def overflowing(self, inputs: Sequence[Any], deadline: Deadline | None, *, is_late: bool) -> list[Any]:
        """With all sizes fixed, or by the reference."""
        if not is_late and not self.is_special:
            return self.for_sizes(inputs, deadline)
        self.host_runs += len(self._engine.graph)
        return evaluate_graph(self._engine.graph, inputs, watch=None if deadline is None else deadline.check)

    def misfit(self, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """The reference raises what is wrong, if it is wrong."""
        evaluate_graph(self._engine.graph, inputs)
        if self.is_special:
            raise ShapeError("sizes that the data decides do not fit each other")
        return self.for_sizes(inputs, deadline)

    def refused(self, names: str, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """What the reference computes where compiled code refused data: the reference is right."""
        results = evaluate_graph(self._engine.graph, inputs)
        error = OperatorError(f"{names} met a value at run time that its definition forbids")
        if is_raising():
            raise error
        tell([Fault((), f"{type(error).__name__}: {error}, which it is not", "the reference engine ran it")])
        self.host_runs += len(self._engine.graph)
        return results

    def spoiled(self, names: str, inputs: Sequence[Any]) -> list[Any]:
        """The reference raises what is wrong, as far as the inputs still show it."""
        evaluate_graph(self._engine.graph, inputs)
        raise spoiled(names)

    def faulty(self, error: Exception, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """With all sizes fixed, or by the reference."""
        if is_raising():
            raise error
        remedy = "the reference engine runs it" if self.is_special else "a plan is made for just these sizes"
        tell([Fault((), f"{type(error).__name__}: {error}", remedy)])
        return self.overflowing(inputs, deadline, is_late=False)

    def whole(self, inputs: Sequence[Any], deadline: Deadline | None, into: Into | None) -> list[Any]:
        """By a plan for just these sizes: this engine's own is the whole one."""
        raise AssumptionError

    def forget_sizes(self) -> None:
        """Keep no plan of memory in any of the engines."""
        for engine in (*self._engine.special.engines(), *self._engine.body_engines()):
            engine.forget_sizes()

    def _count(self, engine: NativeEngine, inputs: Sequence[Any], deadline: Deadline | None) -> list[Any]:
        """Run another engine, and count the host nodes that it runs as this engine's."""
        before = engine.host_runs
        try:
            return engine.run(inputs, deadline)
        finally:
            self.host_runs += engine.host_runs - before


def _check(done: int, total: int) -> None:
    """What is told of functions that a run compiles: it may take no longer than the run."""
    check_time()
