"""Attention as two products by the library, and the softmax between them in one kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, ceildiv, equal, product
from intaglio.ir.dtype import BOOL, FLOAT32, DType
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, row_major, whole
from intaglio.ops.shared.operand import cast
from intaglio.targets.cuda.rules.products import ELEMENTS, emit_product
from intaglio.targets.cuda.rules.table import anchor


def _refuse(node: Node) -> Refusal | None:
    """None for heads of their own, no caches, no windows, and a mask that is added or hides."""
    op: Any = node.op
    q, k, v = node.input, node.needed(1), node.needed(2)
    others = [value for value in node.inputs[4:] if value is not None]
    if others or any(value.uses or value.is_output for value in node.outputs[1:]):
        return Refusal(Cause.FORM, "it has caches or lengths, or gives more than its result")
    if op.is_causal or op.softcap or op.left_window_size >= 0 or op.right_window_size >= 0:
        return Refusal(Cause.FORM, "it hides keys by their places or caps scores")
    if op.softmax_precision is not None or {q.rank, k.rank, v.rank} != {4} or q.dtype.name not in ELEMENTS[:1] + ELEMENTS[2:]:
        return Refusal(Cause.FORM, "its elements or axes are others than the library's")
    if q.shape[1] != k.shape[1] or q.shape[0] != k.shape[0] or q.shape[:2] != v.shape[:2] or v.dtype != q.dtype:
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


def _padded(context: Context, dtype: DType, shape: tuple[Dim, ...], name: str) -> View:
    """Fresh memory for matrices whose rows begin at places that the library likes."""
    step = 8 * ceildiv(shape[-1], 8)
    buffer = context.temporary(dtype, product(shape[:-1]) * step, name)
    return View(buffer, 0, shape, (*(stride * step for stride in row_major(shape[:-1])), 1))


def _softmax(context: Context, node: Node, scores: View, chances: View) -> None:
    """Chances of scaled and masked scores; a query that sees no key has none."""
    op: Any = node.op
    q, mask = node.input, node.optional(3)
    head = q.shape[3]
    scale = op.scale if op.scale is not None else 1 / math.sqrt(head) if isinstance(head, int) else None
    assert scale is not None, "the size of heads is known"
    graph = Graph("softmax")
    b = Builder(graph)
    given = graph.add_input("scores", TensorType(FLOAT32, scores.shape))
    loads = {given: scores}
    x = b.Mul(given, b.constant(np.float32(scale)))
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
    constants = {value: _scalar(context, value, scores) for each in nodes for value in each.inputs if _is_scalar(value)}
    fused = FusedNodes(nodes, scores.shape, (3,), {**loads, **constants}, {result: chances}, f"softmax of {node.outputs[0].name}")
    call = context.rules.loop_call(fused)
    call.nodes = (node,)
    context.emit(call)


def _is_scalar(value: Value | None) -> bool:
    return value is not None and value.constant is not None and value.rank == 0


def _scalar(context: Context, value: Value | None, scores: View) -> View:
    assert value is not None
    return context.constant_view(value).broadcast(scores.shape)
