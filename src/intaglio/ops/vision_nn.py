"""Sampling of images: grids, deformed convolution, regions of interest, and blocks put back into an image."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from intaglio.errors import LimitError, OperatorError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import FLOAT32, FLOAT64, INT64, STRING, DType, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows
from intaglio.ir.requirements import need_equal, need_multiple
from intaglio.ir.types import TensorType
from intaglio.ops.cast import convert
from intaglio.ops.convolution import check_kernel_shape
from intaglio.ops.shared import sampling
from intaglio.ops.shared.indices import (
    check_indices,
    check_size,
    integers,
    known,
    known_integers,
    known_length,
    list_length,
    same_dtype,
    zero,
)
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import (
    along,
    cast,
    known_shape,
    like,
    require_equal,
    require_float,
    require_shape,
    wide,
    wide_dtype,
)
from intaglio.ops.shared.products import matrix_product
from intaglio.ops.shared.window import Window, resolve_windows


def reflect(place: Array, low: float, high: float) -> Array:
    """Coordinates mirrored at both ends of an interval until they lie inside."""
    span = high - low
    if span <= 0:
        return np.full_like(place, low)
    rest = np.mod(place - low, 2 * span)
    return low + np.where(rest > span, 2 * span - rest, rest)


class GridSample(Op):
    """X interpolated at the places of a grid, whose coordinates run from -1 to 1 along each axis, innermost first."""

    keeps_rows = Rows.FIRST

    takes_complex_as_pairs = True
    align_corners: int = 0
    mode: str = "linear"
    padding_mode: str = "zeros"

    def infer(self, X: Value, grid: Value) -> TensorType:
        require_float(grid)
        if self.mode not in ("linear", "nearest", "cubic"):
            raise ShapeError(f"mode is {self.mode!r}, it must be linear, nearest or cubic")
        if self.padding_mode not in ("zeros", "border", "reflection"):
            raise ShapeError(f"padding_mode is {self.padding_mode!r}, it must be zeros, border or reflection")
        if X.dtype == STRING and self.mode != "nearest":
            raise ShapeError(f"strings cannot be interpolated: mode {self.mode!r}, expected nearest")
        data, places = known_shape(X, least=3), known_shape(grid, least=3)
        if data is None or places is None:
            return X.tensor.with_shape(None)
        if len(data) != len(places):
            raise ShapeError(f"{X.name} has rank {len(data)} but {grid.name} has rank {len(places)}")
        require_equal(data[0], places[0], "the batches of X and grid")
        require_equal(places[-1], len(data) - 2, "the last axis of grid and the spatial axes of X")
        return X.tensor.with_shape((*data[:2], *places[1:-1]))

    def reference(self, X: Array, grid: Array) -> Array:
        spatial = X.shape[2:]
        x = X if X.dtype.kind == "c" or self.mode == "nearest" else widen(X).astype(np.float64)
        points = widen(grid)
        result = np.full((*X.shape[:2], *grid.shape[1:-1]), zero(x.dtype), x.dtype)
        for n in range(X.shape[0]):
            places = [self._place(points[n, ..., -1 - axis], size) for axis, size in enumerate(spatial)]
            result[n] = self._sample(x[n], places)
        return result if result.dtype == X.dtype else convert_like(result, X)

    def _place(self, position: Array, size: int) -> Array:
        """The coordinate in pixels of a position in [-1, 1]; folded back into the image where the mode says so."""
        if self.align_corners:
            place = (position + 1) / 2 * (size - 1)
        else:
            place = ((position + 1) * size - 1) / 2
        return place if self.mode == "cubic" else self._folded(place, size)

    def _folded(self, place: Array, size: int) -> Array:
        if self.padding_mode == "border":
            return np.clip(place, 0, size - 1)
        if self.padding_mode == "reflection":
            ends = (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)
            return reflect(place, *ends)
        return place

    def _sample(self, image: Array, places: Sequence[Array]) -> Array:
        if self.mode == "nearest":
            return self._pixels(image, [np.rint(place) for place in places])
        neighbours = [self._neighbours(place) for place in places]
        total = np.zeros((image.shape[0], *places[0].shape), image.dtype)
        for corner in product(*neighbours):
            weight = np.prod(np.broadcast_arrays(*(share for _, share in corner)), axis=0)
            total += np.where(weight == 0, 0, weight * self._pixels(image, [index for index, _ in corner]))
        return total

    def _neighbours(self, place: Array) -> list[tuple[Array, Array]]:
        """The pixels along one axis that take part, with their weights."""
        base = np.floor(place)
        rest = place - base
        if self.mode == "linear":
            return [(base, 1 - rest), (base + 1, rest)]
        return [(base + step, _cubic(np.abs(rest - step))) for step in (-1, 0, 1, 2)]

    def _pixels(self, image: Array, indices: Sequence[Array]) -> Array:
        """The image at whole coordinates, by the padding mode where they are outside."""
        is_inside = np.ones(indices[0].shape, np.bool_)
        places: list[Array] = []
        for index, size in zip(indices, image.shape[1:], strict=True):
            folded = self._folded(index, size)
            is_inside = is_inside & (folded > -1) & (folded < size)
            places.append(np.clip(np.nan_to_num(folded), 0, size - 1).astype(np.int64))
        if self.padding_mode != "zeros":
            return image[(slice(None), *places)]
        return np.where(is_inside, image[(slice(None), *places)], zero(image.dtype))

    def smooth_form(self, b: Builder, X: Value, grid: Value) -> Value:
        """Weighted sums of pixels; where the place is rounded, the pixel itself, which does not depend on the grid."""
        axes, points = X.rank - 2, wide(b, grid)
        pixels = sampling.Pixels(b, X)
        batch = b.Reshape(sampling.count_up(b, sampling.size_of(b, grid, 0)), [-1, *[1] * axes])
        places: list[Value] = []
        for axis, size in enumerate(pixels.sizes):
            position = b.Squeeze(b.Gather(points, [axes - 1 - axis], axis=axes + 1), [axes + 1])
            places.append(self._place_value(b, position, size))
        fold = None if self.padding_mode == "zeros" else partial(self._folded_value, b)
        if self.mode == "nearest":
            ones = b.constant(1, places[0].dtype)
            near = [[(b.Round(place), ones)] for place in places]
        else:
            near = [(sampling.linear if self.mode == "linear" else sampling.cubic)(b, place) for place in places]
        channels_last = sampling.sample(b, pixels, batch, near, fold)
        return cast(b, b.Transpose(channels_last, perm=(0, axes + 1, *range(1, axes + 1))), X.dtype)

    def _place_value(self, b: Builder, position: Value, size: Value) -> Value:
        """Like `_place`, in operators."""
        count = cast(b, size, position.dtype)
        aligned = (position + 1) / 2 * (count - 1) if self.align_corners else ((position + 1) * count - 1) / 2
        if self.mode == "cubic" or self.padding_mode == "zeros":
            return aligned
        folded, last = self._folded_value(b, aligned, size), cast(b, size - 1, position.dtype)
        # places at and beyond the outer pixels do not depend on the grid, the outer pixels included: PyTorch's way
        first = b.constant(0, position.dtype)
        return b.Where(folded <= first, first, b.Where(folded >= last, last, folded))

    def _folded_value(self, b: Builder, place: Value, size: Value) -> Value:
        """Like `_folded`, in operators."""
        last = cast(b, size - 1, place.dtype)
        if self.padding_mode == "border":
            return b.Clip(place, b.constant(0, place.dtype), last)
        if self.padding_mode == "zeros":
            return place
        low = b.constant(0.0 if self.align_corners else -0.5, place.dtype)
        span = last - low * 2
        period = b.Max(span * 2, 1e-30)
        rest = place - low - b.Floor((place - low) / period) * period
        return b.Where(b.Greater(span, 0.0), low + b.Where(b.Greater(rest, span), span * 2 - rest, rest), low)


def _cubic(distance: Array) -> Array:
    """The weight of cubic convolution with its free parameter at -0.75, which single precision would blur."""
    a, distance = -0.75, distance.astype(np.float64)
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance >= 2, 0, far))


def convert_like(result: Array, operand: Array) -> Array:
    """The result in the operand's type; towards zero for integers."""
    return convert(result, from_numpy(operand.dtype))


