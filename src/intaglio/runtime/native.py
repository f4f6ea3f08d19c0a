"""The native engine: a lowered plan, compiled and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from intaglio.errors import CompileError, LimitError, OperatorError, ShapeError
from intaglio.ir.clone import clone
from intaglio.ir.dim import Dim, evaluate, symbols
from intaglio.ir.graph import Graph, Value
from intaglio.ir.limits import check_time, current, most_bytes
from intaglio.ir.op import Array
from intaglio.ir.types import TensorType
from intaglio.kernels.faults import Fault, Faults, is_fault, is_raising, tell
from intaglio.kernels.overflow import fits, safe_limit
from intaglio.kernels.plan import (
    ASSUMPTION,
    FAULT,
    OVERFLOW,
    REQUIREMENT,
    ROUNDS,
    Call,
    HostStep,
    Kernel,
    NativeStep,
    Plan,
    walk,
)
from intaglio.kernels.refusal import Cause
from intaglio.kernels.repair import lower_safely, nodes_of_driver, nodes_of_kernels
from intaglio.kernels.reuse import layout
from intaglio.kernels.segment_sizes import given_dims, segment_symbols
from intaglio.onnx.mapped import check_files
from intaglio.ops.evaluate import describe, run_node
from intaglio.ops.evaluate import evaluate as evaluate_graph
from intaglio.runtime.arrays import constant_ids, owned
from intaglio.runtime.binding import bind
from intaglio.runtime.bodies import Bodies
from intaglio.runtime.deadline import Deadline
from intaglio.runtime.fitting import Fitting
from intaglio.runtime.quick import QuickRun, quick_run
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
from intaglio.runtime.special import decisive_sizes, parameter_positions, with_parameters, with_sizes
from intaglio.runtime.weights import (
    Held,
    constants_read_by_host,
    own_constants,
    own_host_constants,
    release_plan,
    signature,
)
from intaglio.targets.c import cache
from intaglio.targets.c.backend import CBackend
from intaglio.targets.c.cache import CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.driver import driver_source
from intaglio.targets.c.source_file import source_file
from intaglio.targets.c.target import Target, host_target
from intaglio.targets.c.toolchain import RefusedError

Progress = Callable[[int, int], None]

SPECIAL_LIMIT = 16
"""How many plans for single sizes an engine keeps."""

PARAMETER_LIMIT = 8
"""How many values of small inputs an engine makes plans for; behind that the host runs the nodes that need them."""

LONG_DRIVER = 150_000
"""Drivers of so many characters are not optimised: that took the compiler up to 20 times as long, and a driver only
computes sizes and calls kernels."""

KERNEL_HEADERS = ("ig.h", "ig_math.h", "ig_loop.h")


class CompiledStep(LoadedSegment):
    """A native segment whose functions are loaded."""

    def __init__(
        self,
        step: NativeStep,
        driver: int,
        kernels: Sequence[int],
        constants: Sequence[int],
        threads: int,
        weights: int = 0,
    ) -> None:
        super().__init__(frame_of(step), driver, kernels, constants, threads, weights, step.late)
        self.step = step

    def _maker(self, place: int) -> str:
        producer = self.step.outputs[place].producer
        return super()._maker(place) + ("" if producer is None else f" of {describe(producer)}")

    def _fits(self, bindings: dict[str, int]) -> bool:
        return fits(given_dims(self.step), bindings)


def frame_of(step: NativeStep) -> Frame:
    """What a run needs of a segment's plan."""
    names = set(step.late)
    results = [
        Result(buffer.name, value.dtype, None, None)
        if buffer.is_late
        else Result(buffer.name, value.dtype, tuple(value.shape), buffer.bytes)
        for value, buffer in zip(step.outputs, step.output_buffers, strict=True)
    ]
    calls = [action.flops for action in walk(step.actions) if isinstance(action, Call)]
    return Frame(
        inputs=len(step.inputs),
        results=tuple(results),
        late=(*step.late_outputs, False) if step.told else tuple(step.late_outputs),
        symbols=tuple(segment_symbols(step)),
        arena=tuple(Room(buffer.name, buffer.bytes) for buffer in step.arena),
        layout=layout(step),
        work=tuple(flops for flops in calls if names.isdisjoint(symbols(flops))),
        is_narrow=any(value.dtype.is_narrow for value in (*step.inputs, *step.outputs)),
        safe=safe_limit(given_dims(step)),
    )


