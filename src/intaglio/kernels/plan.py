"""What lowering produces: kernels, the calls of them, and segments of calls between host nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.view import Buffer


@dataclass(frozen=True)
class Kernel:
    """One C function; `hint` begins its name and `source` calls it IG_FUNCTION."""

    hint: str
    source: str


@dataclass(frozen=True)
class Operand:
    """A pointer that a kernel is given: a buffer, and an offset in elements."""

    buffer: Buffer
    offset: Dim = 0
    is_written: bool = False


@dataclass(frozen=True)
class SizeTerm:
    """A C expression: `template` with {0}, {1}, ... for the C text of dimensions; it may use sizes named before it."""

    template: str
    dims: tuple[Dim, ...] = ()


Size = Dim | SizeTerm


@dataclass
class Call:
    """One call of a kernel by the driver.

    `sizes` are named: later sizes, `tasks`, `cost` and `scratch` may use the names. `cost` is in nanoseconds a task. A
    call that `checks` passes a pointer to a fault flag behind its other buffers; when the kernel sets it, the run stops
    and the node's reference says what is wrong.
    """

    kernel: Kernel
    operands: list[Operand]
    sizes: list[tuple[str, Size]]
    tasks: Size
    cost: Size
    scratch: Size = 0
    nodes: tuple[Node, ...] = ()
    title: str = ""
    checks: bool = False
    flops: Dim = 0
    order: list[str] | None = None
    """The names in the order in which the kernel gets them; all sizes in their own order where None."""


@dataclass
class Fill:
    """Dimensions written into an integer tensor by the driver itself."""

    operand: Operand
    items: tuple[Dim, ...]
    nodes: tuple[Node, ...] = ()
    title: str = ""


Action = Call | Fill


@dataclass
class NativeStep:
    """A segment: actions that one driver runs, with the values that come in and go out and all buffers between."""

    actions: list[Action] = field(default_factory=list[Action])
    inputs: list[Value] = field(default_factory=list[Value])
    outputs: list[Value] = field(default_factory=list[Value])
    input_buffers: list[Buffer] = field(default_factory=list[Buffer])
    output_buffers: list[Buffer] = field(default_factory=list[Buffer])
    arena: list[Buffer] = field(default_factory=list[Buffer])


@dataclass
class HostStep:
    """A node that the reference engine runs, and why."""

    node: Node
    reason: str


Step = NativeStep | HostStep


@dataclass
class Plan:
    """All steps of a model in order, and the constants that they read."""

    steps: list[Step]
    constants: list[Any]
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    assumptions: list[tuple[Dim, Dim]] = field(default_factory=list[tuple[Dim, Dim]])
    """Dimensions that the plan takes to be equal; the runtime checks them."""

    @property
    def kernels(self) -> list[Kernel]:
        """Every kernel once, in order of first call."""
        found: dict[Kernel, None] = {}
        for step in self.steps:
            if isinstance(step, NativeStep):
                found.update((action.kernel, None) for action in step.actions if isinstance(action, Call))
        return list(found)

    @property
    def host_steps(self) -> list[HostStep]:
        """The nodes that are not compiled."""
        return [step for step in self.steps if isinstance(step, HostStep)]
