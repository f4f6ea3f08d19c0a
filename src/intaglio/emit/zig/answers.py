"""Inputs that are made up for a model, and what the reference answers to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.errors import IntaglioError
from intaglio.ir.dim import Dim, symbols
from intaglio.ir.graph import Graph, Value
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type
from intaglio.ops.evaluate import evaluate as evaluate_graph

ATTEMPTS = 3
"""So often inputs are made up before none are stored."""

_FIRST_SIZE, _OTHER_SIZE, _IMAGE_SIZE = 2, 5, 16


def answers(graph: Graph) -> tuple[list[Any], list[Any]] | None:
    """Inputs and outputs; None where the reference takes none of the inputs that were made up, or gives no numbers."""
    if any(node.op.is_random for node in graph.all_nodes()):
        return None
    for seed in range(ATTEMPTS):
        generator, sizes = np.random.default_rng(seed), dict[str, int]()
        try:
            inputs = [_made(value, value.type, sizes, generator, ATTEMPTS - seed) for value in graph.inputs]
            with np.errstate(all="ignore"):
                return inputs, list(evaluate_graph(graph, inputs))
        except IntaglioError:
            continue
    return None


def _made(value: Value, type: Type, sizes: dict[str, int], generator: np.random.Generator, range: int) -> Any:
    if value.default is not None:
        return value.default
    if isinstance(type, OptionalType):
        return _made(value, type.element, sizes, generator, range)
    if isinstance(type, SequenceType):
        return [_made(value, type.element, sizes, generator, range) for _ in (0, 1)]
    assert isinstance(type, TensorType)
    shape = [_extent(dim, axis, type, sizes) for axis, dim in enumerate(type.dims)]
    if type.dtype.kind == "string":
        return np.array(generator.choice(["a", "bc", "d e"], shape), object)
    if type.dtype.kind in ("float", "complex"):
        return generator.normal(size=shape).astype(type.dtype.numpy)
    return generator.integers(0, 2 if type.dtype.kind == "bool" else range, shape).astype(type.dtype.numpy)


def _extent(dim: Dim, axis: int, type: TensorType, sizes: dict[str, int]) -> int:
    usual = _FIRST_SIZE if axis == 0 else _IMAGE_SIZE if type.rank == 4 and axis >= 2 else _OTHER_SIZE
    for name in sorted(symbols(dim)):
        sizes.setdefault(name, usual)
    return max(0, evaluate(dim, sizes))
