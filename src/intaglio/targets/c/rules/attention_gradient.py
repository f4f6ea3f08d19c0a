"""Gradients of attention: the scores are computed anew, block by block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intaglio.ir.dim import Dim, floordiv, maximum, minimum
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand, Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.targets.c.routine import Parameter, Routine
from intaglio.targets.c.rules.attention import kind_of, mask_view, refuse_mask, rows_of_heads
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, converted
from intaglio.targets.c.structured.attention import attention_gradient_kernel, gradient_scratch_bytes
from intaglio.targets.c.target_rules import machine


def _refuse(node: Node) -> Refusal | None:
    operands = [node.needed(place) for place in range(4)]
    if any(computed(value.dtype) != FLOAT32 for value in operands):
        return Refusal(Cause.ELEMENTS, f"{node.op.name} of {node.input.dtype} is not compiled as one kernel")
    q, k, v, _ = (value.shape for value in operands)
    if not all(isinstance(size, int) for size in (q[1], k[1], q[3], v[3])):
        return Refusal(Cause.SHAPE, "its heads are not known before the run")
    if q[0] != k[0]:
        return Refusal(Cause.FORM, "its batch may or may not be broadcast")
    return refuse_mask(node.optional(4), (*q[:3], k[2]))


@anchor("AttentionGradient", refuse=_refuse)
def attention_gradient(context: Context, node: Node, epilogue: Epilogue) -> None:
    """One task for each head of keys."""
    q, k, v, bar = (_operand(context, node.needed(place)) for place in range(4))
    results = [_result(context, value, like) for value, like in zip(node.outputs, (q, k, v), strict=True)]
    call = _routine(context, node, (q, k, v, bar), [wide for _, wide in results]).call(node)
    batch, heads, queries, size = q.shape
    call.flops = batch * heads * queries * k.shape[2] * (size * 6 + v.shape[3] * 4 + 30)
    context.emit(call)
    for value, (result, wide) in zip(node.outputs, results, strict=True):
        if result is not wide:
            converted(context, wide, FLOAT32, value.dtype, into=result)


def _operand(context: Context, value: Value) -> View:
    return rows_of_heads(context, value, context.view(value))


def _result(context: Context, value: Value, like: View) -> tuple[View, View]:
    """The memory of a gradient, in the order of its operand's, and that in float32 for the kernel."""
    order = _order(like)
    if order == (0, 1, 2, 3):
        result = context.allocate(value)
    else:
        buffer = context.temporary(value.dtype, value.tensor.size, value.name, value.shape)
        moved = whole(buffer, tuple(value.shape[axis] for axis in order))
        result = moved.transpose(tuple(order.index(axis) for axis in range(4)))
        context.views[value] = result
    if computed(value.dtype) == value.dtype:
        return result, result
    return result, whole(context.temporary(FLOAT32, value.tensor.size), value.shape)


def _order(view: View) -> tuple[int, ...]:
    """The axes of a view by their strides, the farthest apart first, where those are known."""
    steps = [step for step in view.strides if isinstance(step, int)]
    if len(steps) < 4:
        return (0, 2, 1, 3) if view.strides[1] == view.shape[3] else (0, 1, 2, 3)
    return (*sorted(range(3), key=lambda axis: (-steps[axis], axis)), 3)


def _routine(context: Context, node: Node, operands: Sequence[View], results: Sequence[View]) -> Routine:
    op, target, (q, k, v, _) = node.op, machine(context), operands
    batch, heads, queries, size = q.shape
    mask = mask_view(context, node.optional(4), (batch, heads, queries, k.shape[2]))
    scale = op.scale if op.scale is not None else float(size) ** -0.5  # pyright: ignore[reportArgumentType]
    factor = context.constant(np.array([scale], np.float32))
    kind = kind_of(mask, bool(op.is_causal))
    views = dict(zip(("q", "k", "v", "bar"), operands, strict=True))
    bars = dict(zip(("q_bar", "k_bar", "v_bar"), results, strict=True))
    element = "uint8_t" if kind.mask == "bool" else "float"
    parameters = [
        *(Parameter(name, "float", Operand(view.buffer, view.offset)) for name, view in views.items()),
        Parameter("mask", element, Operand(factor) if mask is None else Operand(mask.buffer, mask.offset)),
        Parameter("parameter", "float", Operand(factor)),
        *(Parameter(name, "float", Operand(view.buffer, view.offset, True)) for name, view in bars.items()),
    ]
    sizes: list[tuple[str, Size]] = [
        ("heads", k.shape[1]), ("group", floordiv(heads, k.shape[1])), ("S", queries), ("T", k.shape[2]), ("D", size),
        ("E", v.shape[3]),
    ]  # fmt: skip
    for name, view in (*views.items(), ("mask", mask), *bars.items()):
        strides: tuple[Dim, ...] = (0, 0, 0) if view is None else view.strides[:3]
        sizes += [(f"{name}_{axis}", stride) for axis, stride in zip(("batch", "head", "row"), strides, strict=True)]
    row_block = _row_block(context, queries, k.shape[2])
    sizes.append(("row_block", row_block))
    return Routine(
        "attention_gradient", attention_gradient_kernel(kind, target), parameters, sizes,
        batch * k.shape[1],
        1 + floordiv(floordiv(heads, k.shape[1]) * queries * k.shape[2] * (size * 3 + v.shape[3] * 2 + 30), 20),
        gradient_scratch_bytes(target, row_block, k.shape[2], (size, v.shape[3])),
    )  # fmt: skip


def _row_block(context: Context, queries: Dim, keys: Dim) -> Dim:
    """Queries at a time: three arrays of their scores fill at most half of the second cache."""
    resident = floordiv(machine(context).l2 // 24, keys + 1)
    return maximum(1, minimum(queries, maximum(24, resident)))
