"""Resize: interpolation one axis after the other."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from intaglio.errors import OperatorError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import STRING, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows, Tensor
from intaglio.ir.requirements import need_equal
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import check_size, integers, list_length, resolve_axes, sizes_of, wide
from intaglio.ops.shared.operand import cast, per_channel, wide_dtype

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
NEAREST = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


LENGTH_LIMIT = 1 << 62
"""Resized sizes are less than this."""


@dataclass(frozen=True)
class Axis:
    """How one axis is resized: its sizes, the scale that coordinates are divided by, and the region of interest.

    `length` is the resized size before it is rounded down, `is_exact` tells that the scale is the ratio of the sizes.
    """

    size: int
    resized: int
    scale: float
    length: float
    is_exact: bool
    start: float = 0.0
    end: float = 1.0


class Resize(Op):
    """The tensor resampled to other sizes, given as factors (`scales`) or as such (`sizes`).

    With aligned corners and scales, the last corner is that of the size before it is rounded down, as ONNX's own tests
    have it; ONNX Runtime takes the rounded size there.
    """

    keeps_rows = Rows.BY_AXES

    takes_complex_as_pairs = True
    repeats = True
    antialias: int = 0
    axes: tuple[int, ...] | None = None
    coordinate_transformation_mode: str = "half_pixel"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    keep_aspect_ratio_policy: str = "stretch"
    mode: str = "nearest"
    nearest_mode: str = "round_prefer_floor"

    def infer(
        self, X: Value, roi: Value | None = None, scales: Value | None = None, sizes: Value | None = None
    ) -> TensorType:
        self._check_modes()
        scales, sizes = _present(scales), _present(sizes)
        if (scales is None) == (sizes is None):
            raise ShapeError("expected either scales or sizes")
        if X.dtype == STRING and self.mode != "nearest":
            raise ShapeError(f"strings cannot be interpolated: mode {self.mode!r}, expected nearest")
        if X.tensor.shape is None:
            return X.tensor
        axes = resolve_axes(range(X.rank) if self.axes is None else self.axes, X.rank)
        given = sizes if scales is None else scales
        if given is not None:
            count = list_length(given)
            need_equal(count, len(axes), f"{count} scales or sizes for {len(axes)} axes")
        if roi is not None and self.coordinate_transformation_mode == "tf_crop_and_resize":
            need_equal(list_length(roi), 2 * len(axes), f"{list_length(roi)} numbers in roi for {len(axes)} axes")
        result = list(X.shape)
        for axis, size in zip(axes, self._sizes([X.shape[axis] for axis in axes], scales, sizes), strict=True):
            result[axis] = size
        return X.tensor.with_shape(tuple(result))

    def _check_modes(self) -> None:
        allowed = {
            "mode": ("nearest", "linear", "cubic"),
            "coordinate_transformation_mode": COORDINATES,
            "nearest_mode": tuple(NEAREST),
            "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ShapeError(f"{name} {getattr(self, name)!r} is none of {', '.join(values)}")

    def _sizes(self, given: list[Dim], scales: Value | None, sizes: Value | None) -> list[Dim]:
        """The sizes of the resized axes as far as they are known; a region of interest does not change them."""
        wanted = sizes_of(sizes)
        if wanted is not None and self.keep_aspect_ratio_policy == "stretch":
            return wanted
        static = [size for size in given if isinstance(size, int)]
        numbers = [item for item in wanted or () if isinstance(item, int)]
        if wanted is not None and len(static) == len(numbers) == len(given):
            return list(self._keep_aspect_ratio(static, numbers)[0])
        if scales is None or scales.constant is None:
            return [dims.fresh() for _ in given]
        factors = np.asarray(scales.constant, np.float32)
        return [scaled(size, factor) for size, factor in zip(given, factors, strict=True)]

    def _keep_aspect_ratio(self, given: list[int], wanted: list[int]) -> tuple[list[int], list[float]]:
        """The sizes that keep the aspect ratio within the wanted ones, and the scales."""
        ratios = [b / a if a else 0.0 for a, b in zip(given, wanted, strict=True)]
        if self.keep_aspect_ratio_policy == "stretch":
            return wanted, ratios
        scale = min(ratios) if self.keep_aspect_ratio_policy == "not_larger" else max(ratios)
        return [int(np.floor(scale * size + 0.5)) for size in given], [scale] * len(given)

    def reference(
        self, X: Array, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None
    ) -> Array:
        plan = self._plan(X.shape, roi, scales, sizes)
        target = check_size([plan[i].resized if i in plan else size for i, size in enumerate(X.shape)], X.dtype)
        output = X if self.mode == "nearest" else wide(X).astype(np.complex128 if X.dtype.kind == "c" else np.float64)
        outside: list[Array] = []
        for axis, step in plan.items():
            if step.resized == 0:
                return np.zeros(target, X.dtype)
            if step.size == 0:
                raise OperatorError(f"axis {axis} of size 0 cannot be resized to {step.resized}")
            places = self._nearest_coordinates(step) if self.mode == "nearest" else self._coordinates(step)
            outside.append(np.zeros(step.resized, bool))
            if self.coordinate_transformation_mode == "tf_crop_and_resize":
                outside[-1] = (places < 0) | (places > step.size - 1)
            output = self._resample(output, axis, step, places)
        return self._finish(output, list(plan), outside, X.dtype)

    def _plan(
        self, shape: tuple[int, ...], roi: Array | None, scales: Array | None, sizes: Array | None
    ) -> dict[int, Axis]:
        axes = resolve_axes(range(len(shape)) if self.axes is None else self.axes, len(shape), OperatorError)
        given = [shape[axis] for axis in axes]
        if scales is not None and scales.size:
            factors = [float(factor) for factor in scales]
            if any(not 0 < factor < np.inf for factor in factors):
                raise OperatorError(f"the scales {factors} must be above 0")
            lengths = [float(np.float32(size) * factor) for size, factor in zip(given, scales, strict=True)]
            resized = [int(scaled(size, factor)) for size, factor in zip(given, scales, strict=True)]
        else:
            resized, factors = self._keep_aspect_ratio(given, integers(np.zeros(0) if sizes is None else sizes))
            lengths = [float(size) for size in resized]
        if len(resized) != len(axes):
            raise OperatorError(f"{len(resized)} scales or sizes for {len(axes)} axes")
        crop = [0.0] * len(axes) + [1.0] * len(axes)
        if roi is not None and roi.size and self.coordinate_transformation_mode == "tf_crop_and_resize":
            crop = [float(item) for item in roi]
        ends = list(zip(crop[: len(axes)], crop[len(axes) :], strict=True))
        is_exact = (scales is None or not scales.size) and self.keep_aspect_ratio_policy == "stretch"
        axes_of = zip(given, resized, factors, lengths, ends, strict=True)
        return {axis: Axis(*item[:4], is_exact, *item[4]) for axis, item in zip(axes, axes_of, strict=True)}

    def _coordinates(self, axis: Axis) -> Array:
        """Where each resized element lies in the original axis; in float32, whose rounding decides at ties."""
        x, half, one = np.arange(axis.resized, dtype=np.float32), np.float32(0.5), np.float32(1)
        size, resized, scale = np.float32(axis.size), np.float32(axis.resized), np.float32(axis.scale)
        start, end = np.float32(axis.start), np.float32(axis.end)
        centred = (x + half) / scale - half
        match self.coordinate_transformation_mode:
            case "asymmetric":
                return x / scale
            case "align_corners":
                return x * (size - one) / (np.float32(axis.length) - one) if resized > 1 else x * 0
            case "tf_crop_and_resize":
                if resized > 1:
                    return start * (size - one) + x * (end - start) * (size - one) / (resized - one)
                return x * 0 + half * (start + end) * (size - one)
            case "pytorch_half_pixel":
                return centred if resized > 1 else x * 0
            case "half_pixel_symmetric":
                return size / 2 * (one - resized / (scale * size)) + centred
            case _:
                return centred

    def _nearest_coordinates(self, axis: Axis) -> Array:
        """The same in double precision, so that halves and whole numbers come out exactly where sizes are given.

        A scale is a rounded number, and so is a region of interest: their places are rounded likewise.
        """
        x, size, resized, scale = (
            np.arange(axis.resized, dtype=np.float64),
            axis.size,
            axis.resized,
            float(np.float32(axis.scale)),
        )

        def back(places: Array) -> Array:
            return places * size / resized if axis.is_exact else places / scale

        match self.coordinate_transformation_mode:
            case "asymmetric":
                places = back(x)
            case "align_corners":
                places = x * (size - 1) / (axis.length - 1) if resized > 1 else x * 0
            case "tf_crop_and_resize":
                start, end = float(np.float32(axis.start)), float(np.float32(axis.end))
                places = x * 0 + 0.5 * (start + end) * (size - 1)
                if resized > 1:
                    places = start * (size - 1) + x * (end - start) * (size - 1) / (resized - 1)
                return places.astype(np.float32).astype(np.float64)
            case "pytorch_half_pixel":
                places = back(x + 0.5) - 0.5 if resized > 1 else x * 0
            case "half_pixel_symmetric":
                moved = 0.0 if axis.is_exact else size / 2 * (1 - resized / (scale * size))
                places = moved + (back(x + 0.5) - 0.5)
            case _:
                places = back(x + 0.5) - 0.5
        return places if axis.is_exact else places.astype(np.float32).astype(np.float64)

    def _resample(self, data: Array, axis: int, step: Axis, places: Array) -> Array:
        if self.mode == "nearest":
            index = np.clip(NEAREST[self.nearest_mode](places), 0, max(step.size - 1, 0)).astype(np.int64)
            return np.take(data, index, axis=axis)
        if step.size == step.resized and np.array_equal(places, np.arange(step.size)):
            return data
        near, weights = self._weights(step, places)
        column = (-1,) + (1,) * (data.ndim - 1 - axis)
        total = np.zeros((*data.shape[:axis], step.resized, *data.shape[axis + 1 :]), data.dtype)
        for index, weight in zip(near.T, weights.T, strict=True):
            taken, scale = np.take(data, index, axis=axis), weight.reshape(column)
            # Where the weight is 0 nothing is added: an infinite element there must not make a NaN.
            total += np.multiply(taken, scale, out=np.zeros_like(taken), where=scale != 0)
        return total

    def _weights(self, step: Axis, places: Array) -> tuple[Array, Array]:
        """For each resized element the elements near it, and their weights, whose sum is 1."""
        places = places.astype(np.float64)
        stretch = max(1.0, 1 / step.scale) if self.antialias else 1.0
        reach = (2 if self.mode == "cubic" else 1) * stretch
        near = np.floor(places)[:, None] + np.arange(-np.ceil(reach), np.ceil(reach) + 2)
        weights = self._kernel(np.abs(near - places[:, None]) / stretch)
        if self.exclude_outside:
            weights = np.where((near < 0) | (near >= step.size), 0, weights)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
        return np.clip(near, 0, step.size - 1).astype(np.int64), weights

    def _kernel(self, distance: Array) -> Array:
        """The weight of an element at some distance: a tent, or Keys' cubic."""
        if self.mode == "linear":
            return np.clip(1 - distance, 0, None)
        a, t = self.cubic_coeff_a, distance
        inner = ((a + 2) * t - (a + 3)) * t * t + 1
        outer = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return np.where(t <= 1, inner, np.where(t < 2, outer, 0))

    def _finish(self, output: Array, axes: list[int], outside: list[Array], dtype: np.dtype[Any]) -> Array:
        for axis, mask in zip(axes, outside, strict=True):
            if mask.any():
                output = output.copy()
                output[(slice(None),) * axis + (mask,)] = self.extrapolation_value
        element = from_numpy(dtype)
        if self.mode == "nearest" or not element.is_integer:
            return output.astype(dtype)
        limits = np.iinfo(dtype)
        whole = np.rint(output) if self.antialias else np.trunc(output)
        return np.clip(whole, limits.min, limits.max).astype(dtype)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Any, ...]:
        """Resizing an axis is a matrix product, and its gradient one with the transposed matrix.

        With a region that is no constant, linear interpolation is differentiated in its smooth form.
        """
        given: list[Value | None] = [*inputs, None, None, None][:4]
        x, roi, scales, sizes = given[0], given[1], *map(_present, given[2:])
        assert x is not None
        is_cropped = self.coordinate_transformation_mode == "tf_crop_and_resize"
        moves = roi is not None and roi.constant is None and is_cropped and self.mode != "nearest"
        if moves and self._is_tent and x.dtype.is_float:
            return NotImplemented
        axes = resolve_axes(range(x.rank) if self.axes is None else self.axes, x.rank)
        plan = self._known_plan(x, roi, scales, sizes)
        bar = output_bars[0]
        for i, axis in enumerate(axes):
            if plan is None:
                matrix = self._matrix_in_run(
                    b, x, axis, [_picked(b, value, i, len(axes)) for value in (roi, scales, sizes)]
                )
                bar = _contracted(b, bar, matrix, axis)
            else:
                bar = self._axis_bar(b, bar, plan[axis], axis)
        by_region = UnsupportedError(
            "its gradient by the region is known for linear interpolation only, without antialias"
        )
        by_scale = UnsupportedError("it has no gradient by its scales, which decide the size of the result; give sizes")
        moved = None if self.mode == "nearest" else by_scale
        return (bar, by_region if moves else None, moved, None)[: len(inputs)]

    @property
    def _is_tent(self) -> bool:
        return self.mode == "linear" and not self.antialias and self.keep_aspect_ratio_policy == "stretch"

    def smooth_form(self, b: Builder, X: Value, roi: Value, scales: Value | None = None, sizes: Any = None) -> Value:
        """Linear interpolation of a region: a product along each axis with weights that are tents around places."""
        axes = resolve_axes(range(X.rank) if self.axes is None else self.axes, X.rank)
        shape = b.Shape(b.add(self, [X, roi, scales, sizes][: 3 if sizes is None else 4])[0])
        y = cast(b, X, wide_dtype(X.dtype))
        for i, axis in enumerate(axes):
            size, resized = (b.Gather(each, b.constant(axis)) for each in (b.Shape(X), shape))
            corners = [b.Cast(b.Gather(roi, [place]), to=y.dtype.number) for place in (i, i + len(axes))]
            last, steps = (b.Cast(each - 1, to=y.dtype.number) for each in (size, resized))
            numbers = [b.Cast(_counted(b, each), to=y.dtype.number) for each in (size, resized)]
            spread = corners[0] * last + numbers[1] * (corners[1] - corners[0]) * last / b.Max(steps, 1.0)
            places = b.Where(steps > 0.0, spread, (corners[0] + corners[1]) * 0.5 * last)
            tents = b.Relu(1.0 - b.Abs(b.Unsqueeze(numbers[0], [1]) - places))
            y = _contracted(b, y, b.Transpose(tents, perm=(1, 0)), axis)
            is_inside = b.And(places >= 0.0, places <= last)
            y = b.Where(per_channel(b, is_inside, X.rank, axis), y, b.constant(self.extrapolation_value, y.dtype))
        return cast(b, y, X.dtype)

    def _known_plan(
        self, x: Value, roi: Value | None, scales: Value | None, sizes: Value | None
    ) -> dict[int, Axis] | None:
        """How the axes are resized, where that is known before the run."""
        shape = tuple(size for size in x.shape if isinstance(size, int))
        wanted = sizes_of(sizes)
        numbers = [size for size in wanted or () if isinstance(size, int)]
        is_known = len(shape) == x.rank and (wanted is None or len(numbers) == len(wanted))
        is_known = is_known and all(value is None or value.constant is not None for value in (roi, scales))
        if not is_known or (scales is None and wanted is None):
            return None
        region, factors = (None if value is None else value.constant for value in (roi, scales))
        return self._plan(shape, region, factors, None if wanted is None else np.array(numbers))

    def _axis_bar(self, b: Builder, bar: Value, step: Axis, axis: int) -> Value:
        places = self._coordinates(step)
        if step.size == step.resized and np.array_equal(places, np.arange(step.size)):
            return bar
        matrix = self._resample(np.eye(step.size), 1, step, places)
        if self.coordinate_transformation_mode == "tf_crop_and_resize":
            matrix = np.where((places < 0) | (places > step.size - 1), 0, matrix)
        copies = step.resized // max(step.size, 1)
        if copies > 1 and np.array_equal(matrix, np.repeat(np.eye(step.size), copies, axis=1)):
            pair = b.constant(np.array([step.size, copies]))
            parts = b.Concat(b.Shape(bar, end=axis), pair, b.Shape(bar, start=axis + 1), axis=0)
            return b.ReduceSum(b.Reshape(bar, parts, allowzero=1), [axis + 1], keepdims=0)
        return _contracted(b, bar, b.constant(matrix, bar.dtype), axis)

    def _matrix_in_run(self, b: Builder, x: Value, axis: int, parameters: list[Value | None]) -> Value:
        """The unit vectors of an axis, resized."""
        if self.keep_aspect_ratio_policy != "stretch":
            raise UnsupportedError("its gradient with an aspect ratio that is kept needs sizes known before the run")
        size = b.Shape(x, start=axis, end=axis + 1)
        square = b.ConstantOfShape(b.Concat(size, size, axis=0), value=Tensor(np.zeros(1, x.dtype.numpy)))
        op = self.changed(axes=(1,), extrapolation_value=0.0)
        (matrix,) = b.add(op, [b.EyeLike(square), *parameters])
        return matrix


