"""Convolutions of bytes by integer kernels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.layout import ChannelsLast, to_first, to_last
from intaglio.kernels.plan import Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import Buffer, View, whole
from intaglio.ops.convolution import Conv
from intaglio.targets.c.rules.call import epilogue_code, structured_call
from intaglio.targets.c.rules.convolution import INNER, Layer, is_pointwise, window_sizes
from intaglio.targets.c.rules.integer import (
    IntegerOperands,
    byte_type,
    digest_of,
    has_column_zeros,
    integer_operands,
    is_single,
    packed_ahead,
    zero_view,
)
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.structured.iconv import (
    are_bytes,
    integer_conv,
    integer_depthwise,
    integer_far_depthwise,
    integer_max_pool,
    less_zero,
    pack_integer_conv,
    pack_integer_depthwise,
    pack_integer_taps,
)
from intaglio.targets.c.structured.igemm import integer_gemm
from intaglio.targets.c.structured.integer_tile import integer_tile
from intaglio.targets.c.structured.source import StructuredKernel
from intaglio.targets.c.target_rules import machine


def _refuse(node: Node) -> Refusal | None:
    given = integer_operands(node)
    if not 3 <= given.a.rank <= 5 or not isinstance(given.a.shape[1], int):
        return Refusal(Cause.FORM, f"ConvInteger of {given.a.type} is computed in double precision")
    if given.b.constant is None or (given.b_zero is not None and given.b_zero.constant is None):
        return Refusal(Cause.CONSTANT, "its kernels are not known before the run")
    if not is_single(given.a_zero):
        return Refusal(Cause.FORM, "its input has more than one zero point")
    return None


@anchor("ConvInteger", refuse=_refuse, needs={"vectors"})
def convolve_first(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A layer with its channels first: its input is copied, its output a view of one with the channels last."""
    x = integer_operands(node).a
    data = context.copy(x, context.view(x).transpose(to_last(x.rank)))
    shape = tuple(node.output.shape[axis] for axis in to_last(x.rank))
    result = whole(context.temporary(node.output.dtype, node.output.tensor.size, node.output.name), shape)
    context.views[node.output] = result.transpose(to_first(x.rank))
    store = Epilogue(node.output, stores={node.output: result})
    _convolve(context, _layer(node, node.op, x.shape, shape, data, store))


