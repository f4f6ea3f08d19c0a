"""What follows a library's call: its result with a bias and the elementwise nodes behind it, in one kernel."""

from __future__ import annotations

from dataclasses import replace

from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.elements import scalar_type
from intaglio.kernels.epilogue import RESULT, Epilogue
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.language import Load, LoopKernel, Parameter
from intaglio.kernels.plan import Call, Operand
from intaglio.kernels.view import View, whole


def target_of(context: Context, epilogue: Epilogue, bias: Value | None = None) -> View:
    """Contiguous memory for the result of a call: the output itself where nothing follows, else its own."""
    result = epilogue.result
    if not epilogue.stores:
        epilogue.stores[result] = context.allocate(result)
    stored = epilogue.stores.get(result)
    if bias is None and not epilogue.nodes and stored is not None and stored.is_contiguous:
        return stored
    return whole(context.temporary(result.dtype, result.tensor.size, result.name), result.shape)


def finish(
    context: Context,
    node: Node,
    epilogue: Epilogue,
    result: View,
    bias: Value | None = None,
    bias_view: View | None = None,
) -> None:
    """Compute what follows the result, unless it is where it shall be."""
    output = epilogue.result
    if bias is None and not epilogue.nodes and epilogue.stores.get(output) == result:
        return
    made = epilogue.kernel(bias, bias_view)
    rows, columns = product(output.shape[:-1]), output.shape[-1] if output.shape else 1
    type = scalar_type(output.dtype)
    given = Parameter("result", output.dtype, ("result.row", 1))
    names = "_".join([node.op.name, *(each.op.name for each in epilogue.nodes)][:4]).lower()
    body = (Load(RESULT, type, "result"), *made.kernel.body)
    kernel: LoopKernel = replace(
        made.kernel, name=f"behind_{names}", about=f"what follows {node.op.name}",
        parameters=(given, *made.kernel.parameters), body=body,
    )  # fmt: skip
    sizes: dict[str, Dim] = {"row": rows, "column": columns, "result.row": columns, **made.sizes}
    operands = [Operand(result.buffer, result.offset)]
    operands += [
        Operand(view.buffer, view.offset, parameter.is_written)
        for view, parameter in zip(made.views, made.kernel.parameters, strict=True)
    ]
    context.emit(
        Call(
            Kernel(kernel.name, kernel), operands, [(name, sizes[name]) for name in kernel.sizes], 1, 1,
            nodes=tuple(epilogue.nodes) or (node,), title=f"behind {node.op.name} -> {output.name}",
        )
    )  # fmt: skip
