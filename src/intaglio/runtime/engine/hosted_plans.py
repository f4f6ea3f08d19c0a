"""Which plans with host nodes can be run without checks, and the parts of those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from intaglio.ir.dim import symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.resize import type_symbols
from intaglio.ir.types import TensorType, Type
from intaglio.kernels.frame import Frame
from intaglio.kernels.plan_form import HostForm, PlanForm
from intaglio.runtime.engine.binding import lone_symbol
from intaglio.runtime.engine.host_steps import HostStep
from intaglio.runtime.engine.hosted_runs import Hosted, HostedRun, HostPart, NativePart, is_ready_made
from intaglio.runtime.engine.outline import Outline


def hosted_run(form: PlanForm, hosts: Sequence[HostStep], outline: Outline) -> HostedRun | None:
    """How a plan is run without checks; None where it has no host node, or one whose results need checks.

    The outline's inputs are those of the graph, whose sizes a run binds; the plan's may have been assumed to be equal.
    """
    types = {value.id: value.type for value in form.values}
    if any(not isinstance(types[name], TensorType) for name in form.inputs) or not hosts:
        return None
    made = {name for part in form.parts for name in part.outputs}
    is_own = all(name in made for name in form.outputs) and len(set(form.outputs)) == len(form.outputs)
    if not is_own or not all(is_plain(host.node) for host in hosts):
        return None
    found = _Parts(form, hosts, outline)
    return HostedRun(found.hosted(), [host.node for host in hosts]) if found.fits() else None


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

    def __init__(self, form: PlanForm, hosts: Sequence[HostStep], outline: Outline) -> None:
        self.form = form
        self.hosts = hosts
        self.outline = outline
        self.known = {name for port in outline.inputs for name in _lone_symbols(port.type)}
        self._needs = [set(frame.needs()) for frame in outline.frames]
        self._needed = self.known.union(*self._needs)
        self._places = {name: place for place, name in enumerate(form.inputs)}
        self._types = {value.id: value.type for value in form.values}

    def fits(self) -> bool:
        """Whether the sizes of the inputs, and those that host nodes tell, are all that is asked for."""
        told = self.known | {name for host in self.hosts for _, _, name in _sizes(host)}
        asked = {name for pair in self.form.assumptions for dim in pair for name in symbols(dim)}
        asked |= {name for each in self.form.requirements for name in each.symbols}
        is_early = not any(frame.told or any(frame.late) for frame in self.outline.frames)
        return is_early and asked <= self.known and all(needs <= told for needs in self._needs)

    def hosted(self) -> Hosted:
        """The parts."""
        frames, hosts = iter(zip(self.outline.frames, self._needs, strict=True)), iter(self.hosts)
        made = tuple(
            [self._host(next(hosts)) if isinstance(part, HostForm) else self._native(*next(frames))
             for part in self.form.parts]
        )  # fmt: skip
        texts = [place for place, name in enumerate(self.form.inputs) if _is_text(self._types[name])]
        places = tuple([(self._places[name], self._is_view(name)) for name in self.form.outputs])
        return Hosted(made, len(self._places), places, tuple(texts))

    def _is_view(self, name: str) -> bool:
        """Whether a result may be another array in other sizes: such of host nodes that were not made ready."""
        makers = [host.node.op for host in self.hosts if name in host.form.outputs]
        return any(op.keeps_order or not op.has("prepare") for op in makers)

    def _place(self, name: str) -> int:
        return self._places.setdefault(name, len(self._places))

    def _host(self, host: HostStep) -> HostPart:
        node = host.node
        operands = [self._places[value.id] for value in node.inputs if value is not None and value.constant is None]
        told = [] if _tells_no_sizes(host) else list(dict.fromkeys(_sizes(host)))
        sizes = tuple([each for each in told if each[2] in self._needed])  # those that only host nodes have do no harm
        return HostPart(tuple(operands), tuple([self._place(name) for name in host.form.outputs]), sizes)

    def _native(self, frame: Frame, needs: set[str]) -> NativePart:
        inputs = tuple([self._places[name] for name in frame.inputs])
        return NativePart(inputs, tuple([self._place(name) for name in frame.outputs]), not needs <= self.known)


def _is_text(type: Type) -> bool:
    return isinstance(type, TensorType) and type.dtype.kind == "string"


def _tells_no_sizes(host: HostStep) -> bool:
    """Whether the sizes of a host node's result follow from those of its operands."""
    node, inferred = host.node, host.form.inferred
    known = {name for value in node.inputs if value is not None for name in type_symbols(value.type)}
    for value in node.outputs:
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        if not type_symbols(value.type) <= known or inferred.get(value.id) not in (None, shape):
            return False
    return is_ready_made(node)


def _sizes(host: HostStep) -> Iterator[tuple[int, int, str]]:
    """The sizes of a host node's results that are symbols, also as its own rule gives them."""
    for place, value in enumerate(host.node.outputs):
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        for dims in (shape or (), host.form.inferred.get(value.id) or ()):
            for axis, dim in enumerate(dims):
                name = lone_symbol(dim)
                if name is not None:
                    yield place, axis, name


def _lone_symbols(type: Type) -> Iterator[str]:
    shape = type.shape if isinstance(type, TensorType) else None
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
