"""Operators that choose elements, and whose output size depends on the data."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, INT64
from intaglio.ir.graph import Value
from intaglio.ir.op import OPERATORS, Array, Op, Rows
from intaglio.ir.requirements import need_at_most
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import (
    integers,
    need_integers,
    need_rank,
    need_single,
    resolve_axis,
    sizes_of,
    wide,
    zeros_like,
)


class NonZero(Op):
    """The indices of the elements that are not zero, one column each."""

    takes_complex_as_pairs = True
    is_bounded = True
    no_gradient = "its results are integers"

    def infer(self, X: Value) -> TensorType:
        return TensorType(INT64, (dims.fresh() if X.tensor.shape is None else X.rank, dims.fresh()))

    def reference(self, X: Array) -> Array:
        if X.dtype == object:
            return np.argwhere(np.array([bool(item) for item in X.flat], bool).reshape(X.shape)).T
        flags = wide(X) != 0
        # NumPy gives a scalar no indices; its one element still counts.
        return np.zeros((0, int(flags)), np.int64) if X.ndim == 0 else np.stack(np.nonzero(flags)).astype(np.int64)


class Compress(Op):
    """The slices along `axis` where `condition` is true; without an axis those of the flattened input."""

    moves_only = True
    is_bounded = True
    axis: int | None = None

    def infer(self, input: Value, condition: Value) -> TensorType:
        need_rank(condition, 1, 1)
        if condition.dtype != BOOL:
            raise ShapeError(f"{condition.name} is {condition.dtype}, expected bool")
        if self.axis is None:
            return input.tensor.with_shape((dims.fresh(),))
        if input.tensor.shape is None:
            return input.tensor
        axis = resolve_axis(self.axis, input.rank)
        return input.tensor.with_shape((*input.shape[:axis], dims.fresh(), *input.shape[axis + 1 :]))

    def reference(self, input: Array, condition: Array) -> Array:
        data, axis = (input.reshape(-1), 0) if self.axis is None else (input, resolve_axis(self.axis, input.ndim))
        if len(condition) > data.shape[axis]:
            raise OperatorError(f"a condition of length {len(condition)} for an axis of size {data.shape[axis]}")
        return np.take(data, np.flatnonzero(condition), axis=axis)

    def smooth_form(self, b: Builder, input: Value, condition: Value) -> Value:
        places = b.Squeeze(b.NonZero(condition), [0])
        data = b.Reshape(input, [-1]) if self.axis is None else input
        return b.Gather(data, places, axis=self.axis or 0)


class Unique(Op):
    """The different elements, or slices along `axis`, with their first places, each element's number, and counts."""

    takes_complex_as_pairs = True
    is_bounded = True
    output_names: ClassVar[tuple[str, ...]] = ("Y", "indices", "inverse_indices", "counts")
    pullback_outputs: ClassVar[int] = 2
    axis: int | None = None
    sorted: int = 1

    def infer(self, X: Value) -> tuple[TensorType, ...]:
        count, shape = dims.fresh(), X.tensor.shape
        if self.axis is None:
            found, total = (count,), dims.fresh() if shape is None else X.tensor.size
        elif shape is None:
            found, total = None, dims.fresh()
        else:
            axis = resolve_axis(self.axis, len(shape))
            found, total = (*shape[:axis], count, *shape[axis + 1 :]), shape[axis]
        counted = TensorType(INT64, (count,))
        return X.tensor.with_shape(found), counted, TensorType(INT64, (total,)), counted

    def reference(self, X: Array) -> tuple[Array, ...]:
        data, axis = (X.reshape(-1), 0) if self.axis is None else (X, resolve_axis(self.axis, X.ndim))
        # Each element's rank among all orders slices as the elements do, for strings too.
        ranks = np.unique(data, return_inverse=True)[1].reshape(data.shape)
        extent = data.shape[axis]
        rows = np.moveaxis(ranks, axis, 0).reshape(extent, data.size // extent if extent else 0)
        first, inverse, counts = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)[1:]
        inverse = inverse.reshape(-1)
        if not self.sorted:
            order = np.argsort(first)
            first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
        found = np.take(data, first, axis=axis)
        return found, *(array.astype(np.int64) for array in (first, inverse, counts))

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        """The gradient of what is kept goes to where it stands first."""
        if output_bars[0] is None:
            return (None,)
        data = b.Reshape(inputs[0], [-1]) if self.axis is None else inputs[0]
        gather = OPERATORS["", "Gather"](axis=self.axis or 0)  # pyright: ignore[reportCallIssue]
        bar = gather.pullback(b, (data, outputs[1]), (outputs[0],), (output_bars[0],))[0]
        return (b.Reshape(bar, b.Shape(inputs[0]), allowzero=1),)


