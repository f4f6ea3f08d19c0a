"""Operators that move elements: transpose, join, cut, pad, reorder."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Value
from intaglio.ir.op import ALL_OPERANDS, Array, Op, Rows, Work, output_count
from intaglio.ir.requirements import need_at_most, need_equal
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import (
    add_all,
    check_size,
    first_only,
    integers,
    known,
    known_integers,
    known_length,
    list_length,
    need_integers,
    need_rank,
    need_single,
    resolve_axes,
    resolve_axis,
    same_dtype,
    sizes_of,
    unify,
    unknown_shape,
    zero,
    zeros_like,
)

Gradients = tuple[Value | None, ...]

FAR = 2**31 - 1
"""A slice end of this size or more means "to the end": exporters write it for a dimension that they don't know."""


class Transpose(Op):
    """The tensor with its axes in the order `perm`, reversed by default."""

    keeps_rows = Rows.BY_AXES

    is_view = True
    moves_only = True
    chooses_from = 1
    carries_quantized = True
    never_fails = True
    work = Work.SHORT
    symbolic = True
    perm: tuple[int, ...] | None = None

    def infer(self, data: Value) -> TensorType:
        if data.tensor.shape is None:
            return data.tensor.with_shape(unknown_shape(None if self.perm is None else len(self.perm)))
        return data.tensor.with_shape(tuple(data.shape[axis] for axis in self._order(data.rank)))

    def reference(self, data: Array) -> Array:
        return np.transpose(data, self._order(data.ndim))

    def _order(self, rank: int) -> tuple[int, ...]:
        order = tuple(range(rank))[::-1] if self.perm is None else self.perm
        if sorted(order) != list(range(rank)):
            raise ShapeError(f"perm {list(order)} is not an order of the {rank} axes")
        return order

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        order = self._order(inputs[0].rank)
        return (b.Transpose(output_bars[0], perm=tuple(order.index(axis) for axis in range(len(order)))),)


class Concat(Op):
    """The tensors one behind the other along `axis`."""

    keeps_rows = Rows.BY_AXES

    moves_only = True
    chooses_from = ALL_OPERANDS
    carries_quantized = True
    never_fails = True
    work = Work.SHORT
    symbolic = True
    axis: int

    def infer(self, *inputs: Value) -> TensorType:
        if not inputs:
            raise ShapeError("there is nothing to concatenate")
        dtype = same_dtype(*inputs)
        shapes = [value.shape for value in inputs if value.tensor.shape is not None]
        if not shapes:
            return TensorType(dtype, None)
        if len({len(shape) for shape in shapes}) != 1:
            raise ShapeError(f"expected tensors of one rank, got ranks {[len(shape) for shape in shapes]}")
        axis = resolve_axis(self.axis, len(shapes[0]))
        joined = [self._column(column, i == axis) for i, column in enumerate(zip(*shapes, strict=True))]
        if len(shapes) != len(inputs):
            joined[axis] = dims.fresh()
        return TensorType(dtype, tuple(joined))

    @staticmethod
    def _column(column: tuple[Dim, ...], is_joined: bool) -> Dim:
        return add_all(column) if is_joined else reduce(lambda a, c: unify(a, c, "dimensions beside the axis"), column)

    def reference(self, *inputs: Array) -> Array:
        return np.concatenate(inputs, axis=resolve_axis(self.axis, inputs[0].ndim))

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        axis = resolve_axis(self.axis, inputs[0].rank)
        sizes = [b.Shape(value, start=axis, end=axis + 1) for value in inputs]
        parts = b.Split(output_bars[0], b.Concat(*sizes, axis=0), axis=axis, outputs=len(inputs))
        return parts if len(inputs) > 1 else (parts,)


