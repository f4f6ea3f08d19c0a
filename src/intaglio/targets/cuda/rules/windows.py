"""Convolutions: as products of gathered windows, or a thread for each result."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.dim import Dim, floordiv, product
from intaglio.ir.graph import Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.ops.shared.window import Window
from intaglio.targets.c.routine import bits_type
from intaglio.targets.c.rules.widen import computed, give_narrow, side_by_side, wide_result
from intaglio.targets.cuda.printing import memory_type
from intaglio.targets.cuda.rules.products import ELEMENTS, emit_product
from intaglio.targets.cuda.rules.routine import Buffer, emit_tasks, taken_apart
from intaglio.targets.cuda.rules.table import anchor


def _refuse(node: Node) -> Refusal | None:
    x = node.input
    if not 3 <= x.rank <= 6 or computed(x.dtype).name not in ("float32", "float64"):
        return Refusal(Cause.FORM, f"{node.op.name} of {x.type} is not written for devices")
    return None


def _windows(node: Node) -> Sequence[Window]:
    return node.op.windows(node.input.shape[2:], node.needed(1).shape[2:])


def _sizes(node: Node) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {"channels": node.input.shape[1], "outputs": node.output.shape[1]}
    for axis, w in enumerate(_windows(node)):
        sizes |= {f"in{axis}": w.input, f"out{axis}": w.output, f"kernel{axis}": w.kernel}
        sizes |= {f"stride{axis}": w.stride, f"dilation{axis}": w.dilation, f"pad{axis}": w.begin}
    return sizes


def _place(first: str, names: Sequence[str], extents: Sequence[str]) -> str:
    text = first
    for name, extent in zip(names, extents, strict=True):
        text = f"({text}) * {extent} + {name}"
    return text


@anchor("Conv", refuse=_refuse)
def conv(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The product of the kernels and all windows, gathered beside each other; in groups a thread for each result."""
    is_product = node.op.group == 1 and node.input.dtype.name in ELEMENTS
    if is_product:
        _as_product(context, node)
    else:
        _direct(context, node)


def _as_product(context: Context, node: Node) -> None:
    x, w, bias = node.input, node.needed(1), node.optional(2)
    batch, outputs = node.output.shape[:2]
    places, depth = product(node.output.shape[2:]), product(w.shape[1:])
    columns = _gathered(context, node, depth, places)
    kernels = context.contiguous(w)
    matrix = View(kernels.buffer, kernels.offset, (batch, outputs, depth), (0, depth, 1))
    target = context.allocate(node.output)
    emit_product(context, node, (w, matrix), (x, columns), whole(target.buffer, (batch, outputs, places)))
    if bias is not None:
        _add_bias(context, node, bias, target)


def _gathered(context: Context, node: Node, depth: Dim, places: Dim) -> View:
    """The elements under all windows, those of one window below each other; the input where windows are points."""
    x, windows = node.input, _windows(node)
    batch = x.shape[0]
    view = context.contiguous(x)
    if all((w.kernel, w.stride, w.begin, w.end) == (1, 1, 0, 0) for w in windows):
        return View(view.buffer, view.offset, (batch, depth, places), (depth * places, places, 1))
    names, bits = [str(axis) for axis in range(len(windows))], bits_type(x.dtype)
    parts = [
        ("n", "batch"),
        ("c", "channels"),
        *((f"k{a}", f"kernel{a}") for a in names),
        *((f"i{a}", f"out{a}") for a in names),
    ]
    lines = taken_apart("begin", parts)
    lines += [f"const int64_t p{a} = i{a} * stride{a} + k{a} * dilation{a} - pad{a};" for a in names]
    inside = " && ".join(f"p{a} >= 0 && p{a} < in{a}" for a in names)
    source = _place("n * channels + c", [f"p{a}" for a in names], [f"in{a}" for a in names])
    lines.append(f"columns[begin] = {inside} ? x[{source}] : 0;")
    target = whole(context.temporary(x.dtype, batch * depth * places, "windows"), (batch, depth, places))
    buffers = [Buffer("x", bits, view), Buffer("columns", bits, target, True)]
    emit_tasks(
        context, node, "gather_windows", lines, buffers, {"batch": batch, **_sizes(node)}, batch * depth * places, 0
    )
    return target


