"""Quantized layers: what the nodes of quantized networks are in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intaglio.emit.python.words import has_defaults
from intaglio.emit.pythonic.block import Site, UnprintableError
from intaglio.emit.torch.draft import Text, TorchWriter
from intaglio.emit.torch.words import PRINTERS, checked, dtype_text, prints
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, FLOAT64, INT8, INT32, UINT8, DType, from_numpy
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType, Type
from intaglio.ops.contrib.fused import DOMAIN
from intaglio.ops.convolution import Conv
from intaglio.passes.deadcode import remove_dead_code
from intaglio.passes.driver import nothing_stays

_BYTES = (INT8, UINT8)


class FakeQuantize(Op, abstract=True):
    """QuantizeLinear and DequantizeLinear one after the other, with the same scale and zero point."""

    axis: int = 1

    def infer(self, x: Value, scale: Value, zero_point: Value | None = None) -> Type:
        """The type of x."""
        del scale, zero_point
        return x.type


class DynamicLinear(Op, abstract=True):
    """A product with a matrix of integers, of numbers that are quantized as their range needs."""

    def infer(self, x: Value, weight: Value, zero_point: Value, scale: Value, bias: Value | None = None) -> Type:
        """The type of x with another last size."""
        del zero_point, scale, bias
        return TensorType(x.dtype, (*x.shape[:-1], weight.shape[1]))


def find_quantized_layers(graph: Graph) -> None:
    """Replace pairs of nodes that round, and products between numbers that are quantized as they come."""
    for node in graph.nodes:
        for _, body in node.op.subgraphs():
            find_quantized_layers(body)
        if node.op.domain == "" and node.op.name == "DequantizeLinear":
            if node.input.constant is not None:
                _take_out(node)
            else:
                _join_rounding(node)
        elif node.op.domain == "" and node.op.name == "MatMulInteger":
            _join_dynamic(node)
    remove_dead_code(graph, nothing_stays)


def _take_out(node: Node) -> None:
    """Weights that are stored as integers are floats in PyTorch's layers, which train them."""
    values = [value for value in node.inputs if value is not None]
    arrays = [value.constant for value in values if value.constant is not None]
    if len(arrays) < len(values) or node.output.dtype not in (FLOAT32, FLOAT64):
        return
    assert node.graph is not None
    node.output.replace_uses(node.graph.constant(node.op.reference(*arrays), node.input.name))
    node.graph.remove(node)


def _join_rounding(node: Node) -> None:
    before = node.input.producer
    if before is None or before.op.name != "QuantizeLinear" or before.op.domain or before.graph is not node.graph:
        return
    parameters, others = _parameters(node), _parameters(before)
    is_whole = all(user.op.name == "DequantizeLinear" for user in node.input.readers) and not node.input.is_output
    if parameters is None or others is None or before.input.dtype != FLOAT32 or not is_whole:
        return
    if any(not np.array_equal(a, b) for a, b in zip(parameters, others, strict=True)):
        return
    if parameters[0].ndim and node.op.axis != before.op.axis:
        return
    inputs = [value for value in before.inputs if value is not None]
    _replace(node, FakeQuantize(axis=node.op.axis), inputs, node)


def _parameters(node: Node) -> tuple[Array, Array] | None:
    """The scale and the zero point where they are constants of types that the layers take."""
    given, result, scale, zero = node.input, node.output, node.needed(1), node.optional(2)
    small = result.dtype if node.op.name == "QuantizeLinear" else given.dtype
    is_plain = has_defaults(node.op, "axis", "output_dtype") and small in _BYTES
    if not is_plain or scale.constant is None or scale.dtype != FLOAT32 or given.tensor.shape is None:
        return None
    if node.op.name == "DequantizeLinear" and result.dtype != FLOAT32:
        return None
    if zero is not None and zero.constant is None:
        return None
    steps = scale.constant if scale.constant.ndim == 0 or scale.constant.size > 1 else scale.constant.reshape(())
    zeros = np.zeros(steps.shape, small.numpy) if zero is None or zero.constant is None else zero.constant
    return (steps, zeros.reshape(steps.shape)) if zeros.size == steps.size and steps.ndim < 2 else None


