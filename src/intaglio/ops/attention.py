"""Scaled dot product attention and rotary positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import BOOL, INT64, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows
from intaglio.ir.requirements import need_at_most, need_multiple, need_stretch
from intaglio.ir.types import Shape, TensorType
from intaglio.ops.shared.gradient import unbroadcast
from intaglio.ops.shared.indices import check_indices, same_dtype
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import (
    cast,
    float_type,
    known_shape,
    like,
    require_equal,
    require_float,
    wide,
    wide_dtype,
)
from intaglio.ops.shared.products import matrix_product


def head_shape(value: Value, heads: int | None, attribute: str) -> Shape | None:
    """The shape [batch, heads, sequence, head size] of an operand with packed or unpacked heads."""
    shape = known_shape(value)
    if shape is None or len(shape) == 4:
        return shape
    if len(shape) != 3:
        raise ShapeError(f"{value.name} has rank {len(shape)}, 3 or 4 is needed")
    if not heads or heads < 0:
        raise ShapeError(f"{value.name} has rank 3, so {attribute} is needed and must be at least 1")
    message = f"the last axis of {value.name} is {shape[2]}, it cannot be split into {heads} heads"
    need_multiple(shape[2], heads, message)
    return shape[0], heads, shape[1], dims.floordiv(shape[2], heads)


def split_heads(x: Array, heads: int | None) -> Array:
    """An operand as [batch, heads, sequence, head size]."""
    if x.ndim == 4:
        return x
    batch, length, width = x.shape
    count = heads or 1
    return x.reshape(batch, length, count, width // count).transpose(0, 2, 1, 3)


def unpack_heads(b: Builder, x: Value, heads: int | None) -> Value:
    """Like `split_heads`, in operators."""
    return x if x.rank == 4 else b.Transpose(b.Reshape(x, [0, 0, heads or 1, -1]), perm=(0, 2, 1, 3))


def repeat_heads(b: Builder, x: Value, query: Value) -> Value:
    """Each head of [batch, heads, sequence, size] as often in a row as there are query heads for it."""
    if x.shape[1] == query.shape[1]:
        return x
    count = b.Div(b.Shape(query, start=1, end=2), b.Shape(x, start=1, end=2))
    copies = b.Expand(b.Unsqueeze(x, [2]), b.Concat([1, 1], count, [1, 1], axis=0))
    shape = b.Concat(b.Shape(x, start=0, end=1), b.Shape(query, start=1, end=2), b.Shape(x, start=2), axis=0)
    return b.Reshape(copies, shape, allowzero=1)


def group_size(query_heads: Dim, key_heads: Dim) -> Dim:
    """How many query heads share one key head; raises ShapeError where that is certainly not a whole number."""
    message = f"{query_heads} query heads cannot be shared by {key_heads} key and value heads"
    need_multiple(query_heads, key_heads, message)
    return dims.floordiv(query_heads, key_heads)


def check_heads(q: Shape, k: Shape, v: Shape) -> None:
    """Raise ShapeError where queries, keys and values of shape [batch, heads, sequence, head size] do not fit."""
    require_equal(q[0], k[0], "the batch of Q and K")
    require_equal(k[0], v[0], "the batch of K and V")
    require_equal(k[1], v[1], "the heads of K and V")
    require_equal(k[2], v[2], "the sequence lengths of K and V")
    require_equal(q[3], k[3], "the head sizes of Q and K")
    group_size(q[1], k[1])


def check_past(k: Shape, v: Shape, past_key: Shape | None, past_value: Shape | None) -> None:
    """Raise ShapeError where the caches do not fit the keys and values that follow them."""
    for name, new, past in (("key", k, past_key), ("value", v, past_value)):
        for axis, what in ((0, "batch"), (1, "heads"), (3, "head sizes")):
            if past is not None:
                require_equal(past[axis], new[axis], f"the {what} of past_{name} and of what follows")
    if past_key is not None and past_value is not None:
        require_equal(past_key[2], past_value[2], "the sequence lengths of past_key and past_value")


def check_mask(scores: Shape, mask: Shape | None, lengths: Shape | None) -> None:
    """Raise ShapeError where a mask cannot be repeated to the scores, or there are not as many lengths as samples."""
    if mask:
        need_at_most(mask[-1], scores[3], f"attn_mask has {mask[-1]} keys, there are {scores[3]}")
        for size, wanted in zip(mask[-2::-1], scores[2::-1], strict=False):
            message = f"attn_mask of shape {list(mask)} does not fit scores of shape {list(scores)}"
            need_stretch(size, wanted, message)
    if lengths is not None:
        require_equal(dims.product(lengths), scores[0], "nonpad_kv_seqlen and the batch")


def guarded_softmax(scores: Array, precision: DType | None) -> Array:
    """Softmax along the last axis; a row of nothing but -inf gives zeros."""
    x = widen(scores if precision is None else scores.astype(precision.numpy))
    top = np.max(x, axis=-1, keepdims=True, initial=-np.inf)
    is_empty = np.isneginf(top)
    weight = np.exp(x - np.where(is_empty, 0, top))
    result = weight / np.where(is_empty, 1, np.sum(weight, axis=-1, keepdims=True))
    return result if precision is None else widen(result.astype(precision.numpy))


@dataclass(frozen=True)
class _Visibility:
    """Which keys a query may see by position alone: causal order and windows to the left and right."""

    is_causal: bool
    left: int
    right: int

    @property
    def upper(self) -> int | None:
        """How far beyond its own position a query sees; None for any distance."""
        bounds = ([0] if self.is_causal else []) + ([self.right] if self.right >= 0 else [])
        return min(bounds) if bounds else None

    @property
    def is_full(self) -> bool:
        """Whether every key is visible."""
        return self.upper is None and self.left < 0


class Attention(Op):
    """softmax(Q @ K' * scale + mask) @ V per head, with caches of keys and values, soft cap and windows."""

    keeps_rows = Rows.FIRST

    output_names = ("Y", "present_key", "present_value", "qk_matmul_output")
    is_causal: int = 0
    kv_num_heads: int | None = None
    left_window_size: int = -1
    q_num_heads: int | None = None
    qk_matmul_output_mode: int = 0
    right_window_size: int = -1
    scale: float | None = None
    softcap: float = 0.0
    softmax_precision: int | None = None

    @property
    def _visibility(self) -> _Visibility:
        return _Visibility(bool(self.is_causal), self.left_window_size, self.right_window_size)

    @property
    def _precision(self) -> DType | None:
        return None if self.softmax_precision is None else float_type(self.softmax_precision, "softmax_precision")

    def infer(
        self,
        Q: Value,
        K: Value,
        V: Value,
        attn_mask: Value | None = None,
        past_key: Value | None = None,
        past_value: Value | None = None,
        nonpad_kv_seqlen: Value | None = None,
    ) -> tuple[TensorType, ...]:
        self._check(Q, K, V, past_key, past_value, nonpad_kv_seqlen)
        q = head_shape(Q, self.q_num_heads, "q_num_heads")
        k, v = (head_shape(value, self.kv_num_heads, "kv_num_heads") for value in (K, V))
        if q is None or k is None or v is None:
            unknown = (TensorType(value.dtype, None) for value in (Q, K, V, Q))
            return tuple(unknown)
        check_heads(q, k, v)
        total = k[2]
        if past_key is not None and past_value is not None:
            past, other = known_shape(past_key, rank=4), known_shape(past_value, rank=4)
            total = dims.fresh() if past is None else past[2] + k[2]
            check_past(k, v, past, other)
        mask, lengths = (None if x is None else known_shape(x) for x in (attn_mask, nonpad_kv_seqlen))
        check_mask((q[0], q[1], q[2], total), mask, lengths)
        y = (q[0], q[1], q[2], v[3]) if Q.rank == 4 else (q[0], q[2], q[1] * v[3])
        return (
            TensorType(Q.dtype, y),
            TensorType(K.dtype, (k[0], k[1], total, k[3])),
            TensorType(V.dtype, (v[0], v[1], total, v[3])),
            TensorType(Q.dtype, (q[0], q[1], q[2], total)),
        )

    def _check(self, Q: Value, K: Value, V: Value, past_key: Any, past_value: Any, lengths: Any) -> None:
        require_float(Q, K, V, past_key, past_value)
        same_dtype(Q, K, past_key)
        same_dtype(V, past_value)
        if (past_key is None) != (past_value is None):
            raise ShapeError("past_key and past_value must be given together")
        if lengths is not None and past_key is not None:
            raise ShapeError("nonpad_kv_seqlen cannot be used together with past_key")
        if lengths is not None and lengths.dtype != INT64:
            raise ShapeError(f"nonpad_kv_seqlen is {lengths.dtype}, int64 is needed")
        if not 0 <= self.qk_matmul_output_mode <= 3:
            raise ShapeError(f"qk_matmul_output_mode is {self.qk_matmul_output_mode}, it must be 0, 1, 2 or 3")

    def reference(
        self,
        Q: Array,
        K: Array,
        V: Array,
        attn_mask: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        nonpad_kv_seqlen: Array | None = None,
    ) -> tuple[Array, ...]:
        q, k, v = split_heads(Q, self.q_num_heads), split_heads(K, self.kv_num_heads), split_heads(V, self.kv_num_heads)
        check_heads(q.shape, k.shape, v.shape)
        past = 0 if past_key is None else past_key.shape[2]
        if past_key is not None and past_value is not None:
            check_past(k.shape, v.shape, past_key.shape, past_value.shape)
        k = k if past_key is None else np.concatenate((past_key, k), axis=2)
        v = v if past_value is None else np.concatenate((past_value, v), axis=2)
        count = int(group_size(q.shape[1], k.shape[1]))
        root = widen(Q).dtype.type(np.sqrt(1 / np.sqrt(q.shape[3]) if self.scale is None else self.scale))
        keys = np.repeat(widen(k) * root, count, axis=1)
        raw = matrix_product(widen(q) * root, keys.swapaxes(-1, -2))
        mask, lengths = (None if x is None else x.shape for x in (attn_mask, nonpad_kv_seqlen))
        check_mask(raw.shape, mask, lengths)
        capped = raw if self.softcap == 0 else self.softcap * np.tanh(raw / raw.dtype.type(self.softcap))
        capped = capped.astype(raw.dtype)
        biased = self._masked(capped, attn_mask, past, nonpad_kv_seqlen)
        weight = guarded_softmax(biased, self._precision)
        y = matrix_product(weight, np.repeat(widen(v), count, axis=1))
        stages = (raw, capped, biased, weight)
        y = y if Q.ndim == 4 else y.transpose(0, 2, 1, 3).reshape(*Q.shape[:2], y.shape[1] * y.shape[3])
        return like(y, Q), k, v, like(stages[self.qk_matmul_output_mode], Q)

    def _masked(self, scores: Array, mask: Array | None, past: int, lengths: Array | None) -> Array:
        """The scores with the mask added and -inf where a key is hidden."""
        *_, queries, keys = scores.shape
        offset: Array = np.full((1, 1, 1, 1), past) if lengths is None else _offsets(lengths, queries, keys)
        place = offset + np.arange(queries)[:, None]
        key = np.arange(keys)
        hidden = np.zeros((1, 1, 1, 1), np.bool_)
        if self._visibility.upper is not None:
            hidden = hidden | (key > place + self._visibility.upper)
        if self.left_window_size >= 0:
            hidden = hidden | (key < place - self.left_window_size)
        if lengths is not None:
            hidden = hidden | (key >= lengths.reshape(-1, 1, 1, 1))
        if mask is not None:
            missing = keys - mask.shape[-1]
            is_bool = mask.dtype == np.bool_
            fill = False if is_bool else -np.inf
            full = mask if is_bool else widen(mask).astype(scores.dtype)
            full = np.pad(full, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=fill)
            hidden, scores = (hidden | ~full, scores) if is_bool else (hidden, scores + full)
        return np.where(hidden, scores.dtype.type(-np.inf), scores)

    def expand(
        self,
        b: Builder,
        Q: Value,
        K: Value,
        V: Value,
        attn_mask: Value | None = None,
        past_key: Value | None = None,
        past_value: Value | None = None,
        nonpad_kv_seqlen: Value | None = None,
    ) -> tuple[Value, ...]:
        q, k, v = unpack_heads(b, Q, self.q_num_heads), *(unpack_heads(b, x, self.kv_num_heads) for x in (K, V))
        k = k if past_key is None else b.Concat(past_key, k, axis=2)
        v = v if past_value is None else b.Concat(past_value, v, axis=2)
        wide_q = wide(b, q)
        lengths = None if nonpad_kv_seqlen is None else _looked_up(b, nonpad_kv_seqlen, k)
        stages = self.stages(b, wide_q, repeat_heads(b, wide(b, k), wide_q), attn_mask, past_key, lengths)
        weight = stages[3]
        y = cast(b, b.MatMul(weight, repeat_heads(b, cast(b, v, weight.dtype), wide_q)), Q.dtype)
        if Q.rank == 3:
            y = b.Reshape(b.Transpose(y, perm=(0, 2, 1, 3)), [0, 0, -1])
        return y, k, v, cast(b, stages[self.qk_matmul_output_mode], Q.dtype)

    def stages(
        self, b: Builder, q: Value, keys: Value, mask: Value | None, past: Value | None = None, lengths: Any = None
    ) -> tuple[Value, Value, Value, Value]:
        """The scores of queries with as many heads of keys, those with a cap, with the mask, and their softmax."""
        root = self.root(b, q)
        raw = b.MatMul(q * root, b.Transpose(keys * root, perm=(0, 1, 3, 2)))
        capped = raw if self.softcap == 0 else b.Tanh(raw / self.softcap) * self.softcap
        bias = self._bias(b, capped, mask, past, lengths)
        biased = capped if bias is None else capped + bias
        return raw, capped, biased, self._softmax(b, biased, bias)

    def takes_pullback(self, inputs: Sequence[Value | None], outputs: Sequence[Value]) -> bool:
        """Not with windows, a cap, a past or lengths, or where more than the first output is read."""
        has_window = self.left_window_size >= 0 or self.right_window_size >= 0
        is_plain = not has_window and not self.softcap and self.softmax_precision is None
        is_plain = is_plain and all(value is None for value in inputs[4:])
        is_ranked = all(value is None or value.tensor.shape is not None for value in inputs[:4])
        return is_plain and is_ranked and not any(value.uses for value in outputs[1:])

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        """By `AttentionGradient`, which computes the weights anew."""
        Q, K, V, bar = *inputs[:3], output_bars[0]
        mask = inputs[3] if len(inputs) > 3 else None
        heads = self.q_num_heads, self.kv_num_heads, self.kv_num_heads, self.q_num_heads
        q, k, v, y_bar = (unpack_heads(b, x, n) for x, n in zip((Q, K, V, bar), heads, strict=True))
        op = AttentionGradient(is_causal=self.is_causal, scale=self.scale)
        found = b.add(op, [q, k, v, y_bar, *([] if mask is None else [mask])], 3)
        bars = [_packed(b, each, like) for each, like in zip(found, (Q, K, V), strict=True)]
        if mask is not None and mask.dtype.is_float:
            scores_bar = op.scores_bar(b, q, k, v, y_bar, mask)[2]
            return *bars, _mask_bar(b, cast(b, scores_bar, mask.dtype), mask)
        return tuple(bars)

    def root(self, b: Builder, q: Value) -> Value:
        """What queries and keys are each multiplied with."""
        if self.scale is not None:
            return b.constant(np.sqrt(self.scale), q.dtype)
        if isinstance(q.shape[3], int):
            return b.constant(q.shape[3] ** -0.25, q.dtype)
        return b.Pow(cast(b, b.Shape(q, start=3), q.dtype), -0.25)

    def _softmax(self, b: Builder, biased: Value, bias: Value | None) -> Value:
        precision = self._precision
        x = biased if precision is None else wide(b, cast(b, biased, precision))
        if bias is None:
            weight = b.Softmax(x, axis=-1)
        else:
            is_empty = b.Equal(b.ReduceMax(bias, [-1]), b.constant(-np.inf, bias.dtype))
            zero = b.constant(0, x.dtype)
            shown = b.Where(is_empty, zero, x)  # the softmax of -inf alone is NaN, and so is its gradient
            weight = b.Where(is_empty, zero, b.Softmax(shown, axis=-1))
        weight = weight if precision is None else cast(b, weight, precision)
        return cast(b, weight, biased.dtype)

    def _bias(self, b: Builder, scores: Value, mask: Value | None, past: Value | None, lengths: Value | None) -> Any:
        """What is added to the scores: the mask, and -inf where a key is hidden; None where nothing is."""
        seen = self._seen(b, scores, past, lengths)
        low, zero = b.constant(-np.inf, scores.dtype), b.constant(0, scores.dtype)
        if mask is None:
            return None if seen is None else b.Where(seen, zero, low)
        missing = b.Shape(scores, start=3) - b.Shape(mask, start=-1)
        leading = b.constant(np.zeros(2 * mask.rank - 1, np.int64))
        is_bool = mask.dtype == BOOL
        full = b.Where(mask, zero, low) if is_bool else cast(b, mask, scores.dtype)
        full = b.Pad(full, b.Concat(leading, missing, axis=0), low)
        return full if seen is None else full + b.Where(seen, zero, low)

    def _seen(self, b: Builder, scores: Value, past: Value | None, lengths: Value | None) -> Value | None:
        """Whether each query sees each key by its position; None where all see all."""
        rule, found = self._visibility, list[Value]()
        queries, keys = (b.Squeeze(b.Shape(scores, start=axis, end=axis + 1)) for axis in (2, 3))
        key = b.Range(b.constant(0, INT64), keys, b.constant(1, INT64))
        if not rule.is_full:
            place = b.Unsqueeze(b.Range(b.constant(0, INT64), queries, b.constant(1, INT64)), [1])
            if past is not None:
                place = place + b.Shape(past, start=2, end=3)
            elif lengths is not None:
                place = place + b.Reshape(lengths - queries, [-1, 1, 1, 1])
            found += [b.LessOrEqual(key, place + rule.upper)] if rule.upper is not None else []
            found += [b.GreaterOrEqual(key, place - rule.left)] if rule.left >= 0 else []
        if lengths is not None:
            found.append(b.Less(key, b.Reshape(lengths, [-1, 1, 1, 1])))
        return reduce(b.And, found) if found else None


def _packed(b: Builder, x: Value, like: Value) -> Value:
    """[batch, heads, sequence, head size] with the heads as `like` has them."""
    return x if like.rank == 4 else b.Reshape(b.Transpose(x, perm=(0, 2, 1, 3)), b.Shape(like), allowzero=1)


def _mask_bar(b: Builder, scores_bar: Value, mask: Value) -> Value:
    """The gradient of a mask, which may be shorter than the keys, from that of the scores."""
    if mask.shape[-1] != scores_bar.shape[3]:
        scores_bar = b.Slice(scores_bar, [0], b.Shape(mask, start=-1), [3])
    return unbroadcast(b, scores_bar, mask)


class AttentionGradient(Op):
    """The gradients of Attention by Q, K and V, all of shape [batch, heads, sequence, head size].

    The softmax of the scores is computed anew, so that nothing of the size of the scores need be kept for it.
    """

    domain: ClassVar[str] = "intaglio"
    output_names = ("Q_bar", "K_bar", "V_bar")
    is_causal: int = 0
    scale: float | None = None

    @property
    def attention(self) -> Attention:
        """What is differentiated."""
        return Attention(is_causal=self.is_causal, scale=self.scale)

    def infer(
        self, Q: Value, K: Value, V: Value, Y_bar: Value, attn_mask: Value | None = None
    ) -> tuple[TensorType, ...]:
        require_float(Q, K, V, Y_bar)
        same_dtype(Q, K)
        q, k, v, y = (known_shape(value, rank=4) for value in (Q, K, V, Y_bar))
        if q is not None and k is not None and v is not None:
            check_heads(q, k, v)
            check_mask((*q[:3], k[2]), None if attn_mask is None else known_shape(attn_mask), None)
            for left, right in () if y is None else zip((*q[:3], v[3]), y, strict=True):
                require_equal(left, right, "the sizes of Y_bar and of what Attention gives")
        return Q.tensor, K.tensor, V.tensor

    def reference(
        self, Q: Array, K: Array, V: Array, Y_bar: Array, attn_mask: Array | None = None
    ) -> tuple[Array, ...]:
        count = int(group_size(Q.shape[1], K.shape[1]))
        q, y_bar = widen(Q), widen(Y_bar)
        k, v = (np.repeat(widen(x), count, axis=1) for x in (K, V))
        attention = self.attention.changed(qk_matmul_output_mode=3)
        weight = attention.reference(widen(Q), widen(K), widen(V), attn_mask)[3]
        weight_bar = matrix_product(y_bar, v.swapaxes(-1, -2))
        scores_bar = weight * (weight_bar - (weight * weight_bar).sum(axis=-1, keepdims=True))
        scale = q.dtype.type(1 / np.sqrt(Q.shape[3]) if self.scale is None else self.scale)
        q_bar = matrix_product(scores_bar, k) * scale
        k_bar = matrix_product(scores_bar.swapaxes(-1, -2), q) * scale
        v_bar = matrix_product(weight.swapaxes(-1, -2), y_bar)
        grouped = [a.reshape(a.shape[0], K.shape[1], count, *a.shape[2:]).sum(axis=2) for a in (k_bar, v_bar)]
        return like(q_bar, Q), like(grouped[0], K), like(grouped[1], V)

    def expand(
        self, b: Builder, Q: Value, K: Value, V: Value, Y_bar: Value, attn_mask: Value | None = None
    ) -> tuple[Value, ...]:
        q, keys, scores_bar, weight, y_bar = self.scores_bar(b, Q, K, V, Y_bar, attn_mask)
        root = self.attention.root(b, q)
        scaled = scores_bar * (root * root)
        turned = (0, 1, 3, 2)
        q_bar = b.MatMul(scaled, keys)
        k_bar = b.MatMul(b.Transpose(scaled, perm=turned), q)
        v_bar = b.MatMul(b.Transpose(weight, perm=turned), y_bar)
        shared = [_summed_heads(b, bar, x) for bar, x in ((k_bar, K), (v_bar, V))]
        return cast(b, q_bar, Q.dtype), cast(b, shared[0], K.dtype), cast(b, shared[1], V.dtype)

    def scores_bar(
        self, b: Builder, Q: Value, K: Value, V: Value, Y_bar: Value, mask: Value | None
    ) -> tuple[Value, Value, Value, Value, Value]:
        """Queries and keys with as many heads, the gradient of the scores, the weights, and that of the output."""
        q, y_bar = wide(b, Q), wide(b, Y_bar)
        keys, values = (repeat_heads(b, wide(b, x), q) for x in (K, V))
        weight = self.attention.stages(b, q, keys, mask)[3]
        weight_bar = b.MatMul(y_bar, b.Transpose(values, perm=(0, 1, 3, 2)))
        return q, keys, weight * (weight_bar - b.ReduceSum(weight * weight_bar, [-1])), weight, y_bar


def _summed_heads(b: Builder, x: Value, like: Value) -> Value:
    """The sums of the heads that share one of `like`."""
    if x.shape[1] == like.shape[1]:
        return x
    heads = b.Shape(like, start=1, end=2)
    shape = b.Concat(b.Shape(x, start=0, end=1), heads, b.Shape(x, start=1, end=2) / heads, b.Shape(x, start=2), axis=0)
    return b.ReduceSum(b.Reshape(x, shape, allowzero=1), [2], keepdims=0)


def _looked_up(b: Builder, lengths: Value, keys: Value) -> Value:
    """The lengths, out of a list of all from 0 to the number of keys: another one is out of that list's range."""
    most = b.Squeeze(b.Shape(keys, start=2, end=3))
    allowed = b.Range(b.constant(0, lengths.dtype), most + 1, b.constant(1, lengths.dtype))
    return b.Gather(allowed, b.Where(lengths < 0, most + 1, lengths))


def _offsets(lengths: Array, queries: int, keys: int) -> Array:
    """The number of keys before the first query of each sample, from the numbers of valid keys."""
    if lengths.size and not (lengths.min() >= 0 and lengths.max() <= keys):
        raise OperatorError(f"nonpad_kv_seqlen is {lengths.tolist()}, each number must be in [0, {keys}]")
    return (lengths - queries).reshape(-1, 1, 1, 1)


class RotaryEmbedding(Op):
    """Pairs of elements of each head rotated by the angle of their position."""

    keeps_rows = Rows.FIRST

    interleaved: int = 0
    num_heads: int | None = None
    rotary_embedding_dim: int = 0

    def infer(self, X: Value, cos_cache: Value, sin_cache: Value, position_ids: Value | None = None) -> TensorType:
        require_float(X, cos_cache, sin_cache)
        same_dtype(X, cos_cache, sin_cache)
        shape = head_shape(X, self.num_heads, "num_heads")
        for cache in (cos_cache, sin_cache):
            found = known_shape(cache, rank=3 if position_ids is None else 2)
            if shape is not None and found is not None:
                width = self.rotary_embedding_dim or shape[3]
                require_equal(found[-1] * 2, width, f"twice the last axis of {cache.name} and the rotated size")
        if position_ids is not None and position_ids.dtype != INT64:
            raise ShapeError(f"position_ids is {position_ids.dtype}, int64 is needed")
        for angles in (cos_cache, sin_cache) if position_ids is None else (position_ids,):
            found = known_shape(angles)
            for axis, size in zip((0, 2), () if shape is None or found is None else found[:2], strict=False):
                message = f"axis {axis // 2} of {angles.name} is {size}, expected {shape and shape[axis]} as of X, or 1"
                need_stretch(size, shape[axis] if shape else size, message)
        return X.tensor

    def reference(self, X: Array, cos_cache: Array, sin_cache: Array, position_ids: Array | None = None) -> Array:
        x = widen(split_heads(X, self.num_heads))
        cos, sin = widen(cos_cache), widen(sin_cache)
        if position_ids is not None:
            places = check_indices(position_ids, cos.shape[0], "position")
            cos, sin = cos[places], sin[places]
        cos, sin = cos[:, None], sin[:, None]
        width = self.rotary_embedding_dim or x.shape[3]
        rotated, rest = x[..., :width], x[..., width:]
        first, second = self._halves(rotated)
        pair = (cos * first - sin * second, sin * first + cos * second)
        turned = np.stack(pair, axis=-1).reshape(rotated.shape) if self.interleaved else np.concatenate(pair, axis=-1)
        y = np.concatenate((turned, rest), axis=-1)
        return like(y if X.ndim == 4 else y.transpose(0, 2, 1, 3).reshape(X.shape), X)

    def _halves(self, x: Array) -> tuple[Array, Array]:
        if self.interleaved:
            return x[..., 0::2], x[..., 1::2]
        half = x.shape[-1] // 2
        return x[..., :half], x[..., half:]

    def expand(
        self, b: Builder, X: Value, cos_cache: Value, sin_cache: Value, position_ids: Value | None = None
    ) -> Value:
        x = wide(b, unpack_heads(b, X, self.num_heads))
        cos, sin = wide(b, cos_cache), wide(b, sin_cache)
        if position_ids is not None:
            cos, sin = b.Gather(cos, position_ids), b.Gather(sin, position_ids)
        cos, sin = b.Unsqueeze(cos, [1]), b.Unsqueeze(sin, [1])
        width, end = self.rotary_embedding_dim, np.iinfo(np.int64).max
        rotated = b.Slice(x, [0], [width], [3]) if width else x
        if self.interleaved:
            first, second = b.Slice(rotated, [0], [end], [3], [2]), b.Slice(rotated, [1], [end], [3], [2])
        else:
            first, second = b.Split(rotated, num_outputs=2, axis=3, outputs=2)
        pair = (cos * first - sin * second, sin * first + cos * second)
        if self.interleaved:
            joined = b.Concat(*(b.Unsqueeze(part, [4]) for part in pair), axis=4)
            y = b.Reshape(joined, b.Shape(rotated))
        else:
            y = b.Concat(*pair, axis=3)
        y = b.Concat(y, b.Slice(x, [width], [end], [3]), axis=3) if width else y
        y = y if X.rank == 4 else b.Reshape(b.Transpose(y, perm=(0, 2, 1, 3)), b.Shape(X))
        return cast(b, y, X.dtype)


def precision_of(dtype: DType, softmax_precision: int | None) -> DType:
    """The type that FlexAttention computes its scores in."""
    return wide_dtype(dtype) if softmax_precision is None else float_type(softmax_precision, "softmax_precision")
