"""Calls of structured kernels: sizes by name, blocking by the kernel's own defaults, and the epilogue behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Call, Kernel, Operand
from intaglio.kernels.view import View
from intaglio.targets.c.printing.epilogue import EpilogueCode, printed_epilogue
from intaglio.targets.c.printing.register import register_kind
from intaglio.targets.c.structured.source import StructuredKernel


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
    text = kernel.source if code is None else code.source.replace("ig_epilogue", "IG_FUNCTION_epilogue")
    if code is not None:
        text += kernel.source.replace("ig_epilogue", "IG_FUNCTION_epilogue")
    return Call(
        Kernel(kernel.hint, f"/* sizes: {', '.join(name for name, _ in named)} */\n" + text),
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


def epilogue_code(
    kernel: StructuredKernel, epilogue: Epilogue, bias: Value | None = None, bias_view: View | None = None
) -> EpilogueCode:
    """The epilogue printed for its place behind a kernel's own buffers and sizes."""
    kind = register_kind(epilogue.result.dtype)
    return printed_epilogue(epilogue.kernel(bias, bias_view), kind, len(kernel.buffers), len(kernel.sizes))
