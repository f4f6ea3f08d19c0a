"""DeformConv: the windows are sampled into rows of a matrix, which is multiplied with the kernels."""

from __future__ import annotations

from typing import cast

from intaglio.ir.dim import Dim, floordiv, product
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Operand, Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.ops.window import Window
from intaglio.targets.c.backend import machine
from intaglio.targets.c.printing.epilogue import EpilogueCode
from intaglio.targets.c.printing.register import register_kind
from intaglio.targets.c.routine import ROWS, Parameter, Routine, disagreement, memory_type, reads, row_blocks, writes
from intaglio.targets.c.rules.channels import MIX_HELPERS, MOST_AXES, channels_last, give_last, result_last
from intaglio.targets.c.rules.fold import window_sizes
from intaglio.targets.c.rules.linear import MatrixOperand, Product, gemm_call
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, converted, side_by_side, widened
from intaglio.targets.c.structured.gemm import gemm
from intaglio.targets.c.structured.pack import pack_b
from intaglio.targets.c.structured.source import Element, plain_epilogue


def _refuse(node: Node) -> Refusal | None:
    rank = node.input.rank
    return None if 3 <= rank <= MOST_AXES + 2 else Refusal(Cause.FORM, f"DeformConv of rank {rank} is not compiled")


@anchor("DeformConv", refuse=_refuse)
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
    axes = len(windows)
    channels, offsets = x.shape[1], node.op.offset_group
    row_cost = taps * (offsets * 20 + floordiv(channels, 2))
    blocks, tasks, cost = row_blocks(shape[0], taps * channels * dtype.itemsize, row_cost)
    sizes: list[tuple[str, Size]] = [
        ("mismatch", _mismatch(node)), ("rows", shape[0]), ("channels", channels), ("groups", group),
        ("offsets", offsets), ("taps", taps), ("share", floordiv(channels, group)),
        ("moved", floordiv(channels, offsets)), *window_sizes(windows),
        ("windows", product(node.output.shape[2:])), *blocks,
    ]  # fmt: skip
    mask = node.optional(4)
    parameters: list[Parameter] = [reads("x", channels_last(context, x, dtype))]
    parameters.append(reads("offset", side_by_side(context, node.needed(2))))
    parameters += [] if mask is None else [reads("mask", side_by_side(context, mask))]
    parameters.append(writes("out", columns))
    routine = Routine("deform_columns", _body(axes), parameters, sizes, tasks, cost, checks=True)
    routine.helpers = MIX_HELPERS + _NEIGHBOURS
    routine.marks = {
        "element": memory_type(dtype), "kind": register_kind(dtype), "suffix": "f" if dtype.itemsize == 4 else "",
        "axes": str(axes), "corners": str(2**axes), "volume": " * ".join(f"in{axis}" for axis in range(axes)),
        "mask": "1" if mask is None else "mask[(image * offsets * taps + place) * windows + window]",
    }  # fmt: skip
    context.emit(routine.call(node))
    return columns


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
    kernel = gemm(machine(context), element, "rows", right.layout)
    source = plain_epilogue(element, len(kernel.buffers), len(kernel.sizes), has_bias=bias is not None)
    stores = [Operand(result.buffer, outputs * index, True)]
    stores += [] if bias is None else [Operand(bias.buffer, bias.offset + outputs * index)]
    code = EpilogueCode(source, stores, [("out_step", w.shape[0])])
    extents = Product(columns.shape[0], outputs, depth)
    title = f"DeformConv {extents.m} x {extents.n} x {extents.k} -> {node.output.name}"
    gemm_call(context, kernel, (left, right), extents, code, (node,), title)


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


def _body(axes: int) -> str:
    """C with the place of a window and of a kernel's element taken apart along each axis."""
    window = "\n".join(f"        const int64_t o{axis} = rest % out{axis};\n        rest /= out{axis};"
                       for axis in reversed(range(axes)))  # fmt: skip
    place = "\n".join(
        f"            const int64_t k{axis} = {'left % kernel' + str(axis) if axis else 'left'};"
        + (f"\n            left /= kernel{axis};" if axis else "")
        for axis in reversed(range(axes))
    )
    neighbours = "\n".join(_NEIGHBOUR.format(axis=axis) for axis in range(axes))
    corners = "\n".join(_CORNER.format(axis=axis, shift=axes - 1 - axis) for axis in range(axes))
    return _BODY.format(rows=ROWS, window=window, place=place, neighbours=neighbours, corners=corners)


_NEIGHBOURS = """
/* The two neighbours of a coordinate and their weights; one outside, or of no number, has none. */
static inline void IG_FUNCTION_neighbours($element at, int64_t extent, int64_t *index, $element *share)
{
    const $element base = __builtin_floor$suffix(at);
    for (int k = 0; k < 2; k++) {
        const $element place = base + ($element)k;
        const int is_inside = place >= 0 && place < ($element)extent;
        index[k] = is_inside ? (int64_t)place : -1;
        share[k] = 1 - __builtin_fabs$suffix(at - place);
    }
}
"""

_NEIGHBOUR = """\
            IG_FUNCTION_neighbours(
                ($element)(o{axis} * stride{axis} - pad{axis} + k{axis} * dilation{axis}) + move[{axis} * windows],
                in{axis}, index[{axis}], part[{axis}]);"""

_CORNER = """\
                const int c{axis} = corner >> {shift} & 1;
                at = at * in{axis} + index[{axis}][c{axis}];
                is_inside &= index[{axis}][c{axis}] >= 0;
                product *= part[{axis}][c{axis}];"""

_BODY = """
    if (mismatch) {{
        *fault = 1;
        return;
    }}
    for ({rows}) {{
        int64_t rest = row;
{window}
        const int64_t image = rest, window = row - image * windows;
        for (int64_t place = 0; place < offsets * taps; place++) {{
            const int64_t tap = place % taps, first = place / taps * moved;
            const $element *move = offset + (image * offsets * taps + place) * $axes * windows + window;
            int64_t left = tap, index[$axes][2], offset_of[$corners];
            $element part[$axes][2], weight[$corners];
            const $element factor = $mask;
            int count = 0;
{place}
{neighbours}
            for (int corner = 0; corner < $corners; corner++) {{
                int64_t at = 0;
                int is_inside = 1;
                $element product = 1;
{corners}
                offset_of[count] = at * channels;
                weight[count] = product * factor;
                count += is_inside;
            }}
            if (count == 0 && factor - factor != 0 && $volume > 0) {{
                offset_of[0] = 0;
                weight[count++] = factor - factor;
            }}
            for (int64_t c = first, n; c < first + moved; c += n) {{
                n = (c / share + 1) * share < first + moved ? (c / share + 1) * share - c : first + moved - c;
                $element *to = out + ((row * groups + c / share) * taps + tap) * share + c % share;
                const $element *from = x + image * $volume * channels + c;
                if (count == $corners)
                    IG_FUNCTION_mix(to, from, offset_of, weight, $corners, n);
                else
                    IG_FUNCTION_mix(to, from, offset_of, weight, count, n);
            }}
        }}
    }}
"""
