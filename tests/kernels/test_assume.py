"""Broadcasts that only the run can decide: right for every size, and cheap for the usual ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from intaglio.errors import IntaglioError
from intaglio.ir.build import Builder
from intaglio.ir.clone import clone
from intaglio.ir.dim import Dim, symbol
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.assume import assume_equal
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.native import NativeEngine

N, M, K = symbol("n"), symbol("m"), symbol("k")


def graph_of(build: Callable[..., Value | Sequence[Value]], *shapes: tuple[Dim, ...]) -> Graph:
    graph = Graph("assume")
    values = [graph.add_input(f"x{i}", TensorType(FLOAT32, shape)) for i, shape in enumerate(shapes)]
    builder = Builder(graph)
    with builder.active():
        result = build(builder, *values)
    graph.set_outputs([result] if isinstance(result, Value) else result)
    return graph


def numbers(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


def check(engine: NativeEngine, *shapes: tuple[int, ...]) -> None:
    inputs = [numbers(shape, seed) for seed, shape in enumerate(shapes)]
    for got, expected in zip(engine.run(inputs), evaluate(engine.graph, inputs), strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_two_sizes_are_taken_to_be_equal() -> None:
    graph = graph_of(lambda b, x, y: b.Add(x, y), (N,), (M,))
    copy = clone(graph)
    assert len(assume_equal(copy, {})) == 1
    left, right = (value.shape for value in copy.inputs)
    assert left == right == copy.outputs[0].shape


def test_nothing_is_assumed_of_what_is_certain() -> None:
    graph = graph_of(lambda b, x, y: b.Mul(b.Add(x, y), 2.0), (N, M), (1, M))
    assert assume_equal(clone(graph), {}) == []


@pytest.mark.parametrize(
    ("build", "shapes", "wrong"),
    [
        (lambda b, x, y: b.Concat(x, y, axis=0), ((2, 3), (4, 3)), ((2, 3), (2, 5))),
        (lambda b, x, y: b.Concat(x, y, axis=-1), ((2, 3), (2, 5)), ((2, 3), (4, 3))),
        (lambda b, x, y: b.MatMul(x, y), ((2, 3), (3, 5)), ((2, 3), (5, 3))),
        (lambda b, x, y: b.MatMulInteger(b.Cast(x, to=3), b.Cast(y, to=3)), ((2, 3), (3, 5)), ((2, 3), (5, 3))),
    ],
)
def test_sizes_that_must_be_equal(build: Any, shapes: Any, wrong: Any) -> None:
    engine = NativeEngine(graph_of(build, (N, K), (M, symbol("j"))), 2).load()
    check(engine, *shapes)
    assert not engine.plan.host_steps
    with pytest.raises(IntaglioError):
        engine.run([numbers(shape, 1) for shape in wrong])


@pytest.mark.parametrize("sizes", [(5, 5), (1, 5), (5, 1), (1, 1), (0, 0), (1, 0), (0, 1), (33, 33)])
def test_equal_or_one_at_run_time(sizes: tuple[int, int]) -> None:
    build = lambda b, x, y: [b.Softmax(b.Add(b.Exp(b.Neg(b.Abs(x))), y)), b.Less(x, y)]  # noqa: E731
    n, m = sizes
    engine = NativeEngine(graph_of(build, (3, N), (3, M)), 1).load()
    check(engine, (3, n), (3, m))
    check(engine, (3, 4), (3, 4))
    check(engine, (3, n), (3, m))


def test_sizes_that_do_not_fit_are_refused_by_both() -> None:
    engine = NativeEngine(graph_of(lambda b, x, y: b.Add(x, y), (N,), (M,)), 1).load()
    inputs = [numbers((4,), 0), numbers((3,), 1)]
    with pytest.raises(IntaglioError):
        engine.run(inputs)
    with pytest.raises(IntaglioError):
        evaluate(engine.graph, inputs)


@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 1, 4), (1, 1, 4), (1, 4, 1), (4, 4, 1), (1, 1, 1)])
def test_three_sizes(sizes: tuple[int, int, int]) -> None:
    build = lambda b, x, y, z: b.Where(b.Less(x, y), b.Mul(y, z), z)  # noqa: E731
    engine = NativeEngine(graph_of(build, (N, 3), (M, 3), (K, 1)), 1).load()
    check(engine, *((size, 3) for size in sizes[:2]), (sizes[2], 1))


@pytest.mark.parametrize("size", [0, 1, 2, 17, 512])
def test_a_table_cut_to_the_length_of_the_input(size: int) -> None:
    """Position embeddings: the first n of 512 rows, which are min(512, n)."""
    table = numbers((512, 8), 5)

    def build(b: Any, x: Value) -> Value:
        length = b.Gather(b.Shape(x), [0])
        return b.Relu(b.Add(x, b.Slice(b.constant(table), [0], length, [0])))

    check(NativeEngine(graph_of(build, (N, 8)), 1).load(), (size, 8))


def test_a_size_and_its_double() -> None:
    """x has n columns and y twice as many: they fit only where n is 1 in one of them, or 0."""
    build = lambda b, x, y: b.Add(x, b.Concat(y, y, axis=0))  # noqa: E731
    engine = NativeEngine(graph_of(build, (N,), (M,)), 1).load()
    check(engine, (6,), (3,))
    check(engine, (1,), (3,))
    check(engine, (0,), (0,))
