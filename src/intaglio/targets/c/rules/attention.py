"""Attention: scores, softmax and the product with the values in one kernel."""

from __future__ import annotations

import numpy as np

from intaglio.ir.dim import THREADS, Dim, floordiv, maximum, minimum, pieces
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand, Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.targets.c.routine import Parameter, Routine
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, converted, widened
from intaglio.targets.c.structured.attention import (
    AttentionKind,
    attention_kernel,
    scratch_bytes,
)
from intaglio.targets.c.structured.source import register_tile
from intaglio.targets.c.target_rules import machine

Shape = tuple[Dim, ...]


def _is_read(value: Value) -> bool:
    return bool(value.uses) or value.is_output


def _heads(node: Node, position: int) -> int:
    return node.op.q_num_heads if position == 0 else node.op.kv_num_heads


def _unpacked_shape(node: Node, position: int) -> Shape:
    """The shape (batch, heads, sequence, head size) of Q, K or V."""
    shape = node.needed(position).shape
    if len(shape) == 4:
        return shape
    heads = _heads(node, position)
    return shape[0], heads, shape[1], floordiv(shape[2], heads)


def _keys(node: Node) -> Dim:
    """The number of keys, those of the past counted."""
    past = node.optional(4)
    fresh = _unpacked_shape(node, 1)[2]
    return fresh if past is None else past.shape[2] + fresh


def _refuse(node: Node) -> Refusal | None:
    op, q, k = node.op, _unpacked_shape(node, 0), _unpacked_shape(node, 1)
    if any(computed(node.needed(i).dtype) != FLOAT32 for i in range(3)):
        return Refusal(Cause.ELEMENTS, f"Attention of {node.input.dtype} is not compiled as one kernel")
    if op.left_window_size >= 0 or op.right_window_size >= 0 or node.optional(6) is not None:
        return Refusal(Cause.FORM, "windows and lengths of keys are not compiled as one kernel")
    if op.softmax_precision not in (None, 1) or (len(node.outputs) > 3 and _is_read(node.outputs[3])):
        return Refusal(Cause.FORM, "the scores' precision or the scores themselves are asked for")
    if not all(isinstance(shape[1], int) and isinstance(shape[3], int) for shape in (q, k)):
        return Refusal(Cause.SHAPE, "its heads are not known before the run")
    if q[0] != k[0]:
        return Refusal(Cause.FORM, "its batch may or may not be broadcast")
    return refuse_mask(node.optional(3), (*q[:3], _keys(node)))


def refuse_mask(mask: Value | None, full: Shape) -> Refusal | None:
    """Why a mask of scores of a shape is not compiled in."""
    if mask is None:
        return None
    if mask.dtype.name not in ("bool", "float32") or mask.rank > 4:
        return Refusal(Cause.ELEMENTS, f"a mask of type {mask.type} is not compiled as one kernel")
    missing = 4 - mask.rank
    is_even = all(dim in (1, full[missing + axis]) for axis, dim in enumerate(mask.shape[:-1]))
    return (
        None
        if is_even and mask.shape[-1:] == full[3:]
        else Refusal(Cause.FORM, "its mask may be broadcast or shorter than the keys")
    )


@anchor("Attention", refuse=_refuse, needs={"vectors"})
def attention(context: Context, node: Node, epilogue: Epilogue) -> None:
    """One task for some queries of each head; caches of keys and values are joined by copies first."""
    q = rows_of_heads(context, node.input, _unpacked(context, node, 0))
    k, v = (_joined(context, node, position) for position in (1, 2))
    result, wide = _results(context, node)
    call = _routine(context, node, q, k, v, wide).call(node)
    batch, heads, queries, size = q.shape
    call.flops = batch * heads * queries * _keys(node) * ((size + v.shape[3]) * 2 + 20)
    context.emit(call)
    if result is not wide:
        converted(context, wide, FLOAT32, node.outputs[0].dtype, into=result)


def _unpacked(context: Context, node: Node, position: int) -> View:
    """Q, K or V as a view (batch, heads, sequence, head size)."""
    value = node.needed(position)
    view = context.view(value)
    if value.rank == 4:
        return view
    batch, heads, length, size = _unpacked_shape(node, position)
    split = view.reshape((batch, length, heads, size))
    if split is None:
        split = context.contiguous(value).reshape((batch, length, heads, size))
        assert split is not None
    return split.transpose((0, 2, 1, 3))


def rows_of_heads(context: Context, value: Value, view: View) -> View:
    """The view in float32 with elements of a head side by side."""
    wide = widened(context, value, view)
    if wide.strides[3] == 1 or wide.shape[3] == 1:
        return wide
    return converted(context, wide, FLOAT32, FLOAT32)


def _joined(context: Context, node: Node, position: int) -> View:
    """Keys or values with those of the past before them, which is also an output."""
    value, past = node.needed(position), node.optional(position + 3)
    fresh = _unpacked(context, node, position)
    output = node.outputs[position] if len(node.outputs) > position else None
    if past is None:
        if output is not None and _is_read(output):
            context.copy(value, fresh, into=context.allocate(output))
        return rows_of_heads(context, value, fresh)
    shape = (fresh.shape[0], fresh.shape[1], past.shape[2] + fresh.shape[2], fresh.shape[3])
    if output is None:
        joined = whole(context.temporary(value.dtype, fresh.shape[0] * fresh.shape[1] * shape[2] * shape[3]), shape)
    else:
        joined = context.allocate(output)
    context.copy(past, context.view(past), into=joined.window(2, 0, 1, past.shape[2]))
    context.copy(value, fresh, into=joined.window(2, past.shape[2], 1, fresh.shape[2]))
    return rows_of_heads(context, value, joined)


