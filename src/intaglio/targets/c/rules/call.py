"""Calls of structured kernels: sizes by name, blocking by the kernel's own defaults, and the epilogue behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.epilogue import Epilogue, stride_size
from intaglio.kernels.kernel import FileKernel, Kernel
from intaglio.kernels.language import LoopKernel
from intaglio.kernels.plan import Call, Operand, Size
from intaglio.kernels.view import View
from intaglio.targets.c.structured.source import StructuredKernel


@dataclass(frozen=True)
class EpilogueCode:
    """An epilogue, and the operands and sizes to append to the kernel's own."""

    kernel: LoopKernel | FileKernel
    operands: list[Operand]
    sizes: list[tuple[str, Size]]


def structured_call(
    kernel: StructuredKernel,
    operands: Sequence[Operand],
    sizes: Mapping[str, Dim],
    code: EpilogueCode | None,
    nodes: Sequence[Node],
    flops: Dim,
    title: str = "",
) -> Call:
    """A call of a structured kernel with the sizes that are not its defaults, and its epilogue."""
    work = kernel.work(sizes)
    named = [*work.sizes.items(), *(code.sizes if code else ())]
    body = kernel.instance.kernel if code is None else replace(kernel.instance.kernel, epilogue=code.kernel)
    return Call(
        Kernel(kernel.hint, body),
        [*operands, *(code.operands if code else ())],
        named,
        work.tasks,
        work.cost,
        work.scratch,
        nodes=tuple(nodes),
        title=title or " + ".join(node.op.name for node in nodes),
        flops=flops,
        tile=kernel.tile,
    )


def epilogue_code(epilogue: Epilogue, bias: Value | None = None, bias_view: View | None = None) -> EpilogueCode:
    """The epilogue, with the operands and sizes that come behind a kernel's own."""
    made = epilogue.kernel(bias, bias_view)
    operands = [
        Operand(view.buffer, view.offset, parameter.is_written)
        for view, parameter in zip(made.views, made.kernel.parameters, strict=True)
    ]
    strides = [(stride_size(place), stride) for place, stride in enumerate(made.sizes.values())]
    return EpilogueCode(made.kernel, operands, [*strides])
