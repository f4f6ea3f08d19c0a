"""DeformConv: the windows are sampled into rows of a matrix, which is multiplied with the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from intaglio.ir.dim import Dim, floordiv, product
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand, Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.ops.shared.window import Window
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.printing.register import register_kind
from intaglio.targets.c.routine import Parameter, Routine, disagreement, memory_type, reads, row_blocks, writes
from intaglio.targets.c.rules.call import EpilogueCode
from intaglio.targets.c.rules.channels import MOST_AXES, channels_last, give_last, result_last
from intaglio.targets.c.rules.linear import MatrixOperand, Product, gemm_call
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, converted, side_by_side, widened
from intaglio.targets.c.structured.gemm import gemm
from intaglio.targets.c.structured.pack import pack_b
from intaglio.targets.c.structured.source import Element, plain_epilogue
from intaglio.targets.c.target_rules import machine


def _refuse(node: Node) -> Refusal | None:
    rank = node.input.rank
    return None if 3 <= rank <= MOST_AXES + 2 else Refusal(Cause.FORM, f"DeformConv of rank {rank} is not compiled")


@anchor("DeformConv", refuse=_refuse, needs={"vectors"})
def deform_conv(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Columns of all windows, then one product for each group."""
    dtype = computed(node.input.dtype)
    columns = _columns(context, node, dtype)
    result = result_last(context, node, dtype)
    bias = node.optional(3)
    bias_view = None if bias is None else side_by_side(context, bias)
    for index in range(node.op.group):
        _multiply(context, node, columns, bias_view, result, index)
    give_last(context, node, result)


def _windows(node: Node) -> tuple[Window, ...]:
    return node.op.windows(node.input.shape[2:], node.needed(1).shape[2:])


def _columns(context: Context, node: Node, dtype: DType) -> View:
    """[images and windows, group, place in the kernel, channel of the group]: what each window reads."""
    x, w = node.input, node.needed(1)
    windows, group = _windows(node), node.op.group
    taps = product(w.shape[2:])
    shape = (product((x.shape[0], *node.output.shape[2:])), group, taps, floordiv(x.shape[1], group))
    columns = whole(context.temporary(dtype, product(shape), "columns"), shape)
    channels, offsets = x.shape[1], node.op.offset_group
    row_cost = taps * (offsets * 20 + floordiv(channels, 2))
    blocks, tasks, cost = row_blocks(shape[0], taps * channels * dtype.itemsize, row_cost)
    sizes: list[tuple[str, Size]] = [
        ("mismatch", _mismatch(node)), ("rows", shape[0]), ("channels", channels), ("groups", group),
        ("offsets", offsets), ("taps", taps), ("share", floordiv(channels, group)),
        ("moved", floordiv(channels, offsets)), *_window_sizes(windows),
        ("windows", product(node.output.shape[2:])), *blocks,
    ]  # fmt: skip
    mask = node.optional(4)
    parameters: list[Parameter] = [reads("x", channels_last(context, x, dtype))]
    parameters.append(reads("offset", side_by_side(context, node.needed(2))))
    parameters += [] if mask is None else [reads("mask", side_by_side(context, mask))]
    parameters.append(writes("out", columns))
    instance = kernel(
        "deform_columns",
        ELEMENT=memory_type(dtype),
        KIND=register_kind(dtype),
        IS_DOUBLE=dtype.itemsize == 8,
        AXES=len(windows),
        HAS_MASK=mask is not None,
    )
    context.emit(Routine("deform_columns", instance, parameters, sizes, tasks, cost, checks=True).call(node))
    return columns


def _window_sizes(windows: Sequence[Window]) -> list[tuple[str, Size]]:
    """The sizes of windows, each along all axes."""
    extents = {
        "in": [w.input for w in windows], "out": [w.output for w in windows], "kernel": [w.kernel for w in windows],
        "stride": [w.stride for w in windows], "dilation": [w.dilation for w in windows],
        "pad": [w.begin for w in windows],
    }  # fmt: skip
    return [(f"{name}{axis}", extent) for name, along in extents.items() for axis, extent in enumerate(along)]


def _mismatch(node: Node) -> Dim:
    """Whether the shapes of the operands do not fit."""
    op, x, w, offset = node.op, node.input, node.needed(1), node.needed(2)
    places = product(w.shape[2:]) * op.offset_group
    outputs = (x.shape[0], *node.output.shape[2:])
    equal = [(offset.shape[1], places * (x.rank - 2)), (x.shape[1], w.shape[1] * op.group)]
    equal += list(zip((offset.shape[0], *offset.shape[2:]), outputs, strict=True))
    equal += [(floordiv(w.shape[0], op.group) * op.group, w.shape[0])]
    equal += [(floordiv(x.shape[1], op.offset_group) * op.offset_group, x.shape[1])]
    bias, mask = node.optional(3), node.optional(4)
    equal += [] if bias is None else [(bias.tensor.size, w.shape[0])]
    if mask is not None:
        equal += [(mask.shape[1], places), *zip((mask.shape[0], *mask.shape[2:]), outputs, strict=True)]
    return disagreement(equal)


def _multiply(context: Context, node: Node, columns: View, bias: View | None, result: View, index: int) -> None:
    """The product of one group: its rows of the columns with its kernels, into its channels of the result."""
    w, group, dtype = node.needed(1), node.op.group, columns.buffer.dtype
    element = cast(Element, dtype.name)
    depth: Dim = columns.shape[2] * columns.shape[3]
    outputs = floordiv(w.shape[0], group)
    left = MatrixOperand(Operand(columns.buffer, depth * index), "rows", depth * group)
    right = _weights(context, w, group, index, dtype)
    extents = Product(columns.shape[0], outputs, depth)
    multiply = gemm(machine(context), element, "rows", right.layout, extents=extents.sides)
    final = plain_epilogue(element, len(multiply.buffers), len(multiply.sizes), has_bias=bias is not None)
    stores = [Operand(result.buffer, outputs * index, True)]
    stores += [] if bias is None else [Operand(bias.buffer, bias.offset + outputs * index)]
    code = EpilogueCode(final, stores, [("out_step", w.shape[0])])
    title = f"DeformConv {extents.m} x {extents.n} x {extents.k} -> {node.output.name}"
    gemm_call(context, multiply, (left, right), extents, code, (node,), title)


def _weights(context: Context, w: Value, group: int, index: int, dtype: DType) -> MatrixOperand:
    """The kernels of one group as a matrix [place in the kernel and channel, output]."""
    outputs, taps = floordiv(w.shape[0], group), product(w.shape[2:])
    if w.constant is not None:
        array = as_array(w).reshape(group, -1, w.constant.shape[1], taps)[index].transpose(2, 1, 0)
        matrix = array.reshape(-1, array.shape[2]).astype(dtype.numpy)
        element = cast(Element, dtype.name)
        form = f"deform {group} {index} {element}"
        packed = context.packed(w, form, lambda: pack_b(matrix, machine(context), element))
        return MatrixOperand(Operand(packed), "packed", 0)
    view = widened(context, w).window(0, outputs * index, 1, outputs)
    matrix = converted(context, view.transpose((*range(2, w.rank), 1, 0)), dtype, dtype)
    return MatrixOperand(Operand(matrix.buffer), "rows", outputs)
