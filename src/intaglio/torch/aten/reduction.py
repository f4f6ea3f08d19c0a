"""Sums, means, extremes, variances and running totals."""

from __future__ import annotations

from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.dtype import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import DEFAULT, AtenCall
from intaglio.torch.aten.table import COMPLEX, aten

MOST = 64
"""Up to so many elements are compared with each element that `isin` looks for."""


def opmath(dtype: DType) -> DType:
    """What PyTorch adds up numbers of an element type in."""
    if dtype.kind == "complex":
        raise UnsupportedError(COMPLEX)
    return FLOAT32 if dtype.is_float and dtype.bits < 32 else dtype


def _is_none(dim: Any) -> bool:
    """Whether `any` and `all` are asked for no axis, which keeps every element; other reductions take all axes then."""
    return isinstance(dim, (list, tuple)) and not dim


def _reduce(c: AtenCall, operator: str, x: Value, dim: Any, keepdim: bool) -> Value:
    axes = c.axes(dim, x.rank)
    return getattr(c.b, operator)(x, axes, keepdims=int(keepdim)) if axes else x


@aten("sum.dim_IntList", "sum")
def total(c: AtenCall, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The sum along axes; of integers in int64."""
    return c.cast(_reduce(c, "ReduceSum", c.cast(x, opmath(c.dtype())), dim, keepdim))


@aten("mean.dim", "mean")
def mean(c: AtenCall, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The mean along axes."""
    return c.cast(_reduce(c, "ReduceMean", c.cast(x, opmath(c.dtype())), dim, keepdim))


@aten("prod.dim_int", "prod")
def product(c: AtenCall, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The product along an axis; of integers in int64."""
    return c.cast(_reduce(c, "ReduceProd", c.cast(x, opmath(c.dtype())), dim, keepdim))


def _extreme(c: AtenCall, operator: str, x: Value, dim: Any, keepdim: bool) -> Value:
    if x.dtype == BOOL:
        return c.cast(_reduce(c, operator, c.cast(x, INT32), dim, keepdim), BOOL)
    return _reduce(c, operator, x, dim, keepdim)


@aten("amax")
def amax(c: AtenCall, x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    """The maximum along axes."""
    return _extreme(c, "ReduceMax", x, dim, keepdim)


@aten("amin")
def amin(c: AtenCall, x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    """The minimum along axes."""
    return _extreme(c, "ReduceMin", x, dim, keepdim)


@aten("max")
def max_all(c: AtenCall, x: Value) -> Value:
    """The maximum of all elements."""
    return _extreme(c, "ReduceMax", x, None, False)


@aten("min")
def min_all(c: AtenCall, x: Value) -> Value:
    """The minimum of all elements."""
    return _extreme(c, "ReduceMin", x, None, False)


@aten("any", "any.dim", "any.dims")
def any_true(c: AtenCall, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Whether one element along axes is not zero; of no elements none is."""
    if _is_none(dim):
        return c.cast(c.to_bool(x))
    greatest = _reduce(c, "ReduceMax", c.cast(c.to_bool(x), INT32), dim, keepdim)
    return c.cast(c.b.Greater(greatest, c.number(0, INT32)))


@aten("isin.Tensor_Tensor", "isin.Tensor_Scalar")
def isin(c: AtenCall, x: Value, among: Any, *, assume_unique: bool = False, invert: bool = False) -> Value:
    """Whether each element is one of some others. PyTorch's form decides by open sizes, on which guards may fail."""
    if isinstance(among, Value) and not (isinstance(count := dims.product(among.shape), int) and 0 < count <= MOST):
        raise UnsupportedError(f"isin with no elements, open sizes or more than {MOST} elements to look for")
    left, right = c.promoted(x, among)
    equal = c.b.Equal(c.b.Unsqueeze(left, [-1]), c.b.Reshape(right, [-1]))
    found = c.b.Greater(c.b.ReduceMax(c.cast(equal, INT32), [-1], keepdims=0), c.number(0, INT32))
    return c.b.Not(found) if invert else found


@aten("all", "all.dim", "all.dims")
def all_true(c: AtenCall, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Whether no element along axes is zero."""
    if _is_none(dim):
        return c.cast(c.to_bool(x))
    least = _reduce(c, "ReduceMin", c.cast(c.to_bool(x), INT32), dim, keepdim)
    return c.cast(c.b.Greater(least, c.number(0, INT32)))


def _arg_extreme(c: AtenCall, operator: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    """The index of the extreme; NaN counts as more extreme than all numbers, as in PyTorch."""
    if x.rank == 0:
        return c.full((), 0, INT64)
    if dim is None:
        flat = c.b.Reshape(x, [-1])
        found = arg_extreme(c, operator, flat, 0, False)
        return c.reshape(found, [1] * x.rank) if keepdim else found
    return arg_extreme(c, operator, x, c.axis(dim, x.rank), keepdim)


def arg_extreme(c: AtenCall, operator: str, x: Value, axis: int, keepdim: bool = True) -> Value:
    """The index of the extreme along an axis; that of the first NaN where there is one."""
    b = c.b
    if x.dtype.is_float:
        nan = b.CastLike(b.IsNaN(x), x)
        is_any = b.ReduceMax(nan, [axis], keepdims=1)
        number = getattr(b, operator)(x, axis=axis, keepdims=1)
        found = b.Where(b.Greater(is_any, c.number(0, x.dtype)), b.ArgMax(nan, axis=axis, keepdims=1), number)
        return found if keepdim else b.Squeeze(found, [axis])
    plain = c.cast(x, INT32) if x.dtype == BOOL else x
    return getattr(b, operator)(plain, axis=axis, keepdims=int(keepdim))


@aten("argmax")
def argmax(c: AtenCall, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Where the maximum is."""
    return _arg_extreme(c, "ArgMax", x, dim, keepdim)


@aten("argmin")
def argmin(c: AtenCall, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Where the minimum is."""
    return _arg_extreme(c, "ArgMin", x, dim, keepdim)


@aten("max.dim")
def max_dim(c: AtenCall, x: Value, dim: int, keepdim: bool = False) -> tuple[Value | None, ...]:
    """The maximum along an axis, and where it is."""
    index = _arg_extreme(c, "ArgMax", x, dim, keepdim) if c.is_wanted(1) else None
    return _extreme(c, "ReduceMax", x, dim, keepdim), index


@aten("min.dim")
def min_dim(c: AtenCall, x: Value, dim: int, keepdim: bool = False) -> tuple[Value | None, ...]:
    """The minimum along an axis, and where it is."""
    index = _arg_extreme(c, "ArgMin", x, dim, keepdim) if c.is_wanted(1) else None
    return _extreme(c, "ReduceMin", x, dim, keepdim), index


def _variance(c: AtenCall, x: Value, dim: Any, correction: float, keepdim: bool) -> tuple[Value, Value]:
    """The variance from deviations, and the mean; both keep their axes."""
    b = c.b
    axes = c.axes(dim, x.rank)
    if not axes:
        raise UnsupportedError("the variance of one number")
    middle = b.ReduceMean(x, axes, keepdims=1)
    deviation = b.Sub(x, middle)
    square = b.ReduceSum(b.Mul(deviation, deviation), axes, keepdims=int(keepdim))
    count = dims.product([x.shape[axis] for axis in axes])
    if isinstance(count, int):
        divisor = c.number(max(count - correction, 0), x.dtype)
    else:
        divisor = b.Max(b.Sub(c.operand(count, x.dtype), c.number(correction, x.dtype)), c.number(0, x.dtype))
    mean = middle if keepdim else b.Squeeze(middle, axes)
    return b.Div(square, divisor), mean


@aten("var.correction", "var.dim")
def var(c: AtenCall, x: Value, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Value:
    """The variance along axes."""
    wide = c.cast(x, opmath(x.dtype))
    return c.cast(_variance(c, wide, dim, 1 if correction is None else correction, keepdim)[0])


@aten("var_mean.correction")
def var_mean(
    c: AtenCall, x: Value, dim: Any = None, *, correction: Any = 1, keepdim: bool = False
) -> tuple[Value, ...]:
    """The variance and the mean along axes."""
    wide = c.cast(x, opmath(x.dtype))
    found, mean = _variance(c, wide, dim, 1 if correction is None else correction, keepdim)
    return c.cast(found), c.cast(mean, 1)


@aten("cumsum")
def cumsum(c: AtenCall, x: Value, dim: int, *, dtype: Any = None) -> Value:
    """Running sums along an axis."""
    wide = c.cast(x, opmath(c.dtype()))
    return c.cast(c.b.CumSum(wide, c.number(c.axis(dim, x.rank), INT64)) if x.rank else wide)


@aten("cumprod")
def cumprod(c: AtenCall, x: Value, dim: int, *, dtype: Any = None) -> Value:
    """Running products along an axis, in double precision as in eager: they may leave the range on their way."""
    kind = opmath(c.dtype())
    wide = c.cast(x, FLOAT64 if kind.is_float else kind)
    return c.cast(c.b.CumProd(wide, c.number(c.axis(dim, x.rank), INT64)) if x.rank else wide)


@aten("_softmax")
def softmax(c: AtenCall, x: Value, dim: int, half_to_float: bool) -> Value:
    """exp(x), divided by its sum along an axis."""
    wide = c.cast(x, opmath(x.dtype))
    return c.cast(c.b.Softmax(wide, axis=c.axis(dim, x.rank)) if x.rank else c.full((), 1, wide.dtype))


@aten("_log_softmax")
def log_softmax(c: AtenCall, x: Value, dim: int, half_to_float: bool) -> Value:
    """The logarithm of the softmax."""
    wide = c.cast(x, opmath(x.dtype))
    return c.cast(c.b.LogSoftmax(wide, axis=c.axis(dim, x.rank)) if x.rank else c.full((), 0, wide.dtype))


@aten("logsumexp")
def logsumexp(c: AtenCall, x: Value, dim: Any, keepdim: bool = False) -> Value:
    """log(sum(exp(x))) along axes."""
    (wide,) = c.promoted(x, kind=DEFAULT)
    if not wide.dtype.is_float:
        wide = c.cast(wide, FLOAT32)
    return c.cast(_reduce(c, "ReduceLogSumExp", wide, dim, keepdim))
