"""Elementwise functions, conversions and lists."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np


def truncated_divide(xp: Any, a: Any, b: Any) -> Any:
    """The quotient of integers rounded towards zero, and 0 where b is 0."""
    quotient = xp.floor_divide(a, b)
    is_rounded_down = (quotient * b != a) & ((a < 0) != (b < 0)) & (b != 0)
    return quotient + is_rounded_down.astype(quotient.dtype)


def power(xp: Any, x: Any, y: Any) -> Any:
    """x to the power of y in the type of x, computed in double precision."""
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        return xp.power(x, xp.maximum(y, 0).astype(x.dtype)) * (y >= 0)
    return convert(xp, xp.power(x.astype(xp.float64), y.astype(xp.float64)), x.dtype)


@functools.cache
def erf_table(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The error function at points between -6 and 6, close enough to each other for single precision."""
    grid = np.linspace(-6, 6, count)
    return grid, np.array([math.erf(x) for x in grid.tolist()])


def erf(xp: Any, x: Any) -> Any:
    """The Gauss error function."""
    if x.dtype == np.float64 or x.dtype.kind in "iu":
        return xp.asarray(np.vectorize(math.erf, otypes=[np.float64])(x)).astype(x.dtype)
    grid, table = erf_table(131073)
    result = xp.interp(x.astype(xp.float64), xp.asarray(grid), xp.asarray(table))
    return xp.where(xp.isnan(x), xp.nan, result).astype(x.dtype)


def sigmoid(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)), which overflows nowhere."""
    small = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(x.dtype)


def softplus(xp: Any, x: Any) -> Any:
    """log(1 + exp(x)), which overflows nowhere."""
    return (xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))).astype(x.dtype)


def gelu(xp: Any, x: Any) -> Any:
    """x times the share of a normal distribution below it."""
    return x * ((1 + erf(xp, x / math.sqrt(2))) / 2)


def gelu_tanh(xp: Any, x: Any) -> Any:
    """The usual approximation of gelu."""
    return 0.5 * x * (1 + xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(xp: Any, x: Any, axis: int) -> Any:
    """exp(x) divided by its sum along an axis."""
    weight = xp.exp(x - x.max(axis=axis, keepdims=True, initial=-xp.inf))
    return weight / weight.sum(axis=axis, keepdims=True)


def log_softmax(xp: Any, x: Any, axis: int) -> Any:
    """The logarithm of softmax along an axis."""
    shifted = x - x.max(axis=axis, keepdims=True, initial=-xp.inf)
    return shifted - xp.log(xp.exp(shifted).sum(axis=axis, keepdims=True))


def layer_norm(xp: Any, x: Any, scale: Any, bias: Any = None, axis: int = -1, epsilon: float = 1e-5) -> Any:
    """x normalised over all axes from one on, then scaled and shifted."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    deviation = x - x.mean(axis=axes, keepdims=True)
    variance = (deviation * deviation).mean(axis=axes, keepdims=True)
    result = deviation / xp.sqrt(variance + xp.asarray(epsilon, dtype=x.dtype)) * scale
    return result if bias is None else result + bias


def rms_norm(xp: Any, x: Any, scale: Any, axis: int = -1, epsilon: float = 1e-5) -> Any:
    """x divided by its root mean square over all axes from one on, then scaled."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    square = (x * x).mean(axis=axes, keepdims=True)
    return x / xp.sqrt(square + xp.asarray(epsilon, dtype=x.dtype)) * scale


def batch_norm(xp: Any, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, epsilon: float = 1e-5) -> Any:
    """Each channel less its mean, divided by its deviation, scaled and shifted."""
    column = (-1,) + (1,) * (x.ndim - 2)
    factor = scale / xp.sqrt(variance + xp.asarray(epsilon, dtype=variance.dtype))
    return x * factor.reshape(column) + (bias - mean * factor).reshape(column)


def attention(xp: Any, query: Any, key: Any, value: Any, mask: Any = None, scale: float | None = None) -> Any:
    """The values weighted by how well their keys match the queries; a mask is added, or keeps where it is true."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ xp.swapaxes(key, -1, -2) * xp.asarray(factor, dtype=query.dtype)
    if mask is not None:
        scores = xp.where(mask, scores, -xp.inf) if mask.dtype == bool else scores + mask
    return softmax(xp, scores, -1) @ value


def convert(xp: Any, x: Any, dtype: Any) -> Any:
    """x in another element type; floats out of range become the nearest integer, and NaN becomes 0."""
    x = xp.asarray(x)
    target = np.dtype(dtype)
    if x.dtype.kind != "f" or target.kind not in "iu":
        return x.astype(dtype)
    carrier = target if target.itemsize >= 4 else np.dtype(np.int32)
    limits = np.iinfo(carrier)
    whole = xp.trunc(x.astype(xp.float64))
    ends = xp.where(whole > 0, limits.max, limits.min).astype(carrier)
    is_inside = (whole >= limits.min) & (whole < float(limits.max) + 1)
    inside = xp.where(is_inside, whole, 0).astype(carrier)
    return xp.where(is_inside, inside, xp.where(xp.isnan(whole), 0, ends).astype(carrier)).astype(dtype)


