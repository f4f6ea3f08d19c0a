"""Operators whose values follow from their places: Range, EyeLike and Trilu."""

from __future__ import annotations

import numpy as np

from intaglio.ir.dim import floordiv, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.view import whole
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import Routine, bits_type, memory_type, reads, row_blocks, writes
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import HALVES, number_values


def _ends(node: Node) -> list[Value]:
    """The start and the step of a range; its limit only tells how long it is."""
    return [node.input, node.needed(2)]


@anchor("Range", reads=_ends)
def number_range(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Each element from its number."""
    start, delta = _ends(node)
    dtype, count = node.output.dtype, node.output.shape[0]
    blocks, tasks, cost = row_blocks(count, dtype.itemsize, 1)
    sizes: list[tuple[str, Size]] = [("count", count), *blocks]
    parameters = [reads("start", context.contiguous(start)), reads("delta", context.contiguous(delta))]
    parameters.append(writes("out", context.allocate(node.output)))
    is_rounded = dtype.name in HALVES and node.op.stash_type != 1
    values = number_values(dtype)
    instance = kernel("number_range", values, IS_INTEGER=not dtype.is_float, IS_ROUNDED=is_rounded)
    context.emit(Routine("range", instance, parameters, sizes, tasks, cost).call(node))


@anchor("EyeLike", reads=lambda node: [])
def eye_like(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Rows of zeros with a one where the diagonal crosses them."""
    shape, dtype = node.output.shape, node.output.dtype
    diagonal = max(-(2**62), min(2**62, int(node.op.k)))
    row = shape[1] * dtype.itemsize
    blocks, tasks, cost = row_blocks(shape[0], row, 2 + floordiv(row, 16))
    sizes: list[tuple[str, Size]] = [("rows", shape[0]), ("columns", shape[1]), ("diagonal", diagonal), *blocks]
    one = whole(context.constant(np.ones(1, dtype.numpy)), (1,))
    bits = bits_type(dtype)
    parameters = [reads("one", one, bits), writes("out", context.allocate(node.output), bits)]
    instance = kernel("eye_like", ELEMENT=bits)
    context.emit(Routine("eye_like", instance, parameters, sizes, tasks, cost).call(node))


@anchor("Trilu")
def trilu(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy the kept part of each row and clear the rest."""
    data, offset = node.input, node.optional(1)
    shape, bits = data.shape, bits_type(data.dtype)
    row, rows = shape[-1] * data.dtype.itemsize, product(shape[:-1])
    blocks, tasks, cost = row_blocks(rows, row, 3 + floordiv(row, 16))
    sizes: list[tuple[str, Size]] = [("height", shape[-2]), ("columns", shape[-1]), ("rows", rows), *blocks]
    parameters = [reads("data", context.contiguous(data), bits)]
    if offset is not None:
        parameters.append(reads("offset", context.contiguous(offset)))
    parameters.append(writes("out", context.allocate(node.output), bits))
    instance = kernel(
        "trilu",
        ELEMENT=bits,
        IS_UPPER=bool(node.op.upper),
        HAS_OFFSET=offset is not None,
        OFFSET="int64_t" if offset is None else memory_type(offset.dtype),
    )
    context.emit(Routine("trilu", instance, parameters, sizes, tasks, cost).call(node))
