"""Attention compiled as one kernel, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import BOOL, FLOAT16, FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.native import NativeEngine

B, S, T, P = (symbol(name) for name in "BSTP")
EXTENTS = [(1, 1, 5, 3), (2, 37, 70, 1), (1, 150, 33, 0), (1, 2, 0, 4), (0, 3, 4, 2)]


def run(graph: Graph, shapes: dict[str, int], tolerance: float = 1e-5) -> None:
    engine = NativeEngine(graph, 2).load()
    assert not engine.form.hosts
    assert any("attention" in kernel.hint for kernel in engine.form.kernels)
    rng = np.random.default_rng(9)
    feeds: list[Any] = []
    for value in graph.inputs:
        shape = [shapes.get(str(dim), dim) for dim in value.shape]
        array: Any = rng.standard_normal(shape)  # pyright: ignore[reportArgumentType, reportCallIssue]
        feeds.append(array > -0.5 if value.dtype == BOOL else array.astype(value.dtype.numpy))
    with np.errstate(all="ignore"):
        expected = evaluate(graph, feeds)
    for got, wanted in zip(engine.run(feeds), expected, strict=True):
        np.testing.assert_allclose(
            got.astype(np.float32), wanted.astype(np.float32), rtol=10 * tolerance, atol=tolerance
        )


def model(
    heads: int, key_heads: int, size: int, mask: Any = None, past: bool = False, dtype: Any = FLOAT32, **attributes: Any
) -> Graph:
    graph = Graph("attention")
    builder = Builder(graph)
    values = [graph.add_input("q", TensorType(dtype, (B, heads, S, size)))]
    values += [graph.add_input(name, TensorType(dtype, (B, key_heads, T, size))) for name in "kv"]
    values.append(None if mask is None else graph.add_input("mask", mask))  # pyright: ignore[reportArgumentType]
    if past:
        values += [graph.add_input(name, TensorType(dtype, (B, key_heads, P, size))) for name in ("past_k", "past_v")]
    graph.set_outputs(
        builder.Attention(*values, outputs=3 if past else 1, **attributes)
        if past
        else [builder.Attention(*values, **attributes)]
    )
    return graph


@pytest.mark.parametrize("extents", EXTENTS)
@pytest.mark.parametrize("attributes", [{}, {"is_causal": 1}, {"softcap": 2.0, "scale": 0.3}])
def test_heads(extents: tuple[int, ...], attributes: dict[str, Any]) -> None:
    shapes = dict(zip("BSTP", extents, strict=True))
    run(model(4, 2, 13, **attributes), shapes)
    run(model(2, 2, 64, past=True, **attributes), shapes)


@pytest.mark.parametrize("extents", EXTENTS)
@pytest.mark.parametrize("shape", [(S, T), (B, 1, 1, T), (1, 2, 1, T), (B, 2, S, T)])
@pytest.mark.parametrize("dtype", [FLOAT32, BOOL])
def test_masks(extents: tuple[int, ...], shape: Any, dtype: Any) -> None:
    run(model(2, 2, 8, TensorType(dtype, shape), is_causal=1), dict(zip("BSTP", extents, strict=True)))


def test_packed_heads_and_half_precision() -> None:
    graph = Graph("packed")
    x = graph.add_input("x", TensorType(FLOAT32, (B, S, 36)))
    builder = Builder(graph)
    q, k, v = builder.Split(x, axis=2, num_outputs=3, outputs=3)
    graph.set_outputs([builder.Attention(q, k, v, q_num_heads=3, kv_num_heads=3)])
    run(graph, {"B": 2, "S": 19})
    run(model(2, 1, 16, dtype=FLOAT16), {"B": 1, "S": 20, "T": 17}, 1e-3)


def test_heads_that_move_behind_the_sequence() -> None:
    graph = Graph("moved")
    builder = Builder(graph)
    x = graph.add_input("x", TensorType(FLOAT32, (B, S, 24)))
    split = builder.Transpose(builder.Reshape(x, [0, 0, 2, 12]), perm=(0, 2, 1, 3))
    mixed = builder.Attention(split, split, split)
    graph.set_outputs([builder.Reshape(builder.Transpose(mixed, perm=(0, 2, 1, 3)), [0, 0, 24])])
    run(graph, {"B": 2, "S": 21})