class Split(Op):
    """Parts of the tensor along `axis`: of the sizes `split`, or `num_outputs` equal ones with a smaller last one."""

    keeps_rows = Rows.BY_AXES

    is_view = True
    moves_only = True
    never_fails = True
    work = Work.SHORT
    symbolic = True
    variadic_outputs: ClassVar[bool] = True
    axis: int = 0
    num_outputs: int | None = None
    output_count: int = output_count()

    def infer(self, input: Value, split: Value | None = None) -> tuple[TensorType, ...]:
        count = self._count(split)
        if input.tensor.shape is None:
            return (input.tensor,) * count
        axis = resolve_axis(self.axis, input.rank)
        sizes = self._sizes(input.shape[axis], split, count)
        return tuple(input.tensor.with_shape((*input.shape[:axis], size, *input.shape[axis + 1 :])) for size in sizes)

    def _count(self, split: Value | None) -> int:
        given = self.num_outputs if split is None else list_length(split)
        if given is not None:
            message = f"a split into {given} parts on a node with {self.output_count} outputs"
            need_equal(given, self.output_count, message)
        if split is not None and self.num_outputs is not None:
            raise ShapeError("both split and num_outputs are given, expected one of them")
        return self.output_count

    def _sizes(self, total: Dim, split: Value | None, count: int) -> list[Dim]:
        if split is None:
            return even_parts(total, count)
        sizes = sizes_of(split)
        if sizes is None:
            return list(unknown_shape(count) or ())
        unify(total, add_all(sizes), "the size of the axis and the sum of split")
        return sizes

    def reference(self, input: Array, split: Array | None = None) -> tuple[Array, ...]:
        axis = resolve_axis(self.axis, input.ndim)
        total = input.shape[axis]
        sizes = [int(size) for size in even_parts(total, self.output_count)] if split is None else integers(split)
        if sum(sizes) != total or any(size < 0 for size in sizes):
            raise OperatorError(f"the parts {sizes} do not make up the size {total} of axis {axis}")
        ends = np.cumsum([0, *sizes])
        places = [(slice(None),) * axis + (slice(a, b),) for a, b in pairwise(ends.tolist())]
        return tuple(input[place].copy() for place in places)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        bars = [zeros_like(b, y) if bar is None else bar for y, bar in zip(outputs, output_bars, strict=True)]
        return first_only(b.Concat(*bars, axis=self.axis), inputs)


def even_parts(total: Dim, count: int) -> list[Dim]:
    """The sizes of `count` equal parts of which the last may be smaller.

    >>> even_parts(7, 4)
    [2, 2, 2, 1]
    """
    size = dims.ceildiv(total, count)
    last = total - size * (count - 1)
    need_at_most(0, last, f"a size of {total} cannot be split into {count} parts of {size}")
    return [size] * (count - 1) + [last]


