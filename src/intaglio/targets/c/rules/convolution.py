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
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.layout import ChannelsLast, to_first, to_last
from intaglio.kernels.plan import Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import Buffer, View, whole
from intaglio.ops.shared.window import Window
from intaglio.targets.c.rules.call import EpilogueCode, epilogue_code, structured_call
from intaglio.targets.c.rules.linear import MatrixOperand, Product, has_many_rows, packed_in_run
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, converted, packed_blocks, widened
from intaglio.targets.c.structured.conv import conv, conv_by_taps, conv_transpose, pack_conv, pack_conv_transpose
from intaglio.targets.c.structured.depthwise import (
    depthwise,
    depthwise_rows,
    depthwise_transpose,
    fits_rows,
    grouped,
    pack_depthwise,
)
from intaglio.targets.c.structured.gemm import gemm
from intaglio.targets.c.structured.pack import pack_b
from intaglio.targets.c.structured.pool import pool
from intaglio.targets.c.structured.source import Element, StructuredKernel, is_narrow, plain_epilogue, register_tile
from intaglio.targets.c.structured.winograd import (
    LARGEST_WEIGHT,
    pack_winograd,
    preferred_output,
    winograd,
    winograd_pack,
    winograd_pack_size,
)
from intaglio.targets.c.target_rules import machine

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
    is_turned: bool = False
    """Whether this is a transposed convolution as a plain one: the kernels backwards, their channels exchanged."""

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows along each spatial axis."""
        if self.inner.name in ("MaxPool", "AveragePool"):
            return self.inner.windows(self.shape[2:])
        windows = self.inner.windows(self.shape[2:], self.weights.shape[2:])
        return tuple(map(_turned, windows)) if self.is_turned else windows

    @property
    def weights(self) -> Value:
        """The kernels of a convolution."""
        return self.node.needed(1)

    @property
    def is_transposed(self) -> bool:
        """Whether inputs are spread over outputs."""
        return self.inner.name == "ConvTranspose" and not self.is_turned

    @property
    def kernels(self) -> tuple[Dim, ...]:
        """The shape of the kernels as a plain convolution has them: output channels, input channels of a group, ..."""
        first, second, *kernel = self.weights.shape
        if self.inner.name != "ConvTranspose":
            return self.weights.shape
        return second * self.inner.group, floordiv(first, self.inner.group), *kernel

    @property
    def array(self) -> Array | None:
        """Constant kernels in that order."""
        given, group = self.weights.constant, self.inner.group
        if given is None or not self.is_turned:
            return given
        first, second, *kernel = given.shape
        turned = np.swapaxes(given.reshape(group, first // group, second, *kernel), 1, 2)
        return np.flip(turned, tuple(range(3, turned.ndim))).reshape(group * second, first // group, *kernel)

    @property
    def form(self) -> str:
        """What tells arrays that are packed for this layer from those of the same constant in another order."""
        return f"{'turned ' if self.is_turned else ''}{self.inner.group} {self.element}"

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


@anchor("ChannelsLast", refuse=_refuse_last, fuses=lambda node: True, needs={"vectors"})
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


@anchor("Conv", "ConvTranspose", refuse=_refuse_first, needs={"vectors"})
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


def _turned(window: Window) -> Window:
    """A transposed window of stride 1 as that of a plain convolution."""
    reach = (window.kernel - 1) * window.dilation
    begin, end = reach - window.begin, reach - window.end
    return Window(window.input, window.kernel, 1, window.dilation, begin, end, window.output)


def _is_turnable(layer: Layer) -> bool:
    if layer.inner.name != "ConvTranspose" or any(window.stride != 1 for window in layer.windows):
        return False
    return all(isinstance(pad, int) and pad >= 0 for pad in (_turned(window).begin for window in layer.windows))


def _convolve(context: Context, layer: Layer) -> None:
    """Choose the kernel by the operator and its structure."""
    layer.is_turned = _is_turnable(layer)
    windows, group = layer.windows, layer.inner.group
    is_plain = group == 1 and not layer.input_first
    if layer.is_transposed:
        if group > 1 and layer.element == FUSED and group == layer.shape[1] == layer.output[-1]:
            _depthwise(context, layer)
        else:
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
    outputs, inputs = layer.kernels[:2]
    if not isinstance(outputs, int) or not isinstance(inputs, int):
        return False
    return 2 * max(inputs, outputs // layer.inner.group) <= machine(context).lanes


def is_pointwise(window: Window) -> bool:
    """Whether a window covers one value and moves by one."""
    return (window.kernel, window.stride, window.begin, window.end) == (1, 1, 0, 0)


def _fits_winograd(layer: Layer, windows: Sequence[Window]) -> bool:
    kernels, array = layer.kernels, layer.weights.constant
    is_square = len(windows) == 2 and all((w.kernel, w.stride, w.dilation) == (3, 1, 1) for w in windows)
    has_channels = all(isinstance(d, int) and d >= WINOGRAD_CHANNELS for d in kernels[:2])
    if layer.element != FUSED or not is_square or not has_channels:
        return False
    return array is None or _largest(array) <= LARGEST_WEIGHT


def _largest(array: Array) -> float:
    """The greatest magnitude, NaN where an element is."""
    return float(np.maximum(array.max(), -array.min()))


def _emit(
    context: Context,
    layer: Layer,
    kernel: StructuredKernel,
    sizes: dict[str, Dim],
    weights: Sequence[Buffer],
    flops: Dim,
) -> None:
    """Call a kernel on the layer's input, its packed weights and its epilogue with the bias in front."""
    node, epilogue = layer.node, layer.epilogue
    if layer.element == FUSED:
        bias = layer.bias
        bias_view = None if bias is None else context.contiguous(bias).broadcast(layer.output)
        code = epilogue_code(epilogue, bias=bias, bias_view=bias_view)
    else:
        code = _plain_code(context, layer, kernel)
    operands = [Operand(layer.data.buffer, layer.data.offset), *map(Operand, weights)]
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
    stores = plain_epilogue(layer.element, len(kernel.buffers), len(kernel.sizes), has_bias=bias is not None)
    return EpilogueCode(stores, operands, [("out_step", layer.output[-1])])


