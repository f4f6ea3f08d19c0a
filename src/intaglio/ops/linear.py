"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir import dim as dims
from intaglio.ir import requirements
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT64, DType, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows
from intaglio.ir.types import Shape, TensorType
from intaglio.ops.cast import convert
from intaglio.ops.shared.gradient import unbroadcast
from intaglio.ops.shared.indices import same_dtype
from intaglio.ops.shared.indices import wide as widen
from intaglio.ops.shared.operand import cast, known_shape, like, require_equal, wide
from intaglio.ops.shared.products import matrix_product


def matmul_shape(left: Shape, right: Shape) -> Shape:
    """The shape of a matrix product by NumPy's rules: a vector gains an axis for the product and loses it after."""
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    require_equal(left[-1], right[-2 if len(right) > 1 else -1], "the dimensions to sum over")
    return requirements.broadcast_shapes(left[:-2], right[:-2]) + rows + columns


def multiply(left: Array, right: Array) -> Array:
    """The matrix product in the operands' type, narrow floats in single precision."""
    return like(matrix_product(widen(left), widen(right)), left)


class MatMul(Op):
    """The matrix product of the last two axes; the others are broadcast."""

    keeps_rows = Rows.BY_AXES

    never_fails = True

    def infer(self, A: Value, B: Value) -> TensorType:
        dtype = same_dtype(A, B)
        left, right = known_shape(A, least=1), known_shape(B, least=1)
        if left is None or right is None:
            return TensorType(dtype, None)
        return TensorType(dtype, matmul_shape(left, right))

    def reference(self, A: Array, B: Array) -> Array:
        return multiply(A, B)

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[Value | None, ...]:
        left, right, bar = inputs[0], inputs[1], output_bars[0]
        matrix_left = b.Unsqueeze(left, [0]) if left.rank == 1 else left
        matrix_right = b.Unsqueeze(right, [1]) if right.rank == 1 else right
        added = ([-2] if left.rank == 1 else []) + ([-1] if right.rank == 1 else [])
        bar = b.Unsqueeze(bar, added) if added else bar
        left_bar = unbroadcast(b, bar @ swap_last(b, matrix_right), matrix_left)
        right_bar = _right_bar(b, matrix_left, matrix_right, bar)
        return b.Reshape(left_bar, b.Shape(left)), b.Reshape(right_bar, b.Shape(right))


def _right_bar(b: Builder, left: Value, right: Value, bar: Value) -> Value:
    """The gradient of the right factor: where one matrix serves many, as weights do, one product of all their rows."""
    is_known = all(isinstance(size, int) and size > 0 for size in right.shape)
    if left.rank > 2 and right.rank == 2 and is_known:
        rows, bars = (b.Reshape(each, [-1, int(size)]) for each, size in zip((left, bar), right.shape, strict=True))  # pyright: ignore[reportArgumentType]
        return swap_last(b, rows) @ bars
    return unbroadcast(b, swap_last(b, left) @ bar, right)


def swap_last(b: Builder, x: Value) -> Value:
    """The transposes of all matrices in the last two axes."""
    order = list(range(x.rank))
    return b.Transpose(x, perm=(*order[:-2], order[-1], order[-2]))


class Gemm(Op):
    """alpha * A' @ B' + beta * C, where A' and B' are transposed on demand.

    Integers with a factor that is no whole number are scaled in double precision, and the result is truncated.
    """

    keeps_rows = Rows.BY_AXES

    never_fails = True
    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0

    def infer(self, A: Value, B: Value, C: Value | None = None) -> TensorType:
        dtype = same_dtype(A, B, C)
        left, right = known_shape(A, rank=2), known_shape(B, rank=2)
        if left is None or right is None:
            return TensorType(dtype, (dims.fresh(), dims.fresh()))
        left = left[::-1] if self.transA else left
        right = right[::-1] if self.transB else right
        shape = matmul_shape(left, right)
        if C is not None and C.tensor.shape is not None:
            joined = requirements.broadcast_shapes(C.shape, shape)
            for whole, part in zip(joined, shape, strict=True):
                require_equal(whole, part, "C must broadcast to the product")
        return TensorType(dtype, shape)

    def reference(self, A: Array, B: Array, C: Array | None = None) -> Array:
        left, right = widen(A.T if self.transA else A), widen(B.T if self.transB else B)
        scaled = self._scaled_dtype(from_numpy(left.dtype)).numpy
        result = matrix_product(left, right).astype(scaled, copy=False)
        if self.alpha != 1:
            result = result * scaled.type(self.alpha)
        if C is not None and self.beta != 0:
            bias = widen(C).astype(scaled, copy=False)
            result = result + (bias if self.beta == 1 else bias * scaled.type(self.beta))
        return convert(np.asarray(result), from_numpy(A.dtype))

    def _scaled_dtype(self, dtype: DType) -> DType:
        """The element type in which products are scaled and added."""
        is_whole = self.alpha.is_integer() and self.beta.is_integer()
        return FLOAT64 if dtype.is_integer and not is_whole else dtype

    def expand(self, b: Builder, A: Value, B: Value, C: Value | None = None) -> Value:
        left, right = wide(b, A), wide(b, B)
        left = b.Transpose(left, perm=(1, 0)) if self.transA else left
        right = b.Transpose(right, perm=(1, 0)) if self.transB else right
        scaled = self._scaled_dtype(left.dtype)
        result = cast(b, left @ right, scaled)
        result = result if self.alpha == 1 else result * self.alpha
        if C is not None and self.beta != 0:
            bias = cast(b, C, scaled)
            result = result + (bias if self.beta == 1 else bias * self.beta)
        return cast(b, result, A.dtype)
