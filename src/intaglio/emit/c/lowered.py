"""A graph as one segment of C, or the reasons why it is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from intaglio.emit.c.memory import Memory, plan_memory
from intaglio.emit.c.options import COptions
from intaglio.emit.names import comment
from intaglio.errors import UnsupportedError
from intaglio.ir.clone import clone
from intaglio.ir.dim import Dim, symbols
from intaglio.ir.graph import Graph, Value
from intaglio.ir.substitution import substitute
from intaglio.ir.types import TensorType
from intaglio.kernels.elements import is_computable
from intaglio.kernels.faults import Faults
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.plan import Action, Branch, Call, Plan, Repeat, Segment, walk
from intaglio.kernels.repair import lower_safely
from intaglio.kernels.segment_sizes import segment_symbols
from intaglio.kernels.target_rules import TargetRules
from intaglio.targets.c.target_rules import CRules
from intaglio.targets.plain.one_lane import has_parameters
from intaglio.targets.plain.target_rules import PlainRules


@dataclass
class Lowered:
    """A model that is one segment: its plan, the segment, the sizes that the caller gives, and where all lies."""

    graph: Graph
    plan: Plan
    segment: Segment
    sizes: list[str]
    memory: Memory
    outputs: list[str]
    """The names of the outputs in the model."""


def lower_model(graph: Graph, options: COptions, outputs: list[str]) -> Lowered:
    """The plan of a graph; raises UnsupportedError with all nodes that C has no words for."""
    _refuse_types(graph)
    rules: TargetRules = CRules(options.machine) if options.is_fast else PlainRules()
    plan = lower_safely(lambda: clone(graph), rules, Faults(), exact=not options.is_fast)
    if plan.host_nodes:
        lines = [f"{len(plan.host_nodes)} nodes cannot be said in C:"]
        for host in plan.host_nodes[:20]:
            lines.append(f"  {host.node.op.name} at {comment(str(host.node.origin))}: {comment(str(host.refusal))}")
        raise UnsupportedError("\n".join(lines))
    segments = [part for part in plan.parts if isinstance(part, Segment)]
    segment = segments[0] if segments else Segment()
    _settle_threads(segment, options.threads)
    _drop_idle(segment.actions)
    if not options.is_fast:
        _split_by_sizes(segment)
    missing = [value for value in plan.outputs if value not in segment.outputs]
    if missing:
        raise UnsupportedError(f"the output {comment(missing[0].name)} cannot be said in C: {missing[0].type}")
    sizes = _given_sizes(graph, plan, segment)
    memory = plan_memory(segment, options.alignment, options.threads, options.heap)
    return Lowered(graph, plan, segment, sizes, memory, outputs)


def _given_sizes(graph: Graph, plan: Plan, segment: Segment) -> list[str]:
    """The sizes that the caller gives: those of the plan's inputs, and others of the model's that the segment reads."""
    used = set(segment_symbols(segment)).union(*(_sizes_of(value) for value in plan.inputs))
    inputs = [*plan.inputs, *graph.inputs]
    return list(dict.fromkeys(name for value in inputs for name in sorted(_sizes_of(value)) if name in used))


def _settle_threads(segment: Segment, threads: int) -> None:
    """Put the number of threads into all sizes."""
    for action in walk(segment.actions):
        if isinstance(action, Call):
            action.sizes = [(name, substitute(size, {}, threads)) for name, size in action.sizes]
            action.tasks, action.cost, action.scratch = (
                substitute(size, {}, threads) for size in (action.tasks, action.cost, action.scratch)
            )


def _drop_idle(actions: list[Action]) -> None:
    """Leave out calls that have nothing to do."""
    for action in actions:
        for block in action.blocks if isinstance(action, (Branch, Repeat)) else ():
            _drop_idle(block)
    actions[:] = [
        each for each in actions if not (isinstance(each, Call) and isinstance(each.tasks, int) and each.tasks <= 0)
    ]


FEW_SIZES = 2
"""A kernel for up to so many sets of sizes is a function for each, in which they are numbers."""


def _split_by_sizes(segment: Segment) -> None:
    calls: dict[Kernel, dict[tuple[tuple[str, Dim], ...], list[Call]]] = {}
    for action in walk(segment.actions):
        if isinstance(action, Call) and has_parameters(action.kernel):
            calls.setdefault(action.kernel, {}).setdefault(tuple(action.sizes), []).append(action)
    for kernel, by_sizes in calls.items():
        are_known = all(isinstance(size, int) for sizes in by_sizes for _, size in sizes)
        if are_known and 1 < len(by_sizes) <= FEW_SIZES:
            for sizes, group in by_sizes.items():
                own = replace(kernel, fixed=tuple((name, size) for name, size in sizes if isinstance(size, int)))
                for call in group:
                    call.kernel = own


def _refuse_types(graph: Graph) -> None:
    for value in (*graph.inputs, *graph.outputs):
        if not isinstance(value.type, TensorType) or not is_computable(value.type.dtype):
            raise UnsupportedError(f"{comment(value.name)} is {value.type}, which C has no words for")
    for value in graph.inputs:
        if value.tensor.shape is None:
            raise UnsupportedError(f"the rank of the input {comment(value.name)} is not known")


def _sizes_of(value: Value) -> set[str]:
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    return set[str]().union(*(symbols(dim) for dim in shape or ()))


def shape_text(shape: Sequence[Dim]) -> str:
    """A shape for people."""
    return "[" + ", ".join(map(str, shape)) + "]"
