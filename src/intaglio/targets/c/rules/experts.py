"""Products by the weights of experts, of which each row meets one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from intaglio.ir.build import EagerBuilder, constant_value
from intaglio.ir.dim import Dim, floordiv
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import Buffer
from intaglio.targets.c.rules.call import epilogue_code, structured_call
from intaglio.targets.c.rules.linear import copied
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.structured.experts import expert_gemm, expert_nibble_gemm
from intaglio.targets.c.structured.nibbles import pack_blocks, pack_nibbles
from intaglio.targets.c.structured.pack import pack_b
from intaglio.targets.c.structured.source import StructuredKernel
from intaglio.targets.c.target_rules import machine


def _refuse(node: Node) -> Refusal | None:
    a, weights = node.needed(0), [value for place, value in enumerate(node.inputs) if place not in (0, 2)]
    if a.dtype != FLOAT32:
        return Refusal(Cause.ELEMENTS, f"only rows of float32 are multiplied by their own experts, not {a.dtype}")
    if any(value is not None and value.constant is None for value in weights):
        return Refusal(Cause.CONSTANT, "the weights of its experts are not known before the run")
    return None


@anchor("ExpertMatMul", refuse=_refuse, fuses=lambda node: True, needs={"vectors"})
def expert_matmul(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Pack the weights of each expert as those of a product, and call."""
    weights = node.needed(1)
    packed = _packed_floats(context, weights, "experts", lambda: as_array(weights))
    _emit(context, node, epilogue, expert_gemm(machine(context)), [packed])


@anchor("BlockExpertMatMul", refuse=_refuse, fuses=lambda node: True, needs={"vectors"})
def block_expert_matmul(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The same with weights of few bits: those of four stay as they are, others are made floats once."""
    if not _has_nibbles(node):
        form = f"experts {node.op.bits} {[id(value.constant) for value in node.inputs[3:] if value is not None]}"
        packed = _packed_floats(context, node.needed(1), form, lambda: _unpacked(node))
        _emit(context, node, epilogue, expert_gemm(machine(context)), [packed])
        return
    target, weights, scales, zeros = machine(context), node.needed(1), node.needed(3), node.optional(4)
    kernel = expert_nibble_gemm(target, has_zero=zeros is not None)
    words = context.packed(weights, "nibbles of experts", lambda: _each(pack_nibbles, as_array(weights), target))
    steps = context.packed(scales, "steps of experts", lambda: _each(pack_blocks, _steps(scales), target))
    shifts = steps
    if zeros is not None:
        form = f"zeros of experts {_blocks(scales)}"
        shifts = context.packed(zeros, form, lambda: _each(pack_blocks, _zeros(zeros, scales), target))
    _emit(context, node, epilogue, kernel, [words, steps, shifts])


def _has_nibbles(node: Node) -> bool:
    """Whether weights are of four bits, and blocks of them whole groups of the kernel's."""
    depth, blocks = node.needed(0).shape[1], _blocks(node.needed(3))
    is_whole = isinstance(depth, int) and depth % 8 == 0 and depth % blocks == 0 and depth // blocks % 8 == 0
    return node.op.bits == 4 and is_whole and as_array(node.needed(1)).shape[2] * 2 == depth


def _blocks(scales: Value) -> int:
    return as_array(scales).shape[2] if scales.rank == 3 else 1


def _steps(scales: Value) -> Any:
    """Scales as [experts, N, blocks]."""
    array = as_array(scales)
    return array if array.ndim == 3 else array[:, :, None]


def _zeros(zeros: Value, scales: Value) -> Any:
    """Zero points, two to a byte along the last axis of the scales, as [experts, N, blocks]."""
    array, steps = as_array(zeros), as_array(scales)
    halves = np.stack([array & 15, array >> 4], axis=-1).reshape(*array.shape[:-1], -1)
    return halves[..., : steps.shape[-1]].reshape(_steps(scales).shape)


def _each(pack: Callable[..., Any], arrays: Any, target: Any) -> Any:
    """What a function makes of the array of each expert."""
    return np.stack([pack(array, target) for array in arrays])


def _unpacked(node: Node) -> Any:
    """Weights of few bits as floats."""
    op: Any = node.op
    values = node.needed(1), node.needed(3), node.optional(4)
    given = [None if value is None else constant_value(as_array(value)) for value in values]
    builder = EagerBuilder()
    with builder.active():
        return as_array(op.weights(builder, *given, FLOAT32))


def _packed_floats(context: Context, value: Value, form: str, weights: Callable[[], Any]) -> Buffer:
    target = machine(context)
    return context.packed(value, form, lambda: pack_b(np.swapaxes(weights().astype(np.float32), 1, 2), target))


def _emit(context: Context, node: Node, epilogue: Epilogue, kernel: StructuredKernel, packed: list[Buffer]) -> None:
    a, index = node.needed(0), node.needed(2)
    if not epilogue.stores:
        epilogue.stores[node.output] = context.allocate(node.output)
    left = context.view(a)
    if left.strides[-1] != 1 and left.shape[-1] != 1:
        left = copied(context, a, left)
    rows, width = node.output.shape
    depth = a.shape[1]
    sizes: dict[str, Dim] = {
        "M": rows, "N": width, "K": depth, "repeats": node.op.copies, "experts": node.needed(1).shape[0],
        "a_step": left.strides[0] if left.shape[0] != 1 else depth,
    }  # fmt: skip
    if "block" in kernel.sizes:
        sizes["block"] = floordiv(depth, _blocks(node.needed(3)))
    view = context.contiguous(index)
    operands = [Operand(left.buffer, left.offset), *map(Operand, packed), Operand(view.buffer, view.offset)]
    names = " + ".join(["MatMul by experts", *(other.op.name for other in epilogue.nodes)])
    title = f"{names} {rows} x {width} x {depth} -> {node.output.name}"
    code, flops = epilogue_code(epilogue), rows * width * depth * 2
    context.emit(structured_call(kernel, operands, sizes, code, (node, *epilogue.nodes), flops, title))
