"""Which plans with host nodes can be run without checks, and the parts of those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from intaglio.ir.dim import symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.resize import type_symbols
from intaglio.ir.types import TensorType
from intaglio.kernels.plan import HostNode, Plan
from intaglio.runtime.engine.binding import lone_symbol
from intaglio.runtime.engine.compiled import CompiledSegment
from intaglio.runtime.engine.hosted_runs import Hosted, HostedRun, HostPart, NativePart, is_ready_made


def hosted_run(
    plan: Plan, parts: Sequence[CompiledSegment | HostNode], inputs: Sequence[Value], outputs: Sequence[Value]
) -> HostedRun | None:
    """How a plan is run without checks; None where it has no host node, or one whose results need checks.

    `inputs` are those of the graph, whose sizes a run binds; the plan's may have been assumed to be equal.
    """
    if any(not isinstance(value.type, TensorType) for value in plan.inputs) or not plan.host_nodes:
        return None
    made = {
        value for part in plan.parts for value in (part.node.outputs if isinstance(part, HostNode) else part.outputs)
    }
    is_own = all(value in made for value in outputs) and len(set(outputs)) == len(outputs)
    if not is_own or not all(is_plain(part.node) for part in plan.host_nodes):
        return None
    found = _Parts(plan, {name for value in inputs for name in _lone_symbols(value)})
    return (
        HostedRun(found.hosted(parts, outputs), [part.node for part in plan.host_nodes]) if found.fits(parts) else None
    )


def is_plain(node: Node) -> bool:
    """Whether a node's results are all that a run needs of it: tensors of strings made of tensors, or maps at the end.

    What it computes on numbers may have to be checked, and is not worth it: such nodes are compiled.
    """
    op = node.op
    if op.has("interpret") or op.host_reason or op.is_random or next(op.subgraphs(), None) is not None:
        return False
    given = [value for value in node.inputs if value is not None]
    if None in node.inputs[: len(given)] or any(not isinstance(value.type, TensorType) for value in given):
        return False
    if op.name == "ZipMap":
        return True
    is_tensor = all(isinstance(value.type, TensorType) and value.type.shape for value in node.outputs)
    return is_tensor and (is_ready_made(node) or _has_text((*given, *node.outputs)))


def _has_text(values: Sequence[Value]) -> bool:
    return any(isinstance(value.type, TensorType) and value.dtype.kind == "string" for value in values)


class _Parts:
    """The parts of a plan, each with the places of what it reads and writes."""

    def __init__(self, plan: Plan, known: set[str]) -> None:
        self.plan = plan
        self.known = known
        self._needed = known
        self._places: dict[Value, int] = {value: place for place, value in enumerate(plan.inputs)}

    def fits(self, parts: Sequence[CompiledSegment | HostNode]) -> bool:
        """Whether the sizes of the inputs, and those that host nodes tell, are all that is asked for."""
        told = self.known | {name for part in self.plan.host_nodes for _, _, name in _sizes(part)}
        asked = {name for pair in self.plan.assumptions for dim in pair for name in symbols(dim)}
        asked |= {name for each in self.plan.requirements for name in each.symbols}
        segments = [part for part in parts if isinstance(part, CompiledSegment)]
        is_early = not any(each.segment.told or any(each.segment.late_outputs) for each in segments)
        return is_early and asked <= self.known and all(_needs(each) <= told for each in segments)

    def hosted(self, parts: Sequence[CompiledSegment | HostNode], outputs: Sequence[Value]) -> Hosted:
        """The parts."""
        segments = [part for part in parts if isinstance(part, CompiledSegment)]
        self._needed = self.known.union(*map(_needs, segments))
        made = tuple([self._host(part) if isinstance(part, HostNode) else self._native(part) for part in parts])
        texts = tuple([place for place, value in enumerate(self.plan.inputs) if value.dtype.kind == "string"])
        places = tuple([(self._places[value], self._is_view(value)) for value in outputs])
        return Hosted(made, len(self._places), places, texts)

    def _is_view(self, value: Value) -> bool:
        """Whether a result may be another array in other sizes: such of host nodes that were not made ready."""
        makers = [part.node.op for part in self.plan.host_nodes if value in part.node.outputs]
        return any(op.keeps_order or not op.has("prepare") for op in makers)

    def _place(self, value: Value) -> int:
        return self._places.setdefault(value, len(self._places))

    def _host(self, part: HostNode) -> HostPart:
        node = part.node
        operands = [self._places[value] for value in node.inputs if value is not None and value.constant is None]
        told = [] if _tells_no_sizes(part) else list(dict.fromkeys(_sizes(part)))
        sizes = tuple([each for each in told if each[2] in self._needed])  # those that only host nodes have do no harm
        return HostPart(tuple(operands), tuple([self._place(value) for value in node.outputs]), sizes)

    def _native(self, part: CompiledSegment) -> NativePart:
        segment = part.segment
        inputs = tuple([self._places[value] for value in segment.inputs])
        is_open = not _needs(part) <= self.known
        return NativePart(inputs, tuple([self._place(value) for value in segment.outputs]), is_open)


def _needs(part: CompiledSegment) -> set[str]:
    """The sizes that a segment must be given: all but those that it finds out for itself."""
    return set(part.frame.all_symbols(part.segment.late))


def _tells_no_sizes(part: HostNode) -> bool:
    """Whether the sizes of a host node's result follow from those of its operands."""
    known = {name for value in part.node.inputs if value is not None for name in type_symbols(value.type)}
    for value in part.node.outputs:
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        if not type_symbols(value.type) <= known or part.inferred.get(value) not in (None, shape):
            return False
    return is_ready_made(part.node)


def _sizes(part: HostNode) -> Iterator[tuple[int, int, str]]:
    """The sizes of a host node's results that are symbols, also as its own rule gives them."""
    for place, value in enumerate(part.node.outputs):
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        for dims in (shape or (), part.inferred.get(value) or ()):
            for axis, dim in enumerate(dims):
                name = lone_symbol(dim)
                if name is not None:
                    yield place, axis, name


def _lone_symbols(value: Value) -> Iterator[str]:
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    for dim in shape or ():
        name = lone_symbol(dim)
        if name is not None:
            yield name


def host_graph(nodes: Sequence[Node]) -> Graph:
    """A graph of these nodes, each with operands and results of its own."""
    graph = Graph("hosts")
    for node in nodes:
        inputs = [None if value is None else _copy(value, graph) for value in node.inputs]
        copy = Node(node.op, inputs, node.origin)
        copy.outputs = tuple([Value(graph.unique_name("r"), value.type, copy) for value in node.outputs])
        graph.insert(copy)
    graph.set_outputs([value for node in graph.nodes for value in node.outputs])
    return graph


def _copy(value: Value, graph: Graph) -> Value:
    copy = Value(graph.unique_name("v"), value.type, constant=value.constant)
    if value.constant is None:
        graph.inputs.append(copy)
    return copy
