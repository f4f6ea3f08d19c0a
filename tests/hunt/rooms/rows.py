"""Rows that do not mix: of random graphs that the analysis says so of, f of joined rows is the joined f of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from intaglio.errors import IntaglioError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import evaluate
from intaglio.passes.row_axes import Hindrance
from intaglio.passes.rows import separate_rows

from ..judging import Finding, Verdict
from . import Seen, Tell

GRAPHS = 40
"""Graphs of one seed, times `--times`."""
GROUPS = ((1, 3), (2, 2), (3, 1))
"""How four rows are cut; the first and the second part are run by themselves."""

Step = Callable[[Builder, Value, np.random.Generator], Value]


def look(seed: int, times: int, tell: Tell) -> Seen:
    """Make a seed's graphs; a case is a graph of which the analysis says that rows do not mix."""
    verdict, cases = Verdict(), 0
    tell("reference")
    for number in range(GRAPHS * times):
        generator = np.random.default_rng([seed, number])
        graph = made(generator)
        try:
            axes = separate_rows(graph, "n")
        except Hindrance:
            verdict.judges["mixed"] += 1
            continue
        if axes:
            cases += 1
            text = mixing(graph, axes, generator)
            if text:
                verdict.findings.append(Finding("rows", graph.outputs[0].name, number, text, str(graph)))
    verdict.judges["apart"] += cases
    return Seen(cases, verdict)


def mixing(graph: Graph, axes: dict[Value, int], generator: np.random.Generator) -> str:
    """How the results of joined rows differ from the joined results of rows; empty where they do not."""
    inputs = [_feed(value, generator) for value in graph.inputs]
    places = [value.shape.index(symbol("n")) for value in graph.inputs]
    try:
        whole = evaluate(graph, inputs)
    except IntaglioError:
        return ""
    for groups in GROUPS:
        parts = list[list[Any]]()
        for start, count in zip((0, groups[0]), groups, strict=True):
            cut = [np.take(x, range(start, start + count), axis) for x, axis in zip(inputs, places, strict=True)]
            try:
                parts.append(evaluate(graph, cut))
            except IntaglioError as error:
                return f"{count} of 4 rows raise {error}"
        for place, value in enumerate(graph.outputs):
            joined = np.concatenate([part[place] for part in parts], axes[value]) if value in axes else parts[0][place]
            if joined.shape != whole[place].shape or not np.allclose(joined, whole[place], 1e-3, 1e-4, equal_nan=True):
                return f"{value.name}: rows {groups} apart give something else than together"
    return ""


def _feed(value: Value, generator: np.random.Generator) -> Any:
    shape = [4 if not isinstance(size, int) else size for size in value.shape]
    return generator.standard_normal(shape).astype(np.float32)


def made(generator: np.random.Generator) -> Graph:
    """A random graph with rows along an axis of its inputs."""
    graph = Graph()
    sizes: list[Any] = [int(size) for size in generator.integers(2, 5, int(generator.integers(1, 4)))]
    place = 0 if generator.random() < 0.7 else int(generator.integers(len(sizes) + 1))
    shape = (*sizes[:place], symbol("n"), *sizes[place:])
    known = [graph.add_input("x", TensorType(FLOAT32, shape))]
    if generator.random() < 0.3:
        known.append(graph.add_input("z", TensorType(FLOAT32, shape)))
    builder = Builder(graph)
    for _ in range(int(generator.integers(1, 7))):
        value = known[-1] if generator.random() < 0.7 else known[int(generator.integers(len(known)))]
        step = STEPS[int(generator.integers(len(STEPS)))]
        try:
            known.append(step(builder, value, generator) if step is not _join else _two(builder, known, generator))
        except (IntaglioError, ValueError, IndexError, TypeError, AssertionError):
            continue
    graph.set_outputs([known[-1]])
    return graph


def _axis(x: Value, r: np.random.Generator) -> int:
    return int(r.integers(-x.rank, x.rank))


def _constant(b: Builder, r: np.random.Generator, *shape: int) -> Value:
    return b.constant(r.standard_normal(shape).astype(np.float32))


def _join(b: Builder, x: Value, r: np.random.Generator) -> Value:
    raise NotImplementedError


def _two(b: Builder, known: list[Value], r: np.random.Generator) -> Value:
    left, right = (known[int(r.integers(len(known)))] for _ in range(2))
    match int(r.integers(4)):
        case 0:
            return b.Add(left, right)
        case 1:
            return b.Concat(left, right, axis=_axis(left, r))
        case 2:
            return b.MatMul(left, right)
        case _:
            return b.Where(b.Greater(left, right), left, right)


