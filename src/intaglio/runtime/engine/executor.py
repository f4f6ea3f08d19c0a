"""What a target supplies so that the native engine can run its plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from intaglio.errors import CompileError

if TYPE_CHECKING:
    from intaglio.ir.graph import Node
    from intaglio.ir.op import Array
    from intaglio.kernels.plan import HostNode, Plan
    from intaglio.kernels.target_rules import TargetRules
    from intaglio.runtime.engine.engine import Progress
    from intaglio.runtime.engine.segment import LoadedSegment


class Executor(Protocol):
    """Lowered plans as code of one target, ready to run.

    The engine specialises graphs by sizes, binds sizes, checks them, runs host nodes and keeps what it prepared; it
    asks its executor for everything that depends on the target.
    """

    @property
    def rules(self) -> TargetRules:
        """What lowering asks of the target."""
        ...

    def functions(self, plan: Plan) -> Sequence[Any]:
        """The functions of a plan in the target's own terms: its kernels, then the driver of each segment."""
        ...

    def ensure(self, plans: Sequence[Plan], progress: Progress) -> Sequence[int]:
        """Have the code of these plans made where it is not there yet; the addresses of the functions of the first.

        Raises RefusedPlanError for code that cannot be made.
        """
        ...

    def parts(
        self, plan: Plan, loaded: Sequence[int], constants: Sequence[Array], threads: int
    ) -> Sequence[LoadedSegment | HostNode]:
        """The steps of a plan, ready to run; `loaded` is what `ensure` gave for it."""
        ...


class RefusedPlanError(CompileError):
    """No code can be made of some functions of plans.

    `nodes` are those of the first plan that such functions serve, as far as they are known, or None where none of the
    functions is the first plan's own.
    """

    def __init__(self, reason: CompileError, nodes: Sequence[tuple[Node, ...]] | None) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.nodes = nodes
