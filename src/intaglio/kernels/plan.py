"""What lowering produces: kernels, the calls of them, and segments of calls between host nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.ir.requirements import Requirement
from intaglio.kernels.faults import Fault
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.refusal import Refusal
from intaglio.kernels.status import ASSUMPTION as ASSUMPTION
from intaglio.kernels.status import CANCELLED as CANCELLED
from intaglio.kernels.status import FAULT as FAULT
from intaglio.kernels.status import OVERFLOW as OVERFLOW
from intaglio.kernels.status import REQUIREMENT as REQUIREMENT
from intaglio.kernels.status import ROUNDS as ROUNDS
from intaglio.kernels.view import Buffer


@dataclass(frozen=True)
class Operand:
    """A pointer that a kernel is given: a buffer, and an offset in elements."""

    buffer: Buffer
    offset: Dim = 0
    is_written: bool = False


Size = Dim
"""What a call is given: a dimension over the model's symbols and `threads`."""


@dataclass(frozen=True)
class NodeForm:
    """A node as the form of a plan knows it: its id in the graph, its operator, and its path for people."""

    id: str
    domain: str
    operator: str
    path: str

    def __str__(self) -> str:
        return f"{self.operator} at {self.path}" if self.path else self.operator


@dataclass(kw_only=True)
class Described:
    """What every action says of itself: the nodes that it serves, and a title for people.

    In the form of a plan, which has no nodes, `served` has their ids.
    """

    nodes: tuple[Node, ...] = ()
    title: str = ""
    served: tuple[NodeForm, ...] = ()

    @property
    def paths(self) -> list[str]:
        """The paths of the nodes in the model, each once."""
        paths = [str(node.origin) for node in self.nodes] + [node.path for node in self.served]
        return [path for path in dict.fromkeys(paths) if path]


@dataclass
class Call(Described):
    """One call of a kernel by the driver.

    `sizes` are named, in the order in which the kernel gets them. `cost` is in nanoseconds a task, roughly; `scratch`
    in bytes for each thread. A call that `checks` passes a pointer to a fault flag behind its other buffers; when the
    kernel sets it, the run stops and the node's reference says what is wrong.
    """

    kernel: Kernel
    operands: list[Operand]
    sizes: list[tuple[str, Size]]
    tasks: Size
    cost: Size
    scratch: Size = 0
    checks: bool = False
    flops: Dim = 0
    tile: str = ""
    """What the kernel computes in registers at a time."""
    not_fused: str = ""
    """Why the nodes are not computed by the kernel before."""
    replaces: tuple[tuple[Buffer, Buffer], ...] = ()
    """Pairs of a buffer that the kernel writes and one that it reads, which may be the same memory."""


@dataclass
class Fill(Described):
    """Dimensions written into an integer tensor by the driver itself."""

    operand: Operand
    items: tuple[Dim, ...]


@dataclass
class FindSizes(Described):
    """Sizes that data decides: symbols that take the values of int64 numbers side by side in memory.

    The numbers are an input's own, or a kernel has written them. `names` has the symbol of each, None where nobody
    needs the number. One that is below `least` or above `limit` stops the run, and the node's reference says what is
    wrong.
    """

    names: tuple[str | None, ...]
    numbers: Operand
    least: int | None = None
    limit: Dim | None = None
    most: dict[Dim, Dim] = field(default_factory=dict[Dim, Dim])
    """What symbols, or products of them, are at most, where that is known before the run."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that get a value, in order."""
        return tuple(name for name in self.names if name is not None)


@dataclass
class Assign(Described):
    """Symbols that take the values of dimensions, all at once."""

    items: list[tuple[str, Dim]]


@dataclass
class Allocate(Described):
    """Memory for a buffer whose size is known only now; a buffer that has some gets other."""

    buffer: Buffer


@dataclass
class Grow(Described):
    """Memory for a buffer of `shape`, of which the first `used` elements are kept."""

    buffer: Buffer
    used: Dim
    shape: tuple[Dim, ...]


@dataclass
class Move(Described):
    """The memory of one buffer becomes that of another, whose own is given back."""

    source: Buffer
    target: Buffer


@dataclass
class Pair(Described):
    """Two places of one size for a state that passes from round to round: `now` is the first, `following` the second.

    Both are pointers of the driver; `Swap` exchanges them, so that what was written to one becomes the state.
    """

    now: Buffer
    following: Buffer
    first: Buffer
    second: Buffer


@dataclass
class Swap(Described):
    """The two pointers of a pair take each other's places."""

    now: Buffer
    following: Buffer


@dataclass
class Settle(Described):
    """What a pair holds now is brought to its first place, if it is not there; the pair is needed no more."""

    pair: Pair


@dataclass
class Commit(Described):
    """From here on nothing stops the run: neither a deadline nor an interrupt. One that has come is obeyed here."""


@dataclass
class Check(Described):
    """Pairs of dimensions of which one must be equal for what follows; the driver returns where none is."""

    pairs: Sequence[tuple[Dim, Dim]]
    status: int
    """What the driver returns; FAULT where the reference of the action's nodes says what is wrong."""


