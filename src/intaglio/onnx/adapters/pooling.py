"""Pooling by a p-norm when p was a floating-point number."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


@adapts("LpPool", before=2)
def lp_pool_1(
    b: Builder,
    X: Value,
    *,
    auto_pad: str = "NOTSET",
    kernel_shape: Sequence[int] | None = None,
    p: float = 2.0,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """A fractional p is a mean of powers, times the size of the window, rooted."""
    if kernel_shape is None:
        raise ShapeError("LpPool needs the attribute kernel_shape")
    window: dict[str, Any] = {
        "auto_pad": auto_pad,
        "kernel_shape": tuple(kernel_shape),
        "pads": None if pads is None else tuple(pads),
        "strides": None if strides is None else tuple(strides),
    }
    if p == int(p):
        return b.LpPool(X, p=int(p), **window)
    mean = b.AveragePool(b.Abs(X) ** p, count_include_pad=1, **window)
    return (mean * float(prod(kernel_shape))) ** (1 / p)


@adapts("GlobalLpPool", before=2)
def global_lp_pool_1(b: Builder, X: Value, *, p: float = 2.0) -> Value:
    """A fractional p needs powers."""
    if p == int(p):
        return b.GlobalLpPool(X, p=int(p))
    total = b.ReduceSum(b.Abs(X) ** p, list(range(2, X.rank)), noop_with_empty_axes=1)
    return total ** (1 / p)
