"""Operators that read elements at indices which are data."""

from __future__ import annotations

from itertools import pairwise

from intaglio.ir.dim import Dim, bounds, floordiv, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.view import View, collapse
from intaglio.ops.shared.indices import resolve_axis
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import (
    Parameter,
    Routine,
    bits_type,
    disagreement,
    memory_type,
    reads,
    row_blocks,
    three_parts,
    writes,
)
from intaglio.targets.c.rules.places import (
    element_axes,
    inputs_of,
    refuse_unknown_tuples,
    tuple_length,
    tuple_sizes,
)
from intaglio.targets.c.rules.table import anchor


def _axis(node: Node) -> int:
    return resolve_axis(node.op.axis, inputs_of(node)[0].rank)


@anchor("Gather")
def gather(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy rows from where the indices point; evenly spaced constant indices are a view and copy nothing."""
    data, indices = inputs_of(node)
    axis = _axis(node)
    window = progression(indices, data.shape[axis])
    if window is None:
        _gather_rows(context, node, axis)
    else:
        start, step, count = window
        view = context.view(data).window(axis, start, step, count)
        context.views[node.output] = view if indices.rank else without_axis(view, axis)


def progression(indices: Value, extent: Dim) -> tuple[Dim, int, int] | None:
    """First index, step and count of constant indices that advance evenly and are certainly in range."""
    if indices.constant is None or indices.rank > 1 or not indices.constant.size:
        return None
    places = [int(index) for index in indices.constant.reshape(-1)]
    least, _ = bounds(extent)
    if least is None or not (-least <= min(places) and max(places) < least) or min(places) < 0 <= max(places):
        return None
    step = places[1] - places[0] if len(places) > 1 else 1
    if step == 0 or any(b - a != step for a, b in pairwise(places)):
        return None
    return (places[0] + extent if places[0] < 0 else places[0]), step, len(places)


def without_axis(view: View, axis: int) -> View:
    """The view at the first place along an axis, which it no longer has."""
    shape, strides = list(view.shape), list(view.strides)
    del shape[axis], strides[axis]
    return View(view.buffer, view.offset, tuple(shape), tuple(strides))


def _gather_rows(context: Context, node: Node, axis: int) -> None:
    data, indices = inputs_of(node)
    outer, extent, inner = three_parts(data.shape, axis)
    source, outer_step, axis_step = three_strides(context, data, axis)
    count = indices.tensor.size
    blocks, tasks, cost = _copied_rows(outer * count, inner * data.dtype.itemsize)
    sizes: list[tuple[str, Size]] = [
        ("rows", outer * count), ("count", count), ("extent", extent), ("inner", inner),
        ("outer_step", outer_step), ("axis_step", axis_step), *blocks,
    ]  # fmt: skip
    instance, parameters = kernel("gather", _types(node)), _parameters(context, node, source)
    context.emit(Routine("gather", instance, parameters, sizes, tasks, cost, checks=True).call(node))


def _copied_rows(rows: Dim, row_bytes: Dim) -> tuple[list[tuple[str, Size]], Dim, Dim]:
    return row_blocks(rows, row_bytes, 4 + floordiv(row_bytes, 16))


def _parameters(context: Context, node: Node, data: View) -> list[Parameter]:
    bits = bits_type(node.output.dtype)
    index = context.contiguous(inputs_of(node)[1])
    return [reads("data", data, bits), reads("index", index), writes("out", context.allocate(node.output), bits)]


def _types(node: Node) -> dict[str, Setting]:
    return {"ELEMENT": bits_type(node.output.dtype), "INDEX": memory_type(inputs_of(node)[1].dtype)}


def three_strides(context: Context, value: Value, axis: int) -> tuple[View, Dim, Dim]:
    """A view whose elements behind the axis are contiguous, and its strides before and along the axis."""
    view = context.view(value)
    before = view.shape[:axis]
    behind = View(view.buffer, 0, view.shape[axis + 1 :], view.strides[axis + 1 :])
    loops = collapse(before, [View(view.buffer, 0, before, view.strides[:axis])])
    if loops.rank > 1 or not behind.is_contiguous:
        view = context.contiguous(value)
        loops = collapse(before, [View(view.buffer, 0, before, view.strides[:axis])])
    return view, loops.strides[0][-1] if loops.rank else 0, view.strides[axis]


@anchor("GatherND", refuse=refuse_unknown_tuples)
def gather_nd(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy slices from where index tuples point, batch by batch."""
    data, indices = inputs_of(node)
    batch, length = int(node.op.batch_dims), tuple_length(indices)
    rows, inner = product(indices.shape[:-1]), product(data.shape[batch + length :])
    blocks, tasks, cost = _copied_rows(rows, inner * data.dtype.itemsize)
    sizes: list[tuple[str, Size]] = [
        ("mismatch", disagreement(list(zip(data.shape[:batch], indices.shape[:batch], strict=True)))),
        ("rows", rows), ("tuples", product(indices.shape[batch:-1])),
        ("batch_step", product(data.shape[batch:])), ("inner", inner),
        *tuple_sizes(data, batch, length), *blocks,
    ]  # fmt: skip
    instance = kernel("gather_nd", _types(node), LENGTH=length, PLACES=max(1, length))
    parameters = _parameters(context, node, context.contiguous(data))
    context.emit(Routine("gather_nd", instance, parameters, sizes, tasks, cost, checks=True).call(node))


@anchor("GatherElements")
def gather_elements(context: Context, node: Node, epilogue: Epilogue) -> None:
    """One element for each index, from the same position along all axes but one; a row is a line along that one."""
    data, indices = inputs_of(node)
    axes = element_axes(indices, data, _axis(node))
    rows, count = product(axes.indices[a] for a in axes.others), axes.indices[axes.axis]
    blocks, tasks, cost = row_blocks(rows, count * data.dtype.itemsize, 4 + count)
    sizes: list[tuple[str, Size]] = [
        ("mismatch", disagreement([], [(axes.indices[a], axes.data[a]) for a in axes.others])),
        ("rows", rows), *axes.sizes, *blocks,
    ]  # fmt: skip
    parameters = _parameters(context, node, context.contiguous(data))
    instance = kernel("gather_elements", _types(node), OTHERS=len(axes.others))
    context.emit(Routine("gather_elements", instance, parameters, sizes, tasks, cost, checks=True).call(node))
