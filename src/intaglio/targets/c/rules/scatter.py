"""Operators that write elements at indices which are data.

Elements that one task writes are written by no other, and in the order of the updates, so the result does not depend on
threads. Half-precision elements that are combined are rounded at each step.
"""

from __future__ import annotations

from intaglio.ir.dim import Dim, floordiv, minimum, pieces, product
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.ops.shared.indices import resolve_axis
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.printing.register import MEMORY
from intaglio.targets.c.routine import (
    Parameter,
    Routine,
    at_least_one,
    bits_type,
    disagreement,
    memory_type,
    part_type,
    reads,
    row_blocks,
    three_parts,
    writes,
)
from intaglio.targets.c.rules.places import (
    element_axes,
    inputs_of,
    refuse_unknown_tuples,
    tuple_length,
    tuple_sizes,
)
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import HALVES, side_by_side

COLUMNS = 4096
"""Elements of a slice that one task scatters."""


def _combination(node: Node, dtype: DType) -> dict[str, Setting]:
    """How the kernels of a node combine elements, as their parameters."""
    reduction, element = _reduction(node), memory_type(dtype)
    is_half = dtype.name in HALVES and reduction != "none"
    return {
        "ELEMENT": element,
        "NUMBER": "float" if is_half else element,
        "IS_HALF": is_half,
        "SUFFIX": MEMORY[dtype.name][1],
        "IS_SUM": reduction == "add",
        "IS_PRODUCT": reduction == "mul",
        "IS_MAXIMUM": reduction == "max",
        "IS_MINIMUM": reduction == "min",
        "IS_FLOAT": dtype.is_float,
        "IS_BOOL": dtype.name == "bool",
        "IS_COMPLEX": dtype.kind == "complex" and reduction != "none",
        "PART": memory_type(part_type(dtype)),
        "INDEX": memory_type(inputs_of(node)[1].dtype),
    }


def _reduction(node: Node) -> str:
    return node.op.reduction


def _parameters(context: Context, node: Node) -> list[Parameter]:
    """The indices, the updates, and the output, into which the data has been copied."""
    data, indices, updates = inputs_of(node)
    index, update = context.contiguous(indices), context.contiguous(updates)
    out = context.copy(data, context.view(data), into=context.allocate(node.output))
    return [reads("index", index), reads("update", update), writes("out", out)]


