"""Strategies for the operators that layers of networks are made of; see `agreement_cases`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .agreement_cases import FLOATS, SIZES, Case, Chooser, cases, int64

NARROW = 2e-2
"""The tolerance of sums of products in half precision: judges round in between."""


def tolerance(dtype: str) -> float:
    """How far results of chains of sums may differ."""
    return {"float16": NARROW, "bfloat16": 4 * NARROW, "float32": 1e-4}.get(dtype, 1e-5)


@cases("MatMul")
def _matmul(c: Chooser, operator: str) -> Case:
    dtype, (m, k, n) = (
        c.of(("float32", "float64", "int32", "int64", "uint32", "float16")),
        (c.of(SIZES) for _ in range(3)),
    )
    batches = c.operands(c.shape(0, 2), 2)
    left, right = (*batches[0], m, k), (*batches[1], k, n)
    if c.flag():
        left = (k,) if c.flag() else left
        right = (k,) if c.flag() else right
    return Case(operator, [c.array(dtype, left), c.array(dtype, right)], rtol=tolerance(dtype))


@cases("Gemm")
def _gemm(c: Chooser, operator: str) -> Case:
    dtype = c.of(("float32", "float64", "float16"))
    m, n, k = (c.of(SIZES), c.of(SIZES), c.of(SIZES[:-1]))  # without products ONNX Runtime forgets beta
    flags = {"transA": c.flag(), "transB": c.flag(), "alpha": c.of((1.0, 0.5)), "beta": c.of((1.0, 0.5))}
    shapes = [(k, m) if flags["transA"] else (m, k), (n, k) if flags["transB"] else (k, n)]
    bias = c.of(((m, n), (n,), (1, n), (m, 1), (), None))
    arrays = [None if shape is None else c.array(dtype, shape, special=False) for shape in (*shapes, bias)]
    return Case(operator, arrays, flags, rtol=tolerance(dtype))


_EQUATIONS = {"ij,jk->ik": 2, "ij,ij->": 2, "bij,bjk->bik": 2, "ii->i": 1, "ij->ji": 1, "i,j->ij": 2, "ij->j": 1,
              "bij,kj->bik": 2, "ij,jk": 2, "i,i,i->i": 3}  # fmt: skip


@cases("Einsum")
def _einsum(c: Chooser, operator: str) -> Case:
    equation = c.of(list(_EQUATIONS))
    sizes = {letter: c.of((2, 3, 1)) for letter in "bijk"}
    dtype, terms = c.of(("float32", "float64", "int64")), equation.split("->")[0].split(",")
    arrays = [c.array(dtype, [sizes[letter] for letter in term], special=False) for term in terms]
    return Case(operator, arrays, {"equation": equation}, rtol=tolerance(dtype))


def window(c: Chooser, spatial: int, is_pool: bool) -> tuple[list[int], dict[str, Any]]:
    """A kernel's shape, and how it moves."""
    kernel = [c.of((2, 1, 3)) for _ in range(spatial)]
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if c.flag():
        attributes["strides"] = [c.of((1, 2, 3)) for _ in kernel]
    if c.flag():
        attributes["dilations"] = [c.of((1, 2)) for _ in kernel]
    if c.flag():
        attributes["pads"] = [c.integer(0, k - 1 if is_pool else 2) for k in kernel * 2]
    elif c.flag():
        attributes["auto_pad"] = c.of(("SAME_UPPER", "SAME_LOWER", "VALID"))
        attributes.pop("dilations", None)  # judges differ on what SAME means with them
        if is_pool and any(s > k for s, k in zip(attributes.get("strides", kernel), kernel, strict=True)):
            attributes["auto_pad"] = "VALID"  # ONNX Runtime pads by less than nothing, or refuses that
    return kernel, attributes


