"""Running sums and products, CumSum and CumProd, as loops."""

from __future__ import annotations

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.view import View, row_major
from intaglio.ops.shared.indices import known_integers


def scan_axis(node: Node) -> int | None:
    """The axis, counted from the front, where it is known and valid."""
    numbers, rank = known_integers(node.inputs[1]), node.input.rank
    if numbers is None or len(numbers) != 1 or not -rank <= numbers[0] < rank:
        return None
    return numbers[0] % rank


def emit_scan(context: Context, node: Node, parts: tuple[Dim, Dim, Dim]) -> None:
    """Emit the loops over what lies before, along and behind the axis."""
    data, result = (
        View(view.buffer, view.offset, parts, row_major(parts))
        for view in (context.contiguous(node.input), context.allocate(node.output))
    )
    title = f"{node.op.name} -> {node.output.name}: {node.output.type}"
    fused = FusedNodes([node], parts, (), {node.input: data}, {node.output: result}, title, scanned=1)
    context.emit(context.rules.loop_call(fused))
