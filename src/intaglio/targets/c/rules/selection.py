"""The places of extremes along an axis: ArgMax, ArgMin and TopK."""

from __future__ import annotations

from intaglio.ir.dim import floordiv, maximum, pieces
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node
from intaglio.ir.graph import Value as GraphValue
from intaglio.kernels.context import Context
from intaglio.kernels.elements import BITS
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.ops.shared.indices import resolve_axis
from intaglio.targets.c.kernel_file import Value, kernel
from intaglio.targets.c.printing.register import MEMORY, register_kind
from intaglio.targets.c.routine import (
    Routine,
    at_least_one,
    bits_type,
    memory_type,
    reads,
    row_blocks,
    three_parts,
    writes,
)
from intaglio.targets.c.rules.table import anchor

INFINITY_BITS = {
    "float16": "0x7c00",
    "bfloat16": "0x7f80",
    "float32": "0x7f800000u",
    "float64": "0x7ff0000000000000ull",
}
"""The bits of infinity: those of NaN are greater, apart from the sign."""

STRIP = 64
"""Columns that one task reduces where the axis is not the last: a whole number of vectors of every target."""


@anchor("ArgMax", "ArgMin", needs={"vectors"})
def arg_extreme(context: Context, node: Node, epilogue: Epilogue) -> None:
    """One pass that keeps the best element and its place in each lane; NaN is more extreme than any number."""
    data = node.input
    shape = data.shape or (1,)
    outer, extent, inner = three_parts(shape, resolve_axis(node.op.axis, len(shape)))
    sizes: list[tuple[str, Size]] = [("outer", outer), ("extent", extent), ("inner", inner)]
    if inner == 1:
        sizes.append(("rows", outer))
        blocks, tasks, cost = row_blocks(outer, extent * data.dtype.itemsize, 8 + floordiv(extent, 4))
        instance = kernel("arg_rows", _extreme_values(node, data.dtype))
    else:
        strips = pieces(inner, STRIP)
        sizes += [("strips", strips), ("rows", outer * strips)]
        row_bytes, row_cost = extent * (STRIP * data.dtype.itemsize), 8 + extent * (STRIP // 4)
        blocks, tasks, cost = row_blocks(outer * strips, row_bytes, row_cost)
        instance = kernel("arg_columns", _extreme_values(node, data.dtype), STRIP=STRIP)
    sizes += [*blocks, ("tasks", tasks)]
    parameters = [reads("data", context.contiguous(data)), writes("out", context.allocate(node.output))]
    hint = f"{node.op.name.lower()}_{'row' if inner == 1 else 'column'}"
    routine = Routine(hint, instance, parameters, sizes, at_least_one(tasks), cost, checks=True)
    context.emit(routine.call(node, data))


def _extreme_values(node: Node, dtype: DType) -> dict[str, Value]:
    """The parameters of the kernels of ArgMax and ArgMin for an element type."""
    kind, (element, suffix) = register_kind(dtype), MEMORY[dtype.name]
    return {
        "KIND": kind,
        "ELEMENT": element,
        "SUFFIX": suffix,
        "KIND_BITS": BITS[kind],
        "IS_FLOAT": dtype.is_float,
        "IS_GREATEST": node.op.name == "ArgMax",
        "TAKES_LAST": bool(node.op.select_last_index),
    }


def _refuse_top(node: Node) -> Refusal | None:
    return None if len(node.outputs) == 2 else Refusal(Cause.FORM, "TopK needs two outputs")


@anchor("TopK", refuse=_refuse_top, reads=lambda node: [node.input])
def top_k(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A heap of the best K so far; a key is an element's rank and then its place, so keys differ and order is total."""
    data, (values, places) = node.input, node.outputs
    axis = resolve_axis(node.op.axis, data.rank)
    outer, extent, inner = three_parts(data.shape, axis)
    count, rows = values.shape[axis], outer * inner
    row_bytes = (extent + 4 * count) * data.dtype.itemsize
    blocks, tasks, cost = row_blocks(rows, row_bytes, 20 + extent * 2 + count * 20)
    sizes: list[tuple[str, Size]] = [
        ("extent", extent), ("count", count), ("inner", inner), ("outer", outer),
        ("rows", rows), *blocks,
    ]  # fmt: skip
    parameters = [
        reads("data", context.contiguous(data)),
        writes("out", context.allocate(values)),
        writes("place", _place_view(context, places)),
    ]
    instance = kernel("top_k", _top_values(data.dtype, bool(node.op.largest)), IS_CONTIGUOUS=inner == 1)
    routine = Routine("top_k", instance, parameters, sizes, tasks, cost, checks=True)
    routine.scratch = maximum(count, 1) * (16 if data.dtype.itemsize == 8 else 8)
    context.emit(routine.call(node, data))


def _top_values(dtype: DType, is_largest: bool) -> dict[str, Value]:
    """How elements of a type are compared, as parameters of the kernel."""
    return {
        "ELEMENT": memory_type(dtype),
        "IS_LARGEST": is_largest,
        "IS_COMPARED": dtype.name not in ("float16", "bfloat16"),
        "IS_WIDE": dtype.itemsize == 8,
        **rank_values(dtype),
    }


def rank_values(dtype: DType) -> dict[str, Value]:
    """How a kernel orders elements of a type as NumPy sorts them."""
    return {
        "BITS": bits_type(dtype),
        "IS_FLOAT": dtype.is_float,
        "IS_SIGNED": dtype.kind == "int",
        "INFINITY_BITS": INFINITY_BITS.get(dtype.name, "0"),
    }


def _place_view(context: Context, places: GraphValue) -> View:
    if places.uses or places.is_output:
        return context.allocate(places)
    return whole(context.temporary(places.dtype, places.tensor.size), places.shape)