@cases("Conv")
def _conv(c: Chooser, operator: str) -> Case:
    dtype, spatial, group = c.of(("float32", "float64")), c.integer(1, 3), c.of((1, 2))
    kernel, attributes = window(c, spatial, is_pool=False)
    channels, outputs = group * c.of((1, 2)), group * c.of((1, 2))
    data = c.array(dtype, (c.of((1, 2)), channels, *(c.integer(5, 7) for _ in kernel)), special=False)
    weights = c.array(dtype, (outputs, channels // group, *kernel), special=False)
    bias = c.array(dtype, (outputs,)) if c.flag() else None
    return Case(operator, [data, weights, bias], {"group": group, **attributes}, rtol=1e-4)


@cases("ConvTranspose")
def _conv_transpose(c: Chooser, operator: str) -> Case:
    spatial, group = c.integer(1, 2), c.of((1, 2))
    kernel, attributes = window(c, spatial, is_pool=True)
    if attributes.get("auto_pad"):
        attributes["auto_pad"] = "VALID"  # judges differ on SAME, see the semantics page
    channels, outputs = group * c.of((1, 2)), c.of((1, 2))
    data = c.array("float32", (c.of((1, 2)), channels, *(c.integer(2, 4) for _ in kernel)), special=False)
    weights = c.array("float32", (channels, outputs, *kernel), special=False)
    bias = c.array("float32", (outputs * group,), special=False) if c.flag() else None
    return Case(operator, [data, weights, bias], {"group": group, **attributes}, rtol=1e-4)


@cases("MaxPool", "AveragePool", "LpPool")
def _pool(c: Chooser, operator: str) -> Case:
    kernel, attributes = window(c, c.integer(1, 2 if operator == "LpPool" else 3), is_pool=True)
    if c.flag() and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    extra = {"AveragePool": {"count_include_pad": c.flag()}, "LpPool": {"p": c.of((2, 1, 3))}}.get(operator, {})
    dtype = c.of(
        {"MaxPool": ("float32", "float64", "int8", "uint8"), "AveragePool": ("float32",)}.get(operator, ("float32",))
    )
    shape = (c.of((1, 2)), c.of((1, 2)), *(c.integer(5, 7) for _ in kernel))
    outputs = 2 if operator == "MaxPool" and dtype == "float32" and c.flag() else 1
    return Case(operator, [c.array(dtype, shape, special=False)], {**attributes, **extra}, outputs, rtol=1e-4)


@cases("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(c: Chooser, operator: str) -> Case:
    data = c.array("float32", (*c.shape(2, 2, (1, 2, 3)), *c.shape(1, 3, (1, 2, 3))), special=False)
    return Case(operator, [data], rtol=1e-4)


@cases("Softmax", "LogSoftmax", "Hardmax")
def _softmax(c: Chooser, operator: str) -> Case:
    dtype = c.of(("float32", "float64") if operator == "Hardmax" else ("float32", "float64", "float16"))
    shape = c.shape(1)
    data = c.array(dtype, shape, special=False, low=-30, high=30)
    return Case(operator, [data], {"axis": c.axis(len(shape))}, rtol=tolerance(dtype))


@cases("LayerNormalization", "RMSNormalization")
def _layer_norm(c: Chooser, operator: str) -> Case:
    dtype, shape = c.of(("float32", "float64")), c.shape(1, 3, (4, 3, 5))
    axis = c.axis(len(shape))
    rest = shape[axis:]
    arrays = [c.array(dtype, item, special=False) for item in (shape, rest)]
    if operator == "LayerNormalization":
        arrays.append(c.array(dtype, rest, special=False) if c.flag() else None)
    return Case(operator, arrays, {"axis": axis, "epsilon": 1e-3}, rtol=1e-4)


@cases("BatchNormalization")
def _batch_norm(c: Chooser, operator: str) -> Case:
    shape = c.shape(2, 4, (2, 3, 1))
    arrays = [c.array("float32", (shape[1],), special=False) for _ in range(3)]
    variance = c.array("float32", (shape[1],), False, 0.5, 2)
    return Case(operator, [c.array("float32", shape, special=False), *arrays, variance], {"epsilon": 1e-3}, rtol=1e-4)


@cases("InstanceNormalization", "GroupNormalization")
def _group_norm(c: Chooser, operator: str) -> Case:
    groups = c.of((1, 2))
    channels = groups * c.of((1, 2))
    data = c.array("float32", (c.of((1, 2)), channels, *c.shape(1, 2, (3, 4))), special=False)
    scales = [c.array("float32", (channels,), special=False) for _ in range(2)]
    group = {"num_groups": groups} if operator == "GroupNormalization" else {}
    return Case(operator, [data, *scales], {"epsilon": 1e-2, **group}, rtol=1e-3)


@cases("LRN")
def _local_norm(c: Chooser, operator: str) -> Case:
    data = c.array("float32", (*c.shape(2, 2, (1, 4, 5)), *c.shape(2, 2, (1, 2))), special=False)
    return Case(operator, [data], {"size": c.of((3, 1, 5)), "alpha": 0.5, "beta": 0.5, "bias": 1.5}, rtol=1e-4)


@cases("LpNormalization")
def _lp_norm(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    data = c.array(c.of(("float32", "float64")), shape, special=False)
    return Case(operator, [data], {"axis": c.axis(len(shape)), "p": c.of((2, 1))}, rtol=1e-4)


@cases("MeanVarianceNormalization")
def _mean_variance(c: Chooser, operator: str) -> Case:
    data = c.array("float32", c.shape(4, 4, (2, 3, 4)), special=False)
    return Case(operator, [data], {"axes": c.of(([0, 2, 3], [1, 2], [3]))}, rtol=1e-2)


@cases("Resize")
def _resize(c: Chooser, operator: str) -> Case:
    mode, spatial = c.of(("nearest", "linear", "cubic")), c.integer(1, 2)
    spatial = 2 if mode == "cubic" else spatial
    shape = (1, c.of((1, 2)), *(c.integer(2, 5) for _ in range(spatial)))
    attributes: dict[str, Any] = {"mode": mode}
    modes = ("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners")
    if mode == "nearest":
        attributes["nearest_mode"] = c.of(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": c.of((-0.75, -0.5)), "exclude_outside": c.flag()}
    data = c.array("float32", shape, special=False)
    has_sizes = c.flag()  # what align_corners means with a scale that leaves a rest is told on the semantics page
    attributes["coordinate_transformation_mode"] = c.of(modes if has_sizes else modes[:-1])
    if has_sizes:
        sizes = int64([*shape[:2], *(c.integer(1, 8) for _ in range(spatial))])
        return Case(operator, [data, None, None, sizes], attributes, rtol=1e-4)
    scales = np.array([1, 1, *(c.of((2.0, 1.5, 0.75, 1.0)) for _ in range(spatial))], np.float32)
    return Case(operator, [data, None, scales], attributes, rtol=1e-4)


@cases("GridSample")
def _grid_sample(c: Chooser, operator: str) -> Case:
    n = c.of((1, 2))
    data = c.array("float32", (n, c.of((1, 2)), c.integer(2, 4), c.integer(2, 4)), special=False)
    grid = c.array("float32", (n, c.of((1, 3)), c.of((2, 3)), 2), False, -1.3, 1.3)
    modes = {"mode": c.of(("linear", "nearest", "cubic")), "padding_mode": c.of(("zeros", "border", "reflection"))}
    return Case(operator, [data, grid], {"align_corners": c.flag(), **modes}, rtol=1e-3)


@cases("QuantizeLinear")
def _quantize(c: Chooser, operator: str) -> Case:
    dtype, shape = c.of(("uint8", "int8", "uint16", "int16")), c.shape(1, 3, SIZES[:-1])
    axis = c.axis(len(shape))
    sizes = () if c.flag() else (shape[axis],)
    zero = c.array(dtype, sizes, False, 0, 10) if c.flag() or dtype != "uint8" else None
    data = c.array("float32", shape, False, -300, 300)
    return Case(operator, [data, c.array("float32", sizes, False, 0.5, 2), zero], {"axis": axis})


@cases("DequantizeLinear")
def _dequantize(c: Chooser, operator: str) -> Case:
    dtype, shape = c.of(("uint8", "int8", "uint16", "int16", "int32")), c.shape(1, 3, SIZES[:-1])
    axis = c.axis(len(shape))
    sizes = () if c.flag() else (shape[axis],)
    zero = c.array(dtype, sizes, False, 0, 0 if dtype == "int32" else 10) if c.flag() else None
    return Case(operator, [c.array(dtype, shape), c.array("float32", sizes, False, 0.5, 2), zero], {"axis": axis})


@cases("DynamicQuantizeLinear")
def _dynamic_quantize(c: Chooser, operator: str) -> Case:
    return Case(operator, [c.array("float32", c.shape(1, 3, SIZES[:-1]), special=False)], outputs=3)


@cases("MatMulInteger")
def _matmul_integer(c: Chooser, operator: str) -> Case:
    left, right = c.of(("uint8", "int8")), c.of(("uint8", "int8"))
    m, k, n = (c.of(SIZES[:-1]) for _ in range(3))
    zeros = [c.array(dtype, (), False, 0, 9) if c.flag() else None for dtype in (left, right)]
    return Case(operator, [c.array(left, (m, k)), c.array(right, (k, n)), *zeros])


@cases("Range")
def _range(c: Chooser, operator: str) -> Case:
    dtype = c.of(("int64", "int32", "float32", "float64", "int16"))
    numbers = (c.integer(-5, 5), c.integer(-5, 5), c.of((1, 2, -1, -3)))
    return Case(operator, [np.array(number, dtype) for number in numbers])


@cases("ConstantOfShape")
def _constant_of_shape(c: Chooser, operator: str) -> Case:
    return Case(operator, [int64(c.shape())])


@cases("CenterCropPad")
def _center(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    axes = c.axes(len(shape)) or [0]
    return Case(operator, [c.array(c.of(FLOATS), shape), int64([c.integer(1, 6) for _ in axes])], {"axes": axes})


@cases("DFT")
def _fourier(c: Chooser, operator: str) -> Case:
    is_inverse = c.flag()
    data = c.array(
        c.of(("float32", "float64")), (c.of((1, 2)), c.integer(1, 6), 2 if is_inverse else c.of((1, 2))), special=False
    )
    one_sided = {"onesided": 1} if not is_inverse and data.shape[-1] == 1 and c.flag() else {}
    return Case(operator, [data, None, np.array(1, np.int64)], {"inverse": is_inverse, **one_sided}, rtol=1e-3)