class NativeEngine:
    """A graph compiled for this machine. Safe to run from several threads at once."""

    def __init__(
        self,
        graph: Graph | Held,
        threads: int,
        target: Target | None = None,
        exact: bool = False,
        is_special: bool = False,
    ) -> None:
        self.limits = current()
        self._limit_ns = int((self.limits.time or 0) * 1e9)
        self.held = graph if isinstance(graph, Held) else Held(graph)
        graph = self.held.get()
        self._inputs = signature(graph)
        self.target = target or host_target()
        self.threads = threads
        self.exact = exact
        self.is_special = is_special
        self.steps: list[CompiledStep | HostStep] = []
        self._special: dict[tuple[Any, ...], NativeEngine] = {}
        self._by_sizes: tuple[tuple[dict[str, int], NativeEngine], ...] = ()
        self._by_parameters: dict[tuple[Any, ...], NativeEngine] = {}
        self.host_runs = 0
        """How many nodes the reference engine has run for this engine so far."""
        self._faults = Faults()
        self._make_plan(graph)

    def _make_plan(self, graph: Graph) -> None:
        """Lower the graph; done anew where the compiler refuses some of the C."""
        self.plan: Plan = lower_safely(
            lambda: clone(graph), CBackend(self.target), self._faults, assume=not self.is_special, exact=self.exact
        )
        own_host_constants(self.plan)
        self.constants = self.plan.constants = own_constants(self.plan.constants)
        check_files(graph)
        self._fitting = Fitting(self.plan.requirements)
        self._parameters = [] if self.is_special else parameter_positions(graph, self.plan)
        is_open = any(step.refusal.cause is Cause.SHAPE for step in self.plan.host_steps)
        self._depends_on_shapes = is_open and not self.is_special
        self.bodies = {
            step.node: Bodies(step.node, lambda body: NativeEngine(body, self.threads, self.target, self.exact))
            for step in self.plan.host_steps
            if step.node.op.has("interpret")
        }

    @property
    def graph(self) -> Graph:
        """The graph that the engine runs; made anew where it was let go after loading."""
        return self.held.get()

    def load(self, progress: Progress | None = None) -> NativeEngine:
        """Compile what the cache does not hold, and make the engine ready to run; warns of faults of our own."""
        self._load(self._ensure(progress))
        tell(self.plan.faults)
        for engine in self._body_engines():
            engine.load()
        self._outputs = list(self.plan.outputs)
        self._constants = constant_ids(constants_read_by_host(self.plan))
        self._fast: dict[tuple[tuple[int, ...], ...], Ready] = {}
        self._is_single = self._has_one_segment()
        self._dtypes = [value.dtype.numpy for value in self.plan.inputs] if self._is_single else []
        is_fixed = not (self._parameters or self._depends_on_shapes or self.bodies)
        self._quick = quick_run(self.plan, self._outputs) if is_fixed else None
        self._again: dict[tuple[tuple[int, ...], ...], list[tuple[CompiledStep, Ready]]] = {}
        release_plan(self.plan)
        self.held.let_go()
        return self

    def _has_one_segment(self) -> bool:
        """Whether one call of `invoke` is the whole run, with inputs and outputs in the model's order."""
        if len(self.steps) != 1 or isinstance(self.steps[0], HostStep):
            return False
        step = self.steps[0].step
        return list(step.inputs) == list(self.plan.inputs) and list(step.outputs) == self._outputs

    @property
    def is_plain(self) -> bool:
        """Whether code, constants and sizes are all that a run needs; known once the engine is loaded."""
        return self._is_single and not (self._parameters or self._depends_on_shapes or self.bodies or self.plan.faults)

    def functions(self) -> list[CFunction]:
        """Every C function of the model: its kernels, then the driver of each segment."""
        return self._own_functions() + [each for engine in self._body_engines() for each in engine.functions()]

    def _own_functions(self) -> list[CFunction]:
        """The kernels, then the driver of each segment, without those of bodies."""
        places = {kernel: index for index, kernel in enumerate(self.plan.kernels)}
        found = [kernel_function(kernel) for kernel in self.plan.kernels]
        return found + [driver_function(driver_source(step, places)) for step in self._native_steps()]

    def source_file(self, title: str) -> str:
        """All C of the model as one file that compiles alone, that of compiled bodies of host nodes included."""
        plans = [engine.plan for engine in (self, *self._body_engines())]
        return source_file(title, plans, self.target)

    def all_engines(self) -> list[NativeEngine]:
        """This engine and those that runs have added: for parameters and sizes that need plans of their own."""
        added = [*self._special.values(), *self._by_parameters.values(), *(engine for _, engine in self._by_sizes)]
        return [self, *(engine for other in (*added, *self._body_engines()) for engine in other.all_engines())]

    def _body_engines(self) -> list[NativeEngine]:
        return [engine for bodies in self.bodies.values() for engine in bodies.engines]

    def _native_steps(self) -> list[NativeStep]:
        return [step for step in self.plan.steps if isinstance(step, NativeStep)]

    def _ensure(self, progress: Progress | None) -> list[int]:
        """The addresses of the engine's own functions; nodes whose C the compiler refuses are lowered in other ways."""
        functions = self.functions()
        while True:
            try:
                loaded = cache.ensure(functions, find_compiler(), self.target, progress or _check)
                return [item.address for item in loaded[: len(self._own_functions())]]
            except RefusedError as error:
                functions = self._own_functions()  # those of bodies are the business of their engines
                refused = set(error.functions)
                if not refused.isdisjoint(functions):
                    self._blame(error, [each in refused for each in functions])
                    functions = self.functions()

    def _blame(self, error: RefusedError, is_refused: Sequence[bool]) -> None:
        """Lower the graph anew, with the nodes whose functions were refused treated in a simpler way."""
        kernels = len(self.plan.kernels)
        found = nodes_of_kernels(self.plan, [k for k, bad in zip(self.plan.kernels, is_refused, strict=False) if bad])
        for step, bad in zip(self._native_steps(), is_refused[kernels:], strict=True):
            if bad:
                marked = driver_source(
                    step, {each: place for place, each in enumerate(self.plan.kernels)}, is_marked=True
                )
                found += nodes_of_driver(step, refusal(driver_function(marked), self.target))
        for nodes in dict.fromkeys(found):
            self._faults.add(error, nodes)
        if not found:
            self._faults.add(error)
        self._make_plan(self.held.get())

    def _load(self, loaded: Sequence[int]) -> None:
        kernels = loaded[: len(self.plan.kernels)]
        drivers = iter(loaded[len(kernels) :])
        addresses = [_address(array) for array in self.constants]
        weights = sum(array.nbytes for array in self.constants)
        self.steps = [
            CompiledStep(step, next(drivers), kernels, addresses, self.threads, weights)
            if isinstance(step, NativeStep)
            else step
            for step in self.plan.steps
        ]

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None, into: Into | None = None) -> list[Any]:
        """The graph's outputs for arrays in the order of its inputs."""
        if self._is_single:
            fast = self._fast.get(tuple([array.shape for array in inputs]))
            if fast is not None and all(array.flags.c_contiguous for array in inputs):
                return self._run_fast(fast, inputs, deadline, into)
        bindings: dict[str, int] = {}
        for value, array in zip(self._inputs, inputs, strict=True):
            if isinstance(value.type, TensorType) and array is not None:
                bind(value.type.shape, array.shape, bindings, f"input {value.name!r}")
        if self._parameters:
            engine = self._for_parameters(inputs)
            if engine is not None:
                kept = [array for place, array in enumerate(inputs) if place not in self._parameters]
                return self._count(engine, kept, deadline)
        if self._depends_on_shapes:
            return self._count(self._for_ranks(inputs, bindings), inputs, deadline)
        try:
            return self._run_steps(inputs, dict(bindings), deadline, into)
        except _AssumptionError:
            return self._count(self._specialised(inputs), inputs, deadline)
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
            return self._count(self._specialised(inputs), inputs, deadline)
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

    def _for_parameters(self, inputs: Sequence[Any]) -> NativeEngine | None:
        """The engine for the values of the parameter inputs; None once there were too many different ones."""
        arrays = [inputs[place] for place in self._parameters]
        key = tuple([(array.shape, array.tobytes()) for array in arrays])
        found = self._by_parameters.get(key)
        if found is None and len(self._by_parameters) < PARAMETER_LIMIT:
            graph = with_parameters(self.graph, self._parameters, inputs)
            found = NativeEngine(graph, self.threads, self.target, self.exact).load()
            self._by_parameters[key] = found
        return found

    def _run_steps(
        self, inputs: Sequence[Any], bindings: dict[str, int], deadline: Deadline | None, into: Into | None = None
    ) -> list[Any]:
        known: dict[Value, Any] = dict(zip(self.plan.inputs, inputs, strict=True))
        targets = {} if into is None else dict(zip(self._outputs, into, strict=True))
        self._check_assumptions(bindings)
        if self._is_single:
            self._remember(inputs, bindings)
        if deadline is not None:
            deadline.check()
        for step in self.steps:
            if isinstance(step, HostStep):
                self._run_host(step, known, bindings, deadline)
            else:
                places = [targets.get(value) for value in step.step.outputs] if targets else None
                self._run_native(step, known, bindings, deadline, inputs, places)
        if self._quick is not None:
            self._remember_steps(inputs, bindings)
        outputs = [value.constant if value.constant is not None else known[value] for value in self._outputs]
        return owned(outputs, inputs, self._constants)

    def _remember_steps(self, inputs: Sequence[Any], bindings: dict[str, int]) -> None:
        """Keep the segments as they are prepared for sizes with which a whole run has gone well."""
        if len(self._again) >= PREPARED_LIMIT:
            self._again.clear()
        steps = [step for step in self.steps if isinstance(step, CompiledStep)]
        self._again[tuple([array.shape for array in inputs])] = [(step, _ready(step, bindings)) for step in steps]

    def _check_assumptions(self, bindings: dict[str, int]) -> None:
        for left, right in self.plan.assumptions:
            if symbols(left) | symbols(right) <= bindings.keys() and evaluate(left, bindings) != evaluate(
                right, bindings
            ):
                raise _AssumptionError
        broken = self._fitting.broken(bindings)
        if broken is not None:
            raise ShapeError(broken.message) if self.is_special else _AssumptionError(broken.message)

    def _specialised(self, inputs: Sequence[Any]) -> NativeEngine:
        """The engine for just these input sizes: where an assumption fails, or ranks depend on sizes.

        Sizes that do not fit each other have none, and the type rule that they break says so.
        """
        key = tuple([getattr(array, "shape", None) for array in inputs])
        if key not in self._special:
            graph = with_sizes(self.graph, inputs)
            if len(self._special) >= SPECIAL_LIMIT:
                self._special.clear()
            self._special[key] = NativeEngine(graph, self.threads, self.target, self.exact, is_special=True).load()
        return self._special[key]

    def _for_ranks(self, inputs: Sequence[Any], bindings: dict[str, int]) -> NativeEngine:
        """The engine for those input sizes that ranks depend on, with the others open where that is possible."""
        for sizes, engine in self._by_sizes:
            if all(bindings[name] == size for name, size in sizes.items()):
                return engine
        names = decisive_sizes(self.graph, inputs)
        if not names:
            return self._specialised(inputs)
        engine = NativeEngine(with_sizes(self.graph, inputs, names), self.threads, self.target, self.exact).load()
        kept = self._by_sizes[1 - SPECIAL_LIMIT :]
        self._by_sizes = (*kept, ({name: bindings[name] for name in names}, engine))
        return engine

    def _remember(self, inputs: Sequence[Any], bindings: dict[str, int]) -> None:
        step = self.steps[0]
        assert isinstance(step, CompiledStep)
        if len(self._fast) >= PREPARED_LIMIT:
            self._fast.clear()
        self._fast[tuple([array.shape for array in inputs])] = _ready(step, bindings)

    def forget_sizes(self) -> None:
        """Keep no plan of memory for the sizes that were run before."""
        for engine in self.all_engines():
            engine._fast.clear()
            engine._again.clear()
            for step in engine.steps:
                if isinstance(step, CompiledStep):
                    step.forget_sizes()

    def run_again(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs where these arrays need no check, conversion or preparation any more; None where they do."""
        if self._quick is not None:
            return self._run_quick(self._quick, inputs)
        if not self._is_single:
            return None
        for array, dtype in zip(inputs, self._dtypes, strict=True):
            if type(array) is not np.ndarray or array.dtype != dtype or not array.flags.c_contiguous:
                return None
        fast = self._fast.get(tuple([array.shape for array in inputs]))
        return None if fast is None else self._run_fast(fast, inputs, None)

    def _run_quick(self, quick: QuickRun, inputs: Sequence[Any]) -> list[Any] | None:
        """All steps without checks, for sizes seen before."""
        if not quick.takes(inputs):
            return None
        segments = self._again.get(tuple([array.shape for array in inputs]))
        outputs = None if segments is None else quick.run(inputs, segments, self._limit_ns)
        if outputs is None:
            return None
        self.host_runs += quick.host_nodes
        return outputs

    def _run_fast(
        self, fast: Ready, inputs: Sequence[Any], deadline: Deadline | None, into: Into | None = None
    ) -> list[Any]:
        """One segment, shapes seen before: allocate and call."""
        time = self._limit_ns if deadline is None else deadline.remaining()
        step = self.steps[0]
        assert isinstance(step, CompiledStep)
        try:
            status, outputs = step.call(fast, inputs, time, (), into)
        except MemoryError as error:
            raise _refusal(error, step.step) from None
        if status:
            try:
                self._raise(status, step.step, inputs, deadline)
            except _AssumptionError:
                return self._count(self._specialised(inputs), inputs, deadline)
            except SizeOverflowError as error:
                return self._run_apart(error, inputs, deadline)
            except _RefutedError as refuted:
                return self._take(refuted)
        return outputs

    def _run_host(
        self, step: HostStep, known: dict[Value, Any], bindings: dict[str, int], deadline: Deadline | None
    ) -> None:
        self.host_runs += 1
        node = step.node
        bodies = self.bodies.get(node)
        run_body = None if bodies is None else bodies.runner(known, deadline)
        results = run_node(node, known, None if deadline is None else deadline.check, run_body)
        for value, result in zip(node.outputs, results, strict=False):
            known[value] = result
            if isinstance(value.type, TensorType) and result is not None:
                self._bind_result(value, step.inferred.get(value), result, bindings)
        self._check_assumptions(bindings)

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
        step: CompiledStep,
        known: dict[Value, Any],
        bindings: dict[str, int],
        deadline: Deadline | None,
        inputs: Sequence[Any],
        into: Into | None,
    ) -> None:
        ready, segment = _ready(step, bindings), step.step
        arrays = [exportable(known[value]) for value in segment.inputs]
        told = np.empty(segment.told, np.int64)
        time = 0 if deadline is None else deadline.remaining()
        try:
            status, outputs = step.call(ready, arrays, time, [told] if segment.told else [], into)
        except MemoryError as error:
            raise _refusal(error, segment) from None
        if status:
            self._raise(status, segment, inputs, deadline)
        known.update(zip(segment.outputs, outputs, strict=True))
        bindings.update(zip(segment.late, told.tolist(), strict=False))

    def _raise(self, status: int, step: NativeStep, inputs: Sequence[Any], deadline: Deadline | None) -> None:
        if status == 1:
            raise (deadline or Deadline(self.limits.time or 0, 0)).error()
        if status == ASSUMPTION:
            raise _AssumptionError
        if status == OVERFLOW:
            raise SizeOverflowError(is_late=True)
        if status == REQUIREMENT:
            evaluate_graph(self.graph, inputs)
            message = "sizes that the data decides do not fit each other"
            raise ShapeError(message) if self.is_special else _AssumptionError(message)
        if status == ROUNDS:
            raise LimitError(
                f"a loop runs more than {self.limits.loop_iterations} rounds, the limit on loop_iterations"
            )
        action = list(walk(step.actions))[status - FAULT]
        results = evaluate_graph(self.graph, inputs)
        names = ", ".join(node.op.name for node in action.nodes)
        raise _RefutedError(results, OperatorError(f"{names} met a value at run time that its definition forbids"))


def _refusal(error: MemoryError, step: NativeStep) -> MemoryError:
    """The error for memory that a driver did not get: which node asked for it, and for how much."""
    if isinstance(error, LimitError) or len(error.args) != 2:
        return error
    status, size = error.args
    actions = list(walk(step.actions))[status - FAULT :] if status >= FAULT else []
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


def _ready(step: CompiledStep, bindings: dict[str, int]) -> Ready:
    try:
        return step.ready(bindings)
    except SizeOverflowError:
        raise
    except Exception as error:
        if not is_fault(error):
            raise
        raise SizeFaultError(error) from error


def driver_function(source: str) -> CFunction:
    """A driver as a function of the cache."""
    return CFunction("driver", source, "-O1" if len(source) < LONG_DRIVER else "-O0", ("ig.h",))


def refusal(function: CFunction, target: Target) -> str:
    """What the compiler says of a function that it refuses; nothing where it takes it."""
    try:
        cache.ensure([function], find_compiler(), target)
    except CompileError as error:
        return str(error)
    return ""


def kernel_function(kernel: Kernel) -> CFunction:
    """A kernel as a function of the cache."""
    return CFunction(kernel.hint, kernel.source, "-O3", KERNEL_HEADERS)


def _address(array: Array) -> int:
    return exportable(array).ctypes.data
