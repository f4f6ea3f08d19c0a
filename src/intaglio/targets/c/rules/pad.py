"""Pad: a frame of one constant, or of elements that are mirrored, repeated or wrapped around."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intaglio.ir.dim import Dim, floordiv, product, symbol
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.found_sizes import fresh_numbers, names_of, whole_numbers
from intaglio.kernels.plan import Size
from intaglio.kernels.view import View
from intaglio.ops.shared.indices import known_integers, resolve_axis
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import Routine, bits_type, numbered, reads, row_blocks, writes
from intaglio.targets.c.rules.movement import fill_constant
from intaglio.targets.c.rules.table import anchor, late_sizes


@dataclass(frozen=True)
class _Frame:
    """What Pad does to one axis: elements cut off and elements added, before and behind."""

    cut_before: Dim = 0
    cut_behind: Dim = 0
    before: Dim = 0
    behind: Dim = 0

    @staticmethod
    def of(before: int, behind: int) -> _Frame:
        """The frame for pads that are known."""
        return _Frame(max(-before, 0), max(-behind, 0), max(before, 0), max(behind, 0))


def _known_frames(node: Node) -> list[_Frame] | None:
    """The frame of each axis, where the pads are known before the run."""
    inputs = list(node.inputs) + [None] * (4 - len(node.inputs))
    pads, rank = known_integers(inputs[1]), node.input.rank
    axes = known_integers(inputs[3]) if inputs[3] is not None else list(range(rank))
    if pads is None or axes is None:
        return None
    result = [_Frame()] * rank
    for position, axis in enumerate(axes):
        result[resolve_axis(axis, rank)] = _Frame.of(pads[position], pads[len(axes) + position])
    return result


def _late_frames(context: Context, node: Node) -> list[_Frame]:
    """The frame of each axis as symbols that the driver binds, with the sizes of the output."""
    data, output, axes = node.input, node.output, node.optional(3)
    count, places = len(_FIELDS) * data.rank, max(1, data.rank)
    numbers = fresh_numbers(context, count + data.rank, "frames")
    parameters = [reads("pads", whole_numbers(context, node.needed(1)))]
    parameters += [] if axes is None else [reads("axes", whole_numbers(context, axes))]
    sizes = [("count", data.rank if axes is None else product(axes.shape)), *numbered("given", data.shape or (1,))]
    instance = kernel("pad_frames", RANK=data.rank, PLACES=places, HAS_AXES=axes is not None)
    parameters.append(writes("found", numbers))
    context.emit(Routine("pad_frames", instance, parameters, sizes, 1, 10, checks=True).call(node))
    names = [f"{output.name}:{field}{axis}" for axis in range(data.rank) for field in _FIELDS]
    context.bind(node, [*names, *names_of(context, output)], numbers)
    bound: list[Dim] = [symbol(name) for name in names]
    return [_Frame(*bound[place : place + len(_FIELDS)]) for place in range(0, count, len(_FIELDS))]


_FIELDS = ("cut_before", "cut_behind", "before", "behind")


def _reads(node: Node) -> list[Value]:
    fills = [v for v in node.inputs[2:3] if v is not None and v.constant is None]
    late = [] if _known_frames(node) is not None else [v for v in (node.inputs[1], *node.inputs[3:4]) if v is not None]
    return [node.input, *fills, *late]


@late_sizes("Pad", reads=_reads)
def pad_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them together with the pads."""


@anchor("Pad", reads=_reads)
def pad(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Negative pads narrow the view of the input; then the frame is filled or copied."""
    view, known = context.view(node.input), _known_frames(node)
    frames = _late_frames(context, node) if known is None else known
    for axis, each in enumerate(frames):
        extent = view.shape[axis] - each.cut_before - each.cut_behind
        view = view.window(axis, each.cut_before, 1, extent)
    frame = [(each.before, each.behind) for each in frames]
    result = context.allocate(node.output)
    if node.op.mode == "constant" or not any(width != 0 for widths in frame for width in widths):
        _fill_frame(context, node, view, result, frame)
    else:
        _copy_frame(context, node, view, result, frame)


def _fill_frame(context: Context, node: Node, view: View, middle: View, frame: list[tuple[Dim, Dim]]) -> None:
    """Fill the frame with the constant, slab by slab, and copy the input into the middle."""
    fill = node.optional(2)
    for axis, (before, behind) in enumerate(frame):
        extent = view.shape[axis]
        for start, width in ((0, before), (extent + before, behind)):
            if width != 0:
                _fill_slab(context, node.output, fill, middle.window(axis, start, 1, width))
        middle = middle.window(axis, before, 1, extent)
    context.copy(node.input, view, into=middle)


def _fill_slab(context: Context, value: Value, fill: Value | None, into: View) -> None:
    if fill is None or fill.constant is not None:
        number = np.zeros(1, value.dtype.numpy) if fill is None or fill.constant is None else fill.constant
        fill_constant(context, value, number, into)
    else:
        source = context.view(fill).reshape((1,) * len(into.shape))
        assert source is not None
        context.copy(fill, source.broadcast(into.shape), into=into)


def _copy_frame(context: Context, node: Node, view: View, result: View, frame: list[tuple[Dim, Dim]]) -> None:
    """Every row of the output from its row of the input: the frame one by one, the middle as a whole."""
    if view.strides[-1] != 1:
        view = context.copy(node.input, view)
    rows, row = product(result.shape[:-1]), result.shape[-1] * node.output.dtype.itemsize
    blocks, tasks, cost = row_blocks(rows, row, 8 + floordiv(row, 8))
    sizes: list[tuple[str, Size]] = [
        ("rows", rows), *numbered("extent", view.shape), *numbered("step", view.strides),
        *numbered("before", [before for before, _ in frame]), *numbered("count", result.shape), *blocks,
    ]  # fmt: skip
    bits, mode = bits_type(node.output.dtype), node.op.mode
    parameters = [reads("data", view, bits), writes("out", result, bits)]
    instance = kernel("pad", AXES=len(frame), ELEMENT=bits, IS_EDGE=mode == "edge", IS_WRAPPED=mode == "wrap")
    context.emit(Routine(f"pad_{mode}", instance, parameters, sizes, tasks, cost, checks=True).call(node))
