"""Operators of classical models that no loop can express: looked-up labels, n-grams and coupled probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.ir.dim import floordiv, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context, as_array
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import whole
from intaglio.targets.c.routine import (
    ROWS,
    Parameter,
    Routine,
    bits_type,
    disagreement,
    memory_type,
    reads,
    row_blocks,
    writes,
)
from intaglio.targets.c.rules.table import anchor

Array = np.ndarray[Any, Any]


_GOLDEN = 0x9E3779B97F4A7C15
_GOLDEN_TEXT = f"0x{_GOLDEN:X}u"
"""The multiplier of all hashes here."""


def _inputs(node: Node) -> list[Value]:
    return [value for value in node.inputs if value is not None]


def _constant(context: Context, name: str, array: Array, element: str) -> Parameter:
    """A table of the routine, never empty, so that it has an address."""
    held = array if array.size else np.zeros(1, array.dtype)
    return reads(name, whole(context.constant(held), held.shape), element)


def _refuse_lookup(node: Node) -> Refusal | None:
    tables = _inputs(node)[1:]
    if any(value.constant is None for value in tables):
        return Refusal(Cause.CONSTANT, "its table is not constant")
    return (
        Refusal(Cause.ELEMENTS, "a 16-bit float as a key is not compiled")
        if tables[0].dtype.name in ("float16", "bfloat16")
        else None
    )


@anchor("Lookup", refuse=_refuse_lookup, reads=lambda node: _inputs(node)[:1])
def lookup(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A table of the keys by the hash of their bits; NaN, which equals nothing, has a place of its own."""
    data, keys, values = _inputs(node)[:3]
    default = as_array(_inputs(node)[3]) if len(_inputs(node)) > 3 else None
    slots, places, nan = _key_table(as_array(keys))
    extra = as_array(values)[nan : nan + 1] if nan >= 0 else default
    bits, element = bits_type(values.dtype), memory_type(data.dtype)
    others = [np.zeros(1, values.dtype.numpy) if each is None else each for each in (default, extra)]
    parameters = [
        reads("data", context.contiguous(data)),
        _constant(context, "slot", slots, "int32_t"),
        _constant(context, "key", as_array(keys)[places], element),
        _constant(context, "value", as_array(values)[places], bits),
        _constant(context, "other", np.concatenate(others), bits),
        writes("out", context.allocate(node.output), bits),
    ]
    blocks, tasks, cost = row_blocks(data.tensor.size, values.dtype.itemsize, 5)
    sizes: list[tuple[str, Size]] = [
        ("rows", data.tensor.size), ("mask", len(slots) - 1),
        ("has_default", int(default is not None)), ("has_nan", int(nan >= 0)), *blocks,
    ]  # fmt: skip
    routine = Routine("lookup", _LOOKUP, parameters, sizes, tasks, cost, checks=True)
    zero = "if (x == 0)\n            x = 0; /* zeros of both signs are one key */" if data.dtype.is_float else ""
    routine.marks = {"element": element, "key_bits": bits_type(data.dtype), "zero": zero}
    routine.marks["is_nan"] = "x != x && has_nan" if data.dtype.is_float else "0"
    context.emit(routine.call(node))


def _key_table(keys: Array) -> tuple[Array, Array, int]:
    """Hash slots (number of a key plus one, or 0), the place of each key (the last of equal ones), and NaN's or -1."""
    is_nan = keys != keys
    numbers = np.flatnonzero(~is_nan)[::-1]
    found, first = np.unique(keys[numbers], return_index=True)
    slots = np.zeros(1 << (2 * len(found) + 1).bit_length(), np.int32)
    mask = len(slots) - 1
    plain = np.ascontiguousarray(np.where(found == 0, found.dtype.type(0), found))
    hashes = plain.view(f"u{plain.itemsize}").astype(np.uint64) * np.uint64(_GOLDEN)
    for number, hashed in enumerate((hashes >> np.uint64(32)).tolist(), start=1):
        at = hashed & mask
        while slots[at]:
            at = (at + 1) & mask
        slots[at] = number
    return slots, numbers[first], int(np.flatnonzero(is_nan)[-1]) if is_nan.any() else -1


