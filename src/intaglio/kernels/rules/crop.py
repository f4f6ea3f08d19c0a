"""CenterCropPad: a window of the input, copied into a frame of zeros where that is larger."""

from __future__ import annotations

import numpy as np

from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, anchor
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.rules.movement import fill_constant
from intaglio.kernels.rules.places import inputs_of
from intaglio.ops.indices import known


def _refuse(node: Node) -> str | None:
    return None if known(inputs_of(node)[1]) is not None else "its target shape is not known before the run"


def _reads(node: Node) -> list[Value]:
    return inputs_of(node)[:1]


@anchor("CenterCropPad", refuse=_refuse, reads=_reads)
def center_crop_pad(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Only a view where nothing is padded; else the frame is filled slab by slab around the copied middle."""
    data, output = inputs_of(node)[0], node.output
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
