"""Makers of cases for what small sizes and tame numbers do not reach: several blocks, whole vectors, other algorithms.

The kernels take other ways for long rows, for lengths with large prime factors, for groups that fill a vector, and for
numbers that are huge or not finite. See `tests.hunt.covered_c`, which tells what sampled cases run through.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.kernels.test_trees import FEATURES, MODES, NUMBERS, ensemble
from tests.ops.agreement_cases import Case, int64

from .dice import BROAD, EDGES, Dice
from .more_operators import own, window

PRIMES = (61, 67, 97, 122, 127, 134)
"""Lengths of Fourier transforms with a prime factor that is too large for a transform by factors."""


@own("ArgMax@long", "ArgMin@long")
def _arg_long(c: Dice, operator: str) -> Case:
    """Rows of several vectors, and columns side by side that fill several."""
    dtype = c.of(("float32", "float32", "float64", "float16", "int8", "uint8", "int32", "int64"))
    shape = [c.size((2, 3, 5, 9)) for _ in range(c.integer(0, 2))]
    shape.insert(c.integer(0, len(shape)), c.size((63, 64, 65, 127, 128, 130, 257, 700)))
    data = np.round(c.array(dtype, shape, dtype.startswith("f") and c.chance(0.3), -9, 9))
    flags = {"keepdims": c.flag(), "select_last_index": c.flag()}
    return Case(operator, [data], {"axis": c.axis(len(shape)), **flags})


@own("ReduceProd@long")
def _product_long(c: Dice, operator: str) -> Case:
    """Products along rows and columns of several vectors."""
    dtype = c.of(("float32", "float32", "float64", "float16", "int32", "int64"))
    shape = [c.size((2, 3, 5, 9)) for _ in range(c.integer(0, 2))]
    shape.insert(c.integer(0, len(shape)), c.size((15, 16, 33, 64, 65, 130, 257)))
    data = c.array(dtype, shape, c.chance(0.2), *((-3, 3) if dtype.startswith("int") else (0.8, 1.25)))
    axes = c.axes(len(shape))
    return Case(operator, [data, int64(axes) if axes else None], {"keepdims": c.flag()})


@own("CumProd@long", "CumProd@columns", since=26)
def _running_product(c: Dice, operator: str) -> Case:
    """Running products along rows, and along columns that fill vectors."""
    dtype = c.of(("float32", "float32", "float64", "float16", "int32", "int64"))
    shape = [c.size((2, 3, 5)), c.size((16, 17, 33, 64, 70))]
    axis = 1 if operator.endswith("long") else 0
    if c.chance(0.3):
        shape, axis = [c.size((2, 3)), *shape], axis + 1
    data = c.array(dtype, shape, False, *((-3, 3) if dtype.startswith("int") else (0.8, 1.25)))
    place = np.array(axis - len(shape) if c.flag() else axis, c.of((np.int64, np.int32)))
    return Case(operator, [data, place], {"exclusive": c.flag(), "reverse": c.flag()})


@own("DFT@prime")
def _dft_prime(c: Dice, operator: str) -> Case:
    """Bluestein's method: the length is that of the axis, or one that is given."""
    length, is_given, is_inverse = c.of(PRIMES), c.chance(0.5), c.chance(0.3)
    extent = c.of((5, 40, length, length + 9)) if is_given else length
    behind = [c.of((1, 2, 3))] if c.chance(0.3) else []
    parts = 2 if is_inverse else c.of((1, 1, 2))
    data = c.array(c.of(("float32", "float32", "float64")), (c.of((1, 2, 5)), extent, *behind, parts), False)
    flags = {"inverse": int(is_inverse), "onesided": c.flag() if parts == 1 else 0}
    return Case(operator, [data, np.array(length, np.int64) if is_given else None, np.array(1, np.int64)], flags)


@own("STFT@prime")
def _stft_prime(c: Dice, operator: str) -> Case:
    dtype, frame, is_complex = c.of(("float32", "float32", "float64")), c.of(PRIMES), c.chance(0.3)
    data = c.array(dtype, (c.of((1, 2)), c.of((140, 200)), 2 if is_complex else 1), False)
    taken = c.array(dtype, (frame,), False, 0, 1) if c.flag() else None
    return Case(operator, [data, np.array(c.of((17, 40)), np.int64), taken, np.array(frame, np.int64)],
                {"onesided": 0 if is_complex else c.flag()})  # fmt: skip