def _pointwise(context: Context, layer: Layer) -> None:
    outputs, channels, element = layer.kernels[0], layer.shape[1], layer.element
    array = layer.array
    sizes: dict[str, Dim] = {
        "M": product(layer.output[:-1]), "N": outputs, "K": channels, "outer": 1, "inner": 1,
        "a_step": channels, "a_outer": 0, "a_inner": 0,
        "b_step": outputs if layer.is_turned else channels, "b_outer": 0, "b_inner": 0,
    }  # fmt: skip
    extents = Product(sizes["M"], outputs, channels)
    if array is None and has_many_rows(context, extents, element):
        view = Operand(_weight_view(context, layer).buffer)
        right = MatrixOperand(view, "rows" if layer.is_turned else "columns", sizes["b_step"])
        kernel = gemm(machine(context), element, extents=extents.sides)
        buffer = packed_in_run(context, layer.node, right, extents, element)
    elif array is None:
        kernel = gemm(machine(context), element, b="rows" if layer.is_turned else "columns", extents=extents.sides)
        buffer = _weight_view(context, layer).buffer
    else:
        narrow = is_narrow(machine(context), element, array.shape[0])
        kernel = gemm(machine(context), element, narrow=narrow, extents=extents.sides)
        matrix = array.reshape(array.shape[0], prod(array.shape[1:])).T
        buffer = context.packed(
            layer.weights,
            f"pointwise {layer.form} {narrow}",
            lambda: pack_b(matrix, machine(context), element, narrow=narrow),
        )
    _emit(context, layer, kernel, sizes, [buffer], layer.flops)