def _only_reader(value: Value, name: str) -> Node | None:
    readers = value.readers
    is_alone = len(readers) == 1 and not value.is_output and len(value.uses) == 1
    found = readers[0] if is_alone else None
    return found if found is not None and found.op.domain == "" and found.op.name == name else None


def _join_dynamic(node: Node) -> None:
    """Cast(MatMulInteger(DynamicQuantizeLinear(x), weight)) * (scale * weight_scale) + bias."""
    dynamic, weight, zero = node.needed(0).producer, node.needed(1), node.optional(3)
    if dynamic is None or dynamic.op.name != "DynamicQuantizeLinear" or node.optional(2) is not dynamic.outputs[2]:
        return
    if weight.constant is None or weight.constant.ndim != 2 or dynamic.input.tensor.shape is None:
        return
    cast = _only_reader(node.output, "Cast")
    product = None if cast is None or cast.output.dtype != FLOAT32 else _only_reader(cast.output, "Mul")
    scale = None if product is None or cast is None else _weight_scale(product, cast.output, dynamic.outputs[1])
    columns = weight.constant.shape[1]
    fits = scale is not None and _fits(scale, columns) and (zero is None or _fits(zero, columns))
    if product is None or scale is None or not fits or dynamic.input.rank < 2:
        return
    assert node.graph is not None
    zeros = np.zeros((), weight.constant.dtype) if zero is None or zero.constant is None else zero.constant
    held = node.graph.constant(zeros, f"{weight.name}_zero_point") if zero is None else zero
    end, inputs = product, [dynamic.input, weight, held, scale]
    add = _only_reader(product.output, "Add")
    bias = None if add is None else next((value for value in add.inputs if value is not product.output), None)
    if add is not None and bias is not None and bias.constant is not None and bias.constant.shape == (columns,):
        end, inputs = add, [*inputs, bias]
    made = [each for each in (node, cast, product, end) if each is not None]
    _replace(end, DynamicLinear(), inputs, max(made, key=lambda each: len(each.origin.scopes)))


def _weight_scale(product: Node, result: Value, dynamic_scale: Value) -> Value | None:
    """The scale of the weights in the factor of a product, where the other part of the factor is that of the data."""
    factor = next((value for value in product.inputs if value is not result), None)
    maker = None if factor is None else factor.producer
    if maker is None or maker.op.name != "Mul" or dynamic_scale not in maker.inputs:
        return None
    return next((value for value in maker.inputs if value is not None and value.constant is not None), None)


def _fits(value: Value, columns: int) -> bool:
    constant = value.constant
    return constant is not None and (constant.size == 1 or constant.shape == (columns,)) and constant.ndim < 2


def _replace(node: Node, op: Op, inputs: Sequence[Value], source: Node) -> None:
    assert node.graph is not None
    (result,) = Builder(node.graph, before=node, origin=source.origin).add(op, inputs, 1, [node.output.name])
    node.output.replace_uses(result)
    node.graph.remove(node)


def _hold(site: Site, kind: str, arguments: dict[str, Any], tensors: dict[str, Array], *operands: int) -> str:
    """The call of a layer of the library that the module then holds."""
    if not isinstance(site.writer, TorchWriter):
        raise UnprintableError("no module to hold the layer")
    name = site.writer.draft.add_layer(site.node, kind, arguments, tensors)
    return f"self.{name}({', '.join(site.x(place) for place in operands or (0,))})"


def _dtype(dtype: DType) -> Text:
    return Text(dtype_text(dtype))


