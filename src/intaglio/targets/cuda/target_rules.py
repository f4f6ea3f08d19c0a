"""CUDA as a target of lowering."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from intaglio.ir.dim import product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.plan import Call, Operand
from intaglio.kernels.target_rules import Anchor, LateSizes
from intaglio.kernels.view import View
from intaglio.targets.c.target import Target
from intaglio.targets.cuda.printing import printed


@cache
def _anchors() -> Mapping[str, Anchor]:
    from intaglio.targets.cuda.rules import ANCHORS

    return ANCHORS


class CudaRules:
    """Kernels in CUDA C++ and calls of NVIDIA's libraries."""

    target = Target("cuda", 4, 16, ())
    """For rules of C whose kernels a device runs too: a processor whose vectors have one element."""

    def __init__(self, *, tf32: bool = False) -> None:
        self.tf32 = tf32
        """Whether products of single precision may round their operands to ten bits behind the point."""

    @property
    def anchors(self) -> Mapping[str, Anchor]:
        """The structured operators that the device has kernels for."""
        return _anchors()

    @property
    def late(self) -> Mapping[str, LateSizes]:
        """The operators whose outputs' sizes are found in the run."""
        from intaglio.targets.c.rules import LATE

        return LATE

    def is_channels_last(self, node: Node) -> bool:
        """Whether its kernel for a convolution or pool wants the channels last."""
        from intaglio.targets.cuda.rules.channels_last import is_channels_last

        return is_channels_last(node)

    def loop_call(self, fused: FusedNodes) -> Call:
        """The call of a loop kernel; raises UnsupportedError where no device computes what it says."""
        kernel, sizes = fused.kernel()
        printed(kernel)
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
            checks=kernel.checks,
            flops=product(fused.shape) * max(1, len(fused.nodes)),
            nodes=tuple(fused.nodes),
            title=fused.title,
        )

    def copy_call(self, value: Value, view: View, into: View) -> Call:
        """A copy is a loop."""
        return self.loop_call(FusedNodes([], view.shape, (), {value: view}, {value: into}, f"copy of {value.name}"))
