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
from intaglio.ops.indices import resolve_axis
from intaglio.targets.c.printing.register import MEMORY
from intaglio.targets.c.routine import (
    ROWS,
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
    PLACE,
    element_axes,
    inputs_of,
    refuse_unknown_tuples,
    tuple_length,
    tuple_sizes,
    tuple_text,
)
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import side_by_side

COLUMNS = 4096
"""Elements of a slice that one task scatters."""


def _combined(reduction: str, dtype: DType) -> str:
    """The C expression that combines `a`, the element so far, with `b`."""
    if reduction == "none":
        return "b"
    if dtype.name == "bool":
        return "a | b" if reduction in ("add", "max") else "a & b"
    if reduction in ("max", "min"):
        chosen = f"a {'>' if reduction == 'max' else '<'} b ? a : b"
        return f"a != a ? a : b != b ? b : {chosen}" if dtype.is_float else chosen
    sign = "+" if reduction == "add" else "*"
    return f"a {sign} b" if dtype.is_float else f"(uint64_t)a {sign} (uint64_t)b"


def _combine_function(reduction: str, dtype: DType) -> str:
    element, suffix = MEMORY[dtype.name]
    expression = _combined(reduction, dtype)
    if dtype.name in ("float16", "bfloat16") and reduction != "none":
        body = [
            f"    const float a = ig_load_n_{suffix}(&x, 1)[0], b = ig_load_n_{suffix}(&y, 1)[0];",
            f"    ig_store_n_{suffix}(&x, ig_set_f32({expression}), 1);",
            "    return x;",
        ]
    else:
        body = [f"    const {element} a = x, b = y;", "    (void)a;", f"    return ({element})({expression});"]
    if dtype.kind == "complex" and reduction != "none":
        part = memory_type(part_type(dtype))
        body = [_COMPLEX.replace("PART", part).replace("RESULT", _COMPLEX_RESULTS[reduction]).strip("\n")]
    head = f"static inline {element} IG_FUNCTION_combine({element} x, {element} y)"
    return "\n".join([PLACE, head, "{", *body, "}", ""])


_COMPLEX = """
    PART a[2], b[2];
    __builtin_memcpy(a, &x, sizeof x);
    __builtin_memcpy(b, &y, sizeof y);
    const PART result[2] = {RESULT};
    __builtin_memcpy(&x, result, sizeof x);
    return x;
"""

_COMPLEX_RESULTS = {
    "add": "a[0] + b[0], a[1] + b[1]",
    "mul": "a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]",
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
        ("rows", rows), *axes.sizes, *blocks, ("tasks", tasks),
    ]  # fmt: skip
    routine = Routine(
        f"scatter_elements_{_reduction(node)}",
        _SCATTER_ELEMENTS,
        _parameters(context, node),
        sizes,
        at_least_one(tasks),
        cost,
        checks=True,
        helpers=_combine_function(_reduction(node), data.dtype),
        marks={"line": axes.line_text},
    )
    context.emit(routine.call(node, updates))


_SCATTER_ELEMENTS = f"""
    if (unequal || (mismatch && rows * count > 0)) {{
        *fault = 1;
        return;
    }}
    for ({ROWS}) {{
$line
        for (int64_t k = 0; k < count; k++) {{
            const int64_t place = IG_FUNCTION_place((int64_t)index[from + k * index_step], extent);
            if (place < 0) {{
                *fault = 1;
                continue;
            }}
            const int64_t at = to + place * axis_step;
            out[at] = IG_FUNCTION_combine(out[at], update[from + k * index_step]);
        }}
    }}
"""


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
        ("tuples", tuples), ("inner", inner), *tuple_sizes(data, 0, length), ("tasks", tasks),
    ]  # fmt: skip
    routine = Routine(
        f"scatter_nd_{_reduction(node)}",
        _SCATTER_ND,
        _parameters(context, node),
        sizes,
        at_least_one(tasks),
        1 + tuples * (4 + floordiv(minimum(inner, COLUMNS), 8)),
        checks=True,
        helpers=_combine_function(_reduction(node), data.dtype),
        marks={"tuple": tuple_text(length, "row", "0")},
    )
    context.emit(routine.call(node, updates))


_SCATTER_ND = f"""
    if (mismatch) {{
        *fault = 1;
        return;
    }}
    const int64_t from = begin * {COLUMNS}, to = end * {COLUMNS} < inner ? end * {COLUMNS} : inner;
    for (int64_t row = 0; row < tuples; row++) {{
$tuple
        if (!is_inside) {{
            *fault = 1;
            continue;
        }}
        for (int64_t j = from; j < to; j++)
            out[at + j] = IG_FUNCTION_combine(out[at + j], update[row * inner + j]);
    }}
"""


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
    routine = Routine(
        "tensor_scatter",
        _TENSOR_SCATTER,
        [*parameters, writes("out", out, bits)],
        list(sizes.items()),
        at_least_one(sizes["tasks"]),
        1 + sizes["count"] * (4 + floordiv(sizes["inner"] * cache.dtype.itemsize, 16)),
        checks=True,
    )
    routine.marks = {
        "first": "0" if starts is None else "(int64_t)start[task / middle]",
        "fits": "1" if node.op.mode == "circular" else "first <= extent - count",
    }
    context.emit(routine.call(node, update))


def _cache_sizes(node: Node, starts: Value | None) -> dict[str, Dim]:
    cache, update = inputs_of(node)[:2]
    axis = resolve_axis(node.op.axis, cache.rank)
    pairs = [(cache.shape[a], update.shape[a]) for a in range(cache.rank) if a != axis]
    if starts is not None:
        pairs.append((starts.tensor.size, cache.shape[0]))
    _, extent, inner = three_parts(cache.shape, axis)
    return {
        "mismatch": disagreement(pairs), "extent": extent, "count": update.shape[axis], "inner": inner,
        "batches": cache.shape[0], "middle": product(cache.shape[1:axis]), "tasks": product(cache.shape[:axis]),
    }  # fmt: skip


_TENSOR_SCATTER = """
    if (mismatch || count > extent) {
        *fault = 1;
        return;
    }
    for (int64_t task = begin; task < end && task < tasks; task++) {
        const int64_t first = $first;
        if (first < 0 || !($fits)) {
            *fault = 1;
            continue;
        }
        for (int64_t k = 0; k < count; k++) {
            const int64_t place = (first % extent + k) % extent;
            __builtin_memcpy(out + (task * extent + place) * inner, update + (task * count + k) * inner,
                             (unsigned long)inner * sizeof *out);
        }
    }
"""


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
    parameters = [
        reads("index", side_by_side(context, indices)),
        reads("value", context.contiguous(values), bits),
        writes("out", context.allocate(node.output), bits),
    ]
    index = "index[row * inner + j]"
    wide = f"({index} > -9e18 && {index} < 9e18 ? (int64_t){index} : -1 - depth)"
    marks = {"index": wide if indices.dtype.is_float else f"(int64_t){index}"}
    context.emit(Routine("one_hot", _ONE_HOT, parameters, sizes, tasks, cost, marks=marks).call(node))


_ONE_HOT = f"""
    for ({ROWS}) {{
        for (int64_t j = 0; j < depth * inner; j++)
            out[row * depth * inner + j] = value[0];
        for (int64_t j = 0; j < inner; j++) {{
            const int64_t given = $index, place = given < 0 ? given + depth : given;
            if ((uint64_t)place < (uint64_t)depth)
                out[(row * depth + place) * inner + j] = value[1];
        }}
    }}
"""
