"""Running sums and products, CumSum and CumProd, as loops."""

from __future__ import annotations

from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Node
from intaglio.kernels.backend import Anchor
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.program import Program
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, row_major
from intaglio.ops.indices import known_integers


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
    program = Program([node], parts, (), {node.input: data}, {node.output: result}, title, scanned=1)
    context.emit(context.backend.loop_call(program))


def _refuse(node: Node) -> Refusal | None:
    if known_integers(node.inputs[1]) is None:
        return Refusal(Cause.DATA, "its axis is not known before the run")
    return None if scan_axis(node) is not None else Refusal(Cause.FORM, "its axis is out of range")


def _scan(context: Context, node: Node, epilogue: Epilogue) -> None:
    axis, shape = scan_axis(node), node.input.shape
    assert axis is not None, "lowering refuses other axes"
    emit_scan(context, node, (product(shape[:axis]), shape[axis], product(shape[axis + 1 :])))


SCAN = Anchor(_scan, _refuse, lambda node: [node.input])
"""How a scan along a known axis is lowered, for any target."""
