"""CenterCropPad: a window of the input, copied into a frame of zeros where that is larger."""

from __future__ import annotations

import numpy as np

from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.found_sizes import bind_axes, whole_numbers
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.ops.shared.indices import known, known_length, resolve_axes
from intaglio.targets.c.rules.movement import fill_constant
from intaglio.targets.c.rules.places import inputs_of
from intaglio.targets.c.rules.table import anchor, late_sizes


def _is_late(node: Node) -> bool:
    return known(inputs_of(node)[1]) is None


def _refuse(node: Node) -> Refusal | None:
    is_counted = known_length(inputs_of(node)[1]) is not None
    return (
        None if is_counted else Refusal(Cause.SHAPE, "how many sizes its target shape has is not known before the run")
    )


def _reads(node: Node) -> list[Value]:
    return inputs_of(node)[: 2 if _is_late(node) else 1]


@late_sizes("CenterCropPad", refuse=_refuse, reads=_reads)
def center_crop_pad_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them, since it has to look at the target shape even where all sizes are known."""


def _bind_sizes(context: Context, node: Node) -> None:
    data, wanted = inputs_of(node)
    axes = resolve_axes(range(data.rank) if node.op.axes is None else node.op.axes, data.rank)
    bind_axes(context, node, axes, whole_numbers(context, wanted))


@anchor("CenterCropPad", refuse=_refuse, reads=_reads)
def center_crop_pad(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Only a view where nothing is padded; else the frame is filled slab by slab around the copied middle."""
    data, output = inputs_of(node)[0], node.output
    if _is_late(node):
        _bind_sizes(context, node)
    view = context.view(data)
    frame: list[tuple[Dim, Dim]] = []
    for axis, (size, wanted) in enumerate(zip(data.shape, output.shape, strict=True)):
        kept = dims.minimum(size, wanted)
        view = view.window(axis, dims.floordiv(size - kept, 2), 1, kept)
        frame.append((dims.floordiv(wanted - kept, 2), wanted - kept))
    if all(total == 0 for _, total in frame):
        context.views[output] = view
        return
    middle = context.allocate(output)
    zero = np.zeros(1, output.dtype.numpy)
    for axis, (before, total) in enumerate(frame):
        kept = view.shape[axis]
        for start, width in ((0, before), (before + kept, total - before)):
            if width != 0:
                fill_constant(context, output, zero, middle.window(axis, start, 1, width))
        middle = middle.window(axis, before, 1, kept)
    context.copy(data, view, into=middle)