def _weight_view(context: Context, layer: Layer) -> View:
    """Kernels that are no constant, contiguous from the start of their buffer, in the layer's element."""
    view = widened(context, layer.weights)
    if view.is_contiguous and view.offset == 0:
        return view
    return converted(context, view, view.buffer.dtype, view.buffer.dtype)


def _grouped_view(context: Context, layer: Layer) -> View:
    """Kernels that are no constant as (groups, outputs of a group, inputs of a group, taps)."""
    buffer, group = _weight_view(context, layer).buffer, layer.inner.group
    outputs, inputs, *kernel = layer.kernels
    outputs, taps = floordiv(outputs, group), product(kernel)
    shape = group, outputs, inputs, taps
    if layer.inner.name != "ConvTranspose":
        return whole(buffer, shape)
    step = -1 if layer.is_turned else 1
    first = taps - 1 if layer.is_turned else 0
    return View(buffer, first, shape, (outputs * inputs * taps, taps, outputs * taps, step))


def window_sizes(layer: Layer) -> dict[str, Dim]:
    """The sizes of a layer's windows, and its output channels."""
    return sizes_of_windows(layer.windows, layer.output[0], layer.shape[1], layer.output[-1])


def sizes_of_windows(windows: Sequence[Window], images: Dim, inputs: Dim, outputs: Dim) -> dict[str, Dim]:
    """The sizes of WINDOW_SIZES: missing axes in front have extent 1.

    Axes of extent 1 take no memory, so they may stand in front too; the kernels' tiles then run along a longer one.
    """
    several = [window for window in windows if not _is_single(window)]
    padded = [Window(1, 1, 1, 1, 0, 0, 1)] * (3 - len(several)) + several
    sizes: dict[str, Dim] = {"images": images, "C": inputs}
    for axis, window in zip("dhw", padded, strict=True):
        upper = axis.upper()
        sizes |= {upper: window.input, f"O{upper}": window.output, f"K{upper}": window.kernel}
        sizes |= {f"stride_{axis}": window.stride, f"dilation_{axis}": window.dilation}
        sizes |= {f"pad_{axis}": window.begin, f"end_{axis}": window.end}
    return sizes | {"OC": outputs}


def _is_single(window: Window) -> bool:
    """Whether an axis has one value, and one window that covers it: pads may move the window to where no value is."""
    return (window.input, window.kernel, window.output, window.begin) == (1, 1, 1, 0)


def _direct(context: Context, layer: Layer) -> None:
    group, element = layer.inner.group, layer.element
    layout = "nchw" if layer.input_first else "nhwc"
    target, array = machine(context), layer.array
    narrow = is_narrow(target, element, floordiv(layer.output[-1], group))
    if layer.is_transposed:
        kernel = conv_transpose(target, element, narrow=narrow)
    elif _lies_apart(layer):
        kernel = conv_by_taps(target, element, narrow=narrow)
    else:
        kernel = conv(target, layout, element, narrow=narrow)
    sizes = window_sizes(layer) | {"groups": group}
    if array is None:
        buffer = _packed_at_run_time(context, layer, narrow)
    elif layer.is_transposed:
        form = f"transpose {layer.form} {narrow}"
        buffer = context.packed(
            layer.weights, form, lambda: pack_conv_transpose(array, group, target, element, narrow=narrow)
        )
    else:
        form = f"{layout} {layer.form} {narrow}"
        buffer = context.packed(
            layer.weights, form, lambda: pack_conv(array, group, target, layout, element, narrow=narrow)
        )
    _emit(context, layer, kernel, sizes, [buffer], layer.flops)


def _lies_apart(layer: Layer) -> bool:
    """Whether the taps are so far apart, and so deep, that each is best taken by itself."""
    channels = layer.kernels[1]
    is_deep = isinstance(channels, int) and channels >= DEEP_TAP and not layer.input_first
    return is_deep and any(window.dilation > 1 and window.kernel != 1 for window in layer.windows)


