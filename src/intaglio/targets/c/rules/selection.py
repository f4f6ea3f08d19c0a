"""The places of extremes along an axis: ArgMax, ArgMin and TopK."""

from __future__ import annotations

from intaglio.ir.dim import floordiv, maximum, pieces
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.elements import BITS
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.ops.indices import resolve_axis
from intaglio.targets.c.printing.register import MEMORY, register_kind
from intaglio.targets.c.routine import (
    ROWS,
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

GLANCE = 64
"""Elements that are compared with the least of the best so far before any of them is looked at more closely."""

STRIP = 64
"""Columns that one task reduces where the axis is not the last: a whole number of vectors of every target."""


@anchor("ArgMax", "ArgMin")
def arg_extreme(context: Context, node: Node, epilogue: Epilogue) -> None:
    """One pass that keeps the best element and its place in each lane; NaN is more extreme than any number."""
    data = node.input
    shape = data.shape or (1,)
    outer, extent, inner = three_parts(shape, resolve_axis(node.op.axis, len(shape)))
    sizes: list[tuple[str, Size]] = [("outer", outer), ("extent", extent), ("inner", inner)]
    if inner == 1:
        sizes.append(("rows", outer))
        blocks, tasks, cost = row_blocks(outer, extent * data.dtype.itemsize, 8 + floordiv(extent, 4))
        body = _ARG_ROWS
    else:
        strips = pieces(inner, STRIP)
        sizes += [("strips", strips), ("rows", outer * strips)]
        row_bytes, row_cost = extent * (STRIP * data.dtype.itemsize), 8 + extent * (STRIP // 4)
        blocks, tasks, cost = row_blocks(outer * strips, row_bytes, row_cost)
        body = _ARG_COLUMNS
    sizes += [*blocks, ("tasks", tasks)]
    parameters = [reads("data", context.contiguous(data)), writes("out", context.allocate(node.output))]
    hint = f"{node.op.name.lower()}_{'row' if inner == 1 else 'column'}"
    routine = Routine(hint, body, parameters, sizes, at_least_one(tasks), cost, checks=True, helpers=_ARG_HELPERS)
    routine.marks = _extreme_marks(node, data.dtype)
    context.emit(routine.call(node, data))


def _extreme_marks(node: Node, dtype: DType) -> dict[str, str]:
    """The comparisons of ArgMax or ArgMin for an element type, as C on vectors and on scalars."""
    kind, (element, suffix) = register_kind(dtype), MEMORY[dtype.name]
    is_last = bool(node.op.select_last_index)
    name, sign = ("gt", ">") if node.op.name == "ArgMax" else ("lt", "<")
    beats = f"x {sign} best"
    if not dtype.is_float:
        takes = f"ig_{name[0]}{'e' if is_last else 't'}_{kind}(x, best)"
    elif is_last:
        beats += " || (x != x && best == best)"
        takes = f"ig_{name[0]}e_{kind}(x, best) | ig_ne_{kind}(x, x)"
    else:
        beats += " || (x != x && best == best)"
        opposite = "le" if name == "gt" else "ge"
        takes = f"~ig_{opposite}_{kind}(x, best) & ig_eq_{kind}(best, best)"
    bits = BITS[kind]
    index = "i64" if bits == 64 else "i32"
    mask = f"ig_cast_i{bits}_{index}(taken)" if bits < 32 else "taken"
    return {
        "kind": kind, "element": element, "suffix": suffix, "mask": f"i{bits}", "takes": takes, "beats": beats,
        "index": index, "index_mask": mask, "later": ">" if is_last else "<", "strip": str(STRIP),
        "wide": "index[v]" if index == "i64" else "ig_cast_i32_i64(index[v])",
    }  # fmt: skip


_ARG_HELPERS = """
static inline int IG_FUNCTION_beats(ig_${kind}_element x, ig_${kind}_element best)
{
    return $beats;
}
static inline int IG_FUNCTION_is_better(ig_${kind}_element x, int64_t at, ig_${kind}_element best, int64_t place)
{
    return IG_FUNCTION_beats(x, best) || (!IG_FUNCTION_beats(best, x) && at $later place);
}
IG_INLINE ig_$mask IG_FUNCTION_takes(ig_$kind x, ig_$kind best)
{
    return $takes;
}
/* The best of `extent` elements in each of `vectors` * IG_LANES columns (in n of the only vector), and its number. */
IG_INLINE void IG_FUNCTION_scan(const $element *x, int64_t extent, int64_t step, int vectors, int64_t n,
                                ig_$kind *best, ig_$index *index)
{
    IG_UNROLL
    for (int v = 0; v < vectors; v++) {
        best[v] = vectors == 1 ? ig_load_n_$suffix(x, n) : ig_load_$suffix(x + v * IG_LANES);
        index[v] = (ig_$index){0};
    }
    for (int64_t k = 1; k < extent; k++) {
        IG_UNROLL
        for (int v = 0; v < vectors; v++) {
            const $element *const p = x + k * step + v * IG_LANES;
            const ig_$kind now = vectors == 1 ? ig_load_n_$suffix(p, n) : ig_load_$suffix(p);
            const ig_$mask taken = IG_FUNCTION_takes(now, best[v]);
            best[v] = ig_select_$kind(taken, now, best[v]);
            index[v] = ig_select_$index($index_mask, ig_set_$index((ig_${index}_element)k), index[v]);
        }
    }
}
IG_INLINE void IG_FUNCTION_columns(const $element *x, int64_t *out, int64_t extent, int64_t inner, int vectors,
                                   int64_t n)
{
    ig_$kind best[4];
    ig_$index index[4];
    IG_FUNCTION_scan(x, extent, inner, vectors, n, best, index);
    IG_UNROLL
    for (int v = 0; v < vectors; v++) {
        if (vectors == 1)
            ig_store_n_i64(out, $wide, n);
        else
            ig_store_i64(out + v * IG_LANES, $wide);
    }
}
"""

_ARG_FAULT = """
    if (extent < 1 || (sizeof(ig_${index}_element) == 4 && extent > 2147483647)) {
        *fault = 1;
        return;
    }
"""

_ARG_COLUMNS = f"""{_ARG_FAULT}\
    for ({ROWS}) {{
        const int64_t o = row / strips;
        int64_t c = row % strips * $strip;
        const int64_t last = c + $strip < inner ? c + $strip : inner;
        const $element *const x = data + o * extent * inner;
        for (; c + 4 * IG_LANES <= last; c += 4 * IG_LANES)
            IG_FUNCTION_columns(x + c, out + o * inner + c, extent, inner, 4, IG_LANES);
        for (; c < last; c += IG_LANES) {{
            const int64_t n = last - c < IG_LANES ? last - c : IG_LANES;
            IG_FUNCTION_columns(x + c, out + o * inner + c, extent, inner, 1, n);
        }}
    }}
"""

_ARG_ROWS = f"""{_ARG_FAULT}\
    const int64_t width = 4 * IG_LANES;
    for ({ROWS}) {{
        const $element *const x = data + row * extent;
        ig_$kind top[4] = {{{{0}}}};
        ig_$index index[4] = {{{{0}}}};
        const int64_t steps = extent / width;
        ig_${{kind}}_element best = ig_load_n_$suffix(x, 1)[0];
        int64_t place = 0;
        if (steps > 0)
            IG_FUNCTION_scan(x, steps, width, 4, IG_LANES, top, index);
        for (int64_t lane = 0; lane < (steps > 0 ? width : 0); lane++) {{
            const int64_t v = lane / IG_LANES, l = lane % IG_LANES, other = index[v][l] * width + lane;
            if (IG_FUNCTION_is_better(top[v][l], other, best, place)) {{
                best = top[v][l];
                place = other;
            }}
        }}
        for (int64_t j = steps * width; j < extent; j++) {{
            const ig_${{kind}}_element now = ig_load_n_$suffix(x + j, 1)[0];
            if (IG_FUNCTION_is_better(now, j, best, place)) {{
                best = now;
                place = j;
            }}
        }}
        out[row] = place;
    }}
"""


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
    routine = Routine("top_k", _TOP_K, parameters, sizes, tasks, cost, checks=True, helpers=_TOP_K_HELPERS)
    routine.scratch = maximum(count, 1) * (16 if data.dtype.itemsize == 8 else 8)
    routine.marks = _top_marks(data.dtype, bool(node.op.largest), "1" if inner == 1 else "inner")
    context.emit(routine.call(node, data))


def _top_marks(dtype: DType, is_largest: bool, step: str) -> dict[str, str]:
    """How elements of a type are compared, as C; `step` is the distance between neighbours along the axis."""
    is_wide, is_half = dtype.itemsize == 8, dtype.name in ("float16", "bfloat16")
    return {
        "element": memory_type(dtype),
        "bits": bits_type(dtype),
        "step": step,
        "rejects": "0" if is_half else f"x[j * {step}] {'<=' if is_largest else '>='} bound",
        "rank": rank_text(dtype),
        "flip": "" if is_largest else "~",
        "half": "64" if is_wide else "32",
        "key": "unsigned __int128" if is_wide else "uint64_t",
        "unsigned": "uint64_t" if is_wide else "uint32_t",
    }


def _place_view(context: Context, places: Value) -> View:
    if places.uses or places.is_output:
        return context.allocate(places)
    return whole(context.temporary(places.dtype, places.tensor.size), places.shape)


def rank_text(dtype: DType) -> str:
    """C for an unsigned number that orders elements `x`, given as bits, as NumPy sorts them: NaN is the greatest."""
    bits = 8 * dtype.itemsize
    sign = f"({bits_type(dtype)})1 << {bits - 1}"
    if dtype.is_float:
        exponent = {"float16": "0x7c00", "bfloat16": "0x7f80", "float32": "0x7f800000u"}.get(
            dtype.name, "0x7ff0000000000000ull"
        )
        magnitude = f"(x & ~({sign}))"
        is_negative = f"(x >> {bits - 1})"
        nan = f"({bits_type(dtype)})~({bits_type(dtype)})0"
        signed = f"{is_negative} ? ({bits_type(dtype)})~x : ({bits_type(dtype)})(x | {sign})"
        return f"{magnitude} > {exponent} ? {nan} : {magnitude} == 0 ? ({bits_type(dtype)})({sign}) : {signed}"
    return f"x ^ ({sign})" if dtype.kind == "int" else "x"


_TOP_K_HELPERS = """
__extension__ typedef $key IG_FUNCTION_key;
static inline IG_FUNCTION_key IG_FUNCTION_make_key($element element, int64_t place)
{
    $bits x;
    __builtin_memcpy(&x, &element, sizeof x);
    const $unsigned rank = $rank;
    return (IG_FUNCTION_key)($unsigned)${flip}rank << $half | ($unsigned)~($unsigned)place;
}
/* Puts `item` into the hole at `i` of a heap whose least key is in front. */
static inline void IG_FUNCTION_sift(IG_FUNCTION_key *heap, int64_t n, int64_t i, IG_FUNCTION_key item)
{
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= item)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = item;
}
"""

_TOP_K = f"""
    IG_FUNCTION_key *const heap = scratch;
    if (count > extent || (sizeof($unsigned) == 4 && extent >> 32)) {{
        *fault = 1;
        return;
    }}
    if (count < 1)
        return;
    for ({ROWS}) {{
        const int64_t o = row / inner, i = row % inner;
        const $element *const x = data + o * extent * inner + i;
        for (int64_t j = 0; j < count; j++)
            heap[j] = IG_FUNCTION_make_key(x[j * inner], j);
        for (int64_t j = count / 2 - 1; j >= 0; j--)
            IG_FUNCTION_sift(heap, count, j, heap[j]);
        $element bound = x[(int64_t)($unsigned)~($unsigned)heap[0] * inner];
        for (int64_t from = count; from < extent; from += {GLANCE}) {{
            const int64_t to = from + {GLANCE} < extent ? from + {GLANCE} : extent;
            int is_candidate = 0;
            for (int64_t j = from; j < to; j++)
                is_candidate |= !($rejects);
            for (int64_t j = is_candidate ? from : to; j < to; j++) {{
                const IG_FUNCTION_key key = IG_FUNCTION_make_key(x[j * $step], j);
                if (key > heap[0])
                    IG_FUNCTION_sift(heap, count, 0, key);
            }}
            bound = x[(int64_t)($unsigned)~($unsigned)heap[0] * inner];
        }}
        for (int64_t j = count - 1; j >= 0; j--) {{
            const int64_t found = ($unsigned)~($unsigned)heap[0], to = (o * count + j) * inner + i;
            out[to] = x[found * inner];
            place[to] = found;
            IG_FUNCTION_sift(heap, j, 0, heap[j]);
        }}
    }}
"""
