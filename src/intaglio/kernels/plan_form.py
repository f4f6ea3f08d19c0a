"""Plans as data: what lowering produced, without nodes and values of a graph, which have ids here.

A form has all that an executor of a target asks about: calls of kernels, sizes, buffers, control, sizes that are found
in data. Constants are described; their elements lie elsewhere. `plan_data` has forms as JSON, and `plan_check` finds
broken ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.ir.requirements import Requirement
from intaglio.ir.types import Type
from intaglio.kernels.faults import Fault
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.plan import Action, Branch, Call, HostNode, NodeForm, Plan, Repeat, Segment, SegmentBody, walk
from intaglio.kernels.refusal import Refusal


@dataclass(frozen=True)
class ValueForm:
    """A value that goes in or out of parts of a plan: its id in the graph, its type, and the node that makes it."""

    id: str
    type: Type
    is_constant: bool = False
    made_by: NodeForm | None = None


@dataclass(frozen=True)
class ConstantForm:
    """A constant that kernels read: NumPy's name of its element type, and its shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass
class SegmentForm(SegmentBody):
    """A segment, with the ids of values that come in and go out."""

    inputs: list[str] = field(default_factory=list[str])
    outputs: list[str] = field(default_factory=list[str])


@dataclass
class HostForm:
    """A node that the reference engine runs, and why; an input that is absent is None."""

    node: NodeForm
    inputs: list[str | None]
    outputs: list[str]
    refusal: Refusal
    inferred: dict[str, tuple[Dim, ...]] = field(default_factory=dict[str, tuple[Dim, ...]])

    def __str__(self) -> str:
        return f"{self.node.path}: {self.refusal}"


@dataclass
class PlanForm:
    """All steps of a model in order; see `Plan`."""

    values: list[ValueForm]
    """Every value that a part takes or gives, once."""
    parts: list[SegmentForm | HostForm]
    constants: list[ConstantForm]
    inputs: list[str]
    outputs: list[str]
    assumptions: list[tuple[Dim, Dim]]
    requirements: list[Requirement]
    faults: list[Fault]
    apart: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])

    @property
    def kernels(self) -> list[Kernel]:
        """Every kernel once, in order of first call."""
        calls = [action for part in self.segments for action in walk(part.actions) if isinstance(action, Call)]
        return list(dict.fromkeys(call.kernel for call in calls))

    @property
    def segments(self) -> list[SegmentForm]:
        """The segments, in order."""
        return [part for part in self.parts if isinstance(part, SegmentForm)]

    @property
    def hosts(self) -> list[HostForm]:
        """The nodes that are not compiled, in order."""
        return [part for part in self.parts if isinstance(part, HostForm)]

    def value(self, name: str) -> ValueForm:
        """The value with an id."""
        return next(value for value in self.values if value.id == name)


def form_of(plan: Plan) -> PlanForm:
    """A plan as data; its graph may go."""
    return PlanForm(
        values=list(dict.fromkeys(map(_value, dict.fromkeys(_values(plan))))),
        parts=[_segment(part) if isinstance(part, Segment) else _host(part) for part in plan.parts],
        constants=[ConstantForm(str(array.dtype), tuple(array.shape)) for array in plan.constants],
        inputs=[value.id for value in plan.inputs],
        outputs=[value.id for value in plan.outputs],
        assumptions=list(plan.assumptions),
        requirements=list(plan.requirements),
        faults=list(plan.faults),
        apart=list(plan.apart),
    )


def _values(plan: Plan) -> Iterable[Value]:
    yield from plan.inputs
    for part in plan.parts:
        owner = part if isinstance(part, Segment) else part.node
        yield from (value for value in (*owner.inputs, *owner.outputs) if value is not None)
    yield from plan.outputs


def _value(value: Value) -> ValueForm:
    made_by = None if value.producer is None else node_form(value.producer)
    return ValueForm(value.id, value.type, value.constant is not None, made_by)


def node_form(node: Node) -> NodeForm:
    """A node as forms know it."""
    return NodeForm(node.id, node.op.domain, node.op.name, str(node.origin))


def _segment(segment: Segment) -> SegmentForm:
    return SegmentForm(
        actions=[_action(action) for action in segment.actions],
        input_buffers=segment.input_buffers,
        output_buffers=segment.output_buffers,
        arena=segment.arena,
        late=segment.late,
        told=segment.told,
        aliases=segment.aliases,
        inputs=[value.id for value in segment.inputs],
        outputs=[value.id for value in segment.outputs],
    )


def _action(action: Action) -> Action:
    served = (*action.served, *map(node_form, action.nodes))
    if isinstance(action, Branch):
        then, otherwise = ([_action(each) for each in block] for block in action.blocks)
        return replace(action, nodes=(), served=served, then=then, otherwise=otherwise)
    if isinstance(action, Repeat):
        return replace(action, nodes=(), served=served, body=[_action(each) for each in action.body])
    return replace(action, nodes=(), served=served)


def _host(part: HostNode) -> HostForm:
    node = part.node
    return HostForm(
        node=node_form(node),
        inputs=[None if value is None else value.id for value in node.inputs],
        outputs=[value.id for value in node.outputs],
        refusal=part.refusal,
        inferred={value.id: shape for value, shape in part.inferred.items()},
    )
