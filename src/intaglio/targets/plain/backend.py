"""Plain C as a target of lowering: loops alone, no structured kernels, one task a call."""

from __future__ import annotations

from collections.abc import Mapping

from intaglio.ir.dim import product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.backend import Anchor, LateSizes
from intaglio.kernels.plan import Call, Kernel, Operand
from intaglio.kernels.program import Program
from intaglio.kernels.scans import SCAN
from intaglio.kernels.view import View
from intaglio.targets.plain.expression import Helpers
from intaglio.targets.plain.printing import plain_function


class PlainBackend:
    """Kernels in plain C11. What is no loop is expanded, or left to the host."""

    anchors: Mapping[str, Anchor] = {"CumSum": SCAN, "CumProd": SCAN}
    late: Mapping[str, LateSizes] = {}

    def is_channels_last(self, node: Node) -> bool:
        """Nothing wants its channels last."""
        return False

    def loop_call(self, program: Program) -> Call:
        """The function of a loop kernel, and the call of it: its sizes are those of the kernel, in their order."""
        kernel, sizes = program.kernel()
        helpers = Helpers()
        text = plain_function(kernel, "IG_FUNCTION", helpers)
        operands = [
            Operand(view.buffer, view.offset, parameter.is_written)
            for (_, view), parameter in zip(program.operands, kernel.parameters, strict=True)
        ]
        return Call(
            Kernel(kernel.name, helpers.text + text, kernel),
            operands,
            [(name, sizes[name]) for name in kernel.sizes],
            tasks=1,
            cost=1,
            flops=product(program.shape) * max(1, len(program.nodes)),
            nodes=tuple(program.nodes),
            title=program.title,
        )

    def copy_call(self, value: Value, view: View, into: View) -> Call:
        """A copy is a loop."""
        return self.loop_call(Program([], view.shape, (), {value: view}, {value: into}, f"copy of {value.name}"))
