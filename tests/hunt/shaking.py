"""How far rounding may carry the results of a model: the reference, run again with every rounding moved.

Kernels may sum in another order, fuse a product into a sum, use other approximations of functions, take denormals as
zero and give either zero (docs/semantics.md). The shaken reference does all this at random: each node's result moves by
up to a unit in the last place of its type, and so do the operands of nodes that sum. What comes out differs from the
plain result by as much as the model makes of rounding, element by element; a difference many times as large is a fault.
Nodes that only move or choose elements are not shaken, so models of nothing else must agree in every bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from intaglio.ir.graph import Graph, Node, Value
from intaglio.ops.evaluate import run_node


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOVES = _names(
    "Identity Reshape Transpose Flatten Squeeze Unsqueeze Concat Split Slice Pad Gather GatherElements GatherND "
    "Expand Tile Shape Size DepthToSpace SpaceToDepth ReverseSequence Trilu CenterCropPad TensorScatter Compress "
    "Unique TopK OneHot Constant ConstantOfShape EyeLike NonZero Where Equal Less LessOrEqual Greater "
    "GreaterOrEqual And Or Xor Not IsNaN IsInf BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitShift ArgMax ArgMin "
    "Hardmax MaxUnpool BitCast Scatter If Loop Scan SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
    "SequenceInsert SequenceLength SequenceMap SplitToSequence ConcatFromSequence Optional OptionalGetElement "
    "OptionalHasElement NonMaxSuppression"
)
"""Operators whose results are elements of their operands, or no floats. Bodies of control flow are shaken inside."""
CHOICES = _names("Relu Abs Neg Max Min Clip MaxPool GlobalMaxPool ReduceMax ReduceMin Sign Ceil Floor Round")
"""Operators that compute exactly, but may give either zero and take denormals as zero."""
POINTS = _names(
    "Add Sub Mul Div Sqrt Exp Log Reciprocal Erf Sigmoid Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh "
    "Atanh Softplus Softsign Mish HardSwish HardSigmoid LeakyRelu ThresholdedRelu Shrink Swish PRelu Pow Mod "
    "Cast CastLike DequantizeLinear"
)
"""Elementwise operators: their results are rounded, their operands are not touched."""
CANCELLING = {
    **dict.fromkeys(("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "HardSwish"), "operand"),
    **dict.fromkeys(("Elu", "Celu", "Selu", "HardSigmoid"), "one"),
}
"""Functions of the form x * (1 + f(x)) or f(x) + 1: what is rounded in them is as large as the operand, or as 1."""
LOOSE = _names("Sigmoid Sin Cos RNN GRU LSTM")
"""Functions that ONNX Runtime computes to one rounding of 1, and not of the result, where that is near 0."""
FIXED = {"Resize": (1, 2, 3), "Upsample": (1,), "Range": (0, 1, 2), "MelWeightMatrix": (3, 4), "Dropout": (1,)}
"""Operands that tell sizes or places and are not rounded by anybody."""
WHOLE = 1024.0
"""Exponents beyond this are often whole numbers by rounding alone."""
CENTRED = {"GridSample": 1}
"""Operands that are places from -1 to 1. They are rounded after 1 was added to them."""
BYTES = frozenset(map(np.dtype, (np.int8, np.uint8)))


def shaken(
    graph: Graph,
    inputs: Sequence[Any],
    random: np.random.Generator,
    is_loose: bool = False,
    outer: Mapping[Value, Any] | None = None,
) -> list[Any]:
    """The outputs of the reference with all roundings moved; loosely: as far as those of ONNX Runtime may be off."""
    known: dict[Value, Any] = dict(outer or {})
    known.update(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        results = _shaken_node(node, known, random, is_loose)
        if is_loose and node.op.name in LOOSE:
            results = [_around(item, np.ones_like(item), random) if is_float(item) else item for item in results]
        known.update(zip(node.outputs, results, strict=False))
    return [_read(value, known) for value in graph.outputs]


def _read(value: Any, known: Mapping[Value, Any]) -> Any:
    return value.constant if value.constant is not None else known[value]


def _shaken_node(node: Node, known: dict[Value, Any], random: np.random.Generator, is_loose: bool) -> list[Any]:
    name = node.op.name
    if node.op.has("interpret"):
        return list(run_node(node, known, None, lambda graph, inputs: shaken(graph, inputs, random, is_loose, known)))
    if name in MOVES:
        return list(run_node(node, known))
    if name in CHOICES:
        return [_settled(item, random) for item in run_node(node, known)]
    if name in CANCELLING:
        operand = _read(node.inputs[0], known)
        size = operand if CANCELLING[name] == "operand" else np.ones_like(operand)
        return [_around(run_node(node, known)[0], size, random)]
    if name in POINTS:
        results = [rounded(item, random) for item in run_node(node, known)]
        return [_signed_powers(node, known, results[0], random)] if name == "Pow" else results
    arrays: list[Any] = [None if value is None else _read(value, known) for value in node.inputs]
    kept = FIXED.get(name, ())
    moved = [array if i in kept else rounded(array, random) for i, array in enumerate(arrays)]
    if name in CENTRED:
        place = CENTRED[name]
        moved[place] = _around(arrays[place], 1 + np.abs(arrays[place]), random)
    if is_winograd(node, arrays):
        moved[0] = _blurred(moved[0], random, 10)
    if getattr(node.op, "mode", "") == "cubic":
        moved[0] = _blurred(moved[0], random, 4)
    with np.errstate(all="ignore"):
        found = node.op.reference(*moved)
    results = found if isinstance(found, tuple) else (found,)
    if _is_resized_integer(node, arrays) and results[0].size:
        return [_resized(node, arrays, results[0])]
    is_quantising = "Quantize" in name or "QLinear" in name or name.startswith("Q")
    return [_stepped(item, random) if is_quantising else rounded(item, random) for item in results]


def _signed_powers(node: Node, known: dict[Value, Any], result: Any, random: np.random.Generator) -> Any:
    """Powers of which those are open that hang on whether a large exponent is a whole number after its roundings."""
    base, exponent = (_read(value, known) for value in node.inputs[:2])
    if not is_float(result) or not is_float(exponent) or node.needed(1).constant is not None:
        return result
    is_open = (base < 0) & np.isfinite(exponent) & (np.abs(exponent) > WHOLE)
    whole = np.power(base, np.rint(exponent))
    either = np.where(random.random(result.shape) < 0.5, np.nan, whole)
    return np.where(is_open, either, result).astype(result.dtype)


def _is_resized_integer(node: Node, arrays: Sequence[Any]) -> bool:
    return node.op.name == "Resize" and arrays[0].dtype.kind in "iu" and node.op.mode != "nearest"


def _resized(node: Node, arrays: Sequence[Any], result: Any) -> Any:
    """Interpolated integers, of which those are a step off whose number before rounding is near the next one.

    Places are single numbers, and so off by some roundings of the size of an axis; the result is off by that much of
    the largest difference in the image.
    """
    image = arrays[0].astype(np.float64)
    whole = node.op.reference(image, *arrays[1:])
    reach = 8 * float(np.finfo(np.float32).eps) * max(*image.shape, *whole.shape) * max(float(np.ptp(image)), 1.0)
    low, high = (
        np.rint(number) if node.op.antialias else np.trunc(number) for number in (whole - reach, whole + reach)
    )
    other = np.where(low == result, high, low)
    limits = np.iinfo(result.dtype)
    return np.clip(other, limits.min, limits.max).astype(result.dtype)


def is_winograd(node: Node, arrays: Sequence[Any]) -> bool:
    """Whether Winograd's algorithm may compute a node, whose sums mix all elements of a tile."""
    return node.op.name in ("Conv", "FusedConv") and arrays[1].shape[2:] == (3, 3)


