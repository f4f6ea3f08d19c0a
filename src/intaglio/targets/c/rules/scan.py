"""Operators that walk along an axis: CumSum, CumProd and ReverseSequence."""

from __future__ import annotations

from intaglio.ir.dim import Dim, floordiv, pieces, product, symbol
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.ops.indices import known_integers
from intaglio.targets.c.backend import machine
from intaglio.targets.c.printing.register import MEMORY, register_kind
from intaglio.targets.c.routine import (
    ROWS,
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
from intaglio.targets.c.rules.table import anchor


def _scan_axis(node: Node) -> int | None:
    """The axis, counted from the front, where it is known and valid."""
    numbers, rank = known_integers(node.inputs[1]), node.input.rank
    if numbers is None or len(numbers) != 1 or not -rank <= numbers[0] < rank:
        return None
    return numbers[0] % rank


def _is_late(node: Node) -> bool:
    """Whether the run tells the axis."""
    return known_integers(node.inputs[1]) is None


def _refuse_scan(node: Node) -> Refusal | None:
    return None if _is_late(node) or _scan_axis(node) is not None else Refusal(Cause.FORM, "its axis is out of range")


def _scan_reads(node: Node) -> list[Value]:
    return [value for value in node.inputs[: 2 if _is_late(node) else 1] if value is not None]


def _scan_parts(context: Context, node: Node) -> tuple[Dim, Dim, Dim]:
    """The elements before the axis, along it and behind it; the driver works them out where the run tells the axis."""
    data, axis = node.input, _scan_axis(node)
    if axis is not None:
        return three_parts(data.shape, axis)
    given = node.needed(1)
    names = [f"{node.output.name}.{part}" for part in ("outer", "extent", "inner")]
    extents: list[tuple[str, Size]] = [(f"given{i}", extent) for i, extent in enumerate(data.shape)]
    listed = ", ".join(name for name, _ in extents) or "0"
    body = _LATE_AXIS.replace("$rank", str(data.rank)).replace("$given", listed)
    operands = [("axis", memory_type(given.dtype), context.contiguous(given))]
    context.bind(node, names, body, operands, extents)
    outer, extent, inner = (symbol(name) for name in names)
    return outer, extent, inner


_LATE_AXIS = """
const int64_t given[] = {$given}, at = (int64_t)axis[0] < 0 ? (int64_t)axis[0] + $rank : (int64_t)axis[0];
fault = at < 0 || at >= $rank;
value[0] = value[1] = value[2] = 1;
for (int64_t i = 0; i < $rank; i++)
    value[i < at ? 0 : i == at ? 1 : 2] *= given[i];
"""


@anchor("CumSum", "CumProd", refuse=_refuse_scan, reads=_scan_reads)
def cumulative(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A running total in order along the axis, for a vector of columns at once; a row is such a vector."""
    data = node.input
    outer, extent, inner = _scan_parts(context, node)
    is_row = inner == 1
    lanes = 1 if is_row else machine(context).lanes
    vectors = pieces(inner, lanes)
    rows = outer * vectors
    blocks, tasks, cost = row_blocks(rows, extent * (data.dtype.itemsize * lanes), 8 + extent)
    sizes: list[tuple[str, Size]] = [
        ("outer", outer), ("extent", extent), ("inner", inner),
        ("vectors", vectors), ("rows", rows), *blocks,
    ]  # fmt: skip
    parameters = [reads("data", context.contiguous(data)), writes("out", context.allocate(node.output))]
    routine = Routine(node.op.name.lower(), _SCAN_ROW if is_row else _SCAN_COLUMNS, parameters, sizes, tasks, cost)
    routine.marks = _scan_marks(node)
    context.emit(routine.call(node))


def _scan_marks(node: Node) -> dict[str, str]:
    dtype = node.input.dtype
    return {
        "kind": register_kind(dtype),
        "suffix": MEMORY[dtype.name][1],
        "sign": "+" if node.op.name == "CumSum" else "*",
        "identity": "0" if node.op.name == "CumSum" else "1",
        "wrap": "" if dtype.is_float else "(uint64_t)",
        "k": "extent - 1 - step" if node.op.reverse else "step",
        "kept": "total" if node.op.exclusive else "after",
    }


_SCAN_ROW = f"""
    for ({ROWS}) {{
        ig_${{kind}}_element total = $identity;
        for (int64_t step = 0; step < extent; step++) {{
            const int64_t at = row * extent + ($k);
            const ig_${{kind}}_element now = ig_load_n_$suffix(data + at, 1)[0];
            const ig_${{kind}}_element after = (ig_${{kind}}_element)(${{wrap}}total $sign ${{wrap}}now);
            ig_store_n_$suffix(out + at, ig_set_$kind($kept), 1);
            total = after;
        }}
    }}
"""

_SCAN_COLUMNS = f"""
    for ({ROWS}) {{
        const int64_t o = row / vectors, c = row % vectors * IG_LANES;
        const int64_t n = inner - c < IG_LANES ? inner - c : IG_LANES;
        ig_$kind total = ig_set_$kind($identity);
        for (int64_t step = 0; step < extent; step++) {{
            const int64_t at = (o * extent + ($k)) * inner + c;
            const ig_$kind now = n == IG_LANES ? ig_load_$suffix(data + at) : ig_load_n_$suffix(data + at, n);
            const ig_$kind after = total $sign now;
            if (n == IG_LANES)
                ig_store_$suffix(out + at, $kept);
            else
                ig_store_n_$suffix(out + at, $kept, n);
            total = after;
        }}
    }}
"""


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
        ("batch", data.shape[batch]), ("second", data.shape[1]), ("inner", inner),
        ("rows", rows), *blocks, ("tasks", tasks),
    ]  # fmt: skip
    bits = bits_type(data.dtype)
    parameters = [reads("data", context.contiguous(data), bits), reads("length", context.contiguous(lengths))]
    parameters.append(writes("out", context.allocate(node.output), bits))
    routine = Routine("reverse_sequence", _REVERSE, parameters, sizes, at_least_one(tasks), cost, checks=True)
    routine.marks = {
        "batch": "first" if is_batch_first else "other",
        "time": "other" if is_batch_first else "first",
        "source": "first * second + mirrored" if is_batch_first else "mirrored * second + other",
    }
    context.emit(routine.call(node))


_REVERSE = f"""
    if (mismatch) {{
        *fault = 1;
        return;
    }}
    for (int64_t i = 0; !rows && i < batch; i++)
        if (length[i] < 0 || (int64_t)length[i] > steps)
            *fault = 1;
    for ({ROWS}) {{
        const int64_t first = row / second, other = row % second, count = (int64_t)length[$batch];
        if (count < 0 || count > steps) {{
            *fault = 1;
            continue;
        }}
        const int64_t mirrored = $time < count ? count - 1 - $time : $time;
        __builtin_memcpy(out + row * inner, data + ($source) * inner, (unsigned long)inner * sizeof *out);
    }}
"""
