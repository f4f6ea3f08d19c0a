"""Structured operators as loops of a textbook: products, convolutions, places of extremes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
from intaglio.targets.c.routine import three_parts
from intaglio.targets.c.rules.linear import batch_shape, batches_are_known
from intaglio.targets.c.rules.widen import computed, give_narrow, side_by_side, wide_result
from intaglio.targets.plain.expression import TYPES
from intaglio.targets.plain.function import FUNCTIONS, Argument, Body, PlainFunction, function_call

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
def lower_conv(context: Context, node: Node, epilogue: Epilogue) -> None:
    """For each place of the output: the sum over channels and the kernel's elements that lie inside of the input."""
    x, w, bias = node.input, node.needed(1), node.optional(2)
    element = _element(computed(x.dtype))
    result = wide_result(context, node.output)
    views = [side_by_side(context, x), side_by_side(context, w)]
    views += [] if bias is None else [side_by_side(context, bias)]
    settings = {"x": element, "w": element, "total": element, "has_bias": bias is not None}
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
    zero = 0 if zeros[1] is None else 1 if zeros[1].shape in ((), (1,)) else 2
    settings = {"x": _element(x.dtype), "w": _element(w.dtype), "x_zero": zeros[0] is not None, "w_zero": zero}
    views.append(context.allocate(node.output))
    _emit_convolution(context, node, "conv", {"total": "int32_t", **settings}, views)


def _emit_convolution(
    context: Context, node: Node, name: str, settings: Mapping[str, str | int], views: Sequence[View]
) -> None:
    w = node.needed(1)
    channels, outputs, group = node.input.shape[1], node.output.shape[1], int(_operator(node).group)
    sizes: dict[str, Dim] = {
        "batch": node.input.shape[0], "channels": channels, "outputs": outputs, **_window_sizes(_windows(node)),
        "depth": floordiv(channels, group), "share": floordiv(outputs, group),
    }  # fmt: skip
    work = node.input if name == "conv_transpose" else node.output
    flops = product(work.shape) * product(w.shape[1:]) * 2
    settings = {**settings, "axes": node.input.rank - 2, "is_grouped": int(group > 1)}
    context.emit(function_call(name, settings, views, sizes, node, flops))


def _sizes_of(axes: int, is_grouped: int) -> tuple[str, ...]:
    names = ("in", "out", "kernel", "stride", "dilation", "pad")
    group = ("depth", "share") if is_grouped else ()
    return ("batch", "channels", "outputs", *group, *(f"{name}{axis}" for axis in range(axes) for name in names))


def _along(axes: int, extent: str, index: str) -> tuple[tuple[str, str], ...]:
    """Sizes and places along all axes."""
    return tuple((f"{extent}{axis}", f"{index}{axis}") for axis in range(axes))


@contextmanager
def _channels(body: Body, is_grouped: int) -> Iterator[None]:
    """A loop over the channels that an output reads: `from` is one of them, `c` its number in the group."""
    with body.loops(c="depth" if is_grouped else "channels"):
        if is_grouped:
            share = body.sizes["share"]
            first = body.times("o" if share == "1" else f"o / {share}", "depth")
            body.add(f"const int64_t from = {first} + c;")
        yield


@contextmanager
def _taps(body: Body, axes: int, inside: str = "in") -> Iterator[None]:
    """Loops over the kernel's elements that lie inside of an image."""
    with ExitStack() as stack:
        for a in range(axes):
            stack.enter_context(body.loops(**{f"k{a}": f"kernel{a}"}))
            body.add(f"const int64_t p{a} = {_under(body, a)};")
            body.add(f"if (p{a} < 0 || p{a} >= {body.sizes[f'{inside}{a}']})", "    continue;")
        yield


def _under(body: Body, axis: int) -> str:
    """The place that an element of a kernel has along an axis."""
    place, tap = body.times(f"i{axis}", f"stride{axis}"), body.times(f"k{axis}", f"dilation{axis}")
    return body.plus(f"{place} + {tap}", f"pad{axis}", "-")


def _function(make: Callable[..., PlainFunction]) -> Callable[..., PlainFunction]:
    FUNCTIONS[make.__name__] = make
    return make


@_function
def conv(
    axes: int, x: str, w: str, total: str, is_grouped: int, has_bias: int = 0, x_zero: int = 0, w_zero: int = 0
) -> PlainFunction:
    """A convolution. Zero points of weights are none, one, or one for each output."""

    def write(body: Body) -> None:
        from_, depth = ("from", "depth") if is_grouped else ("c", "channels")
        with body.loops(n="batch", o="outputs", **{f"i{a}": f"out{a}" for a in range(axes)}):
            body.add(f"{total} sum = {'bias[o]' if has_bias else '0'};")
            with _channels(body, is_grouped), _taps(body, axes):
                left = f"x[{body.place('n', ('channels', from_), *_along(axes, 'in', 'p'))}]"
                right = f"w[{body.place('o', (depth, 'c'), *_along(axes, 'kernel', 'k'))}]"
                left = f"({left} - x_zero[0])" if x_zero else left
                right = f"({right} - w_zero[{'0' if w_zero == 1 else 'o'}])" if w_zero else right
                body.add(f"sum += {left} * {right};")
            body.add(f"y[{body.place('n', ('outputs', 'o'), *_along(axes, 'out', 'i'))}] = sum;")

    buffers = [Argument("x", x), Argument("w", w)]
    buffers += [Argument("bias", total)] if has_bias else []
    buffers += [Argument("x_zero", x)] if x_zero else []
    buffers += [Argument("w_zero", w)] if w_zero else []
    about = f"Convolution over {axes} axes: the sum of kernel times input, where both are."
    return PlainFunction(about, (*buffers, Argument("y", total, True)), _sizes_of(axes, is_grouped), write)


