"""Products with weights of four bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.targets.c.rules.call import epilogue_code, structured_call
from intaglio.targets.c.rules.linear import copied, folded
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.structured.nibbles import nibble_gemm, pack_blocks, pack_nibbles
from intaglio.targets.c.target_rules import machine


def _inputs(node: Node) -> tuple[Value, Value, Value, Value | None]:
    return node.input, node.needed(1), node.needed(2), node.optional(3)


def _refuse(node: Node) -> Refusal | None:
    op: Any = node.op
    a, b, scales, zeros = _inputs(node)
    if op.bits != 4 or op.block_size % 8 or a.dtype.name != "float32" or a.rank < 2:
        return Refusal(
            Cause.FORM, f"only products of float32 matrices with weights of four bits are computed so, not {a.type}"
        )
    if any(value is not None for value in node.inputs[4:]):
        return Refusal(Cause.FORM, "its columns are assigned to blocks one by one")
    if b.constant is None or scales.constant is None or (zeros is not None and zeros.constant is None):
        return Refusal(Cause.CONSTANT, "its weights are not known before the run")
    return None


@anchor("BlockMatMul", refuse=_refuse, fuses=lambda node: True)
def block_matmul(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Pack the weights in panels, eight of a column in 32 bits, and call."""
    op: Any = node.op
    a, b, scales, zeros = _inputs(node)
    if not epilogue.stores:
        epilogue.stores[node.output] = context.allocate(node.output)
    left = folded(context, a, context.view(a))
    if left.strides[-1] != 1 and left.shape[-1] != 1:
        left = copied(context, a, left)
    target, blocks = machine(context), -(-op.K // op.block_size)
    kernel = nibble_gemm(target, has_zero=zeros is not None)
    weights = context.packed(
        b, f"nibbles {blocks}", lambda: pack_nibbles(as_array(b).reshape(op.N, blocks, -1), target)
    )
    steps = context.packed(scales, "blocks", lambda: pack_blocks(as_array(scales).reshape(op.N, blocks), target))
    shifts = steps if zeros is None else context.packed(zeros, "blocks", lambda: _packed_zeros(zeros, op, target))
    sizes: dict[str, Dim] = {
        "M": left.shape[0], "N": op.N, "K": op.K, "block": op.block_size,
        "a_step": left.strides[0] if left.shape[0] != 1 else op.K,
    }  # fmt: skip
    operands = [Operand(left.buffer, left.offset), Operand(weights), Operand(steps), Operand(shifts)]
    names = " + ".join(["MatMul of 4 bits", *(other.op.name for other in epilogue.nodes)])
    title = f"{names} {left.shape[0]} x {op.N} x {op.K} -> {node.output.name}"
    code = epilogue_code(kernel, epilogue)
    flops = left.shape[0] * (2 * op.N * op.K)
    context.emit(structured_call(kernel, operands, sizes, code, (node, *epilogue.nodes), flops, title))


def _packed_zeros(zeros: Value, op: Any, target: Any) -> Any:
    """Zero points as floats: those of four bits are two to a byte, each row from a byte of its own."""
    array, blocks = as_array(zeros), -(-op.K // op.block_size)
    if array.dtype != np.uint8:
        return pack_blocks(array.reshape(op.N, blocks), target)
    halves = np.stack([array.reshape(op.N, -1) & 15, array.reshape(op.N, -1) >> 4], axis=-1)
    return pack_blocks(halves.reshape(op.N, -1)[:, :blocks], target)
