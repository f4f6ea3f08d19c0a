"""Grouped-query attention of ONNX Runtime (domain com.microsoft): plain, quantized and sliding caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT8, INT32, INT64, UINT8, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Op
from intaglio.ops.contrib.attention import length, merge_heads, places, scalar, split_heads
from intaglio.ops.contrib.fused import DOMAIN, needed, unpack_bits
from intaglio.ops.shared.operand import cast, wide


class Cache:
    """How keys or values lie in a cache: as they are, or as integers of 8 or 4 bits with a scale."""

    def __init__(self, kind: str, bits: int, scale: Value | None, heads: int) -> None:
        if kind not in ("NONE", "PER_TENSOR", "PER_CHANNEL"):
            raise ShapeError(f"the quantization type is {kind!r}, expected NONE, PER_TENSOR or PER_CHANNEL")
        if kind != "NONE" and bits not in (4, 8):
            raise UnsupportedError(f"GroupQueryAttention with a cache of {bits} bits, expected 4 or 8")
        self.kind, self.bits, self.scale, self.heads = kind, bits, scale, heads

    def _step(self, b: Builder) -> Value:
        scale = cast(b, needed(self.scale, "k_scale and v_scale"), FLOAT32)
        return b.Reshape(scale, [1, 1, 1, 1] if self.kind == "PER_TENSOR" else [1, self.heads, 1, -1])

    def pack(self, b: Builder, x: Value) -> Value:
        """[batch, heads, places, size] as the cache holds it."""
        if self.kind == "NONE":
            return x
        low, high = -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        number = b.Clip(b.Round(cast(b, x, FLOAT32) / self._step(b)), float(low), float(high))
        if self.bits == 8:
            return cast(b, number, INT8)
        nibble, end = cast(b, cast(b, number - low, INT32), UINT8), np.iinfo(np.int64).max
        first, second = (b.Slice(nibble, [start], [end], [3], [2]) for start in (0, 1))
        return b.BitwiseOr(first, b.BitShift(second, b.constant(4, UINT8), direction="LEFT"))

    def unpack(self, b: Builder, x: Value, dtype: DType) -> Value:
        """The numbers behind what a cache holds."""
        if self.kind == "NONE":
            return x
        number = cast(b, x, FLOAT32) if self.bits == 8 else cast(b, unpack_bits(b, x, 4), FLOAT32) - 8
        return cast(b, number * self._step(b), dtype)


class GroupQueryAttention(Op):
    """Causal attention whose keys and values have fewer heads than the queries, with a cache and rotary embedding.

    The cache of each sample is filled up to its own length, `seqlens_k` + 1; what lies behind is zero. A sliding cache
    holds the last rows only, from row 0 on.
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
    qk_norm_epsilon: float = 1e-6
    qk_output: int = 0
    rotary_interleaved: int = 0
    scale: float | None = None
    sliding_window_cache: int = 0
    smooth_softmax: int = -1
    softcap: float = 0.0
    v_quant_type: str = "NONE"

    def element_types(self, given: Mapping[str, Value]) -> Sequence[DType]:
        query = given["query"].dtype
        return query, *(given[name].dtype if name in given else query for name in ("past_key", "past_value")), query

    def expand(
        self,
        b: Builder,
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
        q, k, v = self._heads(b, query, key, value)
        if q_norm_weight is not None and k_norm_weight is not None:
            q = b.RMSNormalization(q, q_norm_weight, axis=-1, epsilon=self.qk_norm_epsilon)
            k = b.RMSNormalization(k, k_norm_weight, axis=-1, epsilon=self.qk_norm_epsilon)
        count, total = length(b, q, 2), scalar(b, needed(total_sequence_length, "total_sequence_length"))
        ends = b.Reshape(cast(b, needed(seqlens_k, "seqlens_k"), INT64), [-1, 1]) + 1
        before = b.Where(b.Equal(count, total), b.constant(0, INT64), ends - count)
        if self.do_rotary and cos_cache is not None and sin_cache is not None:
            at = b.Unsqueeze(places(b, count), [0]) + before if position_ids is None else position_ids
            turn = {"interleaved": self.rotary_interleaved, "rotary_embedding_dim": _rotated(q, cos_cache)}
            q = b.RotaryEmbedding(q, cos_cache, sin_cache, at, **turn)
            k = k if k.shape[2] == 0 else b.RotaryEmbedding(k, cos_cache, sin_cache, at, **turn)
        stores = (
            (Cache(self.k_quant_type, self.kv_cache_bit_width, k_scale, self.kv_num_heads), past_key, k),
            (Cache(self.v_quant_type, self.kv_cache_bit_width, v_scale, self.kv_num_heads), past_value, v),
        )
        keep = self._slide if self.sliding_window_cache else self._keep
        present, held, place, visible = keep(b, stores, count, total, before, ends)
        numbers = [cache.unpack(b, rows, q.dtype) for (cache, _, _), rows in zip(stores, held, strict=True)]
        bias = None if attention_bias is None else _columns(b, attention_bias, place, visible)
        y, scores = self._attend(b, q, numbers[0], numbers[1], visible, bias, head_sink)
        scores = scores if self.sliding_window_cache else b.Gather(scores, places(b, total), axis=3)
        return merge_heads(b, y), *present, scores

    def _heads(self, b: Builder, query: Value, key: Value | None, value: Value | None) -> list[Value]:
        counts = [self.num_heads, self.kv_num_heads, self.kv_num_heads]
        if key is not None and value is not None:
            size = query.shape[2] // self.num_heads if isinstance(query.shape[2], int) else -1
            return [split_heads(b, x, heads, size) for x, heads in zip((query, key, value), counts, strict=True)]
        packed = split_heads(b, query, sum(counts))
        return list(b.Split(packed, counts, axis=1, outputs=3))

    def _keep(self, b: Builder, stores: Any, count: Value, total: Value, before: Value, ends: Value) -> Any:
        """The new caches, the rows to attend to (the same), their places, and which of them each query sees."""
        (_, past, new), _ = stores
        held = b.constant(0, INT64) if past is None else length(b, past, 2)
        cache = places(b, b.Max(held, total))
        start = ends if new.shape[2] == 0 else before  # keys that another layer has put into its cache
        rows = [_appended(b, past, store.pack(b, new), held, start, cache) for store, past, new in stores]
        visible = b.Less(cache, b.Reshape(ends, [-1, 1, 1, 1]))
        return rows, rows, None, b.And(visible, self._seen(b, cache, count, before))

    def _slide(self, b: Builder, stores: Any, count: Value, total: Value, before: Value, ends: Value) -> Any:
        """Like `_keep` for caches of the last rows, which hold fewer places than there were."""
        if self.qk_output:
            raise UnsupportedError("qk_output with sliding_window_cache, which ONNX Runtime's CPU kernel refuses too")
        if self.local_window_size < 1:
            raise ShapeError("sliding_window_cache needs a local_window_size of at least 1")
        size = length(b, needed(stores[0][1], "past_key"), 2)
        old, left = (self._resident(b, number, size) for number in (before, ends))
        row = b.Unsqueeze(places(b, size + count), [0])
        place = b.Where(b.Less(row, size), before - old + row, before - size + row)
        is_held = b.Or(b.Less(row, old), b.GreaterOrEqual(row, size))
        wanted = b.Unsqueeze(places(b, size), [0]) + (ends - left)
        source = b.Where(b.Less(wanted, before), wanted - before + old, wanted - before + size)
        rows = [b.Concat(past, store.pack(b, new), axis=2) for store, past, new in stores]
        is_filled = b.Less(wanted, ends)
        present = [_taken(b, both, b.Where(is_filled, source, b.constant(0, INT64)), is_filled) for both in rows]
        visible = b.And(b.Unsqueeze(b.And(is_held, b.Less(place, ends)), [1, 2]), self._seen(b, place, count, before))
        return present, rows, place, visible

    def _resident(self, b: Builder, number: Value, size: Value) -> Value:
        """How many of the last places a sliding cache holds after so many: it drops several at once when it is full."""
        step = size - (self.local_window_size - 1)
        drops = b.Max(b.Div(number - size + step - 1, step), b.constant(0, INT64))
        return number - drops * step

    def _seen(self, b: Builder, key: Value, count: Value, before: Value) -> Value:
        """Whether each query sees the keys at these places, [keys] or [batch, keys], by the order of both alone."""
        if not self.causal:
            return b.constant(np.array(True))
        key = key if key.rank == 1 else b.Unsqueeze(key, [1, 2])
        row = b.Unsqueeze(b.Unsqueeze(places(b, count), [0]) + before, [1, 3])
        visible = b.LessOrEqual(key, row)
        if self.local_window_size >= 0:
            visible = b.And(visible, b.Greater(key, row - self.local_window_size))
        return visible

    def _attend(
        self, b: Builder, q: Value, k: Value, v: Value, visible: Value, bias: Value | None, sink: Value | None
    ) -> tuple[Value, Value]:
        zero, hidden = b.constant(0, q.dtype), b.constant(-np.inf, q.dtype)
        mask = b.Where(visible, zero if bias is None else bias, hidden)
        y, _, _, scores = b.Attention(
            q, k, v, mask, scale=self.scale, softcap=self.softcap, qk_matmul_output_mode=2, outputs=4
        )
        weight = _softmax_with_sink(b, wide(b, scores), sink, self.smooth_softmax == 1)
        if sink is not None or self.smooth_softmax == 1:
            shape, groups = _merged_shape(b, v, self.num_heads), self.num_heads // self.kv_num_heads
            values = b.Reshape(b.Expand(b.Unsqueeze(v, [2]), [1, 1, groups, 1, 1]), shape)
            y = cast(b, b.MatMul(weight, wide(b, values)), q.dtype)
        return y, b.Where(visible, scores, zero) if self.qk_output == 1 else cast(b, weight, q.dtype)


def _rotated(q: Value, cos_cache: Value) -> int:
    """The number of elements of a head that are rotated; 0 where all are."""
    width = cos_cache.shape[1]
    return width * 2 if isinstance(width, int) and dims.compare(width * 2, q.shape[3]) != 0 else 0


def _appended(b: Builder, past: Value | None, new: Value, held: Value, start: Value, cache: Value) -> Value:
    """A cache of which `held` rows are given, with new ones from each sample's own start on, and zeros behind them."""
    place = b.Unsqueeze(cache, [0])
    last = held + length(b, new, 2) - 1
    index = b.Where(b.Less(place, start), place, place - start + held)
    inside = b.Max(b.Min(index, last), 0)
    both = new if past is None else b.Concat(past, new, axis=2)
    return _taken(b, both, inside, b.Less(place, start + length(b, new, 2)))


def _taken(b: Builder, rows: Value, index: Value, is_filled: Value) -> Value:
    """The rows of each sample that `index` [batch, places] names, zeros where they are not filled."""
    found = b.GatherND(b.Transpose(rows, perm=(0, 2, 1, 3)), b.Unsqueeze(index, [2]), batch_dims=1)
    return b.Where(b.Unsqueeze(is_filled, [1, 3]), b.Transpose(found, perm=(0, 2, 1, 3)), b.constant(0, rows.dtype))


def _columns(b: Builder, bias: Value, place: Value | None, visible: Value) -> Value:
    """What is added to the scores of each key: the column of its place, or zeros for places without one."""
    if place is None:
        missing = b.Max(b.Shape(visible, start=3) - b.Shape(bias, start=3), b.constant([0]))
        return b.Pad(bias, b.Concat(b.constant([0] * 7), missing, axis=0))
    inside = b.Max(b.Min(place, length(b, bias, 3) - 1), b.constant(0, INT64))
    wide_bias = b.Expand(bias, b.Concat(b.Shape(place, start=0, end=1), b.constant([1, 1, 1]), axis=0))
    shape = b.Concat(b.Shape(wide_bias, start=0, end=3), b.Shape(place, start=1), axis=0)
    return b.GatherElements(wide_bias, b.Expand(b.Unsqueeze(inside, [1, 2]), shape), axis=3)


def _merged_shape(b: Builder, v: Value, heads: int) -> Value:
    """[batch, heads, places, size] of values whose heads were repeated."""
    return b.Concat(b.Shape(v, start=0, end=1), b.constant([heads]), b.Shape(v, start=2, end=4), axis=0)


def _softmax_with_sink(b: Builder, scores: Value, sink: Value | None, is_smooth: bool) -> Value:
    """Softmax over the keys, and where asked for over one more of the given score (else 0), which holds nothing."""
    if sink is None and not is_smooth:
        return b.Softmax(scores, axis=3)
    score = b.constant(0, scores.dtype) if sink is None else cast(b, b.Reshape(sink, [1, -1, 1, 1]), scores.dtype)
    column = b.Expand(score, b.Concat(b.Shape(scores, start=0, end=3), b.constant([1]), axis=0))
    weight = b.Softmax(b.Concat(scores, column, axis=3), axis=3)
    return b.Slice(weight, [0], [-1], [3])
