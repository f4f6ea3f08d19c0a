"""Axes that come as data: those of reductions, Squeeze and Unsqueeze, where only their values are unknown.

The number of dimensions must be known, so a kernel can be compiled that serves every value of the axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.dim import Dim, maximum, product, symbol
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Fill, Operand, Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, row_major
from intaglio.ops.shared.indices import known_length
from intaglio.targets.c.routine import memory_type
from intaglio.targets.c.rules.table import anchor, late_sizes


def _marked(context: Context, node: Node, rank: int) -> tuple[str, list[tuple[str, str, View]], list[tuple[str, Size]]]:
    """C that counts in `times` how often the axes name each of `rank` dimensions, with what it reads."""
    data, axes = node.input, node.needed(1)
    extents: list[tuple[str, Size]] = [(f"given{axis}", extent) for axis, extent in enumerate(data.shape)]
    listed = ", ".join(name for name, _ in extents) or "0"
    body = _MARK.replace("$rank", str(rank)).replace("$given", listed)
    operands = [("axes", memory_type(axes.dtype), context.contiguous(axes))]
    return body.strip("\n"), operands, [("count", product(axes.shape)), *extents]


_MARK = """
const int64_t given[] = {$given};
int64_t times[$rank + 1] = {0};
for (int64_t i = 0; i < count && !fault; i++) {
    const int64_t axis = (int64_t)axes[i] < 0 ? (int64_t)axes[i] + $rank : (int64_t)axes[i];
    if (axis < 0 || axis >= $rank || times[axis]++)
        fault = 1;
}
(void)given;
"""


@late_sizes("ReductionOrder")
def reduction_order_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them together with the strides."""


@anchor("ReductionOrder")
def reduction_order(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Two views whose extents and strides the driver works out from the axes, and the sizes of the result."""
    data, (rows, columns, shape) = node.input, node.outputs
    count, runs = shape.shape[0], rows.rank // 2
    assert isinstance(count, int)
    mark, operands, extents = _marked(context, node, data.rank)
    marks = {
        "$rank": str(data.rank),
        "$runs": str(runs),
        "$all": "0" if node.op.noop_with_empty_axes else "count == 0",
        "$kept": "1" if node.op.keepdims else "!times[axis]",
    }
    found = [(name, f"row_extent[{axis}]") for axis, name in context.unbound(rows)]
    found += [(name, f"column_extent[{axis}]") for axis, name in context.unbound(columns)]
    found += [(f"{rows.name}:step{place}", f"step[{place}]") for place in range(2 * runs)]
    found += [(f"{shape.name}:size{place}", f"size[{place}]") for place in range(count)]
    lines = [mark, _filled(_RUNS, marks), *(f"value[{place}] = {text};" for place, (_, text) in enumerate(found))]
    most = _most(data, [rows.shape, rows.shape[:runs], columns.shape, (*columns.shape[: runs - 1], columns.shape[-1])])
    context.bind(node, [name for name, _ in found], "\n".join([*lines, "(void)size;"]), operands, extents, most)
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


def _filled(text: str, marks: dict[str, str]) -> str:
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text.strip("\n")


_RUNS = """
for (int64_t axis = 0; axis < $rank; axis++)
    times[axis] = $all ? 1 : times[axis];
/* Neighbours that are both kept or both reduced become one; the last ones come last in each half. */
int64_t extent[2 * $runs], step[2 * $runs], size[$rank + 1], stride = 1, found[2] = {0}, last = -1;
for (int64_t place = 0; place < 2 * $runs; place++) {
    extent[place] = 1;
    step[place] = 0;
}
for (int64_t axis = $rank - 1, before = -1, run = 0; axis >= 0 && !fault; axis--) {
    if (given[axis] == 1)
        continue;
    if (times[axis] != before) {
        before = times[axis];
        last = last < 0 ? before : last;
        run = (before + 1) * $runs - ++found[before];
        step[run] = stride;
    }
    extent[run] *= given[axis];
    stride *= given[axis];
}
/* What is reduced lies side by side, or what is kept does; the view for the other case is empty. */
int64_t row_extent[2 * $runs], column_extent[2 * $runs];
for (int64_t place = 0; place < 2 * $runs; place++) {
    const int64_t by_column = place < $runs - 1 ? place : place < 2 * $runs - 1 ? place + 1 : $runs - 1;
    row_extent[place] = last ? extent[place] : place >= $runs;
    column_extent[place] = last ? by_column >= $runs : extent[by_column];
}
for (int64_t axis = 0, place = 0; axis < $rank && !fault; axis++)
    if ($kept)
        size[place++] = times[axis] ? 1 : given[axis];
"""


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
    data, output, unbound = node.input, node.output, context.unbound(node.output)
    is_longer = node.op.name == "Unsqueeze"
    mark, operands, extents = _marked(context, node, output.rank if is_longer else data.rank)
    body = _filled(_UNSQUEEZE if is_longer else _SQUEEZE, {"$rank": str(data.rank), "$wanted": str(output.rank)})
    lines = [mark, body, *(f"value[{place}] = shape[{axis}];" for place, (axis, _) in enumerate(unbound))]
    names = [name for _, name in unbound]
    context.bind(node, names, "\n".join([*lines, "(void)shape;"]), operands, extents, _most(data, [output.shape]))
    view = context.contiguous(data)
    context.views[output] = View(view.buffer, view.offset, output.shape, row_major(output.shape))


_SQUEEZE = """
int64_t shape[$rank + 1] = {0};
for (int64_t axis = 0, place = 0; axis < $rank && !fault; axis++) {
    fault = times[axis] && given[axis] != 1;
    if (!times[axis])
        shape[place++] = given[axis];
}
"""

_UNSQUEEZE = """
int64_t shape[$wanted + 1] = {0};
for (int64_t axis = 0, place = 0; axis < $wanted && !fault; axis++)
    shape[axis] = times[axis] ? 1 : given[place++];
"""
