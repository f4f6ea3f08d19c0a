"""Operators that keep some of their elements: NonZero, Compress, Unique and NonMaxSuppression.

A first kernel finds out which and how many, the driver takes the number and allocates, a second kernel writes them.
"""

from __future__ import annotations

from intaglio.ir.dim import Dim, floordiv, maximum, minimum
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.found_sizes import bind_count, fresh_numbers, total
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View
from intaglio.ops.shared.indices import known_integers, resolve_axis
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import Routine, bits_type, numbered, part_type, reads, row_blocks, three_parts, writes
from intaglio.targets.c.rules.selection import rank_values
from intaglio.targets.c.rules.table import anchor, late_sizes

BLOCK = 16384
"""Elements that one task of NonZero looks at."""


def _bind_total(context: Context, node: Node, counts: View, most: Dim) -> None:
    """Bind the one unknown size to the sum of some numbers, which is at most `most`."""
    bind_count(context, node, total(context, counts), most=most)


def _elements(dtype: DType) -> dict[str, Setting]:
    """What the kernels that look for zeros know of elements."""
    return {"BITS": bits_type(dtype), "IS_FLOAT": dtype.is_float, "IS_COMPLEX": dtype.kind == "complex", "BLOCK": BLOCK}


def _count_set(context: Context, node: Node) -> None:
    """Count what is not zero in each block."""
    data = node.input
    elements = data.tensor.size
    blocks = floordiv(elements + (BLOCK - 1), BLOCK)
    counts = fresh_numbers(context, blocks, "counts")
    parameters = [reads("data", context.contiguous(data), bits_type(data.dtype)), writes("counts", counts)]
    instance = kernel("count_nonzero", _elements(data.dtype))
    routine = Routine("count_nonzero", instance, parameters, [("total", elements)], blocks, BLOCK // 4)
    context.emit(routine.call(node, data))
    context.notes[node] = counts
    _bind_total(context, node, counts, elements)


late_sizes("NonZero")(_count_set)


@anchor("NonZero")
def nonzero(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Write the indices of each block behind those of the blocks before it."""
    data, counts = node.input, context.notes[node]
    bits, result = bits_type(data.dtype), context.allocate(node.output)
    sizes: list[tuple[str, Size]] = [("total", data.tensor.size), ("found", node.output.shape[1])]
    sizes += numbered("extent", data.shape or (1,))
    parameters = [reads("data", context.contiguous(data), bits), reads("counts", counts), writes("out", result)]
    instance = kernel("nonzero", _elements(data.dtype), AXES=data.rank, PLACES=max(1, data.rank))
    context.emit(Routine("nonzero", instance, parameters, sizes, counts.shape[0], BLOCK // 2).call(node, data))


@late_sizes("Compress")
def compress_sizes(context: Context, node: Node) -> None:
    """List the places of what is kept."""
    data, condition = node.input, node.needed(1)
    extent = data.tensor.size if node.op.axis is None else data.shape[resolve_axis(node.op.axis, data.rank)]
    length = condition.shape[0]
    places, count = fresh_numbers(context, length, "places"), fresh_numbers(context, 1, "count")
    parameters = [reads("flags", context.contiguous(condition)), writes("places", places), writes("count", count)]
    sizes: list[tuple[str, Size]] = [("length", length), ("extent", extent)]
    routine = Routine("list_flags", kernel("list_flags"), parameters, sizes, 1, 1 + length, checks=True)
    context.emit(routine.call(node, condition))
    context.notes[node] = places
    _bind_total(context, node, count, length)


@anchor("Compress")
def compress(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy the slices that are kept."""
    data = node.input
    if node.op.axis is None:
        outer, extent, inner = 1, data.tensor.size, 1
        kept = node.output.shape[0]
    else:
        axis = resolve_axis(node.op.axis, data.rank)
        outer, extent, inner = three_parts(data.shape, axis)
        kept = node.output.shape[axis]
    _copy_slices(context, node, context.notes[node], (outer, extent, inner), kept)


def _copy_slices(context: Context, node: Node, places: View, parts: tuple[Dim, Dim, Dim], kept: Dim) -> None:
    """Copy the slices at `kept` places to the first output; `parts` are before, along and behind the axis."""
    (data, output), (outer, extent, inner) = (node.input, node.outputs[0]), parts
    bits, row = bits_type(data.dtype), inner * data.dtype.itemsize
    blocks, tasks, cost = row_blocks(outer * kept, row, 2 + floordiv(row, 16))
    sizes: list[tuple[str, Size]] = [("extent", extent), ("kept", kept), ("inner", inner)]
    sizes += [("rows", outer * kept), *blocks]
    parameters = [reads("data", context.contiguous(data), bits), reads("places", places)]
    parameters.append(writes("out", context.allocate(output), bits))
    instance = kernel("copy_slices", ELEMENT=bits)
    context.emit(Routine("copy_slices", instance, parameters, sizes, tasks, cost).call(node))


def _refuse_unique(node: Node) -> Refusal | None:
    dtype = part_type(node.input.dtype)
    if dtype.name not in ("float16", "bfloat16", "float32", "float64", "bool") and dtype.kind not in ("int", "uint"):
        return Refusal(Cause.ELEMENTS, f"Unique of {dtype} is not compiled")
    return None


@late_sizes("Unique", refuse=_refuse_unique)
def unique_sizes(context: Context, node: Node) -> None:
    """Sort the slices, number those that differ, and list the first of each and how often it is there."""
    data = node.input
    outer, extent, inner = _slices(node)
    order = fresh_numbers(context, extent * 2, "order")
    groups = fresh_numbers(context, extent, "groups")
    firsts, counts = fresh_numbers(context, extent, "firsts"), fresh_numbers(context, extent, "counts")
    found = fresh_numbers(context, 1, "found")
    part = part_type(data.dtype)
    parameters = [reads("data", context.contiguous(data), bits_type(part)), writes("order", order)]
    parameters += [writes("groups", groups), writes("firsts", firsts), writes("counts", counts)]
    parameters.append(writes("found", found))
    parts = data.dtype.itemsize // part.itemsize
    sizes: list[tuple[str, Size]] = [("outer", outer), ("extent", extent), ("inner", inner * parts)]
    cost = 1 + extent * outer * inner * parts * 20
    instance = kernel("unique", rank_values(part), IS_COMPLEX=parts == 2, IS_SORTED=bool(node.op.sorted))
    context.emit(Routine("unique", instance, parameters, sizes, 1, cost).call(node, data))
    context.notes[node] = firsts, groups, counts
    _bind_total(context, node, found, extent)


def _slices(node: Node) -> tuple[Dim, Dim, Dim]:
    """What lies before, along and behind the axis whose slices are compared."""
    data = node.input
    if node.op.axis is None:
        return 1, data.tensor.size, 1
    return three_parts(data.shape, resolve_axis(node.op.axis, data.rank))


@anchor("Unique", refuse=_refuse_unique)
def unique(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy the first slice of each group, and the numbers that the sizes' kernel has found."""
    data, (firsts, groups, counts) = node.input, context.notes[node]
    found = node.outputs[0].shape[0 if node.op.axis is None else resolve_axis(node.op.axis, data.rank)]
    _copy_slices(context, node, firsts, _slices(node), found)
    for value, numbers in zip(node.outputs[1:], (firsts, groups, counts), strict=False):
        context.copy(value, View(numbers.buffer, 0, value.shape, (1,)), into=context.allocate(value))


def _suppression_inputs(node: Node) -> list[Value | None]:
    return [*node.inputs, *([None] * (5 - len(node.inputs)))]


@late_sizes("NonMaxSuppression")
def suppression_sizes(context: Context, node: Node) -> None:
    """Choose the boxes of each class of each batch."""
    boxes, scores, most, overlap, least = _suppression_inputs(node)
    assert boxes is not None
    assert scores is not None
    pairs, count = scores.shape[0] * scores.shape[1], scores.shape[2]
    chosen, counts = fresh_numbers(context, pairs * count, "chosen"), fresh_numbers(context, pairs, "counts")
    parameters = [reads("boxes", context.contiguous(boxes)), reads("scores", context.contiguous(scores))]
    options = (("most", most), ("overlap", overlap), ("least", least))
    parameters += [reads(name, context.contiguous(value)) for name, value in options if value is not None]
    parameters += [writes("chosen", chosen), writes("counts", counts)]
    sizes: list[tuple[str, Size]] = [
        ("pairs", pairs), ("kinds", scores.shape[1]), ("count", count), ("batches", scores.shape[0]),
        ("box_count", boxes.shape[1]), ("box_batches", boxes.shape[0]), ("parts", boxes.shape[2]),
    ]  # fmt: skip
    instance = kernel(
        "suppress",
        IS_CENTERED=bool(node.op.center_point_box),
        HAS_MOST=most is not None,
        HAS_OVERLAP=overlap is not None,
        HAS_LEAST=least is not None,
    )
    cost, scratch = 100 + count * 30, (count + 1) * 56
    routine = Routine("suppress", instance, parameters, sizes, maximum(pairs, 1), cost, scratch, checks=True)
    context.emit(routine.call(node, scores))
    context.notes[node] = chosen, counts
    limit = [] if most is None else known_integers(most)
    _bind_total(context, node, counts, pairs * (count if limit is None else minimum(count, max([0, *limit]))))


@anchor("NonMaxSuppression")
def suppression(context: Context, node: Node, epilogue: Epilogue) -> None:
    """List the chosen boxes with their batch and class."""
    chosen, counts = context.notes[node]
    scores = node.needed(1)
    pairs = scores.shape[0] * scores.shape[1]
    sizes: list[tuple[str, Size]] = [("pairs", pairs), ("kinds", scores.shape[1]), ("count", scores.shape[2])]
    parameters = [reads("chosen", chosen), reads("counts", counts), writes("out", context.allocate(node.output))]
    cost = 1 + pairs * 4
    context.emit(Routine("list_chosen", kernel("list_chosen"), parameters, sizes, 1, cost).call(node))
