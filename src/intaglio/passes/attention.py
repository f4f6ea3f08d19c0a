"""Recognition of scaled dot-product attention that is written out in matrix products and a softmax."""

from __future__ import annotations

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.ir.types import TensorType
from intaglio.passes.driver import Refusal, Result, rule
from intaglio.passes.match import (
    TOO_SHORT,
    equal_if_broadcast,
    is_attribute,
    pair,
    produced,
    rank_of,
    scalar,
    with_scalar,
)


@rule("MatMul", changes_rounding=True, fuses=True)
def attention(b: Builder, node: Node) -> Result:
    """softmax(scale * q @ transpose(k) + mask) @ v -> attention(q, k, v, mask, scale)

    Operands of rank 3 are taken as heads of one batch. A row with every key masked by minus infinity is then zero, not
    NaN.
    """
    weights, v = pair(node)
    softmax = produced(weights, "Softmax")
    if softmax is None or rank_of(weights) is None or getattr(softmax.op, "axis", -1) not in (-1, weights.rank - 1):
        return None
    masked, outer = _unscaled(softmax.input)
    scores, mask = _unmasked(b, masked) if outer == 1 else (masked, None)
    scores, scale = _unscaled(scores)
    product = produced(scores, "MatMul")
    if product is None:
        return Refusal(f"the scores %{scores.name} are not a scaled and masked matrix product")
    (q, q_scale), (keys, k_scale) = (_unscaled(value) for value in pair(product))
    scale *= outer * q_scale * k_scale
    if all(rank_of(value) == 3 for value in (q, keys, v)):
        q, keys, v = (b.Unsqueeze(value, [0]) for value in (q, keys, v))
        mask = b.Unsqueeze(mask, [0]) if mask is not None and rank_of(mask) == 3 else mask
        result = _attention(b, q, keys, v, mask, scale)
        return result if isinstance(result, Refusal) else b.Squeeze(result, [0])
    return _attention(b, q, keys, v, mask, scale)


def _attention(b: Builder, q: Value, keys: Value, v: Value, mask: Value | None, scale: float) -> Value | Refusal:
    problem = _problem(q, keys, v, mask) or ("" if is_attribute(scale, q) else TOO_SHORT)
    if problem:
        return Refusal(problem)
    # ONNX's operator takes masks of two axes and more.
    rows = b.Unsqueeze(mask, [0]) if mask is not None and mask.rank == 1 else mask
    return b.Attention(q, b.Transpose(keys, perm=(0, 1, 3, 2)), v, rows, scale=scale)


def _unscaled(value: Value) -> tuple[Value, float]:
    """The value without factors that are constant numbers, and their product."""
    factor = 1.0
    while (node := produced(value, "Mul", "Div")) is not None:
        if node.op.name == "Mul":
            found = with_scalar(node)
        else:
            divisor = scalar(pair(node)[1])
            found = (node.input, 1 / divisor) if divisor else None
        if found is None or rank_of(found[0]) != rank_of(value):
            break
        value, factor = found[0], factor * found[1]
    return value, factor


def _unmasked(b: Builder, value: Value) -> tuple[Value, Value | None]:
    """The scores and the additive mask of scores + mask or where(mask, scores, -inf)."""
    add = produced(value, "Add")
    if add is not None:
        left, right = pair(add)
        return (left, right) if _is_score(left) else (right, left)
    where = produced(value, "Where")
    if where is None:
        return value, None
    condition, kept, masked = where.inputs
    assert condition is not None
    lowest, is_kept = (scalar(masked), True) if scalar(masked) is not None else (scalar(kept), False)
    scores = kept if is_kept else masked
    if scores is None or lowest is None or lowest > 0.5 * _lowest(scores):
        return value, None
    zero, low = b.constant(0.0, scores.dtype), b.constant(lowest, scores.dtype)
    return scores, b.Where(condition, zero, low) if is_kept else b.Where(condition, low, zero)


def _is_score(value: Value) -> bool:
    return produced(_unscaled(value)[0], "MatMul") is not None


def _lowest(value: Value) -> float:
    """The least finite number of the value's element type."""
    return {"float16": -65504.0, "float64": -np.finfo(np.float64).max}.get(value.dtype.name, -3.38e38)


def _problem(q: Value, keys: Value, v: Value, mask: Value | None) -> str:
    """Why the operands do not fit the Attention operator."""
    if any(rank_of(value) != 4 for value in (q, keys, v)):
        ranks = ", ".join(str(rank_of(value)) for value in (q, keys, v))
        return f"q, k and v have the ranks {ranks}, not (batch, heads, sequence, size)"
    if not q.shape[:2] == keys.shape[:2] == v.shape[:2]:
        return f"batch and heads differ: q {q.type}, transposed k {keys.type}, v {v.type}"
    if mask is None:
        return ""
    if not isinstance(mask.type, TensorType) or not mask.type.shape or mask.rank > 4:
        return f"the mask {mask!r} does not have a rank from 1 to 4"
    if not equal_if_broadcast(mask.shape[-1], keys.shape[3]):
        return f"the last dimension of the mask {mask.type} is not the number of keys, {keys.shape[3]}"
    return "" if mask.dtype == q.dtype else f"the mask has element type {mask.dtype}, q has {q.dtype}"
