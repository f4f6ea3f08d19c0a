"""Matrix products by the packed gemm kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from intaglio.ir.dim import Dim, ceildiv, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import Buffer, View, row_major, whole
from intaglio.targets.c.rules.call import EpilogueCode, epilogue_code, structured_call
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, converted, widened
from intaglio.targets.c.structured.gemm import THIN, THIN_DEPTH, gemm, resident_rows
from intaglio.targets.c.structured.pack import pack_b, pack_kernel
from intaglio.targets.c.structured.source import (
    Element,
    StructuredKernel,
    is_narrow,
    plain_epilogue,
    register_tile,
)
from intaglio.targets.c.target_rules import machine

Layout = Literal["rows", "columns"]

FUSED_ELEMENTS = ("float32", "int32", "uint32")
"""The elements whose sums fill registers as epilogues expect them."""

ELEMENTS = (*FUSED_ELEMENTS, "float64", "int64", "uint64")


def _operands(node: Node) -> tuple[Value, Value]:
    return node.input, node.needed(1)


def _refuse(node: Node) -> Refusal | None:
    a, b = _operands(node)
    if computed(a.dtype).name not in ELEMENTS:
        return Refusal(Cause.ELEMENTS, f"MatMul of {a.dtype} is not compiled yet")
    return (
        None
        if batches_are_known(a, b, node.output)
        else Refusal(Cause.FORM, "its batch dimensions may or may not be broadcast")
    )


def batches_are_known(a: Value, b: Value, out: Value) -> bool:
    """Whether it is known for each batch axis of a product which operand is repeated along it."""
    batch = out.shape[: max(a.rank, b.rank) - 2] if max(a.rank, b.rank) > 2 else ()
    for value in (a, b):
        own = value.shape[:-2]
        missing = len(batch) - len(own)
        if any(dim not in (1, batch[missing + axis]) for axis, dim in enumerate(own)):
            return False
    return True


def _fuses(node: Node) -> bool:
    return all(v.rank > 1 for v in _operands(node)) and computed(_operands(node)[0].dtype).name in FUSED_ELEMENTS


@dataclass(frozen=True)
class MatrixOperand:
    """Matrices in memory: rows or columns contiguous and `step` apart, batches by up to two strides."""

    operand: Operand
    layout: Literal["rows", "columns", "packed"]
    step: Dim
    strides: tuple[Dim, Dim] = (0, 0)


@dataclass(frozen=True)
class Product:
    """The extents of a batched matrix product."""

    m: Dim
    n: Dim
    k: Dim
    batches: tuple[Dim, Dim] = (1, 1)

    @property
    def sides(self) -> tuple[Dim, Dim, Dim]:
        """M, N and K of each matrix."""
        return self.m, self.n, self.k

    @property
    def flops(self) -> Dim:
        """Multiplications and additions, each counted as one."""
        return product(self.batches) * self.m * self.n * self.k * 2


@anchor("MatMul", refuse=_refuse, fuses=_fuses, needs={"vectors"})
def matmul(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Choose the operands' layouts, fold the batch into the rows where the right operand is one matrix, and call."""
    a, b = _operands(node)
    if not epilogue.stores:
        epilogue.stores[node.output] = context.allocate(node.output)
    left = as_matrix(widened(context, a), is_left=True)
    batch = batch_shape(a, b)
    n: Dim = b.shape[-1] if b.rank > 1 else 1
    right = None if _is_packed(b) else as_matrix(widened(context, b), is_left=False)
    left = left.broadcast((*batch, *left.shape[-2:]))
    if right is None or all(dim == 1 for dim in right.shape[:-2]):
        left, batch = folded(context, a, left), ()
        right = None if right is None else View(right.buffer, right.offset, right.shape[-2:], right.strides[-2:])
    extents = Product(left.shape[-2], n, left.shape[-1])
    if right is None:
        matrix = single_matrix(context, a, left)
        operands = matrix, _constant_operand(context, b, extents, matrix.layout == "rows")
    else:
        right = right.broadcast((*batch, *right.shape[-2:]))
        extents, operands = _two_levels(context, (a, left), (b, right), extents)
    _emit(context, node, epilogue, operands, extents)