def _counted(b: Builder, count: Value) -> Value:
    """The numbers from 0 up to a count."""
    return b.Range(b.constant(0, count.dtype), count, b.constant(1, count.dtype))


def _present(value: Value | None) -> Value | None:
    """The value unless it is an empty tensor, which older models give for an absent input."""
    return None if value is None or value.tensor.shape == (0,) else value


def scaled(size: Dim, factor: Any) -> Dim:
    """floor(size * factor) in float32, as a dimension; a fresh symbol where it has no exact form.

    >>> scaled(dims.symbol("N"), np.float32(2.5))
    floordiv(5*N, 2)
    """
    if not 0 < float(factor) < np.inf:
        raise ShapeError(f"the scale {factor:g} must be above 0 and finite")
    if isinstance(size, int):
        length = np.float32(size) * np.float32(factor)
        if length >= LENGTH_LIMIT:
            raise ShapeError(f"the scale {factor:g} makes a size of {length:g} from {size}, which is far too large")
        return int(np.floor(length))
    exact = Fraction(float(factor))
    if exact.denominator > 64:
        return dims.fresh()
    return dims.floordiv(size * exact.numerator, exact.denominator)


def _picked(b: Builder, value: Value | None, position: int, count: int) -> Value | None:
    """What a parameter says of one axis: one number of scales and sizes, two of a region of interest."""
    if value is None:
        return None
    is_region = value.tensor.shape == (2 * count,) and count > 0
    return b.Gather(value, [position, position + count] if is_region else [position])


def _contracted(b: Builder, bar: Value, matrix: Value, axis: int) -> Value:
    """The gradient times the transposed matrix along an axis."""
    order = [*(i for i in range(bar.rank) if i != axis), axis]
    product = b.Transpose(bar, perm=tuple(order)) @ b.Transpose(matrix, perm=(1, 0))
    return b.Transpose(product, perm=tuple(order.index(i) for i in range(bar.rank)))