class Slice(Op):
    """The elements from `starts` to `ends` in `steps` along `axes`; what lies outside is cut off."""

    keeps_rows = Rows.BY_AXES

    is_view = True
    moves_only = True
    chooses_from = 1
    never_fails = True
    work = Work.SHORT
    symbolic = True

    def infer(
        self, data: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
    ) -> TensorType:
        for value in (starts, ends):
            need_integers(value)
        shape = data.tensor.shape
        if shape is None:
            return data.tensor
        for value in (ends, axes, steps):
            if value is not None:
                length, other = list_length(starts), list_length(value)
                need_equal(other, length, f"{length} starts and {other} {value.name}, expected as many of each")
        cut = known_integers(axes)
        count = known_length(starts) if axes is None else known_length(axes)
        if cut is None and (axes is not None or count is None):
            return data.tensor.with_shape(unknown_shape(len(shape)))
        cut = resolve_axes(list(range(count or 0)) if cut is None else cut, len(shape))
        result = list(shape)
        columns = (known(starts), known(ends), [1] * len(cut) if steps is None else known(steps))
        for position, axis in enumerate(cut):
            bounds = [None if c is None or position >= len(c) else c[position] for c in columns]
            result[axis] = slice_size(shape[axis], *bounds)
        return data.tensor.with_shape(tuple(result))

    def reference(
        self, data: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
    ) -> Array:
        first, last = integers(starts), integers(ends)
        cut = resolve_axes(range(len(first)) if axes is None else integers(axes), data.ndim, OperatorError)
        step = [1] * len(cut) if steps is None else integers(steps)
        if not len(first) == len(last) == len(cut) == len(step):
            raise OperatorError(f"starts {first}, ends {last}, axes {cut} and steps {step} differ in length")
        places = [slice(None)] * data.ndim
        for axis, begin, end, stride in zip(cut, first, last, step, strict=True):
            places[axis] = clamped_slice(data.shape[axis], begin, end, stride)
        return data[tuple(places)].copy()

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        data, starts, *rest = inputs
        axes, steps = (*rest[1:], None, None)[:2]
        if steps is not None and set(known_integers(steps) or (0,)) != {1}:
            return first_only(self._scattered(b, inputs, output_bars[0]), inputs)
        cut = b.Range(b.constant(0), b.Size(starts), b.constant(1)) if axes is None else axes
        sizes, lengths = (b.Gather(b.Shape(value), cut) for value in (data, outputs[0]))
        start = b.Cast(starts, to=7)
        before = b.Min(b.Max(b.Where(start < 0, start + sizes, start), b.constant([0])), sizes)
        widths = b.Concat(before, sizes - before - lengths, axis=0)
        return first_only(b.Pad(output_bars[0], widths, None, cut), inputs)

    def _scattered(self, b: Builder, inputs: Any, bar: Value) -> Value:
        """The gradient for any steps: slicing the elements' numbers tells where each came from."""
        shape = b.Shape(inputs[0])
        numbers = b.Reshape(b.Range(b.constant(0), b.Size(inputs[0]), b.constant(1)), shape, allowzero=1)
        places = b.Reshape(b.Slice(numbers, *inputs[1:]), [-1])
        zeros = b.Reshape(zeros_like(b, inputs[0]), [-1])
        return b.Reshape(b.ScatterElements(zeros, places, b.Reshape(bar, [-1])), shape, allowzero=1)


def clamped_slice(size: int, start: int, end: int, step: int) -> slice:
    """ONNX's slice as Python's.

    They differ backwards: ONNX's end of -size-1 or less means "before the first", and its start there the first.
    """
    if step == 0:
        raise OperatorError("a slice step is 0")
    first, last = (start + size if start < 0 else start), (end + size if end < 0 else end)
    if step > 0:
        return slice(min(max(first, 0), size), min(max(last, 0), size), step)
    first, last = min(max(first, 0), size - 1), min(max(last, -1), size - 1)
    return slice(first, None if last < 0 else last, step) if size else slice(0, 0)


def slice_size(size: Dim, start: Dim | None, end: Dim | None, step: Dim | None) -> Dim:
    """The number of elements of a slice, or a fresh symbol where it cannot be known.

    >>> slice_size(dims.symbol("N"), 0, 2**63 - 1, 2)
    -floordiv(-N, 2)
    >>> slice_size(dims.symbol("N"), 1, -1, 1)
    max(0, N - 2)
    """
    if not isinstance(step, int) or start is None or end is None:
        return dims.fresh()
    if step == 0:
        raise ShapeError("a slice step is 0")
    first, last = _from_front(start, size, step), _from_front(end, size, step)
    if first is None or last is None:
        return dims.fresh()
    if step > 0 and last == size and isinstance(start, int) and start < 0:
        return dims.ceildiv(dims.minimum(size, -start), step)
    # Ends need clamping on one side only: beyond the other side the length comes out below zero anyway.
    if step > 0:
        span = dims.minimum(last, size) - dims.maximum(first, 0)
    else:
        first = first if start == -1 else dims.maximum(first, 0)  # -1 is the last element, or nothing of nothing
        span = dims.minimum(first, size - 1) - dims.maximum(last, -1)
    return dims.ceildiv(dims.maximum(span, 0), abs(step))


def _from_front(position: Dim, size: Dim, step: int) -> Dim | None:
    """A slice bound counted from the front; None where its sign is not known."""
    if isinstance(position, int) and not isinstance(size, int):
        if position >= FAR:
            return size if step > 0 else size - 1
        if position <= -FAR:
            return 0 if step > 0 else -1
    low, high = dims.bounds(position)
    if low is not None and low >= 0:
        return position
    return position + size if high is not None and high < 0 else None