def _emit(
    context: Context, node: Node, epilogue: Epilogue, operands: tuple[MatrixOperand, MatrixOperand], extents: Product
) -> None:
    a, _ = _operands(node)
    element = cast(Element, computed(a.dtype).name)
    operands = operands[0], _packed_once(context, node, operands, extents, element)
    narrow = is_narrow(machine(context), element, extents.n)
    layouts = cast(Layout, operands[0].layout), operands[1].layout
    kernel = gemm(machine(context), element, *layouts, narrow=narrow, extents=extents.sides)
    if _fuses(node):
        code = epilogue_code(epilogue)
    else:
        code = _plain_code(context, node, epilogue, kernel, element, extents)
    names = " + ".join([node.op.name, *(x.op.name for x in epilogue.nodes)])
    title = f"{names} {extents.m} x {extents.n} x {extents.k} -> {node.output.name}"
    gemm_call(context, kernel, operands, extents, code, (node, *epilogue.nodes), title)
    if computed(node.output.dtype) != node.output.dtype and not _fuses(node):
        wide = whole(code.operands[0].buffer, node.output.shape)
        converted(context, wide, computed(a.dtype), a.dtype, into=context.view(node.output))


def _packed_once(
    context: Context,
    node: Node,
    operands: tuple[MatrixOperand, MatrixOperand],
    extents: Product,
    element: Element,
) -> MatrixOperand:
    """The right operand; packed ahead of the product where that has so many rows that tasks would pack it again."""
    left, right = operands
    is_single = extents.batches == (1, 1) and right.layout != "packed" and left.layout == "rows"
    if not is_single or not has_many_rows(context, extents, element):
        return right
    buffer = packed_in_run(context, node, right, extents, element)
    return MatrixOperand(Operand(buffer), "packed", 0)


def has_many_rows(context: Context, extents: Product, element: Element) -> bool:
    """Whether a product surely has so many rows that its tasks would pack the right operand again and again."""
    m, n, k = extents.m, extents.n, extents.k
    if not isinstance(m, int) or not isinstance(n, int) or not isinstance(k, int):
        return False
    target = machine(context)
    resident = resident_rows(target, register_tile(target, element), k)
    return isinstance(resident, int) and m > resident and n > THIN and not is_narrow(target, element, n)


def packed_in_run(context: Context, node: Node, right: MatrixOperand, extents: Product, element: Element) -> Buffer:
    """One right operand in panels, by a call of its own."""
    target = machine(context)
    kernel = pack_kernel(target, element, cast(Layout, right.layout))
    columns = register_tile(target, element).columns
    size = product((ceildiv(extents.n, columns), extents.k, columns))
    packed = context.temporary(right.operand.buffer.dtype, size, "packed")
    sizes: dict[str, Dim] = {"N": extents.n, "K": extents.k, "batch": 1, "b_step": right.step, "b_batch": 0}
    operands = [right.operand, Operand(packed, 0, True)]
    context.emit(structured_call(kernel, operands, sizes, None, (node,), 0, f"pack {extents.k} x {extents.n}"))
    return packed


def _plain_code(
    context: Context, node: Node, epilogue: Epilogue, kernel: StructuredKernel, element: Element, extents: Product
) -> EpilogueCode:
    """An epilogue that only stores: into the output, or ahead of its conversion into a temporary."""
    target = epilogue.stores[node.output].buffer
    if computed(node.output.dtype) != node.output.dtype:
        target = context.temporary(computed(node.output.dtype), target.size)
    stores = plain_epilogue(element, len(kernel.buffers), len(kernel.sizes))
    return EpilogueCode(stores, [Operand(target, 0, True)], [("out_step", extents.n)])


def gemm_call(
    context: Context,
    kernel: StructuredKernel,
    operands: tuple[MatrixOperand, MatrixOperand],
    extents: Product,
    code: EpilogueCode,
    nodes: tuple[Node, ...],
    title: str,
) -> None:
    """Call a gemm kernel made for the layouts of the operands."""
    left, right = operands
    sizes: dict[str, Dim] = {
        "M": extents.m, "N": extents.n, "K": extents.k, "outer": extents.batches[0], "inner": extents.batches[1],
        "a_step": left.step, "a_outer": left.strides[0], "a_inner": left.strides[1],
        "b_step": right.step, "b_outer": right.strides[0], "b_inner": right.strides[1],
    }  # fmt: skip
    buffers = [left.operand, right.operand]
    context.emit(structured_call(kernel, buffers, sizes, code, nodes, extents.flops, title))


def _is_packed(b: Value) -> bool:
    return b.constant is not None and b.rank <= 2


def _constant_operand(context: Context, b: Value, extents: Product, has_rows: bool) -> MatrixOperand:
    """A constant right operand: in panels, or as columns where they are so few and long that dot products pay."""
    array = as_array(b) if b.rank > 1 else as_array(b)[:, None]
    element = cast(Element, computed(b.dtype).name)
    depth, columns = array.shape
    if has_rows and extents.m != 1 and 0 < columns <= THIN and depth >= THIN_DEPTH * columns:
        turned = context.packed(b, f"columns {element}", lambda: np.ascontiguousarray(array.T.astype(element)))
        return MatrixOperand(Operand(turned), "columns", depth)
    narrow = is_narrow(machine(context), element, columns)
    form = f"gemm {element} {narrow}"
    packed = context.packed(b, form, lambda: pack_b(array, machine(context), element, narrow=narrow))
    return MatrixOperand(Operand(packed), "packed", 0)


