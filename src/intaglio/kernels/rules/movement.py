"""Operators that only move data, as copies between views."""

from __future__ import annotations

import numpy as np

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, anchor
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.view import View, row_major, whole
from intaglio.ops.indices import known_integers, resolve_axis


def _data(node: Node) -> Value:
    value = node.inputs[0]
    assert value is not None
    return value


def _first_input(node: Node) -> list[Value]:
    return [_data(node)]


@anchor("Concat")
def concat(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy each input to its place in the output."""
    result = context.allocate(node.output)
    axis = resolve_axis(node.op.axis, node.output.rank)
    start: Dim = 0
    for value in node.inputs:
        assert value is not None
        extent = value.shape[axis]
        context.copy(value, context.view(value), into=result.window(axis, start, 1, extent))
        start = extent + start


@anchor("ConstantOfShape", reads=lambda node: [])
def constant_of_shape(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Repeat one constant."""
    fill = node.op.value
    number = np.zeros(1, np.float32) if fill is None else fill.array.reshape(1)
    _fill(context, node.output, number, context.allocate(node.output))


def _fill(context: Context, value: Value, number: np.ndarray, into: View) -> None:  # pyright: ignore
    source = whole(context.constant(np.ascontiguousarray(number.reshape(1))), (1,) * len(into.shape))
    context.copy(value, source.broadcast(into.shape), into=into)


@anchor("Tile", reads=_first_input)
def tile(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy from a view in which each axis is repeated by an axis of stride 0 in front of it."""
    source, result = context.view(_data(node)), context.allocate(node.output)
    shape: list[Dim] = []
    strides: list[Dim] = []
    for extent, total, stride in zip(source.shape, result.shape, source.strides, strict=True):
        repeats = 1 if extent == 0 else total // extent
        shape += [repeats, extent]
        strides += [0, stride]
    repeated = View(source.buffer, source.offset, tuple(shape), tuple(strides))
    context.copy(_data(node), repeated, into=View(result.buffer, result.offset, tuple(shape), row_major(tuple(shape))))


def _refuse_pad(node: Node) -> str | None:
    if node.op.mode != "constant":
        return f"Pad with mode {node.op.mode} is not compiled yet"
    pads = _pads(node)
    if pads is None:
        return "its pads are not known before the run"
    return "negative pads are not compiled yet" if any(p < 0 for pair in pads for p in pair) else None


def _pads(node: Node) -> list[tuple[int, int]] | None:
    """Begin and end pad of each axis."""
    inputs = list(node.inputs) + [None] * (4 - len(node.inputs))
    pads, rank = known_integers(inputs[1]), _data(node).rank
    axes = known_integers(inputs[3]) if inputs[3] is not None else list(range(rank))
    if pads is None or axes is None:
        return None
    result = [(0, 0)] * rank
    for position, axis in enumerate(axes):
        result[resolve_axis(axis, rank)] = (pads[position], pads[len(axes) + position])
    return result


def _pad_reads(node: Node) -> list[Value]:
    return [_data(node)] + [v for v in node.inputs[2:3] if v is not None and v.constant is None]


@anchor("Pad", refuse=_refuse_pad, reads=_pad_reads)
def pad(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Fill the frame with the constant, slab by slab, and copy the input into the middle."""
    data, result = _data(node), context.allocate(node.output)
    middle = result
    fill = node.inputs[2] if len(node.inputs) > 2 else None
    for axis, (begin, end) in enumerate(_pads(node) or ()):
        extent = data.shape[axis]
        for start, width in ((0, begin), (extent + begin, end)):
            if width:
                _fill_view(context, node.output, fill, middle.window(axis, start, 1, width))
        middle = middle.window(axis, begin, 1, extent)
    context.copy(data, context.view(data), into=middle)


def _fill_view(context: Context, value: Value, fill: Value | None, into: View) -> None:
    if fill is None or fill.constant is not None:
        number = np.zeros(1, value.dtype.numpy) if fill is None or fill.constant is None else fill.constant
        _fill(context, value, number, into)
    else:
        source = context.view(fill).reshape((1,) * len(into.shape))
        assert source is not None
        context.copy(fill, source.broadcast(into.shape), into=into)
