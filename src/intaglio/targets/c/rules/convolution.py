"""Convolutions by channels-last kernels, and the pools that go with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np

from intaglio.ir.dim import Dim, ceildiv, compare, floordiv, product
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.layout import ChannelsLast, to_first, to_last
from intaglio.kernels.plan import Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import Buffer, View, whole
from intaglio.ops.window import Window
from intaglio.targets.c.backend import machine
from intaglio.targets.c.printing.epilogue import EpilogueCode
from intaglio.targets.c.rules.call import epilogue_code, structured_call
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, converted, packed_blocks, widened
from intaglio.targets.c.structured.conv import conv, conv_by_taps, conv_transpose, pack_conv, pack_conv_transpose
from intaglio.targets.c.structured.depthwise import depthwise, grouped, pack_depthwise
from intaglio.targets.c.structured.gemm import gemm
from intaglio.targets.c.structured.pack import pack_b
from intaglio.targets.c.structured.pool import pool
from intaglio.targets.c.structured.source import Element, StructuredKernel, is_narrow, plain_epilogue, register_tile
from intaglio.targets.c.structured.winograd import LARGEST_WEIGHT, pack_winograd, preferred_output, winograd

WINOGRAD_CHANNELS = 16
"""Winograd's transforms cost more than they save below so many channels."""

DEEP_TAP = 32
"""A tap of so many channels is worth loading and storing the sums once more."""

FUSED = "float32"
"""The element whose sums fill registers as epilogues expect them."""


@dataclass
class Layer:
    """A convolution or pool ready to be called: `shape` is the input's with the channels first, `output` the result's
    with them last; `data` lies in memory as the kernel wants it."""

    node: Node
    inner: Any
    shape: tuple[Dim, ...]
    output: tuple[Dim, ...]
    data: View
    epilogue: Epilogue
    element: Element = FUSED
    input_first: bool = False

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows along each spatial axis."""
        if self.inner.name in ("MaxPool", "AveragePool"):
            return self.inner.windows(self.shape[2:])
        return self.inner.windows(self.shape[2:], self.weights.shape[2:])

    @property
    def weights(self) -> Value:
        """The kernels of a convolution."""
        return self.node.needed(1)

    @property
    def bias(self) -> Value | None:
        """One number for each output channel."""
        return self.node.inputs[2] if len(self.node.inputs) > 2 else None

    @property
    def flops(self) -> Dim:
        """Multiplications and additions of a convolution, each counted as one."""
        weights = self.weights.shape
        if self.inner.name == "ConvTranspose":
            return product(self.shape) * product(weights[1:]) * 2
        return product(self.output) * product(weights[1:]) * 2


def _op(node: Node) -> ChannelsLast:
    assert isinstance(node.op, ChannelsLast)
    return node.op


def _refuse_last(node: Node) -> Refusal | None:
    op = _op(node)
    if op.inner.name not in ("MaxPool", "AveragePool"):
        return None
    windows: Sequence[Window] = op.inner.windows(op.first_type(node.input).dims[2:])  # pyright: ignore
    is_known = all(compare(window.kernel, 0) == 1 for window in windows)
    return None if is_known else Refusal(Cause.SHAPE, "its window's size is not known before the run")


INNER: dict[str, Callable[[Context, Node, Epilogue], None]] = {}
"""The lowering of operators with their channels last on integers."""


@anchor("ChannelsLast", refuse=_refuse_last, fuses=lambda node: True)
def channels_last(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A layer whose input and output have their channels last already."""
    op, x = _op(node), node.input
    if x.dtype.is_integer:
        INNER[op.inner.name](context, node, epilogue)
        return
    if not epilogue.stores:
        epilogue.stores[node.output] = context.allocate(node.output)
    data = widened(context, x) if computed(x.dtype) != x.dtype else context.contiguous(x)
    shape = op.first_type(x).dims
    layer = Layer(node, op.inner, shape, node.output.shape, data, epilogue, input_first=op.input_first)
    if op.inner.name in ("MaxPool", "AveragePool"):
        _pool(context, layer)
    else:
        _convolve(context, layer)


