"""Axes that come as data: those of reductions, Squeeze and Unsqueeze, where only their values are unknown.

The number of dimensions must be known, so a kernel can be compiled that serves every value of the axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intaglio.ir.dim import Dim, maximum, product, symbol
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.found_sizes import fresh_numbers, names_of, whole_numbers
from intaglio.kernels.plan import Fill, Operand
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, row_major
from intaglio.ops.shared.indices import known_length
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import Routine, numbered, reads, writes
from intaglio.targets.c.rules.table import anchor, late_sizes


def _emit_axes(context: Context, node: Node, name: str, result: str, count: int, values: Mapping[str, Setting]) -> View:
    """Emit a kernel that works out `count` numbers from the extents of the data and the axes; returns the numbers."""
    data, axes = node.input, node.needed(1)
    numbers, places = fresh_numbers(context, count, result), max(1, data.rank)
    parameters = [reads("axes", whole_numbers(context, axes)), writes(result, numbers)]
    sizes = [("count", product(axes.shape)), *numbered("given", data.shape or (1,))]
    instance = kernel(name, values, PLACES=places)
    context.emit(Routine(name, instance, parameters, sizes, 1, 10, checks=True).call(node))
    return numbers


@late_sizes("ReductionOrder")
def reduction_order_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them together with the strides."""


@anchor("ReductionOrder")
def reduction_order(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Two views whose extents and strides the driver works out from the axes, and the sizes of the result."""
    data, (rows, columns, shape) = node.input, node.outputs
    count, runs = shape.shape[0], rows.rank // 2
    assert isinstance(count, int)
    values = {
        "AXES": data.rank,
        "RUNS": runs,
        "NONE_MEANS_ALL": not node.op.noop_with_empty_axes,
        "KEEPS_AXES": bool(node.op.keepdims),
    }
    numbers = _emit_axes(context, node, "reduction_order", "found", 6 * runs + count, values)
    names = [*names_of(context, rows), *names_of(context, columns)]
    names += [f"{rows.name}:step{place}" for place in range(2 * runs)]
    names += [f"{shape.name}:size{place}" for place in range(count)]
    most = _most(data, [rows.shape, rows.shape[:runs], columns.shape, (*columns.shape[: runs - 1], columns.shape[-1])])
    context.bind(node, names, numbers, most=most)
    view, steps = context.contiguous(data), [symbol(f"{rows.name}:step{place}") for place in range(2 * runs)]
    kept, reduced = steps[:runs], steps[runs:]
    context.views[rows] = View(view.buffer, view.offset, rows.shape, (*kept, *reduced[:-1], 1))
    context.views[columns] = View(view.buffer, view.offset, columns.shape, (*kept[:-1], *reduced, 1))
    written = Operand(context.allocate(shape).buffer, 0, True)
    sizes = tuple(symbol(f"{shape.name}:size{place}") for place in range(count))
    context.emit(Fill(written, sizes, nodes=(node,), title=f"shape of the reduction of {data.name}"))


def _most(data: Value, shapes: Sequence[Sequence[Dim]]) -> dict[Dim, Dim]:
    """No size, and no product of some, exceeds that of all elements; a size of 1 may stand where there is none."""
    bound = product(maximum(extent, 1) for extent in data.shape)
    found = dict.fromkeys((dim for shape in shapes for dim in shape if not isinstance(dim, int)), bound)
    return found | {product(shape): bound for shape in shapes}


def _refuse_length(node: Node) -> Refusal | None:
    axes = node.needed(1)
    return (
        Refusal(Cause.SHAPE, f"how many axes {axes.name} has is not known before the run")
        if known_length(axes) is None
        else None
    )


@late_sizes("Squeeze", "Unsqueeze", refuse=_refuse_length)
def squeeze_sizes(context: Context, node: Node) -> None:
    """Nothing: the rules bind them, since they have to look at the axes even where all sizes are known."""


@anchor("Squeeze", "Unsqueeze", refuse=_refuse_length)
def squeeze(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The same memory in another shape: without or with a 1 at each of the axes."""
    data, output = node.input, node.output
    is_longer = node.op.name == "Unsqueeze"
    values = {"IS_LONGER": is_longer, "AXES": max(data.rank, output.rank)}
    numbers = _emit_axes(context, node, "squeeze_sizes", "shape", output.rank, values)
    context.bind(node, names_of(context, output), numbers, most=_most(data, [output.shape]))
    view = context.contiguous(data)
    context.views[output] = View(view.buffer, view.offset, output.shape, row_major(output.shape))
