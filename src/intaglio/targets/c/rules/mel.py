"""MelWeightMatrix."""

from __future__ import annotations

from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.view import whole
from intaglio.targets.c.printing.register import MEMORY
from intaglio.targets.c.routine import ROWS, Routine, memory_type, reads, row_blocks, writes
from intaglio.targets.c.rules.table import anchor, late_sizes


def _inputs(node: Node) -> list[Value]:
    return [value for value in node.inputs if value is not None]


@late_sizes("MelTriangles", reads=lambda node: _inputs(node)[:2])
def mel_sizes(context: Context, node: Node) -> None:
    """The bins of the spectrum, and those on the mel scale."""
    bins, length = _inputs(node)[:2]
    lines = ["const int64_t found[2] = {(int64_t)length[0] / 2 + 1, (int64_t)bins[0]};"]
    lines.append("fault |= length[0] < 1 || bins[0] < 0;")
    unbound = context.unbound(node.output)
    lines += [f"value[{place}] = found[{axis}];" for place, (axis, _) in enumerate(unbound)]
    operands = [(name, memory_type(v.dtype), context.contiguous(v)) for name, v in (("length", length), ("bins", bins))]
    context.bind(node, [name for _, name in unbound], "\n".join([*lines, "(void)found;"]), operands)


@anchor("MelTriangles")
def mel_triangles(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The edges of all triangles first, then the rows of the matrix."""
    inputs = _inputs(node)
    rows, bins = node.output.shape
    edges = whole(context.temporary(INT64, bins + 2, "edges"), (bins + 2,))
    names = ("count", "length", "rate", "low", "high")
    parameters = [reads(name, context.contiguous(value)) for name, value in zip(names, inputs, strict=True)]
    sizes: list[tuple[str, Size]] = [("bins", bins), ("rows", rows)]
    cost = 1 + bins * 50
    first = Routine("mel_edges", _MEL_EDGES, [*parameters, writes("edge", edges)], sizes, 1, cost, checks=True)
    first.marks = {name: MEMORY[value.dtype.name][1] for name, value in zip(names, inputs, strict=True)}
    context.emit(first.call(node))
    blocks, tasks, cost = row_blocks(rows, bins * 8, 4 + bins * 2)
    parameters = [reads("edge", edges), writes("out", context.allocate(node.output))]
    context.emit(Routine("mel_rows", _MEL_ROWS, parameters, [*sizes, *blocks], tasks, cost).call(node))


_MEL_EDGES = """
    const int64_t samples = (int64_t)length[0], per_second = (int64_t)rate[0];
    if (samples < 1 || per_second < 1 || bins < 0) {
        *fault = 1;
        return;
    }
    const double bottom = 2595 * __builtin_log10(1 + (double)ig_load_n_$low(low, 1)[0] / 700);
    const double top = 2595 * __builtin_log10(1 + (double)ig_load_n_$high(high, 1)[0] / 700);
    for (int64_t i = 0; i < bins + 2; i++) {
        const double mel = bottom + (double)i * (top - bottom) / (double)(bins + 2);
        const double hertz = 700 * (double)(samples + 1) * (__builtin_pow(10, mel / 2595) - 1);
        const double place = __builtin_floor(hertz / (double)per_second);
        if (!(place >= 0 && place < (double)rows)) {
            *fault = 1;
            return;
        }
        edge[i] = (int64_t)place;
    }
"""

_MEL_ROWS = f"""
    for ({ROWS}) {{
        for (int64_t i = 0; i < bins; i++) {{
            const int64_t left = edge[i], peak = edge[i + 1], right = edge[i + 2];
            double weight = row == peak;
            if (row >= left && row < peak)
                weight = (double)(row - left) / (double)(peak - left);
            else if (row > peak && row < right)
                weight = (double)(right - row) / (double)(right - peak);
            out[row * bins + i] = weight;
        }}
    }}
"""
