"""Products and movements of dequantized numbers moved to the integers behind them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT8, INT32, UINT8
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array
from intaglio.ops.cast import integer_limits
from intaglio.passes.driver import Refusal, Result, rule
from intaglio.passes.match import pair, produced, rank_of

SUM_LIMIT = 2**31 - 1
"""The greatest sum that int32 holds."""

PRODUCT_LIMIT = 255 * 255
"""The greatest product of two bytes less their zero points."""


class Quantized(NamedTuple):
    """What a DequantizeLinear reads: integers with constant scales and zero points."""

    x: Value
    scale: Array
    zero_point: Value | None
    axis: int

    @property
    def is_uniform(self) -> bool:
        """Whether one scale serves the whole tensor."""
        return self.scale.size == 1

    @property
    def is_bytes(self) -> bool:
        """Whether the integers are of eight bits."""
        return self.x.dtype in (INT8, UINT8)

    @property
    def has_zero_point(self) -> bool:
        """Whether the zero point is not zero."""
        return self.zero_point is not None and bool(np.any(self.zero_point.constant))


def _dequantized(value: Value | None) -> Quantized | None:
    """The integers of which a value is the float32 form, with parameters that are known and not per block."""
    node = produced(value, "DequantizeLinear")
    if node is None or node.output.dtype != FLOAT32:
        return None
    x, scale, zero = node.input, node.optional(1), node.optional(2)
    op: Any = node.op
    if scale is None or scale.constant is None or scale.dtype != FLOAT32 or op.block_size or rank_of(x) is None:
        return None
    if not _is_normal(scale.constant) or (zero is not None and zero.constant is None):
        return None
    return Quantized(x, scale.constant, zero, op.axis % max(1, x.rank))


def _is_normal(scale: Array) -> bool:
    """Whether scales are such that no number of few bits times one of them loses a bit."""
    return bool(np.all(np.isfinite(scale)) and np.all(scale > 1e-30) and np.all(scale < 1e30))


def _operands(node: Node, axis: int) -> tuple[Quantized, Quantized] | None:
    """Both operands of a product: data with one scale, and constant weights with one or with one along `axis`."""
    x, w = (_dequantized(value) for value in node.inputs[:2])
    if x is None or w is None or not (x.is_bytes and w.is_bytes and x.is_uniform):
        return None
    return (x, w) if w.is_uniform or w.axis == axis % max(1, w.x.rank) else None


@rule("Conv", changes_rounding=True)
def integer_convolution(b: Builder, node: Node) -> Result:
    """conv(dequantize(x, s, z), dequantize(w, t, v), c) -> (conv_integer(x, w, z, v) + c / (s * t)) * (s * t)

    A bias with the scale of the product is added to the integers, another one behind.
    """
    found = _operands(node, 0)
    if found is None:
        return None
    x, w = found
    if w.x.constant is None or rank_of(x.x) is None:
        return Refusal("the weights are not constants")
    op: Any = node.op
    spatial = (1,) * (w.x.rank - 2)
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    total = b.ConvInteger(x.x, w.x, _scalar(b, x), _vector(b, w), **{name: getattr(op, name) for name in names})
    return _scaled(b, total, found, int(np.prod(w.x.constant.shape[1:])), node.optional(2), (-1, *spatial))


@rule("MatMul", changes_rounding=True)
def integer_product(b: Builder, node: Node) -> Result:
    """dequantize(x, s, z) @ dequantize(w, t, v) -> matmul_integer(x, w, z, v) * (s * t)"""
    found = _operands(node, -1)
    if found is None:
        return None
    x, w = found
    depth = x.x.shape[-1]
    if not isinstance(depth, int) or not (w.is_uniform or w.x.rank == 2):
        return Refusal("the depth of the product is not known")
    return _scaled(b, b.MatMulInteger(x.x, w.x, _scalar(b, x), _vector(b, w)), found, depth, None, (-1,))


@rule("Gemm", changes_rounding=True)
def integer_gemm(b: Builder, node: Node) -> Result:
    """gemm(dequantize(x, s, z), dequantize(w, t, v), c) -> (matmul_integer(x, w, z, v) + c / (s * t)) * (s * t)"""
    op: Any = node.op
    found = _operands(node, 0 if op.transB else 1)
    if found is None:
        return None
    x, w = found
    if op.alpha != 1 or op.beta != 1 or op.transA or not isinstance(w.x.shape[op.transB], int):
        return Refusal("the product is scaled or transposed")
    right = b.Transpose(w.x, perm=(1, 0)) if op.transB else w.x
    depth = x.x.shape[-1]
    if not isinstance(depth, int):
        return Refusal("the depth of the product is not known")
    return _scaled(b, b.MatMulInteger(x.x, right, _scalar(b, x), _vector(b, w)), found, depth, node.optional(2), (-1,))


def _scalar(b: Builder, given: Quantized) -> Value | None:
    """The zero point of a whole tensor as a scalar; None for zero."""
    zero = _known_zero(given)
    return None if zero is None else b.constant(zero.reshape(()))


def _vector(b: Builder, given: Quantized) -> Value | None:
    """The zero point of a whole tensor, or one for each channel."""
    zero = _known_zero(given)
    return None if zero is None else b.constant(zero.reshape(() if zero.size == 1 else -1))


def _known_zero(given: Quantized) -> Array | None:
    return given.zero_point.constant if given.zero_point is not None and given.has_zero_point else None


def _scaled(
    b: Builder, total: Value, operands: tuple[Quantized, Quantized], depth: int, bias: Value | None, shape: Any
) -> Result:
    """The integers times both scales, and the bias: as integers where it has that scale, else behind."""
    x, w = operands
    factor = (x.scale.reshape(()) * w.scale.reshape(-1)).astype(np.float32)
    integers = None if bias is None else _integer_bias(bias, factor)
    most = depth * PRODUCT_LIMIT + (0 if integers is None else int(np.abs(integers.astype(np.int64)).max(initial=0)))
    if most > SUM_LIMIT:
        return Refusal(f"a sum of {depth} products may not fit int32")
    if integers is not None:
        total = b.Add(total, b.constant(integers.reshape(shape)))
    scales = factor.reshape(()) if factor.size == 1 else factor.reshape(shape)
    result = b.Mul(b.Cast(total, to=FLOAT32.number), b.constant(scales))
    if bias is None or integers is not None:
        return result
    return b.Add(result, b.Reshape(bias, list(shape)) if bias.rank == 1 else bias)


def _integer_bias(bias: Value, factor: Array) -> Array | None:
    """The integers of a dequantized bias whose scale is that of the product, to rounding."""
    found = _dequantized(bias)
    if found is None or found.x.dtype != INT32 or found.x.constant is None or found.has_zero_point or bias.rank != 1:
        return None
    is_same = np.allclose(found.scale.reshape(-1), factor, rtol=2**-22, atol=0)
    return found.x.constant if is_same else None


@rule("QuantizeLinear", changes_rounding=True)
def scale_into_factor(b: Builder, node: Node) -> Result:
    """quantize(cast(n) * c + d, s, z) -> quantize(cast(n) * (c / s) + d / s, 1, z), for integers n"""
    scale, zero = _parameters(node)
    if scale is None or scale == 1 or zero is None:
        return None
    product, addend = produced(node.input, "Mul"), None
    add = produced(node.input, "Add")
    if add is not None:
        left, right = pair(add)
        product, addend = produced(left, "Mul"), right.constant
        if addend is None:
            return None
    if product is None:
        return None
    number, factor = pair(product)
    cast = produced(number, "Cast")
    if cast is None or cast.input.dtype != INT32 or factor.constant is None or factor.dtype != FLOAT32:
        return None
    result = b.Mul(number, b.constant((factor.constant / scale).astype(np.float32)))
    if addend is not None:
        result = b.Add(result, b.constant((addend / scale).astype(np.float32)))
    return b.add(node.op, [result, b.constant(np.float32(1)), zero])[0]


@rule("QuantizeLinear", changes_rounding=True)
def scale_into_sum(b: Builder, node: Node) -> Result:
    """quantize(dequantize(x, r, u) + dequantize(y, t, v), s, z)
    -> quantize(dequantize(x, r / s, u) + dequantize(y, t / s, v), 1, z)
    """
    scale, zero = _parameters(node)
    add = produced(node.input, "Add")
    if scale is None or scale == 1 or zero is None or add is None or len(node.input.uses) > 1:
        return None
    found = [_dequantized(value) for value in pair(add)]
    if not all(item is not None and item.is_bytes and item.is_uniform for item in found):
        return None
    parts = [
        b.DequantizeLinear(item.x, b.constant((item.scale.reshape(()) / scale).astype(np.float32)), item.zero_point)
        for item in found
        if item is not None
    ]
    return b.add(node.op, [b.Add(*parts), b.constant(np.float32(1)), zero])[0]


def _parameters(node: Node) -> tuple[Array | None, Value | None]:
    """The scale and the zero point of a QuantizeLinear to bytes where both are known and serve the whole tensor."""
    scale, zero = node.optional(1), node.optional(2)
    if scale is None or scale.constant is None or scale.dtype != FLOAT32 or scale.constant.size != 1:
        return None, None
    if zero is None or zero.constant is None or zero.constant.size != 1 or zero.dtype not in (INT8, UINT8):
        return None, None
    return (scale.constant.reshape(()), zero) if _is_normal(scale.constant) else (None, None)


@rule("QuantizeLinear", fuses=True)
def rectified(b: Builder, node: Node) -> Result:
    """quantize(relu(x), s, z) -> max(quantize(x, s, z), z)"""
    scale, zero = _parameters(node)
    relu = produced(node.input, "Relu")
    if relu is None or scale is None or zero is None:
        return None
    (result,) = b.add(node.op, [relu.input, *node.inputs[1:]])
    if int(np.asarray(zero.constant).reshape(())) == integer_limits(zero.dtype)[0]:
        return result
    return b.Max(result, b.constant(np.asarray(zero.constant).reshape(())))


@rule("QuantizeLinear")
def moved(b: Builder, node: Node) -> Result:
    """quantize(move(dequantize(x, s, z)), s, z) -> move(x), where elements are only chosen and put in order"""
    scale, zero = _parameters(node)
    mover = node.input.producer
    if scale is None or zero is None or mover is None or mover.output is not node.input or len(node.input.uses) > 1:
        return None
    if any(value.uses for value in mover.outputs[1:]):
        return None
    count = mover.op.chooses_from
    found = [_dequantized(value) for value in mover.inputs[:count]]
    if not found or not all(item is not None and _matches(item, scale, zero) for item in found):
        return None
    data = [item.x for item in found if item is not None]
    return b.add(mover.op, [*data, *mover.inputs[count:]])[0]


def _matches(given: Quantized, scale: Array, zero: Value) -> bool:
    own = 0 if given.zero_point is None else given.zero_point.constant
    is_same = given.is_uniform and bool(given.scale.reshape(()) == scale)
    return is_same and given.x.dtype == zero.dtype and bool(np.all(np.asarray(own) == zero.constant))


@rule("QuantizeLinear")
def quantized_again(b: Builder, node: Node) -> Result:
    """quantize(dequantize(x, s, z), s, z) -> x"""
    del b
    scale, zero = _parameters(node)
    found = _dequantized(node.input)
    if scale is None or zero is None or found is None or not _matches(found, scale, zero):
        return None
    return found.x
