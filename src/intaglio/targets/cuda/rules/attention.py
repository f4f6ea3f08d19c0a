"""Attention as two products by the library, and the softmax between them in one kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, ceildiv, equal, floordiv, product
from intaglio.ir.dtype import BOOL, FLOAT32, DType
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.kernel import Kernel, LibraryCall
from intaglio.kernels.plan import Call, Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, row_major, whole
from intaglio.ops.shared.operand import cast
from intaglio.targets.cuda.functions import ATTENTION
from intaglio.targets.cuda.rules.products import ELEMENTS, emit_product
from intaglio.targets.cuda.rules.table import anchor

HEADS = (16, 32, 48, 64, 80, 96, 112, 128)
"""The sizes of heads that the kernel is written for."""


def _is_for_kernel(node: Node) -> bool:
    """Whether one kernel computes it all: 16-bit floats, with heads of a size that it knows."""
    q, k, v, mask = node.input, node.needed(1), node.needed(2), node.optional(3)
    masks = ("bool", "float32", q.dtype.name)
    is_narrow = q.dtype.name in ("float16", "bfloat16") and {k.dtype, v.dtype} == {q.dtype}
    is_masked = mask is None or mask.dtype.name in masks
    return is_narrow and is_masked and q.shape[3] in HEADS and v.shape[3] == q.shape[3] == k.shape[3]


def _refuse(node: Node) -> Refusal | None:
    """None for no caches, no windows, and a mask that is added or hides."""
    op: Any = node.op
    q, k, v = node.input, node.needed(1), node.needed(2)
    others = [value for value in node.inputs[4:] if value is not None]
    if others or any(value.uses or value.is_output for value in node.outputs[1:]):
        return Refusal(Cause.FORM, "it has caches or lengths, or gives more than its result")
    if (
        (op.is_causal and not _is_for_kernel(node))
        or op.softcap
        or op.left_window_size >= 0
        or op.right_window_size >= 0
    ):
        return Refusal(Cause.FORM, "it hides keys by their places or caps scores")
    if (
        op.softmax_precision is not None
        or {q.rank, k.rank, v.rank} != {4}
        or q.dtype.name not in ELEMENTS[:1] + ELEMENTS[2:]
    ):
        return Refusal(Cause.FORM, "its elements or axes are others than the library's")
    shares = isinstance(q.shape[1], int) and isinstance(k.shape[1], int) and q.shape[1] % k.shape[1] == 0
    is_own = q.shape[1] == k.shape[1] or (shares and _is_for_kernel(node))
    if not is_own or q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3] or {k.dtype, v.dtype} != {q.dtype}:
        return Refusal(Cause.FORM, "several heads share keys")
    mask = node.optional(3)
    scores = (*q.shape[:3], k.shape[2])
    if mask is not None and not _is_broadcast(mask, scores):
        return Refusal(Cause.FORM, "its mask may or may not be broadcast")
    return None


def _is_broadcast(mask: Value, scores: tuple[Any, ...]) -> bool:
    """Whether it is known how each axis of a mask is repeated."""
    missing = 4 - mask.rank
    if missing < 0 or (mask.rank and mask.shape[-1] != scores[-1]):
        return False
    return all(dim == 1 or equal(dim, scores[missing + axis]) == 1 for axis, dim in enumerate(mask.shape))


@anchor("Attention", refuse=_refuse)
def attention(context: Context, node: Node, epilogue: Epilogue) -> None:
    """softmax(q @ k' * scale + mask) @ v; scores are single precision in memory, chances have the type of q."""
    if _is_for_kernel(node):
        _by_kernel(context, node)
        return
    q, k, v = node.input, node.needed(1), node.needed(2)
    shape = (*q.shape[:3], k.shape[2])
    keys = context.view(k).transpose((0, 1, 3, 2))
    scores = _padded(context, FLOAT32, shape, "scores")
    emit_product(context, node, (q, context.view(q)), (k, keys), scores)
    chances = _padded(context, q.dtype, shape, "chances")
    _softmax(context, node, scores, chances)
    value = Value("chances", TensorType(q.dtype, shape))
    output = node.outputs[0]
    target = context.allocate(output)
    emit_product(context, node, (value, chances), (v, context.view(v)), whole(target.buffer, output.shape))


def _scale(node: Node) -> float:
    op: Any = node.op
    head = node.input.shape[3]
    if op.scale is not None:
        return float(op.scale)
    assert isinstance(head, int), "the size of heads is known"
    return 1 / math.sqrt(head)


def _by_kernel(context: Context, node: Node) -> None:
    """One kernel, which writes heads beside each other: what puts them together behind it is a view."""
    op: Any = node.op
    q, k, v, mask = node.input, node.needed(1), node.needed(2), node.optional(3)
    batch, heads, queries, head = q.shape
    views = [view if view.strides[-1] == 1 else context.contiguous(x) for x in (q, k, v) for view in (context.view(x),)]
    buffer = context.temporary(q.dtype, batch * heads * queries * head, node.outputs[0].name, node.outputs[0].shape)
    y = View(buffer, 0, q.shape, (queries * heads * head, head, heads * head, 1))
    sizes: dict[str, Dim] = {
        "batch": batch, "heads": heads, "share": floordiv(heads, k.shape[1]), "queries": queries, "keys": k.shape[2],
        "is_causal": int(op.is_causal),
    }  # fmt: skip
    for name, view in zip("qkvy", (*views, y), strict=True):
        sizes |= {
            f"{name}_{axis}": stride for axis, stride in zip(("batch", "head", "row"), view.strides, strict=False)
        }
    shape = (batch, heads, queries, k.shape[2])
    hidden = None if mask is None else context.view(mask).broadcast(shape)
    strides = (0, 0, 0, 0) if hidden is None else hidden.strides
    sizes |= {f"mask_{axis}": stride for axis, stride in zip(("batch", "head", "row", "column"), strides, strict=True)}
    form = {
        "element": q.dtype.name,
        "head": head,
        "mask": "" if mask is None else mask.dtype.name,
        "scale": repr(_scale(node)),
    }
    read = [*views, *([] if hidden is None else [hidden])]
    operands = [*(Operand(view.buffer, view.offset) for view in read), Operand(buffer, 0, True)]
    call = LibraryCall(
        ATTENTION, tuple(sorted((key, value) for key, value in form.items() if isinstance(value, (int, str))))
    )
    title = f"Attention -> {node.outputs[0].name}: {node.outputs[0].type}"
    flops = product(shape) * head * 4
    context.emit(
        Call(Kernel(ATTENTION, call), operands, list(sizes.items()), 1, 1, nodes=(node,), title=title, flops=flops)
    )
    context.views[node.outputs[0]] = y


def _padded(context: Context, dtype: DType, shape: tuple[Dim, ...], name: str) -> View:
    """Fresh memory for matrices whose rows begin at places that the library likes."""
    step = 8 * ceildiv(shape[-1], 8)
    buffer = context.temporary(dtype, product(shape[:-1]) * step, name)
    return View(buffer, 0, shape, (*(stride * step for stride in row_major(shape[:-1])), 1))


def _softmax(context: Context, node: Node, scores: View, chances: View) -> None:
    """Chances of scaled and masked scores; a query that sees no key has none."""
    q, mask = node.input, node.optional(3)
    graph = Graph("softmax")
    b = Builder(graph)
    given = graph.add_input("scores", TensorType(FLOAT32, scores.shape))
    loads = {given: scores}
    x = b.Mul(given, b.constant(np.float32(_scale(node))))
    if mask is not None:
        view = context.view(mask)
        source = graph.add_input("mask", TensorType(mask.dtype, mask.shape))
        loads[source] = view.broadcast(scores.shape)
        least = b.constant(np.float32(-np.inf))
        x = b.Where(source, x, least) if mask.dtype == BOOL else b.Add(x, cast(b, source, FLOAT32))
    greatest = b.ReduceMax(x, [3], keepdims=1)
    is_blind = b.Equal(greatest, b.constant(np.float32(-np.inf)))
    shift = b.Where(is_blind, b.constant(np.float32(0)), greatest)
    power = b.Exp(b.Sub(x, shift))
    total = b.ReduceSum(power, [3], keepdims=1)
    result = cast(b, b.Where(is_blind, b.constant(np.float32(0)), b.Div(power, total)), q.dtype)
    nodes = [each for each in graph.nodes if each.op.name != "Constant"]
    read = [value for each in nodes for value in each.inputs if value is not None]
    scalars = [value for value in read if value.constant is not None and value.rank == 0]
    constants = {value: context.constant_view(value).broadcast(scores.shape) for value in scalars}
    fused = FusedNodes(
        nodes, scores.shape, (3,), {**loads, **constants}, {result: chances}, f"softmax of {node.outputs[0].name}"
    )
    call = context.rules.loop_call(fused)
    call.nodes = (node,)
    context.emit(call)
