"""Gradients of convolutions by their kernels."""

from __future__ import annotations

from typing import cast

from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View
from intaglio.ops.convolution import ConvWeightGradient
from intaglio.ops.shared.window import Window
from intaglio.targets.c.rules.call import structured_call
from intaglio.targets.c.rules.channels import channels_last
from intaglio.targets.c.rules.convolution import sizes_of_windows
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, give_narrow, side_by_side, wide_result
from intaglio.targets.c.structured.source import Element
from intaglio.targets.c.structured.weight_gradient import conv_weight_gradient, depthwise_weight_gradient
from intaglio.targets.c.target_rules import machine


def _op(node: Node) -> ConvWeightGradient:
    assert isinstance(node.op, ConvWeightGradient)
    return node.op


def _refuse(node: Node) -> Refusal | None:
    x = node.input
    if computed(x.dtype).name not in ("float32", "float64"):
        return Refusal(Cause.ELEMENTS, f"{node.op.name} of {x.dtype} is not compiled yet")
    if not 3 <= x.rank <= 5:
        return Refusal(Cause.FORM, f"a convolution of rank {x.rank} is not compiled yet")
    return None


@anchor("ConvWeightGradient", refuse=_refuse)
def weight_gradient(context: Context, node: Node, epilogue: Epilogue) -> None:
    """One call, on input and gradient with their channels last."""
    op, (x, y_bar) = _op(node), (node.input, node.needed(1))
    data, bars = op.first(x.shape), op.first(y_bar.shape)
    windows = [
        Window(w.input, w.kernel, w.stride, w.dilation, w.begin, w.end, found)
        for w, found in zip(op.windows(data[2:]), bars[2:], strict=True)
    ]
    sizes: dict[str, Dim] = sizes_of_windows(windows, data[0], data[1], bars[1]) | {"groups": op.group}
    element = cast(Element, computed(x.dtype).name)
    is_depthwise = element == "float32" and 1 < op.group == data[1] == bars[1]
    target = machine(context)
    kernel = depthwise_weight_gradient(target, data[1]) if is_depthwise else conv_weight_gradient(target, element)
    operands = [Operand(view.buffer, view.offset) for view in (_last(context, op, v) for v in (x, y_bar))]
    result = wide_result(context, node.output)
    operands.append(Operand(result.buffer, result.offset, True))
    flops = product(bars) * product((node.output.shape[1], *op.kernel_shape)) * 2
    title = f"{op.name} as {kernel.hint} -> {node.output.name}: {node.output.type}"
    context.emit(structured_call(kernel, operands, sizes, None, (node,), flops, title))
    give_narrow(context, node.output, result)


def _last(context: Context, op: ConvWeightGradient, value: Value) -> View:
    if op.channels_last:
        return side_by_side(context, value)
    return channels_last(context, value, computed(value.dtype))
