"""Structured operators as loops of a textbook: products, convolutions, places of extremes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, floordiv, product
from intaglio.ir.dtype import INT32, DType
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.elements import FLOATS, scalar_type
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.target_rules import Anchor
from intaglio.kernels.view import View, whole
from intaglio.ops.convolution import Conv
from intaglio.ops.shared.indices import resolve_axis
from intaglio.ops.shared.operand import cast
from intaglio.ops.shared.window import Window
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.routine import three_parts
from intaglio.targets.c.rules.linear import batch_shape, batches_are_known
from intaglio.targets.c.rules.widen import computed, give_narrow, side_by_side, wide_result
from intaglio.targets.plain.expression import TYPES
from intaglio.targets.plain.one_lane import function_call, textbook

TEXTBOOK: dict[str, Anchor] = {}
"""The operators that are written here."""


def _rule(*names: str, refuse: Callable[[Node], Refusal | None] = lambda node: None) -> Any:
    def register(lower: Callable[[Context, Node, Epilogue], None]) -> Any:
        TEXTBOOK.update((name, Anchor(lower, refuse)) for name in names)
        return lower

    return register


def _element(dtype: DType) -> str:
    return TYPES[scalar_type(dtype)]


def _refuse_batches(node: Node) -> Refusal | None:
    known = batches_are_known(node.input, node.needed(1), node.output)
    return None if known else Refusal(Cause.FORM, "its batch dimensions may or may not be broadcast")


@_rule("MatMul", refuse=_refuse_batches)
def matmul(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The sum over k of a[m][k] * b[k][n]: a loop over all m and n, and one over k inside."""
    a, b = node.input, node.needed(1)
    _product(context, node, a, b, computed(a.dtype), None, None)


def _refuse_zero_points(node: Node) -> Refusal | None:
    a_zero, b_zero = node.optional(2), node.optional(3)
    if a_zero is not None and a_zero.shape not in ((), (1,)):
        return Refusal(Cause.FORM, "its left operand has more than one zero point")
    if b_zero is not None and b_zero.rank > 1:
        return Refusal(Cause.FORM, "its right zero points are neither one nor one for each column")
    return _refuse_batches(node)