@_rule("ConvTranspose", refuse=_refuse_convolution)
def lower_conv_transpose(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Each element of the input times the kernel is added to the output."""
    x, bias = node.input, node.optional(2)
    element = _element(computed(x.dtype))
    result = wide_result(context, node.output)
    views = [side_by_side(context, x), side_by_side(context, node.needed(1))]
    views += [] if bias is None else [side_by_side(context, bias)]
    settings = {"element": element, "has_bias": int(bias is not None)}
    _emit_convolution(context, node, "conv_transpose", settings, [*views, result])
    give_narrow(context, node.output, result)


@_function
def conv_transpose(axes: int, element: str, is_grouped: int, has_bias: int) -> PlainFunction:
    """A transposed convolution."""

    def write(body: Body) -> None:
        target = f"y[{body.place('n', ('outputs', 'o'), *_along(axes, 'out', 'p'))}]"
        from_, first = ("from", "from") if is_grouped else ("c", "c")
        with body.loops(n="batch", o="outputs"):
            with body.loops(**{f"p{a}": f"out{a}" for a in range(axes)}):
                body.add(f"{target} = {'bias[o]' if has_bias else '0'};")
            with _channels(body, is_grouped), body.loops(**{f"i{a}": f"in{a}" for a in range(axes)}):
                with _taps(body, axes, "out"):
                    source = body.place("n", ("channels", from_), *_along(axes, "in", "i"))
                    output = ("share", f"o % {body.sizes['share']}") if is_grouped else ("outputs", "o")
                    weight = body.place(first, output, *_along(axes, "kernel", "k"))
                    body.add(f"{target} += x[{source}] * w[{weight}];")

    buffers = [Argument("x", element), Argument("w", element), *([Argument("bias", element)] if has_bias else [])]
    about = f"Transposed convolution over {axes} axes: each input times the kernel is added to the output."
    return PlainFunction(about, (*buffers, Argument("y", element, True)), _sizes_of(axes, is_grouped), write)


def _refuse_pool(node: Node) -> Refusal | None:
    x = node.input
    if len(node.outputs) > 1 and (node.outputs[1].uses or node.outputs[1].is_output):
        return Refusal(Cause.FORM, "places of maxima are told by another rule")
    if not 3 <= x.rank <= 6 or scalar_type(x.dtype) not in TYPES or x.dtype.kind == "complex":
        return Refusal(Cause.FORM, f"{node.op.name} of {x.type} is not written in plain C")
    is_known = all(isinstance(window.kernel, int) and window.kernel > 0 for window in node.op.windows(x.shape[2:]))
    return None if is_known else Refusal(Cause.SHAPE, "its window's size is not known before the run")


@_rule("MaxPool", "AveragePool", refuse=_refuse_pool)
def lower_pool(context: Context, node: Node, epilogue: Epilogue) -> None:
    """For each place of the output: the greatest element, or the mean of those, under a window."""
    x, windows = node.input, node.op.windows(node.input.shape[2:])
    element = _element(computed(x.dtype))
    counts_pads = bool(getattr(node.op, "count_include_pad", 0))
    sizes: dict[str, Dim] = {"planes": product(x.shape[:2]), **_window_sizes(windows)}
    sizes |= {f"end{axis}": window.end for axis, window in enumerate(windows)}
    result = wide_result(context, node.outputs[0])
    work = product(node.outputs[0].shape) * product(window.kernel for window in windows)
    views = [side_by_side(context, x), result]
    settings = {"axes": len(windows), "element": element}
    if node.op.name == "MaxPool":
        call = function_call("max_pool", settings, views, sizes, node, work)
    else:
        call = function_call("average_pool", settings | {"counts_pads": int(counts_pads)}, views, sizes, node, work)
    context.emit(call)
    give_narrow(context, node.outputs[0], result)


def _lowest(element: str) -> str:
    if element in ("float", "double"):
        return "-INFINITY"
    return "0" if element[0] == "u" or element == "bool" else f"{element.removesuffix('_t').upper()}_MIN"


@_function
def max_pool(axes: int, element: str) -> PlainFunction:
    """The greatest element under each window; NaN is greater than any number."""

    def write(body: Body) -> None:
        with body.loops(n="planes", **{f"i{a}": f"out{a}" for a in range(axes)}):
            body.add(f"{element} best = {_lowest(element)};")
            with _taps(body, axes):
                body.add(f"const {element} value = x[{body.place('n', *_along(axes, 'in', 'p'))}];")
                nan = " || (value != value && best == best)" if element in ("float", "double") else ""
                body.add(f"if (value > best{nan})", "    best = value;")
            body.add(f"y[{body.place('n', *_along(axes, 'out', 'i'))}] = best;")

    return _pool_function("The greatest element under each window.", axes, element, write)


@_function
def average_pool(axes: int, element: str, counts_pads: int) -> PlainFunction:
    """The mean of the elements under each window, of pads too where they count as zeros."""

    def write(body: Body) -> None:
        source = f"x[{body.place('n', *_along(axes, 'in', 'p'))}]"
        with body.loops(n="planes", **{f"i{a}": f"out{a}" for a in range(axes)}):
            body.add(f"{element} sum = 0;", "int64_t count = 0;")
            with (_padded_taps if counts_pads else _taps)(body, axes):
                body.add(f"sum += {source};", *([] if counts_pads else ["count++;"]))
            body.add(f"y[{body.place('n', *_along(axes, 'out', 'i'))}] = sum / ({element})count;")

    ends = tuple(f"end{a}" for a in range(axes)) if counts_pads else ()
    return _pool_function("The mean of the element under each window.", axes, element, write, ends)


@contextmanager
def _padded_taps(body: Body, axes: int) -> Iterator[None]:
    """Loops over a window's elements that lie inside of an image, which count those in its pads too."""
    with ExitStack() as stack:
        for a in range(axes):
            stack.enter_context(body.loops(**{f"k{a}": f"kernel{a}"}))
            body.add(f"const int64_t p{a} = {_under(body, a)};")
            body.add(f"if (p{a} >= {body.plus(body.sizes[f'in{a}'], f'end{a}')})", "    continue;")
        outside = " || ".join(f"p{a} < 0 || p{a} >= {body.sizes[f'in{a}']}" for a in range(axes))
        body.add("count++;", f"if ({outside})", "    continue;")
        yield


def _pool_function(
    about: str, axes: int, element: str, write: Callable[[Body], None], ends: tuple[str, ...] = ()
) -> PlainFunction:
    names = ("in", "out", "kernel", "stride", "dilation", "pad")
    sizes = ("planes", *(f"{name}{a}" for a in range(axes) for name in names), *ends)
    return PlainFunction(about, (Argument("x", element), Argument("y", element, True)), sizes, write)


@_rule("ArgMax", "ArgMin", refuse=lambda node: _refuse_empty(node))
def lower_arg_extreme(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The place of the greatest or least element along an axis; NaN is more extreme than any number."""
    data = node.input
    shape = data.shape or (1,)
    outer, extent, inner = three_parts(shape, resolve_axis(node.op.axis, len(shape)))
    dtype = computed(data.dtype)
    settings = {
        "element": _element(dtype), "is_greatest": int(node.op.name == "ArgMax"),
        "is_last": int(node.op.select_last_index), "is_float": int(scalar_type(dtype) in FLOATS),
    }  # fmt: skip
    sizes: dict[str, Dim] = {"outer": outer, "extent": extent, "inner": inner}
    views = [side_by_side(context, data), context.allocate(node.output)]
    context.emit(function_call(node.op.name.lower(), settings, views, sizes, node))


def arg_extreme(element: str, is_greatest: int, is_last: int, is_float: int) -> PlainFunction:
    """The place of the greatest or least element along an axis; the first or the last such."""
    better = f"value {'>' if is_greatest else '<'} best{' || value == best' if is_last else ''}"
    if is_float:
        nan = "value != value" if is_last else "(value != value && best == best)"
        better = f"{nan} || (best == best && ({better}))"

    def write(body: Body) -> None:
        extent = body.sizes["extent"]
        with body.loops(o="outer", i="inner"):
            first = body.times(body.times("o", "extent"), "inner")
            body.add(f"{element} best = x[{first} + i];", "int64_t place = 0;")
            with body.block(f"for (int64_t k = 1; k < {extent}; k++)"):
                body.add(f"const {element} value = x[{body.place('o', ('extent', 'k'), ('inner', 'i'))}];")
                with body.block(f"if ({better})"):
                    body.add("best = value;", "place = k;")
            body.add(f"y[{body.place('o', ('inner', 'i'))}] = place;")

    name, kind = ("ArgMax", "greatest") if is_greatest else ("ArgMin", "least")
    about = f"{name}: the place of the {kind} element along an axis."
    arguments = (Argument("x", element), Argument("y", "int64_t", True))
    return PlainFunction(about, arguments, ("outer", "extent", "inner"), write)


FUNCTIONS |= {"argmax": arg_extreme, "argmin": arg_extreme}


def _refuse_empty(node: Node) -> Refusal | None:
    data = node.input
    shape = data.shape or (1,)
    extent = shape[resolve_axis(node.op.axis, len(shape))]
    is_known = isinstance(extent, int) and extent > 0
    return None if is_known else Refusal(Cause.SHAPE, "there may be nothing to choose from along its axis")
