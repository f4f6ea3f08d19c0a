"""Operators that only move data, as copies between views."""

from __future__ import annotations

import numpy as np

from intaglio.ir.dim import Dim
from intaglio.ir.dtype import DTYPES
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array
from intaglio.kernels.context import Context, anchor
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.view import View, row_major, whole
from intaglio.ops.indices import resolve_axis


def _first_input(node: Node) -> list[Value]:
    return [node.input]


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


@anchor("BitCast")
def bit_cast(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy the bits: the memory of a value is only ever read as its own type."""
    data = node.input
    dtype = data.dtype if data.dtype.itemsize > 8 else DTYPES[f"uint{8 * data.dtype.itemsize}"]
    bits = Value(data.name, data.tensor.with_dtype(dtype))
    context.copy(bits, context.view(data), into=context.allocate(node.output))


@anchor("ConstantOfShape", reads=lambda node: [])
def constant_of_shape(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Repeat one constant."""
    fill = node.op.value
    number = np.zeros(1, np.float32) if fill is None else fill.array.reshape(1)
    fill_constant(context, node.output, number, context.allocate(node.output))


def fill_constant(context: Context, value: Value, number: Array, into: View) -> None:
    """Write one number all over a view."""
    source = whole(context.constant(np.ascontiguousarray(number.reshape(1))), (1,) * len(into.shape))
    context.copy(value, source.broadcast(into.shape), into=into)


@anchor("Tile", reads=_first_input)
def tile(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy from a view in which each axis is repeated by an axis of stride 0 in front of it."""
    source, result = context.view(node.input), context.allocate(node.output)
    shape: list[Dim] = []
    strides: list[Dim] = []
    for extent, total, stride in zip(source.shape, result.shape, source.strides, strict=True):
        repeats = 1 if extent == 0 else total // extent
        shape += [repeats, extent]
        strides += [0, stride]
    repeated = View(source.buffer, source.offset, tuple(shape), tuple(strides))
    context.copy(node.input, repeated, into=View(result.buffer, result.offset, tuple(shape), row_major(tuple(shape))))
