"""Softmax along an axis with few columns behind it, in one kernel; others are written in simpler operators."""

from __future__ import annotations

from typing import Any

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import Routine, reads, three_parts, writes
from intaglio.targets.c.rules.table import anchor

FEW = 16
"""Columns that fill so little of a vector that several rows of them shall stand in it."""


def _parts(node: Node) -> tuple[Dim, Dim, Dim]:
    op: Any = node.op
    return three_parts(node.input.shape, op.axis % max(1, node.input.rank))


def _refuse(node: Node) -> Refusal | None:
    x = node.input
    if x.dtype.name != "float32" or x.tensor.shape is None or not x.rank:
        return Refusal(Cause.FORM, f"{x.type} is computed by simpler operators")
    _, length, columns = _parts(node)
    if not isinstance(columns, int) or not 1 < columns <= FEW or length == 1:
        return Refusal(Cause.FORM, "only few columns behind the axis are computed so")
    return None


@anchor("Softmax", "LogSoftmax", refuse=_refuse, needs={"vectors"})
def softmax_columns(context: Context, node: Node, epilogue: Epilogue) -> None:
    """One call: a task finds the greatest numbers, the sums of powers and the quotients of one slice."""
    outer, length, columns = _parts(node)
    assert isinstance(columns, int)
    data, result = context.contiguous(node.input), context.allocate(node.output)
    instance = kernel("softmax_columns", COLUMNS=columns, LOGARITHM=node.op.name == "LogSoftmax")
    parameters = [reads("x", data), writes("y", result)]
    cost = 20 + length * columns
    context.emit(Routine("softmax_columns", instance, parameters, [("length", length)], outer, cost).call(node))