def batch_shape(a: Value, b: Value) -> tuple[Dim, ...]:
    """The batch axes of a product."""
    longer, shorter = sorted((a.shape[:-2], b.shape[:-2]), key=len, reverse=True)
    missing = len(longer) - len(shorter)
    return tuple(dim if axis < missing or dim != 1 else shorter[axis - missing] for axis, dim in enumerate(longer))


def as_matrix(view: View, is_left: bool) -> View:
    """A vector as a matrix of one row or one column."""
    if len(view.shape) != 1:
        return view
    extent, stride = view.shape[0], view.strides[0]
    if is_left:
        return View(view.buffer, view.offset, (1, extent), (extent, stride))
    return View(view.buffer, view.offset, (extent, 1), (stride, 1))


def folded(context: Context, a: Value, left: View) -> View:
    """All batches of the left operand as rows of one matrix."""
    rows = product(left.shape[:-1])
    folded = left.reshape((rows, left.shape[-1]))
    if folded is None:
        folded = copied(context, a, left).reshape((rows, left.shape[-1]))
        assert folded is not None
    return folded


def copied(context: Context, value: Value, view: View) -> View:
    """A contiguous copy of a view whose elements are in the type that the value is computed in."""
    target = whole(context.temporary(computed(value.dtype), product(view.shape), value.name), view.shape)
    return converted(context, view, computed(value.dtype), computed(value.dtype), into=target)


def single_matrix(context: Context, value: Value, view: View) -> MatrixOperand:
    """One matrix, its rows or columns contiguous."""
    layout = _layout(view)
    if layout is None:
        view = copied(context, value, view)
    return _matrix_operand(view, layout or "rows", (0, 0))


def _matrix_operand(view: View, layout: Layout, strides: tuple[Dim, Dim]) -> MatrixOperand:
    rows, columns = view.shape[-2:]
    if layout == "rows":
        step = view.strides[-2] if rows != 1 else columns
    else:
        step = view.strides[-1] if columns != 1 else rows
    return MatrixOperand(Operand(view.buffer, view.offset), layout, step, strides)


def _layout(view: View) -> Layout | None:
    rows, columns = view.shape[-2:]
    if view.strides[-1] == 1 or columns == 1:
        return "rows"
    return "columns" if view.strides[-2] == 1 or rows == 1 else None


def _right_layout(view: View) -> Layout:
    """The layout of a right operand; one column is taken as a column, which dot products need no copy of."""
    rows, columns = view.shape[-2:]
    is_column = columns == 1 and (view.strides[-2] == 1 or rows == 1)
    return "columns" if is_column else _layout(view) or "rows"


def _two_levels(
    context: Context, a: tuple[Value, View], b: tuple[Value, View], extents: Product
) -> tuple[Product, tuple[MatrixOperand, MatrixOperand]]:
    """Both operands with their batch axes merged into at most two, copied where they cannot be."""
    views = [view if _layout(view) else copied(context, value, view) for value, view in (a, b)]
    levels = levels_of(views[0].shape[:-2], [view.strides[:-2] for view in views])
    if len(levels) > 2:
        views = [copied(context, value, view) for (value, _), view in zip((a, b), views, strict=True)]
        levels = levels_of(views[0].shape[:-2], [row_major(view.shape)[:-2] for view in views])
    levels = [(1, (0, 0))] * (2 - len(levels)) + levels
    (outer, outer_strides), (inner, inner_strides) = levels
    layouts = _layout(views[0]) or "rows", _right_layout(views[1])
    left, right = (
        _matrix_operand(view, layouts[i], (outer_strides[i], inner_strides[i])) for i, view in enumerate(views)
    )
    return Product(extents.m, extents.n, extents.k, (outer, inner)), (left, right)


def levels_of(batch: tuple[Dim, ...], strides: list[tuple[Dim, ...]]) -> list[tuple[Dim, tuple[Dim, Dim]]]:
    """Batch axes as loops, those along which both operands advance evenly merged."""
    levels: list[tuple[Dim, tuple[Dim, Dim]]] = []
    for extent, left, right in zip(batch, *strides, strict=True):
        if extent == 1:
            continue
        if levels and levels[-1][1] == (left * extent, right * extent):
            levels[-1] = (levels[-1][0] * extent, (left, right))
        else:
            levels.append((extent, (left, right)))
    return levels
