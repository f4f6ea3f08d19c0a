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
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.routine import (
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
"""The multiplier of all hashes here, as in kernels/golden.h."""


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
    instance = kernel(
        "lookup", ELEMENT=element, KEY_BITS=bits_type(data.dtype), IS_FLOAT=data.dtype.is_float, VALUE=bits
    )
    context.emit(Routine("lookup", instance, parameters, sizes, tasks, cost, checks=True).call(node))


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


@anchor("SquaredDistances", needs={"vectors"})
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
    routine = Routine("squared_distances", kernel("squared_distances"), parameters, sizes, tasks, cost, checks=True)
    context.emit(routine.call(node, rows))


@anchor("CoupledChances")
def coupled_chances(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The iteration of Wu, Lin and Weng for each row by itself."""
    (pairs,) = _inputs(node)
    count = node.op.count
    blocks, tasks, cost = row_blocks(pairs.shape[0], count * count * 64, count * count * 20)
    sizes: list[tuple[str, Size]] = [("rows", pairs.shape[0]), ("count", count), *blocks]
    parameters = [reads("pair", context.contiguous(pairs)), writes("out", context.allocate(node.output))]
    routine = Routine("coupled_chances", kernel("coupled_chances"), parameters, sizes, tasks, cost)
    routine.scratch = (2 * count * count + count) * 8
    context.emit(routine.call(node))


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
    instance = kernel("count_grams", ELEMENT=memory_type(data.dtype), IS_ONCE=node.op.mode == "IDF")
    context.emit(Routine("count_grams", instance, parameters, sizes, tasks, cost).call(node))


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
    """The number by which a gram is found; the kernel computes the same."""
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
