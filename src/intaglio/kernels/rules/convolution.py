"""Convolutions and pools with channels last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intaglio.ir.dim import Dim, compare, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, anchor
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.layout import ChannelsLast
from intaglio.kernels.plan import Operand
from intaglio.kernels.rules.call import epilogue_code, structured_call
from intaglio.kernels.structured.conv import conv, conv_transpose, pack_conv, pack_conv_transpose
from intaglio.kernels.structured.depthwise import depthwise, pack_depthwise
from intaglio.kernels.structured.gemm import gemm
from intaglio.kernels.structured.pack import pack_b
from intaglio.kernels.structured.pool import pool
from intaglio.kernels.structured.source import StructuredKernel
from intaglio.kernels.structured.winograd import pack_winograd, preferred_output, winograd
from intaglio.kernels.view import Buffer
from intaglio.ops.window import Window

WINOGRAD_CHANNELS = 16
"""Winograd's transforms cost more than they save below so many channels."""


def _refuse(node: Node) -> str | None:
    inner = _op(node).inner
    if inner.name in ("MaxPool", "AveragePool") and any(compare(w.kernel, 0) != 1 for w in _windows(node)):
        return "its window's size is not known before the run"
    return None


def _op(node: Node) -> ChannelsLast:
    assert isinstance(node.op, ChannelsLast)
    return node.op


def _input(node: Node, position: int = 0) -> Value:
    value = node.inputs[position]
    assert value is not None
    return value


def _first_shape(node: Node) -> tuple[Dim, ...]:
    return _op(node).first_type(_input(node)).dims


def _windows(node: Node) -> tuple[Window, ...]:
    inner, spatial = _op(node).inner, _first_shape(node)[2:]
    if inner.name in ("Conv", "ConvTranspose"):
        return inner.windows(spatial, _input(node, 1).shape[2:])
    return inner.windows(spatial)


