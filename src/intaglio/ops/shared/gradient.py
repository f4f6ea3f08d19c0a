"""What the reverse-mode rules of several families share."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value


def root(b: Builder, total: Value, power: int = 2) -> Value:
    """A root of numbers that are at least 0, whose gradient at 0 is 0, as that of a norm is in PyTorch."""
    zero, one = (b.constant(number, total.dtype) for number in (0, 1))
    is_zero = b.Equal(total, zero)
    above = b.Where(is_zero, one, total)
    return b.Where(is_zero, zero, b.Sqrt(above) if power == 2 else above ** (1 / power))


def unbroadcast(b: Builder, gradient: Value, like: Value) -> Value:
    """Sum a gradient over the axes along which `like` was broadcast, so that it has the shape of `like`.

    Where symbolic dimensions leave open which axes those are, they are found at run time.
    """
    wanted, given = like.tensor.shape, gradient.tensor.shape
    if wanted is not None and wanted == given:
        return gradient
    if wanted is None or given is None:
        return _unbroadcast_unranked(b, gradient, like)
    extra = len(given) - len(wanted)
    if extra:
        gradient = b.ReduceSum(gradient, list(range(extra)), keepdims=0)
        given = given[extra:]
    pairs = list(zip(wanted, given, strict=True))
    if all(want == got or want == 1 for want, got in pairs):
        axes = [axis for axis, (want, got) in enumerate(pairs) if want != got]
        return b.ReduceSum(gradient, axes, keepdims=1) if axes else gradient
    return _sum_unequal_axes(b, gradient, b.Shape(like))


def _unbroadcast_unranked(b: Builder, gradient: Value, like: Value) -> Value:
    """Pad the shape of `like` with leading ones to the gradient's rank, at run time."""
    padding = b.Sub(b.Size(b.Shape(gradient)), b.Size(b.Shape(like)))
    ones = b.Expand(b.constant([1]), b.Unsqueeze(padding, [0]))
    padded = b.Concat(ones, b.Shape(like), axis=0)
    return b.Reshape(_sum_unequal_axes(b, gradient, padded), b.Shape(like), allowzero=1)


def _sum_unequal_axes(b: Builder, gradient: Value, shape: Value) -> Value:
    differs = b.Not(b.Equal(shape, b.Shape(gradient)))
    axes = b.Squeeze(b.NonZero(differs), [0])
    return b.Reshape(b.ReduceSum(gradient, axes, keepdims=1, noop_with_empty_axes=1), shape, allowzero=1)