def _add_bias(context: Context, node: Node, bias: Value, target: View) -> None:
    """Add a number for each channel to results where they lie."""
    from intaglio.ir.build import Builder
    from intaglio.ir.graph import Graph
    from intaglio.kernels.fused import FusedNodes

    shape = (node.output.shape[0], node.output.shape[1], product(node.output.shape[2:]))
    graph = Graph("bias")
    builder = Builder(graph)
    result = graph.add_input("result", TensorType(bias.dtype, shape))
    addend = graph.add_input("bias", TensorType(bias.dtype, (shape[1], 1)))
    total = builder.Add(result, addend)
    view = context.view(bias)
    steps = View(view.buffer, view.offset, shape, (0, view.strides[0], 0))
    own = whole(target.buffer, shape)
    fused = FusedNodes(
        list(graph.nodes), shape, (), {result: own, addend: steps}, {total: own}, f"bias of {node.output.name}"
    )
    call = context.rules.loop_call(fused)
    call.nodes = (node,)
    context.emit(call)


def _direct(context: Context, node: Node) -> None:
    """For each result the sum over channels and the elements of the kernel that lie inside of the input."""
    x, bias = node.input, node.optional(2)
    element, names = memory_type(computed(x.dtype)), [str(axis) for axis in range(x.rank - 2)]
    lines = taken_apart("begin", [("n", "batch"), ("o", "outputs"), *((f"i{a}", f"out{a}") for a in names)])
    lines.append(f"{element} sum = {'0' if bias is None else 'bias[o]'};")
    lines.append("for (int64_t c = 0; c < depth; c++) {")
    lines.append("const int64_t from = o / share * depth + c;")
    for a in names:
        lines.append(f"for (int64_t k{a} = 0; k{a} < kernel{a}; k{a}++) {{")
        lines.append(f"const int64_t p{a} = i{a} * stride{a} + k{a} * dilation{a} - pad{a};")
        lines.append(f"if (p{a} < 0 || p{a} >= in{a}) continue;")
    source = _place("n * channels + from", [f"p{a}" for a in names], [f"in{a}" for a in names])
    weight = _place("o * depth + c", [f"k{a}" for a in names], [f"kernel{a}" for a in names])
    lines.append(f"sum += x[{source}] * w[{weight}];")
    lines += ["}"] * (1 + len(names)) + ["y[begin] = sum;"]
    _emit_direct(context, node, "conv", lines, element)


def _emit_direct(context: Context, node: Node, name: str, lines: Sequence[str], element: str) -> None:
    x, w, bias = node.input, node.needed(1), node.optional(2)
    result = wide_result(context, node.output)
    buffers = [Buffer("x", element, side_by_side(context, x)), Buffer("w", element, side_by_side(context, w))]
    buffers += [] if bias is None else [Buffer("bias", element, side_by_side(context, bias))]
    group = int(node.op.group)
    depth, share = floordiv(x.shape[1], group), floordiv(node.output.shape[1], group)
    sizes = {"batch": x.shape[0], "depth": depth, "share": share, **_sizes(node)}
    flops = product(node.output.shape) * product(w.shape[1:]) * 2
    tasks = product(node.output.shape)
    emit_tasks(context, node, name, lines, [*buffers, Buffer("y", element, result, True)], sizes, tasks, flops)
    give_narrow(context, node.output, result)


@anchor("ConvTranspose", refuse=_refuse)
def conv_transpose(context: Context, node: Node, epilogue: Epilogue) -> None:
    """For each result the sum over the inputs that reach it through an element of the kernel."""
    x, bias = node.input, node.optional(2)
    element, names = memory_type(computed(x.dtype)), [str(axis) for axis in range(x.rank - 2)]
    lines = taken_apart("begin", [("n", "batch"), ("o", "outputs"), *((f"i{a}", f"out{a}") for a in names)])
    lines.append(f"{element} sum = {'0' if bias is None else 'bias[o]'};")
    lines += ["for (int64_t c = 0; c < depth; c++) {", "const int64_t from = o / share * depth + c;"]
    for a in names:
        lines.append(f"for (int64_t k{a} = 0; k{a} < kernel{a}; k{a}++) {{")
        lines.append(f"const int64_t t{a} = i{a} + pad{a} - k{a} * dilation{a}, p{a} = t{a} / stride{a};")
        lines.append(f"if (t{a} < 0 || t{a} % stride{a} || p{a} >= in{a}) continue;")
    source = _place("n * channels + from", [f"p{a}" for a in names], [f"in{a}" for a in names])
    weight = _place("from * share + o % share", [f"k{a}" for a in names], [f"kernel{a}" for a in names])
    lines.append(f"sum += x[{source}] * w[{weight}];")
    lines += ["}"] * (1 + len(names)) + ["y[begin] = sum;"]
    _emit_direct(context, node, "conv_transpose", lines, element)
