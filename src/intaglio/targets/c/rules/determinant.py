"""Det and inverses: elimination with partial pivoting, one matrix a task."""

from __future__ import annotations

from intaglio.ir.dim import floordiv, product
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import Routine, disagreement, memory_type, reads, writes
from intaglio.targets.c.rules.places import inputs_of
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, give_narrow, side_by_side, wide_result


@anchor("Det")
def determinant(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The product of the pivots; a matrix is copied to scratch memory and eliminated there."""
    (data,), output = inputs_of(node), node.output
    dtype = computed(data.dtype)
    source, result = side_by_side(context, data), wide_result(context, output)
    side = data.shape[-1]
    sizes: list[tuple[str, Size]] = [("mismatch", disagreement([(side, data.shape[-2])])), ("side", side)]
    parameters = [reads("x", source), writes("out", result)]
    instance = kernel("determinant", ELEMENT=memory_type(dtype), IS_DOUBLE=dtype.itemsize == 8)
    cost, scratch = 10 + floordiv(side * side * (side + 8), 8), side * side * dtype.itemsize
    routine = Routine("determinant", instance, parameters, sizes, product(data.shape[:-2]), cost, scratch, checks=True)
    context.emit(routine.call(node, data))
    give_narrow(context, output, result)


@anchor("MatrixInverse")
def inverse(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Rows of the matrix and of the identity are reduced together, in double precision."""
    (data,), output = inputs_of(node), node.output
    source, result = side_by_side(context, data), wide_result(context, output)
    side = data.shape[-1]
    sizes: list[tuple[str, Size]] = [("mismatch", disagreement([(side, data.shape[-2])])), ("side", side)]
    parameters = [reads("x", source), writes("out", result)]
    instance = kernel("inverse", NUMBER=memory_type(computed(data.dtype)))
    cost, scratch = 10 + floordiv(side * side * (side + 8), 2), side * side * 16
    routine = Routine("inverse", instance, parameters, sizes, product(data.shape[:-2]), cost, scratch, checks=True)
    context.emit(routine.call(node, data))
    give_narrow(context, output, result)
