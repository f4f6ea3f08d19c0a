"""Sizes that data decides, for rules: numbers in memory as int64, and the sizes of an output that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, product, symbol
from intaglio.ir.dtype import FLOAT64, INT64
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.view import View, whole
from intaglio.ops.shared.operand import cast

FAR = 10**18
"""More than any size."""


def whole_numbers(context: Context, value: Value) -> View:
    """The numbers of a value as int64, side by side; a fraction is cut off, a float that is no size becomes -1."""
    if value.dtype == INT64:
        return context.contiguous(value)
    view = context.view(value)
    count = product(view.shape)
    result = whole(context.temporary(INT64, count, f"numbers of {value.name}"), (count,))
    into = View(result.buffer, 0, view.shape, whole(result.buffer, view.shape).strides)
    make = _as_size if value.dtype.kind not in ("int", "uint", "bool") else lambda b, x: cast(b, x, INT64)
    _emit_fused(context, TensorType(value.dtype, view.shape), view, into, make, f"{value.name} as int64")
    return result


def _as_size(b: Builder, x: Value) -> Value:
    number = cast(b, x, FLOAT64)
    is_size = b.And(b.GreaterOrEqual(number, 0.0), b.Less(number, float(FAR)))
    return cast(b, b.Where(is_size, number, b.constant(-1.0, FLOAT64)), INT64)


def total(context: Context, counts: View) -> View:
    """The sum of int64 numbers in memory, in memory."""
    if counts.shape == (1,):
        return counts
    result = whole(context.temporary(INT64, 1, "total"), (1,))
    type, row = TensorType(INT64, counts.shape), View(result.buffer, 0, (1,), (0,))
    _emit_fused(context, type, counts, row, lambda b, x: b.ReduceSum(x, keepdims=1), "sum of counts", (0,))
    return result


def _emit_fused(
    context: Context,
    type: TensorType,
    view: View,
    into: View,
    make: Callable[[Builder, Value], Value],
    title: str,
    reduced: tuple[int, ...] = (),
) -> None:
    """Emit a kernel of the neutral language that computes `into` from a view of elements of a type."""
    graph = Graph("numbers")
    source = graph.add_input("x", type)
    result = make(Builder(graph), source)
    nodes, loads = list(graph.nodes), {source: view}
    for value in (value for node in nodes for value in node.inputs if value is not None and value.constant is not None):
        loads[value] = context.constant_view(value).broadcast(view.shape)
    context.emit(context.rules.loop_call(FusedNodes(nodes, view.shape, reduced, loads, {result: into}, title)))


def bind_named(
    context: Context, node: Node, names: Sequence[str], numbers: View, least: int = 0, limit: Dim | None = None
) -> list[Dim]:
    """Symbols for numbers in memory, which are called after the node's first output."""
    full = [f"{node.outputs[0].name}:{name}" for name in names]
    context.bind(node, full, numbers, least=least, limit=limit)
    return [symbol(name) for name in full]


def bind_axes(context: Context, node: Node, axes: Sequence[int], numbers: View, limit: Dim | None = None) -> None:
    """Bind the output's sizes along some axes to numbers in memory; sizes that are known already must be the same."""
    output, unbound = node.output, dict(context.unbound(node.output))
    names = [unbound.get(axis, f"{output.name}:wanted{axis}") for axis in axes]
    context.bind(node, names, numbers, least=0, limit=limit)
    for axis, name in zip(axes, names, strict=True):
        if axis not in unbound:
            context.need(node, (symbol(name), output.shape[axis]))


def bind_sizes(context: Context, node: Node, sizes: Mapping[int, Dim]) -> None:
    """Bind the output's sizes along some axes to dimensions; sizes that are known already must be the same."""
    unbound = dict(context.unbound(node.output))
    context.assign([(unbound[axis], size) for axis, size in sizes.items() if axis in unbound], node)
    for axis, size in sizes.items():
        if axis not in unbound:
            context.need(node, (node.output.shape[axis], size))


def names_of(context: Context, value: Value) -> list[str | None]:
    """The symbol along each axis of a value that has no size yet, None along the others: what `Context.bind` takes."""
    unbound = dict(context.unbound(value))
    return [unbound.get(axis) for axis in range(value.rank)]


def fresh_numbers(context: Context, count: Dim, name: str) -> View:
    """Fresh memory for int64 numbers."""
    return whole(context.temporary(INT64, count, name), (count,))


def bind_count(
    context: Context,
    node: Node,
    number: View,
    least: int | None = None,
    limit: Dim | None = None,
    most: Dim | None = None,
) -> None:
    """Bind the one size that no output of a node has yet to a number in memory."""
    names = list(dict.fromkeys(name for value in node.outputs for _, name in context.unbound(value)))
    bounds: dict[Dim, Dim] = {} if most is None else {symbol(name): most for name in names}
    context.bind(node, names[:1] or [None], number, least=least, limit=limit, most=bounds)
