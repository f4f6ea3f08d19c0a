"""The places of greatest and least elements."""

from __future__ import annotations

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.elements import FLOATS, scalar_type
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.ops.shared.indices import resolve_axis
from intaglio.targets.c.routine import three_parts
from intaglio.targets.c.rules.widen import computed, side_by_side
from intaglio.targets.cuda.printing import memory_type
from intaglio.targets.cuda.rules.routine import Buffer, emit_tasks, taken_apart
from intaglio.targets.cuda.rules.table import anchor


def _shape(node: Node) -> tuple[Dim, ...]:
    return node.input.shape or (1,)


def _refuse(node: Node) -> Refusal | None:
    shape = _shape(node)
    extent = shape[resolve_axis(node.op.axis, len(shape))]
    is_known = isinstance(extent, int) and extent > 0
    return None if is_known else Refusal(Cause.SHAPE, "there may be nothing to choose from along its axis")


@anchor("ArgMax", "ArgMin", refuse=_refuse)
def arg_extreme(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A thread goes along one line; NaN is more extreme than any number."""
    data, shape = node.input, _shape(node)
    outer, extent, inner = three_parts(shape, resolve_axis(node.op.axis, len(shape)))
    dtype = computed(data.dtype)
    element, sign = memory_type(dtype), ">" if node.op.name == "ArgMax" else "<"
    better = f"value {sign} best" + (" || value == best" if node.op.select_last_index else "")
    if scalar_type(dtype) in FLOATS:
        last = "value != value" if node.op.select_last_index else "(value != value && best == best)"
        better = f"{last} || (best == best && ({better}))"
    lines = [
        *taken_apart("begin", [("o", "outer"), ("i", "inner")]),
        f"{element} best = x[o * extent * inner + i];",
        "int64_t place = 0;",
        "for (int64_t k = 1; k < extent; k++) {",
        f"    const {element} value = x[(o * extent + k) * inner + i];",
        f"    if ({better}) {{",
        "        best = value;",
        "        place = k;",
        "    }",
        "}",
        "y[begin] = place;",
    ]
    buffers = [
        Buffer("x", element, side_by_side(context, data)),
        Buffer("y", "int64_t", context.allocate(node.output), True),
    ]
    sizes: dict[str, Dim] = {"outer": outer, "extent": extent, "inner": inner}
    emit_tasks(context, node, node.op.name.lower(), lines, buffers, sizes, outer * inner, outer * extent * inner)