class Pad(Op):
    """The tensor with elements put before and behind it: constant, reflected, repeated from the edge or wrapped."""

    keeps_rows = Rows.BY_AXES

    moves_only = True
    work = Work.SHORT
    repeats = True
    mode: str = "constant"

    def infer(
        self, data: Value, pads: Value, constant_value: Value | None = None, axes: Value | None = None
    ) -> TensorType:
        same_dtype(data, constant_value)
        need_single(constant_value)
        if self.mode not in PAD_MODES:
            raise ShapeError(f"mode {self.mode!r} is none of {', '.join(PAD_MODES)}")
        shape, widths = data.tensor.shape, known(pads)
        padded = known_integers(axes)
        if shape is not None:
            count = len(shape) if axes is None else list_length(axes)
            message = f"{list_length(pads)} pads for {count} axes, expected {count * 2}"
            need_equal(list_length(pads), count * 2, message)
        if shape is None or widths is None or (axes is not None and padded is None):
            return data.tensor.with_shape(unknown_shape(None if shape is None else len(shape)))
        padded = list(range(len(shape))) if axes is None else resolve_axes(padded or (), len(shape))
        result = list(shape)
        for axis, before, behind in zip(padded, widths, widths[len(padded) :], strict=False):
            result[axis] = shape[axis] + before + behind
            left = shape[axis] + dims.minimum(before, 0) + dims.minimum(behind, 0)
            message = f"pads of {before} and {behind} cut more than the {shape[axis]} elements of axis {axis}"
            need_at_most(0, left, message)
        for size in result:
            need_at_most(0, size, f"the pads {widths} leave {result} of the shape {list(shape)}")
        return data.tensor.with_shape(tuple(result))

    def reference(
        self, data: Array, pads: Array, constant_value: Array | None = None, axes: Array | None = None
    ) -> Array:
        widths = integers(pads)
        padded = resolve_axes(range(data.ndim) if axes is None else integers(axes), data.ndim, OperatorError)
        if len(widths) != 2 * len(padded):
            raise OperatorError(f"{len(widths)} pads for {len(padded)} axes, expected {2 * len(padded)}")
        fill = zero(data.dtype) if constant_value is None else constant_value.reshape(())[()]
        for axis, before, behind in zip(padded, widths, widths[len(padded) :], strict=False):
            data = self._pad_axis(data, axis, before, behind, fill)
        return data.copy()

    def _pad_axis(self, data: Array, axis: int, before: int, behind: int, fill: Any) -> Array:
        size = data.shape[axis]
        cut = slice(max(-before, 0), max(size + min(behind, 0), 0))
        if size + min(before, 0) + min(behind, 0) < 0:
            raise OperatorError(f"pads of {before} and {behind} cut more than the {size} elements of axis {axis}")
        data = data[(slice(None),) * axis + (cut,)]
        before, behind, size = max(before, 0), max(behind, 0), data.shape[axis]
        result = (*data.shape[:axis], before + size + behind, *data.shape[axis + 1 :])
        check_size(result, data.dtype)
        if self.mode != "constant":
            return np.take(data, pad_sources(size, before, behind, self.mode), axis=axis)
        padded = np.full(result, fill, data.dtype)
        padded[(slice(None),) * axis + (slice(before, before + size),)] = data
        return padded

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        if self.mode != "constant":
            return NotImplemented
        axes, bar = inputs[3] if len(inputs) > 3 else None, output_bars[0]
        kept = b.Pad(bar, b.Neg(inputs[1]), None, axes)
        if len(inputs) < 3 or inputs[2] is None:
            return first_only(kept, inputs)
        around = b.ReduceSum(bar, keepdims=0) - b.ReduceSum(kept, keepdims=0)
        return kept, None, b.Reshape(around, b.Shape(inputs[2])), *[None] * (len(inputs) - 3)

    def smooth_form(
        self, b: Builder, data: Value, pads: Value, constant_value: Value | None = None, axes: Value | None = None
    ) -> Value:
        """Each element gathered from where it is copied: the numbers of an axis, padded, tell that."""
        chosen = list(range(data.rank)) if axes is None else known_integers(axes)
        if chosen is None:
            raise UnsupportedError(f"its gradient in mode {self.mode!r} needs axes that are known before the run")
        for i, axis in enumerate(resolve_axes(chosen, data.rank)):
            ends = b.Gather(pads, [i, i + len(chosen)], axis=0)
            size = b.Reshape(b.Shape(data, start=axis, end=axis + 1), b.constant(np.zeros(0, np.int64)))
            numbers = b.Range(b.constant(np.int64(0)), size, b.constant(np.int64(1)))
            data = b.Gather(data, b.Pad(numbers, ends, mode=self.mode), axis=axis)
        return data


