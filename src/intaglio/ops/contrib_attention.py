"""Fused attention operators of ONNX Runtime (domain com.microsoft), in terms of the standard Attention."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.dtype import INT64, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Op
from intaglio.ops.contrib import DOMAIN, needed
from intaglio.ops.contrib_quantize import MatMulIntegerToFloat
from intaglio.ops.operand import cast, wide


def split_heads(b: Any, x: Value, heads: int) -> Value:
    """[batch, places, heads * size] as [batch, heads, places, size]."""
    if heads < 1:
        raise ShapeError(f"the number of heads is {heads}, it must be at least 1")
    return b.Transpose(b.Reshape(x, [0, 0, heads, -1]), perm=(0, 2, 1, 3))


def merge_heads(b: Any, x: Value) -> Value:
    """The inverse of `split_heads`."""
    return b.Reshape(b.Transpose(x, perm=(0, 2, 1, 3)), [0, 0, -1])


def length(b: Any, x: Value, axis: int) -> Value:
    """One dimension of x as a scalar."""
    return b.Squeeze(b.Shape(x, start=axis, end=axis + 1), [0])


def places(b: Any, count: Value) -> Value:
    """0, 1, ... up to a scalar count."""
    return b.Range(b.constant(0, INT64), count, b.constant(1, INT64))


def filled(b: Any, is_visible: Value, fill: float, dtype: DType) -> Value:
    """What is added to scores: 0 where a key is visible, else `fill`."""
    return b.Where(is_visible, b.constant(0, dtype), b.constant(fill, dtype))


def key_mask(b: Any, mask: Value, batch: Any, queries: Value, keys: Value) -> Value:
    """Whether each key is visible, from one of ONNX Runtime's mask formats; broadcasts to [batch, heads, places, keys].

    One axis: the length of each sequence, or the ends of all followed by their starts. Two axes: batch and key. Three:
    batch, query and key. Four: batch, 1, place and place, of which the last queries and the first keys count.
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


def _visible_range(b: Any, mask: Value, batch: Any, keys: Value) -> Value:
    key = places(b, keys)
    bounds = cast(b, mask, INT64)
    if dims.compare(mask.shape[0], batch) == 0:
        return b.Less(key, b.Reshape(bounds, [-1, 1, 1, 1]))
    if dims.compare(mask.shape[0], batch * 2) != 0:
        raise ShapeError(f"a mask of shape {list(mask.shape)} does not fit a batch of {batch}")
    ends, starts = (b.Reshape(part, [-1, 1, 1, 1]) for part in b.Split(bounds, num_outputs=2, axis=0, outputs=2))
    return b.And(b.Less(key, ends), b.GreaterOrEqual(key, starts))


def causal(b: Any, queries: Value, keys: Value) -> Value:
    """Whether each query sees each key, where the last query is at the place of the last key."""
    row = b.Unsqueeze(places(b, queries) + (keys - queries), [1])
    return b.LessOrEqual(places(b, keys), row)


