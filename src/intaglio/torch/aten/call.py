# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""One call of an ATen operator that is being said in our operators."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes

from intaglio.errors import UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import BOOL, FLOAT16, FLOAT32, INT32, INT64, UINT32, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Op, Tensor
from intaglio.torch.aten.table import COMPLEX
from intaglio.torch.types import to_dtype

if TYPE_CHECKING:
    from intaglio.torch.sizes import Sizes

IS_INDEFINITE = platform.machine() in ("x86_64", "AMD64")
"""Whether the processor converts numbers that an integer cannot hold to the lowest integer, as PyTorch then does."""

DEFAULT, NO_OPMATH, TO_FLOAT = KIND.DEFAULT, KIND.NO_OPMATH, KIND.INT_TO_FLOAT
TO_BOOL, BOOL_TO_LONG, COMPLEX_TO_FLOAT = KIND.ALWAYS_BOOL, KIND.BOOL_TO_LONG, KIND.COMPLEX_TO_FLOAT


class AtenCall:
    """What a function of the table works with: a builder, and what PyTorch knows of arguments and results.

    `fakes` are the arguments as PyTorch has them, tensors without data; `results` those of the results.
    """

    def __init__(
        self, builder: Builder, sizes: Sizes, fakes: dict[int, Any], results: Any, wanted: frozenset[int]
    ) -> None:
        self.b = builder
        self.sizes = sizes
        self._fakes = fakes
        self.results = results if isinstance(results, (list, tuple)) else (results,)
        self._wanted = wanted

    def is_wanted(self, position: int) -> bool:
        """Whether somebody reads the result at a position."""
        return position in self._wanted

    def fake(self, operand: Any) -> Any:
        """What PyTorch knows of an argument: a tensor without data, or the number itself."""
        return self._fakes[id(operand)] if isinstance(operand, Value) else operand

    def result(self, position: int = 0) -> Any:
        """What PyTorch knows of a result."""
        return self.results[position]

    def dtype(self, position: int = 0) -> DType:
        """The element type of a result."""
        return to_dtype(self.result(position).dtype)

    def shape(self, position: int = 0) -> tuple[Dim, ...]:
        """The sizes of a result."""
        return self.sizes.dims(self.result(position).shape)

    def cast(self, value: Value, dtype: DType | int = 0) -> Value:
        """A value in another element type, by default in that of the first result (a number: of that result)."""
        target = self.dtype(dtype) if isinstance(dtype, int) else dtype
        if value.dtype == target:
            return value
        if value.dtype.is_float and target.is_integer and IS_INDEFINITE:
            return self._truncated(value, target)
        return self.b.Cast(value, to=target.number)

    def _truncated(self, value: Value, target: DType) -> Value:
        """Floating-point numbers as integers; what does not fit, and NaN, as the processor leaves it for PyTorch.

        Types of up to 32 bits are the low bits of an int32.
        """
        b, wide = self.b, INT32 if target.bits <= 32 and target != UINT32 else INT64
        number = b.Cast(value, to=FLOAT32.number) if value.dtype == FLOAT16 else value
        fits = b.Less(number, self.number(2.0 ** (wide.bits - 1), number.dtype))
        lowest = self.number(-(2 ** (wide.bits - 1)), wide)
        return self.cast(b.Where(fits, b.Cast(number, to=wide.number), lowest), target)

    def promoted(self, *operands: Any, kind: Any = DEFAULT) -> list[Value]:
        """The operands in the element type that PyTorch computes in."""
        dtype = self.compute_dtype(*operands, kind=kind)
        return [self.operand(operand, dtype) for operand in operands]

    def compute_dtype(self, *operands: Any, kind: Any = DEFAULT) -> DType:
        """The element type that PyTorch computes an elementwise operator in."""
        fakes = [_like_number(self.fake(operand)) for operand in operands]
        dtype = to_dtype(elementwise_dtypes(*fakes, type_promotion_kind=kind)[0])
        if dtype.kind == "complex":
            raise UnsupportedError(COMPLEX)
        return dtype

    def operand(self, operand: Any, dtype: DType) -> Value:
        """A tensor, number or size as a value of an element type."""
        if isinstance(operand, Value):
            return self.cast(operand, dtype)
        if isinstance(operand, complex):
            raise UnsupportedError(COMPLEX)
        if isinstance(operand, (bool, int, float)):
            return self.number(operand, dtype)
        return self.cast(self.b.Reshape(self.sizes.vector(self.b, [operand]), []), dtype)

    def number(self, number: float, dtype: DType) -> Value:
        """A number as a constant; one that an integer type cannot hold wraps around as in C."""
        if dtype.is_integer and not isinstance(number, bool):
            return self.b.constant(np.array(int(number)).astype(np.int64).astype(dtype.numpy))
        return self.b.constant(np.array(number).astype(dtype.numpy))

    def vector(self, sizes: Sequence[Any]) -> Value:
        """Sizes as a tensor."""
        return self.sizes.vector(self.b, sizes)

    def reshape(self, value: Value, shape: Sequence[Any]) -> Value:
        """A value in another shape; at most one size may be -1."""
        if tuple(shape) == value.tensor.shape:
            return value
        open_sizes = [place for place, size in enumerate(shape) if not isinstance(size, int)]
        if len(open_sizes) == 1 and not {0, -1} & set(shape):
            shape = [-1 if place == open_sizes[0] else size for place, size in enumerate(shape)]
        return self.b.Reshape(value, self.vector(shape), allowzero=0 if -1 in shape else 1)

    def expand(self, value: Value, shape: Sequence[Any]) -> Value:
        """A value broadcast to a shape."""
        if tuple(shape) == value.tensor.shape:
            return value
        return self.b.Expand(value, self.vector(shape))

    def full(self, shape: Sequence[Any], number: Any, dtype: DType) -> Value:
        """A tensor of one number."""
        if isinstance(number, (bool, int, float)):
            one = self.number(number, dtype).constant
            assert one is not None
            if all(isinstance(size, int) and size <= 1 for size in shape):
                return self.b.constant(np.full(tuple(shape), one))
            return self.b.ConstantOfShape(self.vector(shape), value=Tensor(one.reshape(1)))
        return self.expand(self.operand(number, dtype), shape)

    def select(self, value: Value, axis: int, index: int | Dim) -> Value:
        """The slice at one index of an axis, which goes away."""
        return self.b.Gather(value, self.operand(index, INT64), axis=axis)

    def counted_from_front(self, index: Value, size: Any) -> Value:
        """Indices that PyTorch does not count from the end: negative ones are moved out of range, where they raise."""
        known = index.constant
        if index.dtype.kind == "uint" or (known is not None and not (known < 0).any()):
            return index
        is_negative = self.b.Less(index, self.number(0, index.dtype))
        return self.b.Where(is_negative, self.b.Sub(index, self.operand(size, index.dtype)), index)

    def pullback(
        self, op: Op, inputs: Sequence[Value | None], outputs: Sequence[Value], bar: Value
    ) -> list[Value | None]:
        """The gradients by an operator's inputs; raises UnsupportedError where open sizes leave no rule for them."""
        found = op.pullback(self.b, inputs, outputs, [bar])
        if found is NotImplemented:
            raise UnsupportedError(f"the gradient of {op.name} over open sizes")
        return list(found)

    def to_bool(self, operand: Any) -> Value:
        """Whether each element is not zero."""
        value = operand if isinstance(operand, Value) else self.operand(operand, FLOAT32)
        return value if value.dtype == BOOL else self.cast(value, BOOL)

    def axis(self, dim: int, rank: int) -> int:
        """An axis counted from the front; a scalar counts as having one."""
        return dim % max(rank, 1)

    def axes(self, dim: Any, rank: int) -> list[int]:
        """Axes counted from the front; none given means all."""
        if dim is None or (isinstance(dim, (list, tuple)) and not dim):
            return list(range(rank))
        listed = dim if isinstance(dim, (list, tuple)) else [dim]
        return [self.axis(each, rank) for each in listed] if rank else []


def _like_number(operand: Any) -> Any:
    """Sizes count as integers when types are promoted."""
    return operand if isinstance(operand, (torch.Tensor, bool, int, float, complex)) else 1