@anchor("ChannelsLast", refuse=_refuse, fuses=lambda node: True)
def channels_last(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Choose the kernel by the operator and its structure."""
    name = _op(node).inner.name
    if name in ("MaxPool", "AveragePool"):
        _pool(context, node, epilogue)
    elif name == "ConvTranspose":
        _direct(context, node, epilogue, is_transposed=True)
    else:
        _conv(context, node, epilogue)


def _conv(context: Context, node: Node, epilogue: Epilogue) -> None:
    weights, windows, group = _input(node, 1), _windows(node), _op(node).inner.group
    is_plain = group == 1 and not _op(node).input_first
    if is_plain and all(_is_pointwise(window) for window in windows):
        _pointwise(context, node, epilogue)
    elif group > 1 and group == _first_shape(node)[1]:
        _depthwise(context, node, epilogue)
    elif is_plain and _fits_winograd(node, weights, windows):
        _winograd(context, node, epilogue, windows)
    else:
        _direct(context, node, epilogue, is_transposed=False)


def _is_pointwise(window: Window) -> bool:
    return (window.kernel, window.stride, window.begin, window.end) == (1, 1, 0, 0)


def _fits_winograd(node: Node, weights: Value, windows: Sequence[Window]) -> bool:
    is_square = len(windows) == 2 and all((w.kernel, w.stride, w.dilation) == (3, 1, 1) for w in windows)
    return is_square and all(isinstance(d, int) and d >= WINOGRAD_CHANNELS for d in weights.shape[:2])


def _emit(
    context: Context,
    node: Node,
    epilogue: Epilogue,
    kernel: StructuredKernel,
    sizes: dict[str, Dim],
    weights: Buffer | None,
    flops: Dim,
) -> None:
    """Call a kernel on the node's input, its packed weights and its epilogue with the bias in front."""
    if not epilogue.stores:
        epilogue.stores[node.output] = context.allocate(node.output)
    data = context.contiguous(_input(node))
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    bias_view = None if bias is None else context.contiguous(bias).broadcast(node.output.shape)
    code = epilogue_code(kernel, epilogue, bias=bias, bias_view=bias_view)
    operands = [Operand(data.buffer, data.offset)] + ([] if weights is None else [Operand(weights)])
    names = " + ".join([_op(node).inner.name, *(other.op.name for other in epilogue.nodes)])
    title = f"{names} as {kernel.hint} -> {node.output.name}: {node.output.type}"
    context.emit(structured_call(kernel, operands, sizes, code, (node, *epilogue.nodes), flops, title))


def _flops(node: Node) -> Dim:
    """Multiplications and additions of a convolution, each counted as one."""
    weights = _input(node, 1).shape
    if _op(node).inner.name == "ConvTranspose":
        return product(_input(node).shape) * product(weights[1:]) * 2
    return product(node.output.shape) * product(weights[1:]) * 2


def _pointwise(context: Context, node: Node, epilogue: Epilogue) -> None:
    shape, weights = _input(node).shape, _input(node, 1)
    pixels = product(shape[:-1])
    sizes: dict[str, Dim] = {
        "M": pixels, "N": weights.shape[0], "K": shape[-1], "outer": 1, "inner": 1, "a_step": shape[-1],
        "a_outer": 0, "a_inner": 0, "b_step": 0, "b_outer": 0, "b_inner": 0,
    }  # fmt: skip
    array = weights.constant
    assert array is not None
    matrix = array.reshape(array.shape[0], -1).T
    packed = context.packed(weights, "pointwise", lambda: pack_b(matrix, context.target))
    _emit(context, node, epilogue, gemm(context.target), sizes, packed, _flops(node))


def _window_sizes(node: Node, windows: Sequence[Window]) -> dict[str, Dim]:
    """The sizes of WINDOW_SIZES: missing axes in front have extent 1."""
    padded = [Window(1, 1, 1, 1, 0, 0, 1)] * (3 - len(windows)) + list(windows)
    sizes: dict[str, Dim] = {"images": node.output.shape[0], "C": _first_shape(node)[1]}
    for axis, window in zip("dhw", padded, strict=True):
        upper = axis.upper()
        sizes |= {upper: window.input, f"O{upper}": window.output, f"K{upper}": window.kernel}
        sizes |= {f"stride_{axis}": window.stride, f"dilation_{axis}": window.dilation}
        sizes |= {f"pad_{axis}": window.begin, f"end_{axis}": window.end}
    return sizes | {"OC": node.output.shape[-1]}


def _direct(context: Context, node: Node, epilogue: Epilogue, is_transposed: bool) -> None:
    op, weights = _op(node), _input(node, 1)
    group: int = op.inner.group
    sizes = _window_sizes(node, _windows(node)) | {"groups": group}
    array = np.asarray(weights.constant, np.float32)
    if is_transposed:
        kernel = conv_transpose(context.target)
        packed = context.packed(weights, f"transpose{group}", lambda: pack_conv_transpose(array, group, context.target))
    else:
        layout = "nchw" if op.input_first else "nhwc"
        kernel = conv(context.target, layout)
        packed = context.packed(weights, f"{layout}{group}", lambda: pack_conv(array, group, context.target, layout))
    _emit(context, node, epilogue, kernel, sizes, packed, _flops(node))


def _depthwise(context: Context, node: Node, epilogue: Epilogue) -> None:
    weights = _input(node, 1)
    array = np.asarray(weights.constant, np.float32)
    packed = context.packed(weights, "depthwise", lambda: pack_depthwise(array))
    sizes = _window_sizes(node, _windows(node))
    _emit(context, node, epilogue, depthwise(context.target), sizes, packed, _flops(node))


def _winograd(context: Context, node: Node, epilogue: Epilogue, windows: Sequence[Window]) -> None:
    weights = _input(node, 1)
    array = np.asarray(weights.constant, np.float32)
    height, width = windows[0].output, windows[1].output
    is_fixed = isinstance(height, int) and isinstance(width, int)
    output = preferred_output(height, width, array.shape[0]) if is_fixed else 4
    packed = context.packed(weights, f"winograd{output}", lambda: pack_winograd(array, context.target, output))
    sizes = _window_sizes(node, windows)
    _emit(context, node, epilogue, winograd(context.target, output), sizes, packed, _flops(node))


def _pool(context: Context, node: Node, epilogue: Epilogue) -> None:
    inner, windows = _op(node).inner, _windows(node)
    counts = inner.name == "AveragePool" and inner.count_include_pad
    kind = "max" if inner.name == "MaxPool" else "average_with_pads" if counts else "average"
    sizes = _window_sizes(node, windows)
    work = product(node.output.shape) * product(window.kernel for window in windows)
    _emit(context, node, epilogue, pool(context.target, kind), sizes, None, work)
