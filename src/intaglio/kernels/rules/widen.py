"""Element types: views converted in memory, for kernels that know fewer types than the operators they serve."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.dim import product
from intaglio.ir.dtype import FLOAT32, DType
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.loops import Program, loop_call
from intaglio.kernels.view import View, whole
from intaglio.ops.operand import cast

HALVES = frozenset({"float16", "bfloat16"})
"""The element types that are computed in float32 and rounded once."""


def computed(dtype: DType) -> DType:
    """The element type that a product of such elements is computed in."""
    return FLOAT32 if dtype.name in HALVES else dtype


def widened(context: Context, value: Value, view: View | None = None) -> View:
    """The value, or the given view of it, in the type that it is computed in; a copy where that is another one."""
    found = context.view(value) if view is None else view
    if computed(value.dtype) == value.dtype:
        return found
    return converted(context, found, value.dtype, computed(value.dtype))


def converted(context: Context, view: View, dtype: DType, to: DType, into: View | None = None) -> View:
    """The elements of a view cast to another type, in fresh memory or in `into`."""
    graph = Graph("conversion")
    source = graph.add_input("x", TensorType(dtype, view.shape))
    result = cast(Builder(graph), source, to)
    target = into or whole(context.temporary(to, product(view.shape)), view.shape)
    nodes = list(graph.nodes)
    context.emit(loop_call(Program(nodes, view.shape, (), {source: view}, {result: target}, f"{dtype} as {to}")))
    return target
