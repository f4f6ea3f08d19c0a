"""Lowering: from a simplified graph to a plan of native segments and host nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intaglio.ir.dim import Dim, Symbol, equal, lone_atom, select, symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.limits import check_time
from intaglio.ir.requirements import Requirement
from intaglio.ir.types import TensorType
from intaglio.kernels.arena import replaceable
from intaglio.kernels.assume import Assumptions
from intaglio.kernels.context import Context, make_constants
from intaglio.kernels.control import CONTROL, body_symbols, lower_control, nested_graphs, refuse_control
from intaglio.kernels.elements import is_computable
from intaglio.kernels.elementwise import handles
from intaglio.kernels.epilogue import Epilogue, rows_and_columns
from intaglio.kernels.faults import Faults, blaming
from intaglio.kernels.fused import FusedNodes, reads
from intaglio.kernels.fusion import Group, Kind, form_groups, is_loop_node, open_axes
from intaglio.kernels.layout import choose_layouts
from intaglio.kernels.legalise import is_all_known, legalise
from intaglio.kernels.plan import NOTHING, REQUIREMENT, Check, Donation, Fill, Operand, Plan, Segment
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.require import Requirements, find_requirements
from intaglio.kernels.target_rules import TargetRules, late_rule, own_rule
from intaglio.kernels.view import View
from intaglio.kernels.views import VIEWS, is_view
from intaglio.passes import PIPELINE, simplify

CLEANUP = tuple(
    each
    for each in PIPELINE
    if each.name in ("dead-code", "fold-shapes", "fold-constants", "remove-noops", "common-subexpressions")
)
"""What expansions and layouts leave behind is tidied by the passes that change no rounding."""


def lower(
    graph: Graph,
    rules: TargetRules,
    *,
    assume: bool = True,
    exact: bool = False,
    faults: Faults | None = None,
    donation: Donation = NOTHING,
) -> Plan:
    """The plan of a graph, which is changed on the way: composite operators are expanded in place.

    With `assume`, dimensions that may or may not be broadcast are taken to be equal, and the plan says which. With
    `exact`, kernels that round more than a plain sum (Winograd's) are not used. `faults` tells of nodes that could not
    be lowered before; `donation` which outputs are to take the memory of inputs. Raises LoweringError where nodes
    cannot be lowered.
    """
    faults = faults or Faults()
    assume = assume and not faults.is_plain

    simplify(graph, pipeline=CLEANUP)
    requirements: Requirements = {}
    find_requirements(graph, requirements)
    assumptions = Assumptions()
    if assume:
        assumptions.settle(graph)
    for each in (graph, *nested_graphs(graph)):
        legalise(each, faults, rules)
    if assume:
        assumptions.settle(graph)
    find_requirements(graph, requirements)
    tidy(graph, assumptions)
    if not faults.is_plain:
        choose_layouts(graph, rules)
        tidy(graph, assumptions)
    context = Context(rules, exact, assumptions=assumptions.pairs, inferred=assumptions.inferred, faults=faults)
    context.donated = [(graph.inputs[given], graph.outputs[made]) for given, made in donation.pairs]
    context.is_atomic = donation.is_atomic
    plan = _Lowering(graph, context, requirements).plan()
    plan.assumptions = assumptions.pairs
    plan.apart = _apart(plan, context, donation)
    return plan


def _apart(plan: Plan, context: Context, donation: Donation) -> list[tuple[int, int, str]]:
    """The outputs that do not take the memory that they were to take, and why."""
    parts = [part for part in plan.parts if isinstance(part, Segment)]
    shared = {(alias.input, alias.output) for part in parts for alias in part.aliases}
    reason = "nodes between are not compiled" if len(plan.parts) != 1 else "the input and the output are no memory"
    return [
        (made, given, context.apart.get(plan.outputs[made], reason))
        for given, made in donation.pairs
        if (given, made) not in shared
    ]


def tidy(graph: Graph, assumptions: Assumptions) -> None:
    """Simplify behind the assumptions. Nodes that find out sizes stay: what was assumed of those must be checked."""
    simplify(graph, pipeline=CLEANUP, stays=lambda node: _tells_sizes(node, assumptions.inferred))
    assumptions.rewrite(graph)


def _tells_sizes(node: Node, inferred: Mapping[Value, tuple[Dim, ...]]) -> bool:
    """Whether a result has a size that no operand has."""
    operands = [value for value in (*node.inputs, *node.captures()) if value is not None]
    known = set[str]().union(*(_symbols_of(value) | _symbols_in(value) for value in operands))
    known = known.union(*(symbols(dim) for value in operands for dim in inferred.get(value, ())))
    own = (_symbols_of(value).union(*map(symbols, inferred.get(value, ()))) for value in node.outputs)
    return not set[str]().union(*own) <= known


def _no_rule(node: Node) -> Refusal:
    if node.op.host_reason:
        return Refusal(Cause.USER, node.op.host_reason)
    return Refusal(Cause.OPERATOR, f"{node.op.name} is not compiled yet")


class _Lowering:
    """The lowering of a graph; that of a subgraph emits into the segment of the graph around."""

    def __init__(
        self, graph: Graph, context: Context, requirements: Requirements, bound: set[str] | None = None
    ) -> None:
        self.graph = graph
        self.context = context
        self.requirements = requirements
        self.is_body = bound is not None
        self.kinds: dict[Node, Kind] = {}
        self.refusals: dict[Node, Refusal] = {}
        self.binders: dict[str, Node] = {}
        self.late: set[Node] = set()
        self.bodies: dict[Graph, _Lowering] = {}
        self.bound = set[str]() if bound is None else set(bound)

    def plan(self) -> Plan:
        for value in self.graph.inputs:
            self.bound |= _bound_by(value) | _lone_symbols(self.context.inferred.get(value, ()))
        self.classify()
        hosted = {name for name, node in self.binders.items() if self.kinds[node] == "host"}
        self.context.told, self.context.awaited = self.binders.keys() - hosted, hosted
        if "host" not in self.kinds.values():
            self.context.take_inputs(self.graph.inputs)
        groups = self.lower_groups()
        self.context.close_segment(lambda value: self.last_reader.get(value, -1) >= groups, self.graph.outputs)
        constants = make_constants(self.context.constants)
        plan = Plan(self.context.parts, constants, list(self.graph.inputs), list(self.graph.outputs))
        plan.requirements = self._needs()
        return plan

    def _needs(self) -> list[Requirement]:
        """What the graph needs of sizes that it knows or finds out."""
        return [each for each in self.requirements.get(self.graph, ()) if each.symbols <= self.bound]

    def lower_groups(self) -> int:
        """Emit all groups, and say how many there were."""
        nodes = self._with_hosts_together(self._demanded())
        groups = form_groups(nodes, self.kinds, self.context.faults, self.context.rules)
        self._find_last_readers(groups)
        around = self.context.require(self._needs(), is_body=self.is_body)
        for index, group in enumerate(groups):
            with blaming(group.nodes):
                self._lower_group(group, index)
        self.context.require(around, is_body=False)
        return len(groups)

    def classify(self) -> None:
        """Decide for each node how it runs, and who finds out the sizes that only data tells."""
        for node in self.graph.nodes:
            with blaming((node,)):
                kind = self._kind(node)
            unknown = set[str]().union(*(self._size_symbols(value) for value in node.outputs)) - self.bound
            if unknown and not isinstance(kind, Refusal) and kind != "control":
                kind = self._late_kind(node, kind, unknown)
            if unknown and not isinstance(kind, Refusal):
                self.context.late_symbols |= unknown
            self.bound |= unknown
            self.binders.update(dict.fromkeys(unknown, node))
            if isinstance(kind, Refusal):
                self.kinds[node], self.refusals[node] = "host", kind
            else:
                self.kinds[node] = kind

    def _size_symbols(self, value: Value) -> set[str]:
        """The symbols of a value's size, those included that are assumed to be something else."""
        inferred = self.context.inferred.get(value, ())
        return _symbols_of(value).union(*(symbols(dim) for dim in inferred))

    def _late_kind(self, node: Node, kind: Kind, unknown: set[str]) -> Kind | Refusal:
        """How a node runs of which some sizes depend on data."""
        rule = late_rule(self.context.rules, node)
        if rule is None:
            return Refusal(Cause.DATA, f"the size {', '.join(sorted(unknown))} depends on data")
        refusal = rule.refuse(node)
        if refusal is None:
            self.late.add(node)
        return refusal or kind

    def refusal(self) -> Refusal | None:
        """Why this subgraph cannot be C: its first node that is to run on the host."""
        for node in self._demanded():
            if self.kinds[node] == "host":
                return self.refusals[node].inside(node.op.name)
        return None

    def _control_kind(self, node: Node) -> Kind | Refusal:
        refusal = refuse_control(node)
        if refusal is not None:
            return refusal
        own = body_symbols(node, self.bound)
        bound, bodies = self.bound | own, [graph for _, graph in node.op.subgraphs()]
        inner = [_Lowering(body, self.context, self.requirements, bound) for body in bodies]
        for body in inner:
            body.classify()
            refusal = body.refusal()
            if refusal is not None:
                return refusal
        self.context.late_symbols |= own
        self.bodies.update((body.graph, body) for body in inner)
        return "control"

    def _kind(self, node: Node) -> Kind | Refusal:
        if (bug := self.context.faults.refusal(node)) is not None:
            return bug
        if is_all_known(node):
            return "fill"
        values = [value for value in (*node.inputs, *node.outputs) if value is not None]
        for value in values:
            if not isinstance(value.type, TensorType):
                return Refusal(Cause.ELEMENTS, f"{value.name} is {value.type}, which is not a tensor")
            if value.type.shape is None:
                return Refusal(Cause.SHAPE, f"the rank of {value.name} is not known before the run")
        if not all(is_computable(value.dtype) for value in (*node.outputs, *self._read_by(node))):
            names = sorted({str(v.dtype) for v in values if not is_computable(v.dtype)})
            return Refusal(Cause.ELEMENTS, f"{', '.join(names)} is not compiled yet")
        if node.op.name in CONTROL and node.op.domain == "":
            return self._control_kind(node)
        if is_view(node):
            return "view"
        if is_loop_node(node):
            return "loop"
        rule = own_rule(self.context.rules, node)
        if rule is None:
            return _no_rule(node)
        opaque = sorted({str(v.dtype) for v in (*node.outputs, *rule.reads(node)) if not handles(node, v.dtype)})
        if opaque:
            return Refusal(Cause.ELEMENTS, f"{node.op.name} of {', '.join(opaque)} is not compiled yet")
        return rule.refuse(node) or "anchor"

    def _read_by(self, node: Node) -> Sequence[Value]:
        """The inputs whose elements the node's kernel reads."""
        found = self._read_by_kernel(node)
        return [*found, *self.context.rules.late[node.op.name].reads(node)] if node in self.late else found

    def _read_by_kernel(self, node: Node) -> Sequence[Value]:
        kind = self.kinds.get(node)
        if kind == "fill":
            return []
        if kind == "view" or (kind is None and node.op.name in VIEWS and node.inputs):
            return [value for value in node.inputs[:1] if value is not None]
        if kind == "loop":
            return reads(node)
        rule = own_rule(self.context.rules, node)
        if rule is not None and kind in ("anchor", None):
            return rule.reads(node)
        return [value for value in (*node.inputs, *node.captures()) if value is not None]

    def _demanded(self) -> list[Node]:
        """The nodes whose results somebody reads, in order."""
        wanted: set[Value] = set(self.graph.outputs)
        assumed = (symbols(dim) for pair in self.context.assumptions for dim in pair)
        wanted |= {self.binders[name].outputs[0] for name in set[str]().union(*assumed) if name in self.binders}
        kept: list[Node] = []
        for node in reversed(list(self.graph.nodes)):
            if any(value in wanted for value in node.outputs):
                kept.append(node)
                wanted.update(self._read_by(node))
                wanted.update(self._sizes_from(node))
        return kept[::-1]

    def _with_hosts_together(self, nodes: list[Node]) -> list[Node]:
        """The nodes in an order in which as few segments as possible are cut by host nodes.

        By turns, everything that can be compiled so far, and every host node whose operands are there.
        """
        if not any(self.kinds[node] == "host" for node in nodes):
            return nodes
        made = {value for node in nodes for value in node.outputs}
        needs = {
            node: made.intersection((*node.inputs, *node.captures(), *self._sizes_from(node)))
            for node in nodes
        }  # fmt: skip
        done, ordered, waiting, before = set[Value](), list[Node](), nodes, len(nodes) + 1
        while 0 < len(waiting) < before:
            before = len(waiting)
            for is_host in (False, True):
                rest: list[Node] = []
                for node in waiting:
                    if (self.kinds[node] == "host") is is_host and needs[node] <= done:
                        ordered.append(node)
                        done.update(node.outputs)
                    else:
                        rest.append(node)
                waiting = rest
        return nodes if waiting else ordered

    def _sizes_from(self, node: Node) -> set[Value]:
        """Outputs of the host nodes that must run first because the node's sizes are known only from them."""
        values = [*node.outputs, *self._read_by(node)]
        for _, graph in node.op.subgraphs():
            for inner in (graph, *nested_graphs(graph)):
                values += [*inner.values(), *inner.outputs]
        names = set[str]().union(*(_symbols_of(value) | _symbols_in(value) for value in values))
        found = {self.binders[name] for name in names if name in self.binders}
        return {binder.outputs[0] for binder in found if binder is not node}

    def _find_last_readers(self, groups: list[Group]) -> None:
        """The last group that reads each value; a graph output is read behind the last group."""
        self.last_reader: dict[Value, int] = {}
        for index, group in enumerate(groups):
            for node in group.nodes:
                self.last_reader.update((value, index) for value in self._read_by(node))
        self.last_reader.update((value, len(groups)) for value in self.graph.outputs)

    def _lower_group(self, group: Group, index: int) -> None:
        self.context.not_fused, self.context.nodes = group.not_fused, tuple(group.nodes)
        check_time()
        node = group.nodes[0]
        if node in self.late:
            self.context.rules.late[node.op.name].bind(self.context, node)
        if group.kind == "control":
            lower_control(self.context, node, lambda graph: self.bodies[graph].lower_groups())
        elif group.kind == "host":
            self.context.close_segment(lambda value: self.last_reader.get(value, -1) >= index)
            self.context.add_host(node, self.refusals[node])
            self.context.awaited -= {name for name, binder in self.binders.items() if binder is node}
        elif group.kind == "fill":
            self._lower_fill(node)
        elif group.kind == "view":
            self._lower_view(node)
        elif group.kind == "loop":
            self._lower_loop(group)
        else:
            self._lower_anchor(group)

    def _lower_fill(self, node: Node) -> None:
        for value in node.outputs:
            contents = value.contents
            assert contents is not None
            if value not in self.last_reader:
                continue
            view = self.context.allocate(value)
            operand = Operand(view.buffer, 0, True)
            self.context.emit(
                Fill(operand, tuple(contents.ravel().tolist()), nodes=(node,), title=_title([node], value))
            )

    def _lower_view(self, node: Node) -> None:
        source = node.input
        rule = VIEWS[node.op.name]
        views = rule(node, self.context.view(source))
        if views is None:
            views = rule(node, self.context.contiguous(source))
            assert views is not None, "a contiguous tensor has every view"
        pairs = zip(node.outputs, views, strict=True)
        self.context.views.update((value, view.spelled(value.shape)) for value, view in pairs)

    def _outputs_of(self, group: Group) -> list[Value]:
        """The group's values that are read outside it."""
        members = set(group.nodes)
        outside: list[Value] = []
        for node in group.nodes:
            for value in node.outputs:
                is_read = any(
                    reader in self.kinds and reader not in members and self._reads(reader, value)
                    for reader in value.readers
                )
                if is_read or value.is_output or self._is_captured(value, members):
                    outside.append(value)
        return outside

    def _reads(self, reader: Node, value: Value) -> bool:
        return value in self._read_by(reader)

    def _is_captured(self, value: Value, members: set[Node]) -> bool:
        """Whether a node inside a subgraph reads the value."""
        return any(reader not in self.kinds for reader in value.readers if reader not in members)

    def _lower_loop(self, group: Group) -> None:
        context = self.context
        loads: dict[Value, object] = {}
        for node in group.nodes:
            loads.update((value, None) for value in reads(node) if value not in group.values)
        views = {value: self._spread(value, group) for value in loads}
        stores = {value: context.allocate(value) for value in self._outputs_of(group)}
        fused = FusedNodes(
            group.nodes,
            group.shape,
            group.reduced,
            views,
            {value: view.broadcast(group.shape) for value, view in stores.items()},
            _title(group.nodes, group.nodes[-1].output),
        )
        call = context.rules.loop_call(fused)
        call.replaces = replaceable(fused)
        context.emit(call)

    def _spread(self, value: Value, group: Group) -> View:
        """A value over a group's space; where only the run tells if it is repeated, the driver finds the stride."""
        view, name = self.context.view(value), group.nodes[-1].output.name
        spread, missing = view.broadcast(group.shape), len(group.shape) - len(view.shape)
        axes = open_axes(view.shape, group.shape)
        if not axes:
            return spread
        strides = list(spread.strides)
        for axis in axes:
            extent, wanted = view.shape[axis], group.shape[missing + axis]
            title = f"{value.name} has one element or as many as {name} along axis {missing + axis}"
            self.context.emit(
                Check([(extent, 1), (extent, wanted)], REQUIREMENT, nodes=tuple(group.nodes), title=title)
            )
            strides[missing + axis] = select(equal(extent, 1), 0, view.strides[axis])
        return View(view.buffer, view.offset, group.shape, tuple(strides))

    def _lower_anchor(self, group: Group) -> None:
        context, node = self.context, group.nodes[0]
        rule = context.rules.anchors[node.op.name]
        epilogue = Epilogue(node.output, group.nodes[1:])
        if rule.fuses(node):
            for member in group.nodes[1:]:
                for value in reads(member):
                    if value not in group.values and value not in epilogue.loads:
                        epilogue.loads[value] = self._even_view(value, group)
            epilogue.stores = {value: context.allocate(value) for value in self._outputs_of(group)}
        rule.lower(context, node, epilogue)

    def _even_view(self, value: Value, group: Group):
        view = self.context.view(value).broadcast(group.shape)
        if rows_and_columns(view) is None:
            view = self.context.contiguous(value).broadcast(group.shape)
        return view


def _bound_by(value: Value) -> set[str]:
    """The symbols to which an input of this type gives values: those that are a dimension by themselves."""
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return set()
    return _lone_symbols(value.type.shape)


def _lone_symbols(shape: Sequence[Dim]) -> set[str]:
    atoms = [lone_atom(dim) for dim in shape]
    return {atom.name for atom in atoms if isinstance(atom, Symbol)}


def _symbols_in(value: Value) -> set[str]:
    """The symbols of a value's known contents."""
    if value.constant is not None or value.contents is None:
        return set()
    return set[str]().union(*(symbols(item) for item in value.contents.ravel().tolist()))


def _symbols_of(value: Value) -> set[str]:
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return set()
    return set[str]().union(*(symbols(dim) for dim in value.type.shape))


def _title(nodes: Sequence[Node], value: Value) -> str:
    """What a call computes, for comments and tables."""
    names = " + ".join(dict.fromkeys(node.op.name for node in nodes))
    origins = [node.origin for node in nodes if node.origin]
    return f"{names} -> {value.name}: {value.type}" + (f" from {origins[0]}" if origins else "")
