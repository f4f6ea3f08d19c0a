"""Operators that read elements at indices which are data."""

from __future__ import annotations

from itertools import pairwise

from intaglio.ir.dim import Dim, bounds, floordiv, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.view import View, collapse
from intaglio.ops.indices import resolve_axis
from intaglio.targets.c.routine import (
    ROWS,
    Parameter,
    Routine,
    bits_type,
    disagreement,
    reads,
    row_blocks,
    three_parts,
    writes,
)
from intaglio.targets.c.rules.places import (
    PLACE,
    element_axes,
    inputs_of,
    refuse_unknown_tuples,
    tuple_length,
    tuple_sizes,
    tuple_text,
)
from intaglio.targets.c.rules.table import anchor


def _axis(node: Node) -> int:
    return resolve_axis(node.op.axis, inputs_of(node)[0].rank)


@anchor("Gather")
def gather(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy rows from where the indices point; evenly spaced constant indices are a view and copy nothing."""
    data, indices = inputs_of(node)
    axis = _axis(node)
    window = _progression(indices, data.shape[axis])
    if window is None:
        _gather_rows(context, node, axis)
    else:
        start, step, count = window
        view = context.view(data).window(axis, start, step, count)
        context.views[node.output] = view if indices.rank else _without(view, axis)


def _progression(indices: Value, extent: Dim) -> tuple[Dim, int, int] | None:
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


def _without(view: View, axis: int) -> View:
    """The view at the first place along an axis, which it no longer has."""
    shape, strides = list(view.shape), list(view.strides)
    del shape[axis], strides[axis]
    return View(view.buffer, view.offset, tuple(shape), tuple(strides))


def _gather_rows(context: Context, node: Node, axis: int) -> None:
    data, indices = inputs_of(node)
    outer, extent, inner = three_parts(data.shape, axis)
    source, outer_step, axis_step = _three_strides(context, data, axis)
    count = indices.tensor.size
    blocks, tasks, cost = _copied_rows(outer * count, inner * data.dtype.itemsize)
    sizes: list[tuple[str, Size]] = [
        ("outer", outer), ("count", count), ("extent", extent), ("inner", inner),
        ("outer_step", outer_step), ("axis_step", axis_step), ("rows", outer * count), *blocks,
    ]  # fmt: skip
    parameters = _parameters(context, node, source)
    context.emit(Routine("gather", _GATHER, parameters, sizes, tasks, cost, checks=True, helpers=PLACE).call(node))


def _copied_rows(rows: Dim, row_bytes: Dim) -> tuple[list[tuple[str, Size]], Dim, Dim]:
    return row_blocks(rows, row_bytes, 4 + floordiv(row_bytes, 16))


def _parameters(context: Context, node: Node, data: View) -> list[Parameter]:
    bits = bits_type(node.output.dtype)
    index = context.contiguous(inputs_of(node)[1])
    return [reads("data", data, bits), reads("index", index), writes("out", context.allocate(node.output), bits)]


def _three_strides(context: Context, value: Value, axis: int) -> tuple[View, Dim, Dim]:
    """A view whose elements behind the axis are contiguous, and its strides before and along the axis."""
    view = context.view(value)
    before = view.shape[:axis]
    behind = View(view.buffer, 0, view.shape[axis + 1 :], view.strides[axis + 1 :])
    loops = collapse(before, [View(view.buffer, 0, before, view.strides[:axis])])
    if loops.rank > 1 or not behind.is_contiguous:
        view = context.contiguous(value)
        loops = collapse(before, [View(view.buffer, 0, before, view.strides[:axis])])
    return view, loops.strides[0][-1] if loops.rank else 0, view.strides[axis]


_COPY_ROW = """\
        else if (inner == 1)
            out[row] = data[at];
        else
            __builtin_memcpy(out + row * inner, data + at, (unsigned long)inner * sizeof *out);
"""

_GATHER = f"""
    int64_t o = begin * block / (count > 0 ? count : 1), i = begin * block - o * count;
    for ({ROWS}) {{
        const int64_t place = IG_FUNCTION_place((int64_t)index[i], extent), at = o * outer_step + place * axis_step;
        if (place < 0)
            *fault = 1;
{_COPY_ROW}\
        if (++i == count) {{
            i = 0;
            o++;
        }}
    }}
"""


@anchor("GatherND", refuse=refuse_unknown_tuples)
def gather_nd(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy slices from where index tuples point, batch by batch."""
    data, indices = inputs_of(node)
    batch, length = int(node.op.batch_dims), tuple_length(indices)
    rows, inner = product(indices.shape[:-1]), product(data.shape[batch + length :])
    blocks, tasks, cost = _copied_rows(rows, inner * data.dtype.itemsize)
    sizes: list[tuple[str, Size]] = [
        ("mismatch", disagreement(list(zip(data.shape[:batch], indices.shape[:batch], strict=True)))),
        ("tuples", product(indices.shape[batch:-1])), ("rows", rows),
        ("batch_step", product(data.shape[batch:])), ("inner", inner),
        *tuple_sizes(data, batch, length), *blocks,
    ]  # fmt: skip
    marks = {"tuple": tuple_text(length, "row", "row / tuples * batch_step")}
    parameters = _parameters(context, node, context.contiguous(data))
    routine = Routine("gather_nd", _GATHER_ND, parameters, sizes, tasks, cost, checks=True, helpers=PLACE, marks=marks)
    context.emit(routine.call(node))


_GATHER_ND = f"""
    if (mismatch) {{
        *fault = 1;
        return;
    }}
    for ({ROWS}) {{
$tuple
        if (!is_inside)
            *fault = 1;
{_COPY_ROW}\
    }}
"""


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
    routine = Routine("gather_elements", _GATHER_ELEMENTS, parameters, sizes, tasks, cost, checks=True, helpers=PLACE)
    routine.marks["line"] = axes.line_text
    context.emit(routine.call(node))


_GATHER_ELEMENTS = f"""
    if (mismatch && rows * count > 0) {{
        *fault = 1;
        return;
    }}
    for ({ROWS}) {{
$line
        for (int64_t k = 0; k < count; k++) {{
            const int64_t place = IG_FUNCTION_place((int64_t)index[from + k * index_step], extent);
            if (place < 0)
                *fault = 1;
            else
                out[from + k * index_step] = data[to + place * axis_step];
        }}
    }}
"""
