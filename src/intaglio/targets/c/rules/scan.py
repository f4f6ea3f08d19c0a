"""Operators that walk along an axis: CumSum, CumProd and ReverseSequence."""

from __future__ import annotations

from intaglio.ir.dim import Dim, floordiv, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.scans import emit_scan, scan_axis
from intaglio.ops.shared.indices import known_integers
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import (
    Routine,
    at_least_one,
    bits_type,
    disagreement,
    memory_type,
    reads,
    row_blocks,
    three_parts,
    writes,
)
from intaglio.targets.c.rules.runtime_sizes import bind_axis_parts
from intaglio.targets.c.rules.table import anchor


def _is_late(node: Node) -> bool:
    """Whether the run tells the axis."""
    return known_integers(node.inputs[1]) is None


def _refuse_scan(node: Node) -> Refusal | None:
    return None if _is_late(node) or scan_axis(node) is not None else Refusal(Cause.FORM, "its axis is out of range")


def _scan_reads(node: Node) -> list[Value]:
    return [value for value in node.inputs[: 2 if _is_late(node) else 1] if value is not None]


def _scan_parts(context: Context, node: Node) -> tuple[Dim, Dim, Dim]:
    """The elements before the axis, along it and behind it; the driver works them out where the run tells the axis."""
    data, axis = node.input, scan_axis(node)
    if axis is not None:
        return three_parts(data.shape, axis)
    outer, extent, inner, _ = bind_axis_parts(context, node, node.needed(1), data.shape)
    return outer, extent, inner


@anchor("CumSum", "CumProd", refuse=_refuse_scan, reads=_scan_reads)
def cumulative(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A running total in order along the axis, for a vector of columns at once, or element by element."""
    emit_scan(context, node, _scan_parts(context, node))


@anchor("ReverseSequence")
def reverse_sequence(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy each step of each sequence from its mirrored place; a row is what lies behind the two leading axes."""
    data, lengths = node.input, node.needed(1)
    is_batch_first = node.op.batch_axis == 0
    batch, time = (0, 1) if is_batch_first else (1, 0)
    rows, inner = product(data.shape[:2]), product(data.shape[2:])
    row = inner * data.dtype.itemsize
    blocks, tasks, cost = row_blocks(rows, row, 4 + floordiv(row, 16))
    sizes: list[tuple[str, Size]] = [
        ("mismatch", disagreement([(lengths.tensor.size, data.shape[batch])])), ("steps", data.shape[time]),
        ("batch", data.shape[batch]), ("second", data.shape[1]), ("inner", inner), ("rows", rows), *blocks,
    ]  # fmt: skip
    bits = bits_type(data.dtype)
    parameters = [reads("data", context.contiguous(data), bits), reads("length", context.contiguous(lengths))]
    parameters.append(writes("out", context.allocate(node.output), bits))
    element = memory_type(lengths.dtype)
    instance = kernel("reverse_sequence", ELEMENT=bits, LENGTH=element, IS_BATCH_FIRST=is_batch_first)
    routine = Routine("reverse_sequence", instance, parameters, sizes, at_least_one(tasks), cost, checks=True)
    context.emit(routine.call(node))
