"""Products of bytes by integer kernels: their int32 sums go to the epilogue, which quantizes or scales them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from intaglio.ir.dim import Dim, product
from intaglio.ir.dtype import UINT8
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import Buffer, View, whole
from intaglio.targets.c.rules.call import EpilogueCode, epilogue_code, structured_call
from intaglio.targets.c.rules.linear import as_matrix, batch_shape, batches_are_known, copied, folded, levels_of
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.structured.igemm import integer_gemm, integer_pack_kernel
from intaglio.targets.c.structured.integer_tile import (
    Byte,
    IntegerTile,
    has_shift,
    integer_tile,
    pack_integer,
    panel_bytes,
)
from intaglio.targets.c.structured.source import StructuredKernel, plain_epilogue
from intaglio.targets.c.target_rules import machine


def byte_type(value: Value) -> Byte:
    """The element type of an operand of bytes."""
    return cast(Byte, value.dtype.name)


def is_single(value: Value | None) -> bool:
    """Whether a zero point is absent or serves the whole tensor."""
    return value is None or value.shape in ((), (1,))


@dataclass(frozen=True)
class IntegerOperands:
    """The inputs of an integer product."""

    a: Value
    b: Value
    a_zero: Value | None
    b_zero: Value | None

    @property
    def is_packed_ahead(self) -> bool:
        """Whether the right operand is a matrix that is known with its zero point."""
        is_known = self.b_zero is None or self.b_zero.constant is not None
        return self.b.constant is not None and self.b.rank <= 2 and is_known


def integer_operands(node: Node) -> IntegerOperands:
    """The inputs of MatMulInteger and ConvInteger by role."""
    return IntegerOperands(node.input, node.needed(1), node.optional(2), node.optional(3))


def _refuse(node: Node) -> Refusal | None:
    given = integer_operands(node)
    if not batches_are_known(given.a, given.b, node.output):
        return Refusal(Cause.FORM, "its batch dimensions may or may not be broadcast")
    batch, own = node.output.shape[: max(given.a.rank, given.b.rank, 2) - 2], given.b.shape[:-2]
    if len(batch) > 2 and own != batch and any(dim != 1 for dim in own):
        return Refusal(Cause.FORM, "its right operand is repeated along some of more than two batch axes")
    has_rows = given.a_zero is not None and given.a.rank == 2 and given.a_zero.shape == given.a.shape[:1]
    if not is_single(given.a_zero) and not has_rows:
        return Refusal(Cause.FORM, "its left zero points are neither one nor one for each row of a matrix")
    has_columns = given.b_zero is not None and given.b.rank > 1 and given.b_zero.shape == given.b.shape[-1:]
    if not is_single(given.b_zero) and not has_columns:
        return Refusal(Cause.FORM, "its right zero points are neither one nor one for each column")
    return None


def _fuses(node: Node) -> bool:
    given = integer_operands(node)
    return given.a.rank > 1 and given.b.rank > 1


@anchor("MatMulInteger", refuse=_refuse, fuses=_fuses, needs={"vectors"})
def matmul_integer(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Pack the right operand, ahead of the run where it is a constant, and call the integer product."""
    given = integer_operands(node)
    if not epilogue.stores:
        epilogue.stores[node.output] = context.allocate(node.output)
    n: Dim = given.b.shape[-1] if given.b.rank > 1 else 1
    tile = integer_tile(machine(context), byte_type(given.a), n)
    left = as_matrix(context.view(given.a), is_left=True)
    right, has_zero = packed_right(context, given, tile)
    batch = batch_shape(given.a, given.b)
    left = left.broadcast((*batch, *left.shape[-2:]))
    if all(dim == 1 for dim in right.shape[:-1]):
        left, batch = folded(context, given.a, left), ()
        right = View(right.buffer, 0, right.shape[-1:], (1,))
    if left.strides[-1] != 1 and left.shape[-1] != 1:
        left = copied(context, given.a, left)
    right = right.broadcast((*batch, right.shape[-1]))
    levels = levels_of(batch, [left.strides[:-2], right.strides[:-1]])
    if len(levels) > 2:
        left = copied(context, given.a, left)
        levels = levels_of(batch, [left.strides[:-2], right.strides[:-1]])
    (outer, outer_steps), (inner, inner_steps) = _padded(levels)
    m, k = left.shape[-2:]
    is_row_zero = not is_single(given.a_zero)
    kernel = integer_gemm(machine(context), tile.left, columns=n, has_zero=has_zero, row_zero=is_row_zero)
    sizes: dict[str, Dim] = {
        "M": m, "N": n, "K": k, "outer": outer, "inner": inner, "a_step": left.strides[-2] if m != 1 else k,
        "a_outer": outer_steps[0], "a_inner": inner_steps[0], "b_outer": outer_steps[1], "b_inner": inner_steps[1],
        "zero_step": 1 if is_row_zero else 0,
    }  # fmt: skip
    zero = zero_view(context, given.a_zero, given.a)
    operands = [Operand(left.buffer, left.offset), Operand(right.buffer), Operand(zero.buffer, zero.offset)]
    code = epilogue_code(epilogue) if _fuses(node) else _plain_code(node, epilogue, kernel, n)
    names = " + ".join([node.op.name, *(other.op.name for other in epilogue.nodes)])
    flops = product(batch) * m * n * k * 2
    title = f"{names} {m} x {n} x {k} -> {node.output.name}"
    context.emit(structured_call(kernel, operands, sizes, code, (node, *epilogue.nodes), flops, title))


