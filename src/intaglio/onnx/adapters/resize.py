"""Older versions of Resize, and Upsample, which it replaced."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


@adapts("Upsample", before=7)
def upsample_1(b: Builder, X: Value, *, height_scale: float, mode: str = "nearest", width_scale: float) -> Value:
    return upsample_9(b, X, _factors(b, (1.0, 1.0, height_scale, width_scale)), mode=mode)


@adapts("Upsample", since=7, before=9)
def upsample_7(b: Builder, X: Value, *, mode: str = "nearest", scales: tuple[float, ...]) -> Value:
    return upsample_9(b, X, _factors(b, scales), mode=mode)


@adapts("Upsample", since=9, before=11)
def upsample_9(b: Builder, X: Value, scales: Value, *, mode: str = "nearest") -> Value:
    """Upsample never scaled down, so that rounding down was its only rule; "bilinear" is the oldest spelling."""
    return b.Resize(
        X,
        None,
        scales,
        mode="linear" if mode in ("linear", "bilinear") else mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _factors(b: Builder, factors: tuple[float, ...]) -> Value:
    return b.constant(np.asarray(factors, np.float32))


@adapts("Resize", since=10, before=11)
def resize_10(b: Builder, X: Value, scales: Value, *, mode: str = "nearest") -> Value:
    """In opset 10 the nearest element was found by rounding up along an axis that shrinks and down along others."""
    options: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "mode": mode}
    if mode != "nearest":
        return b.Resize(X, None, scales, **options)
    shrinking, growing = _split_factors(b, scales)
    smaller = b.Resize(X, None, shrinking, nearest_mode="ceil", **options)
    return b.Resize(smaller, None, growing, nearest_mode="floor", **options)


def _split_factors(b: Builder, scales: Value) -> tuple[Value, Value]:
    """Factors that shrink or keep, and factors that grow or keep; constants, where the factors are, tell the sizes."""
    if scales.constant is not None:
        one = np.float32(1)
        return b.constant(np.minimum(scales.constant, one)), b.constant(np.maximum(scales.constant, one))
    keep = _factors(b, (1.0,))
    return b.Min(scales, keep), b.Max(scales, keep)


@adapts("Resize", since=11, before=13)
def resize_11(
    b: Builder,
    X: Value,
    roi: Value,
    scales: Value,
    sizes: Value | None = None,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:
    """tf_half_pixel_for_nn, which only these versions have, is half_pixel moved by half an element."""
    if coordinate_transformation_mode == "tf_half_pixel_for_nn":
        if mode != "nearest":
            raise UnsupportedError(f"Resize with tf_half_pixel_for_nn and mode {mode!r}, expected nearest")
        if nearest_mode in ("ceil", "round_prefer_ceil"):
            return _gather_moved(b, X, scales, sizes, nearest_mode)
        moved = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
        coordinate_transformation_mode, nearest_mode = "half_pixel", moved.get(nearest_mode, nearest_mode)
    return b.Resize(
        X,
        roi,
        scales,
        sizes,
        coordinate_transformation_mode=coordinate_transformation_mode,
        cubic_coeff_a=cubic_coeff_a,
        exclude_outside=exclude_outside,
        extrapolation_value=extrapolation_value,
        mode=mode,
        nearest_mode=nearest_mode,
    )


def _gather_moved(b: Builder, X: Value, scales: Value, sizes: Value | None, nearest_mode: str) -> Value:
    """Each axis gathered at (i + 0.5) / scale rounded up, or to the nearest; an axis that keeps its size stays."""
    lengths = b.Shape(b.Resize(X, None, scales if sizes is None else None, sizes))
    result = X
    for axis in range(X.rank):
        length, size = (b.Gather(shape, b.constant(axis)) for shape in (lengths, b.Shape(X)))
        ratio = b.Cast(length, to=FLOAT32.number) / b.Cast(size, to=FLOAT32.number)
        scale = b.Gather(scales, b.constant(axis)) if sizes is None else ratio
        steps = b.Range(b.constant(0), length, b.constant(1))
        place = (b.Cast(steps, to=FLOAT32.number) + 0.5) / scale
        place = b.Ceil(place) if nearest_mode == "ceil" else b.Floor(place + 0.5)
        index = b.Min(b.Cast(place, to=INT64.number), size - 1)
        result = b.Gather(result, b.Where(b.Equal(scale, _factors(b, (1.0,))), steps, index), axis=axis)
    return result
