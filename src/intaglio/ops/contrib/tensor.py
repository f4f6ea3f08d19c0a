"""Operators of ONNX Runtime (domain com.microsoft) that move, select, sample and compare; most have a younger twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import INT64, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows
from intaglio.ir.types import TensorType
from intaglio.ops.contrib.attention import length, places, scalar
from intaglio.ops.contrib.fused import DOMAIN
from intaglio.ops.linear import swap_last
from intaglio.ops.shared.gradient import root
from intaglio.ops.shared.indices import resolve_axis
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import cast, known_shape, like, require_equal, wide


class ExpandDims(Op):
    """X with an axis of size 1 at the place that a scalar says."""

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, X: Value, axis: Value) -> Value:
        return b.Unsqueeze(X, b.Reshape(cast(b, axis, INT64), [1]))


class GatherND(Op):
    """The slices that the last axis of the indices names."""

    keeps_rows = Rows.BY_AXES

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, data: Value, indices: Value) -> Value:
        return b.GatherND(data, cast(b, indices, INT64))


class GridSample(Op):
    """The elements of X at the places of a grid, interpolated."""

    keeps_rows = Rows.FIRST

    domain: ClassVar[str] = DOMAIN
    align_corners: int = 0
    mode: str = "bilinear"
    padding_mode: str = "zeros"

    def expand(self, b: Builder, X: Value, Grid: Value) -> Value:
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(self.mode, self.mode)
        return b.GridSample(X, Grid, mode=mode, padding_mode=self.padding_mode, align_corners=self.align_corners)


class Pad(Op):
    """ONNX's Pad with the pads as an input."""

    keeps_rows = Rows.BY_AXES

    domain: ClassVar[str] = DOMAIN
    mode: str = "constant"

    def expand(self, b: Builder, data: Value, pads: Value, value: Value | None = None) -> Value:
        fill = None if value is None else b.Reshape(value, _SCALAR)
        return b.Pad(data, b.Reshape(pads, [-1]), fill, mode=self.mode)


_SCALAR = np.zeros(0, np.int64)


class Range(Op):
    """start, start + delta, ... up to limit; delta is 1 where it is not given."""

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, start: Value, limit: Value, delta: Value | None = None) -> Value:
        step = b.constant(1, start.dtype) if delta is None else b.Reshape(delta, _SCALAR)
        return b.Range(b.Reshape(start, _SCALAR), b.Reshape(limit, _SCALAR), step)


class Trilu(Op):
    """The upper or lower triangles of matrices, zeros elsewhere."""

    domain: ClassVar[str] = DOMAIN
    upper: int = 1

    def expand(self, b: Builder, X: Value, k: Value | None = None) -> Value:
        return b.Trilu(X, None if k is None else scalar(b, k), upper=self.upper)


class Unique(Op):
    """The distinct elements of a vector in the order they come in, where each one goes, and how many there are."""

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("y", "idx", "counts")

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return given["x"].dtype, INT64, INT64

    def expand(self, b: Builder, x: Value) -> tuple[Value, ...]:
        y, _, index, counts = b.Unique(x, sorted=0, outputs=4)
        return y, index, counts


class UnfoldTensor(Op):
    """All windows of `size` elements along an axis, `step` apart, as a new last axis."""

    domain: ClassVar[str] = DOMAIN
    dim: int = -1
    size: int
    step: int = 1

    def expand(self, b: Builder, input: Value) -> Value:
        if min(self.size, self.step) < 1:
            raise ShapeError(f"size={self.size} and step={self.step} must be at least 1")
        axis = resolve_axis(self.dim, input.rank)
        count = b.Div(length(b, input, axis) - self.size, self.step) + 1
        index = b.Unsqueeze(places(b, count) * self.step, [1]) + b.constant(np.arange(self.size))
        order = [*range(axis + 1), *range(axis + 2, input.rank + 1), axis + 1]
        return b.Transpose(b.Gather(input, index, axis=axis), perm=tuple(order))