PAD_MODES = ("constant", "reflect", "edge", "wrap")


def pad_sources(size: int, before: int, behind: int, mode: str) -> Array:
    """For each element along a padded axis, the index of the one that it copies."""
    places = np.arange(-before, size + behind)
    if size == 0:
        if places.size:
            raise OperatorError(f"an axis of size 0 has nothing to pad with in mode {mode!r}")
        return places
    if mode == "edge":
        return np.clip(places, 0, size - 1)
    if mode == "wrap":
        return places % size
    period = max(2 * (size - 1), 1)
    within = places % period
    return np.where(within < size, within, period - within)


class DepthToSpace(Op):
    """Blocks of channels laid out as `blocksize` x `blocksize` squares of the image."""

    keeps_rows = Rows.FIRST

    moves_only = True
    chooses_from = 1
    work = Work.LINEAR
    blocksize: int
    mode: str = "DCR"

    def expand(self, b: Builder, input: Value) -> Value:
        n, c, h, w = _image_sizes(b, input, self.blocksize, self.mode)
        size = [self.blocksize]
        depth = b.Div(c, [self.blocksize**2])
        parts = (n, size, size, depth, h, w) if self.mode == "DCR" else (n, depth, size, size, h, w)
        order = (0, 3, 4, 1, 5, 2) if self.mode == "DCR" else (0, 1, 4, 2, 5, 3)
        blocks = b.Transpose(b.Reshape(input, b.Concat(*parts, axis=0), allowzero=1), perm=order)
        result = b.Concat(n, depth, b.Mul(h, size), b.Mul(w, size), axis=0)
        return b.Reshape(blocks, result, allowzero=1)


class SpaceToDepth(Op):
    """`blocksize` x `blocksize` squares of the image laid out as channels: the inverse of DepthToSpace."""

    keeps_rows = Rows.FIRST

    moves_only = True
    chooses_from = 1
    work = Work.LINEAR
    blocksize: int
    mode: str = "DCR"

    def expand(self, b: Builder, input: Value) -> Value:
        n, c, h, w = _image_sizes(b, input, self.blocksize, self.mode)
        size = [self.blocksize]
        rows, columns = b.Div(h, size), b.Div(w, size)
        blocks = b.Reshape(input, b.Concat(n, c, rows, size, columns, size, axis=0), allowzero=1)
        order = (0, 3, 5, 1, 2, 4) if self.mode == "DCR" else (0, 1, 3, 5, 2, 4)
        result = b.Concat(n, b.Mul(c, [self.blocksize**2]), rows, columns, axis=0)
        return b.Reshape(b.Transpose(blocks, perm=order), result, allowzero=1)


def _image_sizes(b: Builder, image: Value, blocksize: int, mode: str) -> tuple[Value, ...]:
    if image.rank != 4:
        raise ShapeError(f"{image.name} has rank {image.rank}, expected 4 (batch, channels, height, width)")
    if blocksize < 1 or mode not in ("DCR", "CRD"):
        raise ShapeError(f"blocksize {blocksize} and mode {mode!r}: expected at least 1, and DCR or CRD")
    return b.Split(b.Shape(image), num_outputs=4, outputs=4)


