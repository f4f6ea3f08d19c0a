"""Order: sorting, the largest elements, medians, searching, and elements that differ."""

from __future__ import annotations

from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.dtype import BOOL, INT32, INT64
from intaglio.ir.graph import Value
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.reduction import opmath
from intaglio.torch.aten.table import Rule, aten

LONGEST = {"mode": 256, "search": 1024}
"""Up to which length all elements of lines are compared with each other, or with what is looked for."""


@aten("topk")
def topk(c: AtenCall, x: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Value, ...]:
    """The largest or smallest elements along an axis, and where they are."""
    return _top(c, x, k, dim, largest)


@aten("sort", "sort.stable")
def sort(c: AtenCall, x: Value, *arguments: Any, **named: Any) -> tuple[Value, ...]:
    """The elements along an axis in order, and where they were; equal ones stay in order."""
    given: list[Any] = list(arguments)
    if given and (given[0] is None or isinstance(given[0], bool)) and "stable" not in named and len(given) > 1:
        given = given[1:]
    dim: Any = given[0] if given else named.get("dim", -1)
    descending = given[1] if len(given) > 1 else named.get("descending", False)
    return _sorted(c, x, dim, descending)


def _sorted(c: AtenCall, x: Value, dim: int, descending: bool = False) -> tuple[Value, ...]:
    return _top(c, x, x.shape[c.axis(dim, x.rank)] if x.rank else 1, dim, descending)


def _top(c: AtenCall, x: Value, k: Any, dim: int, largest: bool) -> tuple[Value, ...]:
    """Truth values are ordered as numbers, and narrow numbers in single precision, which holds them all."""
    if not x.rank:
        return x, c.full((), 0, INT64)
    wide = c.cast(x, INT32 if x.dtype == BOOL else opmath(x.dtype))
    axis = c.axis(dim, x.rank)
    values, places = c.b.TopK(wide, c.vector([k]), axis=axis, largest=int(largest), sorted=1, outputs=2)
    return c.cast(values, x.dtype), places


def _at(c: AtenCall, pair: tuple[Value, ...], place: Value, axis: int, keepdim: bool) -> tuple[Value, ...]:
    """The elements of sorted lines at one place of each, and where they were."""
    found = [c.b.GatherElements(value, place, axis=axis) for value in pair]
    return tuple(found if keepdim else [c.b.Squeeze(value, [axis]) for value in found])


def _line(c: AtenCall, x: Value, dim: int) -> tuple[int, int]:
    """An axis and its size, which must be known and not zero."""
    axis = c.axis(dim, x.rank)
    size = x.shape[axis]
    if not isinstance(size, int) or not size:
        raise UnsupportedError(f"the order of {size} elements")
    return axis, size


