"""Products of matrices."""

from __future__ import annotations

from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import BOOL
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import Call
from intaglio.torch.aten.reduction import opmath
from intaglio.torch.aten.table import aten


@aten("mm", "bmm")
def matmul(c: Call, x: Value, y: Value) -> Value:
    """The product of two matrices, or of two stacks of them."""
    _check(x)
    return c.cast(c.b.MatMul(x, y))


@aten("addmm")
def addmm(c: Call, bias: Value, x: Value, y: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
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
def baddbmm(c: Call, bias: Value, x: Value, y: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta bias + alpha x y for stacks of matrices."""
    return addmm(c, bias, x, y, beta=beta, alpha=alpha)


@aten("addbmm")
def addbmm(c: Call, bias: Value, x: Value, y: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta bias + alpha times the sum of the products of two stacks of matrices: one product of longer matrices."""
    batch, rows, depth = c.sizes.dims(c.fake(x).shape)
    columns = c.sizes.dims(c.fake(y).shape)[2]
    side = c.reshape(c.b.Transpose(x, perm=(1, 0, 2)), (rows, batch * depth))
    return addmm(c, bias, side, c.reshape(y, (batch * depth, columns)), beta=beta, alpha=alpha)


@aten("mv")
def mv(c: Call, x: Value, y: Value) -> Value:
    """A matrix times a vector."""
    _check(x)
    return c.cast(c.b.MatMul(x, y))


@aten("dot")
def dot(c: Call, x: Value, y: Value) -> Value:
    """The product of two vectors."""
    _check(x)
    return c.cast(c.b.MatMul(x, y))


def _check(x: Value) -> None:
    if x.dtype.kind == "complex" or x.dtype == BOOL:
        raise UnsupportedError(f"products of {x.dtype}")