@prints("QuantizeLinear", "DequantizeLinear")
def print_rounding(site: Site) -> str:
    """`Quantize`, `Dequantize` or `FakeQuantize`."""
    name = site.op.name
    if name == "FakeQuantize":
        scale, zero = site.value(1), site.node.optional(2)
        assert scale.constant is not None
        steps = scale.constant if scale.constant.size > 1 else scale.constant.reshape(())
        zeros = np.zeros(steps.shape, np.uint8) if zero is None or zero.constant is None else zero.constant
        found = (steps, zeros.reshape(steps.shape))
    else:
        found = _parameters(site.node)
    if found is None or (name == "QuantizeLinear" and site.value(0).dtype != FLOAT32):
        raise UnprintableError("a scale that is no constant, one of blocks, or a wide type")
    scale, zero_point = found
    arguments: dict[str, Any] = {} if scale.ndim == 0 else {"channels": scale.size, "axis": site.op.axis}
    arguments["dtype"] = _dtype(from_numpy(zero_point.dtype))
    return _hold(site, name.removesuffix("Linear"), arguments, {"scale": scale, "zero_point": zero_point})


PRINTERS[FakeQuantize.domain, "FakeQuantize"] = checked(print_rounding)


@prints("DynamicQuantizeLinear")
def _dynamic_quantize(site: Site) -> str:
    return site.call("dynamic_quantize", site.x(0))


def _print_dynamic_linear(site: Site) -> str:
    weight, zero, scale, bias = (site.node.optional(place) for place in (1, 2, 3, 4))
    assert weight is not None
    assert weight.constant is not None
    rows, columns = weight.constant.shape
    tensors = {
        "weight": np.ascontiguousarray(weight.constant.T),
        "weight_scale": _per_channel(scale, columns),
        "weight_zero_point": _per_channel(zero, columns),
    }
    tensors |= {} if bias is None or bias.constant is None else {"bias": bias.constant}
    arguments = {"in_features": rows, "out_features": columns, "bias": bias is not None, "dtype": _dtype(weight.dtype)}
    return _hold(site, "DynamicQuantizedLinear", arguments, tensors)


PRINTERS[DynamicLinear.domain, "DynamicLinear"] = checked(_print_dynamic_linear)


def _per_channel(value: Value | None, count: int) -> Array:
    """One number for each channel."""
    assert value is not None
    assert value.constant is not None
    return np.ascontiguousarray(np.broadcast_to(value.constant.reshape(-1), (count,)))


def _layer(site: Site, operands: Sequence[int], weight: Array) -> tuple[dict[str, Any], dict[str, Array]]:
    """The types and tensors that quantized layers share; raises UnprintableError where one is no constant.

    `operands` are the places of the input's scale and zero point, those of the weights, of the output, and the bias.
    """
    values = [site.node.optional(place) for place in operands]
    scale, zero, weight_scale, weight_zero, output_scale, output_zero, bias = values
    for value in (scale, zero, output_scale, output_zero):
        if value is None or value.constant is None or value.constant.size != 1:
            raise UnprintableError("a scale or a zero point that is no constant, or several of them")
    channels = weight.shape[0]
    for value in (weight_scale, weight_zero):
        if value is None or not _fits(value, channels):
            raise UnprintableError("numbers of the weights that are no constants")
    if bias is not None and (bias.constant is None or bias.dtype != INT32 or bias.constant.shape != (channels,)):
        raise UnprintableError("a bias that is no constant")
    given = [value for value in (scale, zero, output_scale, output_zero) if value is not None]
    if any(value.dtype != FLOAT32 for value in (given[0], given[2])) or any(
        value.dtype not in _BYTES for value in (given[1], given[3])
    ):
        raise UnprintableError("scales of other types than float32")
    numbers = [value.constant.reshape(()) for value in given if value.constant is not None]
    tensors = {
        "weight": np.ascontiguousarray(weight),
        "weight_scale": _per_channel(weight_scale, channels),
        "weight_zero_point": _per_channel(weight_zero, channels),
        **dict(zip(("input_scale", "input_zero_point", "scale", "zero_point"), numbers, strict=True)),
    }
    tensors |= {} if bias is None or bias.constant is None else {"bias": bias.constant}
    types = {
        "bias": bias is not None,
        "dtype": _dtype(from_numpy(weight.dtype)),
        "input_dtype": _dtype(given[1].dtype),
        "output_dtype": _dtype(given[3].dtype),
    }
    return types, tensors