@anchor("ScatterElements")
def scatter_elements(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Lines along the axis are independent: a task is a block of them."""
    data, indices, updates = inputs_of(node)
    axis = resolve_axis(node.op.axis, data.rank)
    axes = element_axes(indices, data, axis)
    rows, count = product(axes.indices[a] for a in axes.others), axes.indices[axes.axis]
    blocks, tasks, cost = row_blocks(rows, count * (4 * data.dtype.itemsize), 8 + count * 2)
    sizes: list[tuple[str, Size]] = [
        ("unequal", disagreement(list(zip(indices.shape, updates.shape, strict=True)))),
        ("mismatch", disagreement([], [(axes.indices[a], axes.data[a]) for a in axes.others])),
        ("rows", rows), *axes.sizes, *blocks,
    ]  # fmt: skip
    instance = kernel("scatter_elements", _combination(node, data.dtype), OTHERS=len(axes.others))
    hint, parameters = f"scatter_elements_{_reduction(node)}", _parameters(context, node)
    routine = Routine(hint, instance, parameters, sizes, at_least_one(tasks), cost, checks=True)
    context.emit(routine.call(node, updates))


def _refuse_scatter_nd(node: Node) -> Refusal | None:
    data, indices, updates = inputs_of(node)
    refusal = refuse_unknown_tuples(node)
    if refusal is not None:
        return refusal
    length = tuple_length(indices)
    is_fitting = length <= data.rank and updates.rank == indices.rank - 1 + data.rank - length
    return (
        None
        if is_fitting
        else Refusal(Cause.FORM, f"updates of {updates.type} do not fit {data.type} and {indices.type}")
    )


@anchor("ScatterND", refuse=_refuse_scatter_nd)
def scatter_nd(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Several tuples may name one slice, so a task takes all tuples, and a range of columns of the slices."""
    data, indices, updates = inputs_of(node)
    length = tuple_length(indices)
    expected = (*indices.shape[:-1], *data.shape[length:])
    tuples, inner = product(indices.shape[:-1]), product(data.shape[length:])
    tasks = pieces(inner, COLUMNS)
    sizes: list[tuple[str, Size]] = [
        ("mismatch", disagreement(list(zip(updates.shape, expected, strict=True)))),
        ("tuples", tuples), ("inner", inner), *tuple_sizes(data, 0, length),
    ]  # fmt: skip
    cost = 1 + tuples * (4 + floordiv(minimum(inner, COLUMNS), 8))
    values = _combination(node, data.dtype)
    instance = kernel("scatter_nd", values, LENGTH=length, PLACES=max(1, length), COLUMNS=COLUMNS)
    hint, parameters = f"scatter_nd_{_reduction(node)}", _parameters(context, node)
    routine = Routine(hint, instance, parameters, sizes, at_least_one(tasks), cost, checks=True)
    context.emit(routine.call(node, updates))


@anchor("TensorScatter")
def tensor_scatter(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy the cache, then rows of the update over it; a row is what lies behind the axis."""
    cache, update = inputs_of(node)[:2]
    starts = node.optional(2)
    bits = bits_type(cache.dtype)
    parameters = [reads("update", context.contiguous(update), bits)]
    if starts is not None:
        parameters.append(reads("start", context.contiguous(starts)))
    out = context.copy(cache, context.view(cache), into=context.allocate(node.output))
    sizes = _cache_sizes(node, starts)
    instance = kernel(
        "tensor_scatter",
        ELEMENT=bits,
        HAS_START=starts is not None,
        START="int64_t" if starts is None else memory_type(starts.dtype),
        IS_CIRCULAR=node.op.mode == "circular",
    )
    parameters.append(writes("out", out, bits))
    cost = 1 + sizes["count"] * (4 + floordiv(sizes["inner"] * cache.dtype.itemsize, 16))
    tasks, given = at_least_one(sizes["tasks"]), list(sizes.items())
    context.emit(Routine("tensor_scatter", instance, parameters, given, tasks, cost, checks=True).call(node, update))


def _cache_sizes(node: Node, starts: Value | None) -> dict[str, Dim]:
    cache, update = inputs_of(node)[:2]
    axis = resolve_axis(node.op.axis, cache.rank)
    pairs = [(cache.shape[a], update.shape[a]) for a in range(cache.rank) if a != axis]
    if starts is not None:
        pairs.append((starts.tensor.size, cache.shape[0]))
    _, extent, inner = three_parts(cache.shape, axis)
    return {
        "mismatch": disagreement(pairs), "extent": extent, "count": update.shape[axis], "inner": inner,
        "middle": product(cache.shape[1:axis]), "tasks": product(cache.shape[:axis]),
    }  # fmt: skip


def _refuse_one_hot(node: Node) -> Refusal | None:
    indices, _, values = inputs_of(node)
    if indices.dtype.name not in MEMORY or indices.dtype.name == "bool":
        return Refusal(Cause.ELEMENTS, f"OneHot of {indices.dtype} indices is not compiled yet")
    return None if values.shape == (2,) else Refusal(Cause.FORM, "OneHot needs two values")


@anchor("OneHot", refuse=_refuse_one_hot, reads=lambda node: [inputs_of(node)[0], inputs_of(node)[2]])
def one_hot(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Fill the places of each index with the off value, then set one; a row is all that lies before the new axis."""
    indices, _, values = inputs_of(node)
    axis = resolve_axis(node.op.axis, node.output.rank)
    outer, depth, inner = three_parts(node.output.shape, axis)
    row = depth * inner * node.output.dtype.itemsize
    blocks, tasks, cost = row_blocks(outer, row, 4 + floordiv(row, 16) + inner)
    sizes: list[tuple[str, Size]] = [("rows", outer), ("depth", depth), ("inner", inner), *blocks]
    bits = bits_type(node.output.dtype)
    index = reads("index", side_by_side(context, indices))
    parameters = [
        index,
        reads("value", context.contiguous(values), bits),
        writes("out", context.allocate(node.output), bits),
    ]
    instance = kernel("one_hot", ELEMENT=bits, INDEX=index.element, IS_FLOAT=indices.dtype.is_float)
    context.emit(Routine("one_hot", instance, parameters, sizes, tasks, cost).call(node))