@own("Conv@extreme", "Conv@extreme_large")
def _conv_extreme(c: Dice, operator: str) -> Case:
    """Winograd's convolution of images in which a few numbers are huge or not finite, with some taps of zero."""
    channels, width = c.of((16, 17, 24, 33)), c.of((16, 17, 24, 32, 40))
    sides = (15, 16, 17) if operator.endswith("large") else (3, 4, 5, 7, 9)  # four results a tile, or two
    shape = (c.of((1, 1, 2)), channels, c.size(sides), c.size(sides))
    data = c.extreme(c.array("float32", shape, False))
    weights = c.array("float32", (width, channels, 3, 3), False, -1, 1)
    if c.chance(0.5):
        weights[c.random.random(weights.shape) < 0.3] = 0
    if c.chance(0.2):
        weights *= np.float32(1e21)
    bias = c.array("float32", (width,), False) if c.flag() else None
    return Case(operator, [data, weights, bias], {"pads": [c.of((0, 1, 1))] * 4})


@own("Conv@apart")
def _conv_apart(c: Dice, operator: str) -> Case:
    """Deep taps that lie apart, for rows of pixels that take one tile or two."""
    spatial, group, inputs = c.of((1, 2, 2)), c.of((1, 1, 2)), c.of((32, 33))
    kernel, step = [c.of((1, 2, 3)) for _ in range(spatial - 1)] + [c.of((2, 3))], c.of((2, 3))
    width, dtype = group * c.of((8, 16, 17, 33)), c.of(("float32", "float32", "float64", "float16"))
    sides = [c.size((7, 9)) for _ in kernel[1:]] + [c.size((9, 11, 12, 13, 19, 23, 27))]
    data = c.array(dtype, (c.of((1, 2)), group * inputs, *sides), False)
    weights = c.array(dtype, (width, inputs, *kernel), False, -0.2, 0.2)
    moves: dict[str, Any] = {"dilations": [step] * spatial, "pads": [c.of((0, step))] * 2 * spatial}
    if c.chance(0.3):
        moves["strides"] = [c.of((1, 2)) for _ in kernel]
    bias = c.array(dtype, (width,), False) if c.flag() else None
    return Case(operator, [data, weights, bias], {"group": group, "kernel_shape": kernel, **moves})


@own("Conv@grouped")
def _conv_grouped(c: Dice, operator: str) -> Case:
    """Small groups, of which several fill a vector, or nearly."""
    inputs, outputs = c.of(((2, 2), (4, 4), (1, 4), (2, 8), (8, 8), (1, 2), (3, 2), (4, 2), (2, 3)))
    group, spatial = c.of((2, 4, 5, 8, 16)), c.of((1, 2, 2, 3))
    kernel = [c.of((1, 2, 3)) for _ in range(spatial)]
    sides = [c.size((5, 6, 7, 9, 13)) for _ in kernel]
    data = c.array("float32", (c.of((1, 2)), group * inputs, *sides), False)
    weights = c.array("float32", (group * outputs, inputs, *kernel), False, -1, 1)
    bias = c.array("float32", (group * outputs,), False) if c.flag() else None
    return Case(operator, [data, weights, bias], {"group": group, **window(c, kernel, 2)})


@own("ConvTranspose@broad")
def _transpose_broad(c: Dice, operator: str) -> Case:
    """Whole vectors of results, of all channels, of a group or of each by itself."""
    spatial, way = c.of((1, 2, 2)), c.of(("one", "one", "two", "all"))
    kernel = [c.of((1, 2, 3, 4)) for _ in range(spatial)]
    group = {"one": 1, "two": 2, "all": c.of(BROAD)}[way]
    inputs, width = (1, 1) if way == "all" else (c.of((3, 8, 16)), c.of((8, 16, 17, 32, 33)))
    moves: dict[str, Any] = {"kernel_shape": kernel, "strides": [c.of((1, 1, 2, 3)) for _ in kernel]}
    if c.chance(0.4):
        moves["pads"] = [c.integer(0, k - 1) for k in kernel] * 2
    data = c.array("float32", (c.of((1, 2)), group * inputs, *(c.size((3, 5, 8, 13)) for _ in kernel)), False)
    weights = c.array("float32", (group * inputs, width, *kernel), False, -1, 1)
    bias = c.array("float32", (width * group,), False) if c.flag() else None
    return Case(operator, [data, weights, bias], {"group": group, **moves})


