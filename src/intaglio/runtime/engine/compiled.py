"""Plans as compiled C: the executor of the C target, and segments whose functions are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.errors import CompileError
from intaglio.ir.dim import symbols
from intaglio.ir.graph import Node
from intaglio.ir.op import Array
from intaglio.kernels.arena import layout
from intaglio.kernels.in_place import commits, first_write
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.overflow import fits, safe_limit
from intaglio.kernels.plan import Call, HostNode, Plan, Segment, walk
from intaglio.kernels.repair import nodes_of_driver, nodes_of_kernels
from intaglio.kernels.segment_sizes import given_dims, segment_symbols
from intaglio.ops.evaluate import describe
from intaglio.runtime.engine.engine import Progress
from intaglio.runtime.engine.executor import RefusedPlanError
from intaglio.runtime.engine.segment import Frame, LoadedSegment, Result, Room, exportable
from intaglio.targets.c import cache
from intaglio.targets.c.cache import CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.driver import driver_source
from intaglio.targets.c.kernel_source import kernel_source
from intaglio.targets.c.source_file import HEADERS, source_file
from intaglio.targets.c.target import Target, host_target
from intaglio.targets.c.target_rules import CRules
from intaglio.targets.c.toolchain import RefusedError

LONG_DRIVER = 150_000
"""Drivers of so many characters are not optimised: that took the compiler up to 20 times as long, and a driver only
computes sizes and calls kernels."""


class CompiledSegment(LoadedSegment):
    """A native segment whose functions are loaded."""

    def __init__(
        self,
        segment: Segment,
        driver: int,
        kernels: Sequence[int],
        constants: Sequence[int],
        threads: int,
        weights: int = 0,
    ) -> None:
        super().__init__(frame_of(segment), driver, kernels, constants, threads, weights, segment.late)
        self.segment = segment

    def _maker(self, place: int) -> str:
        producer = self.segment.outputs[place].producer
        return super()._maker(place) + ("" if producer is None else f" of {describe(producer)}")

    def _fits(self, bindings: dict[str, int]) -> bool:
        return fits(given_dims(self.segment), bindings)


def frame_of(segment: Segment) -> Frame:
    """What a run needs of a segment's plan."""
    names = set(segment.late)
    results = [
        Result(buffer.name, value.dtype, None, None)
        if buffer.is_late
        else Result(buffer.name, value.dtype, tuple(value.shape), buffer.bytes)
        for value, buffer in zip(segment.outputs, segment.output_buffers, strict=True)
    ]
    calls = [action.flops for action in walk(segment.actions) if isinstance(action, Call)]
    return Frame(
        inputs=len(segment.inputs),
        results=tuple(results),
        late=(*segment.late_outputs, False) if segment.told else tuple(segment.late_outputs),
        symbols=tuple(segment_symbols(segment)),
        arena=tuple(Room(buffer.name, buffer.bytes) for buffer in segment.arena),
        layout=layout(segment),
        work=tuple(flops for flops in calls if names.isdisjoint(symbols(flops))),
        is_narrow=any(value.dtype.is_narrow for value in (*segment.inputs, *segment.outputs)),
        safe=safe_limit(given_dims(segment)),
        aliases=tuple((alias.output, alias.input) for alias in segment.aliases),
        first_write=first_write(segment) if segment.aliases and not commits(segment) else -1,
    )


class CExecutor:
    """Plans as C, compiled for one target; see `Executor`."""

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or host_target()

    @property
    def rules(self) -> CRules:
        """What lowering asks of C."""
        return CRules(self.target)

    def functions(self, plan: Plan) -> list[CFunction]:
        """The kernels of a plan, then the driver of each segment."""
        return functions_of(plan)

    def ensure(self, plans: Sequence[Plan], progress: Progress) -> list[int]:
        """Have the functions of these plans compiled; the addresses of those of the first."""
        own = functions_of(plans[0])
        functions = own + [function for plan in plans[1:] for function in functions_of(plan)]
        try:
            loaded = cache.ensure(functions, find_compiler(), self.target, progress)
        except RefusedError as error:
            raise RefusedPlanError(error, self._refused(plans[0], own, set(error.functions))) from error
        return [item.address for item in loaded[: len(own)]]

    def _refused(
        self, plan: Plan, functions: Sequence[CFunction], refused: set[CFunction]
    ) -> list[tuple[Node, ...]] | None:
        """The nodes that refused functions of a plan serve."""
        if refused.isdisjoint(functions):
            return None
        is_refused = [function in refused for function in functions]
        found = nodes_of_kernels(plan, [k for k, bad in zip(plan.kernels, is_refused, strict=False) if bad])
        places = {kernel: place for place, kernel in enumerate(plan.kernels)}
        for segment, bad in zip(segments_of(plan), is_refused[len(places) :], strict=True):
            if bad:
                marked = driver_source(segment, places, is_marked=True)
                found += nodes_of_driver(segment, refusal(driver_function(marked), self.target))
        return found

    def parts(
        self, plan: Plan, loaded: Sequence[int], constants: Sequence[Array], threads: int
    ) -> list[CompiledSegment | HostNode]:
        """The segments of a plan, with the addresses of its kernels and then of its drivers."""
        kernels = loaded[: len(plan.kernels)]
        drivers = iter(loaded[len(kernels) :])
        addresses = [_address(array) for array in constants]
        weights = sum(array.nbytes for array in constants)
        return [
            CompiledSegment(part, next(drivers), kernels, addresses, threads, weights)
            if isinstance(part, Segment)
            else part
            for part in plan.parts
        ]

    def source_file(self, title: str, plans: Sequence[Plan]) -> str:
        """All C of some plans as one file that compiles alone."""
        return source_file(title, plans, self.target)


def functions_of(plan: Plan) -> list[CFunction]:
    """The kernels of a plan, then the driver of each segment."""
    places = {kernel: index for index, kernel in enumerate(plan.kernels)}
    found = [kernel_function(kernel) for kernel in plan.kernels]
    return found + [driver_function(driver_source(segment, places)) for segment in segments_of(plan)]


def segments_of(plan: Plan) -> list[Segment]:
    """The segments of a plan."""
    return [part for part in plan.parts if isinstance(part, Segment)]


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
    return CFunction(kernel.hint, kernel_source(kernel), "-O3", HEADERS)


def _address(array: Array) -> int:
    return exportable(array).ctypes.data