@dataclass
class Branch(Described):
    """One of two blocks, as a tensor of one element says."""

    condition: Operand
    then: list[Action]
    otherwise: list[Action]

    @property
    def blocks(self) -> tuple[list[Action], ...]:
        """The blocks inside."""
        return self.then, self.otherwise


@dataclass
class Repeat(Described):
    """A block run while `counter`, a symbol that counts from 0, is below `limit` and the condition holds.

    `condition` is looked at before the first round, `again` after each; None is no condition. After the loop the
    counter is the number of rounds, which is at most `most` where that is known before the run.
    """

    counter: str
    limit: Operand | Dim | None
    condition: Operand | None
    again: Operand | None
    body: list[Action]
    most: Dim | None = None

    @property
    def blocks(self) -> tuple[list[Action], ...]:
        """The blocks inside."""
        return (self.body,)


Action = (
    Call | Fill | FindSizes | Assign | Allocate | Grow | Move | Pair | Swap | Settle | Commit | Check | Branch | Repeat
)


def walk(actions: Sequence[Action]) -> Iterator[Action]:
    """All actions in the order in which they stand in the driver, those of inner blocks behind the action around."""
    for action in actions:
        yield action
        if isinstance(action, (Branch, Repeat)):
            for block in action.blocks:
                yield from walk(block)


def operands_of(action: Action) -> list[Operand]:
    """What an action itself touches, its inner blocks aside."""
    match action:
        case Call():
            return action.operands
        case Fill():
            return [action.operand]
        case FindSizes():
            return [action.numbers]
        case Allocate() | Grow():
            return [Operand(action.buffer, 0, True)]
        case Move():
            return [Operand(action.source), Operand(action.target, 0, True)]
        case Pair():
            return [Operand(buffer, 0, True) for buffer in (action.first, action.second)]
        case Settle():
            return operands_of(action.pair)
        case Branch():
            return [action.condition]
        case Repeat():
            candidates = (action.limit, action.condition, action.again)
            return [item for item in candidates if isinstance(item, Operand)]
        case Assign() | Check() | Commit() | Swap():
            return []


@dataclass(frozen=True)
class Donation:
    """Inputs that the caller gives away, and outputs that are to take their memory, by their places in a graph.

    With `is_atomic`, a run that stops before its end must leave all of these inputs as they were.
    """

    pairs: tuple[tuple[int, int], ...] = ()
    is_atomic: bool = False


NOTHING = Donation()


@dataclass(frozen=True)
class Alias:
    """An output that takes the memory of an input, by their places: both are one array in every run."""

    output: int
    input: int


@dataclass
class SegmentBody:
    """Actions that one driver runs, and all buffers between; nothing of it belongs to a graph."""

    actions: list[Action] = field(default_factory=list[Action])
    input_buffers: list[Buffer] = field(default_factory=list[Buffer])
    output_buffers: list[Buffer] = field(default_factory=list[Buffer])
    arena: list[Buffer] = field(default_factory=list[Buffer])
    late: list[str] = field(default_factory=list[str])
    """Symbols that the driver itself binds; those at the outermost level first."""
    told: int = 0
    """How many of the late symbols the driver tells the runtime, in an output of their own behind the others."""
    aliases: list[Alias] = field(default_factory=list[Alias])
    """The outputs that take the memory of inputs."""

    @property
    def late_outputs(self) -> list[bool]:
        """Whether each output's size is known only in the run."""
        return [buffer.is_late for buffer in self.output_buffers]


@dataclass
class Segment(SegmentBody):
    """A segment of a graph: with the values that come in and go out."""

    inputs: list[Value] = field(default_factory=list[Value])
    outputs: list[Value] = field(default_factory=list[Value])


@dataclass
class HostNode:
    """A node that the reference engine runs, and why."""

    node: Node
    refusal: Refusal
    inferred: Mapping[Value, tuple[Dim, ...]] = field(default_factory=dict[Value, tuple[Dim, ...]])
    """Shapes of results as the node's own rule gives them, where the plan assumes something else for their sizes."""

    def __str__(self) -> str:
        return f"{self.node.origin}: {self.refusal}"


PlanPart = Segment | HostNode


@dataclass
class Plan:
    """All steps of a model in order, and the constants that they read."""

    parts: list[PlanPart]
    constants: list[Any]
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    assumptions: list[tuple[Dim, Dim]] = field(default_factory=list[tuple[Dim, Dim]])
    """Dimensions that the plan takes to be equal; the runtime checks them."""
    requirements: list[Requirement] = field(default_factory=list[Requirement])
    """What sizes must be to each other; the runtime checks it, drivers where only they know the sizes."""

    apart: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    """The outputs that cannot take the memory of an input as they were to: output, input, and why not."""

    faults: list[Fault] = field(default_factory=list[Fault])
    """What could not be lowered or compiled as it should be, by faults of our own."""

    @property
    def kernels(self) -> list[Kernel]:
        """Every kernel once, in order of first call."""
        found: dict[Kernel, None] = {}
        for step in self.parts:
            if isinstance(step, Segment):
                found.update((action.kernel, None) for action in walk(step.actions) if isinstance(action, Call))
        return list(found)

    @property
    def host_nodes(self) -> list[HostNode]:
        """The nodes that are not compiled."""
        return [step for step in self.parts if isinstance(step, HostNode)]
