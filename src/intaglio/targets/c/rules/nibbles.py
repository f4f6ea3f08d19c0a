"""Products with weights of four or eight bits in blocks: of floats, or of bytes where the accuracy level allows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intaglio.ir.dim import Dim, pieces
from intaglio.ir.dtype import FLOAT32, INT8, INT16, INT32
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.targets.c.kernel_file import kernel as kernel_file
from intaglio.targets.c.routine import Routine, reads, writes
from intaglio.targets.c.rules.call import epilogue_code, structured_call
from intaglio.targets.c.rules.linear import copied, folded
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.structured.nibbles import (
    ByteForm,
    block_byte_gemm,
    byte_form,
    nibble_gemm,
    pack_blocks,
    pack_nibbles,
    pack_words,
)
from intaglio.targets.c.structured.source import StructuredKernel
from intaglio.targets.c.target_rules import machine


def _inputs(node: Node) -> tuple[Value, Value, Value, Value | None]:
    return node.input, node.needed(1), node.needed(2), node.optional(3)


LEVEL = 4
"""The accuracy level that allows products of bytes."""
LONGEST = 1 << 14
"""Numbers of a block whose products of bytes surely have a sum in int32."""
ROW_BYTES = 16384
"""About what one task quantizes."""


def _refuse(node: Node) -> Refusal | None:
    op: Any = node.op
    a, b, scales, zeros = _inputs(node)
    has_form = op.bits == 4 or (op.bits == 8 and op.accuracy_level == LEVEL)
    if not has_form or op.block_size % 8 or a.dtype.name != "float32" or a.rank < 2:
        return Refusal(
            Cause.FORM,
            "only products of float32 matrices by weights of four bits, or of eight at accuracy level 4, are computed "
            f"so, not {a.type} with {op.bits} bits at level {op.accuracy_level}",
        )
    if any(value is not None for value in node.inputs[4:]):
        return Refusal(Cause.FORM, "its columns are assigned to blocks one by one")
    if b.constant is None or scales.constant is None or (zeros is not None and zeros.constant is None):
        return Refusal(Cause.CONSTANT, "its weights are not known before the run")
    return None


@anchor("BlockMatMul", refuse=_refuse, fuses=lambda node: True, needs={"vectors"})
def block_matmul(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Pack the weights in panels, 32 bits of a column in a word, and multiply floats or, where allowed, bytes."""
    op: Any = node.op
    a, _, scales, zeros = _inputs(node)
    if not epilogue.stores:
        epilogue.stores[node.output] = context.allocate(node.output)
    left = folded(context, a, context.view(a))
    if left.strides[-1] != 1 and left.shape[-1] != 1:
        left = copied(context, a, left)
    target, blocks = machine(context), -(-op.K // op.block_size)
    steps = context.packed(scales, "blocks", lambda: pack_blocks(as_array(scales).reshape(op.N, blocks), target))
    shifts = steps if zeros is None else context.packed(zeros, "blocks", lambda: _packed_zeros(zeros, op, target))
    is_bytes = op.accuracy_level == LEVEL and not context.exact and op.block_size <= LONGEST
    make = _bytes_product if is_bytes else _floats_product
    product = make(context, node, left, [Operand(steps), Operand(shifts)])
    names = " + ".join([f"MatMul of {op.bits} bits", *(other.op.name for other in epilogue.nodes)])
    title = f"{names} {left.shape[0]} x {op.N} x {op.K} -> {node.output.name}"
    code = epilogue_code(epilogue)
    nodes, flops = (node, *epilogue.nodes), left.shape[0] * (2 * op.N * op.K)
    context.emit(structured_call(product.kernel, product.operands, product.sizes, code, nodes, flops, title))


@dataclass(frozen=True)
class _Product:
    """A kernel and what it is called with."""

    kernel: StructuredKernel
    operands: list[Operand]
    sizes: dict[str, Dim]


def _floats_product(context: Context, node: Node, left: View, parameters: list[Operand]) -> _Product:
    """The floats of the left operand by the weights as floats."""
    op: Any = node.op
    b, target = node.needed(1), machine(context)
    blocks = -(-op.K // op.block_size)
    kernel = nibble_gemm(target, has_zero=node.optional(3) is not None, bits=op.bits)
    weights = context.packed(
        b, f"nibbles {blocks}", lambda: pack_nibbles(as_array(b).reshape(op.N, blocks, -1), target)
    )
    sizes: dict[str, Dim] = {
        "M": left.shape[0], "N": op.N, "K": op.K, "block": op.block_size,
        "a_step": left.strides[0] if left.shape[0] != 1 else op.K,
    }  # fmt: skip
    return _Product(kernel, [Operand(left.buffer, left.offset), Operand(weights), *parameters], sizes)


def _bytes_product(context: Context, node: Node, left: View, parameters: list[Operand]) -> _Product:
    """The left operand rounded to bytes in blocks, by the weights as they are."""
    op: Any = node.op
    b, target = node.needed(1), machine(context)
    blocks = -(-op.K // op.block_size)
    kernel = block_byte_gemm(target, has_zero=node.optional(3) is not None, bits=op.bits, block=op.block_size)
    weights = context.packed(
        b, f"words {op.bits} {blocks}", lambda: pack_words(as_array(b).reshape(op.N, blocks, -1), op.bits, target)
    )
    sizes: dict[str, Dim] = {"M": left.shape[0], "N": op.N, "K": op.K, "block": op.block_size}
    return _Product(kernel, [*_quantized(context, node, left, blocks), Operand(weights), *parameters], sizes)


def _quantized(context: Context, node: Node, left: View, blocks: int) -> list[Operand]:
    """The rows of the left operand as bytes, and the scale and the sum of each block of them."""
    op: Any = node.op
    form = byte_form(machine(context), op.bits)
    rows, name = left.shape[0], node.input.name
    dtype = INT16 if form is ByteForm.PAIRS else INT8
    depth = blocks * op.block_size
    numbers = whole(context.temporary(dtype, rows * depth, f"{name}.bytes"), (rows, depth))
    scales = whole(context.temporary(FLOAT32, rows * blocks, f"{name}.scales"), (rows, blocks))
    sums = whole(context.temporary(INT32, rows * blocks, f"{name}.sums"), (rows, blocks))
    parameters = [reads("x", left), writes("bytes", numbers), writes("scales", scales), writes("sums", sums)]
    row_block = max(1, ROW_BYTES // depth)
    step = left.strides[0] if rows != 1 else op.K
    sizes: list[tuple[str, Dim]] = [
        ("M", rows), ("K", op.K), ("x_step", step), ("block", op.block_size), ("row_block", row_block),
    ]  # fmt: skip
    instance = kernel_file("quantize_rows", PAIRS=form is ByteForm.PAIRS)
    cost = 1 + row_block * depth // machine(context).vector_bytes
    context.emit(Routine("quantize_rows", instance, parameters, sizes, pieces(rows, row_block), cost).call(node))
    return [Operand(view.buffer, view.offset) for view in (numbers, scales, sums)]


def _packed_zeros(zeros: Value, op: Any, target: Any) -> Any:
    """Zero points as floats: those of four bits are two to a byte, each row from a byte of its own."""
    array, blocks = as_array(zeros), -(-op.K // op.block_size)
    if array.dtype != np.uint8 or op.bits == 8:
        return pack_blocks(array.reshape(op.N, blocks), target)
    halves = np.stack([array.reshape(op.N, -1) & 15, array.reshape(op.N, -1) >> 4], axis=-1)
    return pack_blocks(halves.reshape(op.N, -1)[:, :blocks], target)