class CDist(Op):
    """The distance of each row of A from each row of B: Euclidean, or its square."""

    domain: ClassVar[str] = DOMAIN
    metric: str = "sqeuclidean"

    def expand(self, b: Builder, A: Value, B: Value) -> Value:
        if self.metric not in ("sqeuclidean", "euclidean"):
            raise ShapeError(f"the metric is {self.metric!r}, expected sqeuclidean or euclidean")
        total = b.ReduceSumSquare(b.Unsqueeze(A, [1]) - b.Unsqueeze(B, [0]), [2], keepdims=0)
        return root(b, total) if self.metric == "euclidean" else total


class Inverse(Op):
    """The inverse of each matrix of the last two axes."""

    domain: ClassVar[str] = DOMAIN

    def expand(self, b: Builder, X: Value) -> Value:
        return b.apply(MatrixInverse, X)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        return (_inverse_bar(b, outputs[0], output_bars[0]),)


class MatrixInverse(Op):
    """What Inverse computes, for kernels to know."""

    domain: ClassVar[str] = "intaglio"

    def infer(self, X: Value) -> TensorType:
        shape = known_shape(X, least=2)
        if shape is not None:
            require_equal(shape[-2], shape[-1], "the rows and columns of a matrix to invert")
        return X.tensor

    def reference(self, X: Array) -> Array:
        if X.shape[-1] != X.shape[-2]:
            raise OperatorError(f"matrices of shape {X.shape[-2:]} have no inverse")
        try:
            return like(np.linalg.inv(widen(X)), X)
        except np.linalg.LinAlgError as error:
            raise OperatorError(f"a matrix has no inverse: {error}") from None

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Any:
        return (_inverse_bar(b, outputs[0], output_bars[0]),)


def _inverse_bar(b: Builder, inverse: Value, bar: Value) -> Value:
    turned = swap_last(b, inverse)
    return -(turned @ bar @ turned)


class ConvTransposeWithDynamicPads(Op):
    """ONNX's ConvTranspose with the pads as an input."""

    domain: ClassVar[str] = DOMAIN
    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    output_padding: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def expand(self, b: Builder, X: Value, W: Value, Pads: Value | None = None, B: Value | None = None) -> Value:
        names = ("auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides")
        y = b.ConvTranspose(X, W, B, **{name: getattr(self, name) for name in names})
        if Pads is None:
            return y
        starts, ends = b.Split(Pads, num_outputs=2, axis=0, outputs=2)
        return b.Slice(y, starts, b.Shape(y, start=2) - ends, list(range(2, X.rank)))


class CropAndResize(Op):
    """Boxes of images, resized to one size: their corners are the corners of the results.

    A box is y1, x1, y2, x2 as parts of the image's height and width. Outside of the image stands
    `extrapolation_value`.
    """

    domain: ClassVar[str] = DOMAIN
    extrapolation_value: float = 0.0
    mode: str = "bilinear"

    def expand(self, b: Builder, X: Value, rois: Value, batch_indices: Value, crop_size: Value) -> Value:
        if self.mode not in ("bilinear", "nearest"):
            raise ShapeError(f"the mode is {self.mode!r}, expected bilinear or nearest")
        x = wide(b, X)
        corners = b.Split(wide(b, rois), num_outputs=4, axis=1, outputs=4)
        sizes = b.Split(cast(b, crop_size, INT64), num_outputs=2, axis=0, outputs=2)
        places_y, places_x = (
            _crop_places(b, corners[i], corners[i + 2], b.Squeeze(sizes[i], [0]), length(b, X, 2 + i)) for i in (0, 1)
        )
        is_inside = b.And(*(_between(b, at, length(b, X, 2 + i), i) for i, at in enumerate((places_y, places_x))))
        image = b.Transpose(b.Gather(x, cast(b, batch_indices, INT64), axis=0), perm=(0, 2, 3, 1))
        y = self._sample(b, image, places_y, places_x)
        filled = b.Where(b.Unsqueeze(is_inside, [3]), y, b.constant(self.extrapolation_value, y.dtype))
        return cast(b, b.Transpose(filled, perm=(0, 3, 1, 2)), X.dtype)

    def _sample(self, b: Builder, image: Value, at_y: Value, at_x: Value) -> Value:
        """[boxes, height, width, channels] at [boxes, rows] and [boxes, columns]."""
        if self.mode == "nearest":
            half_up = [b.Floor(at + 0.5) for at in (at_y, at_x)]
            return _pixels(b, image, *half_up)
        top, left = b.Floor(at_y), b.Floor(at_x)
        bottom, right = b.Ceil(at_y), b.Ceil(at_x)
        down, along = b.Unsqueeze(at_y - top, [2, 3]), b.Unsqueeze(at_x - left, [1, 3])
        upper = _mixed(_pixels(b, image, top, left), _pixels(b, image, top, right), along)
        lower = _mixed(_pixels(b, image, bottom, left), _pixels(b, image, bottom, right), along)
        return _mixed(upper, lower, down)