def _blurred(array: Any, random: np.random.Generator, roundings: int) -> Any:
    """An array with each element moved as far as so many roundings of its largest neighbour in the image.

    Winograd's sums mix all elements of a tile. The weights of cubic interpolation are polynomials whose terms are as
    large as 4: in the type of the image they are off by roundings of that, also where the weight itself is near 0.
    """
    if not is_float(array) or not array.size:
        return array
    wide = array.astype(np.float64)
    axes = tuple(range(2, array.ndim))
    largest = np.max(np.abs(np.where(np.isfinite(wide), wide, 0)), axis=axes, keepdims=True)
    step = roundings * float(ml_dtypes.finfo(array.dtype).eps)
    return (wide + largest * random.uniform(-step, step, array.shape)).astype(array.dtype)


def _around(result: Any, size: Any, random: np.random.Generator) -> Any:
    """A result that is as far off as a unit in the last place of something of that size."""
    wide = result.astype(np.longdouble if result.dtype == np.float64 else np.float64)
    step = float(ml_dtypes.finfo(result.dtype).eps)
    size = np.where(np.isfinite(size), size, 0)
    moved = wide + size.astype(wide.dtype) * random.uniform(-step, step, result.shape).astype(wide.dtype)
    return rounded(moved.astype(result.dtype), random)


def is_float(array: Any) -> bool:
    """Whether an array holds floats that are computed in."""
    return isinstance(array, np.ndarray) and (array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16)


def least_normal(dtype: Any) -> float:
    """The least positive number of a type that is no denormal."""
    return float(ml_dtypes.finfo(dtype).tiny)


def rounded(array: Any, random: np.random.Generator) -> Any:
    """An array with each element moved by up to a unit in its last place."""
    if isinstance(array, list):
        return [rounded(item, random) for item in array]
    if isinstance(array, np.generic):
        array = np.asarray(array)
    if isinstance(array, np.ndarray) and array.dtype.kind == "c":
        return rounded(array.real.copy(), random) + 1j * rounded(array.imag.copy(), random)
    if not is_float(array):
        return array
    wide = array.astype(np.longdouble if array.dtype == np.float64 else np.float64)
    step = float(ml_dtypes.finfo(array.dtype).eps)
    with np.errstate(all="ignore"):
        moved = wide + wide * random.uniform(-step, step, array.shape).astype(wide.dtype)
        return _settled(moved.astype(array.dtype), random)


def _settled(array: Any, random: np.random.Generator) -> Any:
    """An array in which zeros have any sign and denormals may be zero."""
    if not is_float(array) or not array.size:
        return array
    is_small = np.abs(array.astype(np.float64)) < 2 * least_normal(array.dtype)
    if not is_small.any():
        return array
    factors = random.choice((-1.0, 0.0, 1.0), array.shape)
    is_zero = array == 0
    signed = np.where(is_zero, np.copysign(0.0, random.choice((-1.0, 1.0), array.shape)), 0.0)
    with np.errstate(all="ignore"):
        kept = np.where(is_small & (factors == 0), 0.0, array.astype(np.float64))
    return np.asarray(np.where(is_zero, signed, kept)).astype(array.dtype)


def _stepped(array: Any, random: np.random.Generator) -> Any:
    """A quantised array in which some elements are one step off: where products are summed on integers they may be."""
    if not isinstance(array, np.ndarray) or array.dtype not in BYTES or array.ndim == 0:
        return rounded(array, random)
    steps = random.choice((-1, 0, 0, 0, 0, 0, 0, 1), array.shape)
    limits = np.iinfo(array.dtype)
    return np.clip(array.astype(np.int64) + steps, limits.min, limits.max).astype(array.dtype)