_LOOKUP = f"""
    for ({ROWS}) {{
        $element x = data[row];
        $zero
        $key_bits bits;
        __builtin_memcpy(&bits, &x, sizeof bits);
        int64_t at = (int64_t)(((uint64_t)bits * {_GOLDEN_TEXT}) >> 32) & mask;
        while (slot[at] && key[slot[at] - 1] != x)
            at = (at + 1) & mask;
        const int is_found = slot[at] != 0, is_nan = $is_nan;
        if (!is_found && !is_nan && !has_default) {{
            *fault = 1;
            continue;
        }}
        out[row] = is_found ? value[slot[at] - 1] : other[is_nan];
    }}
"""


@anchor("SquaredDistances")
def squared_distances(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Sums over the features for four vectors of columns at once."""
    rows, vectors = _inputs(node)
    features, count = vectors.shape
    blocks, tasks, cost = row_blocks(rows.shape[0], count * 8, 8 + floordiv(count * features, 4))
    mismatch = disagreement([(rows.shape[1], vectors.shape[0])])
    sizes: list[tuple[str, Size]] = [
        ("rows", rows.shape[0]), ("features", features), ("count", count), ("mismatch", mismatch),
        *blocks,
    ]  # fmt: skip
    parameters = [reads("data", context.contiguous(rows)), reads("vector", context.contiguous(vectors))]
    parameters.append(writes("out", context.allocate(node.output)))
    helpers = _DISTANCE_HELPERS
    routine = Routine("squared_distances", _DISTANCES, parameters, sizes, tasks, cost, checks=True, helpers=helpers)
    context.emit(routine.call(node, rows))


_DISTANCE_HELPERS = """
IG_INLINE void IG_FUNCTION_columns(const double *x, const double *vector, double *out, int64_t features,
                                   int64_t count, int vectors, int64_t n)
{
    ig_f64 total[4] = {{0}};
    for (int64_t f = 0; f < features; f++) {
        const ig_f64 own = ig_set_f64(x[f]);
        IG_UNROLL
        for (int v = 0; v < vectors; v++) {
            const double *const p = vector + f * count + v * IG_LANES;
            const ig_f64 distance = own - (n < IG_LANES ? ig_load_n_f64(p, n) : ig_load_f64(p));
            total[v] += distance * distance;
        }
    }
    IG_UNROLL
    for (int v = 0; v < vectors; v++) {
        if (n < IG_LANES)
            ig_store_n_f64(out + v * IG_LANES, total[v], n);
        else
            ig_store_f64(out + v * IG_LANES, total[v]);
    }
}
"""

_DISTANCES = f"""
    if (mismatch) {{
        *fault = 1;
        return;
    }}
    for ({ROWS}) {{
        const double *const x = data + row * features;
        double *const to = out + row * count;
        int64_t c = 0;
        for (; c + 4 * IG_LANES <= count; c += 4 * IG_LANES)
            IG_FUNCTION_columns(x, vector + c, to + c, features, count, 4, IG_LANES);
        for (; c < count; c += IG_LANES)
            IG_FUNCTION_columns(x, vector + c, to + c, features, count, 1, count - c);
    }}
"""


@anchor("CoupledChances")
def coupled_chances(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The iteration of Wu, Lin and Weng for each row by itself."""
    (pairs,) = _inputs(node)
    count = node.op.count
    blocks, tasks, cost = row_blocks(pairs.shape[0], count * count * 64, count * count * 20)
    sizes: list[tuple[str, Size]] = [("rows", pairs.shape[0]), ("count", count), *blocks]
    parameters = [reads("pair", context.contiguous(pairs)), writes("out", context.allocate(node.output))]
    routine = Routine("coupled_chances", _COUPLED, parameters, sizes, tasks, cost)
    routine.scratch = (2 * count * count + count) * 8
    context.emit(routine.call(node))


_COUPLED = f"""
    double *const chance = scratch, *const matrix = chance + count * count, *const weighed = matrix + count * count;
    for ({ROWS}) {{
        double *const p = out + row * count;
        const double *next = pair + row * (count * (count - 1) / 2);
        for (int64_t i = 0; i < count; i++) {{
            chance[i * count + i] = 0;
            p[i] = 1.0 / (double)count;
            for (int64_t j = i + 1; j < count; j++, next++) {{
                chance[i * count + j] = *next;
                chance[j * count + i] = 1 - *next;
            }}
        }}
        for (int64_t i = 0; i < count; i++) {{
            double squares = 0;
            for (int64_t j = 0; j < count; j++) {{
                matrix[i * count + j] = -chance[j * count + i] * chance[i * count + j];
                squares += chance[j * count + i] * chance[j * count + i];
            }}
            matrix[i * count + i] = squares;
        }}
        for (int round = 0; round < 100; round++) {{
            double total = 0, worst = 0;
            for (int64_t i = 0; i < count; i++) {{
                weighed[i] = 0;
                for (int64_t j = 0; j < count; j++)
                    weighed[i] += matrix[i * count + j] * p[j];
                total += p[i] * weighed[i];
            }}
            for (int64_t i = 0; i < count; i++)
                worst = __builtin_fabs(weighed[i] - total) > worst ? __builtin_fabs(weighed[i] - total) : worst;
            if (worst < 0.005 / (double)count)
                break;
            for (int64_t i = 0; i < count; i++) {{
                const double own = matrix[i * count + i], step = (total - weighed[i]) / own;
                p[i] += step;
                total = (total + step * (step * own + 2 * weighed[i])) / ((1 + step) * (1 + step));
                for (int64_t j = 0; j < count; j++) {{
                    weighed[j] = (weighed[j] + step * matrix[i * count + j]) / (1 + step);
                    p[j] /= 1 + step;
                }}
            }}
        }}
    }}
"""


def _refuse_grams(node: Node) -> Refusal | None:
    (data,) = _inputs(node)
    if data.dtype.name not in ("int32", "int64"):
        return Refusal(Cause.ELEMENTS, f"TfIdfVectorizer of {data.dtype} is not compiled")
    return Refusal(Cause.FORM, "too many n-grams") if len(node.op.pool_int64s or ()) >= 1 << 30 else None


@anchor("TfIdfVectorizer", refuse=_refuse_grams)
def count_grams(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Look up each n-gram of a row in a hash table of the pool, and count."""
    (data,) = _inputs(node)
    width = data.shape[-1] if data.rank else 1
    slots, grams, columns = _gram_table(node)
    parameters = [
        reads("data", context.contiguous(data)),
        _constant(context, "slot", slots, "int32_t"),
        _constant(context, "pool", np.array(node.op.pool_int64s or (), np.int64), "int64_t"),
        _constant(context, "gram", grams, "int32_t"),
        _constant(context, "column", columns, "int32_t"),
        _constant(context, "scale", _scale(node), "float"),
        writes("out", context.allocate(node.output)),
    ]
    steps = (node.op.max_skip_count + 1) * max(0, node.op.max_gram_length - node.op.min_gram_length + 1)
    rows, row_columns = product(data.shape[:-1]), node.output.shape[-1]
    row_cost = 8 + row_columns + width * (5 * steps + 1)
    blocks, tasks, cost = row_blocks(rows, width * 8 + row_columns * 4, row_cost)
    sizes: list[tuple[str, Size]] = [
        ("rows", rows), ("width", width), ("columns", row_columns),
        ("mask", len(slots) - 1), ("shortest", node.op.min_gram_length), ("longest", node.op.max_gram_length),
        ("skips", node.op.max_skip_count), *blocks,
    ]  # fmt: skip
    routine = Routine("count_grams", _GRAMS, parameters, sizes, tasks, cost, helpers=_GRAM_HELPERS)
    routine.marks = {"element": memory_type(data.dtype), "is_once": str(int(node.op.mode == "IDF"))}
    context.emit(routine.call(node))


def _gram_table(node: Node) -> tuple[Array, Array, Array]:
    """Hash slots (number of a gram plus one, or 0), where each gram begins in the pool and its length, its column."""
    pool = np.array(node.op.pool_int64s or (), np.int64)
    ends = (*node.op.ngram_counts[1:], len(pool))
    grams = [
        (place, length)
        for length, (start, end) in enumerate(zip(node.op.ngram_counts, ends, strict=True), start=1)
        for place in range(start, end, length)
    ]
    slots = np.zeros(1 << max(1, (2 * len(grams)).bit_length()), np.int32)
    seen: set[tuple[int, ...]] = set()
    for number, (place, length) in enumerate(grams, start=1):
        items = tuple(pool[place : place + length].tolist())
        if items not in seen:
            seen.add(items)
            at = _hash(items) & (len(slots) - 1)
            while slots[at]:
                at = (at + 1) & (len(slots) - 1)
            slots[at] = number
    table = np.array(grams, np.int32).reshape(-1)
    return slots, table, np.array(node.op.ngram_indexes, np.int32)


def _hash(items: tuple[int, ...]) -> int:
    """The number by which a gram is found; the routine computes the same."""
    result = len(items)
    for item in items:
        result = ((result ^ (item % 2**64)) * _GOLDEN) % 2**64
        result ^= result >> 29
    return result


def _scale(node: Node) -> Array:
    scale = np.ones(max(node.op.ngram_indexes, default=-1) + 1, np.float32)
    if node.op.weights is not None and node.op.mode != "TF":
        scale[list(node.op.ngram_indexes)] = node.op.weights
    return scale


_GRAM_HELPERS = """
/* The column of the gram of `length` elements from x on, `step` apart, or -1. */
static inline int64_t IG_FUNCTION_find(const $element *x, int64_t length, int64_t step, const int32_t *slot,
                                       int64_t mask, const int64_t *pool, const int32_t *gram, const int32_t *column)
{
    uint64_t hash = (uint64_t)length;
    for (int64_t i = 0; i < length; i++) {
        hash = (hash ^ (uint64_t)(int64_t)x[i * step]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    for (int64_t at = (int64_t)(hash & (uint64_t)mask); slot[at]; at = (at + 1) & mask) {
        const int64_t number = slot[at] - 1;
        const int64_t *const items = pool + gram[2 * number];
        int64_t same = gram[2 * number + 1] == length ? 0 : -1;
        while (same >= 0 && same < length && items[same] == (int64_t)x[same * step])
            same++;
        if (same == length)
            return column[number];
    }
    return -1;
}
"""

_GRAMS = f"""
    for ({ROWS}) {{
        const $element *const x = data + row * width;
        float *const counts = out + row * columns;
        for (int64_t i = 0; i < columns; i++)
            counts[i] = 0;
        for (int64_t length = shortest > 0 ? shortest : 1; length <= longest; length++) {{
            const int64_t last = length > 1 ? skips + 1 : 1;
            for (int64_t step = 1; step <= last && (length - 1) * step < width; step++) {{
                for (int64_t start = 0; start < width - (length - 1) * step; start++) {{
                    const int64_t found =
                        IG_FUNCTION_find(x + start, length, step, slot, mask, pool, gram, column);
                    if (found >= 0)
                        counts[found] = $is_once ? 1.0f : counts[found] + 1.0f;
                }}
            }}
        }}
        for (int64_t i = 0; i < columns; i++)
            counts[i] *= scale[i];
    }}
"""
