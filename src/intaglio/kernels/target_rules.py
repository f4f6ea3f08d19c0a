"""What lowering asks of a target: which structured operators it has kernels for, and how it runs loops and copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from intaglio.ir.graph import Node, Value
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.plan import Call
from intaglio.kernels.refusal import Refusal
from intaglio.kernels.view import View

if TYPE_CHECKING:
    from intaglio.kernels.context import Context
    from intaglio.kernels.epilogue import Epilogue


def all_inputs(node: Node) -> Sequence[Value]:
    """The inputs that a node has."""
    return [value for value in node.inputs if value is not None]


@dataclass(frozen=True)
class Anchor:
    """How a structured operator is lowered.

    `refuse(node)` says why the rule does not apply, or None. `reads` are the inputs that the kernels read
    (others only steer types). `lower(context, node, epilogue)` emits the calls; where `fuses`, elementwise nodes that
    follow are handed over as the epilogue, else it is empty and the rule allocates the outputs itself. `takes` says
    whether the epilogue takes a node behind the nodes that it has, of which the structured one is the first. `needs`
    names what its kernels need beyond C11 ("vectors", "int128"): a target without these leaves the rule out.
    """

    lower: Callable[[Context, Node, Epilogue], None]
    refuse: Callable[[Node], Refusal | None] = lambda node: None
    reads: Callable[[Node], Sequence[Value]] = all_inputs
    fuses: Callable[[Node], bool] = lambda node: False
    takes: Callable[[Sequence[Node], Node], bool] = lambda nodes, node: True
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LateSizes:
    """How the sizes of a node's outputs are found in the run.

    `bind(context, node)` emits actions that give a value to every symbol of the outputs that has none, by
    `context.bind`; the node is then lowered as if they had been known all along. `reads` are the inputs that it needs.
    """

    bind: Callable[[Context, Node], None]
    refuse: Callable[[Node], Refusal | None] = lambda node: None
    reads: Callable[[Node], Sequence[Value]] = all_inputs


class TargetRules(Protocol):
    """A target, as lowering sees it."""

    @property
    def anchors(self) -> Mapping[str, Anchor]:
        """The structured operators that it has kernels for, by name."""
        ...

    @property
    def late(self) -> Mapping[str, LateSizes]:
        """The operators whose outputs' sizes it can find in the run, by name."""
        ...

    def is_channels_last(self, node: Node) -> bool:
        """Whether its kernel for a convolution or pool wants the channels last."""
        ...

    def loop_call(self, fused: FusedNodes) -> Call:
        """The kernel of fused elementwise nodes and reductions, and the call of it."""
        ...

    def copy_call(self, value: Value, view: View, into: View) -> Call:
        """A kernel that copies one view of a value into another, and the call of it."""
        ...


def own_rule(rules: TargetRules, node: Node) -> Anchor | None:
    """The rule for a node among a target's structured operators, if there is one."""
    return rules.anchors.get(node.op.name) if node.op.domain in ("", "intaglio") else None


def late_rule(rules: TargetRules, node: Node) -> LateSizes | None:
    """The rule that finds the sizes of a node's outputs in the run, if there is one."""
    return rules.late.get(node.op.name) if node.op.domain in ("", "intaglio") else None
