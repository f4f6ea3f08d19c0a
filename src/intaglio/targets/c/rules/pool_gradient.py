"""Gradients of MaxPool."""

from __future__ import annotations

from typing import cast

from intaglio.ir.dim import Dim, compare, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View
from intaglio.ops.pooling import MaxPoolGradient
from intaglio.ops.shared.window import Window
from intaglio.targets.c.rules.call import structured_call
from intaglio.targets.c.rules.channels import channels_last, give_last, result_last
from intaglio.targets.c.rules.convolution import sizes_of_windows
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, give_narrow, side_by_side, wide_result
from intaglio.targets.c.structured.pool import max_pool_gradient
from intaglio.targets.c.structured.source import Element
from intaglio.targets.c.target_rules import machine


def _op(node: Node) -> MaxPoolGradient:
    assert isinstance(node.op, MaxPoolGradient)
    return node.op


def _windows(node: Node) -> tuple[Window, ...]:
    return _op(node).windows(_op(node).first(node.input.shape)[2:])


def _refuse(node: Node) -> Refusal | None:
    x = node.input
    if computed(x.dtype).name not in ("float32", "float64"):
        return Refusal(Cause.ELEMENTS, f"{node.op.name} of {x.dtype} is not compiled yet")
    if not 3 <= x.rank <= 5:
        return Refusal(Cause.FORM, f"a pool of rank {x.rank} is not compiled yet")
    is_known = all(compare(window.kernel, 0) == 1 for window in _windows(node))
    return None if is_known else Refusal(Cause.SHAPE, "its window's size is not known before the run")


@anchor("MaxPoolGradient", refuse=_refuse)
def pool_gradient(context: Context, node: Node, epilogue: Epilogue) -> None:
    """One call, on operands with their channels last."""
    op, dtype = _op(node), computed(node.input.dtype)
    shape = op.first(node.input.shape)
    kernel = max_pool_gradient(machine(context), cast(Element, dtype.name))
    views = [_last(context, op, node.needed(place)) for place in range(3)]
    result = wide_result(context, node.output) if op.channels_last else result_last(context, node, dtype)
    operands = [*(Operand(view.buffer, view.offset) for view in views), Operand(result.buffer, result.offset, True)]
    windows = _windows(node)
    sizes: dict[str, Dim] = sizes_of_windows(windows, shape[0], shape[1], shape[1])
    work = product(node.needed(1).shape) * product(window.kernel for window in windows)
    title = f"{op.name} -> {node.output.name}: {node.output.type}"
    context.emit(structured_call(kernel, operands, sizes, None, (node,), work, title))
    if op.channels_last:
        give_narrow(context, node.output, result)
    else:
        give_last(context, node, result)


def _last(context: Context, op: MaxPoolGradient, value: Value) -> View:
    if op.channels_last:
        return side_by_side(context, value)
    return channels_last(context, value, computed(value.dtype))
