"""Element types: views converted in memory, for kernels that know fewer types than the operators they serve."""

from __future__ import annotations

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dim import ceildiv, floordiv, product
from intaglio.ir.dtype import FLOAT32, DType
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.view import View, whole
from intaglio.ops.shared.operand import cast
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.printing.register import MEMORY
from intaglio.targets.c.routine import memory_type

HALVES = frozenset({"float16", "bfloat16"})
"""The element types that are computed in float32 and rounded once."""


def computed(dtype: DType) -> DType:
    """The element type that a product of such elements is computed in."""
    return FLOAT32 if dtype.name in HALVES else dtype


def number_values(dtype: DType) -> dict[str, Setting]:
    """What kernels know of elements that they read and write as numbers, one by one."""
    number = computed(dtype)
    return {
        "ELEMENT": memory_type(dtype),
        "NUMBER": memory_type(number),
        "IS_HALF": number != dtype,
        "SUFFIX": MEMORY[dtype.name][1],
    }


def widened(context: Context, value: Value, view: View | None = None) -> View:
    """The value, or the given view of it, in the type that it is computed in; a copy where that is another one."""
    found = context.view(value) if view is None else view
    if computed(value.dtype) == value.dtype:
        return found
    return converted(context, found, value.dtype, computed(value.dtype))


def side_by_side(context: Context, value: Value) -> View:
    """The value in the type that it is computed in, in row-major order."""
    view = widened(context, value)
    return view if view.is_contiguous else converted(context, view, view.buffer.dtype, view.buffer.dtype)


def wide_result(context: Context, value: Value) -> View:
    """Memory for a value in the type that it is computed in: its own where that is its type."""
    dtype = computed(value.dtype)
    if dtype == value.dtype:
        return context.allocate(value)
    return whole(context.temporary(dtype, value.tensor.size, value.name), value.shape)


def give_narrow(context: Context, value: Value, result: View) -> None:
    """Convert what was written into `wide_result` to the value's own type."""
    if result.buffer.dtype != value.dtype:
        converted(context, result, result.buffer.dtype, value.dtype, into=context.allocate(value))


def converted(context: Context, view: View, dtype: DType, to: DType, into: View | None = None) -> View:
    """The elements of a view cast to another type, in fresh memory or in `into`."""
    graph = Graph("conversion")
    source = graph.add_input("x", TensorType(dtype, view.shape))
    result = cast(Builder(graph), source, to)
    target = into or whole(context.temporary(to, product(view.shape)), view.shape)
    nodes = list(graph.nodes)
    fused = FusedNodes(nodes, view.shape, (), {source: view}, {result: target}, f"{dtype} as {to}")
    context.emit(context.rules.loop_call(fused))
    return target


def packed_blocks(context: Context, view: View, axis: int, width: int, into: View) -> None:
    """Copy a view whose `axis` is split into blocks of `width`: `into` has two axes there.

    Zeros fill the last block.
    """
    extent, step, dtype = view.shape[axis], view.strides[axis], view.buffer.dtype
    full = floordiv(extent, width)
    left, last_blocks = extent - full * width, ceildiv(extent, width) - full
    strides = (*view.strides[:axis], step * width, *view.strides[axis:])
    before, behind = view.shape[:axis], view.shape[axis + 1 :]
    if full != 0:
        blocks = View(view.buffer, view.offset, (*before, full, width, *behind), strides)
        converted(context, blocks, dtype, dtype, into=into.window(axis, 0, 1, full))
    if left != 0:
        last = into.window(axis, full, 1, last_blocks)
        zero = whole(context.constant(np.zeros(1, dtype.numpy)), (1,) * len(last.shape)).broadcast(last.shape)
        converted(context, zero, dtype, dtype, into=last)
        tail = View(view.buffer, view.offset + step * (full * width), (*before, last_blocks, left, *behind), strides)
        converted(context, tail, dtype, dtype, into=last.window(axis + 1, 0, 1, left))