def score_bias(b: Any, parts: list[Value | None]) -> Value | None:
    """The sum of what is added to the scores; None where nothing is."""
    given = [part for part in parts if part is not None]
    total = given[0] if given else None
    for part in given[1:]:
        total = b.Add(total, part)
    if total is not None and total.rank < 4:
        total = b.Unsqueeze(total, list(range(4 - total.rank)))
    return total


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
        self, b: Any, heads: list[Value], mask_index: Value | None, past: Value | None, attention_bias: Value | None
    ) -> tuple[Value, ...]:
        """The output and the new cache, from queries, keys and values as [batch, heads, places, size]."""
        if self.do_rotary or self.past_present_share_buffer:
            raise UnsupportedError(f"com.microsoft.{self.name} with do_rotary or past_present_share_buffer")
        q, k, v = heads
        if past is not None:
            k = b.Concat(b.Gather(past, b.constant(0, INT64), axis=0), k, axis=2)
            v = b.Concat(b.Gather(past, b.constant(1, INT64), axis=0), v, axis=2)
        queries, keys = length(b, q, 2), length(b, k, 2)
        parts: list[Value | None] = [attention_bias]
        if mask_index is not None:
            visible = key_mask(b, mask_index, q.shape[0], queries, keys)
            parts.append(filled(b, visible, self.mask_filter_value, q.dtype))
        if self.unidirectional:
            parts.append(filled(b, causal(b, queries, keys), lowest(q.dtype), q.dtype))
        y = merge_heads(b, b.Attention(q, k, v, score_bias(b, parts), scale=self.scale))
        if dims.compare(k.shape[3], v.shape[3]) != 0:
            return (y,)  # keys and values of different sizes have no common cache
        return y, b.Concat(b.Unsqueeze(k, [0]), b.Unsqueeze(v, [0]), axis=0)

    def split(self, b: Any, projected: Value, sizes: tuple[int, ...] | None = None) -> list[Value]:
        """The queries, keys and values that stand side by side in the last axis, by heads."""
        if sizes:
            parts = b.Split(projected, list(sizes), axis=2, outputs=3)
        else:
            parts = b.Split(projected, axis=2, num_outputs=3, outputs=3)
        return [split_heads(b, part, self.num_heads) for part in parts]