class TopK(Op):
    """The K largest or smallest elements along `axis` in order, and their indices; the first of equal ones wins."""

    keeps_rows = Rows.BY_AXES

    output_names: ClassVar[tuple[str, ...]] = ("Values", "Indices")
    pullback_outputs: ClassVar[int] = 2
    axis: int = -1
    largest: int = 1
    sorted: int = 1

    def infer(self, X: Value, K: Value) -> tuple[TensorType, TensorType]:
        need_integers(K)
        need_single(K)
        need_rank(X, 1)
        counts = sizes_of(K)
        if X.tensor.shape is None:
            return X.tensor, TensorType(INT64, None)
        axis = resolve_axis(self.axis, X.rank)
        count = dims.fresh() if counts is None else counts[0]
        need_at_most(count, X.shape[axis], f"K is {count}, the axis has {X.shape[axis]} elements")
        found = X.tensor.with_shape((*X.shape[:axis], count, *X.shape[axis + 1 :]))
        return found, TensorType(INT64, found.shape)

    def reference(self, X: Array, K: Array) -> tuple[Array, Array]:
        axis, count = resolve_axis(self.axis, X.ndim), int(K.reshape(()))
        size = X.shape[axis]
        if not 0 <= count <= size:
            raise OperatorError(f"K is {count}, expected 0 to {size}")
        data = wide(X)
        if self.largest:
            order = size - 1 - np.flip(np.argsort(np.flip(data, axis), axis=axis, kind="stable"), axis)
        else:
            order = np.argsort(data, axis=axis, kind="stable")
        order = np.take(order, np.arange(count), axis=axis).astype(np.int64)
        return np.take_along_axis(X, order, axis), order

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        if output_bars[0] is None:
            return None, None
        zeros = zeros_like(b, inputs[0])
        return b.ScatterElements(zeros, outputs[1], output_bars[0], axis=self.axis, reduction="add"), None


class NonMaxSuppression(Op):
    """The best boxes of each class, without those that overlap a better one by more than `iou_threshold`."""

    no_gradient = "its results are integers"
    center_point_box: int = 0

    def infer(
        self,
        boxes: Value,
        scores: Value,
        max_output_boxes_per_class: Value | None = None,
        iou_threshold: Value | None = None,
        score_threshold: Value | None = None,
    ) -> TensorType:
        for value in (max_output_boxes_per_class, iou_threshold, score_threshold):
            need_single(value)
        need_rank(boxes, 3, 3)
        need_rank(scores, 3, 3)
        return TensorType(INT64, (dims.fresh(), 3))

    def reference(
        self,
        boxes: Array,
        scores: Array,
        max_output_boxes_per_class: Array | None = None,
        iou_threshold: Array | None = None,
        score_threshold: Array | None = None,
    ) -> Array:
        if boxes.shape[2] != 4 or boxes.shape[:2] != (scores.shape[0], scores.shape[2]):
            raise OperatorError(f"boxes of shape {list(boxes.shape)} and scores of shape {list(scores.shape)}")
        most = 0 if max_output_boxes_per_class is None else integers(max_output_boxes_per_class)[0]
        overlap = np.float32(0 if iou_threshold is None else iou_threshold.reshape(()))
        least = None if score_threshold is None else np.float32(score_threshold.reshape(()))
        chosen = [
            (batch, kind, box)
            for batch, kind in np.ndindex(scores.shape[:2])
            for box in _suppress(self._corners(boxes[batch]), scores[batch, kind], most, overlap, least)
        ]
        return np.array(chosen, np.int64).reshape(-1, 3)

    def _corners(self, boxes: Array) -> Array:
        """The least and the greatest corner of each box."""
        if self.center_point_box:
            middle, half = boxes[:, :2], boxes[:, 2:] / np.float32(2)
            return np.concatenate([middle - half, middle + half], axis=1)
        return np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], axis=1)


def _suppress(corners: Array, scores: Array, most: int, overlap: Any, least: Any) -> list[int]:
    order = [int(i) for i in np.argsort(-scores, kind="stable") if least is None or scores[i] > least]
    chosen: list[int] = []
    for box in order:
        if len(chosen) >= most:
            break
        if not (_overlaps(corners[box], corners[chosen]) > overlap).any():
            chosen.append(box)
    return chosen


def _overlaps(box: Array, others: Array) -> Array:
    """The intersection over union of one box with others; 0 where either has no area."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.prod(np.maximum(high - low, 0), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1)
    area = np.prod(box[2:] - box[:2])
    union = area + areas - common
    return np.where((area > 0) & (areas > 0) & (union > 0), common / np.where(union > 0, union, 1), 0)
