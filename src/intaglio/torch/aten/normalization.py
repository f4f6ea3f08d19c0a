"""Normalizations."""

from __future__ import annotations

from typing import Any

from intaglio.ir import dim as dims
from intaglio.ir.dtype import FLOAT32, FLOAT64
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.reduction import opmath
from intaglio.torch.aten.table import aten


@aten("native_layer_norm")
def layer_norm(
    c: AtenCall, x: Value, normalized_shape: Any, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value | None, ...]:
    """Each row normalized, then scaled and shifted; with its mean and the inverse of its deviation."""
    wide = c.cast(x, opmath(x.dtype))
    axis = x.rank - len(normalized_shape)
    if wide.dtype == FLOAT32 and axis < x.rank:
        scale = c.full(x.shape[axis:], 1, wide.dtype) if weight is None else c.cast(weight, wide.dtype)
        shift = None if bias is None else c.cast(bias, wide.dtype)
        if not c.is_wanted(1) and not c.is_wanted(2):
            return c.cast(c.b.LayerNormalization(wide, scale, shift, axis=axis, epsilon=eps)), None, None
        found = c.b.LayerNormalization(wide, scale, shift, axis=axis, epsilon=eps, outputs=3)
        return tuple(c.cast(value, place) for place, value in enumerate(found))
    return _layer_norm_by_hand(c, wide, axis, weight, bias, eps)


def _layer_norm_by_hand(
    c: AtenCall, x: Value, axis: int, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value | None, ...]:
    """In double precision, where `eps` must not be rounded."""
    mean, deviation, inverse = _moments(c, x, list(range(axis, x.rank)), eps)
    result = c.b.Mul(deviation, inverse)
    if weight is not None:
        result = c.b.Mul(result, c.cast(weight, x.dtype))
    if bias is not None:
        result = c.b.Add(result, c.cast(bias, x.dtype))
    return c.cast(result), c.cast(mean, 1), c.cast(inverse, 2)


def _moments(c: AtenCall, x: Value, axes: list[int], eps: float) -> tuple[Value, Value, Value]:
    """The mean along axes, what differs from it, and 1 / sqrt(variance + eps)."""
    b = c.b
    mean = b.ReduceMean(x, axes, keepdims=1)
    deviation = b.Sub(x, mean)
    variance = b.ReduceMean(b.Mul(deviation, deviation), axes, keepdims=1)
    return mean, deviation, b.Reciprocal(b.Sqrt(b.Add(variance, c.number(eps, x.dtype))))


@aten("native_group_norm")
def group_norm(
    c: AtenCall, x: Value, weight: Value | None, bias: Value | None, N: Any, C: Any, HxW: Any, group: int, eps: float
) -> tuple[Value | None, ...]:
    """Each group of channels normalized, then scaled and shifted by channel."""
    wide = c.cast(x, opmath(x.dtype))
    rest = dims.product(wide.shape[2:]) * dims.floordiv(C, group)
    grouped = c.reshape(wide, [wide.shape[0], group, rest])
    mean, deviation, inverse = _moments(c, grouped, [2], eps)
    result = c.reshape(c.b.Mul(deviation, inverse), wide.shape)
    if weight is not None:
        result = c.b.Mul(result, per_channel(c, c.cast(weight, wide.dtype), x.rank))
    if bias is not None:
        result = c.b.Add(result, per_channel(c, c.cast(bias, wide.dtype), x.rank))
    return c.cast(result), c.cast(c.b.Squeeze(mean, [2]), 1), c.cast(c.b.Squeeze(inverse, [2]), 2)


def per_channel(c: AtenCall, vector: Value, rank: int) -> Value:
    """A vector that broadcasts along the second axis."""
    return c.b.Unsqueeze(vector, list(range(1, rank - 1))) if rank > 2 else vector


@aten("_native_batch_norm_legit_no_training")
def batch_norm(
    c: AtenCall,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    """Channels normalized by given statistics."""
    wide = c.cast(x, opmath(x.dtype))
    mean, var = (c.cast(value, wide.dtype) for value in (running_mean, running_var))
    channels = [x.shape[1]]
    scale = c.full(channels, 1, wide.dtype) if weight is None else c.cast(weight, wide.dtype)
    shift = c.full(channels, 0, wide.dtype) if bias is None else c.cast(bias, wide.dtype)
    if wide.dtype == FLOAT64 or x.rank < 2:
        inverse = c.b.Reciprocal(c.b.Sqrt(c.b.Add(var, c.number(eps, wide.dtype))))
        centred = c.b.Sub(wide, per_channel(c, mean, x.rank))
        scaled = c.b.Mul(centred, per_channel(c, c.b.Mul(inverse, scale), x.rank))
        result = c.b.Add(scaled, per_channel(c, shift, x.rank))
    else:
        result = c.b.BatchNormalization(wide, scale, shift, mean, var, epsilon=eps, momentum=1 - momentum)
    empty = [c.full((0,), 0, c.dtype(place)) if c.is_wanted(place) else None for place in (1, 2)]
    return c.cast(result), *empty
