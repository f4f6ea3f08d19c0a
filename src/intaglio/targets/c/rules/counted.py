"""Operators that keep some of their elements: NonZero, Compress, Unique and NonMaxSuppression.

A first kernel finds out which and how many, the driver takes the number and allocates, a second kernel writes them.
"""

from __future__ import annotations

from intaglio.ir.dim import Dim, floordiv, maximum, minimum, symbol
from intaglio.ir.dtype import INT64, DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.ops.indices import known_integers, resolve_axis
from intaglio.targets.c.routine import ROWS, Routine, bits_type, part_type, reads, row_blocks, three_parts, writes
from intaglio.targets.c.rules.selection import rank_text
from intaglio.targets.c.rules.table import anchor, late_sizes

BLOCK = 16384
"""Elements that one task of NonZero looks at."""

UNUSED = "    (void)begin, (void)end, (void)scratch;\n"


def _number(context: Context, count: Dim, name: str) -> View:
    """Fresh memory for 64-bit integers."""
    return whole(context.temporary(INT64, count, name), (count,))


def _bind_total(context: Context, node: Node, counts: View, most: Dim) -> None:
    """Bind the one unknown size to the sum of some numbers, which is at most `most`."""
    names = list(dict.fromkeys(name for value in node.outputs for _, name in context.unbound(value)))
    body = "for (int64_t i = 0; i < parts; i++)\n    value[0] += counts[i];"
    bounds: dict[Dim, Dim] = {symbol(name): most for name in names}
    context.bind(node, names, body, [("counts", "int64_t", counts)], [("parts", counts.shape[0])], bounds)


def _is_set(dtype: DType, element: str) -> str:
    """C for whether an element, given as bits, is not zero: denormals count, a negative zero does not."""
    if dtype.kind == "complex":
        bits, half = bits_type(dtype), 4 * dtype.itemsize
        signs = f"(({bits})1 << {2 * half - 1} | ({bits})1 << {half - 1})"
        return f"(({element} & ~{signs}) != 0)"
    return f"(({bits_type(dtype)})({element} << 1) != 0)" if dtype.is_float else f"({element} != 0)"