@own("ConvInteger@broad", "QLinearConv@broad", "QLinearConv@broad_depthwise")
def _integer_broad(c: Dice, operator: str) -> Case:
    """Bytes with whole vectors of channels, each by itself or in groups, with steps and windows of all kinds."""
    is_quantised, is_depthwise = operator.startswith("Q"), operator.endswith("depthwise") or c.chance(0.4)
    x_type = c.of(("uint8", "uint8", "int8")) if is_quantised else "uint8"
    w_type = "int8" if x_type == "int8" else c.of(("uint8", "int8"))
    spatial, group = c.of((1, 2, 2)), c.of(BROAD) if is_depthwise else c.of((1, 2))
    inputs, width = (1, group) if is_depthwise else (c.of((1, 3, 5, 8, 16)), group * c.of((8, 16, 17, 33)))
    kernel = [c.of((1, 2, 3, 5)) for _ in range(spatial)]
    limits = {"uint8": (0, 255), "int8": (-128, 127)}
    sides = [c.size((5, 7, 9, 12, 17)) for _ in kernel]
    data = c.array(x_type, (c.of((1, 2)), group * inputs, *sides), False, *limits[x_type])
    weights = c.array(w_type, (width, inputs, *kernel), False, *limits[w_type])
    moves = {"group": group, **window(c, kernel, 2)}
    zero = c.array(x_type, (), False, *limits[x_type])
    if is_quantised:
        return Case(operator, _quantised_inputs(c, data, weights, zero), moves)
    w_zero = c.array(w_type, (), False, 0, 20) if c.flag() else None
    return Case(operator, [data, weights, zero if c.flag() else None, w_zero], moves)


def _quantised_inputs(c: Dice, data: Any, weights: Any, zero: Any) -> list[Any]:
    """The inputs of QLinearConv, with scales of channels or one."""
    width, is_split = weights.shape[0], weights.dtype == np.int8 and c.chance(0.5)
    scales = c.array("float32", (width,) if is_split else (), False, 0.002, 0.05)
    w_zero = np.zeros(scales.shape, weights.dtype) if weights.dtype == np.int8 else c.array("uint8", (), False, 90, 160)
    terms = int(np.prod(weights.shape[1:]))
    result_scale = np.asarray(np.float32(0.02 * 0.03 * 50 * np.sqrt(terms) * c.of((0.5, 1, 3))))
    bias = c.random.integers(-2000, 2000, width).astype(np.int32) if c.flag() else None
    result_zero = np.array(c.integer(0, 100), data.dtype)
    return [data, np.asarray(np.float32(0.02)), zero, weights, scales, w_zero, result_scale, result_zero, bias]