class AffineGrid(Op):
    """The grid for GridSample that a batch of affine maps makes."""

    align_corners: int = 0

    def infer(self, theta: Value, size: Value) -> TensorType:
        require_float(theta)
        maps, sizes = known_shape(theta, rank=3), known(size)
        batch: Dim = dims.fresh() if maps is None else maps[0]
        if sizes is not None:
            if len(sizes) not in (4, 5):
                raise ShapeError(f"size has {len(sizes)} numbers, 4 or 5 are needed")
            return theta.tensor.with_shape((batch, *sizes[2:], len(sizes) - 2))
        axes = self._axes(theta, size)
        if axes is not None:
            count = list_length(size)
            need_equal(count, axes + 2, f"size has {count} numbers, {axes + 2} are needed for maps of {axes} axes")
        return theta.tensor.with_shape(None if axes is None else (batch, *(dims.fresh() for _ in range(axes)), axes))

    def reference(self, theta: Array, size: Array) -> Array:
        sizes = integers(size)[2:]
        if len(sizes) not in (2, 3) or theta.shape[1:] != (len(sizes), len(sizes) + 1):
            raise OperatorError(f"maps of shape {list(theta.shape)} do not fit a grid of {len(sizes)} axes")
        check_size((theta.shape[0], *sizes, len(sizes)), theta.dtype)
        axes = [self._positions(count) for count in sizes]
        mesh = np.meshgrid(*axes, indexing="ij")[::-1]
        points = np.stack((*mesh, np.ones(sizes)), axis=-1).astype(widen(theta).dtype)
        grid = np.einsum("...k,njk->n...j", points, widen(theta))
        return like(grid, theta)

    def _positions(self, count: int) -> Array:
        place = np.arange(count, dtype=np.float64)
        if self.align_corners:
            return place * 2 / (count - 1) - 1 if count != 1 else place
        return (place * 2 + 1) / max(count, 1) - 1

    @staticmethod
    def _axes(theta: Value, size: Value) -> int | None:
        """The number of axes of the grid, where the maps or the length of the list of sizes tell it."""
        maps, count = known_shape(theta, rank=3), known_length(size)
        if maps is not None and isinstance(maps[1], int):
            return maps[1]
        return None if count is None else count - 2

    def expand(self, b: Builder, theta: Value, size: Value) -> Value:
        axes = self._axes(theta, size)
        if axes is None:
            raise ShapeError("the number of axes of the grid must be known before the run")
        shape = b.Reshape(b.Slice(size, [2], [2 + axes], [0]), [axes])
        rows: list[Value] = []
        for axis in reversed(range(axes)):
            count = b.Squeeze(b.Gather(shape, [axis]))
            place = cast(b, b.Range(b.constant(0, INT64), count, b.constant(1, INT64)), FLOAT64)
            steps = cast(b, count - 1 if self.align_corners else count, FLOAT64)
            position = place * 2 / steps - 1 if self.align_corners else (place * 2 + 1) / steps - 1
            position = b.Where(b.Equal(steps, b.constant(0, FLOAT64)), place, position)
            position = b.Reshape(position, [-1 if i == axis else 1 for i in range(axes)])
            rows.append(b.Reshape(b.Expand(position, shape), [-1]))
        ones = b.Expand(b.constant(1, FLOAT64), b.Shape(rows[0]))
        points = cast(b, b.Concat(*(b.Unsqueeze(row, [0]) for row in (*rows, ones)), axis=0), wide(b, theta).dtype)
        grid = b.Transpose(wide(b, theta) @ points, perm=(0, 2, 1))
        sizes = b.Concat(b.Shape(theta, start=0, end=1), shape, b.constant(np.array([axes])), axis=0)
        return cast(b, b.Reshape(grid, sizes), theta.dtype)


