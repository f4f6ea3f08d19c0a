"""Elements at indices which are data: a thread for each element."""

from __future__ import annotations

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.ops.shared.indices import resolve_axis
from intaglio.targets.c.routine import bits_type, memory_type, three_parts
from intaglio.targets.c.rules import ANCHORS as RULES_OF_C
from intaglio.targets.c.rules.gather import progression, three_strides
from intaglio.targets.c.rules.places import inputs_of
from intaglio.targets.cuda.rules.routine import Buffer, emit_tasks
from intaglio.targets.cuda.rules.table import anchor


@anchor("Gather")
def gather(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy what stands at each index along an axis; evenly spaced constant indices are a view, as in C."""
    data, indices = inputs_of(node)
    axis = resolve_axis(node.op.axis, data.rank)
    if progression(indices, data.shape[axis]) is not None:
        RULES_OF_C["Gather"].lower(context, node, epilogue)
        return
    outer, extent, inner = three_parts(data.shape, axis)
    source, outer_step, axis_step = three_strides(context, data, axis)
    count = indices.tensor.size
    bits = bits_type(data.dtype)
    lines = [
        "const int64_t row = divided(begin, inner), at = begin - row * inner, o = divided(row, count), i = row - o * count;",
        "const int64_t given = (int64_t)index[i], place = given < 0 ? given + extent : given;",
        "if (place < 0 || place >= extent)",
        "    *fault = 1;",
        "else",
        "    out[begin] = data[o * outer_step + place * axis_step + at];",
    ]
    buffers = [
        Buffer("data", bits, source),
        Buffer("index", memory_type(indices.dtype), context.contiguous(indices)),
        Buffer("out", bits, context.allocate(node.output), True),
    ]
    sizes: dict[str, Dim] = {"count": count, "extent": extent, "inner": inner, "outer_step": outer_step, "axis_step": axis_step}
    emit_tasks(context, node, "gather", lines, buffers, sizes, outer * count * inner, 0, checks=True)
