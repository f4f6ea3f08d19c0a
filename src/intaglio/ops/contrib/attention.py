"""Fused attention operators of ONNX Runtime (domain com.microsoft), in terms of the standard Attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dtype import INT64, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Op, Rows
from intaglio.ops.contrib.fused import DOMAIN, needed
from intaglio.ops.contrib.quantize import MatMulIntegerToFloat
from intaglio.ops.shared.operand import cast


def split_heads(b: Builder, x: Value, heads: int, size: int = -1) -> Value:
    """[batch, places, heads * size] as [batch, heads, places, size]; without places the size must be given."""
    if heads < 1:
        raise ShapeError(f"the number of heads is {heads}, it must be at least 1")
    return b.Transpose(b.Reshape(x, [0, 0, heads, size]), perm=(0, 2, 1, 3))


def merge_heads(b: Builder, x: Value) -> Value:
    """The inverse of `split_heads`."""
    return b.Reshape(b.Transpose(x, perm=(0, 2, 1, 3)), [0, 0, -1])


def length(b: Builder, x: Value, axis: int) -> Value:
    """One dimension of x as a scalar."""
    return b.Squeeze(b.Shape(x, start=axis, end=axis + 1), [0])


def places(b: Builder, count: Value) -> Value:
    """0, 1, ... up to a scalar count."""
    return b.Range(b.constant(0, INT64), count, b.constant(1, INT64))


def filled(b: Builder, is_visible: Value, fill: float, dtype: DType) -> Value:
    """What is added to scores: 0 where a key is visible, else `fill`."""
    return b.Where(is_visible, b.constant(0, dtype), b.constant(fill, dtype))


def key_mask(b: Builder, mask: Value, batch: Any, queries: Value, keys: Value) -> Value:
    """Whether each key is visible, from one of ONNX Runtime's mask formats; broadcasts to [batch, heads, places, keys].

    One axis: the length of each sequence, which the starts of all queries and keys in a packed batch may follow, or the
    ends of all followed by their starts. Two axes: batch and key. Three: batch, query and key. Four: batch, 1, place
    and place, of which the last queries and the first keys count.
    """
    if mask.rank == 1:
        return _visible_range(b, mask, batch, keys)
    if mask.rank == 2:
        return b.Greater(b.Unsqueeze(mask, [1, 2]), 0)
    if mask.rank == 3:
        return b.Greater(b.Unsqueeze(mask, [1]), 0)
    start = b.Unsqueeze(keys - queries, [0])
    ends = b.Concat(b.Unsqueeze(keys, [0]), b.Unsqueeze(keys, [0]), axis=0)
    return b.Greater(b.Slice(mask, b.Concat(start, b.constant([0]), axis=0), ends, [2, 3]), 0)


def _visible_range(b: Builder, mask: Value, batch: Any, keys: Value) -> Value:
    key = places(b, keys)
    bounds = cast(b, mask, INT64)
    if dims.compare(mask.shape[0], batch * 2) == 0:
        ends, starts = (b.Reshape(part, [-1, 1, 1, 1]) for part in b.Split(bounds, num_outputs=2, axis=0, outputs=2))
        return b.And(b.Less(key, ends), b.GreaterOrEqual(key, starts))
    if dims.compare(mask.shape[0], batch * 3 + 2) == 0:
        bounds = b.Slice(bounds, [0], b.Div(b.Shape(mask) - 2, 3), [0])
    elif dims.compare(mask.shape[0], batch) in (-1, 1):
        raise ShapeError(f"a mask of shape {list(mask.shape)} does not fit a batch of {batch}")
    return b.Less(key, b.Reshape(bounds, [-1, 1, 1, 1]))


def causal(b: Builder, queries: Value, keys: Value, past: Value) -> Value:
    """Whether each query sees each key, where the first query is at the place behind the past keys."""
    row = b.Unsqueeze(places(b, queries) + past, [1])
    return b.LessOrEqual(places(b, keys), row)


def score_bias(b: Builder, parts: list[Value | None]) -> Value | None:
    """The sum of what is added to the scores; None where nothing is."""
    given = [part for part in parts if part is not None]
    total = reduce(b.Add, given) if given else None
    if total is not None and total.rank < 4:
        total = b.Unsqueeze(total, list(range(4 - total.rank)))
    return total


def scalar(b: Builder, number: Value) -> Value:
    """A number in a tensor of one element as an int64 scalar."""
    return b.Reshape(cast(b, number, INT64), np.zeros(0, np.int64))


def in_buffer(b: Builder, buffer: Value, new: Value, start: Value) -> Value:
    """A cache [batch, heads, places, size] that is longer than what it holds, with new rows from `start` on."""
    return b.TensorScatter(buffer, new, b.Expand(start, b.Shape(new, start=0, end=1)), axis=2)


def first_rows(b: Builder, count: Value, *caches: Value) -> tuple[Value, ...]:
    """The first rows of caches, so many of all."""
    rows = places(b, count)
    return tuple(b.Gather(cache, rows, axis=2) for cache in caches)


class SelfAttention(Op, abstract=True):
    """What self-attention of plain and of quantized inputs share: all behind the projection."""

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("output", "present")
    do_rotary: int = 0
    mask_filter_value: float = -10000.0
    num_heads: int
    past_present_share_buffer: int = 0
    scale: float | None = None
    unidirectional: int = 0

    def attend(
        self,
        b: Builder,
        heads: list[Value],
        mask_index: Value | None,
        past: Value | None,
        attention_bias: Value | None,
        past_sequence_length: Value | None = None,
    ) -> tuple[Value, ...]:
        """The output and the new cache, from queries, keys and values as [batch, heads, places, size]."""
        if self.do_rotary:
            raise UnsupportedError(
                f"com.microsoft.{self.name} with do_rotary, which ONNX Runtime's CPU kernel refuses too"
            )
        q, k, v = heads
        before, (k, v), present = self._cached(b, k, v, past, past_sequence_length)
        queries, keys = length(b, q, 2), length(b, k, 2)
        parts: list[Value | None] = [attention_bias]
        if mask_index is not None and not (mask_index.rank == 2 and mask_index.shape[1] == 1):
            visible = key_mask(b, mask_index, q.shape[0], queries, keys)
            parts.append(filled(b, visible, self.mask_filter_value, q.dtype))
        if self.unidirectional:
            parts.append(filled(b, causal(b, queries, keys, before), lowest(q.dtype), q.dtype))
        y = merge_heads(b, b.Attention(q, k, v, score_bias(b, parts), scale=self.scale))
        if dims.compare(k.shape[3], v.shape[3]) in (-1, 1):
            return (y,)  # keys and values of different sizes have no common cache
        return y, b.Concat(*(b.Unsqueeze(part, [0]) for part in present), axis=0)

    def _cached(
        self, b: Builder, k: Value, v: Value, past: Value | None, past_sequence_length: Value | None
    ) -> tuple[Value, tuple[Value, Value], tuple[Value, Value]]:
        """The number of past keys, keys and values with the past ones, and what becomes the new cache."""
        if past is None:
            return b.constant(0, INT64), (k, v), (k, v)
        old = [b.Gather(past, b.constant(index, INT64), axis=0) for index in (0, 1)]
        if not self.past_present_share_buffer:
            both = b.Concat(old[0], k, axis=2), b.Concat(old[1], v, axis=2)
            return length(b, old[0], 2), both, both
        start = scalar(b, needed(past_sequence_length, "past_sequence_length"))
        present = in_buffer(b, old[0], k, start), in_buffer(b, old[1], v, start)
        keys, values = first_rows(b, start + length(b, k, 2), *present)
        return start, (keys, values), present

    def split(self, b: Builder, projected: Value, sizes: tuple[int, ...] | None = None) -> list[Value]:
        """The queries, keys and values that stand side by side in the last axis, by heads."""
        if sizes:
            parts = b.Split(projected, list(sizes), axis=2, outputs=3)
        else:
            parts = b.Split(projected, axis=2, num_outputs=3, outputs=3)
        return [split_heads(b, part, self.num_heads) for part in parts]


class Attention(SelfAttention):
    """Self-attention: input times the stacked weights of queries, keys and values, then attention per head."""

    keeps_rows = Rows.FIRST

    qkv_hidden_sizes: tuple[int, ...] | None = None
    rotary_embedding_dim: int = 0

    def expand(
        self,
        b: Builder,
        input: Value,
        weights: Value,
        bias: Value | None = None,
        mask_index: Value | None = None,
        past: Value | None = None,
        attention_bias: Value | None = None,
        past_sequence_length: Value | None = None,
    ) -> tuple[Value, ...]:
        projected = b.MatMul(input, weights)
        heads = self.split(b, projected if bias is None else projected + bias, self.qkv_hidden_sizes)
        return self.attend(b, heads, mask_index, past, attention_bias, past_sequence_length)


class QAttention(SelfAttention):
    """Self-attention of a quantized input with quantized weights, in floating point behind the projection."""

    no_gradient = "it computes with quantized integers"

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        return (given["input_scale"].dtype,) * 2

    def expand(
        self,
        b: Builder,
        input: Value,
        weight: Value,
        bias: Value,
        input_scale: Value,
        weight_scale: Value,
        mask_index: Value | None = None,
        input_zero_point: Value | None = None,
        weight_zero_point: Value | None = None,
        past: Value | None = None,
    ) -> tuple[Value, ...]:
        operands = (input, weight, input_scale, weight_scale, input_zero_point, weight_zero_point, bias)
        return self.attend(b, self.split(b, b.apply(MatMulIntegerToFloat, *operands)), mask_index, past, None)


def lowest(dtype: DType) -> float:
    """A finite number below all scores, which hides a key without making a row of nothing but infinities."""
    return -65504.0 if dtype.bits < 32 else float(np.finfo(np.float32).min)


class MultiHeadAttention(Op):
    """Attention of projected queries, keys and values, which may be packed together, with biases, masks and caches.

    Where `past_sequence_length` is given, the caches are buffers that hold so many rows, and where there is a single
    query, `cache_indirection` names for each of them the beam that it comes from.
    """

    keeps_rows = Rows.FIRST

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("output", "present_key", "present_value", "qk")
    mask_filter_value: float = -10000.0
    num_heads: int
    scale: float | None = None
    unidirectional: int = 0

    def expand(
        self,
        b: Builder,
        query: Value,
        key: Value | None = None,
        value: Value | None = None,
        bias: Value | None = None,
        key_padding_mask: Value | None = None,
        attention_bias: Value | None = None,
        past_key: Value | None = None,
        past_value: Value | None = None,
        past_sequence_length: Value | None = None,
        cache_indirection: Value | None = None,
    ) -> tuple[Value, ...]:
        q, k, v = self._heads(b, query, key, value, bias)
        queries, before, present = length(b, q, 2), b.constant(0, INT64), (k, v)
        if past_key is not None and past_value is not None and past_sequence_length is not None:
            before = scalar(b, past_sequence_length)
            present = in_buffer(b, past_key, k, before), in_buffer(b, past_value, v, before)
            k, v = first_rows(b, before + length(b, k, 2), *present)
            if cache_indirection is not None and (not isinstance(q.shape[2], int) or q.shape[2] == 1):
                source = beam_sources(b, cache_indirection, queries, before)
                k, v = from_beams(b, k, source), from_beams(b, v, source)
        elif past_key is not None and past_value is not None:
            before = length(b, past_key, 2)
            k, v = present = b.Concat(past_key, k, axis=2), b.Concat(past_value, v, axis=2)
        keys = length(b, k, 2)
        parts: list[Value | None] = [attention_bias]
        if key_padding_mask is not None:
            visible = key_mask(b, key_padding_mask, query.shape[0], queries, keys)
            parts.append(filled(b, visible, self.mask_filter_value, q.dtype))
        if self.unidirectional:
            parts.append(filled(b, causal(b, queries, keys, before), lowest(q.dtype), q.dtype))
        y, _, _, qk = b.Attention(q, k, v, score_bias(b, parts), scale=self.scale, qk_matmul_output_mode=3, outputs=4)
        return merge_heads(b, y), *present, qk

    def _heads(
        self, b: Builder, query: Value, key: Value | None, value: Value | None, bias: Value | None
    ) -> tuple[Value, Value, Value]:
        """Queries, keys and values as [batch, heads, places, size], with their biases added."""
        flat = self._unpacked(b, query, key, value)
        if bias is not None:
            flat = self._biased(b, flat, bias)
        q, k, v = (x if x.rank == 4 else split_heads(b, x, self.num_heads) for x in flat)
        return q, k, v

    def _unpacked(self, b: Builder, query: Value, key: Value | None, value: Value | None) -> list[Value]:
        if query.rank == 5:
            return self._unstacked(b, query, 3)
        keys = needed(key, "key")
        if keys.rank == 5:
            return [query, *self._unstacked(b, keys, 2)]
        return [query, keys, needed(value, "value")]

    def _unstacked(self, b: Builder, x: Value, count: int) -> list[Value]:
        """[batch, places, heads, count, size] as `count` values of [batch, places, heads * size]."""
        parts = b.Split(x, axis=3, num_outputs=count, outputs=count)
        return [b.Reshape(part, [0, 0, -1]) for part in parts]

    def _biased(self, b: Builder, flat: list[Value], bias: Value) -> list[Value]:
        query, key, value = flat
        width = query.shape[2]
        sizes = [width, width, bias.shape[0] - width * 2]
        if not all(isinstance(size, int) for size in sizes):
            raise ShapeError(f"the sizes of the biases in {bias.type} are not known")
        parts = b.Split(bias, sizes, axis=0, outputs=3)
        # Keys and values of rank 4 come from a cache and are projected and biased already.
        return [x + part if x.rank == 3 else x for x, part in zip((query, key, value), parts, strict=True)]


def beam_sources(b: Builder, indirection: Value, queries: Value, past: Value) -> Value:
    """The sample that each key of each sample comes from: its beam's for past keys of a single query, else its own."""
    samples = b.Mul(length(b, indirection, 0), length(b, indirection, 1))
    own = b.Unsqueeze(places(b, samples), [1])
    first = own - b.Mod(own, length(b, indirection, 1))
    beam = b.Reshape(cast(b, indirection, INT64), b.Concat(b.Unsqueeze(samples, [0]), b.constant([-1]), axis=0))
    beam = first + b.Gather(beam, places(b, past), axis=1)
    shape = b.Concat(b.Unsqueeze(samples, [0]), b.Unsqueeze(queries, [0]), axis=0)
    return b.Concat(b.Where(b.Equal(queries, 1), beam, own), b.Expand(own, shape), axis=1)


