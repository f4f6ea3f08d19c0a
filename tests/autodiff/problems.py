"""What gradients are tried on: operators, arrays in ranges without kinks, and how often they are smooth.

Sampled parameters: every mode that has a formula of its own has a problem of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from intaglio.ir.op import OPERATORS, Op

Build = Callable[..., Any]


def numbers(*shape: int, low: float = -1.0, high: float = 1.0) -> Any:
    return np.random.default_rng(sum(shape) + len(shape)).uniform(low, high, shape)


def apart(*shape: int, gap: float = 0.07) -> Any:
    """Numbers that differ from each other and from zero by more than a step of differences, in mixed order."""
    count = int(np.prod(shape))
    order = np.random.default_rng(count).permutation(count)
    return ((order - count / 2 + 0.3) * gap).reshape(shape)


@dataclass(frozen=True)
class Problem:
    """A function of some arrays, the operators that it is there for, and how often it can be differentiated."""

    name: str
    build: Build
    arrays: Sequence[Any]
    order: int = 2
    operators: tuple[str, ...] = ()
    in_onnx_runtime: bool = True
    """Whether ONNX Runtime has kernels for it in double precision."""
    tolerance: float = 1e-9
    """How far the native engine may be off, relatively."""
    is_single: bool = False
    """Whether it computes in single precision whatever it is given, so that differences need larger steps."""

    def __str__(self) -> str:
        return self.name


def find(name: str, domain: str = "") -> type[Op]:
    return OPERATORS[domain, name]


def op(name: str, *arrays: Any, domain: str = "", order: int = 2, ort: bool = True, **attributes: Any) -> Problem:
    """One operator; arrays of integers and truth values become constants, None an input that is absent."""
    tolerance = 1e-8 if attributes.get("antialias") else 1e-9  # the weights of that kernel are of single precision
    present = [array for array in arrays if array is not None]

    def build(b: Any, *values: Any) -> Any:
        rest = iter(values)
        return b.apply(find(name, domain), *(None if a is None else next(rest) for a in arrays), **attributes)

    label = ", ".join([name, *(f"{key}={value}" for key, value in attributes.items())])
    return Problem(label, build, present, order, (f"{domain}::{name}".removeprefix("::"),), ort, tolerance)


def made(
    name: str, build: Build, *arrays: Any, order: int = 2, ort: bool = True, also: tuple[str, ...] = ()
) -> Problem:
    return Problem(name, build, arrays, order, (name.split(",")[0], *also), ort)


def ints(*values: Any) -> Any:
    return np.array(values, np.int64)


M, POSITIVE, MIXED = numbers(2, 3), numbers(2, 3, low=0.3, high=2), apart(2, 3)
IMAGE, SPREAD = numbers(1, 2, 4, 5), apart(1, 2, 4, 5)
PLACES = ints([0, 2], [1, 1])
INSIDE = numbers(2, 3, low=0.1, high=0.8)
REGION: dict[str, Any] = {
    "axes": (2, 3), "mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.0
}  # fmt: skip

UNARY = [
    *(
        op(n, M)
        for n in ("Exp", "Sin", "Cos", "Tan", "Tanh", "Sigmoid", "Erf", "Softplus", "Atan", "Sinh", "Cosh", "Asinh")
    ),
    *(op(n, M * 0.8) for n in ("Asin", "Acos", "Atanh")),
    *(
        op(n, MIXED)
        for n in ("Neg", "Abs", "Relu", "Identity", "Gelu", "Elu", "Selu", "Mish", "Swish", "HardSigmoid", "HardSwish")
    ),
    *(op(n, MIXED) for n in ("LeakyRelu", "Softsign")),
    op("Celu", MIXED, ort=False),
    op("Gelu", M, approximate="tanh"),
    op("ThresholdedRelu", MIXED, alpha=0.05, ort=False),
    op("Shrink", MIXED, lambd=0.08, bias=0.02, ort=False),
    op("Hardmax", MIXED),
    *(op(n, POSITIVE) for n in ("Log", "Sqrt", "Reciprocal")),
    op("Acosh", POSITIVE + 1),
    op("Swish", M, alpha=1.5),
]

ARITHMETIC = [
    *(op(n, MIXED, POSITIVE[:1]) for n in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean")),
    op("Max", MIXED, apart(1, 3) + 0.02, apart(3) - 0.03),
    op("Mod", MIXED * 5.13, POSITIVE[:1], fmod=1),
    op("Pow", POSITIVE, M[:1]),
    made("Pow", lambda b, x: b.Pow(x, 3.0), MIXED),
    made("Pow, integer", lambda b, x: b.Pow(x, b.constant(ints(0, 1, 2))), MIXED),
    op("Clip", MIXED, np.array(-0.1), np.array(0.12)),
    op("Clip", MIXED, np.array(0.12), np.array(-0.1)),
    made("Clip, one bound", lambda b, x, m: b.Clip(x, m) + b.Clip(x * x, None, m * m), MIXED, np.array([0.31])),
    op("PRelu", MIXED, POSITIVE[0]),
    op("SwiGLU", M, POSITIVE, ort=False),
    made("Where", lambda b, x, y: b.Where(b.Greater(x, y), x * y, x), M, POSITIVE[0]),
    op("CumSum", M, np.array(1), reverse=1),
    *(
        op("CumProd", MIXED * 5, np.array(axis), exclusive=e, reverse=r, ort=False)
        for axis, e, r in ((1, 0, 0), (0, 1, 0), (1, 0, 1), (-1, 1, 1))
    ),
    op("CumProd", numbers(2, 4) * ints(1, 0, 1, 0), np.array(1), order=1, ort=False),
]

REDUCTIONS = [
    *(
        op(n, SPREAD, ints(1, -1), keepdims=k)
        for n in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
        for k in (0, 1)
    ),
    *(op(n, POSITIVE, ints(1)) for n in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")),
    op("ReduceProd", numbers(2, 3, 4), ints(0, 2), keepdims=0),
    op("ReduceProd", numbers(2, 3, 4) * ints(0, 1, 1, 1), ints(0, 2), keepdims=0, order=1),
]

PRODUCTS = [
    op("MatMul", numbers(2, 3, 4), numbers(4, 2)),
    op("MatMul", numbers(3), numbers(5, 3, 2)),
    op("MatMul", numbers(3), numbers(3)),
    op("Gemm", M, numbers(4, 3), numbers(4), alpha=0.5, transB=1),
    op("Einsum", M, numbers(3, 4), equation="ij,jk->ki"),
    op("Einsum", numbers(2, 3, 3), equation="bii->b"),
    op("Det", numbers(2, 3, 3), ort=False),
    op("Det", np.ones((2, 2)) + 0.0, order=1, ort=False),
    op("Det", numbers(7, 7) + np.eye(7), order=1, ort=False),
    op("Attention", numbers(1, 2, 3, 4), numbers(1, 2, 5, 4), numbers(1, 2, 5, 4), ort=False),
    op(
        "Attention",
        numbers(1, 4, 3, 4),
        numbers(1, 2, 5, 4),
        numbers(1, 2, 5, 4),
        numbers(3, 5),
        is_causal=1,
        softcap=2.0,
        order=1,
        ort=False,
    ),
    op(
        "FlexAttention",
        numbers(1, 2, 3, 4),
        numbers(1, 2, 5, 4),
        numbers(1, 2, 5, 4),
        domain="ai.onnx.preview",
        order=1,
        ort=False,
    ),
    op("RotaryEmbedding", numbers(1, 2, 3, 4), numbers(1, 3, 2), numbers(1, 3, 2) + 1, ort=False),
    op(
        "LinearAttention",
        numbers(1, 3, 4),
        numbers(1, 3, 4),
        numbers(1, 3, 4),
        q_num_heads=2,
        kv_num_heads=2,
        update_rule="linear",
        order=1,
        ort=False,
    ),
    op("CausalConvWithState", numbers(1, 2, 5), numbers(2, 1, 3), order=1, ort=False),
]

REGIONS = np.array([[0.0, 0, 0, 3, 4], [1, 2, 1, 5, 4], [0, 4, 3, 4, 3]])
WINDOWS = [
    op("Conv", IMAGE, numbers(4, 1, 3, 2), numbers(4), group=2, strides=(2, 1), pads=(1, 0, 2, 1)),
    op("Conv", numbers(1, 2, 7), numbers(3, 2, 3), dilations=(2,), auto_pad="SAME_UPPER"),
    op("ConvTranspose", numbers(1, 4, 3, 2), numbers(4, 2, 3, 2), numbers(4), group=2, strides=(2, 2)),
    op("ConvTranspose", numbers(1, 2, 4), numbers(2, 3, 3), strides=(3,), pads=(1, 0), output_padding=(2,)),
    op("ConvTranspose", numbers(1, 2, 4), numbers(2, 3, 2), strides=(2,), output_shape=(11,)),
    op(
        "DeformConv",
        IMAGE,
        numbers(4, 1, 2, 2),
        numbers(1, 16, 3, 4) * 0.4 + 0.05,
        numbers(4),
        numbers(1, 8, 3, 4),
        group=2,
        offset_group=2,
        ort=False,
    ),
    op(
        "DeformConv",
        IMAGE,
        numbers(3, 2, 2, 2),
        numbers(1, 8, 2, 6) * 0.4 + 0.05,
        strides=(2, 1),
        pads=(0, 1, 0, 1),
        dilations=(1, 1),
        order=1,
        ort=False,
    ),
    op("MaxPool", SPREAD, kernel_shape=(2, 3), strides=(1, 2), pads=(1, 1, 0, 1)),
    op("AveragePool", IMAGE, kernel_shape=(2, 3), strides=(2, 2), pads=(1, 0, 0, 2)),
    op("AveragePool", IMAGE, kernel_shape=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1), ceil_mode=1),
    op("AveragePool", IMAGE, kernel_shape=(3, 2), pads=(1, 0, 1, 1), count_include_pad=1),
    op("LpPool", np.abs(IMAGE) + 0.1, kernel_shape=(2, 2), p=3),
    op("GlobalAveragePool", IMAGE),
    op("GlobalMaxPool", SPREAD),
    op("GlobalLpPool", np.abs(IMAGE) + 0.1),
    op("MaxUnpool", apart(1, 1, 2, 2), ints(0, 3, 5, 15).reshape(1, 1, 2, 2), kernel_shape=(2, 2), strides=(2, 2)),
    op(
        "Col2Im",
        numbers(1, 8, 6),
        ints(4, 5),
        ints(2, 2),
        strides=(2, 1),
        pads=(0, 0, 0, 0),
        dilations=(1, 2),
        ort=False,
    ),
    op("Col2Im", numbers(1, 6, 8), ints(3, 2), ints(3, 1), pads=(1, 1, 1, 1), strides=(2, 1), order=1, ort=False),
    made(
        "MaxRoiPool",
        lambda b, x: b.MaxRoiPool(x, b.constant(REGIONS), pooled_shape=(2, 2)),
        apart(2, 2, 5, 6),
        order=1,
        ort=False,
    ),
]

ROIS = np.array([[0.31, 0.23, 3.17, 3.35], [1.13, 0.41, 4.27, 2.9]])
RESIZES: list[tuple[str, str, Any, Any, dict[str, Any]]] = [
    ("nearest", "asymmetric", np.array([1, 1, 2, 2], np.float32), None, {"nearest_mode": "floor"}),
    ("nearest", "half_pixel", None, ints(1, 2, 6, 7), {}),
    ("linear", "half_pixel", np.array([1, 1, 2, 1.5], np.float32), None, {}),
    ("linear", "align_corners", None, ints(1, 2, 7, 3), {}),
    ("linear", "pytorch_half_pixel", None, ints(1, 2, 2, 3), {"antialias": 1}),
    ("cubic", "half_pixel", None, ints(1, 2, 7, 3), {"exclude_outside": 1}),
    ("cubic", "half_pixel_symmetric", np.array([1, 1, 0.6, 1.7], np.float32), None, {}),
]
"""The mode, the coordinates, the scales or the sizes, and other attributes."""
SAMPLING = [
    *(
        op(
            "GridSample",
            IMAGE,
            numbers(1, 3, 2, 2) * 1.3 + 0.013,
            mode=mode,
            padding_mode=padding,
            align_corners=corners,
            order=1 + (corners and padding == "zeros"),
            ort=False,
        )
        for mode in ("linear", "cubic", "nearest")
        for padding in ("zeros", "border", "reflection")
        for corners in (0, 1)
    ),
    op("GridSample", numbers(1, 1, 3, 3, 2), numbers(1, 2, 1, 2, 3) * 0.8 + 0.01, order=1, ort=False),
    op("AffineGrid", numbers(2, 2, 3), ints(2, 3, 4, 5)),
    *(
        op(
            "RoiAlign",
            SPREAD.repeat(2, axis=0),
            ROIS,
            ints(0, 1),
            mode=mode,
            output_height=2,
            output_width=3,
            sampling_ratio=ratio,
            coordinate_transformation_mode=how,
            order=1 + (mode == "avg" and ratio == 2),
            ort=False,
        )
        for mode in ("avg", "max")
        for ratio in (0, 2)
        for how in ("half_pixel", "output_half_pixel")
    ),
    *(
        op("Resize", IMAGE, None, scales, sizes, mode=mode, coordinate_transformation_mode=how, ort=False, **more)
        for mode, how, scales, sizes, more in RESIZES
    ),
    op(
        "Resize",
        IMAGE,
        None,
        None,
        ints(7, 9),
        mode="linear",
        axes=(2, 3),
        keep_aspect_ratio_policy="not_larger",
        ort=False,
    ),
    *(
        replace(
            made(
                f"Resize, region of {size}",
                lambda b, x, roi, size=size: b.Resize(x, roi, None, size, **REGION),
                IMAGE,
                np.array([0.11, 0.23, 1.13, 0.87]),
                order=1,
                ort=False,
            ),
            is_single=True,
        )
        for size in ([3, 4], [1, 5])
    ),
    made(
        "Resize, crop",
        lambda b, x: b.Resize(
            x,
            b.constant(np.array([0.1, 0.2, 1.1, 0.9])),
            None,
            [3, 4],
            axes=(2, 3),
            mode="linear",
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=2.0,
        ),
        IMAGE,
        ort=False,
    ),
]


def statistics(b: Any, x: Any, scale: Any, bias: Any, mean: Any) -> Any:
    """All outputs of a BatchNormalization in training, the running statistics among them."""
    y, new_mean, new_variance = b.BatchNormalization(x, scale, bias, mean, mean * mean, training_mode=1, outputs=3)
    return b.Concat(b.Reshape(y, [-1]), new_mean, new_variance, axis=0)


NORMALIZATION = [
    op("Softmax", M),
    op("LogSoftmax", M, axis=0),
    op("LayerNormalization", M, numbers(3), numbers(3)),
    op("RMSNormalization", M, numbers(3), ort=False),
    op("SimplifiedLayerNormalization", M, numbers(3), ort=False),
    op("InstanceNormalization", numbers(2, 3, 4), numbers(3), numbers(3), ort=False),
    op("GroupNormalization", numbers(2, 4, 3), numbers(4), numbers(4), num_groups=2),
    op("BatchNormalization", numbers(2, 3, 2), numbers(3), numbers(3), numbers(3), np.array([0.5, 1.0, 2.0])),
    made(
        "BatchNormalization, training",
        lambda b, x, s, c: b.BatchNormalization(x, s, c, s * 0, s * 0 + 1, training_mode=1, outputs=3)[0],
        numbers(3, 2, 2),
        numbers(2),
        numbers(2),
        ort=False,
    ),
    made("BatchNormalization, statistics", statistics, numbers(3, 2, 2), numbers(2), numbers(2), numbers(2), ort=False),
    op("LRN", numbers(1, 5, 2, 2), size=3, ort=False),
    op("LpNormalization", M, ort=False),
    op("LpNormalization", MIXED, p=1, axis=0, ort=False),
    op("MeanVarianceNormalization", numbers(2, 2, 2, 2), ort=False),
    made("Dropout", lambda b, x: b.Dropout(x, b.constant(np.float64(0.5)), b.constant(False)), M),
]

INDEXING = [
    op("Gather", M, PLACES, axis=1),
    op("GatherElements", M, PLACES, axis=1),
    op("GatherND", M, ints([1, 2], [0, 0], [1, 2])),
    op("GatherND", numbers(2, 3, 4), ints([[0], [2]], [[1], [1]]), batch_dims=1),
    op("ScatterElements", M, PLACES[:, :1], numbers(2, 1), axis=1),
    *(
        op("ScatterElements", MIXED + 0.01, ints([0, 2, 0], [1, 1, 2]), apart(2, 3, gap=0.05), axis=1, reduction=r)
        for r in ("add", "mul", "max", "min")
    ),
    op(
        "ScatterElements",
        MIXED * ints(1, 0, 1),
        ints([0, 1, 0], [1, 1, 2]),
        numbers(2, 3) * ints(1, 1, 0),
        axis=1,
        reduction="mul",
        order=1,
    ),
    op("ScatterND", M, ints([1]), numbers(1, 3), reduction="add"),
    *(
        op("ScatterND", MIXED + 0.01, ints([1], [0], [1]), apart(3, 3, gap=0.05), reduction=r)
        for r in ("add", "mul", "max", "min")
    ),
    op("TensorScatter", numbers(2, 4, 3), numbers(2, 2, 3), ints(1, 3), mode="circular", ort=False),
    op("TensorScatter", numbers(2, 4, 3), numbers(2, 2, 3), ort=False),
    op("TopK", MIXED, ints(2)),
    made("Unique", lambda b, x: b.Unique(x, outputs=2)[0], MIXED),
    made("Unique, axis", lambda b, x: b.Unique(x, axis=1, sorted=0), MIXED, ort=False),
    op("Compress", M, np.array([True, False, True]), axis=1),
    op("Compress", M, np.array([True, False, True, True])),
    op("OneHot", ints(0, 2, -1), np.array(3), numbers(2), axis=0, ort=False),
]

MOVEMENT = [
    op("Concat", M, POSITIVE, axis=1),
    op("Slice", numbers(4, 5), ints(-3, 4), ints(99, 0), ints(0, 1), ints(1, -2)),
    op("Pad", M, ints(1, 0, -1, 2)),
    op("Pad", M, ints(1, 0, 0, 2), np.array(0.5)),
    *(op("Pad", numbers(3, 4), ints(2, 1, 1, 2), mode=mode) for mode in ("reflect", "edge", "wrap")),
    op("Pad", numbers(3, 4), ints(2, 1), None, ints(1), mode="edge"),
    op("Transpose", numbers(2, 3, 4), perm=(2, 0, 1)),
    op("Reshape", M, ints(3, -1)),
    op("Flatten", numbers(2, 3, 2)),
    op("Expand", numbers(2, 1), ints(3, 2, 4)),
    op("Tile", M, ints(2, 1)),
    op("Squeeze", numbers(2, 1, 3)),
    op("Unsqueeze", M, ints(0, -1)),
    op("Trilu", numbers(3, 3)),
    op("DepthToSpace", numbers(1, 4, 2, 3), blocksize=2),
    op("SpaceToDepth", numbers(1, 1, 4, 6), blocksize=2),
    op("CenterCropPad", numbers(3, 5), ints(6, 2), ort=False),
    op("CenterCropPad", numbers(3, 5, 2), ints(4), axes=(1,), ort=False),
    op("ReverseSequence", numbers(3, 2), ints(3, 2)),
    made("Split", lambda b, x: b.Split(x, num_outputs=2, axis=1, outputs=2)[1], numbers(2, 4)),
    made("Cast", lambda b, x: b.Cast(b.Cast(x, to=11), to=11), M),
    made("CastLike", lambda b, x: b.CastLike(x, b.constant(np.float64(1))) * x, M),
    made("Range", lambda b, x, y: b.Range(x, b.constant(np.float64(2.0)), y), np.array(0.13), np.array(0.4)),
]

LOSSES = [
    op("SoftmaxCrossEntropyLoss", M, ints(2, 0)),
    op("SoftmaxCrossEntropyLoss", M, ints(2, 0), POSITIVE[0], ignore_index=0, reduction="none"),
    made(
        "NegativeLogLikelihoodLoss",
        lambda b, x: b.NegativeLogLikelihoodLoss(b.LogSoftmax(x, axis=1), b.constant(ints(2, 0))),
        M,
    ),
]

SIGNALS = [
    *(
        op("DFT", numbers(2, size, parts), length, ints(1).reshape(()), inverse=inverse, onesided=onesided, ort=False)
        for size, parts, length, inverse, onesided in (
            (5, 1, None, 0, 0),
            (5, 2, None, 0, 0),
            (4, 2, np.array(6), 0, 0),
            (6, 2, np.array(4), 1, 0),
            (5, 1, None, 0, 1),
            (6, 1, np.array(4), 0, 1),
            (3, 1, np.array(6), 0, 1),
            (4, 2, None, 1, 1),
            (4, 2, np.array(7), 1, 1),
            (3, 2, np.array(8), 1, 1),
        )
    ),
    op("DFT", numbers(3, 4, 2), order=1, ort=False),
    op("STFT", numbers(1, 9, 1), np.array(2), numbers(4) + 2, ort=False),
    op("STFT", numbers(1, 9, 2), np.array(3), None, np.array(4), onesided=0, ort=False),
]

MS, ML, TRAINING = "com.microsoft", "ai.onnx.ml", "ai.onnx.preview.training"
TOKENS, PLANES = numbers(1, 3, 4), numbers(2, 3, 4)
ROTATION = [numbers(6, 1), numbers(6, 1) + 1]


def contrib(name: str, *arrays: Any, order: int = 1, **attributes: Any) -> Problem:
    return op(name, *arrays, domain=MS, order=order, ort=False, **attributes)


def ml(name: str, *arrays: Any, **attributes: Any) -> Problem:
    return op(name, *arrays, domain=ML, ort=False, **attributes)


CONTRIB = [
    *(contrib(name, MIXED) for name in ("Gelu", "QuickGelu")),
    contrib("BiasGelu", M, numbers(3)),
    contrib("FastGelu", M, numbers(3)),
    replace(contrib("ScaledSiLU", M, np.array(0.7)), is_single=True),
    contrib("GatedAdd", M, POSITIVE, INSIDE),
    contrib("FusedMatMul", numbers(2, 3, 4), numbers(2, 3, 2), transA=1, alpha=0.5),
    contrib("TransposeMatMul", numbers(3, 4), numbers(3, 2), transA=1),
    contrib("FusedGemm", M, numbers(3, 2), numbers(2), activation="LeakyRelu", activation_alpha=0.1),
    contrib("FusedConv", IMAGE, numbers(2, 2, 2, 2), numbers(2), activation="Tanh"),
    contrib("ConvTransposeWithDynamicPads", numbers(1, 2, 3, 3), numbers(2, 2, 2, 2), ints(0, 1, 1, 0), strides=(2, 2)),
    contrib("NhwcMaxPool", apart(1, 4, 5, 2), kernel_shape=(2, 2)),
    contrib("Inverse", numbers(2, 3, 3) + 2 * np.eye(3), order=2),
    contrib("CDist", M, numbers(4, 3), metric="sqeuclidean"),
    contrib("ExpandDims", M, np.array(1, np.int32)),
    contrib("GatherND", M, ints([1, 2], [0, 0])),
    contrib("GridSample", IMAGE, numbers(1, 3, 2, 2) * 0.8 + 0.013),
    contrib(
        "CropAndResize",
        SPREAD,
        np.array([[0.11, 0.13, 0.83, 0.92]]),
        np.array([0], np.int32),
        np.array([2, 3], np.int32),
    ),
    contrib("Pad", M, ints(1, 0, 0, 2), np.array(0.5)),
    contrib("Trilu", numbers(3, 3), upper=0),
    contrib("UnfoldTensor", numbers(2, 5), dim=1, size=2, step=2),
    contrib("Range", np.array(0.13), np.array(2.0), np.array(0.4)),
    made(
        "com.microsoft::Unique", lambda b, x: b.apply(find("Unique", MS), x, outputs=3)[0], apart(5), order=1, ort=False
    ),
    contrib("RotaryEmbedding", numbers(1, 2, 3, 2), np.array([[0, 1, 2]]), *ROTATION),
    contrib("MRotaryEmbedding", numbers(1, 2, 3, 2), np.zeros((3, 1, 3), np.int64), *ROTATION, mrope_section=(1, 0, 0)),
    contrib("SkipLayerNormalization", PLANES, numbers(2, 3, 4), numbers(4), numbers(4), numbers(4)),
    contrib("SkipSimplifiedLayerNormalization", PLANES, numbers(2, 3, 4), numbers(4)),
    contrib(
        "EmbedLayerNormalization",
        np.array([[0, 2]], np.int32),
        np.array([[0, 1]], np.int32),
        numbers(3, 4),
        numbers(2, 4),
        numbers(2, 4),
        numbers(4),
        numbers(4),
    ),
    replace(contrib("BranchwiseRMSNorm", numbers(2, 4), numbers(2, 2), num_branches=2), is_single=True),
    contrib("GatedRMSNorm", numbers(2, 4), numbers(4), numbers(2, 4)),
    contrib("Attention", TOKENS, numbers(4, 12), numbers(12), num_heads=2),
    contrib("MultiHeadAttention", TOKENS, numbers(1, 5, 4), numbers(1, 5, 4), num_heads=2),
    contrib("CausalConvWithState", numbers(1, 2, 5), numbers(2, 1, 3)),
    made(
        "com.microsoft::GroupQueryAttention",
        lambda b, q, k, v: b.apply(
            find("GroupQueryAttention", MS),
            q,
            k,
            v,
            None,
            None,
            b.constant(np.array([2], np.int32)),
            b.constant(np.array(3, np.int32)),
            num_heads=2,
            kv_num_heads=1,
            outputs=3,
        )[0],
        TOKENS,
        numbers(1, 3, 2),
        numbers(1, 3, 2),
        order=1,
        ort=False,
    ),
    made(
        "com.microsoft::DecoderMaskedMultiHeadAttention",
        lambda b, q, k, v: b.apply(find("DecoderMaskedMultiHeadAttention", MS), q, k, v, num_heads=2),
        numbers(1, 1, 4),
        numbers(1, 1, 4),
        numbers(1, 1, 4),
        order=1,
        ort=False,
    ),
    contrib(
        "LinearAttention",
        numbers(1, 3, 4),
        numbers(1, 3, 4),
        numbers(1, 3, 4),
        q_num_heads=2,
        kv_num_heads=2,
        update_rule="linear",
    ),
    replace(
        made(
            "com.microsoft::LinearAttentionGate",
            lambda b, *x: b.apply(find("LinearAttentionGate", MS), *x, outputs=2)[0],
            numbers(1, 3, 2),
            np.array([0.3, -0.2], np.float32),
            np.array([0.5, 0.9], np.float32),
            numbers(1, 3, 2),
            order=1,
            ort=False,
        ),
        is_single=True,
    ),
    contrib("MoE", numbers(2, 3), apart(2, 2), numbers(2, 4, 3), numbers(2, 4), numbers(2, 3, 4), numbers(2, 3), k=1),
    made(
        "com.microsoft::DequantizeLinear",
        lambda b, s: b.apply(
            find("DequantizeLinear", MS), b.constant(np.array([1, 2], np.int8)), s, b.constant(np.array(1, np.int8))
        ),
        np.array(0.3),
        ort=False,
    ),
    made(
        "DequantizeLinear",
        lambda b, s: b.DequantizeLinear(
            b.constant(np.array([[1, 2], [5, 7]], np.int8)), s, b.constant(np.array([1, 2], np.int8)), axis=0
        ),
        np.array([0.3, 0.4]),
        ort=False,
    ),
]
"""Operators of ONNX Runtime."""

BLOCKED = "com.microsoft.nchwc"


def blocked(name: str, *arrays: Any, **attributes: Any) -> Problem:
    """An operator on channels in blocks: one that computes in single precision in files, and here in double."""
    return op(name, *arrays, domain=BLOCKED, order=1, ort=False, **attributes)


LAYOUTS = [
    contrib("NhwcConv", numbers(1, 4, 5, 2), numbers(3, 2, 2, 2), numbers(3)),
    contrib("NhwcFusedConv", numbers(1, 4, 5, 2), numbers(3, 2, 2, 2), numbers(3), activation="Tanh"),
    blocked("ReorderInput", numbers(1, 2, 3, 4), channels_last=1),
    blocked("ReorderOutput", numbers(1, 4, 2, 2), channels=3),
    blocked("Conv", numbers(1, 1, 3, 3), numbers(16, 1, 2, 2), numbers(16), activation="Tanh"),
    blocked("MaxPool", SPREAD, kernel_shape=(2, 2)),
    blocked("AveragePool", IMAGE, kernel_shape=(2, 2)),
    blocked("GlobalMaxPool", SPREAD),
    blocked("GlobalAveragePool", IMAGE),
    blocked("Upsample", IMAGE, scales=(1, 1, 2, 2)),
]
"""Operators of files that ONNX Runtime has optimised."""

QUANTIZED_WEIGHTS = [
    contrib(
        "QMoE",
        numbers(2, 4),
        apart(2, 2),
        np.arange(24, dtype=np.uint8).reshape(2, 6, 2),
        numbers(2, 6),
        None,
        np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
        numbers(2, 4),
        k=1,
        expert_weight_bits=4,
    ),
    contrib(
        "MatMulNBits",
        numbers(2, 16),
        np.arange(16, dtype=np.uint8).reshape(2, 1, 8),
        numbers(2),
        K=16,
        N=2,
        bits=4,
        block_size=16,
    ),
    contrib(
        "MatMulBnb4", numbers(2, 16), np.arange(16, dtype=np.uint8), numbers(2), K=16, N=2, block_size=16, quant_type=1
    ),
    contrib(
        "GatherBlockQuantized", np.arange(16, dtype=np.uint8).reshape(2, 8), ints(1, 0), numbers(2, 1), block_size=16
    ),
]

SINGLE = [
    ml("Scaler", M, offset=(0.1, 0.2, 0.3), scale=(2.0, 3.0, 4.0), order=1),
    *(ml("Normalizer", POSITIVE, norm=norm, order=1) for norm in ("L1", "L2", "MAX")),
    ml("Imputer", M, imputed_value_floats=(0.5,), replaced_value_float=9.0, order=1),
    ml("FeatureVectorizer", M, POSITIVE, inputdimensions=(3, 3), order=1),
    *(
        ml(
            "SVMRegressor",
            M,
            coefficients=(0.7, -0.4),
            support_vectors=(0.1, 0.2, 0.3, -0.5, 0.4, 0.9),
            kernel_type=kernel,
            kernel_params=(0.5, 0.1, 3.0),
            rho=(0.2,),
            n_supports=2,
            order=1,
        )
        for kernel in ("LINEAR", "RBF", "POLY", "SIGMOID")
    ),
    made(
        "ai.onnx.ml::SVMClassifier",
        lambda b, x: b.apply(
            find("SVMClassifier", ML),
            x,
            coefficients=(0.7, -0.4),
            support_vectors=(0.1, 0.2, 0.3, -0.5, 0.4, 0.9),
            vectors_per_class=(1, 1),
            kernel_type="RBF",
            kernel_params=(0.5, 0.1, 3.0),
            rho=(0.2,),
            classlabels_ints=(0, 1),
            outputs=2,
        )[1],
        M,
        order=1,
        ort=False,
    ),
    ml("LinearRegressor", M, coefficients=(0.5, -1.0, 2.0), intercepts=(0.1,), order=1),
    made(
        "ai.onnx.ml::LinearClassifier",
        lambda b, x: b.apply(
            find("LinearClassifier", ML),
            x,
            coefficients=(0.5, -1.0, 2.0, 1.0, 0.3, -0.7),
            intercepts=(0.1, 0.2),
            classlabels_ints=(0, 1),
            post_transform="SOFTMAX",
            outputs=2,
        )[1],
        M,
        order=1,
        ort=False,
    ),
]

CLASSICAL = [ml("ArrayFeatureExtractor", M, ints(2, 0)), *(replace(problem, is_single=True) for problem in SINGLE)]

OPTIMIZERS = [
    made(
        f"{TRAINING}::Momentum",
        lambda b, r, x, g, v: b.apply(
            find("Momentum", TRAINING),
            r,
            b.constant(np.array(1)),
            x,
            g,
            v,
            alpha=0.9,
            beta=1.0,
            mode="standard",
            norm_coefficient=0.01,
            outputs=2,
        )[0],
        np.array(0.1),
        M,
        numbers(2, 3),
        POSITIVE,
        order=1,
        ort=False,
    ),
    made(
        f"{TRAINING}::Adagrad",
        lambda b, r, x, g, h: b.apply(find("Adagrad", TRAINING), r, b.constant(np.array(1)), x, g, h, outputs=2)[0],
        np.array(0.1),
        M,
        MIXED,
        POSITIVE,
        order=1,
        ort=False,
    ),
    made(
        f"{TRAINING}::Adam",
        lambda b, r, x, g, v, h: b.apply(find("Adam", TRAINING), r, b.constant(np.array(1)), x, g, v, h, outputs=3)[0],
        np.array(0.1),
        M,
        MIXED,
        M,
        POSITIVE,
        order=1,
        ort=False,
    ),
]

PROBLEMS = [
    *UNARY,
    *ARITHMETIC,
    *REDUCTIONS,
    *PRODUCTS,
    *WINDOWS,
    *SAMPLING,
    *NORMALIZATION,
    *INDEXING,
    *MOVEMENT,
    *LOSSES,
    *SIGNALS,
    *CONTRIB,
    *LAYOUTS,
    *QUANTIZED_WEIGHTS,
    *CLASSICAL,
    *OPTIMIZERS,
]

ELSEWHERE = {
    "If": "test_control",
    "Loop": "test_control",
    "Scan": "test_control",
    "SequenceMap": "test_control",
    "RNN": "test_control",
    "GRU": "test_control",
    "LSTM": "test_control",
    "SequenceAt": "test_control",
    "SequenceConstruct": "test_control",
    "SequenceErase": "test_control",
    "SequenceInsert": "test_control",
    "SplitToSequence": "test_control",
    "ConcatFromSequence": "test_control",
    "Optional": "test_control",
    "OptionalGetElement": "test_control",
}
"""Operators whose gradients other files try."""
