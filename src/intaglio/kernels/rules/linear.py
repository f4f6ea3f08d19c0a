"""Matrix products by the packed gemm kernel."""

from __future__ import annotations

from typing import Literal

import numpy as np

from intaglio.ir.dim import Dim, product
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, anchor
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand
from intaglio.kernels.rules.call import epilogue_code, structured_call
from intaglio.kernels.structured.gemm import gemm
from intaglio.kernels.structured.pack import pack_b
from intaglio.kernels.view import View

Layout = Literal["rows", "columns"]


def _refuse(node: Node) -> str | None:
    a, b = node.inputs
    assert a is not None and b is not None
    if a.dtype != FLOAT32:
        return f"MatMul of {a.dtype} is not compiled yet"
    return None if _batches_are_known(a, b, node.output) else "its batch dimensions may or may not be broadcast"


def _batches_are_known(a: Value, b: Value, out: Value) -> bool:
    batch = out.shape[: max(a.rank, b.rank) - 2] if max(a.rank, b.rank) > 2 else ()
    for value in (a, b):
        own = value.shape[:-2]
        missing = len(batch) - len(own)
        if any(dim not in (1, batch[missing + axis]) for axis, dim in enumerate(own)):
            return False
    return True


@anchor("MatMul", refuse=_refuse, fuses=lambda node: node.inputs[0] is not None and node.inputs[0].rank > 1)
def matmul(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Choose the operands' layouts, fold the batch into the rows where the right operand is one matrix, and call."""
    a, b = node.inputs
    assert a is not None and b is not None
    if not epilogue.stores:
        epilogue.stores[node.output] = context.allocate(node.output)
    left = _matrix(context.view(a), is_left=True)
    batch = _batch_shape(a, b)
    m, k = left.shape[-2:]
    n: Dim = b.shape[-1] if b.rank > 1 else 1
    is_packed = b.constant is not None and b.rank <= 2
    left = _with_batch(left, batch)
    if is_packed or all(dim == 1 for dim in b.shape[:-2]):
        folded = _fold_batch(context, a, left)
        left, m, batch = folded, folded.shape[-2], ()
    left, a_layout, a_step = _layout(context, a, left)
    right, b_layout, b_step = _right(context, b, batch, is_packed)
    a_strides, b_strides = _two_levels(batch, left), _two_levels(batch, right) if right is not None else (1, 1, 0, 0)
    kernel = gemm(context.target, "float32", a_layout, b_layout)  # pyright: ignore[reportArgumentType]
    sizes: dict[str, Dim] = {
        "M": m, "N": n, "K": k, "outer": a_strides[0], "inner": a_strides[1],
        "a_step": a_step, "a_outer": a_strides[2], "a_inner": a_strides[3],
        "b_step": b_step, "b_outer": b_strides[2], "b_inner": b_strides[3],
    }  # fmt: skip
    b_operand = Operand(_packed(context, b)) if right is None else Operand(right.buffer, right.offset)
    code = epilogue_code(kernel, epilogue)
    flops = product(batch) * m * n * k * 2
    title = f"{' + '.join([node.op.name, *(x.op.name for x in epilogue.nodes)])} {m} x {n} x {k} -> {node.output.name}"
    context.emit(
        structured_call(kernel, [Operand(left.buffer, left.offset), b_operand], sizes, code, (node, *epilogue.nodes), flops, title)
    )


def _packed(context: Context, b: Value):
    assert b.constant is not None
    array = b.constant if b.rank > 1 else b.constant[:, None]
    return context.packed(b, "gemm", lambda: pack_b(np.asarray(array, np.float32), context.target))


def _batch_shape(a: Value, b: Value) -> tuple[Dim, ...]:
    longer, shorter = sorted((a.shape[:-2], b.shape[:-2]), key=len, reverse=True)
    missing = len(longer) - len(shorter)
    return tuple(
        dim if axis < missing or dim != 1 else shorter[axis - missing] for axis, dim in enumerate(longer)
    )


def _matrix(view: View, is_left: bool) -> View:
    """A vector as a matrix of one row or one column."""
    if len(view.shape) > 1:
        return view
    (extent,), (stride,) = view.shape, view.strides
    if is_left:
        return View(view.buffer, view.offset, (1, extent), (extent, stride))
    return View(view.buffer, view.offset, (extent, 1), (stride, 1))


def _with_batch(view: View, batch: tuple[Dim, ...]) -> View:
    return view.broadcast((*batch, *view.shape[-2:]))


def _fold_batch(context: Context, a: Value, left: View) -> View:
    """All batches of the left operand as rows of one matrix."""
    rows = product(left.shape[:-1])
    folded = left.reshape((rows, left.shape[-1]))
    if folded is None:
        copied = context.copy(a, left)
        folded = copied.reshape((rows, left.shape[-1]))
        assert folded is not None
    return folded


def _layout(context: Context, value: Value, view: View) -> tuple[View, Layout, Dim]:
    """A view whose rows or columns are contiguous, which of the two, and the step between them."""
    rows, columns = view.shape[-2:]
    if (view.strides[-1] == 1 or columns == 1) and _has_two_levels(view):
        return view, "rows", view.strides[-2] if rows != 1 else columns
    if view.strides[-2] == 1 and _has_two_levels(view):
        return view, "columns", view.strides[-1]
    copied = context.copy(value, view)
    return copied, "rows", columns


def _has_two_levels(view: View) -> bool:
    """Whether the batch axes collapse to at most two loops."""
    return len(_levels(view.shape[:-2], view)) <= 2


def _levels(batch: tuple[Dim, ...], view: View) -> list[tuple[Dim, Dim]]:
    levels: list[tuple[Dim, Dim]] = []
    for extent, stride in zip(batch, view.strides[: len(batch)], strict=True):
        if extent == 1:
            continue
        levels.append((extent, stride))
    return levels


def _two_levels(batch: tuple[Dim, ...], view: View) -> tuple[Dim, Dim, Dim, Dim]:
    """Outer and inner batch counts and this operand's strides along them."""
    levels = _levels(batch, view)
    levels = [(1, 0)] * (2 - len(levels)) + levels
    return levels[0][0], levels[1][0], levels[0][1], levels[1][1]


def _right(
    context: Context, b: Value, batch: tuple[Dim, ...], is_packed: bool
) -> tuple[View | None, Literal["packed", "rows", "columns"], Dim]:
    if is_packed:
        return None, "packed", 0
    view = _with_batch(_matrix(context.view(b), is_left=False), batch)
    return _layout(context, b, view)