@_rule("MatMulInteger", refuse=_refuse_zero_points)
def matmul_integer(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The same of bytes in 32 bits, each less its zero point."""
    a, b = node.input, node.needed(1)
    _product(context, node, a, b, INT32, node.optional(2), node.optional(3))


def _product(
    context: Context, node: Node, a: Value, b: Value, dtype: DType, a_zero: Value | None, b_zero: Value | None
) -> None:
    left, right = _matrix(context.view(a), is_left=True), _matrix(context.view(b), is_left=False)
    batch = batch_shape(a, b)
    rank = len(batch) + 3
    (m, k), n = left.shape[-2:], right.shape[-1]
    shape = (*batch, m, n, k)
    graph = Graph("product")
    builder = Builder(graph)
    loads: dict[Value, View] = {}

    def operand(value: Value, view: View, zero: Value | None, zero_view: View | None) -> Value:
        source = graph.add_input(value.name, TensorType(value.dtype, view.shape))
        loads[source] = view.broadcast(shape)
        found = cast(builder, source, dtype)
        if zero is None or zero_view is None:
            return found
        point = graph.add_input(zero.name, TensorType(zero.dtype, zero_view.shape))
        loads[point] = zero_view.broadcast(shape)
        return builder.Sub(found, cast(builder, point, dtype))

    wide_left = View(left.buffer, left.offset, (*left.shape[:-1], 1, k), (*left.strides[:-1], 0, left.strides[-1]))
    turned = View(
        right.buffer, right.offset, (*right.shape[:-2], 1, n, k),
        (*right.strides[:-2], 0, right.strides[-1], right.strides[-2]),
    )  # fmt: skip
    product_ = builder.Mul(
        operand(a, wide_left, a_zero, _zero_view(context, a_zero, 1)),
        operand(b, turned, b_zero, _zero_view(context, b_zero, n)),
    )
    total = builder.ReduceSum(product_, [rank - 1], keepdims=1)
    result = cast(builder, total, node.output.dtype)
    target = context.allocate(node.output)
    spread = whole(target.buffer, (*batch, m, n, 1)).broadcast(shape)
    nodes = [each for each in graph.nodes if each.op.name != "Constant"]
    title = f"{node.op.name} -> {node.output.name}: {node.output.type}"
    call = context.rules.loop_call(FusedNodes(nodes, shape, (rank - 1,), loads, {result: spread}, title))
    call.nodes, call.flops, call.kernel = (node,), product(shape) * 2, _named(call.kernel, node.op.name.lower())
    context.emit(call)


def _named(kernel: Kernel, name: str) -> Kernel:
    """A kernel under the name of what it is for."""
    assert kernel.loops is not None
    loops = replace(kernel.loops, name=name, about="Matrix product: the sum over k of a[m][k] * b[k][n]")
    return replace(kernel, hint=name, body=loops)


def _matrix(view: View, *, is_left: bool) -> View:
    """A vector as a matrix of one row, or of one column."""
    if len(view.shape) > 1:
        return view
    shape, strides = ((1, *view.shape), (0, *view.strides)) if is_left else ((*view.shape, 1), (*view.strides, 0))
    return View(view.buffer, view.offset, shape, strides)


def _zero_view(context: Context, zero: Value | None, n: Dim) -> View | None:
    """Zero points along n, where k is the last axis."""
    if zero is None:
        return None
    view = context.view(zero)
    is_single = zero.shape in ((), (1,))
    shape, strides = ((1, 1), (0, 0)) if is_single else ((n, 1), (view.strides[0], 0))
    return View(view.buffer, view.offset, shape, strides)


def _refuse_convolution(node: Node) -> Refusal | None:
    x = node.input
    if not 3 <= x.rank <= 6 or computed(x.dtype).name not in ("float32", "float64", "int8", "uint8"):
        return Refusal(Cause.FORM, f"{node.op.name} of {x.type} is not written in plain C")
    return None


def _operator(node: Node) -> Any:
    """The convolution, that of a convolution of bytes included."""
    return Conv(**node.op.convolution()) if node.op.name == "ConvInteger" else node.op


def _windows(node: Node) -> Sequence[Window]:
    return _operator(node).windows(node.input.shape[2:], node.needed(1).shape[2:])


def _window_sizes(windows: Sequence[Window]) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for axis, w in enumerate(windows):
        sizes |= {f"in{axis}": w.input, f"out{axis}": w.output, f"kernel{axis}": w.kernel}
        sizes |= {f"stride{axis}": w.stride, f"dilation{axis}": w.dilation, f"pad{axis}": w.begin}
    return sizes


@_rule("Conv", refuse=_refuse_convolution)
def conv(context: Context, node: Node, epilogue: Epilogue) -> None:
    """For each place of the output: the sum over channels and the kernel's elements that lie inside of the input."""
    x, w, bias = node.input, node.needed(1), node.optional(2)
    element = _element(computed(x.dtype))
    result = wide_result(context, node.output)
    views = [side_by_side(context, x), side_by_side(context, w)]
    views += [] if bias is None else [side_by_side(context, bias)]
    types = {"X": element, "W": element, "TOTAL": element}
    settings: dict[str, Setting] = {**types, "HAS_BIAS": bias is not None, "X_ZERO": 0, "W_ZERO": 0}
    _emit_convolution(context, node, "conv", settings, [*views, result])
    give_narrow(context, node.output, result)


def _refuse_integer(node: Node) -> Refusal | None:
    zero = node.optional(2)
    if zero is not None and zero.shape not in ((), (1,)):
        return Refusal(Cause.FORM, "its input has more than one zero point")
    return _refuse_convolution(node)


@_rule("ConvInteger", refuse=_refuse_integer)
def conv_integer(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The same of bytes in 32 bits, each less its zero point."""
    x, w = node.input, node.needed(1)
    zeros = [node.optional(2), node.optional(3)]
    views = [context.contiguous(x), context.contiguous(w)]
    views += [context.contiguous(zero) for zero in zeros if zero is not None]
    kind = 0 if zeros[1] is None else 1 if zeros[1].shape in ((), (1,)) else 2
    types = {"X": _element(x.dtype), "W": _element(w.dtype), "TOTAL": "int32_t"}
    settings: dict[str, Setting] = {**types, "HAS_BIAS": 0, "X_ZERO": zeros[0] is not None, "W_ZERO": kind}
    _emit_convolution(context, node, "conv", settings, [*views, context.allocate(node.output)])


def _emit_convolution(
    context: Context, node: Node, name: str, settings: Mapping[str, Setting], views: Sequence[View]
) -> None:
    w = node.needed(1)
    channels, outputs, group = node.input.shape[1], node.output.shape[1], int(_operator(node).group)
    sizes: dict[str, Dim] = {
        "batch": node.input.shape[0], "channels": channels, "outputs": outputs, **_window_sizes(_windows(node)),
        "depth": floordiv(channels, group), "share": floordiv(outputs, group),
    }  # fmt: skip
    work = node.input if name == "conv_transpose" else node.output
    flops = product(work.shape) * product(w.shape[1:]) * 2
    form = textbook(name, settings, AXES=node.input.rank - 2, IS_GROUPED=group > 1)
    context.emit(function_call(name, form, views, sizes, node, flops))


@_rule("ConvTranspose", refuse=_refuse_convolution)
def conv_transpose(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Each element of the input times the kernel is added to the output."""
    x, bias = node.input, node.optional(2)
    element = _element(computed(x.dtype))
    result = wide_result(context, node.output)
    views = [side_by_side(context, x), side_by_side(context, node.needed(1))]
    views += [] if bias is None else [side_by_side(context, bias)]
    settings = {"ELEMENT": element, "HAS_BIAS": bias is not None}
    _emit_convolution(context, node, "conv_transpose", settings, [*views, result])
    give_narrow(context, node.output, result)


def _refuse_pool(node: Node) -> Refusal | None:
    x = node.input
    if len(node.outputs) > 1 and (node.outputs[1].uses or node.outputs[1].is_output):
        return Refusal(Cause.FORM, "places of maxima have another rule")
    if not 3 <= x.rank <= 6 or scalar_type(x.dtype) not in TYPES or x.dtype.kind == "complex":
        return Refusal(Cause.FORM, f"{node.op.name} of {x.type} is not written in plain C")
    is_known = all(isinstance(window.kernel, int) and window.kernel > 0 for window in node.op.windows(x.shape[2:]))
    return None if is_known else Refusal(Cause.SHAPE, "its window's size is not known before the run")


@_rule("MaxPool", "AveragePool", refuse=_refuse_pool)
def pool(context: Context, node: Node, epilogue: Epilogue) -> None:
    """For each place of the output: the greatest element, or the mean of those, under a window."""
    x, windows = node.input, node.op.windows(node.input.shape[2:])
    element = _element(computed(x.dtype))
    if node.op.name == "MaxPool":
        name, is_float = "max_pool", element in ("float", "double")
        form = textbook(name, AXES=len(windows), ELEMENT=element, LOWEST=_lowest(element), IS_FLOAT=is_float)
    else:
        name, counts_pads = "average_pool", bool(node.op.count_include_pad)
        form = textbook(name, AXES=len(windows), ELEMENT=element, COUNTS_PADS=counts_pads)
    sizes: dict[str, Dim] = {"planes": product(x.shape[:2]), **_window_sizes(windows)}
    sizes |= {f"end{axis}": window.end for axis, window in enumerate(windows)}
    result = wide_result(context, node.outputs[0])
    work = product(node.outputs[0].shape) * product(window.kernel for window in windows)
    context.emit(function_call(name, form, [side_by_side(context, x), result], sizes, node, work))
    give_narrow(context, node.outputs[0], result)


def _lowest(element: str) -> str:
    if element in ("float", "double"):
        return "-INFINITY"
    return "0" if element[0] == "u" or element == "bool" else f"{element.removesuffix('_t').upper()}_MIN"


@_rule("ArgMax", "ArgMin", refuse=lambda node: _refuse_empty(node))
def arg_extreme(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The place of the greatest or least element along an axis; NaN is more extreme than any number."""
    data = node.input
    shape = data.shape or (1,)
    outer, extent, inner = three_parts(shape, resolve_axis(node.op.axis, len(shape)))
    dtype = computed(data.dtype)
    name, is_greatest = node.op.name, node.op.name == "ArgMax"
    words: dict[str, Setting] = {"OPERATOR": name, "KIND": "greatest" if is_greatest else "least"}
    form = textbook(
        "arg_extreme", words, ELEMENT=_element(dtype), IS_GREATEST=is_greatest,
        IS_LAST=bool(node.op.select_last_index), IS_FLOAT=scalar_type(dtype) in FLOATS,
    )  # fmt: skip
    sizes: dict[str, Dim] = {"outer": outer, "extent": extent, "inner": inner}
    views = [side_by_side(context, data), context.allocate(node.output)]
    context.emit(function_call(name.lower(), form, views, sizes, node))


def _refuse_empty(node: Node) -> Refusal | None:
    data = node.input
    shape = data.shape or (1,)
    extent = shape[resolve_axis(node.op.axis, len(shape))]
    is_known = isinstance(extent, int) and extent > 0
    return None if is_known else Refusal(Cause.SHAPE, "there may be nothing to choose from along its axis")
