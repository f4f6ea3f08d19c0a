"""Products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import BOOL
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.reduction import opmath
from intaglio.torch.aten.table import aten


@aten("mm", "bmm")
def matmul(c: AtenCall, x: Value, y: Value) -> Value:
    """The product of two matrices, or of two stacks of them."""
    _check(x)
    return c.cast(c.b.MatMul(x, y))


@aten("addmm")
def addmm(c: AtenCall, bias: Value, x: Value, y: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta bias + alpha x y."""
    _check(x)
    wide = opmath(x.dtype)
    product = c.b.MatMul(c.cast(x, wide), c.cast(y, wide))
    bias = c.cast(bias, wide)
    if alpha != 1:
        product = c.b.Mul(product, c.operand(alpha, product.dtype))
    if beta == 0:
        return c.cast(c.expand(product, c.shape()))
    if beta != 1:
        bias = c.b.Mul(bias, c.operand(beta, bias.dtype))
    return c.cast(c.b.Add(product, bias))


@aten("baddbmm")
def baddbmm(c: AtenCall, bias: Value, x: Value, y: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta bias + alpha x y for stacks of matrices."""
    return addmm(c, bias, x, y, beta=beta, alpha=alpha)


@aten("addbmm")
def addbmm(c: AtenCall, bias: Value, x: Value, y: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta bias + alpha times the sum of the products of two stacks of matrices: one product of longer matrices."""
    batch, rows, depth = c.sizes.dims(c.fake(x).shape)
    columns = c.sizes.dims(c.fake(y).shape)[2]
    side = c.reshape(c.b.Transpose(x, perm=(1, 0, 2)), (rows, batch * depth))
    return addmm(c, bias, side, c.reshape(y, (batch * depth, columns)), beta=beta, alpha=alpha)


@aten("mv")
def mv(c: AtenCall, x: Value, y: Value) -> Value:
    """A matrix times a vector."""
    _check(x)
    return c.cast(c.b.MatMul(x, y))


@aten("dot")
def dot(c: AtenCall, x: Value, y: Value) -> Value:
    """The product of two vectors."""
    _check(x)
    return c.cast(c.b.MatMul(x, y))


def _check(x: Value) -> None:
    if x.dtype.kind == "complex" or x.dtype == BOOL:
        raise UnsupportedError(f"products of {x.dtype}")


@aten("_trilinear")
def trilinear(
    c: AtenCall,
    x: Value,
    y: Value,
    z: Value,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Value:
    """The product of three tensors, each with new axes of size 1, summed along axes."""
    spread = [
        c.b.Unsqueeze(c.cast(value, opmath(value.dtype)), list(axes)) if axes else value
        for value, axes in ((x, expand1), (y, expand2), (z, expand3))
    ]
    found = c.b.Mul(c.b.Mul(spread[0], spread[1]), spread[2])
    return c.cast(c.b.ReduceSum(found, list(sumdim), keepdims=0) if sumdim else found)


def _distance(c: AtenCall, difference: Value, p: float) -> Value:
    """The p-norm along the last axis."""
    b, axis, size = c.b, [difference.rank - 1], c.b.Abs(difference)
    if p == 0:
        is_other = b.Not(b.Equal(size, c.number(0, size.dtype)))
        return b.ReduceSum(c.cast(is_other, size.dtype), axis, keepdims=0)
    if p == math.inf:
        return b.ReduceMax(size, axis, keepdims=0)
    if p == 1:
        return b.ReduceSum(size, axis, keepdims=0)
    if p == 2:
        return b.Sqrt(b.ReduceSum(b.Mul(size, size), axis, keepdims=0))
    total = b.ReduceSum(b.Pow(size, c.number(p, size.dtype)), axis, keepdims=0)
    return b.Pow(total, c.number(1 / p, size.dtype))


@aten("_cdist_forward")
def cdist(c: AtenCall, x: Value, y: Value, p: float, compute_mode: int | None) -> Value:
    """The distance of each row of one matrix from each of another."""
    if isinstance(x.shape[-1], int) and not x.shape[-1]:
        return c.full(c.shape(), 0, c.dtype())
    return c.cast(_distance(c, c.b.Sub(c.b.Unsqueeze(x, [x.rank - 1]), c.b.Unsqueeze(y, [y.rank - 2])), float(p)))


@aten("_pdist_forward")
def pdist(c: AtenCall, x: Value, p: float = 2) -> Value:
    """The distances of the rows of a matrix from those behind."""
    if not all(isinstance(size, int) and size for size in x.shape):
        raise UnsupportedError("distances of open or empty sizes")
    first, second = np.triu_indices(int(x.shape[0]), 1)
    if not len(first):
        raise UnsupportedError("distances of one row")
    rows = [c.b.Gather(x, c.b.constant(places.astype(np.int64)), axis=0) for places in (first, second)]
    return c.cast(_distance(c, c.b.Sub(*rows), float(p)))