def from_beams(b: Builder, cache: Value, source: Value) -> Value:
    """[batch, heads, places, size] with each row taken from the sample that `source` [batch, places] names."""
    row = b.Expand(places(b, length(b, cache, 2)), b.Shape(source))
    index = b.Concat(b.Unsqueeze(source, [2]), b.Unsqueeze(row, [2]), axis=2)
    return b.Transpose(b.GatherND(b.Transpose(cache, perm=(0, 2, 1, 3)), index), perm=(0, 2, 1, 3))


class DecoderMaskedMultiHeadAttention(Op):
    """MultiHeadAttention of a single query, whose past keys and values may come from other beams."""

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("output", "present_key", "present_value", "qk")
    mask_filter_value: float = -10000.0
    num_heads: int
    output_qk: int = 0
    past_present_share_buffer: int = 0
    scale: float | None = None

    def expand(
        self,
        b: Builder,
        query: Value,
        key: Value | None = None,
        value: Value | None = None,
        mask_index: Value | None = None,
        attention_bias: Value | None = None,
        past_key: Value | None = None,
        past_value: Value | None = None,
        past_sequence_length: Value | None = None,
        beam_width: Value | None = None,
        cache_indirection: Value | None = None,
        bias: Value | None = None,
    ) -> tuple[Value, ...]:
        if key is None or value is None:
            query, key, value = b.Split(query, axis=2, num_outputs=3, outputs=3)
        shared = (past_sequence_length, cache_indirection) if self.past_present_share_buffer else (None, None)
        inputs = (query, key, value, bias, mask_index, attention_bias, past_key, past_value, *shared)
        options = {"mask_filter_value": self.mask_filter_value, "num_heads": self.num_heads, "scale": self.scale}
        return b.apply(MultiHeadAttention, *inputs, **options, outputs=4)