def _refuse_first(node: Node) -> Refusal | None:
    x, w = node.input, node.needed(1)
    if computed(x.dtype).name not in ("float32", "float64"):
        return Refusal(Cause.ELEMENTS, f"{node.op.name} of {x.dtype} is not compiled yet")
    return _refuse_shapes(x, w)


def _refuse_shapes(x: Value, w: Value) -> Refusal | None:
    if not 3 <= x.rank <= 5:
        return Refusal(Cause.FORM, f"a convolution of rank {x.rank} is not compiled yet")
    return None


@anchor("Conv", "ConvTranspose", refuse=_refuse_first)
def channels_first(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A layer with its channels first: its input is copied, its output a view of one with the channels last."""
    x = node.input
    last = context.view(x).transpose(to_last(x.rank))
    data = widened(context, x, last)
    if not data.is_contiguous:
        data = converted(context, data, computed(x.dtype), computed(x.dtype))
    shape = tuple(node.output.shape[axis] for axis in to_last(x.rank))
    result = whole(context.temporary(node.output.dtype, node.output.tensor.size, node.output.name), shape)
    context.views[node.output] = result.transpose(to_first(x.rank))
    store = Epilogue(node.output, stores={node.output: result})
    element = cast(Element, computed(x.dtype).name)
    _convolve(context, Layer(node, node.op, x.shape, shape, data, store, element))


def _convolve(context: Context, layer: Layer) -> None:
    """Choose the kernel by the operator and its structure."""
    windows, group = layer.windows, layer.inner.group
    is_plain = group == 1 and not layer.input_first
    if layer.inner.name == "ConvTranspose":
        _direct(context, layer)
    elif is_plain and all(is_pointwise(window) for window in windows):
        _pointwise(context, layer)
    elif group > 1 and layer.element == FUSED and _fits_lanes(context, layer):
        _depthwise(context, layer)
    elif is_plain and not context.exact and _fits_winograd(layer, windows):
        _winograd(context, layer, windows)
    else:
        _direct(context, layer)


def _fits_lanes(context: Context, layer: Layer) -> bool:
    """Whether a vector holds the channels of a group at least twice: larger groups fill the tiles of `conv` well."""
    outputs, inputs = layer.weights.shape[0], layer.weights.shape[1]
    if not isinstance(outputs, int) or not isinstance(inputs, int):
        return False
    return 2 * max(inputs, outputs // layer.inner.group) <= machine(context).lanes


def is_pointwise(window: Window) -> bool:
    """Whether a window covers one value and moves by one."""
    return (window.kernel, window.stride, window.begin, window.end) == (1, 1, 0, 0)


def _fits_winograd(layer: Layer, windows: Sequence[Window]) -> bool:
    weights = layer.weights
    if weights.constant is None or layer.element != FUSED:
        return False
    is_square = len(windows) == 2 and all((w.kernel, w.stride, w.dilation) == (3, 1, 1) for w in windows)
    has_channels = all(isinstance(d, int) and d >= WINOGRAD_CHANNELS for d in weights.shape[:2])
    return is_square and has_channels and _largest(as_array(weights)) <= LARGEST_WEIGHT


def _largest(array: Array) -> float:
    """The greatest magnitude, NaN where an element is."""
    return float(np.maximum(array.max(), -array.min()))


def _emit(
    context: Context,
    layer: Layer,
    kernel: StructuredKernel,
    sizes: dict[str, Dim],
    weights: Buffer | None,
    flops: Dim,
) -> None:
    """Call a kernel on the layer's input, its packed weights and its epilogue with the bias in front."""
    node, epilogue = layer.node, layer.epilogue
    if layer.element == FUSED:
        bias = layer.bias
        bias_view = None if bias is None else context.contiguous(bias).broadcast(layer.output)
        code = epilogue_code(kernel, epilogue, bias=bias, bias_view=bias_view)
    else:
        code = _plain_code(context, layer, kernel)
    operands = [Operand(layer.data.buffer, layer.data.offset)] + ([] if weights is None else [Operand(weights)])
    names = " + ".join([layer.inner.name, *(other.op.name for other in epilogue.nodes)])
    title = f"{names} as {kernel.hint} -> {node.output.name}: {node.output.type}"
    context.emit(structured_call(kernel, operands, sizes, code, (node, *epilogue.nodes), flops, title))


def _plain_code(context: Context, layer: Layer, kernel: StructuredKernel) -> EpilogueCode:
    """An epilogue that adds the bias and stores."""
    bias = layer.bias
    (result,) = layer.epilogue.stores.values()
    operands = [Operand(result.buffer, result.offset, True)]
    if bias is not None:
        view = context.contiguous(bias)
        operands.append(Operand(view.buffer, view.offset))
    source = plain_epilogue(layer.element, len(kernel.buffers), len(kernel.sizes), has_bias=bias is not None)
    return EpilogueCode(source, operands, [("out_step", layer.output[-1])])


def _pointwise(context: Context, layer: Layer) -> None:
    weights, element = layer.weights, layer.element
    channels = layer.shape[1]
    sizes: dict[str, Dim] = {
        "M": product(layer.output[:-1]), "N": weights.shape[0], "K": channels, "outer": 1, "inner": 1,
        "a_step": channels, "a_outer": 0, "a_inner": 0, "b_step": channels, "b_outer": 0, "b_inner": 0,
    }  # fmt: skip
    array = weights.constant
    if array is None:
        kernel = gemm(machine(context), element, b="columns")
        buffer = _weight_view(context, layer).buffer
    else:
        narrow = is_narrow(machine(context), element, array.shape[0])
        kernel = gemm(machine(context), element, narrow=narrow)
        matrix = array.reshape(array.shape[0], prod(array.shape[1:])).T
        form = f"pointwise {element} {narrow}"
        buffer = context.packed(weights, form, lambda: pack_b(matrix, machine(context), element, narrow=narrow))
    _emit(context, layer, kernel, sizes, buffer, layer.flops)


def _weight_view(context: Context, layer: Layer) -> View:
    """Kernels that are no constant, contiguous from the start of their buffer, in the layer's element."""
    view = widened(context, layer.weights)
    if view.is_contiguous and view.offset == 0:
        return view
    return converted(context, view, view.buffer.dtype, view.buffer.dtype)


def window_sizes(layer: Layer) -> dict[str, Dim]:
    """The sizes of WINDOW_SIZES: missing axes in front have extent 1.

    Axes of extent 1 take no memory, so they may stand in front too; the kernels' tiles then run along a longer one.
    """
    windows = [window for window in layer.windows if not _is_single(window)]
    padded = [Window(1, 1, 1, 1, 0, 0, 1)] * (3 - len(windows)) + windows
    sizes: dict[str, Dim] = {"images": layer.output[0], "C": layer.shape[1]}
    for axis, window in zip("dhw", padded, strict=True):
        upper = axis.upper()
        sizes |= {upper: window.input, f"O{upper}": window.output, f"K{upper}": window.kernel}
        sizes |= {f"stride_{axis}": window.stride, f"dilation_{axis}": window.dilation}
        sizes |= {f"pad_{axis}": window.begin, f"end_{axis}": window.end}
    return sizes | {"OC": layer.output[-1]}


def _is_single(window: Window) -> bool:
    """Whether an axis has one value, and one window that covers it: pads may move the window to where no value is."""
    return (window.input, window.kernel, window.output, window.begin) == (1, 1, 1, 0)


def _direct(context: Context, layer: Layer) -> None:
    group, element = layer.inner.group, layer.element
    is_transposed = layer.inner.name == "ConvTranspose"
    layout = "nchw" if layer.input_first else "nhwc"
    narrow = not is_transposed and is_narrow(machine(context), element, floordiv(layer.output[-1], group))
    if is_transposed:
        kernel = conv_transpose(machine(context), element)
    elif _lies_apart(layer):
        kernel = conv_by_taps(machine(context), element, narrow=narrow)
    else:
        kernel = conv(machine(context), layout, element, narrow=narrow)
    sizes = window_sizes(layer) | {"groups": group}
    weights = layer.weights
    if weights.constant is None:
        buffer = _packed_at_run_time(context, layer, is_transposed, narrow)
    else:
        array = weights.constant
        form = f"{'transpose' if is_transposed else layout} {group} {element} {narrow}"
        if is_transposed:
            buffer = context.packed(weights, form, lambda: pack_conv_transpose(array, group, machine(context), element))
        else:
            target = machine(context)
            buffer = context.packed(
                weights, form, lambda: pack_conv(array, group, target, layout, element, narrow=narrow)
            )
    _emit(context, layer, kernel, sizes, buffer, layer.flops)


def _lies_apart(layer: Layer) -> bool:
    """Whether the taps are so far apart, and so deep, that each is best taken by itself."""
    channels = layer.weights.shape[1]
    is_deep = isinstance(channels, int) and channels >= DEEP_TAP and not layer.input_first
    return is_deep and any(window.dilation > 1 and window.kernel != 1 for window in layer.windows)


def _packed_at_run_time(context: Context, layer: Layer, is_transposed: bool, narrow: bool) -> Buffer:
    """Kernels in the order of `pack_conv`, made by copies."""
    view = _weight_view(context, layer)
    first, second, *kernel = view.shape
    group, taps = layer.inner.group, product(kernel)
    grouped = view.reshape((group, floordiv(first, group), second, taps))
    assert grouped is not None
    source = grouped.transpose((0, 2, 3, 1)) if is_transposed else grouped.transpose((0, 1, 3, 2))
    columns = register_tile(machine(context), layer.element, narrow=narrow).columns
    shape = (group, ceildiv(source.shape[1], columns), taps, source.shape[3], columns)
    target = whole(context.temporary(view.buffer.dtype, product(shape), "packed"), shape)
    packed_blocks(context, source, 1, columns, target.transpose((0, 1, 4, 2, 3)))
    return target.buffer


def _depthwise(context: Context, layer: Layer) -> None:
    weights, group = layer.weights, layer.inner.group
    if weights.constant is None:
        outputs, inputs, *kernel = weights.shape
        view = _weight_view(context, layer).reshape((outputs, inputs, product(kernel)))
        assert view is not None
        buffer = converted(context, view.transpose((2, 1, 0)), view.buffer.dtype, view.buffer.dtype).buffer
    else:
        array = weights.constant
        buffer = context.packed(weights, "depthwise", lambda: pack_depthwise(array))
    if group == layer.shape[1] == layer.output[-1]:
        _emit(context, layer, depthwise(machine(context)), window_sizes(layer), buffer, layer.flops)
    else:
        sizes = window_sizes(layer) | {"groups": group}
        _emit(context, layer, grouped(machine(context)), sizes, buffer, layer.flops)


def _winograd(context: Context, layer: Layer, windows: Sequence[Window]) -> None:
    weights = layer.weights
    array = as_array(weights)
    height, width = windows[0].output, windows[1].output
    output = 4
    if isinstance(height, int) and isinstance(width, int):
        output = preferred_output(height, width, array.shape[0])
    packed = context.packed(weights, f"winograd{output}", lambda: pack_winograd(array, machine(context), output))
    _emit(context, layer, winograd(machine(context), output), window_sizes(layer), packed, layer.flops)


def _pool(context: Context, layer: Layer) -> None:
    counts = layer.inner.name == "AveragePool" and layer.inner.count_include_pad
    kind = "max" if layer.inner.name == "MaxPool" else "average_with_pads" if counts else "average"
    work = product(layer.output) * product(window.kernel for window in layer.windows)
    _emit(context, layer, pool(machine(context), kind), window_sizes(layer), None, work)