class Attention(SelfAttention):
    """Self-attention: input times the stacked weights of queries, keys and values, then attention per head."""

    qkv_hidden_sizes: tuple[int, ...] | None = None
    rotary_embedding_dim: int = 0

    def expand(
        self,
        b: Any,
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
        return self.attend(b, heads, mask_index, past, attention_bias)


class QAttention(SelfAttention):
    """Self-attention of a quantized input with quantized weights, in floating point behind the projection."""

    def expand(
        self,
        b: Any,
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
    """Attention of projected queries, keys and values, which may be packed together, with biases, masks and caches."""

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("output", "present_key", "present_value", "qk")
    mask_filter_value: float = -10000.0
    num_heads: int
    scale: float | None = None
    unidirectional: int = 0

    def expand(
        self,
        b: Any,
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
        if past_sequence_length is not None or cache_indirection is not None:
            raise UnsupportedError("MultiHeadAttention with past_sequence_length or cache_indirection")
        q, k, v = self._heads(b, query, key, value, bias)
        if past_key is not None and past_value is not None:
            k, v = b.Concat(past_key, k, axis=2), b.Concat(past_value, v, axis=2)
        queries, keys = length(b, q, 2), length(b, k, 2)
        parts: list[Value | None] = [attention_bias]
        if key_padding_mask is not None:
            visible = key_mask(b, key_padding_mask, query.shape[0], queries, keys)
            parts.append(filled(b, visible, self.mask_filter_value, q.dtype))
        if self.unidirectional:
            parts.append(filled(b, causal(b, queries, keys), lowest(q.dtype), q.dtype))
        y, k, v, qk = b.Attention(q, k, v, score_bias(b, parts), scale=self.scale, qk_matmul_output_mode=3, outputs=4)
        return merge_heads(b, y), k, v, qk

    def _heads(
        self, b: Any, query: Value, key: Value | None, value: Value | None, bias: Value | None
    ) -> tuple[Value, Value, Value]:
        """Queries, keys and values as [batch, heads, places, size], with their biases added."""
        flat = self._unpacked(b, query, key, value)
        if bias is not None:
            flat = self._biased(b, flat, bias)
        q, k, v = (x if x.rank == 4 else split_heads(b, x, self.num_heads) for x in flat)
        return q, k, v

    def _unpacked(self, b: Any, query: Value, key: Value | None, value: Value | None) -> list[Value]:
        if query.rank == 5:
            return self._unstacked(b, query, 3)
        keys = needed(key, "key")
        if keys.rank == 5:
            return [query, *self._unstacked(b, keys, 2)]
        return [query, keys, needed(value, "value")]

    def _unstacked(self, b: Any, x: Value, count: int) -> list[Value]:
        """[batch, places, heads, count, size] as `count` values of [batch, places, heads * size]."""
        parts = b.Split(x, axis=3, num_outputs=count, outputs=count)
        return [b.Reshape(part, [0, 0, -1]) for part in parts]

    def _biased(self, b: Any, flat: list[Value], bias: Value) -> list[Value]:
        query, key, value = flat
        width = query.shape[2]
        sizes = [width, width, bias.shape[0] - width * 2]
        if not all(isinstance(size, int) for size in sizes):
            raise ShapeError(f"the sizes of the biases in {bias.type} are not known")
        parts = b.Split(bias, sizes, axis=0, outputs=3)
        # Keys and values of rank 4 come from a cache and are projected and biased already.
        return [x + part if x.rank == 3 else x for x, part in zip((query, key, value), parts, strict=True)]


class GroupQueryAttention(Op):
    """Causal attention whose keys and values have fewer heads than the queries, with a cache and rotary embedding.

    The cache of each sample is filled up to its own length, `seqlens_k` + 1; what lies behind is zero.
    """

    domain: ClassVar[str] = DOMAIN
    output_names: ClassVar[tuple[str, ...]] = ("output", "present_key", "present_value", "output_qk")
    causal: int = 1
    do_rotary: int = 0
    k_quant_type: str = "NONE"
    kv_cache_bit_width: int = 0
    kv_num_heads: int
    local_window_size: int = -1
    num_heads: int
    qk_output: int = 0
    rotary_interleaved: int = 0
    scale: float | None = None
    sliding_window_cache: int = 0
    smooth_softmax: int = -1
    softcap: float = 0.0
    v_quant_type: str = "NONE"

    def expand(
        self,
        b: Any,
        query: Value,
        key: Value | None = None,
        value: Value | None = None,
        past_key: Value | None = None,
        past_value: Value | None = None,
        seqlens_k: Value | None = None,
        total_sequence_length: Value | None = None,
        cos_cache: Value | None = None,
        sin_cache: Value | None = None,
        position_ids: Value | None = None,
        attention_bias: Value | None = None,
        head_sink: Value | None = None,
        k_scale: Value | None = None,
        v_scale: Value | None = None,
        q_norm_weight: Value | None = None,
        k_norm_weight: Value | None = None,
    ) -> tuple[Value, ...]:
        self._refuse(k_scale, v_scale, q_norm_weight, k_norm_weight)
        q, k, v = self._heads(b, query, key, value)
        count = length(b, q, 2)
        total = b.Reshape(cast(b, needed(total_sequence_length, "total_sequence_length"), INT64), _SCALAR)
        ends = b.Reshape(cast(b, needed(seqlens_k, "seqlens_k"), INT64), [-1, 1]) + 1
        past = b.Where(b.Equal(count, total), b.constant(0, INT64), ends - count)
        if self.do_rotary and cos_cache is not None and sin_cache is not None:
            at = b.Unsqueeze(places(b, count), [0]) + past if position_ids is None else position_ids
            turn = {"interleaved": self.rotary_interleaved, "rotary_embedding_dim": _rotated(q, cos_cache)}
            q, k = (b.RotaryEmbedding(x, cos_cache, sin_cache, at, **turn) for x in (q, k))
        held = b.constant(0, INT64) if past_key is None else length(b, past_key, 2)
        cache = places(b, b.Max(held, total))
        k, v = (_appended(b, *pair, held, past, cache) for pair in ((past_key, k), (past_value, v)))
        visible = self._visible(b, count, cache, past, ends)
        y, scores = self._attend(b, q, k, v, visible, attention_bias, head_sink)
        return merge_heads(b, y), k, v, scores

    def _refuse(self, *unsupported: Value | None) -> None:
        is_quantized = self.k_quant_type != "NONE" or self.v_quant_type != "NONE" or self.kv_cache_bit_width
        if is_quantized or self.sliding_window_cache or any(value is not None for value in unsupported):
            raise UnsupportedError(
                "GroupQueryAttention with a quantized or sliding cache or with normalized queries and keys"
            )

    def _heads(self, b: Any, query: Value, key: Value | None, value: Value | None) -> list[Value]:
        counts = [self.num_heads, self.kv_num_heads, self.kv_num_heads]
        if key is not None and value is not None:
            return [split_heads(b, x, heads) for x, heads in zip((query, key, value), counts, strict=True)]
        packed = split_heads(b, query, sum(counts))
        return list(b.Split(packed, counts, axis=1, outputs=3))

    def _visible(self, b: Any, count: Value, key: Value, past: Value, ends: Value) -> Value:
        """Whether each query of each sample sees each key: [batch, 1, places, keys]."""
        visible = b.Less(key, b.Reshape(ends, [-1, 1, 1, 1]))
        if not self.causal:
            return visible
        row = b.Unsqueeze(b.Unsqueeze(places(b, count), [0]) + past, [1, 3])
        visible = b.And(visible, b.LessOrEqual(key, row))
        if self.local_window_size >= 0:
            visible = b.And(visible, b.Greater(key, row - self.local_window_size))
        return visible

    def _attend(
        self, b: Any, q: Value, k: Value, v: Value, visible: Value, bias: Value | None, sink: Value | None
    ) -> tuple[Value, Value]:
        zero, hidden = b.constant(0, q.dtype), b.constant(-np.inf, q.dtype)
        mask = b.Where(visible, zero if bias is None else bias, hidden)
        options = {"scale": self.scale, "softcap": self.softcap, "qk_matmul_output_mode": 2}
        y, _, _, scores = b.Attention(q, k, v, mask, **options, outputs=4)
        weight = _softmax_with_sink(b, wide(b, scores), sink, self.smooth_softmax == 1)
        if sink is not None or self.smooth_softmax == 1:
            shape, groups = _merged_shape(b, v, self.num_heads), self.num_heads // self.kv_num_heads
            values = b.Reshape(b.Expand(b.Unsqueeze(v, [2]), [1, 1, groups, 1, 1]), shape)
            y = cast(b, b.MatMul(weight, wide(b, values)), q.dtype)
        return y, b.Where(visible, scores, zero) if self.qk_output == 1 else cast(b, weight, q.dtype)


_SCALAR = np.zeros(0, np.int64)


def _rotated(q: Value, cos_cache: Value) -> int:
    """The number of elements of a head that are rotated; 0 where all are."""
    width = cos_cache.shape[1]
    return width * 2 if isinstance(width, int) and dims.compare(width * 2, q.shape[3]) != 0 else 0


def _appended(b: Any, past: Value | None, new: Value, held: Value, start: Value, cache: Value) -> Value:
    """A cache of which `held` rows are given, with new ones from each sample's own start on, and zeros behind them."""
    place = b.Unsqueeze(cache, [0])
    last = held + length(b, new, 2) - 1
    index = b.Where(b.Less(place, start), place, place - start + held)
    inside = b.Max(b.Min(index, last), 0)
    both = new if past is None else b.Concat(past, new, axis=2)
    rows = b.GatherND(b.Transpose(both, perm=(0, 2, 1, 3)), b.Unsqueeze(inside, [2]), batch_dims=1)
    is_filled = b.Unsqueeze(b.Less(place, start + length(b, new, 2)), [1, 3])
    return b.Where(is_filled, b.Transpose(rows, perm=(0, 2, 1, 3)), b.constant(0, new.dtype))


def _merged_shape(b: Any, v: Value, heads: int) -> Value:
    """[batch, heads, places, size] of values whose heads were repeated."""
    return b.Concat(b.Shape(v, start=0, end=1), b.constant([heads]), b.Shape(v, start=2, end=4), axis=0)


def _softmax_with_sink(b: Any, scores: Value, sink: Value | None, is_smooth: bool) -> Value:
    """Softmax over the keys, and where asked for over one more of the given score (else 0), which holds nothing."""
    if sink is None and not is_smooth:
        return b.Softmax(scores, axis=3)
    score = b.constant(0, scores.dtype) if sink is None else cast(b, b.Reshape(sink, [1, -1, 1, 1]), scores.dtype)
    column = b.Expand(score, b.Concat(b.Shape(scores, start=0, end=3), b.constant([1]), axis=0))
    weight = b.Softmax(b.Concat(scores, column, axis=3), axis=3)
    return b.Slice(weight, [0], [-1], [3])
