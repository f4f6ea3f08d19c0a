"""DynamicQuantizeLinear: the range of a tensor in one pass, and its bytes in a second one."""

from __future__ import annotations

from intaglio.ir.dim import Dim
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.view import whole
from intaglio.targets.c.routine import Routine, reads, writes
from intaglio.targets.c.rules.table import anchor

BLOCK = 16384
"""Elements that one task reads."""


@anchor("DynamicQuantizeLinear")
def dynamic_quantize(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Range of each block, range of all with the scale and zero point it needs, bytes."""
    x = node.input
    data = context.contiguous(x)
    count: Dim = x.tensor.size
    blocks = (count + BLOCK - 1) // BLOCK
    ranges = whole(context.temporary(FLOAT32, blocks * 2 + 2, f"{x.name}.range"), (blocks * 2 + 2,))
    y, scale, zero_point = (context.allocate(value) for value in node.outputs)
    sizes = [("count", count), ("blocks", blocks)]
    cost = BLOCK // 8
    found = [reads("x", data), writes("ranges", ranges)]
    context.emit(Routine("range_of_blocks", _RANGES, found, sizes, blocks, cost).call(node, x))
    chosen = [reads("ranges", ranges), writes("scale", scale), writes("zero_point", zero_point)]
    context.emit(Routine("scale_of_range", _SCALE, chosen, sizes[1:], 1, 1 + blocks).call(node))
    parts = [reads("x", data), reads("scale", scale), reads("zero_point", zero_point), writes("y", y)]
    context.emit(Routine("quantize", _QUANTIZE, parts, sizes, blocks, cost).call(node, x))


_RANGES = f"""
    (void)scratch, (void)blocks;
    for (int64_t task = begin; task < end; task++) {{
        const int64_t first = task * {BLOCK}, last = count - first < {BLOCK} ? count : first + {BLOCK};
        ig_f32 low = {{0}}, high = {{0}};
        int64_t k = first;
        for (; k + IG_LANES <= last; k += IG_LANES) {{
            const ig_f32 v = ig_load_f32(x + k);
            low = ig_min_f32(low, v);
            high = ig_max_f32(high, v);
        }}
        if (k < last) {{
            const ig_f32 v = ig_load_n_f32(x + k, last - k);
            low = ig_min_f32(low, v);
            high = ig_max_f32(high, v);
        }}
        ranges[2 * task] = ig_reduce_min_f32(low);
        ranges[2 * task + 1] = ig_reduce_max_f32(high);
    }}
"""

_SCALE = """
    (void)scratch, (void)begin, (void)end;
    ig_f32 low = {0}, high = {0};
    for (int64_t block = 0; block < blocks; block++) {
        low = ig_min_f32(low, ig_set_f32(ranges[2 * block]));
        high = ig_max_f32(high, ig_set_f32(ranges[2 * block + 1]));
    }
    *scale = high[0] == low[0] ? 1.0f : (high[0] - low[0]) / 255.0f;
    *zero_point = ig_quantize_u8(-low / ig_set_f32(*scale), (ig_u8){0})[0];
"""

_QUANTIZE = f"""
    const ig_f32 step = ig_set_f32(*scale);
    const ig_u8 zero = ig_set_u8(*zero_point);
    (void)scratch, (void)blocks;
    for (int64_t task = begin; task < end; task++) {{
        const int64_t first = task * {BLOCK}, last = count - first < {BLOCK} ? count : first + {BLOCK};
        int64_t k = first;
        for (; k + IG_LANES <= last; k += IG_LANES)
            ig_store_u8(y + k, ig_quantize_u8(ig_load_f32(x + k) / step, zero));
        if (k < last)
            ig_store_n_u8(y + k, ig_quantize_u8(ig_load_n_f32(x + k, last - k) / step, zero), last - k);
    }}
"""
