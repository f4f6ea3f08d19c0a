"""Pools and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir import dim as dims
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Value
from intaglio.ops.pooling import AveragePool, MaxPool
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.reduction import arg_extreme
from intaglio.torch.aten.table import Rule, aten
from intaglio.torch.aten.windows import (
    adaptive_means,
    adaptive_places,
    gathered_plane,
    known_sizes,
    places_at,
    window_counts,
    window_sums,
)


def _full(numbers: Any, rank: int) -> tuple[int, ...]:
    listed = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
    if not all(isinstance(number, int) for number in listed):
        raise UnsupportedError("windows of an open size")
    return tuple(listed) if len(listed) == rank else (listed[0],) * rank


def _attributes(rank: int, kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    kernel = _full(kernel, rank)
    strides = _full(stride, rank) if not isinstance(stride, (list, tuple)) or stride else kernel
    return {
        "kernel_shape": kernel,
        "strides": strides,
        "pads": _full(padding, rank) * 2,
        "ceil_mode": int(ceil_mode),
    }


def _batched(c: AtenCall, x: Value, rank: int) -> Value:
    """The tensor with an axis for the batch, and in a type that pools compute in."""
    wide = c.cast(x, FLOAT32) if x.dtype.is_float and x.dtype.bits < 32 else x
    return wide if x.rank == rank + 2 else c.b.Unsqueeze(wide, [0])


def _max_pool(rank: int) -> Rule:
    def rule(
        c: AtenCall,
        x: Value,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> tuple[Value | None, ...]:
        """The maximum of each window, and its place in the plane."""
        value = _batched(c, x, rank)
        op = MaxPool(**_attributes(rank, kernel, stride, padding, ceil_mode), dilations=_full(dilation, rank))
        _check_sizes(c, op.windows(value.shape[2:]), rank)
        if not c.is_wanted(1):
            return c.reshape(c.cast(c.b.add(op, [value])[0]), c.shape()), None
        found, places = c.b.add(op, [value], 2)
        plane = dims.product(value.shape[2:])
        inside = c.b.Mod(places, c.operand(plane, INT64))
        return c.reshape(c.cast(found), c.shape()), c.reshape(inside, c.shape(1))

    return rule


def _check_sizes(c: AtenCall, windows: Sequence[Any], rank: int) -> None:
    """With `ceil_mode` the two can differ in the last window."""
    for window, size in zip(windows, c.shape()[-rank:], strict=True):
        if isinstance(size, int) and isinstance(window.output, int) and size != window.output:
            raise UnsupportedError(f"PyTorch has {size} windows and ONNX {window.output}")


aten("max_pool2d_with_indices")(_max_pool(2))
aten("max_pool3d_with_indices")(_max_pool(3))


def _max_pool_backward(rank: int) -> Rule:
    def rule(c: AtenCall, bar: Value, x: Value, *arguments: Any) -> Value:
        """Each gradient at the place of its window's maximum."""
        places = arguments[-1]
        lead = [*x.shape[: x.rank - rank]]
        plane = dims.product(x.shape[x.rank - rank :])
        count = dims.product(bar.shape[x.rank - rank :])
        flat = [c.reshape(value, [*lead, count]) for value in (c.cast(places, INT64), bar)]
        zeros = c.full([*lead, plane], 0, bar.dtype)
        written = c.b.ScatterElements(zeros, *flat, axis=len(lead), reduction="add")
        return c.reshape(written, x.shape)

    return rule


aten("max_pool2d_with_indices_backward")(_max_pool_backward(2))
aten("max_pool3d_with_indices_backward")(_max_pool_backward(3))


def _average(rank: int, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool) -> AveragePool:
    return AveragePool(**_attributes(rank, kernel, stride, padding, ceil_mode), count_include_pad=int(include))


