"""Scaled dot products with attention, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import BOOL, FLOAT32, FLOAT64, INT64
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.table import aten


def _scale(c: AtenCall, q: Value, scale: float | None) -> float:
    width = q.shape[-1]
    if scale is not None:
        return float(scale)
    if not isinstance(width, int):
        raise UnsupportedError("heads of an open width")
    return 1 / math.sqrt(width)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    c: AtenCall,
    q: Value,
    k: Value,
    v: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value | None, ...]:
    """softmax(q k' scale + mask) v, and the logarithms of the sums in the softmax."""
    if dropout_p:
        raise UnsupportedError("attention with dropout")
    factor = _scale(c, q, scale)
    if not c.is_wanted(1):
        if attn_mask is not None:  # ONNX takes a mask that is too short as one that hides the other keys
            attn_mask = c.expand(attn_mask, [*attn_mask.shape[:-1], k.shape[2]])
        if q.dtype == FLOAT64 and factor != float(np.float32(factor)):  # ONNX's attribute is a single number
            q, factor = c.b.Mul(q, c.number(factor, FLOAT64)), 1.0
        found = c.b.Attention(q, k, v, attn_mask, is_causal=int(is_causal), scale=factor)
        return found, None
    scores = _scores(c, q, k, attn_mask, is_causal, factor)
    sums = c.b.ReduceLogSumExp(scores, [3], keepdims=0)
    chances = c.b.Softmax(scores, axis=3) if attn_mask is None else _chances(c, scores, sums)
    return c.cast(c.b.MatMul(chances, c.cast(v, scores.dtype))), c.cast(sums, 1)


def _chances(c: AtenCall, scores: Value, sums: Value) -> Value:
    """The softmax of scores with the logarithms of its sums; zero for a query that sees no key, as in PyTorch."""
    b, wide = c.b, scores.dtype
    sees_none = b.Equal(sums, c.number(-np.inf, wide))
    shift = b.Where(sees_none, c.number(0, wide), sums)
    return b.Exp(b.Sub(scores, b.Unsqueeze(shift, [3])))


def _scores(c: AtenCall, q: Value, k: Value, mask: Value | None, is_causal: bool, factor: float) -> Value:
    b = c.b
    wide = FLOAT32 if q.dtype.bits < 32 else q.dtype
    scores = b.MatMul(c.cast(q, wide), b.Transpose(c.cast(k, wide), perm=(0, 1, 3, 2)))
    scores = b.Mul(scores, c.number(factor, wide))
    lowest = c.number(-np.inf, wide)
    if mask is not None:
        is_truth = mask.dtype == BOOL
        scores = b.Where(mask, scores, lowest) if is_truth else b.Add(scores, c.cast(mask, wide))
    if is_causal:
        scores = b.Where(_is_visible(c, q.shape[2], k.shape[2]), scores, lowest)
    return scores


def _is_visible(c: AtenCall, rows: Any, columns: Any) -> Value:
    """Whether a query may see a key: one that does not come after it."""
    zero, one = c.number(0, INT64), c.number(1, INT64)
    places = [c.b.Range(zero, c.operand(size, INT64), one) for size in (rows, columns)]
    return c.b.GreaterOrEqual(c.b.Unsqueeze(places[0], [1]), c.b.Unsqueeze(places[1], [0]))


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    c: AtenCall,
    bar: Value,
    q: Value,
    k: Value,
    v: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, ...]:
    """The gradients by queries, keys and values."""
    b = c.b
    factor = _scale(c, q, scale)
    scores = _scores(c, q, k, attn_mask, is_causal, factor)
    wide = scores.dtype
    chances = _chances(c, scores, c.cast(logsumexp, wide))
    queries, keys, values, given, output = (c.cast(each, wide) for each in (q, k, v, bar, out))
    value_bar = b.MatMul(b.Transpose(chances, perm=(0, 1, 3, 2)), given)
    chance_bar = b.MatMul(given, b.Transpose(values, perm=(0, 1, 3, 2)))
    share = b.ReduceSum(b.Mul(given, output), [3], keepdims=1)
    score_bar = b.Mul(b.Mul(chances, b.Sub(chance_bar, share)), c.number(factor, wide))
    query_bar = b.MatMul(score_bar, keys)
    key_bar = b.MatMul(b.Transpose(score_bar, perm=(0, 1, 3, 2)), queries)
    return tuple(c.cast(value, place) for place, value in enumerate((query_bar, key_bar, value_bar)))
