"""Pad: a frame of one constant, or of elements that are mirrored, repeated or wrapped around."""

from __future__ import annotations

import numpy as np

from intaglio.ir.dim import Dim, bounds, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, anchor
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.routine import ROWS, Routine, bits_type, reads, row_blocks, writes
from intaglio.kernels.rules.movement import fill_constant
from intaglio.kernels.view import View
from intaglio.ops.indices import known_integers, resolve_axis


def _data(node: Node) -> Value:
    value = node.inputs[0]
    assert value is not None
    return value


def _widths(node: Node) -> list[tuple[int, int]] | None:
    """The pads before and behind each axis."""
    inputs = list(node.inputs) + [None] * (4 - len(node.inputs))
    pads, rank = known_integers(inputs[1]), _data(node).rank
    axes = known_integers(inputs[3]) if inputs[3] is not None else list(range(rank))
    if pads is None or axes is None:
        return None
    result = [(0, 0)] * rank
    for position, axis in enumerate(axes):
        result[resolve_axis(axis, rank)] = (pads[position], pads[len(axes) + position])
    return result


def _cropped(extent: Dim, before: int, behind: int) -> Dim:
    """What negative pads leave of an axis."""
    return extent + min(before, 0) + min(behind, 0)


def _refuse(node: Node) -> str | None:
    widths = _widths(node)
    if widths is None:
        return "its pads are not known before the run"
    for extent, (before, behind) in zip(_data(node).shape, widths, strict=True):
        low, _ = bounds(_cropped(extent, before, behind))
        if low is None or low < 0:
            return f"pads of {before} and {behind} may cut more than the axis has"
    return None


def _reads(node: Node) -> list[Value]:
    return [_data(node)] + [v for v in node.inputs[2:3] if v is not None and v.constant is None]


@anchor("Pad", refuse=_refuse, reads=_reads)
def pad(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Negative pads narrow the view of the input; then the frame is filled or copied."""
    view, widths = context.view(_data(node)), _widths(node)
    assert widths is not None
    for axis, (before, behind) in enumerate(widths):
        view = view.window(axis, max(-before, 0), 1, _cropped(view.shape[axis], before, behind))
    frame = [(max(before, 0), max(behind, 0)) for before, behind in widths]
    result = context.allocate(node.output)
    if node.op.mode == "constant" or not any(map(any, frame)):
        _fill_frame(context, node, view, result, frame)
    else:
        _copy_frame(context, node, view, result, frame)


def _fill_frame(context: Context, node: Node, view: View, middle: View, frame: list[tuple[int, int]]) -> None:
    """Fill the frame with the constant, slab by slab, and copy the input into the middle."""
    fill = node.inputs[2] if len(node.inputs) > 2 else None
    for axis, (before, behind) in enumerate(frame):
        extent = view.shape[axis]
        for start, width in ((0, before), (extent + before, behind)):
            if width:
                _fill_slab(context, node.output, fill, middle.window(axis, start, 1, width))
        middle = middle.window(axis, before, 1, extent)
    context.copy(_data(node), view, into=middle)


def _fill_slab(context: Context, value: Value, fill: Value | None, into: View) -> None:
    if fill is None or fill.constant is not None:
        number = np.zeros(1, value.dtype.numpy) if fill is None or fill.constant is None else fill.constant
        fill_constant(context, value, number, into)
    else:
        source = context.view(fill).reshape((1,) * len(into.shape))
        assert source is not None
        context.copy(fill, source.broadcast(into.shape), into=into)


def _copy_frame(context: Context, node: Node, view: View, result: View, frame: list[tuple[int, int]]) -> None:
    """Every row of the output from its row of the input: the frame one by one, the middle as a whole."""
    last = len(view.shape) - 1
    if view.strides[last] != 1:
        view = context.copy(_data(node), view)
    item = node.output.dtype.itemsize
    blocks, tasks, cost = row_blocks(f"columns * {item}", f"8 + columns * {item} / 8")
    sizes: list[tuple[str, Size]] = [("rows", product(result.shape[:-1])), ("columns", result.shape[-1])]
    for axis, (before, _) in enumerate(frame):
        sizes += [(f"extent{axis}", view.shape[axis]), (f"before{axis}", before)]
        if axis != last:
            sizes += [(f"count{axis}", result.shape[axis]), (f"step{axis}", view.strides[axis])]
    bits = bits_type(node.output.dtype)
    parameters = [reads("data", view, bits), writes("out", result, bits)]
    routine = Routine(
        f"pad_{node.op.mode}", _PAD, parameters, [*sizes, *blocks], tasks, cost, checks=True, helpers=_SOURCE
    )
    routine.marks = {
        "mode": _MODES[node.op.mode],
        "row": "\n".join(_row_text(axis) for axis in reversed(range(last))),
        "empty": " || ".join(f"extent{axis} < 1" for axis in range(last + 1)),
        "last": str(last),
    }
    context.emit(routine.call(node))


def _row_text(axis: int) -> str:
    """C that takes one axis off the number of a row and moves `from` along the input."""
    return "\n".join([
        f"        from += IG_FUNCTION_source(rest % count{axis} - before{axis}, extent{axis}) * step{axis};",
        f"        rest /= count{axis};",
    ])  # fmt: skip


_MODES = {
    "edge": "return at < 0 ? 0 : at < extent ? at : extent - 1;",
    "wrap": "return (at % extent + extent) % extent;",
    "reflect": """const int64_t period = extent > 1 ? 2 * (extent - 1) : 1, within = (at % period + period) % period;
    return within < extent ? within : period - within;""",
}

_SOURCE = """
/* The place that is copied to the place `at`, which may lie outside. */
static inline int64_t IG_FUNCTION_source(int64_t at, int64_t extent)
{
    $mode
}
"""

_PAD = f"""
    if ($empty) {{
        *fault = 1;
        return;
    }}
    const int64_t before = before$last, extent = extent$last;
    for ({ROWS}) {{
        int64_t rest = row, from = 0;
$row
        (void)rest;
        for (int64_t j = 0; j < before; j++)
            out[row * columns + j] = data[from + IG_FUNCTION_source(j - before, extent)];
        __builtin_memcpy(out + row * columns + before, data + from, (unsigned long)extent * sizeof *out);
        for (int64_t j = before + extent; j < columns; j++)
            out[row * columns + j] = data[from + IG_FUNCTION_source(j - before, extent)];
    }}
"""