def _avg_pool(rank: int) -> Rule:
    def rule(
        c: AtenCall,
        x: Value,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        """The mean of each window, or its sum over a given divisor."""
        value = _batched(c, x, rank)
        if divisor_override is not None or not x.dtype.is_float:
            given = _attributes(rank, kernel, stride, padding, ceil_mode)
            return c.reshape(c.cast(_by_sums(c, value, given, count_include_pad, divisor_override)), c.shape())
        op = _average(rank, kernel, stride, padding, ceil_mode, count_include_pad)
        _check_sizes(c, op.windows(value.shape[2:]), rank)
        return c.reshape(c.cast(c.b.add(op, [value])[0]), c.shape())

    return rule


def _by_sums(c: AtenCall, x: Value, given: dict[str, Any], counts_padding: bool, divisor: int | None) -> Value:
    """The sums of windows, divided; integers are rounded towards zero."""
    kernel, strides = given["kernel_shape"], given["strides"]
    rank = len(kernel)
    pads, sizes, outputs = given["pads"][:rank], known_sizes(x.shape[2:]), known_sizes(c.shape()[-rank:])
    total = window_sums(c, x, kernel, strides, pads, outputs)
    counts = window_counts(sizes, kernel, strides, pads, outputs, counts_padding)
    return c.b.Div(total, c.b.constant(counts if divisor is None else divisor, x.dtype))


for _rank in (1, 2, 3):
    aten(f"avg_pool{_rank}d")(_avg_pool(_rank))


@aten("avg_pool2d_backward")
def avg_pool2d_backward(
    c: AtenCall,
    bar: Value,
    x: Value,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    """The gradient of means of windows."""
    if divisor_override is not None:
        raise UnsupportedError("pools with a divisor of their own")
    value, weights = _batched(c, x, 2), _batched(c, bar, 2)
    op = _average(2, kernel, stride, padding, ceil_mode, count_include_pad)
    return c.cast(c.reshape(_first(c.pullback(op, [value], [], weights)), x.shape))


def _first(bars: Sequence[Value | None]) -> Value:
    assert bars[0] is not None
    return bars[0]


def _differ(x: Value, sizes: Sequence[Any]) -> bool:
    """Whether windows of a pool to given sizes, all known, differ in size."""
    pairs = list(zip(x.shape[-len(sizes) :], sizes, strict=True))
    is_known = all(isinstance(s, int) and isinstance(n, int) and s and n for s, n in pairs)
    return is_known and any(s % n for s, n in pairs)


def _adaptive(c: AtenCall, x: Value, sizes: Sequence[Any]) -> tuple[int, ...] | None:
    """The windows of a pool to given sizes; None where they all are the whole, raises where they differ."""
    spatial = x.shape[-len(sizes) :]
    if all(isinstance(size, int) and size == 1 for size in sizes):
        return None
    if not all(
        isinstance(s, int) and isinstance(n, int) and n and s % n == 0 for s, n in zip(spatial, sizes, strict=True)
    ):
        raise UnsupportedError(f"an adaptive pool of {list(spatial)} to {list(sizes)}, whose windows differ")
    return tuple(int(s) // int(n) for s, n in zip(spatial, sizes, strict=True))


def _adaptive_avg_pool(rank: int) -> Rule:
    def rule(c: AtenCall, x: Value, output_size: Any) -> Value:
        """The mean of as many windows as are asked for."""
        if _differ(x, output_size):
            wide = c.cast(x, FLOAT32) if x.dtype.bits < 32 else x
            return c.cast(adaptive_means(c, wide, output_size))
        kernel = _adaptive(c, x, output_size)
        if kernel is None:
            wide = c.cast(x, FLOAT32) if x.dtype.bits < 32 else x
            return c.cast(c.b.ReduceMean(wide, list(range(x.rank - rank, x.rank)), keepdims=1))
        found = c.b.add(AveragePool(kernel_shape=kernel, strides=kernel), [_batched(c, x, rank)])[0]
        return c.reshape(c.cast(found), c.shape())

    return rule


aten("adaptive_avg_pool1d")(_adaptive_avg_pool(1))
aten("_adaptive_avg_pool2d")(_adaptive_avg_pool(2))
aten("_adaptive_avg_pool3d")(_adaptive_avg_pool(3))


def _adaptive_max_pool(rank: int) -> Rule:
    def rule(c: AtenCall, x: Value, output_size: Sequence[Any]) -> tuple[Value | None, ...]:
        """The maximum of as many windows as are asked for, and its place in the plane."""
        spatial, sizes = known_sizes(x.shape[-rank:]), known_sizes(output_size)
        if 0 in (*spatial, *sizes):
            raise UnsupportedError("an adaptive pool of nothing")
        places = adaptive_places(spatial, sizes)
        wide = c.cast(x, FLOAT32) if x.dtype.is_float and x.dtype.bits < 32 else x
        found = gathered_plane(c, wide, places, rank)
        greatest = c.b.ReduceMax(found, [found.rank - 1], keepdims=0)
        best = places_at(c, places, arg_extreme(c, "ArgMax", found, found.rank - 1)) if c.is_wanted(1) else None
        return c.reshape(c.cast(greatest), c.shape()), None if best is None else c.reshape(best, c.shape(1))

    return rule


aten("adaptive_max_pool2d")(_adaptive_max_pool(2))
aten("adaptive_max_pool3d")(_adaptive_max_pool(3))


@aten("_adaptive_avg_pool2d_backward")
def adaptive_backward(c: AtenCall, bar: Value, x: Value) -> Value:
    """The gradient of means of as many windows as were asked for."""
    kernel = _adaptive(c, x, bar.shape[-2:])
    if kernel is None:
        count = c.operand(dims.product(x.shape[-2:]), bar.dtype)
        return c.expand(c.b.Div(bar, count), x.shape)
    op = AveragePool(kernel_shape=kernel, strides=kernel)
    value, weights = _batched(c, x, 2), _batched(c, bar, 2)
    return c.cast(c.reshape(_first(c.pullback(op, [value], [], weights)), x.shape))
