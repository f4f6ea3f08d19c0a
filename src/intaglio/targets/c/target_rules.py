"""C as a target of lowering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.plan import Call
from intaglio.kernels.target_rules import Anchor, LateSizes
from intaglio.kernels.view import View
from intaglio.targets.c.printing.loops import loop_call
from intaglio.targets.c.printing.transpose import transpose_call
from intaglio.targets.c.target import Target


@dataclass(frozen=True)
class CRules:
    """Kernels in C for one kind of processor."""

    target: Target

    @property
    def anchors(self) -> Mapping[str, Anchor]:
        """The structured operators that C kernels exist for."""
        from intaglio.targets.c.rules import ANCHORS

        return ANCHORS

    @property
    def late(self) -> Mapping[str, LateSizes]:
        """The operators whose sizes a driver can find."""
        from intaglio.targets.c.rules import LATE

        return LATE

    def is_channels_last(self, node: Node) -> bool:
        """Whether the node has a kernel, one that wants its channels last."""
        from intaglio.targets.c.rules.layouts import is_channels_last

        return is_channels_last(node)

    def loop_call(self, fused: FusedNodes) -> Call:
        """The C of a loop kernel, and the call of it."""
        return loop_call(fused)

    def copy_call(self, value: Value, view: View, into: View) -> Call:
        """The C of a copy, by squares of a transpose where that is one, and the call of it."""
        fused = FusedNodes([], view.shape, (), {value: view}, {value: into}, f"copy of {value.name}")
        return transpose_call(value, view, into, self.target.vector_bytes) or loop_call(fused)


def machine(context: Context) -> Target:
    """The processor that a rule chooses kernels for."""
    target = getattr(context.rules, "target", None)
    assert isinstance(target, Target), "a rule for C is used for another target"
    return target
