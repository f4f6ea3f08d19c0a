"""Comparison, truth values and choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, DType
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Work
from intaglio.ir.types import TensorType, Type
from intaglio.ops.shared.elementwise import BOOLS, NUMBERS, Binary, Elementwise, broadcast_shape, map_sizes
from intaglio.ops.shared.gradient import unbroadcast
from intaglio.ops.shared.indices import same_dtype


class Comparison(Binary, abstract=True):
    """A relation of A and B; every one but inequality is false where an operand is NaN."""

    symbolic: ClassVar[bool] = True

    def result_dtype(self, dtype: DType) -> DType:
        return BOOL


class Equal(Comparison):
    """Whether A and B are equal; also of strings and truth values."""

    is_cheap = True
    never_fails = True
    work = Work.LINEAR
    no_gradient = "its results are truth values"
    kinds: ClassVar[tuple[str, ...]] = (*NUMBERS, "bool", "string")

    def compute(self, A: Array, B: Array) -> Any:
        return np.equal(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return dims.decide_equal(A, B)


class Less(Comparison):
    """Whether A < B."""

    is_cheap = True
    never_fails = True
    work = Work.LINEAR
    no_gradient = "its results are truth values"

    def compute(self, A: Array, B: Array) -> Any:
        return np.less(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return dims.decide_less(A, B)


class LessOrEqual(Comparison):
    """Whether A <= B."""

    is_cheap = True
    never_fails = True
    work = Work.LINEAR
    no_gradient = "its results are truth values"

    def compute(self, A: Array, B: Array) -> Any:
        return np.less_equal(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return not dims.decide_less(B, A)


class Greater(Comparison):
    """Whether A > B."""

    is_cheap = True
    never_fails = True
    work = Work.LINEAR
    no_gradient = "its results are truth values"

    def compute(self, A: Array, B: Array) -> Any:
        return np.greater(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return dims.decide_less(B, A)


class GreaterOrEqual(Comparison):
    """Whether A >= B."""

    is_cheap = True
    never_fails = True
    work = Work.LINEAR
    no_gradient = "its results are truth values"

    def compute(self, A: Array, B: Array) -> Any:
        return np.greater_equal(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return not dims.decide_less(A, B)


class And(Comparison):
    """Whether both are true."""

    is_cheap = True
    never_fails = True
    work = Work.LINEAR
    no_gradient = "its results are truth values"
    kinds: ClassVar[tuple[str, ...]] = BOOLS

    def compute(self, A: Array, B: Array) -> Any:
        return np.logical_and(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return bool(A) and bool(B)


class Or(Comparison):
    """Whether at least one is true."""

    is_cheap = True
    never_fails = True
    work = Work.LINEAR
    no_gradient = "its results are truth values"
    kinds: ClassVar[tuple[str, ...]] = BOOLS

    def compute(self, A: Array, B: Array) -> Any:
        return np.logical_or(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return bool(A) or bool(B)


class Xor(Comparison):
    """Whether exactly one is true."""

    never_fails = True
    work = Work.LINEAR
    no_gradient = "its results are truth values"
    kinds: ClassVar[tuple[str, ...]] = BOOLS

    def compute(self, A: Array, B: Array) -> Any:
        return np.logical_xor(A, B)

    def size(self, A: Any, B: Any) -> Any:
        return bool(A) != bool(B)


class Not(Elementwise):
    """The opposite truth value."""

    is_cheap = True
    never_fails = True
    work = Work.SHORT
    no_gradient = "its results are truth values"
    kinds: ClassVar[tuple[str, ...]] = BOOLS
    symbolic: ClassVar[bool] = True

    def infer(self, X: Value) -> Type:
        return super().infer(X)

    def compute(self, X: Array) -> Any:
        return np.logical_not(X)

    def size(self, X: Any) -> Any:
        return not X


class Where(Op):
    """The element of X where the condition is true, else that of Y; of any element type."""

    is_elementwise = True
    moves_only = True
    is_exact = True
    is_cheap = True
    never_fails = True
    work = Work.SHORT
    symbolic: ClassVar[bool] = True

    def infer(self, condition: Value, X: Value, Y: Value) -> Type:
        if condition.dtype != BOOL:
            raise ShapeError(f"the condition must be bool, got {condition.dtype}")
        return TensorType(same_dtype(X, Y), broadcast_shape(condition, X, Y))

    def reference(self, condition: Array, X: Array, Y: Array) -> Array:
        return np.asarray(np.where(condition.astype(bool), X, Y))

    def dims(self, *inputs: Any) -> Any:
        return map_sizes(lambda is_true, x, y: x if is_true else y, inputs[1].dtype, *inputs)

    def pullback(self, b: Builder, inputs: Sequence[Any], outputs: Sequence[Value], output_bars: Sequence[Any]) -> Any:
        (condition, X, Y), bar = inputs, output_bars[0]
        X_bar = unbroadcast(b, b.Where(condition, bar, b.constant(0, bar.dtype)), X)
        return None, X_bar, unbroadcast(b, b.Where(condition, b.constant(0, bar.dtype), bar), Y)


class Clip(Op):
    """The value limited to the range from `min` to `max`; `max` wins where the range is empty, NaN stays NaN."""

    is_elementwise = True
    is_exact = True
    is_cheap = True
    never_fails = True
    work = Work.SHORT
    symbolic: ClassVar[bool] = True

    def infer(self, input: Value, min: Value | None = None, max: Value | None = None) -> Type:
        for name, bound in (("min", min), ("max", max)):
            if bound is not None and bound.tensor.shape not in ((), (1,), None):
                raise ShapeError(f"{name} must be a scalar, got {bound.type}")
        same_dtype(input, min, max)
        return input.type

    def reference(self, input: Array, min: Array | None = None, max: Array | None = None) -> Array:
        result = input if min is None else np.maximum(input, min.reshape(()))
        return np.asarray(result if max is None else np.minimum(result, max.reshape(())), dtype=input.dtype)

    def expand(self, b: Builder, input: Value, min: Value | None = None, max: Value | None = None) -> Value:
        result = input if min is None else b.Max(input, _scalar(b, min))
        result = result if max is None else b.Min(result, _scalar(b, max))
        return b.Identity(input) if result is input else result

    def pullback(self, b: Builder, inputs: Sequence[Any], outputs: Sequence[Value], output_bars: Sequence[Any]) -> Any:
        """What lies within the range, ends included, gets the gradient; else the bound that it was limited to.

        Where both bounds are equal, the lower one gets none, as in PyTorch.
        """
        x, bar = inputs[0], output_bars[0]
        low, high = (inputs[place] if len(inputs) > place else None for place in (1, 2))
        nothing = b.constant(0, bar.dtype)
        raised = x if low is None else b.Max(x, _scalar(b, low))
        is_above = None if high is None else b.Greater(raised, _scalar(b, high))
        kept = bar if is_above is None else b.Where(is_above, nothing, bar)
        bars: list[Value | None] = [kept]
        if low is not None:
            is_below = b.Less(x, _scalar(b, low))
            lifted = kept if high is None else b.Where(b.Less(_scalar(b, low), _scalar(b, high)), kept, nothing)
            bars = [b.Where(is_below, nothing, kept), _limit_bar(b, b.Where(is_below, lifted, nothing), low)]
        if high is not None and is_above is not None:
            bars += [None] * (2 - len(bars)) + [_limit_bar(b, b.Where(is_above, bar, nothing), high)]
        return (*bars, None, None)[: len(inputs)]

    def dims(self, input: Any, min: Any = None, max: Any = None) -> Any:
        result = input.contents
        for bound, choose in ((min, dims.maximum), (max, dims.minimum)):
            if bound is not None and result is not None:
                limit = bound.contents
                result = None if limit is None else np.frompyfunc(choose, 2, 1)(result, limit.reshape(()))
        return result


def _limit_bar(b: Builder, parts: Value, bound: Value) -> Value:
    total = b.ReduceSum(parts, keepdims=0)
    return total if bound.tensor.shape == () else b.Reshape(total, b.Shape(bound))


def _scalar(b: Builder, bound: Value) -> Value:
    return bound if bound.tensor.shape == () else b.Reshape(bound, b.constant(np.zeros(0, np.int64)))


class Identity(Op):
    """The value itself, of any type."""

    is_elementwise = True
    is_view = True
    keeps_order = True
    moves_only = True
    chooses_from = 1
    is_exact = True
    is_cheap = True
    carries_quantized = True
    never_fails = True
    work = Work.SHORT
    symbolic: ClassVar[bool] = True

    def infer(self, input: Value) -> Type:
        return input.type

    def reference(self, input: Any) -> Any:
        return input

    def pullback(self, b: Builder, inputs: Sequence[Any], outputs: Sequence[Value], output_bars: Sequence[Any]) -> Any:
        return (output_bars[0],)