def _padded(levels: list[tuple[Dim, tuple[Dim, Dim]]]) -> list[tuple[Dim, tuple[Dim, Dim]]]:
    """Two loops over batches."""
    return [(1, (0, 0))] * (2 - len(levels)) + levels


def _plain_code(node: Node, epilogue: Epilogue, kernel: StructuredKernel, columns: Dim) -> EpilogueCode:
    """An epilogue that only stores."""
    result = epilogue.stores[node.output]
    stores = plain_epilogue("int32", len(kernel.buffers), len(kernel.sizes))
    return EpilogueCode(stores, [Operand(result.buffer, result.offset, True)], [("out_step", columns)])


def zero_view(context: Context, zero: Value | None, like: Value) -> View:
    """A zero point in memory; zero where there is none."""
    if zero is not None:
        return context.contiguous(zero)
    return whole(context.constant(np.zeros(1, like.dtype.numpy)), (1,))


def packed_right(context: Context, given: IntegerOperands, tile: IntegerTile) -> tuple[View, bool]:
    """The right operand in panels, a row of bytes for each matrix, and whether its columns may have zero points."""
    shift = has_shift(tile, byte_type(given.b))
    if given.is_packed_ahead:
        array = as_array(given.b) if given.b.rank > 1 else as_array(given.b)[:, None]
        zero = 0 if given.b_zero is None else as_array(given.b_zero)
        buffer = packed_ahead(context, given.b, array, zero, tile)
        return View(buffer, 0, (1,), (1,)), has_column_zeros(given.b, zero, tile)
    is_known_zero = given.b_zero is None or (given.b_zero.constant is not None and not np.any(given.b_zero.constant))
    return _packed_at_run_time(context, given, tile), shift or not is_known_zero


def has_column_zeros(value: Value, zero: Any, tile: IntegerTile) -> bool:
    """Whether known zero points of the right operand are not all zero in the form in which it is packed."""
    shift = 0 if not has_shift(tile, byte_type(value)) else -128 if tile.stored_signed else 128
    return bool(np.any(np.asarray(zero).astype(np.int32) + shift))


def digest_of(array: Any) -> str:
    """A short name for the contents of an array."""
    return hashlib.sha256(np.asarray(array).tobytes()).hexdigest()[:16]


def packed_ahead(context: Context, value: Value, array: Any, zero: Any, tile: IntegerTile) -> Buffer:
    """The buffer of a constant matrix in panels."""
    form = f"integer {tile} {array.shape} {digest_of(zero)}"
    return context.packed(value, form, lambda: pack_integer(array, zero, tile))


def _packed_at_run_time(context: Context, given: IntegerOperands, tile: IntegerTile) -> View:
    matrix = as_matrix(context.view(given.b), is_left=False)
    levels = levels_of(matrix.shape[:-2], [matrix.strides[:-2]] * 2)
    if len(levels) > 2:
        matrix = as_matrix(context.contiguous(given.b), is_left=False)
        levels = levels_of(matrix.shape[:-2], [matrix.strides[:-2]] * 2)
    (outer, outer_steps), (inner, inner_steps) = _padded(levels)
    depth, width = matrix.shape[-2:]
    length = (width + tile.columns - 1) // tile.columns * panel_bytes(tile, depth)
    shape = (*matrix.shape[:-2], length)
    packed = whole(context.temporary(UINT8, product(shape), f"{given.b.name}.packed"), shape)
    zero = zero_view(context, given.b_zero, given.b)
    kernel = integer_pack_kernel(machine(context), tile.left, byte_type(given.b), columns=width)
    sizes: dict[str, Dim] = {
        "N": width, "K": depth, "outer": outer, "inner": inner, "k_step": matrix.strides[-2],
        "n_step": matrix.strides[-1], "b_outer": outer_steps[0], "b_inner": inner_steps[0],
        "zero_step": 0 if is_single(given.b_zero) else 1,
    }  # fmt: skip
    operands = [
        Operand(matrix.buffer, matrix.offset),
        Operand(zero.buffer, zero.offset),
        Operand(packed.buffer, 0, True),
    ]
    title = f"{given.b.name} in panels"
    context.emit(structured_call(kernel, operands, sizes, None, (), product(matrix.shape), title))
    return packed