def _results(context: Context, node: Node) -> tuple[View, View]:
    """The output as a view (batch, heads, sequence, size), and the one in float32 that the kernel writes.

    Where the axes before the last are moved next, they are written in that order at once.
    """
    value = node.outputs[0]
    batch, heads, length, _ = _unpacked_shape(node, 0)
    size = _unpacked_shape(node, 2)[3]
    shape = batch, heads, length, size
    order = (0, 2, 1, 3) if value.rank == 3 else _moved(value)
    if order is not None:
        buffer = context.temporary(value.dtype, value.tensor.size, value.name, value.shape)
        moved = whole(buffer, tuple(shape[axis] for axis in order))
        result = moved.transpose(tuple(order.index(axis) for axis in range(4)))
        context.views[value] = result if value.rank == 4 else whole(buffer, value.shape)
    else:
        result = context.allocate(value)
    if computed(value.dtype) == value.dtype:
        return result, result
    return result, whole(context.temporary(FLOAT32, value.tensor.size), result.shape)


def _moved(value: Value) -> tuple[int, ...] | None:
    """The order in which a reader wants the axes of a value, where its rows stay rows."""
    orders = [getattr(reader.op, "perm", None) for reader in value.readers if reader.op.name == "Transpose"]
    return next((order for order in orders if order is not None and order[-1] == 3), None)


def mask_view(context: Context, mask: Value | None, shape: Shape) -> View | None:
    """The mask in the shape of the scores."""
    if mask is None:
        return None
    view = context.view(mask)
    if view.strides[-1] not in (0, 1) and view.shape[-1] != 1:
        view = context.copy(mask, view)
    return view.broadcast(shape)


def kind_of(mask: View | None, is_causal: bool, has_cap: bool = False) -> AttentionKind:
    """What is compiled in, for a mask in the shape of the scores."""
    if mask is None:
        return AttentionKind(is_causal=is_causal, has_cap=has_cap)
    kind = "bool" if mask.buffer.dtype.name == "bool" else "float"
    return AttentionKind(kind, mask.strides[3] == 0, is_causal, has_cap)


def _routine(context: Context, node: Node, q: View, k: View, v: View, result: View) -> Routine:
    op, past = node.op, node.optional(4)
    batch, heads, queries, size = q.shape
    mask = mask_view(context, node.optional(3), (batch, heads, queries, k.shape[2]))
    scale = op.scale if op.scale is not None else float(size) ** -0.5  # pyright: ignore[reportArgumentType]
    numbers = context.constant(np.array([scale, op.softcap], np.float32))
    kind = kind_of(mask, bool(op.is_causal), op.softcap != 0)
    parameters = [
        Parameter(name, "float", Operand(view.buffer, view.offset)) for name, view in zip("qkv", (q, k, v), strict=True)
    ]
    element = "uint8_t" if kind.mask == "bool" else "float"
    parameters.append(
        Parameter("mask", element, Operand(numbers) if mask is None else Operand(mask.buffer, mask.offset))
    )
    parameters.append(Parameter("parameter", "float", Operand(numbers)))
    parameters.append(Parameter("y", "float", Operand(result.buffer, result.offset, True)))
    sizes: list[tuple[str, Size]] = [
        ("heads", heads), ("group", floordiv(heads, k.shape[1])), ("S", queries), ("T", k.shape[2]), ("D", size),
        ("E", v.shape[3]), ("past", 0 if past is None else past.shape[2]),
    ]  # fmt: skip
    for name, view in (("q", q), ("k", k), ("v", v), ("y", result), ("mask", mask)):
        strides: Shape = (0, 0, 0) if view is None else view.strides[:3]
        sizes += [(f"{name}_{axis}", stride) for axis, stride in zip(("batch", "head", "row"), strides, strict=True)]
    row_block = _row_block(context, batch * heads, queries, k.shape[2])
    sizes.append(("row_block", row_block))
    return Routine(
        "attention", attention_kernel(kind, machine(context)), parameters, sizes,
        batch * heads * pieces(queries, row_block),
        1 + floordiv(row_block * k.shape[2] * (size + v.shape[3] + 20), 20),
        scratch_bytes(machine(context), row_block, k.shape[2], size),
    )  # fmt: skip


def _row_block(context: Context, heads: Dim, queries: Dim, keys: Dim) -> Dim:
    """Queries of a task: their scores fill at most half of the second cache, and every thread has several tasks."""
    rows = register_tile(machine(context)).rows
    resident = floordiv(machine(context).l2 // 8, keys + 1)
    share = floordiv(queries * heads, 4 * THREADS)
    block = maximum(rows, minimum(resident, maximum(4 * rows, share)))
    return maximum(1, minimum(queries, block))
