"""Operators whose values follow from their places: Range, EyeLike and Trilu."""

from __future__ import annotations

import numpy as np

from intaglio.ir.dim import floordiv, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.view import whole
from intaglio.targets.c.printing.register import MEMORY, register_kind
from intaglio.targets.c.routine import ROWS, Routine, bits_type, reads, row_blocks, writes
from intaglio.targets.c.rules.table import anchor


def _ends(node: Node) -> list[Value]:
    """The start and the step of a range; its limit only tells how long it is."""
    return [node.input, node.needed(2)]


@anchor("Range", reads=_ends)
def number_range(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Each element from its number."""
    start, delta = _ends(node)
    kind, (_, suffix) = register_kind(node.output.dtype), MEMORY[node.output.dtype.name]
    blocks, tasks, cost = row_blocks(node.output.shape[0], node.output.dtype.itemsize, 1)
    sizes: list[tuple[str, Size]] = [("rows", node.output.shape[0]), *blocks]
    parameters = [reads("start", context.contiguous(start)), reads("delta", context.contiguous(delta))]
    parameters.append(writes("out", context.allocate(node.output)))
    wrap = "" if node.output.dtype.is_float else "(uint64_t)"
    is_rounded = suffix != kind and node.op.stash_type != 1
    marks = {"kind": kind, "suffix": suffix, "wrap": wrap, "rounded": f"IG_FUNCTION_{suffix}" if is_rounded else ""}
    helpers = _ROUNDED if is_rounded else ""
    context.emit(Routine("range", _RANGE, parameters, sizes, tasks, cost, helpers=helpers, marks=marks).call(node))


_ROUNDED = """
/* A number rounded to the type of the range. */
static inline float IG_FUNCTION_$suffix(float x)
{
    return ig_round_$suffix(ig_set_f32(x))[0];
}
"""


_RANGE = f"""
    const ig_${{kind}}_element first = ig_load_n_$suffix(start, 1)[0], step = ig_load_n_$suffix(delta, 1)[0];
    for ({ROWS}) {{
        const ig_${{kind}}_element count = $rounded((ig_${{kind}}_element)row);
        const ig_${{kind}}_element distance = $rounded((ig_${{kind}}_element)(${{wrap}}count * ${{wrap}}step));
        const ig_${{kind}}_element number = (ig_${{kind}}_element)(${{wrap}}first + ${{wrap}}distance);
        ig_store_n_$suffix(out + row, ig_set_$kind(number), 1);
    }}
"""


@anchor("EyeLike", reads=lambda node: [])
def eye_like(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Rows of zeros with a one where the diagonal crosses them."""
    shape, dtype = node.output.shape, node.output.dtype
    diagonal = int(node.op.k)
    row = shape[1] * dtype.itemsize
    blocks, tasks, cost = row_blocks(shape[0], row, 2 + floordiv(row, 16))
    sizes: list[tuple[str, Size]] = [("rows", shape[0]), ("columns", shape[1]), *blocks]
    one = whole(context.constant(np.ones(1, dtype.numpy)), (1,))
    bits = bits_type(dtype)
    parameters = [reads("one", one, bits), writes("out", context.allocate(node.output), bits)]
    marks = {"diagonal": str(max(-(2**62), min(2**62, diagonal))) + "LL"}
    context.emit(Routine("eye_like", _EYE, parameters, sizes, tasks, cost, marks=marks).call(node))


_EYE = f"""
    for ({ROWS}) {{
        __builtin_memset(out + row * columns, 0, (unsigned long)columns * sizeof *out);
        const int64_t place = row + ($diagonal);
        if (place >= 0 && place < columns)
            out[row * columns + place] = *one;
    }}
"""


@anchor("Trilu")
def trilu(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy the kept part of each row and clear the rest."""
    data, offset = node.input, node.optional(1)
    shape, bits = data.shape, bits_type(data.dtype)
    row, rows = shape[-1] * data.dtype.itemsize, product(shape[:-1])
    blocks, tasks, cost = row_blocks(rows, row, 3 + floordiv(row, 16))
    sizes: list[tuple[str, Size]] = [
        ("height", shape[-2]), ("columns", shape[-1]), ("matrices", product(shape[:-2])),
        ("rows", rows), *blocks,
    ]  # fmt: skip
    parameters = [reads("data", context.contiguous(data), bits)]
    if offset is not None:
        parameters.append(reads("offset", context.contiguous(offset)))
    parameters.append(writes("out", context.allocate(node.output), bits))
    is_upper = bool(node.op.upper)
    marks = {
        "bits": bits,
        "diagonal": "0" if offset is None else "(int64_t)*offset",
        "edge": "place" if is_upper else "place + 1",
        "from": "cut" if is_upper else "0",
        "to": "columns" if is_upper else "cut",
    }
    context.emit(Routine("trilu", _TRILU, parameters, sizes, tasks, cost, marks=marks).call(node))


_TRILU = f"""
    const int64_t given = $diagonal;
    const int64_t diagonal = given > columns ? columns : given < -height - 1 ? -height - 1 : given;
    for ({ROWS}) {{
        const int64_t place = row % height + diagonal, edge = $edge;
        const int64_t cut = edge < 0 ? 0 : edge > columns ? columns : edge;
        const int64_t from = $from, to = $to;
        const $bits *const x = data + row * columns;
        $bits *const y = out + row * columns;
        __builtin_memset(y, 0, (unsigned long)from * sizeof *y);
        __builtin_memcpy(y + from, x + from, (unsigned long)(to - from) * sizeof *y);
        __builtin_memset(y + to, 0, (unsigned long)(columns - to) * sizeof *y);
    }}
"""
