"""Operators that only move data, as copies between views."""

from __future__ import annotations

import numpy as np

from intaglio.ir.dim import Dim, floordiv, maximum
from intaglio.ir.dtype import DTYPES
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.plan import Call, Operand, Size
from intaglio.kernels.view import View, row_major, whole
from intaglio.ops.shared.indices import known_integers, resolve_axis
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import numbered, three_parts
from intaglio.targets.c.rules.table import anchor


def _first_input(node: Node) -> list[Value]:
    return [node.input]


MANY = 32
"""A Concat of more inputs than this is one call."""


@anchor("Concat")
def concat(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy each input to its place in the output."""
    axis = resolve_axis(node.op.axis, node.output.rank)
    if len(node.inputs) > MANY:
        _concat_many(context, node, axis)
        return
    result = context.allocate(node.output)
    start: Dim = 0
    for value in node.inputs:
        assert value is not None
        extent = value.shape[axis]
        context.copy(value, context.view(value), into=result.window(axis, start, 1, extent))
        start = extent + start


def _concat_many(context: Context, node: Node, axis: int) -> None:
    """One kernel for all inputs: a call for each would be more code than a compiler should be given."""
    inputs = [value for value in node.inputs if value is not None]
    views = [context.contiguous(value) for value in inputs]
    result = context.allocate(node.output)
    rows, along, inner = three_parts(result.shape, axis)
    extents = [value.shape[axis] for value in inputs]
    bytes_behind = inner * node.output.dtype.itemsize
    sizes: list[tuple[str, Size]] = [("count", len(inputs)), ("rows", rows), ("inner", bytes_behind)]
    sizes.append(("along", along))
    operands = [Operand(result.buffer, result.offset, True), *(Operand(view.buffer, view.offset) for view in views)]
    has_table = all(isinstance(extent, int) for extent in extents)
    if has_table:
        operands.append(Operand(context.constant(np.array(extents, np.int64)), 0))
    else:
        sizes += numbered("extent", extents)
    cost = 1 + rows * (8 + floordiv(bytes_behind * along, 16 * len(inputs) + 1))
    title = f"Concat -> {node.output.name}: {node.output.type}"
    context.emit(
        Call(
            Kernel("concat_many", kernel("concat_many", HAS_TABLE=has_table).kernel),
            operands,
            sizes,
            len(inputs),
            cost,
            nodes=(node,),
            title=title,
            flops=node.output.tensor.size,
        )
    )


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
    sizes = zip(source.shape, result.shape, strict=True)
    counts = known_integers(node.needed(1)) or [total // maximum(extent, 1) for extent, total in sizes]
    for extent, repeats, stride in zip(source.shape, counts, source.strides, strict=True):
        shape += [repeats, extent]
        strides += [0, stride]
    repeated = View(source.buffer, source.offset, tuple(shape), tuple(strides))
    context.copy(node.input, repeated, into=View(result.buffer, result.offset, tuple(shape), row_major(tuple(shape))))