def _packed_at_run_time(context: Context, layer: Layer, narrow: bool) -> Buffer:
    """Kernels in the order of `pack_conv`, made by copies."""
    source = _grouped_view(context, layer).transpose((0, 1, 3, 2))
    group, outputs, taps, inputs = source.shape
    columns = register_tile(machine(context), layer.element, narrow=narrow).columns
    shape = (group, ceildiv(outputs, columns), taps, inputs, columns)
    target = whole(context.temporary(source.buffer.dtype, product(shape), "packed"), shape)
    packed_blocks(context, source, 1, columns, target.transpose((0, 1, 4, 2, 3)))
    return target.buffer


def _depthwise(context: Context, layer: Layer) -> None:
    array, group = layer.array, layer.inner.group
    if array is None:
        view = _grouped_view(context, layer).transpose((3, 2, 0, 1))
        buffer = converted(context, view, view.buffer.dtype, view.buffer.dtype).buffer
    else:
        buffer = context.packed(layer.weights, f"depthwise {layer.form}", lambda: pack_depthwise(array))
    if layer.is_transposed:
        kernel = depthwise_transpose(machine(context), layer.shape[1])
        _emit(context, layer, kernel, window_sizes(layer), [buffer], layer.flops)
    elif group == layer.shape[1] == layer.output[-1]:
        sizes = window_sizes(layer)
        _emit(context, layer, _depthwise_kernel(context, sizes), sizes, [buffer], layer.flops)
    else:
        sizes = window_sizes(layer) | {"groups": group}
        _emit(context, layer, grouped(machine(context)), sizes, [buffer], layer.flops)


def _depthwise_kernel(context: Context, sizes: dict[str, Any]) -> StructuredKernel:
    taps, stride, target = sizes["KW"], sizes["stride_w"], machine(context)
    if fits_rows(target, taps, stride, sizes["dilation_w"]):
        return depthwise_rows(target, taps, stride, sizes["C"])
    return depthwise(target, sizes["C"])


def _winograd(context: Context, layer: Layer, windows: Sequence[Window]) -> None:
    array, target = layer.array, machine(context)
    outputs, channels = (size for size in layer.kernels[:2] if isinstance(size, int))
    height, width = windows[0].output, windows[1].output
    output = 4
    if isinstance(height, int) and isinstance(width, int):
        output = preferred_output(height, width, outputs)
    if array is not None:
        form = f"winograd{output} {layer.form}"
        packed = context.packed(layer.weights, form, lambda: pack_winograd(array, target, output))
        _emit(context, layer, winograd(target, output), window_sizes(layer), [packed], layer.flops)
        return
    given = _grouped_view(context, layer)
    steps = dict(zip(("output_step", "channel_step", "tap_step"), given.strides[1:], strict=True))
    sizes: dict[str, Dim] = {"OC": outputs, "C": channels, "first": given.offset, **steps}
    size = winograd_pack_size(target, output, outputs, channels)
    packed = context.temporary(given.buffer.dtype, size, "packed")
    operands = [Operand(given.buffer), Operand(packed, 0, True)]
    title = f"{layer.weights.name} for winograd{output}"
    context.emit(structured_call(winograd_pack(target, output), operands, sizes, None, (layer.node,), 0, title))
    kernel = winograd(target, output, has_given=True)
    _emit(context, layer, kernel, window_sizes(layer) | sizes, [packed, given.buffer], layer.flops)


def _pool(context: Context, layer: Layer) -> None:
    counts = layer.inner.name == "AveragePool" and layer.inner.count_include_pad
    kind = "max" if layer.inner.name == "MaxPool" else "average_with_pads" if counts else "average"
    work = product(layer.output) * product(window.kernel for window in layer.windows)
    _emit(context, layer, pool(machine(context), kind, layer.shape[1]), window_sizes(layer), [], work)