def _count_set(context: Context, node: Node) -> None:
    """Count what is not zero in each block."""
    data = node.input
    total = data.tensor.size
    blocks = floordiv(total + (BLOCK - 1), BLOCK)
    counts = _number(context, blocks, "counts")
    bits = bits_type(data.dtype)
    parameters = [reads("data", context.contiguous(data), bits), writes("out", counts)]
    sizes: list[tuple[str, Size]] = [("total", total), ("blocks", blocks)]
    routine = Routine("count_nonzero", _COUNT, parameters, sizes, blocks, BLOCK // 4)
    routine.marks = {"is_set": _is_set(data.dtype, "data[i]"), "block": str(BLOCK)}
    context.emit(routine.call(node, data))
    context.notes[node] = counts
    _bind_total(context, node, counts, total)


late_sizes("NonZero")(_count_set)

_COUNT = """
    for (int64_t task = begin; task < end; task++) {
        const int64_t stop = (task + 1) * $block < total ? (task + 1) * $block : total;
        int64_t count = 0;
        for (int64_t i = task * $block; i < stop; i++)
            count += $is_set;
        out[task] = count;
    }
"""


@anchor("NonZero")
def nonzero(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Write the indices of each block behind those of the blocks before it."""
    data, counts = node.input, context.notes[node]
    bits, result = bits_type(data.dtype), context.allocate(node.output)
    sizes: list[tuple[str, Size]] = [("total", data.tensor.size), ("blocks", counts.shape[0])]
    sizes += [("found", node.output.shape[1])]
    sizes += [(f"extent{axis}", extent) for axis, extent in enumerate(data.shape)]
    parameters = [reads("data", context.contiguous(data), bits), reads("counts", counts), writes("out", result)]
    routine = Routine("nonzero", _NONZERO, parameters, sizes, counts.shape[0], BLOCK // 2)
    lines = ["int64_t rest = i;"]
    for axis in reversed(range(data.rank)):
        lines += [f"out[{axis} * found + place] = rest % extent{axis};", f"rest /= extent{axis};"]
    routine.marks = {
        "is_set": _is_set(data.dtype, "data[i]"),
        "block": str(BLOCK),
        "write": "\n".join(f"            {line}" for line in [*lines, "(void)rest;"]),
    }
    context.emit(routine.call(node, data))


_NONZERO = """
    (void)found, (void)out;
    for (int64_t task = begin; task < end; task++) {
        const int64_t stop = (task + 1) * $block < total ? (task + 1) * $block : total;
        int64_t place = 0;
        for (int64_t before = 0; before < task; before++)
            place += counts[before];
        for (int64_t i = task * $block; i < stop; i++) {
            if (!$is_set)
                continue;
$write
            place++;
        }
    }
"""


@late_sizes("Compress")
def compress_sizes(context: Context, node: Node) -> None:
    """List the places of what is kept."""
    data, condition = node.input, node.needed(1)
    extent = data.tensor.size if node.op.axis is None else data.shape[resolve_axis(node.op.axis, data.rank)]
    length = condition.shape[0]
    places, count = _number(context, length, "places"), _number(context, 1, "count")
    parameters = [reads("flags", context.contiguous(condition)), writes("places", places), writes("count", count)]
    sizes: list[tuple[str, Size]] = [("length", length), ("extent", extent)]
    routine = Routine("list_flags", _LIST, parameters, sizes, 1, 1 + length, checks=True)
    context.emit(routine.call(node, condition))
    context.notes[node] = places
    _bind_total(context, node, count, length)


_LIST = f"""
{UNUSED}\
    int64_t found = 0;
    for (int64_t i = 0; i < length; i++) {{
        places[found] = i;
        found += flags[i] != 0;
    }}
    *count = found;
    *fault = length > extent;
"""


@anchor("Compress")
def compress(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy the slices that are kept."""
    data, places = node.input, context.notes[node]
    if node.op.axis is None:
        outer, extent, inner = 1, data.tensor.size, 1
        kept = node.output.shape[0]
    else:
        axis = resolve_axis(node.op.axis, data.rank)
        outer, extent, inner = three_parts(data.shape, axis)
        kept = node.output.shape[axis]
    bits, row = bits_type(data.dtype), inner * data.dtype.itemsize
    blocks, tasks, cost = row_blocks(outer * kept, row, 2 + floordiv(row, 16))
    sizes: list[tuple[str, Size]] = [("outer", outer), ("extent", extent), ("inner", inner), ("kept", kept)]
    sizes += [("rows", outer * kept), *blocks]
    parameters = [reads("data", context.contiguous(data), bits), reads("places", places)]
    parameters.append(writes("out", context.allocate(node.output), bits))
    context.emit(Routine("compress", _COMPRESS, parameters, sizes, tasks, cost).call(node))


_COMPRESS = f"""
    (void)outer;
    for ({ROWS}) {{
        const int64_t from = row / kept * extent + places[row % kept];
        __builtin_memcpy(out + row * inner, data + from * inner, (unsigned long)inner * sizeof *out);
    }}
"""


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
    order = _number(context, extent * 2, "order")
    groups = _number(context, extent, "groups")
    firsts, counts = _number(context, extent, "firsts"), _number(context, extent, "counts")
    found = _number(context, 1, "found")
    part = part_type(data.dtype)
    parameters = [reads("data", context.contiguous(data), bits_type(part)), writes("order", order)]
    parameters += [writes("groups", groups), writes("firsts", firsts), writes("counts", counts)]
    parameters.append(writes("found", found))
    parts = data.dtype.itemsize // part.itemsize
    sizes: list[tuple[str, Size]] = [("outer", outer), ("extent", extent), ("inner", inner * parts)]
    cost = 1 + extent * outer * inner * parts * 20
    routine = Routine("unique", _UNIQUE, parameters, sizes, 1, cost, helpers=_UNIQUE_HELPERS)
    routine.marks = {
        "bits": bits_type(part),
        "rank": rank_text(part),
        "is_complex": "1" if parts == 2 else "0",
        "renumber": "" if node.op.sorted else _BY_PLACE,
    }
    context.emit(routine.call(node, data))
    context.notes[node] = firsts, groups, counts
    _bind_total(context, node, found, extent)


def _slices(node: Node) -> tuple[Dim, Dim, Dim]:
    """What lies before, along and behind the axis whose slices are compared."""
    data = node.input
    if node.op.axis is None:
        return 1, data.tensor.size, 1
    return three_parts(data.shape, resolve_axis(node.op.axis, data.rank))


def _merge_sort(signature: str, keeps: str) -> str:
    """C for a stable sort of places; `keeps` tells whether the one on the left stays before the one on the right."""
    return _MERGE_SORT.replace("$signature", signature).replace("$keeps", keeps)


_MERGE_SORT = """
/* Merges sorted runs of growing length between two arrays of places; gives the one that then holds the result. */
static int64_t *IG_FUNCTION_sort($signature, int64_t *from, int64_t *to, int64_t count)
{
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t start = 0; start < count; start += 2 * run) {
            const int64_t middle = start + run < count ? start + run : count;
            const int64_t stop = start + 2 * run < count ? start + 2 * run : count;
            int64_t left = start, right = middle;
            for (int64_t i = start; i < stop; i++) {
                int is_left = left < middle;
                if (is_left && right < stop)
                    is_left = $keeps;
                to[i] = is_left ? from[left++] : from[right++];
            }
        }
        int64_t *const other = from;
        from = to;
        to = other;
    }
    return from;
}
"""

_UNIQUE_HELPERS = """
static inline $bits IG_FUNCTION_rank($bits x)
{
    return $rank;
}
/* The rank of a number; all complex numbers with a part that is none are the same, behind all others. */
static inline $bits IG_FUNCTION_at(const $bits *data, int64_t place)
{
    const $bits own = IG_FUNCTION_rank(data[place]), other = IG_FUNCTION_rank(data[place ^ $is_complex]);
    return $is_complex && other == ($bits)~($bits)0 ? other : own;
}
static int IG_FUNCTION_compare(const $bits *data, int64_t left, int64_t right, int64_t outer, int64_t extent,
                               int64_t inner)
{
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const $bits a = IG_FUNCTION_at(data, (o * extent + left) * inner + i);
            const $bits b = IG_FUNCTION_at(data, (o * extent + right) * inner + i);
            if (a != b)
                return a < b ? -1 : 1;
        }
    return 0;
}
""" + _merge_sort(
    "const $bits *data, int64_t outer, int64_t extent, int64_t inner",
    "IG_FUNCTION_compare(data, from[left], from[right], outer, extent, inner) <= 0",
)

_BY_PLACE = """
    /* Numbers by the first place instead of by order: groups[firsts[g]] finds the group of each first place. */
    int64_t *const number = sorted == order ? order + extent : order;
    int64_t next = 0;
    for (int64_t i = 0; i < extent; i++)
        if (firsts[groups[i]] == i)
            number[groups[i]] = next++;
    for (int64_t i = 0; i < extent; i++)
        groups[i] = number[groups[i]];
    for (int64_t i = 0; i < next; i++)
        counts[i] = 0;
    for (int64_t i = extent - 1; i >= 0; i--) {
        firsts[groups[i]] = i;
        counts[groups[i]]++;
    }
"""

_UNIQUE = f"""
{UNUSED}\
    for (int64_t i = 0; i < extent; i++)
        order[i] = i;
    int64_t *const sorted = IG_FUNCTION_sort(data, outer, extent, inner, order, order + extent, extent);
    int64_t group = -1;
    for (int64_t i = 0; i < extent; i++) {{
        if (i == 0 || IG_FUNCTION_compare(data, sorted[i - 1], sorted[i], outer, extent, inner)) {{
            group++;
            firsts[group] = sorted[i];
            counts[group] = 0;
        }}
        counts[group]++;
        groups[sorted[i]] = group;
    }}
    *found = group + 1;
$renumber
"""


@anchor("Unique", refuse=_refuse_unique)
def unique(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy the first slice of each group, and the numbers that the sizes' kernel has found."""
    data, (firsts, groups, counts) = node.input, context.notes[node]
    outer, extent, inner = _slices(node)
    found = node.outputs[0].shape[0 if node.op.axis is None else resolve_axis(node.op.axis, data.rank)]
    bits, row = bits_type(data.dtype), inner * data.dtype.itemsize
    blocks, tasks, cost = row_blocks(outer * found, row, 2 + floordiv(row, 16))
    sizes: list[tuple[str, Size]] = [("outer", outer), ("extent", extent), ("inner", inner), ("kept", found)]
    sizes += [("rows", outer * found), *blocks]
    parameters = [reads("data", context.contiguous(data), bits), reads("places", firsts)]
    parameters.append(writes("out", context.allocate(node.outputs[0]), bits))
    context.emit(Routine("compress", _COMPRESS, parameters, sizes, tasks, cost).call(node))
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
    chosen, counts = _number(context, pairs * count, "chosen"), _number(context, pairs, "counts")
    parameters = [reads("boxes", context.contiguous(boxes)), reads("scores", context.contiguous(scores))]
    options = (("most", most), ("overlap", overlap), ("least", least))
    parameters += [reads(name, context.contiguous(value)) for name, value in options if value is not None]
    parameters += [writes("chosen", chosen), writes("counts", counts)]
    sizes: list[tuple[str, Size]] = [
        ("pairs", pairs), ("kinds", scores.shape[1]), ("count", count), ("box_count", boxes.shape[1]),
        ("box_batches", boxes.shape[0]), ("batches", scores.shape[0]), ("parts", boxes.shape[2]),
    ]  # fmt: skip
    cost = 100 + count * 30
    routine = Routine("suppress", _SUPPRESS, parameters, sizes, maximum(pairs, 1), cost, checks=True)
    routine.helpers = _SUPPRESS_HELPERS
    routine.scratch = (count + 1) * 56
    routine.marks = {
        "most": "0" if most is None else "(int64_t)*most",
        "overlap": "0.0f" if overlap is None else "*overlap",
        "passes": "1" if least is None else "score[i] > *least",
        "corners": _CENTERED if node.op.center_point_box else _CORNERS,
    }
    context.emit(routine.call(node, scores))
    context.notes[node] = chosen, counts
    limit = [] if most is None else known_integers(most)
    _bind_total(context, node, counts, pairs * (count if limit is None else minimum(count, max([0, *limit]))))


_CORNERS = """
    out[0] = box[0] < box[2] ? box[0] : box[2];
    out[1] = box[1] < box[3] ? box[1] : box[3];
    out[2] = box[0] < box[2] ? box[2] : box[0];
    out[3] = box[1] < box[3] ? box[3] : box[1];"""

_CENTERED = """
    out[0] = box[0] - box[2] / 2;
    out[1] = box[1] - box[3] / 2;
    out[2] = box[0] + box[2] / 2;
    out[3] = box[1] + box[3] / 2;"""

_SUPPRESS_HELPERS = """
static inline void IG_FUNCTION_corners(const float *box, float *out)
{$corners
}
static inline float IG_FUNCTION_overlap(const float *a, const float *b)
{
    const float top = a[0] > b[0] ? a[0] : b[0], left = a[1] > b[1] ? a[1] : b[1];
    const float bottom = a[2] < b[2] ? a[2] : b[2], right = a[3] < b[3] ? a[3] : b[3];
    const float height = bottom - top > 0 ? bottom - top : 0, width = right - left > 0 ? right - left : 0;
    const float common = height * width;
    const float first = (a[2] - a[0]) * (a[3] - a[1]), second = (b[2] - b[0]) * (b[3] - b[1]);
    const float all = first + second - common;
    return first > 0 && second > 0 && all > 0 ? common / all : 0;
}
/* Falling scores, equal ones by place, and numbers before NaN. */
static inline int IG_FUNCTION_keeps(float left, float right)
{
    return !(right > left) && !(left != left && right == right);
}
""" + _merge_sort("const float *score", "IG_FUNCTION_keeps(score[from[left]], score[from[right]])")

_SUPPRESS = """
    if (parts != 4 || box_count != count || box_batches != batches) {
        *fault = 1;
        return;
    }
    int64_t *const order = scratch, *const spare = order + count;
    float (*const corner)[4] = (void *)(spare + count);
    const int64_t limit = $most;
    for (int64_t pair = begin; pair < end && pair < pairs; pair++) {
        const float *const score = scores + pair * count, *const box = boxes + pair / kinds * count * 4;
        int64_t *const mine = chosen + pair * count, candidates = 0, kept = 0;
        for (int64_t i = 0; i < count && limit > 0; i++) {
            order[candidates] = i;
            candidates += $passes;
        }
        const int64_t *const sorted = IG_FUNCTION_sort(score, order, spare, candidates);
        for (int64_t i = 0; i < candidates && kept < limit; i++) {
            IG_FUNCTION_corners(box + 4 * sorted[i], corner[kept]);
            int64_t other = 0;
            while (other < kept && !(IG_FUNCTION_overlap(corner[kept], corner[other]) > $overlap))
                other++;
            if (other == kept)
                mine[kept++] = sorted[i];
        }
        counts[pair] = kept;
    }
"""


@anchor("NonMaxSuppression")
def suppression(context: Context, node: Node, epilogue: Epilogue) -> None:
    """List the chosen boxes with their batch and class."""
    chosen, counts = context.notes[node]
    scores = node.needed(1)
    pairs = scores.shape[0] * scores.shape[1]
    sizes: list[tuple[str, Size]] = [("pairs", pairs), ("kinds", scores.shape[1]), ("count", scores.shape[2])]
    parameters = [reads("chosen", chosen), reads("counts", counts), writes("out", context.allocate(node.output))]
    cost = 1 + pairs * 4
    context.emit(Routine("list_chosen", _CHOSEN, parameters, sizes, 1, cost).call(node))


_CHOSEN = f"""
{UNUSED}\
    for (int64_t pair = 0, place = 0; pair < pairs; pair++)
        for (int64_t i = 0; i < counts[pair]; i++, place++) {{
            out[3 * place] = pair / kinds;
            out[3 * place + 1] = pair % kinds;
            out[3 * place + 2] = chosen[pair * count + i];
        }}
"""