class ReverseSequence(Op):
    """Each sequence of a batch with its first `sequence_lens[i]` elements in reverse order."""

    moves_only = True
    number_operand = 1
    batch_axis: int = 1
    time_axis: int = 0

    def infer(self, input: Value, sequence_lens: Value) -> TensorType:
        need_integers(sequence_lens)
        need_rank(input, 2)
        if sorted((self.batch_axis, self.time_axis)) != [0, 1]:
            raise ShapeError(
                f"batch_axis {self.batch_axis} and time_axis {self.time_axis}: expected 0 and 1 or 1 and 0"
            )
        return input.tensor

    def reference(self, input: Array, sequence_lens: Array) -> Array:
        output, steps = input.copy(), input.shape[self.time_axis]
        source, target = (np.moveaxis(a, self.batch_axis, 0) for a in (input, output))
        lengths = integers(sequence_lens)
        if len(lengths) != len(source) or any(not 0 <= length <= steps for length in lengths):
            raise OperatorError(f"sequence_lens {lengths}: expected {len(source)} lengths of 0 to {steps}")
        for i, length in enumerate(lengths):
            target[i, :length] = source[i, :length][::-1]
        return output

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        axes = {"batch_axis": self.batch_axis, "time_axis": self.time_axis}
        return b.ReverseSequence(output_bars[0], inputs[1], **axes), None


class Trilu(Op):
    """The upper or lower triangle of the last two axes from diagonal `k` on, zero elsewhere."""

    moves_only = True
    number_operand = 1
    work = Work.LINEAR
    upper: int = 1

    def infer(self, input: Value, k: Value | None = None) -> TensorType:
        need_rank(input, 2)
        if k is not None:
            need_integers(k)
            need_single(k)
        return input.tensor

    def reference(self, input: Array, k: Array | None = None) -> Array:
        offset = np.arange(input.shape[-1]) - np.arange(input.shape[-2])[:, None]
        diagonal = 0 if k is None else int(k.reshape(()))
        kept = offset >= diagonal if self.upper else offset <= diagonal
        return np.where(kept, input, np.zeros((), input.dtype))

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        return first_only(b.Trilu(output_bars[0], *inputs[1:], upper=self.upper), inputs)


class CenterCropPad(Op):
    """The middle of the tensor, cut or padded with zeros to the sizes `shape` along `axes`."""

    moves_only = True
    axes: tuple[int, ...] | None = None

    def infer(self, input_data: Value, shape: Value) -> TensorType:
        need_integers(shape)
        given = input_data.tensor.shape
        if given is None:
            return input_data.tensor
        axes = resolve_axes(range(len(given)) if self.axes is None else self.axes, len(given))
        need_equal(list_length(shape), len(axes), f"{list_length(shape)} sizes for {len(axes)} axes")
        sizes, result = sizes_of(shape) or [dims.fresh() for _ in axes], list(given)
        for axis, size in zip(axes, sizes, strict=True):
            result[axis] = size
        return input_data.tensor.with_shape(tuple(result))

    def reference(self, input_data: Array, shape: Array) -> Array:
        axes = resolve_axes(range(input_data.ndim) if self.axes is None else self.axes, input_data.ndim)
        result = list(input_data.shape)
        for axis, size in zip(axes, integers(shape), strict=True):
            result[axis] = size
        output = np.full(check_size(result, input_data.dtype), zero(input_data.dtype), input_data.dtype)
        pairs = [_centred(size, wanted) for size, wanted in zip(input_data.shape, result, strict=True)]
        output[tuple(target for _, target in pairs)] = input_data[tuple(source for source, _ in pairs)]
        return output

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> Gradients:
        """What was cut is padded, and what was padded is cut, at the same places."""
        sizes = b.Shape(inputs[0])
        if self.axes is not None:
            sizes = b.Gather(sizes, resolve_axes(self.axes, inputs[0].rank))
        return b.CenterCropPad(output_bars[0], sizes, axes=self.axes), None


def _centred(size: int, wanted: int) -> tuple[slice, slice]:
    """Where the kept elements lie in the input and in the output."""
    kept = min(size, wanted)
    source, target = (size - kept) // 2, (wanted - kept) // 2
    return slice(source, source + kept), slice(target, target + kept)