def _weights(site: Site, place: int, rank: int) -> Array:
    value = site.value(place)
    if value.constant is None or value.constant.ndim != rank or value.dtype not in _BYTES:
        raise UnprintableError("weights that are no constants")
    return value.constant


@prints("QLinearConv")
def _conv(site: Site) -> str:
    weight, image = _weights(site, 3, 4), site.value(0)
    if image.tensor.shape is None:
        raise UnprintableError("an image of unknown rank")
    windows = Conv(**site.op.convolution()).windows(image.shape[2:], weight.shape[2:])
    begins, ends = [w.begin for w in windows], [w.end for w in windows]
    if begins != ends or any(not isinstance(pad, int) for pad in begins) or 0 in (site.node.output.tensor.shape or ()):
        raise UnprintableError("a margin that is not the same on both sides")
    types, tensors = _layer(site, (1, 2, 4, 5, 6, 7, 8), weight)
    if tensors["weight_scale"].dtype != np.float32:
        raise UnprintableError("scales of other types than float32")
    arguments = {
        "in_channels": weight.shape[1] * site.op.group,
        "out_channels": weight.shape[0],
        "kernel_size": _plain(weight.shape[2:]),
        "stride": _plain([w.stride for w in windows]),
        "padding": _plain(begins),
        "dilation": _plain([w.dilation for w in windows]),
        "groups": site.op.group,
        **types,
    }
    return _hold(site, "QuantizedConv2d", arguments, tensors)


def _plain(numbers: Sequence[Any]) -> Any:
    return numbers[0] if len(set(numbers)) == 1 else tuple(numbers)


@prints("QLinearMatMul")
def _matmul(site: Site) -> str:
    weight = _weights(site, 3, 2)
    if site.rank() < 2:
        raise UnprintableError("a product with a vector")
    types, tensors = _layer(site, (1, 2, 4, 5, 6, 7, 8), weight.T)
    return _linear(site, types, tensors)


@prints("QGemm", domain=DOMAIN)
def _gemm(site: Site) -> str:
    weight = _weights(site, 3, 2)
    if site.op.alpha != 1 or site.op.transA or not site.has(7):
        raise UnprintableError("a factor, a transposed operand, or a result of floats")
    types, tensors = _layer(site, (1, 2, 4, 5, 7, 8, 6), weight if site.op.transB else weight.T)
    return _linear(site, types, tensors)


def _linear(site: Site, types: dict[str, Any], tensors: dict[str, Array]) -> str:
    rows, columns = tensors["weight"].shape
    return _hold(site, "QuantizedLinear", {"in_features": columns, "out_features": rows, **types}, tensors)


@prints("QLinearAdd", domain=DOMAIN)
def _add(site: Site) -> str:
    names = ("left_scale", "left_zero_point", "right_scale", "right_zero_point", "scale", "zero_point")
    tensors: dict[str, Array] = {}
    kind = site.value(0).dtype
    for name, place in zip(names, (1, 2, 4, 5, 6, 7), strict=True):
        value = site.node.optional(place)
        wanted = FLOAT32 if name.endswith("scale") else kind
        if value is None or value.constant is None or value.constant.size != 1 or value.dtype != wanted:
            raise UnprintableError("a scale or a zero point that is no constant")
        tensors[name] = value.constant.reshape(())
    if kind not in _BYTES:
        raise UnprintableError("sums of other than bytes")
    return _hold(site, "QuantizedAdd", {"dtype": _dtype(kind)}, tensors, 0, 3)
