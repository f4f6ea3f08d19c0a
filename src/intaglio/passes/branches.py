"""Convolutions of one value whose results are added up, as networks have them that were trained in branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array
from intaglio.ops.convolution import Conv
from intaglio.ops.shared.window import Window
from intaglio.passes.batchnorm import affine_of
from intaglio.passes.driver import Result, rule
from intaglio.passes.match import pair, produced, rank_of, same_type


class Branch(NamedTuple):
    """A convolution with known kernels and a bias for each output channel, both in float64."""

    op: Conv
    x: Value
    windows: tuple[Window, ...]
    kernels: Array
    bias: Array


@rule("Add", "Sub", changes_rounding=True, fuses=True)
def parallel_convolutions(b: Builder, node: Node) -> Result:
    """conv(x, v, c) + conv(x, w, d) -> conv(x, v + w, c + d), where one window lies within the other"""
    left, right = pair(node)
    sign = 1.0 if node.op.name == "Add" else -1.0
    first, second = _branch(left), _branch(right)
    if first is not None and second is not None:
        return _sum(b, node, first, second, 1.0, sign)
    if first is not None and (other := _identity(right, first)) is not None:
        return _sum(b, node, first, other, 1.0, sign)
    if second is not None and (other := _identity(left, second)) is not None:
        return _sum(b, node, second, other, sign, 1.0)
    return None


def _branch(value: Value) -> Branch | None:
    node = produced(value, "Conv")
    if node is None or not isinstance(node.op, Conv) or not _is_known(node) or rank_of(value) is None:
        return None
    kernels, bias = (None if each is None else each.constant for each in (node.optional(1), node.optional(2)))
    if kernels is None or rank_of(node.input) is None:
        return None
    windows = node.op.windows(node.input.shape[2:], kernels.shape[2:])
    zeros = np.zeros(kernels.shape[0]) if bias is None else bias.astype(np.float64)
    return Branch(node.op, node.input, windows, kernels.astype(np.float64), zeros)


def _is_known(node: Node) -> bool:
    """Whether all that is added and multiplied is constant."""
    return all(value is None or value.constant is not None for value in node.inputs[1:])


def _identity(value: Value, other: Branch) -> Branch | None:
    """A normalisation of the other branch's input, or for depthwise layers that input, as a convolution of one tap."""
    group, channels = other.op.group, other.kernels.shape[0]
    inputs = other.kernels.shape[1]
    if inputs * group != channels or any(window.stride != 1 for window in other.windows):
        return None
    scale, shift = np.ones(channels), np.zeros(channels)
    if value is not other.x:
        node = produced(value, "BatchNormalization")
        if node is None or node.input is not other.x or node.op.training_mode or len(node.outputs) > 1:
            return None
        found = affine_of(node)
        if found is None:
            return None
        scale, shift = found
    elif group != channels:
        return None
    rank = len(other.windows)
    kernels = np.zeros((channels, inputs, *(1,) * rank))
    kernels[(np.arange(channels), np.arange(channels) % inputs, *(0,) * rank)] = scale
    windows = tuple(Window(w.input, 1, 1, 1, 0, 0, w.input) for w in other.windows)
    return Branch(Conv(group=group), other.x, windows, kernels, shift)


def _sum(b: Builder, node: Node, left: Branch, right: Branch, plus: float, minus: float) -> Result:
    """left * plus + right * minus as one convolution by the larger window."""
    if left.x is not right.x or left.op.group != right.op.group or left.kernels.shape[:2] != right.kernels.shape[:2]:
        return None
    if left.kernels.size < right.kernels.size:
        left, right, plus, minus = right, left, minus, plus
    places = _places(left.windows, right.windows)
    if places is None or not all(same_type(value, node.output) for value in pair(node)):
        return None
    kernels, bias = left.kernels * plus, left.bias * plus + right.bias * minus
    kernels[(slice(None), slice(None), *places)] += right.kernels * minus
    dtype = node.output.dtype
    with np.errstate(over="ignore"):
        constants = kernels.astype(dtype.numpy), bias.astype(dtype.numpy)
    if not all(np.isfinite(each.astype(np.float64)).all() for each in constants):
        return None
    names = zip(constants, ("weight", "bias"), strict=True)
    return b.add(left.op, [left.x, *(b.constant(each, name=name) for each, name in names)])[0]


def _places(outer: Sequence[Window], inner: Sequence[Window]) -> tuple[slice, ...] | None:
    """Which taps of the outer windows are those of the inner ones; None where some are not."""
    found = [_place(*windows) for windows in zip(outer, inner, strict=True)]
    places = tuple(place for place in found if place is not None)
    return places if len(places) == len(found) else None


def _place(outer: Window, inner: Window) -> slice | None:
    begins = outer.begin, inner.begin
    if not isinstance(outer.kernel, int) or not isinstance(inner.kernel, int) or outer.stride != inner.stride:
        return None
    if not isinstance(begins[0], int) or not isinstance(begins[1], int):
        return None
    if inner.kernel > 1 and inner.dilation != outer.dilation:
        return None
    first, rest = divmod(begins[0] - begins[1], outer.dilation)
    if rest or first < 0 or first + inner.kernel > outer.kernel:
        return None
    return slice(first, first + inner.kernel)
