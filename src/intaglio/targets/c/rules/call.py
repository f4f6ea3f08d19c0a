"""Calls of structured kernels: sizes by name, blocking by the kernel's own defaults, and the epilogue behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Call, Kernel, Operand, Size, SizeTerm
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
    named: list[tuple[str, Size]] = [("threads", SizeTerm("call->threads"))]
    named += [(name, sizes[name]) for name in kernel.sizes if name not in kernel.defaults]
    named += [(name, SizeTerm(text)) for name, text in kernel.defaults.items()]
    order = list(kernel.sizes) + [name for name, _ in (code.sizes if code else ())]
    named += list(code.sizes) if code else []
    text = kernel.source if code is None else code.source.replace("ig_epilogue", "IG_FUNCTION_epilogue")
    if code is not None:
        text += kernel.source.replace("ig_epilogue", "IG_FUNCTION_epilogue")
    return Call(
        Kernel(kernel.hint, f"/* sizes: {', '.join(order)} */\n" + text),
        [*operands, *(code.operands if code else ())],
        named,
        SizeTerm(kernel.tasks),
        SizeTerm(kernel.cost),
        SizeTerm(kernel.scratch),
        nodes=tuple(nodes),
        title=title or " + ".join(node.op.name for node in nodes),
        flops=flops,
        order=order,
        tile=kernel.tile,
    )


def epilogue_code(
    kernel: StructuredKernel, epilogue: Epilogue, bias: Value | None = None, bias_view: View | None = None
) -> EpilogueCode:
    """The epilogue printed for its place behind a kernel's own buffers and sizes."""
    kind = register_kind(epilogue.result.dtype)
    return printed_epilogue(epilogue.kernel(bias, bias_view), kind, len(kernel.buffers), len(kernel.sizes))