@own("MatMulNBits@broad", domain="com.microsoft")
def _nibbles_broad(c: Dice, operator: str) -> Case:
    """Four bits a weight, with whole vectors of columns and any number of rows."""
    rows, depth, width, block = c.size((2, 3, 5, 8, 9, 13)), c.of((32, 64, 100, 160)), c.of(BROAD), c.of((16, 32, 64))
    rows = 1 if c.chance(0.2) else rows
    blocks = -(-depth // block)
    packed = c.random.integers(0, 256, (width, blocks, block // 2)).astype(np.uint8)
    scales = c.array("float32", (width * blocks,), False, 0.01, 0.2)
    zeros = c.random.integers(0, 256, width * -(-blocks // 2)).astype(np.uint8) if c.flag() else None
    lead = (c.size((2, 3)),) if c.chance(0.3) else ()
    data = c.array("float32", (*lead, rows, depth), False)
    level = {"accuracy_level": 4} if c.chance(0.5) else {}
    return Case(
        operator, [data, packed, scales, zeros], {"K": depth, "N": width, "bits": 4, "block_size": block, **level}
    )


@own("Gemm@few")
def _product_few(c: Dice, operator: str) -> Case:
    """A few long rows by columns that lie in memory one after the other: dot products."""
    rows = c.of((2, 3, 4, 7, 9, 16))
    depth, width = c.size((257, 260, 300)), c.of((2, 3, 4, 5, 17, 33))
    return Case(operator, [c.array("float32", (rows, depth), False), c.array("float32", (width, depth), False)],
                {"transB": 1})  # fmt: skip


@own("MatMul@turned", "Gemm@broad")
def _product_turned(c: Dice, operator: str) -> Case:
    """Products of several tiles; Gemm reads either operand by columns."""
    dtype = c.of(("float32", "float32", "float32", "float64", "float16"))
    rows, depth, width = c.size((9, 13, 15, 29, 40, 70)), c.size(EDGES), c.size(BROAD)
    if operator.startswith("MatMul"):
        return Case(operator, [c.array(dtype, (2, rows, depth), False), c.array(dtype, (2, depth, width), False)])
    flags = {"transA": int(c.chance(0.7)), "transB": c.flag(), "alpha": c.of((1.0, 0.5)), "beta": c.of((1.0, 2.0))}
    left = (depth, rows) if flags["transA"] else (rows, depth)
    right = (width, depth) if flags["transB"] else (depth, width)
    arrays = [c.array(dtype, left, False), c.array(dtype, right, False)]
    return Case(operator, [*arrays, c.array(dtype, (width,), False) if c.flag() else None], flags)


@own("MatMul@few_columns")
@own("FusedMatMul@few_columns", domain="com.microsoft")
def _product_narrow(c: Dice, operator: str) -> Case:
    """Batches of products with at most a vector of columns, both operands fed; the fused form reads them turned."""
    dtype = c.of(("float32", "float32", "float32", "float64", "float16"))
    lead = tuple(c.size((2, 3, 5)) for _ in range(c.integer(1, 2)))
    rows, depth, width = c.size((1, 2, 9, 15, 33, 70)), c.size(EDGES), c.of((1, 1, 2, 3, 4, 5, 8, 9, 16))
    behind = lead if c.chance(0.7) else (1,) * len(lead)
    if operator.startswith("MatMul"):
        return Case(
            operator, [c.array(dtype, (*lead, rows, depth), False), c.array(dtype, (*behind, depth, width), False)]
        )
    flags = {"transA": c.flag(), "transB": c.flag()}
    left = (depth, rows) if flags["transA"] else (rows, depth)
    right = (width, depth) if flags["transB"] else (depth, width)
    dtype = "float32" if dtype == "float16" else dtype
    return Case(operator, [c.array(dtype, (*lead, *left), False), c.array(dtype, (*behind, *right), False)], flags)


@own("MoE", domain="com.microsoft")
def _experts(c: Dice, operator: str) -> Case:
    """Words that each meet a few of several experts, more of one than a tile has rows."""
    words, experts = c.size((1, 2, 7, 15, 40)), c.of((2, 3, 8))
    width, hidden = c.of((8, 17, 32, 40)), c.of((5, 16, 33, 64))
    first, second = (
        c.array("float32", (experts, hidden, width), False),
        c.array("float32", (experts, width, hidden), False),
    )
    biases = [c.array("float32", (experts, size), False) if c.chance(0.5) else None for size in (hidden, width)]
    scores = c.random.permuted(np.tile(np.arange(experts) * 0.7, (words, 1)), axis=1).astype(np.float32)
    flags = {"k": c.integer(1, experts), "normalize_routing_weights": c.flag(),
             "activation_type": c.of(("relu", "gelu", "silu", "identity"))}  # fmt: skip
    data = c.array("float32", (words, width), False)
    return Case(operator, [data, scores, first / 4, biases[0], second / 4, biases[1]], flags)


@own("QMoE", domain="com.microsoft")
def _quantized_experts(c: Dice, operator: str) -> Case:
    """The same with weights of few bits, which have scales and zero points by rows or by blocks."""
    words, experts, bits, has_zeros = c.size((1, 2, 7, 15, 40)), c.of((2, 3, 8)), c.of((4, 4, 4, 8)), c.flag()
    width, hidden, block = c.of((32, 64)), c.of((32, 64, 96)), c.of((0, 16, 32))
    arrays: list[Any] = [c.array("float32", (words, width), False)]
    arrays.append(c.random.permuted(np.tile(np.arange(experts) * 0.7, (words, 1)), axis=1).astype(np.float32))
    zeros: list[Any] = []
    for rows, columns in ((hidden, width), (width, hidden)):
        shape = (experts, rows, columns // block) if block else (experts, rows)
        packed = (*shape[:-1], -(-shape[-1] * bits // 8))
        arrays.append(c.random.integers(0, 256, (experts, rows, columns * bits // 8)).astype(np.uint8))
        arrays.append(c.array("float32", shape, False, 0.2 / 2**bits, 1 / 2**bits))
        arrays.append(c.array("float32", (experts, rows), False) if c.chance(0.5) else None)
        zeros.append(c.random.integers(0, 256, packed).astype(np.uint8) if has_zeros else None)
    flags = {"k": c.integer(1, experts), "activation_type": c.of(("silu", "relu")), "expert_weight_bits": bits}
    return Case(operator, [*arrays, None, None, None, *zeros], flags | ({"block_size": block} if block else {}))


@own("TreeEnsemble", domain="ai.onnx.ml")
def _trees(c: Dice, operator: str) -> Case:
    """Trees that are not balanced, whose splits rows meet exactly."""
    dtype = c.of((np.float32, np.float32, np.float64))
    modes = c.of((MODES[:1], MODES, (*MODES, "BRANCH_MEMBER")))
    attributes = ensemble(
        dtype, aggregate=c.integer(0, 3), transform=c.of((0, 0, 1, 2)), missing=bool(c.flag()), modes=modes,
        seed=c.integer(0, 1000),
    )  # fmt: skip
    if "BRANCH_MEMBER" not in modes:
        del attributes["membership_values"]
    data = c.random.choice(NUMBERS, (c.size((2, 3, 9, 33)), FEATURES)).astype(dtype)
    return Case(operator, [data], attributes)