def convolve_last(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A layer whose input and output have their channels last already."""
    op, x = node.op, integer_operands(node).a
    assert isinstance(op, ChannelsLast)
    if not epilogue.stores:
        epilogue.stores[node.output] = context.allocate(node.output)
    shape = op.first_type(x).dims
    _convolve(context, _layer(node, op.inner, shape, node.output.shape, context.contiguous(x), epilogue))


def pool_last(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The greatest bytes under windows of an input whose channels are last."""
    op, x = node.op, node.input
    assert isinstance(op, ChannelsLast)
    if not epilogue.stores:
        epilogue.stores[node.output] = context.allocate(node.output)
    layer = Layer(node, op.inner, op.first_type(x).dims, node.output.shape, context.contiguous(x), epilogue)
    kernel = integer_max_pool(machine(context), byte_type(x))
    work = product(layer.output) * product(window.kernel for window in layer.windows)
    _call(context, layer, kernel, window_sizes(layer) | {"groups": 1}, [], work)


INNER["ConvInteger"] = convolve_last
INNER["MaxPool"] = pool_last


def _layer(
    node: Node, op: Any, shape: tuple[Dim, ...], output: tuple[Dim, ...], data: View, epilogue: Epilogue
) -> Layer:
    return Layer(node, Conv(**op.convolution()), shape, output, data, epilogue)


@dataclass(frozen=True)
class _Kernels:
    """The weights of a layer and their zero points."""

    value: Value
    array: np.ndarray[Any, Any]
    zero: Any


def _kernels(given: IntegerOperands) -> _Kernels:
    zero = np.zeros(1, np.int32) if given.b_zero is None else as_array(given.b_zero)
    return _Kernels(given.b, as_array(given.b), zero)


def _convolve(context: Context, layer: Layer) -> None:
    """Choose the kernel by the structure."""
    given = integer_operands(layer.node)
    kernels, group = _kernels(given), layer.inner.group
    if group == 1 and all(is_pointwise(window) for window in layer.windows):
        _pointwise(context, layer, given, kernels)
    elif group > 1 and group == layer.shape[1] == kernels.array.shape[0]:
        _depthwise(context, layer, given, kernels)
    else:
        _gathered(context, layer, given, kernels)


MOST_STRIDE, MOST_REACH = 4, 128
"""Depthwise windows that move by more, or reach further, than this along a row are taken tap by tap."""


def _depthwise(context: Context, layer: Layer, given: IntegerOperands, kernels: _Kernels) -> None:
    sizes, target = window_sizes(layer) | {"groups": layer.inner.group}, machine(context)
    form, width = f"integer depthwise {digest_of(kernels.zero)}", sizes["KW"]
    assert isinstance(width, int)
    if sizes["stride_w"] > MOST_STRIDE or (width - 1) * sizes["dilation_w"] > MOST_REACH:
        buffer = context.packed(kernels.value, form, lambda: pack_integer_taps(kernels.array, kernels.zero))
        _emit(context, layer, given, integer_far_depthwise(target, byte_type(given.a)), sizes, buffer)
        return
    taps = less_zero(kernels.array, kernels.zero)
    quads = integer_tile(target, byte_type(given.a)).quads and are_bytes(taps)
    form = f"{form} {width} {target.lanes} {quads}"
    buffer = context.packed(kernels.value, form, lambda: pack_integer_depthwise(taps, width, target.lanes, quads=quads))
    _emit(context, layer, given, integer_depthwise(target, byte_type(given.a), quads=quads), sizes, buffer)


def _pointwise(context: Context, layer: Layer, given: IntegerOperands, kernels: _Kernels) -> None:
    columns = kernels.array.shape[0]
    tile = integer_tile(machine(context), byte_type(given.a), columns)
    matrix = kernels.array.reshape(kernels.array.shape[0], prod(kernels.array.shape[1:])).T
    buffer = packed_ahead(context, kernels.value, matrix, kernels.zero, tile)
    has_zero = has_column_zeros(kernels.value, kernels.zero, tile)
    kernel = integer_gemm(machine(context), tile.left, columns=columns, has_zero=has_zero)
    channels = layer.shape[1]
    sizes: dict[str, Dim] = {
        "M": product(layer.output[:-1]), "N": kernels.array.shape[0], "K": channels, "outer": 1, "inner": 1,
        "a_step": channels, "a_outer": 0, "a_inner": 0, "b_outer": 0, "b_inner": 0, "zero_step": 0,
    }  # fmt: skip
    _emit(context, layer, given, kernel, sizes, buffer)


def _gathered(context: Context, layer: Layer, given: IntegerOperands, kernels: _Kernels) -> None:
    group = layer.inner.group
    columns = kernels.array.shape[0] // group
    tile = integer_tile(machine(context), byte_type(given.a), columns)
    buffer = context.packed(
        kernels.value,
        f"integer conv {group} {tile} {digest_of(kernels.zero)}",
        lambda: pack_integer_conv(kernels.array, kernels.zero, group, tile),
    )
    has_zero = has_column_zeros(kernels.value, kernels.zero, tile)
    kernel = integer_conv(machine(context), tile.left, columns=columns, has_zero=has_zero)
    _emit(context, layer, given, kernel, window_sizes(layer) | {"groups": group}, buffer)


def _emit(
    context: Context,
    layer: Layer,
    given: IntegerOperands,
    kernel: StructuredKernel,
    sizes: dict[str, Dim],
    weights: Buffer,
) -> None:
    """Call a kernel on the layer's input, its packed weights and its zero point."""
    zero = zero_view(context, given.a_zero, given.a)
    _call(context, layer, kernel, sizes, [Operand(weights), Operand(zero.buffer, zero.offset)], layer.flops)


def _call(
    context: Context, layer: Layer, kernel: StructuredKernel, sizes: dict[str, Dim], others: list[Operand], flops: Dim
) -> None:
    nodes = (layer.node, *layer.epilogue.nodes)
    inner = layer.node.op.inner if isinstance(layer.node.op, ChannelsLast) else layer.node.op
    names = " + ".join([inner.name, *(node.op.name for node in nodes[1:])])
    title = f"{names} as {kernel.hint} -> {layer.node.output.name}: {layer.node.output.type}"
    operands = [Operand(layer.data.buffer, layer.data.offset), *others]
    code = epilogue_code(layer.epilogue)
    context.emit(structured_call(kernel, operands, sizes, code, nodes, flops, title))