def _mixed(first: Value, second: Value, share: Value) -> Value:
    return first + (second - first) * share


def _crop_places(b: Builder, first: Value, last: Value, count: Value, size: Value) -> Value:
    """Where the rows of each box lie in an image: [boxes, rows]; a single row is in the middle of its box."""
    extent, steps = cast(b, size - 1, first.dtype), cast(b, count - 1, first.dtype)
    one = b.constant(1, first.dtype)
    spread = first * extent + cast(b, places(b, count), first.dtype) * ((last - first) * extent / b.Max(steps, one))
    return b.Where(b.Greater(steps, 0), spread, (first + last) * 0.5 * extent)


def _between(b: Builder, at: Value, size: Value, axis: int) -> Value:
    """Whether places are inside of the image, [boxes, rows, 1] or [boxes, 1, columns]."""
    is_inside = b.And(b.GreaterOrEqual(at, 0), b.LessOrEqual(at, cast(b, size - 1, at.dtype)))
    return b.Unsqueeze(is_inside, [2 - axis])


def _pixels(b: Builder, image: Value, at_y: Value, at_x: Value) -> Value:
    """The pixels at whole places, which are moved into the image where they are outside."""
    rows, columns = (
        b.Min(b.Max(cast(b, at, INT64), b.constant(0, INT64)), length(b, image, 1 + i) - 1)
        for i, at in enumerate((at_y, at_x))
    )
    flat = b.Unsqueeze(rows * length(b, image, 2), [2]) + b.Unsqueeze(columns, [1])
    return b.GatherND(b.Reshape(image, _joined(b, image)), b.Unsqueeze(flat, [3]), batch_dims=1)


def _joined(b: Builder, image: Value) -> Value:
    return b.Concat(b.Shape(image, start=0, end=1), b.constant([-1]), b.Shape(image, start=3), axis=0)


class NGramRepeatBlock(Op):
    """Scores in which no word can come next that would repeat `ngram_size` words of its row."""

    no_gradient = "it masks scores by words"
    domain: ClassVar[str] = DOMAIN
    ngram_size: int

    def expand(self, b: Builder, input_ids: Value, scores: Value) -> Value:
        if self.ngram_size < 1:
            raise ShapeError(f"ngram_size is {self.ngram_size}, it must be at least 1")
        return b.apply(RepeatBlock, input_ids, scores, ngram_size=self.ngram_size)


class RepeatBlock(Op):
    """What NGramRepeatBlock computes, for kernels to know."""

    no_gradient = "it masks scores by words"
    domain: ClassVar[str] = "intaglio"
    ngram_size: int

    def infer(self, input_ids: Value, scores: Value) -> TensorType:
        words, shape = known_shape(input_ids, rank=2), known_shape(scores, rank=2)
        if words is not None and shape is not None:
            require_equal(words[0], shape[0], "the rows of words and of scores")
        return scores.tensor

    def reference(self, input_ids: Array, scores: Array) -> Array:
        result, before = scores.copy(), self.ngram_size - 1
        for row, words in enumerate(input_ids):
            last = words[max(len(words) - before, 0) :]
            for start in range(len(words) - before):
                if np.array_equal(words[start : start + before], last):
                    result[row, _checked_word(words[start + before], scores.shape[1])] = -np.inf
        return result


def _checked_word(word: Any, count: int) -> int:
    """The number of a word; raises where there are not so many."""
    if not 0 <= word < count:
        raise OperatorError(f"the word {word} has no score: expected 0 to {count - 1}")
    return int(word)