def _median(c: AtenCall, x: Value, dim: int, keepdim: bool, ignores_nan: bool) -> tuple[Value, ...]:
    """The lower one of the two in the middle; NaN where one is NaN, or of the elements that are not."""
    if not x.rank:
        return x, c.full((), 0, INT64)
    b = c.b
    axis, size = _line(c, x, dim)
    shape = [1 if place == axis else each for place, each in enumerate(x.shape)]
    place = c.full(shape, (size - 1) // 2, INT64)
    if x.dtype.is_float:
        is_number = c.cast(b.Not(b.IsNaN(x)), INT64)
        count = b.ReduceSum(is_number, [axis], keepdims=1)
        last = b.Max(b.Sub(count, c.number(1, INT64)), c.number(0, INT64))
        with_nan = b.Div(last, c.number(2, INT64)) if ignores_nan else count
        place = b.Where(b.Less(count, c.number(size, INT64)), with_nan, place)
    return _at(c, _sorted(c, x, axis), place, axis, keepdim)


def _median_rules(name: str, ignores_nan: bool) -> None:
    def along(c: AtenCall, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, ...]:
        """The median along an axis, and where it is."""
        return _median(c, x, dim, keepdim, ignores_nan)

    def of_all(c: AtenCall, x: Value) -> Value:
        """The median of all elements."""
        if 0 in x.shape and x.dtype.is_float:
            return c.full((), float("nan"), x.dtype)
        return _median(c, c.b.Reshape(x, [-1]), 0, False, ignores_nan)[0]

    aten(f"{name}.dim")(along)
    aten(name)(of_all)


_median_rules("median", False)
_median_rules("nanmedian", True)


@aten("kthvalue")
def kthvalue(c: AtenCall, x: Value, k: Any, dim: int = -1, keepdim: bool = False) -> tuple[Value, ...]:
    """The k-th smallest element along an axis, and where it is."""
    if not x.rank:
        return x, c.full((), 0, INT64)
    axis, _ = _line(c, x, dim)
    place = c.expand(c.operand(k - 1, INT64), [1 if each == axis else size for each, size in enumerate(x.shape)])
    return _at(c, _sorted(c, x, axis), place, axis, keepdim)


@aten("mode")
def mode(c: AtenCall, x: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, ...]:
    """The most frequent element along an axis, the smallest of several, and where it is."""
    if not x.rank:
        return x, c.full((), 0, INT64)
    axis, size = _line(c, x, dim)
    if size > LONGEST["mode"]:
        raise UnsupportedError(f"the most frequent of {size} elements")
    pair = _sorted(c, x, axis)
    line = pair[0]
    is_same = c.b.Equal(c.b.Unsqueeze(line, [axis]), c.b.Unsqueeze(line, [axis + 1]))
    counts = c.b.ReduceSum(c.cast(is_same, INT32), [axis], keepdims=0)
    return _at(c, pair, c.b.ArgMax(counts, axis=axis, keepdims=1), axis, keepdim)


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    c: AtenCall,
    line: Value,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """How many elements of sorted lines are less than each number, or at most that; NaN is greater than all."""
    b, size = c.b, line.shape[-1]
    if not isinstance(size, int) or size > LONGEST["search"]:
        raise UnsupportedError(f"a search in {size} elements")
    dtype = c.compute_dtype(line, x)
    sequence, value = (c.operand(each, INT32 if dtype == BOOL else dtype) for each in (line, x))
    if sorter is not None:
        sequence = b.GatherElements(sequence, sorter, axis=sequence.rank - 1)
    lines = sequence if sequence.rank == 1 else b.Unsqueeze(sequence, [sequence.rank - 1])
    values = b.Unsqueeze(value, [value.rank])
    is_behind = (b.Greater if right or side == "right" else b.GreaterOrEqual)(lines, values)
    before = c.cast(b.Not(is_behind), INT64)
    return c.cast(b.ReduceSum(before, [before.rank - 1], keepdims=0))


def _running(operator: str) -> Rule:
    def rule(c: AtenCall, x: Value, dim: int) -> tuple[Value, ...]:
        """The extreme up to each element, and where the last of it is; NaN from the first one on."""
        if not x.rank:
            return x, c.full((), 0, INT64)
        axis = c.axis(dim, x.rank)
        size = x.shape[axis]
        if not isinstance(size, int):
            raise UnsupportedError("running extremes along an open size")
        shape = [-1 if place == axis else 1 for place in range(x.rank)]
        places = c.expand(c.b.Reshape(c.vector(range(size)), shape), x.shape)
        values = c.cast(x, INT32) if x.dtype == BOOL else x
        step = 1
        while step < size:
            values, places = _further(c, operator, values, places, axis, step)
            step *= 2
        return c.cast(values, x.dtype), places

    return rule


def _parts(c: AtenCall, x: Value, axis: int, step: int) -> tuple[Value, Value, Value]:
    """The first elements, all but the last ones, and all but the first ones."""
    size = x.shape[axis]
    cut = lambda first, last: c.b.Slice(x, c.vector([first]), c.vector([last]), [axis])  # noqa: E731
    return cut(0, step), cut(0, size - step), cut(step, size)


def _further(c: AtenCall, operator: str, values: Value, places: Value, axis: int, step: int) -> tuple[Value, Value]:
    """The extremes of twice as many elements."""
    b = c.b
    (head, before, here), (head_place, before_place, here_place) = (
        _parts(c, each, axis, step) for each in (values, places)
    )
    takes_here = getattr(b, operator)(here, before)
    if values.dtype.is_float:
        takes_here = b.Or(b.IsNaN(here), b.And(b.Not(b.IsNaN(before)), takes_here))
    chosen = b.Concat(head, b.Where(takes_here, here, before), axis=axis)
    return chosen, b.Concat(head_place, b.Where(takes_here, here_place, before_place), axis=axis)


aten("cummax")(_running("GreaterOrEqual"))
aten("cummin")(_running("LessOrEqual"))


@aten("logcumsumexp")
def logcumsumexp(c: AtenCall, x: Value, dim: int) -> Value:
    """The logarithm of the running sum of exp(x)."""
    if not x.rank:
        return x
    b, axis = c.b, c.axis(dim, x.rank)
    size, total = x.shape[axis], c.cast(x, opmath(x.dtype))
    if not isinstance(size, int):
        raise UnsupportedError("running sums of exponentials along an open size")
    step = 1
    while step < size:
        head, before, here = _parts(c, total, axis, step)
        both = b.Concat(b.Unsqueeze(before, [0]), b.Unsqueeze(here, [0]), axis=0)
        total = b.Concat(head, b.ReduceLogSumExp(both, [0], keepdims=0), axis=axis)
        step *= 2
    return c.cast(total)


def _runs(c: AtenCall, line: Value) -> tuple[Value, Value]:
    """Where elements of a vector differ from the one before, and those places."""
    b = c.b
    before = b.Concat(b.Slice(line, [0], [1], [0]), b.Slice(line, [0], [-1], [0]), axis=0)
    count = c.operand(line.shape[0], INT64)
    is_first = b.Equal(b.Range(c.number(0, INT64), count, c.number(1, INT64)), c.number(0, INT64))
    is_new = b.Or(is_first, b.Not(b.Equal(line, before)))
    return is_new, b.Squeeze(b.NonZero(c.cast(is_new, INT32)), [0])


def _numbers_and_counts(
    c: AtenCall, x: Value, line: Value, order: Value | None, has_inverse: bool, has_counts: bool
) -> tuple[Value | None, ...]:
    """The elements of a vector that differ from those before, each element's number among them, and their counts."""
    b = c.b
    is_new, places = _runs(c, line)
    inverse, counts = (c.full((0,), 0, INT64) if c.is_wanted(place) else None for place in (1, 2))
    if has_inverse and c.is_wanted(1):
        numbers = b.Sub(b.CumSum(c.cast(is_new, INT64), c.number(0, INT64)), c.number(1, INT64))
        back = numbers if order is None else b.ScatterElements(numbers, order, numbers, axis=0)
        inverse = c.reshape(back, x.shape)
    if has_counts and c.is_wanted(2):
        ends = b.Concat(places, c.vector([dims.product(x.shape)]), axis=0)
        counts = b.Sub(b.Slice(ends, [1], [2**62], [0]), places)
    return b.Gather(line, places, axis=0), inverse, counts


@aten("_unique2")
def unique(
    c: AtenCall, x: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value | None, ...]:
    """The different elements in order; every NaN is one of its own."""
    line, order = _sorted(c, c.b.Reshape(x, [-1]), 0)
    return _numbers_and_counts(c, x, line, order, return_inverse, return_counts)


@aten("unique_consecutive")
def unique_consecutive(
    c: AtenCall, x: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Value | None, ...]:
    """The elements that differ from those before them."""
    if dim is not None and x.rank != 1:
        raise UnsupportedError("slices that differ from those before them")
    return _numbers_and_counts(c, x, c.b.Reshape(x, [-1]), None, return_inverse, return_counts)
