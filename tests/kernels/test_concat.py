"""Concat of so many inputs that a call for each would be too much code."""

from __future__ import annotations

import numpy as np
import pytest

from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.native import NativeEngine


@pytest.mark.parametrize("count", [31, 33, 70])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_concat_of_many_inputs(count: int, axis: int, is_open: bool) -> None:
    """Many inputs are joined by one call; some of them are empty, views or repeated."""
    generator = np.random.default_rng(count)
    extents = [int(n) for n in generator.integers(0, 4, count)]
    shapes = [[2, 3, 4] for _ in extents]
    for shape, extent in zip(shapes, extents, strict=True):
        shape[axis] = extent
    graph = Graph("many")
    builder = Builder(graph)
    inputs = []
    for place, shape in enumerate(shapes):
        sizes = [symbol(f"n{place}") if is_open and at == axis else size for at, size in enumerate(shape)]
        inputs.append(graph.add_input(f"x{place}", TensorType(FLOAT32, tuple(sizes))))
    turned = [builder.Neg(value) if place % 5 == 0 else value for place, value in enumerate(inputs)]
    graph.set_outputs([builder.Concat(*turned, turned[0], axis=axis)])
    arrays = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    engine = NativeEngine(graph, 2).load()
    assert not engine.form.hosts
    np.testing.assert_array_equal(engine.run(arrays)[0], evaluate(graph, arrays)[0])
