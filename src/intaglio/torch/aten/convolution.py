"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.errors import UnsupportedError
from intaglio.ir.graph import Value
from intaglio.ops.convolution import Conv, ConvTranspose
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.normalization import per_channel
from intaglio.torch.aten.table import aten
from intaglio.torch.aten.windows import convolve, known_sizes, spread


def _operator(
    w: Value, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int
) -> Conv | ConvTranspose:
    """The operator for PyTorch's arguments; lists of one number hold for all axes."""
    rank = w.rank - 2
    strides, pads, dilations, extra = (_full(each, rank) for each in (stride, padding, dilation, output_padding))
    named: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": groups, "pads": pads * 2}
    return ConvTranspose(**named, output_padding=extra) if transposed else Conv(**named)


def _full(numbers: Sequence[Any], rank: int) -> tuple[int, ...]:
    if not all(isinstance(number, int) for number in numbers):
        raise UnsupportedError("strides, pads or dilations that are open")
    return tuple(numbers) if len(numbers) == rank else (numbers[0],) * rank


@aten("convolution")
def convolution(
    c: AtenCall,
    x: Value,
    w: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Value:
    """A convolution, or a transposed one."""
    if x.dtype.is_integer and x.rank == w.rank:
        return _of_integers(c, x, w, bias, stride, padding, dilation, transposed, groups)
    _check(x, w)
    op = _operator(w, stride, padding, dilation, transposed, output_padding, groups)
    return c.b.add(op, [x, w] if bias is None else [x, w, c.cast(bias, x.dtype)])[0]


def _of_integers(
    c: AtenCall,
    x: Value,
    w: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    groups: int,
) -> Value:
    """The convolution of integers; a transposed one is that of the tensor with zeros between its elements."""
    rank = w.rank - 2
    strides, pads, dilations = (_full(each, rank) for each in (stride, padding, dilation))
    if transposed:
        kernel = known_sizes(w.shape[2:])
        pads = tuple(d * (k - 1) - p for d, k, p in zip(dilations, kernel, pads, strict=True))
        x, w, strides = spread(c, x, strides), _turned(c, w, groups), (1,) * rank
    found = convolve(c, x, w, strides, pads, dilations, groups, known_sizes(c.shape()[2:]))
    return found if bias is None else c.b.Add(found, per_channel(c, bias, x.rank))


def _turned(c: AtenCall, w: Value, groups: int) -> Value:
    """The weights of a transposed convolution as those of a plain one: channels exchanged, windows backwards."""
    channels, features, *kernel = known_sizes(w.shape)
    count, axes = len(kernel), list(range(2, w.rank))
    backwards = c.b.Slice(w, [-1] * count, [-(2**62)] * count, axes, [-1] * count)
    grouped = c.reshape(backwards, [groups, channels // groups, features, *kernel])
    exchanged = c.b.Transpose(grouped, perm=(0, 2, 1, *range(3, grouped.rank)))
    return c.reshape(exchanged, [groups * features, channels // groups, *kernel])


@aten("convolution_backward")
def convolution_backward(
    c: AtenCall,
    bar: Value,
    x: Value,
    w: Value,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """The gradients of a convolution by its input, weights and bias."""
    _check(x, w)
    op = _operator(w, stride, padding, dilation, transposed, output_padding, groups)
    found: list[Value | None] = [None, None]
    if any(output_mask[:2]):
        found = c.pullback(op, [x, w], [], bar)
    axes = [axis for axis in range(bar.rank) if axis != 1]
    found.append(c.b.ReduceSum(bar, axes, keepdims=0) if output_mask[2] else None)
    kept = [value if is_wanted else None for value, is_wanted in zip(found, output_mask, strict=True)]
    targets = (x.shape, w.shape, None)
    return tuple(
        None if value is None else _shaped(c, value, shape) for value, shape in zip(kept, targets, strict=True)
    )


def _shaped(c: AtenCall, value: Value, shape: Any) -> Value:
    return value if shape is None or value.tensor.shape == shape else c.reshape(value, shape)


def _check(x: Value, w: Value) -> None:
    if not x.dtype.is_float:
        raise UnsupportedError(f"convolutions of {x.dtype}")
    if x.rank != w.rank:
        raise UnsupportedError("a convolution without a batch")
