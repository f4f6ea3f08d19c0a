"""Plain C as a target of lowering: loops as in a textbook, one task a call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache

from intaglio.ir.dim import product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.language import LoopKernel
from intaglio.kernels.plan import Call, Operand
from intaglio.kernels.target_rules import Anchor, LateSizes
from intaglio.kernels.view import View
from intaglio.targets.c.target import Target
from intaglio.targets.plain.expression import Helpers
from intaglio.targets.plain.printing import plain_function


@cache
def _anchors() -> Mapping[str, Anchor]:
    from intaglio.targets.c.rules import ANCHORS
    from intaglio.targets.plain.recurrent import RECURRENT
    from intaglio.targets.plain.textbook import TEXTBOOK

    plain = {name: rule for name, rule in ANCHORS.items() if not rule.needs}
    own = {name: _first(rule, plain[name]) if name in plain else rule for name, rule in (TEXTBOOK | RECURRENT).items()}
    return plain | own


def _first(rule: Anchor, other: Anchor) -> Anchor:
    """A rule, or another one for the nodes that it refuses."""

    def lower(context: Context, node: Node, epilogue: Epilogue) -> None:
        chosen = rule if rule.refuse(node) is None else other
        chosen.lower(context, node, epilogue)

    return Anchor(lower, lambda node: None if rule.refuse(node) is None else other.refuse(node))


@lru_cache(maxsize=1024)
def _check_printable(kernel: LoopKernel) -> None:
    """Print a kernel and drop the text; raises UnsupportedError where plain C lacks a type or function of it."""
    plain_function(kernel, "IG_FUNCTION", Helpers())


class PlainRules:
    """Kernels in plain C11. What is no loop and no textbook function is expanded, or left to the host."""

    target = Target("plain", 4, 16, ())
    """For rules for C: a processor whose vectors have one element."""

    @property
    def anchors(self) -> Mapping[str, Anchor]:
        """The rules of textbooks, and those for C whose kernels are plain C anyway."""
        return _anchors()

    @property
    def late(self) -> Mapping[str, LateSizes]:
        """The operators whose sizes a driver can find."""
        from intaglio.targets.c.rules import LATE

        return LATE

    def is_channels_last(self, node: Node) -> bool:
        """Nothing wants its channels last."""
        return False

    def loop_call(self, fused: FusedNodes) -> Call:
        """The function of a loop kernel, and the call of it: its sizes are those of the kernel, in their order."""
        kernel, sizes = fused.kernel()
        _check_printable(kernel)
        operands = [
            Operand(view.buffer, view.offset, parameter.is_written)
            for (_, view), parameter in zip(fused.operands, kernel.parameters, strict=True)
        ]
        return Call(
            Kernel(kernel.name, kernel),
            operands,
            [(name, sizes[name]) for name in kernel.sizes],
            tasks=1,
            cost=1,
            flops=product(fused.shape) * max(1, len(fused.nodes)),
            nodes=tuple(fused.nodes),
            title=fused.title,
        )

    def copy_call(self, value: Value, view: View, into: View) -> Call:
        """A copy is a loop."""
        return self.loop_call(FusedNodes([], view.shape, (), {value: view}, {value: into}, f"copy of {value.name}"))