def convert_narrow_int(xp: Any, x: Any, dtype: Any, bits: int, is_signed: bool) -> Any:
    """x as integers of a few bits, which wrap around."""
    low = convert(xp, x, xp.int32).astype(xp.int64) & ((1 << bits) - 1)
    wrapped = xp.where(low >> (bits - 1) == 1, low - (1 << bits), low) if is_signed else low
    return wrapped.astype(xp.int8).astype(dtype)


def convert_narrow_float(xp: Any, x: Any, dtype: Any, limit: float | None) -> Any:
    """x as floats of a few bits, rounded once, and cut to a limit where there is one."""
    x = xp.asarray(x)
    wide = x if x.dtype == xp.float32 else x.astype(xp.float64)
    if limit is not None:
        wide = xp.clip(wide, -limit, limit)
    if wide.dtype == xp.float64:
        near = wide.astype(xp.float32)
        back = near.astype(xp.float64)
        bits = (near.view(xp.int32) - (xp.abs(back) > xp.abs(wide))) | (back != wide)
        wide = xp.where(xp.isnan(wide), near, xp.asarray(bits, dtype=xp.int32).view(xp.float32))
    return wide.astype(dtype)


def convert_power_of_two(xp: Any, x: Any, dtype: Any, saturate: bool, round_mode: str) -> Any:
    """The nearest powers of two, as exponents of eight bits."""
    x = xp.asarray(x).astype(xp.float64)
    fraction, exponent = xp.frexp(x)
    is_rounded_up = {"up": fraction > 0.5, "nearest": fraction >= 0.75, "down": fraction > 1}[round_mode]
    power = xp.where(x > 0, exponent - 1 + is_rounded_up, -1000)
    power = xp.where(xp.isposinf(x), 1000, power)
    is_nan = xp.isnan(x) if saturate else xp.isnan(x) | (power < -127) | (power > 127)
    code = xp.where(is_nan, 255, xp.clip(power, -127, 127) + 127)
    return xp.asarray(code.astype(xp.uint8)).view(dtype)


def to_text(x: Any) -> Any:
    """Numbers as the shortest text that means them."""
    special = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
    if x.dtype == bool:
        x = x.astype(np.uint8)
    texts = [special.get(text, text.removesuffix(".0")) for text in map(str, x.ravel())]
    return np.array(texts, dtype=object).reshape(x.shape)


def from_text(x: Any, dtype: Any) -> Any:
    """Texts as numbers."""
    kind = np.dtype(dtype).kind
    read = {"b": lambda text: float(text) != 0, "i": int, "u": int}.get(kind, float)
    return np.array([read(str(item)) for item in x.ravel()]).astype(dtype).reshape(x.shape)


def shift_bits(xp: Any, x: Any, count: Any, to_left: bool) -> Any:
    """Bits shifted; those that leave the type are lost."""
    bits = 8 * x.dtype.itemsize
    near = xp.minimum(count, bits - 1).astype(x.dtype)
    if not to_left and x.dtype.kind == "i":
        return xp.right_shift(x, near)
    shifted = xp.left_shift(x, near) if to_left else xp.right_shift(x, near)
    return xp.where(count >= bits, 0, shifted).astype(x.dtype)


def reduce(x: Any, function: str, axes: Any, keep: bool, is_noop: bool, **more: Any) -> Any:
    """A reduction along axes that only the run tells; without any, along all or none."""
    chosen = tuple(axes.tolist())
    if not chosen and is_noop:
        return x
    return getattr(x, function)(axis=chosen or None, keepdims=keep, **more)


def reshape(x: Any, shape: Any, allow_zero: bool = False) -> Any:
    """x in another shape, in which 0 stands for the size that x has there."""
    sizes = [x.shape[i] if size == 0 and not allow_zero else int(size) for i, size in enumerate(shape)]
    return x.reshape(sizes)


def stack_rows(xp: Any, rows: list[Any], shape: tuple[int, ...], dtype: Any, axis: int = 0) -> Any:
    """Arrays as one array with an axis more; without any, an empty array of their shape."""
    if rows:
        return xp.stack([xp.asarray(row) for row in rows], axis=axis)
    sizes = [max(size, 0) for size in shape]
    sizes.insert(axis % (len(sizes) + 1), 0)
    return xp.zeros(sizes, dtype=dtype)


def inserted(items: list[Any], item: Any, position: int | None = None) -> list[Any]:
    """A list with an item more, at the end or at a position."""
    place = len(items) if position is None else position
    return [*items[:place], item, *items[place:]]


def erased(items: list[Any], position: int = -1) -> list[Any]:
    """A list without one item."""
    place = position % len(items)
    return [*items[:place], *items[place + 1 :]]