class DeformConv(Op):
    """Convolution whose windows are read at offsets from their regular places, by linear interpolation."""

    keeps_rows = Rows.FIRST

    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    offset_group: int = 1
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def windows(self, spatial: Sequence[Dim], kernel: Sequence[Dim]) -> tuple[Window, ...]:
        """The windows along each spatial axis, before they are deformed."""
        return resolve_windows(spatial, kernel, self.strides, self.dilations, self.pads)

    def infer(self, X: Value, W: Value, offset: Value, B: Value | None = None, mask: Value | None = None) -> TensorType:
        require_float(X, W, offset, B, mask)
        dtype = same_dtype(X, W, offset, B, mask)
        data, weights = known_shape(X, least=3), known_shape(W, least=3)
        if data is None or weights is None:
            return TensorType(dtype, None)
        check_kernel_shape(self.kernel_shape, weights[2:])
        require_equal(data[1], weights[1] * self.group, "the channels of X and of W times group")
        outputs = tuple(window.output for window in self.windows(data[2:], weights[2:]))
        places = dims.product(weights[2:]) * self.offset_group
        require_shape(offset, (data[0], places * (len(data) - 2), *outputs))
        require_shape(mask, (data[0], places, *outputs))
        require_shape(B, (weights[0],))
        need_multiple(weights[0], self.group, f"{weights[0]} output channels cannot be split into {self.group} groups")
        need_multiple(data[1], self.offset_group, f"{data[1]} channels cannot share {self.offset_group} offset groups")
        return TensorType(dtype, (data[0], weights[0], *outputs))

    def reference(self, X: Array, W: Array, offset: Array, B: Array | None = None, mask: Array | None = None) -> Array:
        windows = self.windows(X.shape[2:], W.shape[2:])
        patches = self._patches(widen(X), windows, widen(offset), None if mask is None else widen(mask))
        batch, channels = X.shape[:2]
        outputs = [int(window.output) for window in windows]
        depth = channels // self.group * patches.shape[2]
        grouped = patches.reshape(batch, self.group, depth, int(np.prod(outputs)))
        weights = widen(W).reshape(self.group, W.shape[0] // self.group, depth)
        result = matrix_product(weights, grouped).reshape(batch, W.shape[0], *outputs)
        return like(result if B is None else result + along(widen(B), X.ndim), X)

    def _patches(self, x: Array, windows: Sequence[Window], offset: Array, mask: Array | None) -> Array:
        """[batch, channel, place in the kernel, windows]: what each window reads."""
        batch, channels, axes = x.shape[0], x.shape[1], len(windows)
        kernel = [int(window.kernel) for window in windows]
        outputs = [int(window.output) for window in windows]
        count = int(np.prod(kernel))
        moves = offset.reshape(batch, self.offset_group, count, axes, *outputs)
        masks = None if mask is None else mask.reshape(batch, self.offset_group, count, *outputs)
        share = channels // self.offset_group
        patches = np.zeros((batch, channels, count, *outputs), x.dtype)
        for n, g in product(range(batch), range(self.offset_group)):
            part = x[n, g * share : (g + 1) * share]
            for i, place in enumerate(product(*(range(size) for size in kernel))):
                points = [_regular(windows[a], place[a], a, axes) + moves[n, g, i, a] for a in range(axes)]
                sampled = sample_linear(part, points)
                sampled = sampled if masks is None else sampled * masks[n, g, i]
                patches[n, g * share : (g + 1) * share, i] = sampled
        return patches

    def smooth_form(
        self, b: Builder, X: Value, W: Value, offset: Value, B: Value | None = None, mask: Value | None = None
    ) -> Value:
        """The patches as weighted sums of pixels, times the weights."""
        axes, groups, kernel = X.rank - 2, self.offset_group, W.shape[2:]
        if not all(isinstance(size, int) for size in kernel):
            raise UnsupportedError("its gradient needs a kernel whose size is known before the run")
        sizes = [int(size) for size in kernel if isinstance(size, int)]
        count, outputs = int(np.prod(sizes)), b.Shape(offset, start=2)
        batch, channels = b.Shape(X, start=0, end=1), b.Shape(X, start=1, end=2)
        one = b.constant(np.array([-1]))
        images = b.Reshape(wide(b, X), _joined(b, batch * groups, one, b.Shape(X, start=2)))
        moves = b.Reshape(wide(b, offset), _joined(b, batch * groups, [count, axes], outputs))
        places = [
            self._regular_value(b, axis, sizes, outputs, moves.dtype) + b.Squeeze(b.Gather(moves, [axis], axis=2), [2])
            for axis in range(axes)
        ]
        numbers = b.Reshape(sampling.count_up(b, sampling.scalar(b, batch * groups)), [-1, *[1] * (axes + 1)])
        near = [sampling.linear(b, place) for place in places]
        patches = sampling.sample(b, sampling.Pixels(b, images), numbers, near)
        if mask is not None:
            masks = b.Reshape(wide(b, mask), _joined(b, batch * groups, [count], outputs, [1]))
            patches = patches * masks
        ordered = b.Transpose(patches, perm=(0, axes + 2, *range(1, axes + 2)))
        grouped = b.Reshape(ordered, _joined(b, batch, [self.group], b.Div(channels, self.group) * count, one))
        weights = b.Reshape(wide(b, W), _joined(b, [self.group, -1], b.Div(channels, self.group) * count))
        result = b.Reshape(weights @ grouped, _joined(b, batch, one, outputs))
        if B is not None:
            result = result + b.Reshape(wide(b, B), [-1, *[1] * axes])
        return cast(b, result, X.dtype)

    def _regular_value(self, b: Builder, axis: int, kernel: list[int], outputs: Value, dtype: DType) -> Value:
        """[place in the kernel, windows]: the coordinates along an axis that the windows read before they are moved."""
        stride, dilation = (1 if given is None else given[axis] for given in (self.strides, self.dilations))
        begin = 0 if self.pads is None else self.pads[axis]
        starts = sampling.count_up(b, sampling.scalar(b, b.Gather(outputs, [axis]))) * stride - begin
        shape = [-1 if other == axis else 1 for other in range(len(kernel))]
        steps = np.indices(kernel)[axis].reshape(-1, *[1] * len(kernel)) * dilation
        return cast(b, b.Reshape(starts, shape) + b.constant(steps), dtype)


def _regular(window: Window, place: int, axis: int, axes: int) -> Array:
    """The coordinates along one axis at which windows read the kernel's element `place`."""
    starts = np.arange(int(window.output)) * window.stride - int(window.begin) + place * window.dilation
    return starts.reshape([-1 if i == axis else 1 for i in range(axes)])


def sample_linear(image: Array, places: Sequence[Array]) -> Array:
    """The image [channel, axes...] at fractional coordinates, zero outside, by linear interpolation."""
    total = np.zeros((image.shape[0], *places[0].shape), image.dtype)
    bases = [np.floor(place) for place in places]
    for corner in product((0, 1), repeat=len(places)):
        weight: Any = 1
        is_inside: Any = True
        indices: list[Array] = []
        for place, base, step, size in zip(places, bases, corner, image.shape[1:], strict=True):
            index = base + step
            weight = weight * (1 - np.abs(place - index))
            is_inside = is_inside & (index >= 0) & (index < size)
            indices.append(np.clip(np.nan_to_num(index), 0, size - 1).astype(np.int64))
        total += np.where(is_inside, weight * image[(slice(None), *indices)], 0).astype(image.dtype)
    return total


class Col2Im(Op):
    """Columns of blocks put back into an image, overlapping elements summed."""

    takes_complex_as_pairs = True
    dilations: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def infer(self, input: Value, image_shape: Value, block_shape: Value) -> TensorType:
        if input.dtype.kind == "string":
            raise ShapeError("strings cannot be summed")
        shape, image, block = known_shape(input, rank=3), known(image_shape), known(block_shape)
        if shape is None or block is None:
            axes = image_shape.tensor.shape
            count = axes[0] if axes and isinstance(axes[0], int) else None
            return input.tensor.with_shape(None if count is None else tuple(dims.fresh() for _ in range(count + 2)))
        sizes = tuple(dims.fresh() for _ in block) if image is None else tuple(image)
        return input.tensor.with_shape((shape[0], dims.floordiv(shape[1], dims.product(block)), *sizes))

    def reference(self, input: Array, image_shape: Array, block_shape: Array) -> Array:
        image, block = integers(image_shape), integers(block_shape)
        if len(image) != len(block) or any(size < 1 for size in block):
            raise OperatorError(f"block_shape {block} does not fit an image of shape {image}")
        windows = resolve_windows(image, block, self.strides, self.dilations, self.pads)
        outputs = [int(window.output) for window in windows]
        count = int(np.prod(block))
        if input.shape[1] % count or input.shape[2] != int(np.prod(outputs)):
            text = f"blocks of shape {block} in an image of shape {image}"
            raise OperatorError(f"columns of shape {list(input.shape)} do not fit {outputs} {text}")
        batch, channels = input.shape[0], input.shape[1] // count
        padded = [size + int(w.begin) + int(w.end) for size, w in zip(image, windows, strict=True)]
        result = np.zeros(check_size((batch, channels, *padded), input.dtype), widen(input).dtype)
        columns = widen(input).reshape(batch, channels, *block, *outputs)
        for place in product(*(range(size) for size in block)):
            target = tuple(_strided(w, j) for w, j in zip(windows, place, strict=True))
            result[(..., *target)] += columns[(slice(None), slice(None), *place)]
        crop = tuple(slice(int(w.begin), int(w.begin) + size) for size, w in zip(image, windows, strict=True))
        return like(result[(..., *crop)], input)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        """The blocks of the gradient: a convolution with a kernel for each place in a block."""
        block, bar = known_integers(inputs[2]), output_bars[0]
        if block is None:
            raise UnsupportedError("its gradient needs a block_shape that is known before the run")
        count = int(np.prod(block))
        kernel = b.constant(np.eye(count).reshape(count, 1, *block), bar.dtype)
        planes = b.Reshape(bar, _joined(b, [-1, 1], b.Shape(bar, start=2)))
        columns = b.Conv(planes, kernel, strides=self.strides, dilations=self.dilations, pads=self.pads)
        return b.Reshape(columns, b.Shape(inputs[0]), allowzero=1), None, None


def _strided(window: Window, place: int) -> slice:
    start = place * window.dilation
    return slice(start, start + (int(window.output) - 1) * window.stride + 1, window.stride)


CORNER_LIMIT = 1 << 60
"""Corners of regions in pixels are less than this."""

POINT_LIMIT = 1 << 24
"""A bin of a region has at most this many points."""


class MaxRoiPool(Op):
    """The maxima of a grid of bins in each region of interest [batch index, x1, y1, x2, y2]."""

    pooled_shape: tuple[int, ...]
    spatial_scale: float = 1.0

    def infer(self, X: Value, rois: Value) -> TensorType:
        require_float(X, rois)
        same_dtype(X, rois)
        data, regions = known_shape(X, rank=4), known_shape(rois, rank=2)
        if len(self.pooled_shape) != 2 or min(self.pooled_shape) < 1:
            raise ShapeError(f"pooled_shape is {list(self.pooled_shape)}, it needs 2 numbers of at least 1")
        channels: Dim = dims.fresh() if data is None else data[1]
        return X.tensor.with_shape((dims.fresh() if regions is None else regions[0], channels, *self.pooled_shape))

    def reference(self, X: Array, rois: Array) -> Array:
        regions = widen(rois)
        far = regions[:, 0][~(np.abs(regions[:, 0]) < CORNER_LIMIT)]
        if far.size:
            raise OperatorError(f"the batch index of a region is {far[0]:g}: no number, or far too large")
        check_indices(regions[:, 0].astype(np.int64), X.shape[0], "the batch index of a region")
        result = np.zeros(check_size((len(rois), X.shape[1], *self.pooled_shape), X.dtype), X.dtype)
        corners = _round_away(regions[:, 1:] * regions.dtype.type(self.spatial_scale))
        if not (np.abs(corners) < CORNER_LIMIT).all():
            raise OperatorError("a region has a corner that is no number or far outside of every image")
        for r, (x1, y1, x2, y2) in enumerate(corners.astype(np.int64)):
            image = widen(X[int(regions[r, 0])])
            rows = _bins(y1, y2, self.pooled_shape[0], image.shape[1])
            columns = _bins(x1, x2, self.pooled_shape[1], image.shape[2])
            for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
                bin = image[:, row, column]
                result[r, :, i, j] = bin.max(axis=(1, 2)) if bin.size else 0
        return result

    def smooth_form(self, b: Builder, X: Value, rois: Value) -> Value:
        """The maxima along one axis and then along the other, of what lies in each bin; an empty bin is zero."""
        regions = wide(b, rois)
        batch = cast(b, b.Squeeze(b.Gather(regions, [0], axis=1), [1]), INT64)
        images = b.Gather(X, batch, axis=0)
        scaled = regions * b.constant(self.spatial_scale, regions.dtype)
        corners = b.Sign(scaled) * b.Floor(b.Abs(scaled) + 0.5)
        lowest = b.constant(-np.inf, X.dtype)
        for axis, first, count in ((3, 1, self.pooled_shape[1]), (2, 2, self.pooled_shape[0])):
            is_in = self._bin_masks(b, corners, first, count, sampling.size_of(b, X, axis))
            shape = _joined(b, b.Shape(rois, start=0, end=1), [1] * (axis - 1), [count, -1], [1] * (3 - axis))
            spread = b.Where(b.Reshape(is_in, shape), b.Unsqueeze(images, [axis]), lowest)
            images = b.ReduceMax(spread, [axis + 1], keepdims=0)
        return b.Where(b.Equal(images, lowest), b.constant(0, X.dtype), images)

    def _bin_masks(self, b: Builder, corners: Value, first: int, count: int, size: Value) -> Value:
        """[region, bin, pixel]: whether a pixel along one axis lies in a bin."""
        start, end = (cast(b, b.Gather(corners, [i], axis=1), INT64) for i in (first, first + 2))
        width = cast(b, b.Max(end - start + 1, b.constant(1, INT64)), FLOAT32) / b.constant(count, FLOAT32)
        bins = b.constant(np.arange(count, dtype=np.float32))
        low = cast(b, b.Floor(bins * width), INT64) + start
        high = cast(b, b.Ceil((bins + 1) * width), INT64) + start
        pixels = sampling.count_up(b, size)
        low, high = b.Unsqueeze(low, [2]), b.Unsqueeze(high, [2])
        return b.And(b.GreaterOrEqual(pixels, low), b.Less(pixels, high))


def _round_away(x: Array) -> Array:
    """Rounded to the nearest integer, halves away from zero."""
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def _bins(first: int, last: int, count: int, size: int) -> list[slice]:
    """A range of pixels in so many bins, which overlap by less than one pixel, cut to the image."""
    width = np.float32(max(last - first + 1, 1)) / np.float32(count)
    starts = [int(np.floor(i * width)) + first for i in range(count)]
    ends = [int(np.ceil((i + 1) * width)) + first for i in range(count)]
    return [slice(min(max(a, 0), size), min(max(b, 0), size)) for a, b in zip(starts, ends, strict=True)]


class RoiAlign(Op):
    """Means or maxima of interpolated points in each bin of each region of interest [x1, y1, x2, y2]."""

    coordinate_transformation_mode: str = "half_pixel"
    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0

    def infer(self, X: Value, rois: Value, batch_indices: Value) -> TensorType:
        require_float(X, rois)
        same_dtype(X, rois)
        if self.mode not in ("avg", "max"):
            raise ShapeError(f"mode is {self.mode!r}, it must be avg or max")
        if self.coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
            raise ShapeError(f"coordinate_transformation_mode is {self.coordinate_transformation_mode!r}")
        data, regions = known_shape(X, rank=4), known_shape(rois, rank=2)
        count: Dim = dims.fresh() if regions is None else regions[0]
        channels: Dim = dims.fresh() if data is None else data[1]
        require_shape(rois, (count, 4))
        require_shape(batch_indices, (count,))
        return X.tensor.with_shape((count, channels, self.output_height, self.output_width))

    def reference(self, X: Array, rois: Array, batch_indices: Array) -> Array:
        x = widen(X)
        images = check_indices(batch_indices, X.shape[0], "batch index")
        shape = (len(rois), X.shape[1], self.output_height, self.output_width)
        result = np.zeros(check_size(shape, x.dtype), x.dtype)
        offset = 0.5 if self.coordinate_transformation_mode == "half_pixel" else 0.0
        regions = widen(rois) * x.dtype.type(self.spatial_scale) - x.dtype.type(offset)
        if not np.isfinite(regions).all():
            raise OperatorError("a region has a corner that is no finite number")
        for r, corners in enumerate(regions):
            x1, y1, x2, y2 = (float(corner) for corner in corners)
            rows = self._points(y1, y2, self.output_height)
            columns = self._points(x1, x2, self.output_width)
            _check_points(rows.shape[1] * columns.shape[1])
            check_size((4, X.shape[1], rows.size, columns.size), x.dtype)
            sampled = _corner_values(x[images[r]], rows.ravel(), columns.ravel())
            sampled = sampled.reshape(4, X.shape[1], *rows.shape, *columns.shape)
            if sampled.size and self.mode == "avg":
                result[r] = sampled.sum(axis=0).mean(axis=(2, 4))
            elif sampled.size:
                result[r] = sampled.max(axis=(0, 3, 5))
        return like(result, X)

    def _points(self, first: float, last: float, bins: int) -> Array:
        """[bin, point]: the coordinates along one axis; a region turned inside out has no points."""
        size = last - first
        if self.coordinate_transformation_mode == "output_half_pixel":
            size = max(size, 1.0)
        count = self.sampling_ratio if self.sampling_ratio > 0 else max(int(np.ceil(size / bins)), 0)
        _check_points(count)
        check_size((bins, count), np.dtype(np.float64))
        step = size / bins
        return first + np.arange(bins)[:, None] * step + (np.arange(count) + 0.5) * step / max(count, 1)

    def smooth_form(self, b: Builder, X: Value, rois: Value, batch_indices: Value) -> Value:
        """Points of all bins, as many for each as the largest region has; those that a region lacks do not count."""
        offset = 0.5 if self.coordinate_transformation_mode == "half_pixel" else 0.0
        regions = wide(b, rois) * b.constant(self.spatial_scale, wide_dtype(rois.dtype)) - offset
        pixels = sampling.Pixels(b, X)
        rows = self._point_values(b, regions, 1, self.output_height)
        columns = self._point_values(b, regions, 0, self.output_width)
        lines = [_line_value(b, place, size) for (place, _, _), size in zip((rows, columns), pixels.sizes, strict=True)]
        batch = b.Reshape(cast(b, batch_indices, INT64), [-1, 1, 1, 1, 1])
        corners: list[Value] = []
        for (row, row_share), (column, column_share) in product(*lines):
            where = [b.Unsqueeze(row, [3, 4]), b.Unsqueeze(column, [1, 2])]
            share = b.Unsqueeze(row_share, [3, 4]) * b.Unsqueeze(column_share, [1, 2])
            corners.append(pixels.read(b, batch, where) * b.Unsqueeze(cast(b, share, pixels.dtype), [-1]))
        counts = b.And(b.Unsqueeze(rows[1], [3, 4]), b.Unsqueeze(columns[1], [1, 2]))
        result = self._pooled(b, corners, b.Unsqueeze(counts, [-1]), rows[2], columns[2])
        return cast(b, b.Transpose(result, perm=(0, 3, 1, 2)), X.dtype)

    def _pooled(self, b: Builder, corners: list[Value], counts: Value, tall: Value, broad: Value) -> Value:
        """[region, bin, bin, channel] from the weighted neighbours of [region, bin, point, bin, point, channel]."""
        if self.mode == "avg":
            total = b.Where(counts, b.Sum(*corners), b.constant(0, corners[0].dtype))
            number = b.Max(cast(b, tall * broad, total.dtype), 1.0)
            return b.ReduceSum(total, [2, 4], keepdims=0) / b.Reshape(number, [-1, 1, 1, 1])
        lowest = b.constant(-np.inf, corners[0].dtype)
        highest = b.ReduceMax(b.Where(counts, b.Max(*corners), lowest), [2, 4], keepdims=0)
        return b.Where(b.Equal(highest, lowest), b.constant(0, highest.dtype), highest)

    def _point_values(self, b: Builder, regions: Value, column: int, bins: int) -> tuple[Value, Value, Value]:
        """Like `_points`, in operators: [region, bin, point], which of them are there, and how many a region has."""
        first, last = (b.Gather(regions, [i], axis=1) for i in (column, column + 2))
        size = last - first
        if self.coordinate_transformation_mode == "output_half_pixel":
            size = b.Max(size, 1.0)
        if self.sampling_ratio > 0:
            counts = b.Expand(b.constant(self.sampling_ratio, size.dtype), b.Shape(size))
            point = b.constant(np.arange(self.sampling_ratio), size.dtype)
        else:
            counts = b.Max(b.Ceil(size / bins), 0.0)
            most = b.Max(cast(b, b.ReduceMax(counts, keepdims=0), INT64), b.constant(1, INT64))
            point = cast(b, sampling.count_up(b, most), size.dtype)
        number, step = b.Unsqueeze(counts, [2]), b.Unsqueeze(size / bins, [2])
        starts = b.Unsqueeze(first, [2]) + b.constant(np.arange(bins).reshape(-1, 1), size.dtype) * step
        return starts + (point + 0.5) * step / b.Max(number, 1.0), b.Less(point, number), cast(b, counts, INT64)


def _check_points(count: int) -> None:
    if count > POINT_LIMIT:
        raise LimitError(f"a bin of {count} points is over the limit of {POINT_LIMIT}")


def _corner_values(image: Array, rows: Array, columns: Array) -> Array:
    """[corner, channel, row, column]: the four weighted neighbours of each point, zero far outside."""
    parts = [_line(rows, image.shape[1]), _line(columns, image.shape[2])]
    found: list[Array] = []
    for (row, row_share), (column, column_share) in product(*parts):
        weight = row_share[:, None] * column_share[None, :]
        found.append(image[:, row[:, None], column[None, :]] * weight)
    return np.stack(found).astype(image.dtype)


def _line(place: Array, size: int) -> list[tuple[Array, Array]]:
    """The two neighbours of each coordinate and their weights; none beyond one pixel outside."""
    is_near = (place >= -1) & (place <= size)
    inside = np.clip(place, 0, size - 1)
    low = np.floor(inside).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    rest = inside - low
    return [(low, (1 - rest) * is_near), (high, rest * is_near)]


def _line_value(b: Builder, place: Value, size: Value) -> list[tuple[Value, Value]]:
    """Like `_line`, in operators."""
    count = cast(b, size, place.dtype)
    is_near = cast(b, b.And(place >= -1, b.LessOrEqual(place, count)), place.dtype)
    within = b.Clip(place, b.constant(0, place.dtype), count - 1)
    low = b.Floor(within)
    high, rest = b.Min(low + 1, count - 1), within - low
    return [(low, (1 - rest) * is_near), (high, rest * is_near)]


def _joined(b: Builder, *parts: Value | list[int]) -> Value:
    """A shape of several parts."""
    return b.Concat(
        *(part if isinstance(part, Value) else b.constant(np.array(part, np.int64)) for part in parts), axis=0
    )