def _reshape(b: Builder, x: Value, r: np.random.Generator) -> Value:
    """Two axes joined, or one split."""
    place = int(r.integers(x.rank))
    whole = b.Shape(x)
    if r.random() < 0.5 and x.rank > 1:
        place = int(r.integers(x.rank - 1))
        parts = [b.Slice(whole, [0], [place], [0]), b.constant([-1]), b.Slice(whole, [place + 2], [9], [0])]
    else:
        pair = [-1, int(r.integers(1, 4))] if r.random() < 0.5 else [int(r.integers(1, 4)), -1]
        parts = [b.Slice(whole, [0], [place], [0]), b.constant(pair), b.Slice(whole, [place + 1], [9], [0])]
    return b.Reshape(x, b.Concat(*parts, axis=0))


def _counted(b: Builder, x: Value, r: np.random.Generator) -> Value:
    """Computes with a size."""
    size = b.Gather(b.Shape(x), b.constant(_axis(x, r)))
    return b.Div(x, b.Cast(size, to=FLOAT32.number))


def _expand(b: Builder, x: Value, r: np.random.Generator) -> Value:
    return b.Expand(_constant(b, r, 1), b.Shape(x))


def _lstm(b: Builder, x: Value, r: np.random.Generator) -> Value:
    width = int(x.shape[2])  # pyright: ignore[reportArgumentType]
    return b.Squeeze(b.LSTM(x, _constant(b, r, 1, 8, width), _constant(b, r, 1, 8, 2), hidden_size=2), [1])


STEPS: tuple[Step, ...] = (
    _join, _join, _join, _reshape, _reshape, _reshape, _counted, _expand, _lstm,
    lambda b, x, r: b.Tanh(x),
    lambda b, x, r: b.Mul(x, _constant(b, r, int(r.integers(1, 5)))),
    lambda b, x, r: b.Softmax(x, axis=_axis(x, r)),
    lambda b, x, r: b.LayerNormalization(x, _constant(b, r, 1), axis=_axis(x, r)),
    lambda b, x, r: b.ReduceSum(x, [_axis(x, r)], keepdims=int(r.integers(2))),
    lambda b, x, r: b.ReduceMax(x, [_axis(x, r)], keepdims=int(r.integers(2))),
    lambda b, x, r: b.ReduceMean(x, None, keepdims=1),
    lambda b, x, r: b.Transpose(x, perm=tuple(int(axis) for axis in r.permutation(x.rank))),
    lambda b, x, r: b.Transpose(x, perm=tuple(int(axis) for axis in r.permutation(x.rank))),
    lambda b, x, r: b.Unsqueeze(x, [_axis(x, r)]),
    lambda b, x, r: b.Flatten(x, axis=int(r.integers(0, x.rank + 1))),
    lambda b, x, r: b.Slice(x, [0], [int(r.integers(1, 3))], [_axis(x, r)]),
    lambda b, x, r: b.Slice(x, [-1], [-9], [_axis(x, r)], [-1]),
    lambda b, x, r: b.Gather(x, b.constant([0, 1, 0][: int(r.integers(1, 4))]), axis=_axis(x, r)),
    lambda b, x, r: b.CumSum(x, b.constant(_axis(x, r))),
    lambda b, x, r: b.TopK(x, b.constant([1]), axis=_axis(x, r), outputs=2)[0],
    lambda b, x, r: b.Pad(x, [1 if place == r.integers(2 * x.rank) else 0 for place in range(2 * x.rank)]),
    lambda b, x, r: b.Tile(x, [int(r.integers(1, 3)) for _ in range(x.rank)]),
    lambda b, x, r: b.Split(x, num_outputs=2, axis=_axis(x, r), outputs=2)[int(r.integers(2))],
    lambda b, x, r: b.MatMul(x, _constant(b, r, int(x.shape[-1]), 3)),  # pyright: ignore[reportArgumentType]
    lambda b, x, r: b.MatMul(x, b.Transpose(x)),
    lambda b, x, r: b.Gemm(x, _constant(b, r, int(x.shape[1]), 3), transA=0),  # pyright: ignore[reportArgumentType]
    lambda b, x, r: b.Conv(x, _constant(b, r, 2, int(x.shape[1]), *(2,) * (x.rank - 2))),  # pyright: ignore[reportArgumentType]
    lambda b, x, r: b.GlobalAveragePool(x),
    lambda b, x, r: b.Einsum(x, x, equation="ab...,ac...->abc") if r.random() < 0.5 else b.Einsum(x, equation="ab->ba"),
    lambda b, x, r: b.Add(x, b.RandomNormalLike(x)),
    lambda b, x, r: b.LpNormalization(x, axis=_axis(x, r)),
    lambda b, x, r: b.ArgMax(x, axis=_axis(x, r)),
)  # fmt: skip
"""What may come next in a graph."""
